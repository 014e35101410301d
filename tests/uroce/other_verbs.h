/*
 * Stands between liburoce and libibverbs, as a real library with devices of its own: it notes which
 * of its functions was called, and does nothing.
 */
#ifndef OTHER_VERBS_H
#define OTHER_VERBS_H

#include <infiniband/verbs.h>

/* The function that was called last, since this was asked; "" if none was. */
const char *other_verbs_called(void);

/* What it has: an error other than 0 makes its list fail. */
extern struct ibv_device other_devices[2];
extern int other_list_error;

/* The list that was freed last. */
extern struct ibv_device **other_freed_list;

#endif
