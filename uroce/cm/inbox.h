/*
 * Inbox: messages of the connection manager on their way from the engines' threads to its own.
 * Bounded: what is too much is dropped, since peers ask again. Its functions do not lock.
 */
#ifndef UR_INBOX_H
#define UR_INBOX_H

#include "../core/device.h"
#include "../wire/cm_message.h"

#define UR_INBOX_SIZE 4096

struct ur_inbox_entry {
	struct ur_device *device;
	struct ur_path from;
	struct ur_cm_message message;
};

/* Zeros: empty. */
struct ur_inbox {
	struct ur_inbox_entry *entries; /* allocated by ur_inbox_create */
	size_t first, count;
};

/* Returns 0 or ENOMEM. */
int ur_inbox_create(struct ur_inbox *inbox);

/* False: full. */
bool ur_inbox_put(struct ur_inbox *inbox, const struct ur_inbox_entry *entry);
/* False: empty. */
bool ur_inbox_take(struct ur_inbox *inbox, struct ur_inbox_entry *entry);

#endif
