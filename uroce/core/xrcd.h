/*
 * XRC domain: the shared receive queues that a peer of a queue pair of type XRC_RECV can name. Who opens
 * the domain of the same file (inode) gets a handle of his own to the same domain, also in another
 * context of the device, but not in another process: the queues stand in the memory of the process that
 * made them.
 *
 * InfiniBand specification volume 1, annex A14.
 */
#ifndef UR_XRCD_H
#define UR_XRCD_H

#include "context.h"

struct ur_qp;
struct ur_srq;

/* Guarded by the device's lock. */
struct ur_xrc_domain {
	struct ur_xrc_domain *next; /* of the device */
	int fd;           /* of its file, so that no other file gets the inode; -1: it has none */
	unsigned handles; /* the last takes it along */
			  /* By the lower bits of their numbers. */
#define UR_XRC_BUCKETS 64
	struct ur_srq *srqs[UR_XRC_BUCKETS];
};

/* A handle. */
struct ur_xrcd {
	struct ibv_xrcd verbs; /* first */
	struct ur_context *context;
	struct ur_xrc_domain *domain;
	atomic_uint objects; /* that were made with it */
};

/*
 * As ibv_open_xrcd. NULL and errno, as the kernel's: EINVAL: not both of a file and flags, a flag that
 * is not known, or O_EXCL and the domain is there; EAGAIN: no domain of that file in this process, and
 * no O_CREAT; EOPNOTSUPP: attributes that are not known; EBADF; ENOMEM.
 */
struct ur_xrcd *ur_xrcd_open(struct ur_context *context, const struct ibv_xrcd_init_attr *attr);
/* Returns 0, or EBUSY while objects are left. */
int ur_xrcd_close(struct ur_xrcd *xrcd);

/* ---- Device's lock held ---- */

/* Gives a shared receive queue of the domain its number, of 24 bits, and makes it known by it. */
void ur_xrcd_add(struct ur_xrcd *xrcd, struct ur_srq *srq);

/*
 * Takes it out; what peers say it is for is refused from now on. Returns 0, or EBUSY: a message is under
 * way to a receive of it.
 */
int ur_xrcd_remove(struct ur_xrcd *xrcd, struct ur_srq *srq);

/*
 * Makes the shared receive queue with that number the target of a queue pair's next request. Returns
 * false if its domain has none, or the message under way is for another.
 */
bool ur_xrcd_aim(struct ur_qp *qp, uint32_t srqn);

#endif
