/*
 * Shared context: what the ids on a device have in common, an open context, a protection domain and an
 * XRC domain.
 * Opened when first needed, and kept as long as the process lives, since programs keep what they
 * find in an id.
 */
#ifndef UR_SHARED_CONTEXT_H
#define UR_SHARED_CONTEXT_H

#include "../core/pd.h"
#include "../core/xrcd.h"

struct ur_shared_context {
	struct ur_context *context;
	struct ur_pd *pd;
	struct ur_xrcd *xrcd;
	const struct ur_shared_context *next;
};

/* Returns 0 or an errno. */
int ur_shared_context_get(struct ur_device *device, const struct ur_shared_context **shared);

#endif
