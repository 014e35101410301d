/*
 * What rdma.c, connection.c and task.c know of each other.
 */
#ifndef RS_RDMA_IMPL_H
#define RS_RDMA_IMPL_H

#include <stdbool.h>

#include "cm.h"
#include "context_impl.h"
#include "descriptor.h"
#include "rdma.h"

struct rs_connection {
	struct rs_rdma *rdma;
	struct ibv_qp *qp;
	enum rs_connection_state state;
	bool complete;
	unsigned id;
	uint32_t qpn; /* also when the queue pair is gone */
	uint32_t psn;
	void *user_data;
	struct rs_descriptor peer; /* once connected by descriptors */
	char line[RS_DESCRIPTOR_LINE_SIZE];

	/* Connected by address; else NULL. */
	struct rdma_cm_id *cm_id;
	uint8_t private_data[UINT8_MAX]; /* ours until the request is sent, then the peer's */
	size_t private_length;
	bool accepted;       /* by this side */
	bool end_is_due;     /* the peer has ended it, which is still to be told */
	uint8_t peer_reads;  /* at a time, that the peer will ask for, */
	uint8_t peer_serves; /* and that it serves */
};

static inline bool connection_has_ended(const struct rs_connection *connection)
{
	return connection->state == RS_CONNECTION_FAILED ||
	       connection->state == RS_CONNECTION_DISCONNECTED;
}

/* InfiniBand's encoding of the time that a sender waits when no receive is ready: 40.96 ms. */
#define RNR_TIMER    24
#define RNR_TIMER_MS 41

/*
 * How often it tries then: 6 is the most that ends (7 means for ever), so a receive may come 0.25 s
 * late.
 */
#define RNR_RETRIES 6

enum task_state { TASK_FREE, TASK_ALLOCATED, TASK_IN_FLIGHT };

struct rs_task {
	struct rs_rdma *rdma;
	struct rs_task *next_free;
	struct rs_connection *connection;
	struct rs_buf *source;
	struct rs_buf *destination;
	struct rs_sync_event_remote *event;
	void *user_data;
	uint64_t compare;
	uint64_t swap_or_add;
	size_t length; /* asked for, then moved */
	uint32_t immediate;
	enum rs_op op;
	enum task_state state;
	enum rs_status status;
	enum rs_receive_opcode received;
};

/* The tasks of one type. */
struct task_pool {
	struct rs_task *tasks;
	struct rs_task *free;
	size_t count;
	rs_task_cb completed;
	rs_task_cb failed;
};

struct rs_rdma {
	struct rs_ctx ctx; /* first, so that the one is the other */
	struct rs_device *device;

	char name[RS_DESCRIPTOR_NAME_SIZE];
	uint32_t access;
	int gid_index;
	unsigned max_connections;
	unsigned needed_connections;
	unsigned max_chain;
	unsigned max_sends; /* 0: as many as there are tasks */
	unsigned ack_timeout;
	unsigned retries;
	rs_connection_failed_cb connection_failed;
	struct rs_connection_callbacks callbacks;
	struct task_pool pools[RS_OP_COUNT];

	/* From start to Idle */
	struct ibv_gid_entry gid;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_srq *srq; /* NULL without receive tasks */
	int async_fd;
	bool armed;       /* the next completion signals the channel */
	bool device_lost; /* the device returns nothing more */
	size_t receives_in_flight;
	struct rs_connection *connections; /* max_connections of them, the first
					      connection_count in use */
	unsigned connection_count;
	struct rs_connection **by_qpn; /* those with a queue pair, sorted by its number */
	unsigned qp_count;
	struct rdma_event_channel *cm_channel; /* NULL until connecting by address begins */
	struct rdma_cm_id *cm_listener;
	unsigned ends_due; /* connections whose end is */
	bool in_batch;     /* completions were polled that are not handled yet */
};

/* Starting or Running. */
static inline bool rs_rdma_is_up(const struct rs_rdma *rdma)
{
	return rdma->ctx.state == RS_CTX_STARTING || rdma->ctx.state == RS_CTX_RUNNING;
}

/* Places that each send queue has. */
size_t rs_rdma_send_places(const struct rs_rdma *rdma);

/*
 * task.c: makes count tasks of the type in place of those before, none of which is in use; or
 * changes nothing.
 */
enum rs_status rs_task_pool_create(struct rs_rdma *rdma, enum rs_op op, rs_task_cb completed,
				   rs_task_cb failed, size_t count);
void rs_task_pool_destroy(struct task_pool *pool);
bool rs_task_pool_is_in_use(const struct task_pool *pool);
/* The connections are going: allocated tasks must not refer to them. */
void rs_task_pool_forget_connections(struct task_pool *pool);
/* Whether a task in flight is the connection's (receives are nobody's). */
bool rs_task_refers_to(const struct rs_rdma *rdma, const struct rs_connection *connection);
/* A task has come back: its callback, exactly once. */
void rs_task_end(struct rs_task *task, enum rs_status status);

/* connection.c */
struct rs_connection *rs_connection_of_qpn(const struct rs_rdma *rdma, uint32_t qpn);
/* The same, without a search where there is but one. */
static inline struct rs_connection *connection_of_qpn(const struct rs_rdma *rdma, uint32_t qpn)
{
	if (rdma->qp_count == 1 && rdma->by_qpn[0]->qpn == qpn)
		return rdma->by_qpn[0];
	return rs_connection_of_qpn(rdma, qpn);
}
/* An error has ended the connection: tells the user, and stops the context if it was the last. */
void rs_connection_fail(struct rs_connection *connection, enum rs_status reason);
/* Moves the queue pair to error, so that what is in flight comes back. */
enum rs_status rs_connection_shut(struct rs_connection *connection);
void rs_connection_destroy_qp(struct rs_connection *connection);
/*
 * A place for one more, or NULL; reuse: it may be that of one that has ended and of which nothing is
 * in flight.
 */
struct rs_connection *rs_connection_take_place(struct rs_rdma *rdma, bool reuse);
/* Its queue pair, in the state INIT. */
enum rs_status rs_connection_make_qp(struct rs_connection *connection);
/* Whether it is one of those that Running needs. */
bool rs_connection_counts(const struct rs_connection *connection);
/* Stops the context if it cannot reach Running any more, or has lost its last connection. */
void rs_connection_check_hope(struct rs_rdma *rdma, enum rs_status reason);
/* Reads and atomics at a time that this side serves, and that its device can ask for. */
uint8_t rs_connection_served_reads(const struct rs_rdma *rdma);
uint8_t rs_connection_asked_reads(const struct rs_rdma *rdma);

/* cm.c */
/* The peer is told that the connection ends. */
void rs_cm_shut(struct rs_connection *connection);
/* Ends those whose end is due, if it is time. Returns how many. */
size_t rs_cm_end_due(struct rs_rdma *rdma);
void rs_cm_forget(struct rs_connection *connection);
void rs_cm_close(struct rs_rdma *rdma);
/* An event of its queue pair, for the connection manager. */
void rs_cm_notify(struct rs_connection *connection, enum ibv_event_type event);

/* rdma.c: all that has completed is handled. */
void rs_rdma_complete_all(struct rs_rdma *rdma);
enum rs_status rs_rdma_set_nonblocking(int fd);

#endif
