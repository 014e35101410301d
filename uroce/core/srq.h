/*
 * Shared receive queue.
 */
#ifndef UR_SRQ_H
#define UR_SRQ_H

#include "cq.h"
#include "pd.h"
#include "recv_queue.h"
#include "xrcd.h"

struct ur_srq {
	struct ibv_srq verbs; /* first */
	struct ur_pd *pd;     /* that protects the memory of receives */
	struct ur_pd *owner;  /* that it was made with: its own memory may be from it */
	struct ur_xrcd *xrcd; /* NULL: of no XRC domain, and without a queue for completions */
	struct ur_cq *cq;
	struct ur_context *context;
	uint32_t number;
	atomic_uint objects; /* queue pairs on it; those of XRC domains only name it */

	/* Guarded by the device's lock. */
	struct ur_srq *domain_next;
	struct ur_recv_queue queue;
	uint32_t limit; /* 0: not armed */
	struct ur_async_event limit_event;
};

/* NULL and errno on failure. The limit of attr is not looked at (man ibv_create_srq). */
struct ur_srq *ur_srq_create(struct ur_pd *pd, void *srq_context, const struct ibv_srq_attr *attr);
/*
 * One of an XRC domain (IBV_SRQT_XRC). What comes through queue pairs of the domain completes to cq, and
 * reaches memory of pd.
 */
struct ur_srq *ur_srq_create_xrc(struct ur_pd *pd, struct ur_xrcd *xrcd, struct ur_cq *cq,
				 void *srq_context, const struct ibv_srq_attr *attr);
/*
 * As ibv_modify_srq. Returns 0 or an errno, and then nothing was changed. A limit that is not
 * reached when it is set raises its event at once: no receive may ever be taken that could raise
 * it.
 */
int ur_srq_modify(struct ur_srq *srq, const struct ibv_srq_attr *attr, int mask);
int ur_srq_query(struct ur_srq *srq, struct ibv_srq_attr *attr);
/*
 * Returns 0, or EBUSY while queue pairs are on it, or (of an XRC domain) a message is under way to one of
 * its receives; waits for its events to be acknowledged.
 */
int ur_srq_destroy(struct ur_srq *srq);
/* ibv_post_srq_recv */
int ur_srq_post(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);

/* The number of the next one. */
uint32_t ur_srq_next_number(void);

/* Takes the oldest receive, and raises the limit event if fewer are left. Device's lock held. */
bool ur_srq_take(struct ur_srq *srq, struct ur_recv_wqe *wqe);

#endif
