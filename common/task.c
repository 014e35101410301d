#define LOG_MODULE "task"

#include "task.h"

#include <arpa/inet.h>
#include <stdlib.h>

#include "buf_impl.h"
#include "log.h"
#include "rdma_impl.h"
#include "slow_path.h"
#include "sync_event.h"

/* What atomics and tasks on sync events move. */
#define WORD_LENGTH sizeof(uint64_t)

const char *rs_receive_opcode_name(enum rs_receive_opcode opcode)
{
	static const char *const names[] = {
		[RS_RECEIVED_SEND] = "send",
		[RS_RECEIVED_SEND_IMMEDIATE] = "send with immediate",
		[RS_RECEIVED_WRITE_IMMEDIATE] = "write with immediate",
	};

	return (unsigned)opcode < sizeof(names) / sizeof(names[0]) ? names[opcode] : "unknown";
}

enum rs_status rs_task_pool_create(struct rs_rdma *rdma, enum rs_op op, rs_task_cb completed,
				   rs_task_cb failed, size_t count)
{
	struct task_pool *pool = &rdma->pools[op];
	struct rs_task *tasks = calloc(count, sizeof(*tasks));

	if (!tasks)
		return RS_ERR_NO_MEMORY;
	free(pool->tasks);
	*pool = (struct task_pool){
		.tasks = tasks, .count = count, .completed = completed, .failed = failed
	};
	while (count-- > 0) {
		tasks[count].rdma = rdma;
		tasks[count].op = op;
		tasks[count].next_free = pool->free;
		pool->free = &tasks[count];
	}
	return RS_OK;
}

void rs_task_pool_destroy(struct task_pool *pool)
{
	free(pool->tasks);
	*pool = (struct task_pool){ 0 };
}

bool rs_task_pool_is_in_use(const struct task_pool *pool)
{
	for (size_t i = 0; i < pool->count; i++)
		if (pool->tasks[i].state != TASK_FREE)
			return true;
	return false;
}

void rs_task_pool_forget_connections(struct task_pool *pool)
{
	for (size_t i = 0; i < pool->count; i++)
		pool->tasks[i].connection = NULL;
}

bool rs_task_refers_to(const struct rs_rdma *rdma, const struct rs_connection *connection)
{
	for (unsigned op = 0; op < RS_OP_COUNT; op++) {
		const struct task_pool *pool = &rdma->pools[op];

		for (size_t i = 0; op != RS_OP_RECEIVE && i < pool->count; i++)
			if (pool->tasks[i].state == TASK_IN_FLIGHT &&
			    pool->tasks[i].connection == connection)
				return true;
	}
	return false;
}

static bool source_is_remote(enum rs_op op)
{
	return op == RS_OP_READ || op == RS_OP_COMPARE_AND_SWAP || op == RS_OP_FETCH_AND_ADD;
}

static bool destination_is_remote(enum rs_op op)
{
	return op == RS_OP_WRITE || op == RS_OP_WRITE_IMMEDIATE;
}

/* Those that bring a value of the event here. */
static bool fetches_event(enum rs_op op)
{
	return op == RS_OP_EVENT_GET || op == RS_OP_EVENT_ADD;
}

/* Their remote side is an event, in place of a buffer. */
static bool needs_event(enum rs_op op)
{
	return fetches_event(op) || op == RS_OP_EVENT_SET;
}

/* A remote buffer must be there; a local one may be missing where no data need be moved. */
static bool fits(const struct rs_buf *buf, bool remote, bool needed)
{
	return buf ? rs_buf_is_remote(buf) == remote : !remote && !needed;
}

static bool fits_as_source(const struct rs_buf *buf, enum rs_op op)
{
	return fits(buf, source_is_remote(op), op == RS_OP_EVENT_SET);
}

static bool fits_as_destination(const struct rs_buf *buf, enum rs_op op)
{
	return fits(buf, destination_is_remote(op), fetches_event(op));
}

/* The fields that the type has no use for are 0. */
static enum rs_status alloc_task(struct rs_rdma *rdma, const struct rs_task *fields,
				 struct rs_task **task)
{
	struct task_pool *pool = &rdma->pools[fields->op];
	struct rs_task *taken = pool->free;

	if (!rs_rdma_is_up(rdma))
		return RS_ERR_BAD_STATE;
	if (pool->count == 0 ||
	    (fields->op != RS_OP_RECEIVE &&
	     (!fields->connection || fields->connection->rdma != rdma)) ||
	    (needs_event(fields->op) && !fields->event) ||
	    !fits_as_source(fields->source, fields->op) ||
	    !fits_as_destination(fields->destination, fields->op))
		return RS_ERR_INVALID_VALUE;
	if (!taken)
		return RS_ERR_FULL;
	pool->free = taken->next_free;
	*taken = *fields;
	taken->rdma = rdma;
	taken->state = TASK_ALLOCATED;
	*task = taken;
	return RS_OK;
}

enum rs_status rs_task_alloc_send(struct rs_rdma *rdma, struct rs_connection *connection,
				  struct rs_buf *source, void *user_data, struct rs_task **task)
{
	return alloc_task(rdma,
			  &(struct rs_task){ .op = RS_OP_SEND,
					     .connection = connection,
					     .source = source,
					     .user_data = user_data },
			  task);
}

enum rs_status rs_task_alloc_send_immediate(struct rs_rdma *rdma, struct rs_connection *connection,
					    struct rs_buf *source, uint32_t immediate,
					    void *user_data, struct rs_task **task)
{
	return alloc_task(rdma,
			  &(struct rs_task){ .op = RS_OP_SEND_IMMEDIATE,
					     .connection = connection,
					     .source = source,
					     .immediate = immediate,
					     .user_data = user_data },
			  task);
}

enum rs_status rs_task_alloc_receive(struct rs_rdma *rdma, struct rs_buf *destination,
				     void *user_data, struct rs_task **task)
{
	return alloc_task(rdma,
			  &(struct rs_task){ .op = RS_OP_RECEIVE,
					     .destination = destination,
					     .user_data = user_data },
			  task);
}

enum rs_status rs_task_alloc_write(struct rs_rdma *rdma, struct rs_connection *connection,
				   struct rs_buf *source, struct rs_buf *destination,
				   void *user_data, struct rs_task **task)
{
	return alloc_task(rdma,
			  &(struct rs_task){ .op = RS_OP_WRITE,
					     .connection = connection,
					     .source = source,
					     .destination = destination,
					     .user_data = user_data },
			  task);
}

enum rs_status rs_task_alloc_write_immediate(struct rs_rdma *rdma, struct rs_connection *connection,
					     struct rs_buf *source, struct rs_buf *destination,
					     uint32_t immediate, void *user_data,
					     struct rs_task **task)
{
	return alloc_task(rdma,
			  &(struct rs_task){ .op = RS_OP_WRITE_IMMEDIATE,
					     .connection = connection,
					     .source = source,
					     .destination = destination,
					     .immediate = immediate,
					     .user_data = user_data },
			  task);
}

enum rs_status rs_task_alloc_read(struct rs_rdma *rdma, struct rs_connection *connection,
				  struct rs_buf *source, struct rs_buf *destination,
				  void *user_data, struct rs_task **task)
{
	return alloc_task(rdma,
			  &(struct rs_task){ .op = RS_OP_READ,
					     .connection = connection,
					     .source = source,
					     .destination = destination,
					     .user_data = user_data },
			  task);
}

enum rs_status rs_task_alloc_compare_and_swap(struct rs_rdma *rdma,
					      struct rs_connection *connection,
					      struct rs_buf *target, struct rs_buf *destination,
					      uint64_t compare, uint64_t swap, void *user_data,
					      struct rs_task **task)
{
	return alloc_task(rdma,
			  &(struct rs_task){ .op = RS_OP_COMPARE_AND_SWAP,
					     .connection = connection,
					     .source = target,
					     .destination = destination,
					     .compare = compare,
					     .swap_or_add = swap,
					     .user_data = user_data },
			  task);
}

enum rs_status rs_task_alloc_fetch_and_add(struct rs_rdma *rdma, struct rs_connection *connection,
					   struct rs_buf *target, struct rs_buf *destination,
					   uint64_t add, void *user_data, struct rs_task **task)
{
	return alloc_task(rdma,
			  &(struct rs_task){ .op = RS_OP_FETCH_AND_ADD,
					     .connection = connection,
					     .source = target,
					     .destination = destination,
					     .swap_or_add = add,
					     .user_data = user_data },
			  task);
}

enum rs_status rs_task_alloc_event_get(struct rs_rdma *rdma, struct rs_connection *connection,
				       struct rs_sync_event_remote *event,
				       struct rs_buf *destination, void *user_data,
				       struct rs_task **task)
{
	return alloc_task(rdma,
			  &(struct rs_task){ .op = RS_OP_EVENT_GET,
					     .connection = connection,
					     .event = event,
					     .destination = destination,
					     .user_data = user_data },
			  task);
}

enum rs_status rs_task_alloc_event_set(struct rs_rdma *rdma, struct rs_connection *connection,
				       struct rs_sync_event_remote *event, struct rs_buf *source,
				       void *user_data, struct rs_task **task)
{
	return alloc_task(rdma,
			  &(struct rs_task){ .op = RS_OP_EVENT_SET,
					     .connection = connection,
					     .event = event,
					     .source = source,
					     .user_data = user_data },
			  task);
}

enum rs_status rs_task_alloc_event_add(struct rs_rdma *rdma, struct rs_connection *connection,
				       struct rs_sync_event_remote *event,
				       struct rs_buf *destination, uint64_t add, void *user_data,
				       struct rs_task **task)
{
	return alloc_task(rdma,
			  &(struct rs_task){ .op = RS_OP_EVENT_ADD,
					     .connection = connection,
					     .event = event,
					     .destination = destination,
					     .swap_or_add = add,
					     .user_data = user_data },
			  task);
}

static const enum ibv_wr_opcode wr_opcodes[RS_OP_COUNT] = {
	[RS_OP_SEND] = IBV_WR_SEND,
	[RS_OP_SEND_IMMEDIATE] = IBV_WR_SEND_WITH_IMM,
	[RS_OP_WRITE] = IBV_WR_RDMA_WRITE,
	[RS_OP_WRITE_IMMEDIATE] = IBV_WR_RDMA_WRITE_WITH_IMM,
	[RS_OP_READ] = IBV_WR_RDMA_READ,
	[RS_OP_COMPARE_AND_SWAP] = IBV_WR_ATOMIC_CMP_AND_SWP,
	[RS_OP_FETCH_AND_ADD] = IBV_WR_ATOMIC_FETCH_AND_ADD,
	[RS_OP_EVENT_GET] = IBV_WR_RDMA_READ,
	[RS_OP_EVENT_SET] = IBV_WR_RDMA_WRITE,
	[RS_OP_EVENT_ADD] = IBV_WR_ATOMIC_FETCH_AND_ADD,
};

static enum rs_status fill_send(struct rs_task *task, struct ibv_send_wr *wr,
				struct rs_sge_list *list)
{
	wr->imm_data = htonl(task->immediate);
	return buf_gather(task->source, task->rdma->device, list);
}

static enum rs_status fill_write(struct rs_task *task, struct ibv_send_wr *wr,
				 struct rs_sge_list *list)
{
	size_t room;
	enum rs_status status = fill_send(task, wr, list);

	if (status != RS_OK)
		return status;
	status = rs_buf_remote_room(task->destination, &wr->wr.rdma.remote_addr, &room,
				    &wr->wr.rdma.rkey);
	if (status == RS_OK && room < list->length)
		return RS_ERR_TOO_BIG;
	return status;
}

static enum rs_status fill_read(struct rs_task *task, struct ibv_send_wr *wr,
				struct rs_sge_list *list)
{
	size_t length;
	enum rs_status status = rs_buf_remote_data(task->source, &wr->wr.rdma.remote_addr, &length,
						   &wr->wr.rdma.rkey);

	if (status != RS_OK)
		return status;
	return buf_scatter(task->destination, length, task->rdma->device, list);
}

static void fill_operands(const struct rs_task *task, struct ibv_send_wr *wr)
{
	wr->wr.atomic.compare_add =
		task->op == RS_OP_COMPARE_AND_SWAP ? task->compare : task->swap_or_add;
	wr->wr.atomic.swap = task->swap_or_add;
}

static enum rs_status fill_atomic(struct rs_task *task, struct ibv_send_wr *wr,
				  struct rs_sge_list *list)
{
	size_t length;
	enum rs_status status = rs_buf_remote_data(task->source, &wr->wr.atomic.remote_addr,
						   &length, &wr->wr.atomic.rkey);

	if (status != RS_OK)
		return status;
	if (length < WORD_LENGTH || wr->wr.atomic.remote_addr % WORD_LENGTH != 0)
		return RS_ERR_INVALID_VALUE;
	fill_operands(task, wr);
	return buf_scatter(task->destination, WORD_LENGTH, task->rdma->device, list);
}

/* Less would set part of the event, more would go beyond it. */
static enum rs_status gather_word(struct rs_task *task, struct rs_sge_list *list)
{
	enum rs_status status = rs_buf_gather(task->source, task->rdma->device, list);

	if (status == RS_OK && list->length != WORD_LENGTH)
		return RS_ERR_INVALID_VALUE;
	return status;
}

/*
 * Out of line, so that the choice among the other operations stays a few comparisons. An event's
 * address is a multiple of 8: its descriptor was checked.
 */
static RS_SLOW_PATH enum rs_status fill_event(struct rs_task *task, struct ibv_send_wr *wr,
					      struct rs_sge_list *list)
{
	uint64_t address = rs_sync_event_remote_address(task->event);
	uint32_t key = rs_sync_event_remote_key(task->event);

	if (task->op == RS_OP_EVENT_ADD) {
		wr->wr.atomic.remote_addr = address;
		wr->wr.atomic.rkey = key;
		fill_operands(task, wr);
	} else {
		wr->wr.rdma.remote_addr = address;
		wr->wr.rdma.rkey = key;
	}
	if (task->op == RS_OP_EVENT_SET)
		return gather_word(task, list);
	return rs_buf_scatter(task->destination, WORD_LENGTH, task->rdma->device, list);
}

static enum rs_status fill_request(struct rs_task *task, struct ibv_send_wr *wr,
				   struct rs_sge_list *list)
{
	switch (task->op) {
	case RS_OP_WRITE:
	case RS_OP_WRITE_IMMEDIATE:
		return fill_write(task, wr, list);
	case RS_OP_READ:
		return fill_read(task, wr, list);
	case RS_OP_COMPARE_AND_SWAP:
	case RS_OP_FETCH_AND_ADD:
		return fill_atomic(task, wr, list);
	case RS_OP_EVENT_GET:
	case RS_OP_EVENT_SET:
	case RS_OP_EVENT_ADD:
		return fill_event(task, wr, list);
	default:
		return fill_send(task, wr, list);
	}
}

static RS_SLOW_PATH enum rs_status refuse_post(const struct rs_task *task,
					       const struct rs_sge_list *list, int error)
{
	if (error == ENOMEM)
		return RS_ERR_FULL;
	if (task->op == RS_OP_RECEIVE)
		return LOG_FAILED_CALL(error, NULL, "ibv_post_srq_recv(%zu bytes in %d pieces)",
				       list->length, list->count);
	return LOG_FAILED_CALL(error, NULL,
			       "ibv_post_send(connection %u, %s, %zu bytes in %d pieces)",
			       task->connection->id, rs_op_name(task->op), list->length,
			       list->count);
}

static enum rs_status post_send(struct rs_task *task)
{
	struct ibv_sge sges[RS_RDMA_MAX_CHAIN];
	struct rs_sge_list list = { .sges = sges, .room = (int)task->rdma->max_chain };
	struct ibv_send_wr *bad_wr, wr;
	enum rs_status status;
	int error;

	if (!task->connection || task->connection->state != RS_CONNECTION_CONNECTED)
		return RS_ERR_BAD_STATE;
	status = fill_request(task, &wr, &list);
	if (status != RS_OK)
		return status;
	/* Not initialised as a whole: most of it is for other operations. */
	wr.wr_id = (uintptr_t)task;
	wr.next = NULL;
	wr.sg_list = sges;
	wr.num_sge = list.count;
	wr.opcode = wr_opcodes[task->op];
	wr.send_flags = IBV_SEND_SIGNALED;
	task->length = list.length;
	error = ibv_post_send(task->connection->qp, &wr, &bad_wr);
	return error ? refuse_post(task, &list, error) : RS_OK;
}

static enum rs_status post_receive(struct rs_task *task)
{
	struct ibv_sge sges[RS_RDMA_MAX_CHAIN];
	struct rs_sge_list list = { .sges = sges, .room = (int)task->rdma->max_chain };
	struct ibv_recv_wr *bad_wr, wr = { .wr_id = (uintptr_t)task, .sg_list = sges };
	enum rs_status status = buf_scatter(task->destination, buf_chain_room(task->destination),
					    task->rdma->device, &list);
	int error;

	if (status != RS_OK)
		return status;
	/* What an earlier submission got. */
	task->immediate = 0;
	task->received = RS_RECEIVED_SEND;
	wr.num_sge = list.count;
	error = ibv_post_srq_recv(task->rdma->srq, &wr, &bad_wr);
	if (error)
		return refuse_post(task, &list, error);
	task->rdma->receives_in_flight++;
	return RS_OK;
}

enum rs_status rs_task_submit(struct rs_task *task)
{
	struct rs_rdma *rdma = task->rdma;
	bool is_receive = task->op == RS_OP_RECEIVE;
	enum rs_status status;

	if (task->state != TASK_ALLOCATED ||
	    !(is_receive ? rs_rdma_is_up(rdma) : rdma->ctx.state == RS_CTX_RUNNING))
		return RS_ERR_BAD_STATE;
	status = is_receive ? post_receive(task) : post_send(task);
	if (status != RS_OK)
		return status;
	buf_ref(task->source);
	buf_ref(task->destination);
	task->state = TASK_IN_FLIGHT;
	task->status = RS_IN_PROGRESS;
	rdma->ctx.in_flight++;
	return RS_OK;
}

static bool fills_destination(const struct rs_task *task)
{
	if (task->op == RS_OP_RECEIVE)
		return task->received != RS_RECEIVED_WRITE_IMMEDIATE;
	return source_is_remote(task->op) || fetches_event(task->op);
}

void rs_task_end(struct rs_task *task, enum rs_status status)
{
	struct rs_rdma *rdma = task->rdma;
	const struct task_pool *pool = &rdma->pools[task->op];
	rs_task_cb callback = status == RS_OK ? pool->completed : pool->failed;
	struct rs_buf *source = task->source;
	struct rs_buf *destination = task->destination;

	task->state = TASK_ALLOCATED;
	task->status = status;
	rdma->ctx.in_flight--;
	if (task->op == RS_OP_RECEIVE)
		rdma->receives_in_flight--;
	if (status != RS_OK)
		task->length = 0;
	else if (fills_destination(task))
		buf_fill(destination, task->length);
	/* The callback may free the task, the buffers, or submit again. */
	callback(task, rdma->ctx.user_data);
	buf_unref(source);
	buf_unref(destination);
}

enum rs_status rs_task_free(struct rs_task *task)
{
	struct task_pool *pool;

	if (!task)
		return RS_OK;
	if (task->state != TASK_ALLOCATED)
		return RS_ERR_BAD_STATE;
	pool = &task->rdma->pools[task->op];
	task->state = TASK_FREE;
	task->next_free = pool->free;
	pool->free = task;
	return RS_OK;
}

enum rs_status rs_task_status(const struct rs_task *task)
{
	return task->status;
}

enum rs_op rs_task_op(const struct rs_task *task)
{
	return task->op;
}

void *rs_task_user_data(const struct rs_task *task)
{
	return task->user_data;
}

struct rs_connection *rs_task_connection(const struct rs_task *task)
{
	return task->op == RS_OP_RECEIVE ? NULL : task->connection;
}

struct rs_buf *rs_task_source(const struct rs_task *task)
{
	return task->source;
}

struct rs_buf *rs_task_destination(const struct rs_task *task)
{
	return task->destination;
}

enum rs_status rs_task_set_source(struct rs_task *task, struct rs_buf *source)
{
	if (task->state != TASK_ALLOCATED)
		return RS_ERR_BAD_STATE;
	if (!fits_as_source(source, task->op))
		return RS_ERR_INVALID_VALUE;
	task->source = source;
	return RS_OK;
}

enum rs_status rs_task_set_destination(struct rs_task *task, struct rs_buf *destination)
{
	if (task->state != TASK_ALLOCATED)
		return RS_ERR_BAD_STATE;
	if (!fits_as_destination(destination, task->op))
		return RS_ERR_INVALID_VALUE;
	task->destination = destination;
	return RS_OK;
}

enum rs_status rs_task_set_user_data(struct rs_task *task, void *user_data)
{
	if (task->state != TASK_ALLOCATED)
		return RS_ERR_BAD_STATE;
	task->user_data = user_data;
	return RS_OK;
}

enum rs_status rs_task_set_immediate(struct rs_task *task, uint32_t immediate)
{
	if (task->state != TASK_ALLOCATED)
		return RS_ERR_BAD_STATE;
	task->immediate = immediate;
	return RS_OK;
}

enum rs_status rs_task_set_atomic(struct rs_task *task, uint64_t compare, uint64_t swap_or_add)
{
	if (task->state != TASK_ALLOCATED)
		return RS_ERR_BAD_STATE;
	task->compare = compare;
	task->swap_or_add = swap_or_add;
	return RS_OK;
}

size_t rs_task_result_length(const struct rs_task *task)
{
	return task->length;
}

enum rs_receive_opcode rs_task_result_opcode(const struct rs_task *task)
{
	return task->received;
}

uint32_t rs_task_result_immediate(const struct rs_task *task)
{
	return task->op == RS_OP_RECEIVE ? task->immediate : 0;
}

struct rs_connection *rs_task_result_connection(const struct rs_task *task)
{
	return task->op == RS_OP_RECEIVE ? task->connection : NULL;
}
