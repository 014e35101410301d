/*
 * The layer on a real device: two sides in one process, connected to each other, and every
 * operation, error and end that a device can give. RS_DEVICE names the device (default: the best
 * one).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "progress_engine.h"
#include "rdma.h"
#include "sync_event.h"

#define MEMORY          16384
#define HALF            (MEMORY / 2)
#define MAX_CONNECTIONS 4
#define TASKS           16
#define BUFS            64
#define MAX_CHAIN       4

/* 30 s until a silent peer is given up: on a busy machine, too, nothing else takes so long. */
#define PATIENT_ACK_TIMEOUT 20
/* 0.5 s, for tests of a silent peer. */
#define IMPATIENT_ACK_TIMEOUT 14
#define RETRIES               6

/* Longest wait for one event, milliseconds: only a broken test takes so long. */
#define PATIENCE 60000

#define ok(call) assert_int_equal(call, RS_OK)

struct side {
	struct rs_device *device;
	struct rs_mmap *mmap;
	struct rs_mmap *peer_mmap;
	struct rs_rdma *rdma;
	struct rs_ctx *ctx;
	struct rs_buf_inventory *inventory;
	struct rs_connection *connections[MAX_CONNECTIONS];
	unsigned completed;
	unsigned failed;
	unsigned flushed;
	struct rs_task *last; /* to come back */
	char *memory;
};

struct pair {
	struct rs_pe *pe;
	struct side a, b;
};

static void on_completed(struct rs_task *task, void *side_data)
{
	struct side *side = side_data;

	side->completed++;
	side->last = task;
}

static void on_failed(struct rs_task *task, void *side_data)
{
	struct side *side = side_data;

	side->failed++;
	side->flushed += rs_task_status(task) == RS_ERR_FLUSHED;
	side->last = task;
}

static void open_side(struct pair *pair, struct side *side, unsigned connections,
		      unsigned ack_timeout)
{
	*side = (struct side){ .memory = aligned_alloc(4096, MEMORY) };
	assert_non_null(side->memory);
	memset(side->memory, 0, MEMORY);
	ok(rs_device_open(getenv("RS_DEVICE"), RS_OP_BIT(RS_OP_RECEIVE), &side->device));
	ok(rs_mmap_create(&side->mmap));
	ok(rs_mmap_set_memrange(side->mmap, side->memory, MEMORY));
	ok(rs_mmap_set_permissions(side->mmap, RS_ACCESS_ALL));
	ok(rs_mmap_add_device(side->mmap, side->device));
	ok(rs_mmap_start(side->mmap));
	ok(rs_rdma_create(side->device, &side->rdma));
	side->ctx = rs_rdma_as_ctx(side->rdma);
	ok(rs_pe_connect_ctx(pair->pe, side->ctx));
	ok(rs_rdma_set_permissions(side->rdma, RS_ACCESS_ALL));
	ok(rs_rdma_set_max_connections(side->rdma, connections));
	ok(rs_rdma_set_needed_connections(side->rdma, connections));
	ok(rs_rdma_set_max_chain(side->rdma, MAX_CHAIN));
	ok(rs_rdma_set_ack_timeout(side->rdma, ack_timeout, RETRIES));
	for (unsigned op = 0; op < RS_OP_COUNT; op++)
		ok(rs_rdma_set_task_conf(side->rdma, (enum rs_op)op, on_completed, on_failed,
					 TASKS));
	rs_ctx_set_user_data(side->ctx, side);
	ok(rs_buf_inventory_create(BUFS, &side->inventory));
	ok(rs_buf_inventory_start(side->inventory));
}

static void close_side(struct side *side)
{
	assert_int_equal(rs_buf_inventory_available(side->inventory), BUFS);
	ok(rs_buf_inventory_destroy(side->inventory));
	ok(rs_mmap_destroy(side->peer_mmap));
	ok(rs_rdma_destroy(side->rdma));
	ok(rs_mmap_destroy(side->mmap));
	ok(rs_device_close(side->device));
	free(side->memory);
}

#define wait_until(pair, condition)                           \
	do {                                                  \
		while (!(condition))                          \
			ok(rs_pe_wait((pair)->pe, PATIENCE)); \
	} while (0)

static bool both_are(const struct pair *pair, enum rs_ctx_state state)
{
	return rs_ctx_state(pair->a.ctx) == state && rs_ctx_state(pair->b.ctx) == state;
}

static void connect_both(struct pair *pair, unsigned connections)
{
	ok(rs_ctx_start(pair->a.ctx));
	ok(rs_ctx_start(pair->b.ctx));
	wait_until(pair, both_are(pair, RS_CTX_STARTING));
	for (unsigned i = 0; i < connections; i++) {
		const char *line_a, *line_b;

		ok(rs_rdma_export(pair->a.rdma, &line_a, &pair->a.connections[i]));
		ok(rs_rdma_export(pair->b.rdma, &line_b, &pair->b.connections[i]));
		ok(rs_rdma_connect(pair->a.rdma, line_b, pair->a.connections[i]));
		ok(rs_rdma_connect(pair->b.rdma, line_a, pair->b.connections[i]));
	}
	wait_until(pair, both_are(pair, RS_CTX_RUNNING));
}

static void stop_both(struct pair *pair)
{
	if (rs_ctx_state(pair->a.ctx) != RS_CTX_IDLE)
		rs_ctx_stop(pair->a.ctx);
	if (rs_ctx_state(pair->b.ctx) != RS_CTX_IDLE)
		rs_ctx_stop(pair->b.ctx);
	wait_until(pair, both_are(pair, RS_CTX_IDLE));
}

static struct pair *open_pair_with(unsigned connections, unsigned ack_timeout)
{
	struct pair *pair = calloc(1, sizeof(*pair));
	const char *line;

	assert_non_null(pair);
	ok(rs_pe_create(&pair->pe));
	open_side(pair, &pair->a, connections, ack_timeout);
	open_side(pair, &pair->b, connections, ack_timeout);
	ok(rs_mmap_export(pair->a.mmap, pair->a.device, &line));
	ok(rs_mmap_create_from_export(line, &pair->b.peer_mmap));
	ok(rs_mmap_export(pair->b.mmap, pair->b.device, &line));
	ok(rs_mmap_create_from_export(line, &pair->a.peer_mmap));
	connect_both(pair, connections);
	return pair;
}

static struct pair *open_pair(unsigned connections)
{
	return open_pair_with(connections, PATIENT_ACK_TIMEOUT);
}

static struct pair *open_impatient_pair(unsigned connections)
{
	return open_pair_with(connections, IMPATIENT_ACK_TIMEOUT);
}

static void close_pair(struct pair *pair)
{
	stop_both(pair);
	close_side(&pair->a);
	close_side(&pair->b);
	ok(rs_pe_destroy(pair->pe));
	free(pair);
}

static struct rs_buf *data(struct side *side, size_t offset, size_t length)
{
	struct rs_buf *buf;

	ok(rs_buf_get_by_data(side->inventory, side->mmap, (uintptr_t)side->memory + offset, length,
			      &buf));
	return buf;
}

static struct rs_buf *room(struct side *side, size_t offset, size_t length)
{
	struct rs_buf *buf = data(side, offset, length);

	rs_buf_reset_data_length(buf);
	return buf;
}

/* In the peer's memory. */
static struct rs_buf *peer_data(struct side *side, size_t offset, size_t length)
{
	struct rs_buf *buf;
	uint64_t address;
	size_t size;

	ok(rs_mmap_get_memrange(side->peer_mmap, &address, &size));
	ok(rs_buf_get_by_data(side->inventory, side->peer_mmap, address + offset, length, &buf));
	return buf;
}

static struct rs_buf *peer_room(struct side *side, size_t offset, size_t length)
{
	struct rs_buf *buf = peer_data(side, offset, length);

	rs_buf_reset_data_length(buf);
	return buf;
}

static void free_task(struct rs_task *task)
{
	struct rs_buf *source = rs_task_source(task), *destination = rs_task_destination(task);

	ok(rs_task_free(task));
	rs_buf_unref(source);
	rs_buf_unref(destination);
}

/* Submits a task of a's and waits for its end. */
static struct rs_task *run(struct pair *pair, struct rs_task *task)
{
	unsigned before = pair->a.completed + pair->a.failed;

	ok(rs_task_submit(task));
	wait_until(pair, pair->a.completed + pair->a.failed > before);
	assert_ptr_equal(pair->a.last, task);
	return task;
}

static struct rs_task *post_receive(struct side *side, size_t offset, size_t length)
{
	struct rs_task *task;

	ok(rs_task_alloc_receive(side->rdma, room(side, offset, length), NULL, &task));
	ok(rs_task_submit(task));
	return task;
}

static struct rs_task *new_send(struct side *side, unsigned connection, size_t length)
{
	struct rs_task *task;

	ok(rs_task_alloc_send(side->rdma, side->connections[connection], data(side, 0, length),
			      NULL, &task));
	return task;
}

static void expect_received(const struct rs_task *task, enum rs_receive_opcode opcode,
			    uint32_t immediate, size_t length)
{
	assert_int_equal(rs_task_status(task), RS_OK);
	assert_int_equal(rs_task_result_opcode(task), opcode);
	assert_int_equal(rs_task_result_immediate(task), immediate);
	assert_int_equal(rs_task_result_length(task), length);
}

static void a_send_arrives_in_a_receive(void **state)
{
	struct pair *pair = open_pair(1);
	struct rs_task *receive = post_receive(&pair->b, HALF, 100);

	(void)state;
	strcpy(pair->a.memory, "hello");
	free_task(run(pair, new_send(&pair->a, 0, 6)));
	wait_until(pair, pair->b.completed == 1);
	expect_received(receive, RS_RECEIVED_SEND, 0, 6);
	assert_ptr_equal(rs_task_result_connection(receive), pair->b.connections[0]);
	assert_int_equal(rs_buf_data_length(rs_task_destination(receive)), 6);
	assert_string_equal(pair->b.memory + HALF, "hello");
	free_task(receive);
	close_pair(pair);
}

static void immediate_values_arrive_with_and_without_data(void **state)
{
	struct pair *pair = open_pair(1);
	struct rs_task *first = post_receive(&pair->b, HALF, 100), *second, *task;

	(void)state;
	ok(rs_task_alloc_receive(pair->b.rdma, NULL, NULL, &second));
	ok(rs_task_submit(second));
	strcpy(pair->a.memory, "now");
	ok(rs_task_alloc_send_immediate(pair->a.rdma, pair->a.connections[0], data(&pair->a, 0, 4),
					0xD0CA, NULL, &task));
	free_task(run(pair, task));
	ok(rs_task_alloc_send_immediate(pair->a.rdma, pair->a.connections[0], NULL, UINT32_MAX,
					NULL, &task));
	free_task(run(pair, task));
	wait_until(pair, pair->b.completed == 2);
	expect_received(first, RS_RECEIVED_SEND_IMMEDIATE, 0xD0CA, 4);
	expect_received(second, RS_RECEIVED_SEND_IMMEDIATE, UINT32_MAX, 0);
	assert_string_equal(pair->b.memory + HALF, "now");
	free_task(first);
	free_task(second);
	close_pair(pair);
}

static void a_write_with_immediate_takes_a_receive_but_not_its_buffer(void **state)
{
	struct pair *pair = open_pair(1);
	struct rs_task *receive = post_receive(&pair->b, HALF, 100), *task;

	(void)state;
	strcpy(pair->a.memory, "written");
	ok(rs_task_alloc_write_immediate(pair->a.rdma, pair->a.connections[0], data(&pair->a, 0, 8),
					 peer_room(&pair->a, 64, 8), 7, NULL, &task));
	free_task(run(pair, task));
	wait_until(pair, pair->b.completed == 1);
	expect_received(receive, RS_RECEIVED_WRITE_IMMEDIATE, 7, 8);
	assert_int_equal(rs_buf_data_length(rs_task_destination(receive)), 0);
	assert_string_equal(pair->b.memory + 64, "written");
	free_task(receive);
	close_pair(pair);
}

static void chains_are_gathered_and_scattered(void **state)
{
	struct pair *pair = open_pair(1);
	struct rs_buf *source = data(&pair->a, 0, 2), *destination = room(&pair->b, HALF, 3);
	struct rs_task *receive, *send;

	(void)state;
	strcpy(pair->a.memory, "ab");
	strcpy(pair->a.memory + 100, "cd");
	strcpy(pair->a.memory + 200, "e");
	ok(rs_buf_chain(source, data(&pair->a, 100, 2)));
	ok(rs_buf_chain(source, data(&pair->a, 200, 2)));
	ok(rs_buf_chain(destination, room(&pair->b, HALF + 100, 10)));
	ok(rs_task_alloc_receive(pair->b.rdma, destination, NULL, &receive));
	ok(rs_task_submit(receive));
	ok(rs_task_alloc_send(pair->a.rdma, pair->a.connections[0], source, NULL, &send));
	free_task(run(pair, send));
	wait_until(pair, pair->b.completed == 1);
	assert_string_equal(pair->b.memory + HALF, "abc");
	assert_string_equal(pair->b.memory + HALF + 100, "de");
	assert_int_equal(rs_buf_data_length(destination), 3);
	assert_int_equal(rs_buf_data_length(rs_buf_next(destination)), 3);
	free_task(receive);
	close_pair(pair);
}

static void data_is_written_and_read_back(void **state)
{
	struct pair *pair = open_pair(1);
	struct rs_task *task;

	(void)state;
	for (size_t i = 0; i < HALF; i++)
		pair->a.memory[i] = (char)(i * 31 + i / 256);
	ok(rs_task_alloc_write(pair->a.rdma, pair->a.connections[0], data(&pair->a, 0, HALF),
			       peer_room(&pair->a, 0, HALF), NULL, &task));
	free_task(run(pair, task));
	assert_memory_equal(pair->b.memory, pair->a.memory, HALF);
	ok(rs_task_alloc_read(pair->a.rdma, pair->a.connections[0], peer_data(&pair->a, 0, HALF),
			      room(&pair->a, HALF, HALF), NULL, &task));
	run(pair, task);
	assert_int_equal(rs_task_result_length(task), HALF);
	assert_int_equal(rs_buf_data_length(rs_task_destination(task)), HALF);
	free_task(task);
	assert_memory_equal(pair->a.memory + HALF, pair->a.memory, HALF);
	close_pair(pair);
}

static uint64_t *word(struct side *side, size_t offset)
{
	return (uint64_t *)(void *)(side->memory + offset);
}

static void atomics_return_the_value_from_before(void **state)
{
	struct pair *pair = open_pair(1);
	struct rs_task *task;

	(void)state;
	*word(&pair->b, 8) = 40;
	ok(rs_task_alloc_fetch_and_add(pair->a.rdma, pair->a.connections[0],
				       peer_data(&pair->a, 8, 8), room(&pair->a, 0, 8), 2, NULL,
				       &task));
	free_task(run(pair, task));
	assert_int_equal(*word(&pair->a, 0), 40);
	assert_int_equal(*word(&pair->b, 8), 42);
	ok(rs_task_alloc_compare_and_swap(pair->a.rdma, pair->a.connections[0],
					  peer_data(&pair->a, 8, 8), room(&pair->a, 0, 8), 42,
					  UINT64_MAX, NULL, &task));
	run(pair, task);
	assert_int_equal(*word(&pair->a, 0), 42);
	assert_int_equal(*word(&pair->b, 8), UINT64_MAX);
	/* Once more, the same task: it does not compare equal now. */
	rs_buf_reset_data_length(rs_task_destination(task));
	ok(rs_task_set_atomic(task, 42, 0));
	free_task(run(pair, task));
	assert_int_equal(*word(&pair->a, 0), UINT64_MAX);
	assert_int_equal(*word(&pair->b, 8), UINT64_MAX);
	close_pair(pair);
}

/* An event of b's, and what a reaches it by. */
static void open_event(struct pair *pair, struct rs_sync_event **event,
		       struct rs_sync_event_remote **remote)
{
	ok(rs_sync_event_create(pair->b.device, event));
	ok(rs_sync_event_remote_create_from_export(rs_sync_event_export(*event), remote));
}

static void close_event(struct rs_sync_event *event, struct rs_sync_event_remote *remote)
{
	rs_sync_event_remote_destroy(remote);
	ok(rs_sync_event_destroy(event));
}

/* The values that a gets by these stand at the beginning of its memory. */
static void get_event(struct pair *pair, struct rs_sync_event_remote *remote)
{
	struct rs_task *task;

	ok(rs_task_alloc_event_get(pair->a.rdma, pair->a.connections[0], remote,
				   room(&pair->a, 0, 8), NULL, &task));
	ok(rs_task_status(run(pair, task)));
	assert_int_equal(rs_buf_data_length(rs_task_destination(task)), 8);
	free_task(task);
}

static void add_to_event(struct pair *pair, struct rs_sync_event_remote *remote, uint64_t add)
{
	struct rs_task *task;

	ok(rs_task_alloc_event_add(pair->a.rdma, pair->a.connections[0], remote,
				   room(&pair->a, 0, 8), add, NULL, &task));
	ok(rs_task_status(run(pair, task)));
	assert_int_equal(rs_buf_data_length(rs_task_destination(task)), 8);
	free_task(task);
}

static void set_event(struct pair *pair, struct rs_sync_event_remote *remote, uint64_t value)
{
	struct rs_task *task;

	*word(&pair->a, 8) = value;
	ok(rs_task_alloc_event_set(pair->a.rdma, pair->a.connections[0], remote,
				   data(&pair->a, 8, 8), NULL, &task));
	ok(rs_task_status(run(pair, task)));
	free_task(task);
}

static void the_peer_sets_and_gets_an_event(void **state)
{
	static const uint64_t values[] = { 1, 0, UINT64_MAX, UINT64_C(0x0123456789abcdef) };
	struct pair *pair = open_pair(1);
	struct rs_sync_event_remote *remote;
	struct rs_sync_event *event;

	(void)state;
	open_event(pair, &event, &remote);
	*word(&pair->a, 0) = 5;
	get_event(pair, remote);
	assert_int_equal(*word(&pair->a, 0), 0);
	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		set_event(pair, remote, values[i]);
		assert_int_equal(rs_sync_event_get(event), values[i]);
		/* The other way, another value. */
		rs_sync_event_set(event, ~values[i]);
		get_event(pair, remote);
		assert_int_equal(*word(&pair->a, 0), ~values[i]);
	}
	close_event(event, remote);
	close_pair(pair);
}

static void the_peer_adds_to_an_event_which_wraps_around(void **state)
{
	static const uint64_t summands[] = { 0, 1, UINT64_MAX, UINT64_MAX, 1, 7 };
	struct pair *pair = open_pair(1);
	struct rs_sync_event_remote *remote;
	struct rs_sync_event *event;
	uint64_t sum = 0;

	(void)state;
	open_event(pair, &event, &remote);
	for (size_t i = 0; i < sizeof(summands) / sizeof(summands[0]); i++) {
		*word(&pair->a, 0) = ~sum;
		add_to_event(pair, remote, summands[i]);
		assert_int_equal(*word(&pair->a, 0), sum);
		sum += summands[i];
		assert_int_equal(rs_sync_event_get(event), sum);
	}
	/* Both sides, one after the other. */
	assert_int_equal(rs_sync_event_add(event, 2), sum);
	add_to_event(pair, remote, 3);
	assert_int_equal(rs_sync_event_get(event), sum + 5);
	close_event(event, remote);
	close_pair(pair);
}

static void a_wait_ends_when_the_peer_has_set_the_event(void **state)
{
	struct pair *pair = open_pair(1);
	struct rs_sync_event_remote *remote;
	struct rs_sync_event *event;
	uint64_t seen = 0;

	(void)state;
	open_event(pair, &event, &remote);
	assert_int_equal(rs_sync_event_wait_gt(event, 0, UINT64_MAX, 0, -1, NULL),
			 RS_ERR_TIMED_OUT);
	set_event(pair, remote, 1);
	ok(rs_sync_event_wait_gt(event, 0, UINT64_MAX, PATIENCE, -1, &seen));
	assert_int_equal(seen, 1);
	add_to_event(pair, remote, 1);
	ok(rs_sync_event_wait_gt(event, 1, UINT64_MAX, PATIENCE, -1, &seen));
	assert_int_equal(seen, 2);
	close_event(event, remote);
	close_pair(pair);
}

static void an_event_that_is_gone_is_out_of_reach(void **state)
{
	struct pair *pair = open_pair(1);
	struct rs_sync_event_remote *remote;
	struct rs_sync_event *event;
	struct rs_task *task;

	(void)state;
	open_event(pair, &event, &remote);
	ok(rs_sync_event_destroy(event));
	ok(rs_task_alloc_event_add(pair->a.rdma, pair->a.connections[0], remote,
				   room(&pair->a, 0, 8), 1, NULL, &task));
	assert_int_equal(rs_task_status(run(pair, task)), RS_ERR_REMOTE_ACCESS);
	free_task(task);
	wait_until(pair, rs_ctx_state(pair->a.ctx) == RS_CTX_IDLE);
	rs_sync_event_remote_destroy(remote);
	close_pair(pair);
}

static void messages_name_the_connection_that_they_came_by(void **state)
{
	struct pair *pair = open_pair(MAX_CONNECTIONS);
	struct rs_task *receives[MAX_CONNECTIONS];

	(void)state;
	for (unsigned i = 0; i < MAX_CONNECTIONS; i++) {
		receives[i] = post_receive(&pair->b, HALF + 16 * i, 16);
		free_task(run(pair, new_send(&pair->a, MAX_CONNECTIONS - 1 - i, 1)));
	}
	wait_until(pair, pair->b.completed == MAX_CONNECTIONS);
	for (unsigned i = 0; i < MAX_CONNECTIONS; i++) {
		assert_int_equal(rs_connection_id(rs_task_result_connection(receives[i])),
				 MAX_CONNECTIONS - 1 - i);
		free_task(receives[i]);
	}
	close_pair(pair);
}

static void one_failed_connection_of_two_does_not_stop_the_context(void **state)
{
	struct pair *pair = open_impatient_pair(2);
	struct rs_task *task;

	(void)state;
	ok(rs_connection_disconnect(pair->b.connections[0]));
	assert_int_equal(rs_task_status(run(pair, new_send(&pair->a, 0, 1))),
			 RS_ERR_RETRY_EXCEEDED);
	free_task(pair->a.last);
	assert_int_equal(rs_connection_state(pair->a.connections[0]), RS_CONNECTION_FAILED);
	task = post_receive(&pair->b, HALF, 10);
	free_task(run(pair, new_send(&pair->a, 1, 1)));
	wait_until(pair, pair->b.completed == 1);
	assert_int_equal(rs_ctx_state(pair->a.ctx), RS_CTX_RUNNING);
	free_task(task);
	close_pair(pair);
}

/* Whether a ended by itself because of its only connection. */
static void expect_end_of_a(struct pair *pair, enum rs_status reason)
{
	wait_until(pair, rs_ctx_state(pair->a.ctx) == RS_CTX_IDLE);
	assert_int_equal(rs_ctx_error(pair->a.ctx), reason);
}

static void a_peer_without_a_receive_ends_in_the_rnr_error(void **state)
{
	struct pair *pair = open_pair(1);

	(void)state;
	assert_int_equal(rs_task_status(run(pair, new_send(&pair->a, 0, 1))),
			 RS_ERR_RNR_RETRY_EXCEEDED);
	free_task(pair->a.last);
	expect_end_of_a(pair, RS_ERR_RNR_RETRY_EXCEEDED);
	close_pair(pair);
}

static void a_silent_peer_ends_in_the_retry_error(void **state)
{
	struct pair *pair = open_impatient_pair(1);

	(void)state;
	rs_ctx_stop(pair->b.ctx);
	wait_until(pair, rs_ctx_state(pair->b.ctx) == RS_CTX_IDLE);
	assert_int_equal(rs_task_status(run(pair, new_send(&pair->a, 0, 1))),
			 RS_ERR_RETRY_EXCEEDED);
	free_task(pair->a.last);
	expect_end_of_a(pair, RS_ERR_RETRY_EXCEEDED);
	close_pair(pair);
}

static void a_message_longer_than_its_receive_fails_on_both_sides(void **state)
{
	struct pair *pair = open_pair(1);
	struct rs_task *receive = post_receive(&pair->b, HALF, 4);
	enum rs_status sent = rs_task_status(run(pair, new_send(&pair->a, 0, 5)));

	(void)state;
	free_task(pair->a.last);
	wait_until(pair, pair->b.failed == 1);
	/* The specification's answer, or rxe's, which takes the receive for malformed. */
	if (rs_task_status(receive) == RS_ERR_LOCAL_LENGTH) {
		assert_int_equal(sent, RS_ERR_REMOTE_INVALID);
	} else {
		assert_int_equal(rs_task_status(receive), RS_ERR_LOCAL_OPERATION);
		assert_int_equal(sent, RS_ERR_REMOTE_OPERATION);
	}
	assert_int_equal(rs_buf_data_length(rs_task_destination(receive)), 0);
	free_task(receive);
	close_pair(pair);
}

static void the_peer_s_map_guards_its_memory(void **state)
{
	struct pair *pair = open_pair(1);
	struct rs_task *task;

	(void)state;
	/* The registration is gone, the descriptor still says otherwise. */
	ok(rs_mmap_stop(pair->b.mmap));
	ok(rs_task_alloc_write(pair->a.rdma, pair->a.connections[0], data(&pair->a, 0, 8),
			       peer_room(&pair->a, 0, 8), NULL, &task));
	assert_int_equal(rs_task_status(run(pair, task)), RS_ERR_REMOTE_ACCESS);
	free_task(task);
	expect_end_of_a(pair, RS_ERR_REMOTE_ACCESS);
	close_pair(pair);
}

static void stopping_brings_every_task_back_once_and_it_starts_again(void **state)
{
	struct pair *pair = open_pair(1);
	struct rs_task *receives[TASKS], *sends[TASKS];

	(void)state;
	for (int round = 1; round <= 2; round++) {
		for (unsigned i = 0; i < TASKS; i++)
			receives[i] = post_receive(&pair->a, HALF + 16 * i, 16);
		/* To a peer that answers no more, so that they are in flight when a stops. */
		ok(rs_connection_disconnect(pair->b.connections[0]));
		for (unsigned i = 0; i < TASKS; i++) {
			sends[i] = new_send(&pair->a, 0, 1);
			ok(rs_task_submit(sends[i]));
		}
		assert_int_equal(rs_ctx_in_flight(pair->a.ctx), 2 * TASKS);
		stop_both(pair);
		assert_int_equal(pair->a.failed, 2 * TASKS * round);
		assert_int_equal(pair->a.flushed, 2 * TASKS * round);
		assert_int_equal(rs_ctx_in_flight(pair->a.ctx), 0);
		for (unsigned i = 0; i < TASKS; i++) {
			free_task(receives[i]);
			free_task(sends[i]);
		}
		connect_both(pair, 1);
	}
	receives[0] = post_receive(&pair->b, HALF, 16);
	free_task(run(pair, new_send(&pair->a, 0, 1)));
	wait_until(pair, pair->b.completed == 1);
	free_task(receives[0]);
	close_pair(pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_send_arrives_in_a_receive),
		cmocka_unit_test(immediate_values_arrive_with_and_without_data),
		cmocka_unit_test(a_write_with_immediate_takes_a_receive_but_not_its_buffer),
		cmocka_unit_test(chains_are_gathered_and_scattered),
		cmocka_unit_test(data_is_written_and_read_back),
		cmocka_unit_test(atomics_return_the_value_from_before),
		cmocka_unit_test(the_peer_sets_and_gets_an_event),
		cmocka_unit_test(the_peer_adds_to_an_event_which_wraps_around),
		cmocka_unit_test(a_wait_ends_when_the_peer_has_set_the_event),
		cmocka_unit_test(an_event_that_is_gone_is_out_of_reach),
		cmocka_unit_test(messages_name_the_connection_that_they_came_by),
		cmocka_unit_test(one_failed_connection_of_two_does_not_stop_the_context),
		cmocka_unit_test(a_peer_without_a_receive_ends_in_the_rnr_error),
		cmocka_unit_test(a_silent_peer_ends_in_the_retry_error),
		cmocka_unit_test(a_message_longer_than_its_receive_fails_on_both_sides),
		cmocka_unit_test(the_peer_s_map_guards_its_memory),
		cmocka_unit_test(stopping_brings_every_task_back_once_and_it_starts_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
