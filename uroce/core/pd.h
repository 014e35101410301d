/*
 * Protection domain, and what stands for one: a parent domain, whose queues get their memory from the
 * program, or the imported handle of one that another context has allocated.
 */
#ifndef UR_PD_H
#define UR_PD_H

#include "context.h"

/* A promise to use objects from one thread at a time. As the engine uses them too, nothing gets easier. */
struct ur_td {
	struct ibv_td verbs; /* first */
	struct ur_context *context;
	atomic_uint objects; /* parent domains */
};

struct ur_pd {
	struct ibv_pd verbs; /* first */
	struct ur_context *context;
	/* That hold it; of a parent domain only those whose memory is from it. */
	atomic_uint objects;

	/* Of what stands for another: that one, which protects. NULL: it does so itself. */
	struct ur_pd *protection;
	bool imported;
	struct ur_td *td; /* NULL: none */
	/* Where memory comes from (ibv_alloc_parent_domain). NULL: the C library. */
	void *(*alloc)(struct ibv_pd *pd, void *pd_context, size_t size, size_t alignment,
		       uint64_t resource_type);
	void (*free)(struct ibv_pd *pd, void *pd_context, void *memory, uint64_t resource_type);
	void *pd_context;

	struct ur_pd *next; /* among the device's that protect; guarded by its lock */
};

/* The one that protects what is made with it. */
static inline struct ur_pd *ur_pd_protection(struct ur_pd *pd)
{
	return pd->protection ? pd->protection : pd;
}

/* The one that queues made with it hold: their memory may be from it. */
static inline struct ur_pd *ur_pd_owner(struct ur_pd *pd)
{
	return pd->imported ? pd->protection : pd;
}

/* NULL and errno on failure. */
struct ur_pd *ur_pd_alloc(struct ur_context *context);
/* Of any kind. Returns 0, or EBUSY while objects are left. */
int ur_pd_dealloc(struct ur_pd *pd);

/*
 * ibv_import_pd: another handle of the one with that number, of any context of the device in this process.
 * It goes with ur_pd_dealloc, before or after what was made with it. NULL and errno: EINVAL, ENOMEM.
 */
struct ur_pd *ur_pd_import(struct ur_context *context, uint32_t handle);

/* NULL and errno: EINVAL, EOPNOTSUPP (unknown bits of a comp_mask), ENOMEM. */
struct ur_td *ur_td_alloc(struct ur_context *context, const struct ibv_td_init_attr *attr);
/* Returns 0, or EBUSY while parent domains are left. */
int ur_td_dealloc(struct ur_td *td);
struct ur_pd *ur_parent_domain_alloc(struct ur_context *context,
				     const struct ibv_parent_domain_init_attr *attr);

#endif
