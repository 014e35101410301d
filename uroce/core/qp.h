/*
 * Queue pair. What guards it is the device's lock.
 */
#ifndef UR_QP_H
#define UR_QP_H

#include "../transport/requester.h"
#include "../transport/responder.h"
#include "cq.h"
#include "pd.h"
#include "recv_queue.h"
#include "send_queue.h"
#include "srq.h"

/*
 * What the peer's requests have to do with. Of a queue pair of an XRC domain that is up to the shared
 * receive queue that the newest of them names; all are NULL before the first, and once that is gone.
 */
struct ur_target {
	const struct ur_pd *pd; /* whose memory they reach */
	struct ur_srq *srq;     /* whose receives they take; NULL: the queue pair's own */
	struct ur_cq *cq;       /* where those complete */
};

/* What its type has nothing to do with is NULL. */
struct ur_qp {
	union {
		struct ibv_qp verbs;
		struct ibv_qp_ex verbs_ex;
	};
	struct ur_context *context;
	struct ur_device *device;
	struct ur_pd *pd;    /* that protects */
	struct ur_pd *owner; /* that it was made with: memory of its queues may be from it */
	struct ur_cq *send_cq;
	struct ur_cq *recv_cq;
	struct ur_srq *srq;   /* NULL: rq holds its receives */
	struct ur_xrcd *xrcd; /* of XRC_RECV */
	struct ur_target target;
	uint32_t service;     /* flags that all packets for it have */
	uint8_t first_opcode; /* of its service */
	struct ibv_qp_cap cap;
	bool signal_all;
	/* As it is now; attr.qp_state is the state, and verbs.state a copy for programs. */
	struct ibv_qp_attr attr;

	/* Since ready to receive. */
	struct ur_path path;
	struct ur_carrier *carrier;
	uint32_t mtu;         /* bytes of payload in a packet; of datagrams from the start */
	unsigned group_count; /* multicast groups that it is attached to */
	bool hears_itself;    /* gets what it sends to one of these */

	struct ur_send_queue sq;
	struct ur_recv_queue rq;
	struct ur_requester requester; /* or the sender, which uses a part of it */
	struct ur_responder responder;
	struct ur_mw *windows; /* of type 2, bound through it */

	/* One of each can wait to be read. */
	struct ur_async_event fatal_event;       /* IBV_EVENT_QP_FATAL */
	struct ur_async_event request_event;     /* IBV_EVENT_QP_REQ_ERR */
	struct ur_async_event access_event;      /* IBV_EVENT_QP_ACCESS_ERR */
	struct ur_async_event established_event; /* IBV_EVENT_COMM_EST */
	struct ur_async_event last_wqe_event;    /* IBV_EVENT_QP_LAST_WQE_REACHED */
	struct ur_async_event drained_event;     /* IBV_EVENT_SQ_DRAINED */

	/* Of the engine. */
	uint64_t deadline; /* UR_NEVER: no timer */
	struct ur_qp *timer_next, *timer_prev;
	bool timed;
	struct ur_qp *scheduled_next;
	bool scheduled;
	bool blocked; /* packets of it did not go out; goes on when the carrier can send again */

	/*
	 * Of ibv_wr_*: entries filled behind the tail, how many there may be, the first error. Held from
	 * start to complete, and while others are posted.
	 */
	pthread_mutex_t builder_lock;
	bool extended;
	uint32_t staged;
	uint32_t staged_room;
	int staged_error;
};

static inline bool ur_qp_is_datagram(const struct ur_qp *qp)
{
	return qp->verbs.qp_type == IBV_QPT_UD;
}

static inline bool ur_qp_is_reliable(const struct ur_qp *qp)
{
	return qp->service & (UR_IS_RC | UR_IS_XRC);
}

static inline bool ur_qp_is_extended(const struct ur_qp *qp)
{
	return qp->service & UR_IS_XRC;
}

/* Whether packets are for such a queue pair that have these flags. */
static inline bool ur_qp_takes(const struct ur_qp *qp, uint32_t flags)
{
	return (flags & qp->service) == qp->service;
}

/* Its receives are not its own, but taken from one or many that share them. */
static inline bool ur_qp_shares_receives(const struct ur_qp *qp)
{
	return qp->srq || qp->xrcd;
}

/*
 * NULL and errno. Of the attributes, those are looked at that the type has a use for: XRC_SEND has no
 * receives, XRC_RECV nothing but its domain. attr->cap becomes what is given: what was asked for, and room
 * for inline data that is at least as large as the pieces.
 */
struct ur_qp *ur_qp_create(struct ur_context *context, struct ibv_qp_init_attr_ex *attr);
/*
 * Returns 0, or EBUSY: it is attached to a multicast group. Waits until its events are acknowledged.
 */
int ur_qp_destroy(struct ur_qp *qp);
int ur_qp_modify(struct ur_qp *qp, struct ibv_qp_attr *attr, int mask);
int ur_qp_query(struct ur_qp *qp, struct ibv_qp_attr *attr, int mask,
		struct ibv_qp_init_attr *init_attr);

/* ibv_post_send, ibv_post_recv */
int ur_qp_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr);
int ur_qp_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);

/* Sets the ibv_wr_* functions; ops: those that are wanted (IBV_QP_EX_WITH_…). Returns 0 or EOPNOTSUPP. */
int ur_qp_set_wr_ops(struct ur_qp *qp, uint64_t ops);

/* Whether an entry of the send queue is right as a whole. Returns 0 or EINVAL. */
int ur_qp_check_send(const struct ur_qp *qp, const struct ur_send_wqe *wqe);

/* ---- Device's lock held ---- */

/* Whether the state permits to post sends. */
bool ur_qp_takes_sends(const struct ur_qp *qp);
static inline void ur_qp_set_state(struct ur_qp *qp, enum ibv_qp_state state)
{
	qp->attr.qp_state = state;
	qp->verbs.state = state;
}

/* Sends what it can. */
void ur_qp_transmit(struct ur_qp *qp, uint64_t now);
/* Its deadline has come. */
void ur_qp_run_timer(struct ur_qp *qp, uint64_t now);
/* Goes on with what is scheduled: answers, or the rest of a burst. Returns whether there is more. */
bool ur_qp_go_on(struct ur_qp *qp);
/* Begins with count entries that were filled behind the tail of the send queue. */
void ur_qp_add_sends(struct ur_qp *qp, uint32_t count);

/*
 * In the state SQD: raises IBV_EVENT_SQ_DRAINED if it was asked for and all that was begun has completed.
 * Called whenever an entry has.
 */
void ur_qp_check_drained(struct ur_qp *qp);

#endif
