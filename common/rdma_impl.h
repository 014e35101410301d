/*
 * What rdma.c, connection.c and task.c know of each other.
 */
#ifndef RS_RDMA_IMPL_H
#define RS_RDMA_IMPL_H

#include <stdbool.h>

#include "context_impl.h"
#include "descriptor.h"
#include "rdma.h"

struct rs_connection {
	struct rs_rdma *rdma;
	struct ibv_qp *qp;
	enum rs_connection_state state;
	unsigned id;
	uint32_t qpn; /* also when the queue pair is gone */
	uint32_t psn;
	void *user_data;
	struct rs_descriptor peer; /* once connected */
	char line[RS_DESCRIPTOR_LINE_SIZE];
};

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
	struct rs_connection
		*connections; /* max_connections of them, the first connection_count in use */
	struct rs_connection **by_qpn; /* the same, sorted by queue pair number */
	unsigned connection_count;
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
/* A task has come back: its callback, exactly once. */
void rs_task_end(struct rs_task *task, enum rs_status status);

/* connection.c */
struct rs_connection *rs_connection_of_qpn(const struct rs_rdma *rdma, uint32_t qpn);
/* The same, without a search where there is but one. */
static inline struct rs_connection *connection_of_qpn(const struct rs_rdma *rdma, uint32_t qpn)
{
	if (rdma->connection_count == 1 && rdma->by_qpn[0]->qpn == qpn)
		return rdma->by_qpn[0];
	return rs_connection_of_qpn(rdma, qpn);
}
/* An error has ended the connection: tells the user, and stops the context if it was the last. */
void rs_connection_fail(struct rs_connection *connection, enum rs_status reason);
/* Moves the queue pair to error, so that what is in flight comes back. */
enum rs_status rs_connection_shut(struct rs_connection *connection);
void rs_connection_destroy_qp(struct rs_connection *connection);

#endif
