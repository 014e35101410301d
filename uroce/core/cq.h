/*
 * Completion queue: a ring that packets and requests fill, and a program empties. It has a lock of
 * its own, so that polling does not wait for packets that are being handled.
 */
#ifndef UR_CQ_H
#define UR_CQ_H

#include "block.h"
#include "channel.h"

/* What verbs report of one completion, and when it was. */
struct ur_cqe {
	struct ibv_wc wc;
	uint64_t timestamp; /* CLOCK_MONOTONIC, ns; 0 if the queue has no use for it */
	uint64_t wallclock;
};

enum ur_cq_arm { UR_CQ_NOT_ARMED, UR_CQ_ARMED_SOLICITED, UR_CQ_ARMED };

struct ur_cq {
	union {
		struct ibv_cq verbs;
		struct ibv_cq_ex verbs_ex;
	};
	struct ur_context *context;
	struct ur_channel *channel; /* NULL: none */
	struct ur_pd *owner;        /* a parent domain that its memory may be from, or NULL */
	atomic_uint objects;        /* queue pairs and shared receive queues that complete to it */
	bool timestamps;

	pthread_mutex_t lock;
	struct ur_block block;
	struct ur_cqe *ring; /* capacity entries, in the block */
	uint32_t capacity;
	uint32_t head;
	uint32_t count;
	enum ur_cq_arm arm;
	bool overrun;
	struct ur_async_event error_event;

	/*
	 * Of the extended poll. Not the lock above: from start to end a program may post requests,
	 * which takes the device's lock, under which completions are pushed.
	 */
	pthread_mutex_t poll_lock;
	struct ur_cqe current;

	/* Of the channel, guarded by its lock. */
	struct ur_cq *next;
	unsigned pending_events;
	uint32_t events_read; /* the program owes as many acknowledgements */
	bool in_channel;
};

/* NULL and errno. channel may be NULL. extended: attributes of ibv_create_cq_ex, or NULL. */
struct ur_cq *ur_cq_create(struct ur_context *context, int cqe, void *cq_context,
			   struct ur_channel *channel, int comp_vector,
			   const struct ibv_cq_init_attr_ex *extended);
/* Returns 0, or EBUSY; waits until the program has acknowledged its events. */
int ur_cq_destroy(struct ur_cq *cq);
/* ibv_ack_cq_events */
void ur_cq_acknowledge(struct ur_cq *cq, unsigned events);
/* Returns 0 or an errno. EINVAL: fewer than what is in it. */
int ur_cq_resize(struct ur_cq *cq, int cqe);

/*
 * Adds a completion, and signals the channel if the queue is armed for it. solicited: the message
 * had that bit. A queue that is full loses it, raises IBV_EVENT_CQ_ERR and keeps an overrun flag.
 */
void ur_cq_push(struct ur_cq *cq, const struct ibv_wc *wc, bool solicited);

/* Takes out what a queue pair has completed: it was reset, and forgets what it did. */
void ur_cq_forget(struct ur_cq *cq, uint32_t qp_num);

/*
 * The operations of verbs: ibv_poll_cq, ibv_req_notify_cq. Polling an empty queue drives the
 * engine.
 */
int ur_cq_poll(struct ibv_cq *cq, int count, struct ibv_wc *wc);
int ur_cq_request_notification(struct ibv_cq *cq, int solicited_only);

/* Takes the oldest completion; false: there is none. */
bool ur_cq_take(struct ur_cq *cq, struct ur_cqe *cqe);

/*
 * Makes a queue an extended one. Returns 0, EINVAL, or EOPNOTSUPP: what attr asks for is not there.
 */
int ur_cq_extend(struct ur_cq *cq, const struct ibv_cq_init_attr_ex *attr);

#endif
