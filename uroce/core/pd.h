/*
 * Protection domain.
 */
#ifndef UR_PD_H
#define UR_PD_H

#include "context.h"

struct ur_pd {
	struct ibv_pd verbs; /* first */
	struct ur_context *context;
	atomic_uint objects; /* that hold it */
};

/* NULL and errno on failure. */
struct ur_pd *ur_pd_alloc(struct ur_context *context);
/* Returns 0, or EBUSY while objects are left. */
int ur_pd_dealloc(struct ur_pd *pd);

#endif
