#include "support.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "sync_event.h"
#include "task.h"

static struct rs_task *alloc_send(struct fixture *fixture, struct rs_buf *source)
{
	struct rs_task *task;

	assert_ok(rs_task_alloc_send(fixture->rdma, fixture->connections[0], source, NULL, &task));
	return task;
}

static struct rs_task *alloc_receive(struct fixture *fixture, struct rs_buf *destination)
{
	struct rs_task *task;

	assert_ok(rs_task_alloc_receive(fixture->rdma, destination, NULL, &task));
	return task;
}

/* Submits, completes well, progresses. */
static void carry_out(struct fixture *fixture, struct rs_task *task)
{
	assert_ok(rs_task_submit(task));
	fake_complete_send(fixture_qp(fixture, 0), IBV_WC_SUCCESS);
	rs_pe_progress(fixture->pe);
	assert_ok(rs_task_status(task));
}

static const struct fake_send *posted(const struct fixture *fixture)
{
	const struct fake_send *send = fake_oldest_send(fixture_qp(fixture, 0));

	assert_non_null(send);
	return send;
}

static void test_a_send_carries_the_data_of_its_source(void **state)
{
	struct fixture *fixture = *state;
	struct rs_task *task;

	fixture_run(fixture, 1);
	task = alloc_send(fixture, fixture_data(fixture, 100, 20));
	assert_ok(rs_task_submit(task));
	assert_int_equal(posted(fixture)->wr.opcode, IBV_WR_SEND);
	assert_int_equal(posted(fixture)->wr.num_sge, 1);
	assert_int_equal(posted(fixture)->sges[0].addr, (uintptr_t)fixture->memory + 100);
	assert_int_equal(posted(fixture)->sges[0].length, 20);
	assert_status(rs_task_status(task), RS_IN_PROGRESS);
	fake_complete_send(fixture_qp(fixture, 0), IBV_WC_SUCCESS);
	rs_pe_progress(fixture->pe);
	assert_int_equal(fixture->completed, 1);
	assert_ptr_equal(fixture->last_task, task);
	assert_int_equal(rs_task_result_length(task), 20);
	assert_ptr_equal(rs_task_connection(task), fixture->connections[0]);
	assert_int_equal(rs_task_op(task), RS_OP_SEND);
	fixture_free_task(task);
}

static void test_a_message_without_data_has_no_pieces(void **state)
{
	struct fixture *fixture = *state;
	struct rs_task *task;

	fixture_run(fixture, 1);
	assert_ok(rs_task_alloc_send_immediate(fixture->rdma, fixture->connections[0], NULL,
					       0x01020304, NULL, &task));
	assert_ok(rs_task_submit(task));
	assert_int_equal(posted(fixture)->wr.opcode, IBV_WR_SEND_WITH_IMM);
	assert_int_equal(posted(fixture)->wr.num_sge, 0);
	assert_int_equal(posted(fixture)->wr.imm_data, htonl(0x01020304));
	fake_complete_send(fixture_qp(fixture, 0), IBV_WC_SUCCESS);
	rs_pe_progress(fixture->pe);
	assert_int_equal(rs_task_result_length(task), 0);
	fixture_free_task(task);
}

static void test_a_write_goes_behind_the_data_of_the_peers_buffer(void **state)
{
	struct fixture *fixture = *state;
	struct rs_buf *destination;
	struct rs_task *task;

	fixture_run(fixture, 1);
	destination = fixture_peer_room(fixture, 64, 32);
	assert_ok(rs_buf_set_data(destination, PEER_ADDRESS + 64, 8));
	assert_ok(rs_task_alloc_write(fixture->rdma, fixture->connections[0],
				      fixture_data(fixture, 0, 24), destination, NULL, &task));
	assert_ok(rs_task_submit(task));
	assert_int_equal(posted(fixture)->wr.opcode, IBV_WR_RDMA_WRITE);
	assert_int_equal(posted(fixture)->wr.wr.rdma.remote_addr, PEER_ADDRESS + 72);
	assert_int_equal(posted(fixture)->wr.wr.rdma.rkey, PEER_RKEY);
	assert_int_equal(posted(fixture)->sges[0].length, 24);
	fake_complete_send(fixture_qp(fixture, 0), IBV_WC_SUCCESS);
	rs_pe_progress(fixture->pe);
	assert_int_equal(rs_task_result_length(task), 24);
	fixture_free_task(task);
}

static void test_a_write_with_immediate_has_both(void **state)
{
	struct fixture *fixture = *state;
	struct rs_task *task;

	fixture_run(fixture, 1);
	assert_ok(rs_task_alloc_write_immediate(fixture->rdma, fixture->connections[0],
						fixture_data(fixture, 0, 4),
						fixture_peer_room(fixture, 0, 4), 7, NULL, &task));
	assert_ok(rs_task_submit(task));
	assert_int_equal(posted(fixture)->wr.opcode, IBV_WR_RDMA_WRITE_WITH_IMM);
	assert_int_equal(posted(fixture)->wr.imm_data, htonl(7));
	assert_int_equal(posted(fixture)->wr.wr.rdma.remote_addr, PEER_ADDRESS);
	fake_complete_send(fixture_qp(fixture, 0), IBV_WC_SUCCESS);
	rs_pe_progress(fixture->pe);
	fixture_free_task(task);
}

static void test_a_read_fills_its_destination_behind_its_data(void **state)
{
	struct fixture *fixture = *state;
	struct rs_buf *destination;
	struct rs_task *task;

	fixture_run(fixture, 1);
	destination = fixture_room(fixture, 0, 64);
	assert_ok(rs_buf_set_data(destination, (uintptr_t)fixture->memory, 10));
	assert_ok(rs_task_alloc_read(fixture->rdma, fixture->connections[0],
				     fixture_peer_data(fixture, 8, 30), destination, NULL, &task));
	assert_ok(rs_task_submit(task));
	assert_int_equal(posted(fixture)->wr.opcode, IBV_WR_RDMA_READ);
	assert_int_equal(posted(fixture)->wr.wr.rdma.remote_addr, PEER_ADDRESS + 8);
	assert_int_equal(posted(fixture)->wr.wr.rdma.rkey, PEER_RKEY);
	assert_int_equal(posted(fixture)->sges[0].addr, (uintptr_t)fixture->memory + 10);
	/* No more than there is to read. */
	assert_int_equal(posted(fixture)->sges[0].length, 30);
	fake_complete_send(fixture_qp(fixture, 0), IBV_WC_SUCCESS);
	rs_pe_progress(fixture->pe);
	assert_int_equal(rs_buf_data_length(destination), 40);
	assert_int_equal(rs_task_result_length(task), 30);
	fixture_free_task(task);
}

static void test_compare_and_swap_hands_over_both_values(void **state)
{
	struct fixture *fixture = *state;
	struct rs_buf *destination;
	struct rs_task *task;

	fixture_run(fixture, 1);
	destination = fixture_room(fixture, 0, 64);
	assert_ok(rs_task_alloc_compare_and_swap(fixture->rdma, fixture->connections[0],
						 fixture_peer_data(fixture, 8, 8), destination, 1,
						 2, NULL, &task));
	assert_ok(rs_task_submit(task));
	assert_int_equal(posted(fixture)->wr.opcode, IBV_WR_ATOMIC_CMP_AND_SWP);
	assert_int_equal(posted(fixture)->wr.wr.atomic.remote_addr, PEER_ADDRESS + 8);
	assert_int_equal(posted(fixture)->wr.wr.atomic.rkey, PEER_RKEY);
	assert_int_equal(posted(fixture)->wr.wr.atomic.compare_add, 1);
	assert_int_equal(posted(fixture)->wr.wr.atomic.swap, 2);
	assert_int_equal(posted(fixture)->sges[0].length, 8);
	fake_complete_send(fixture_qp(fixture, 0), IBV_WC_SUCCESS);
	rs_pe_progress(fixture->pe);
	assert_int_equal(rs_buf_data_length(destination), 8);
	assert_int_equal(rs_task_result_length(task), 8);
	fixture_free_task(task);
}

static void test_fetch_and_add_hands_over_what_to_add(void **state)
{
	struct fixture *fixture = *state;
	struct rs_task *task;

	fixture_run(fixture, 1);
	assert_ok(rs_task_alloc_fetch_and_add(fixture->rdma, fixture->connections[0],
					      fixture_peer_data(fixture, 0, 16),
					      fixture_room(fixture, 0, 8), 5, NULL, &task));
	assert_ok(rs_task_submit(task));
	assert_int_equal(posted(fixture)->wr.opcode, IBV_WR_ATOMIC_FETCH_AND_ADD);
	assert_int_equal(posted(fixture)->wr.wr.atomic.compare_add, 5);
	fake_complete_send(fixture_qp(fixture, 0), IBV_WC_SUCCESS);
	rs_pe_progress(fixture->pe);
	rs_buf_reset_data_length(rs_task_destination(task));
	assert_ok(rs_task_set_atomic(task, 0, 9));
	assert_ok(rs_task_submit(task));
	assert_int_equal(posted(fixture)->wr.wr.atomic.compare_add, 9);
	fake_complete_send(fixture_qp(fixture, 0), IBV_WC_SUCCESS);
	rs_pe_progress(fixture->pe);
	fixture_free_task(task);
}

static void test_atomics_need_8_aligned_bytes_there_and_8_bytes_of_room_here(void **state)
{
	struct fixture *fixture = *state;
	struct rs_buf *odd = fixture_peer_data(fixture, 4, 8);
	struct rs_buf *small = fixture_peer_data(fixture, 8, 7);
	struct rs_buf *target = fixture_peer_data(fixture, 8, 8);
	struct rs_buf *room = fixture_room(fixture, 0, 8);
	struct rs_buf *small_room = fixture_room(fixture, 0, 7);
	struct rs_task *task;

	fixture_run(fixture, 1);
	assert_ok(rs_task_alloc_fetch_and_add(fixture->rdma, fixture->connections[0], odd, room, 1,
					      NULL, &task));
	assert_status(rs_task_submit(task), RS_ERR_INVALID_VALUE);
	assert_ok(rs_task_set_source(task, small));
	assert_status(rs_task_submit(task), RS_ERR_INVALID_VALUE);
	assert_ok(rs_task_set_source(task, target));
	assert_ok(rs_task_set_destination(task, small_room));
	assert_status(rs_task_submit(task), RS_ERR_TOO_BIG);
	assert_ok(rs_task_set_destination(task, NULL));
	assert_status(rs_task_submit(task), RS_ERR_TOO_BIG);
	assert_ok(rs_task_set_destination(task, room));
	carry_out(fixture, task);
	assert_ok(rs_task_free(task));
	rs_buf_unref(odd);
	rs_buf_unref(small);
	rs_buf_unref(target);
	rs_buf_unref(room);
	rs_buf_unref(small_room);
}

static void test_less_room_than_data_is_refused_and_nothing_is_posted(void **state)
{
	struct fixture *fixture = *state;
	struct rs_task *write, *read;

	fixture_run(fixture, 1);
	assert_ok(rs_task_alloc_write(fixture->rdma, fixture->connections[0],
				      fixture_data(fixture, 0, 9), fixture_peer_room(fixture, 0, 8),
				      NULL, &write));
	assert_status(rs_task_submit(write), RS_ERR_TOO_BIG);
	assert_ok(rs_task_alloc_read(fixture->rdma, fixture->connections[0],
				     fixture_peer_data(fixture, 0, 9), fixture_room(fixture, 0, 8),
				     NULL, &read));
	assert_status(rs_task_submit(read), RS_ERR_TOO_BIG);
	assert_int_equal(fake_calls(FAKE_POST_SEND), 0);
	assert_int_equal(rs_ctx_in_flight(fixture->ctx), 0);
	fixture_free_task(write);
	fixture_free_task(read);
}

/* ---- Sync events ---- */

#define EVENT_ADDRESS UINT64_C(0x7f0000fff000)
#define EVENT_RKEY    0x5678

static struct rs_sync_event_remote *remote_event(void)
{
	struct rs_sync_event_remote *event;

	assert_ok(rs_sync_event_remote_create_from_export(
		peer_event_line(EVENT_ADDRESS, EVENT_RKEY), &event));
	return event;
}

static void test_an_events_get_reads_8_bytes_behind_the_data(void **state)
{
	struct fixture *fixture = *state;
	struct rs_sync_event_remote *event = remote_event();
	struct rs_buf *destination = fixture_room(fixture, 0, 64);
	struct rs_task *task;

	fixture_run(fixture, 1);
	assert_ok(rs_buf_set_data(destination, (uintptr_t)fixture->memory, 16));
	assert_ok(rs_task_alloc_event_get(fixture->rdma, fixture->connections[0], event,
					  destination, NULL, &task));
	assert_ok(rs_task_submit(task));
	assert_int_equal(posted(fixture)->wr.opcode, IBV_WR_RDMA_READ);
	assert_int_equal(posted(fixture)->wr.wr.rdma.remote_addr, EVENT_ADDRESS);
	assert_int_equal(posted(fixture)->wr.wr.rdma.rkey, EVENT_RKEY);
	assert_int_equal(posted(fixture)->wr.num_sge, 1);
	assert_int_equal(posted(fixture)->sges[0].addr, (uintptr_t)fixture->memory + 16);
	assert_int_equal(posted(fixture)->sges[0].length, 8);
	fake_complete_send(fixture_qp(fixture, 0), IBV_WC_SUCCESS);
	rs_pe_progress(fixture->pe);
	assert_int_equal(rs_buf_data_length(destination), 24);
	assert_int_equal(rs_task_result_length(task), 8);
	assert_int_equal(rs_task_op(task), RS_OP_EVENT_GET);
	assert_null(rs_task_source(task));
	fixture_free_task(task);
	rs_sync_event_remote_destroy(event);
}

static void test_an_events_set_writes_its_8_bytes(void **state)
{
	struct fixture *fixture = *state;
	struct rs_sync_event_remote *event = remote_event();
	struct rs_buf *source = fixture_data(fixture, 40, 8);
	struct rs_task *task;

	fixture_run(fixture, 1);
	assert_ok(rs_task_alloc_event_set(fixture->rdma, fixture->connections[0], event, source,
					  NULL, &task));
	assert_ok(rs_task_submit(task));
	assert_int_equal(posted(fixture)->wr.opcode, IBV_WR_RDMA_WRITE);
	assert_int_equal(posted(fixture)->wr.wr.rdma.remote_addr, EVENT_ADDRESS);
	assert_int_equal(posted(fixture)->wr.wr.rdma.rkey, EVENT_RKEY);
	assert_int_equal(posted(fixture)->wr.num_sge, 1);
	assert_int_equal(posted(fixture)->sges[0].addr, (uintptr_t)fixture->memory + 40);
	assert_int_equal(posted(fixture)->sges[0].length, 8);
	fake_complete_send(fixture_qp(fixture, 0), IBV_WC_SUCCESS);
	rs_pe_progress(fixture->pe);
	assert_int_equal(rs_task_result_length(task), 8);
	/* A source is not filled. */
	assert_int_equal(rs_buf_data_length(source), 8);
	fixture_free_task(task);
	rs_sync_event_remote_destroy(event);
}

static void test_an_events_add_fetches_the_value_from_before(void **state)
{
	struct fixture *fixture = *state;
	struct rs_sync_event_remote *event = remote_event();
	struct rs_buf *destination = fixture_room(fixture, 8, 16);
	struct rs_task *task;

	fixture_run(fixture, 1);
	assert_ok(rs_task_alloc_event_add(fixture->rdma, fixture->connections[0], event,
					  destination, UINT64_MAX, NULL, &task));
	assert_ok(rs_task_submit(task));
	assert_int_equal(posted(fixture)->wr.opcode, IBV_WR_ATOMIC_FETCH_AND_ADD);
	assert_int_equal(posted(fixture)->wr.wr.atomic.remote_addr, EVENT_ADDRESS);
	assert_int_equal(posted(fixture)->wr.wr.atomic.rkey, EVENT_RKEY);
	assert_int_equal(posted(fixture)->wr.wr.atomic.compare_add, UINT64_MAX);
	assert_int_equal(posted(fixture)->sges[0].addr, (uintptr_t)fixture->memory + 8);
	assert_int_equal(posted(fixture)->sges[0].length, 8);
	fake_complete_send(fixture_qp(fixture, 0), IBV_WC_SUCCESS);
	rs_pe_progress(fixture->pe);
	assert_int_equal(rs_buf_data_length(destination), 8);
	/* Once more, another summand; the value goes behind the first. */
	assert_ok(rs_task_set_atomic(task, 0, 9));
	assert_ok(rs_task_submit(task));
	assert_int_equal(posted(fixture)->wr.wr.atomic.compare_add, 9);
	assert_int_equal(posted(fixture)->sges[0].addr, (uintptr_t)fixture->memory + 16);
	fake_complete_send(fixture_qp(fixture, 0), IBV_WC_SUCCESS);
	rs_pe_progress(fixture->pe);
	assert_int_equal(rs_buf_data_length(destination), 16);
	fixture_free_task(task);
	rs_sync_event_remote_destroy(event);
}

static void test_an_event_is_set_to_exactly_8_bytes(void **state)
{
	struct fixture *fixture = *state;
	struct rs_sync_event_remote *event = remote_event();
	struct rs_buf *data = fixture_data(fixture, 0, 9);
	struct rs_buf *halves = fixture_data(fixture, 64, 4);
	struct rs_task *task;

	assert_ok(rs_rdma_set_max_chain(fixture->rdma, 2));
	fixture_run(fixture, 1);
	assert_ok(rs_task_alloc_event_set(fixture->rdma, fixture->connections[0], event, data, NULL,
					  &task));
	for (size_t length = 0; length <= 9; length++) {
		if (length == 8)
			continue;
		assert_ok(rs_buf_set_data(data, (uintptr_t)fixture->memory, length));
		assert_status(rs_task_submit(task), RS_ERR_INVALID_VALUE);
	}
	assert_int_equal(fake_calls(FAKE_POST_SEND), 0);
	assert_ok(rs_buf_set_data(data, (uintptr_t)fixture->memory + 1, 8));
	carry_out(fixture, task);
	assert_ok(rs_buf_chain(halves, fixture_data(fixture, 0, 4)));
	assert_ok(rs_task_set_source(task, halves));
	carry_out(fixture, task);
	fixture_free_task(task);
	rs_buf_unref(data);
	rs_sync_event_remote_destroy(event);
}

static void test_the_value_of_an_event_needs_8_bytes_of_room(void **state)
{
	struct fixture *fixture = *state;
	struct rs_sync_event_remote *event = remote_event();
	struct rs_buf *room = fixture_room(fixture, 0, 7);
	struct rs_task *get, *add;

	fixture_run(fixture, 1);
	assert_ok(rs_task_alloc_event_get(fixture->rdma, fixture->connections[0], event, room, NULL,
					  &get));
	assert_ok(rs_task_alloc_event_add(fixture->rdma, fixture->connections[0], event, room, 1,
					  NULL, &add));
	assert_status(rs_task_submit(get), RS_ERR_TOO_BIG);
	assert_status(rs_task_submit(add), RS_ERR_TOO_BIG);
	assert_int_equal(fake_calls(FAKE_POST_SEND), 0);
	assert_ok(rs_task_free(get));
	fixture_free_task(add);
	rs_sync_event_remote_destroy(event);
}

static void test_a_failed_get_of_an_event_fills_nothing(void **state)
{
	struct fixture *fixture = *state;
	struct rs_sync_event_remote *event = remote_event();
	struct rs_task *task;

	fixture_run(fixture, 1);
	assert_ok(rs_task_alloc_event_get(fixture->rdma, fixture->connections[0], event,
					  fixture_room(fixture, 0, 8), NULL, &task));
	assert_ok(rs_task_submit(task));
	fake_complete_send(fixture_qp(fixture, 0), IBV_WC_REM_ACCESS_ERR);
	rs_pe_progress(fixture->pe);
	assert_status(rs_task_status(task), RS_ERR_REMOTE_ACCESS);
	assert_int_equal(rs_task_result_length(task), 0);
	assert_int_equal(rs_buf_data_length(rs_task_destination(task)), 0);
	fixture_free_task(task);
	rs_sync_event_remote_destroy(event);
}

static void test_tasks_on_events_need_an_event_and_a_local_buffer(void **state)
{
	struct fixture *fixture = *state;
	struct rs_sync_event_remote *event = remote_event();
	struct rs_buf *local = fixture_data(fixture, 0, 8);
	struct rs_buf *remote = fixture_peer_data(fixture, 0, 8);
	struct rs_connection *connection;
	struct rs_rdma *rdma = fixture->rdma;
	struct rs_task *task = NULL;

	fixture_run(fixture, 1);
	connection = fixture->connections[0];
	assert_status(rs_task_alloc_event_get(rdma, connection, NULL, local, NULL, &task),
		      RS_ERR_INVALID_VALUE);
	assert_status(rs_task_alloc_event_set(rdma, connection, NULL, local, NULL, &task),
		      RS_ERR_INVALID_VALUE);
	assert_status(rs_task_alloc_event_add(rdma, connection, NULL, local, 1, NULL, &task),
		      RS_ERR_INVALID_VALUE);
	assert_status(rs_task_alloc_event_get(rdma, connection, event, NULL, NULL, &task),
		      RS_ERR_INVALID_VALUE);
	assert_status(rs_task_alloc_event_set(rdma, connection, event, NULL, NULL, &task),
		      RS_ERR_INVALID_VALUE);
	assert_status(rs_task_alloc_event_add(rdma, connection, event, NULL, 1, NULL, &task),
		      RS_ERR_INVALID_VALUE);
	assert_status(rs_task_alloc_event_get(rdma, connection, event, remote, NULL, &task),
		      RS_ERR_INVALID_VALUE);
	assert_status(rs_task_alloc_event_set(rdma, connection, event, remote, NULL, &task),
		      RS_ERR_INVALID_VALUE);
	assert_status(rs_task_alloc_event_add(rdma, connection, event, remote, 1, NULL, &task),
		      RS_ERR_INVALID_VALUE);
	assert_status(rs_task_alloc_event_get(rdma, NULL, event, local, NULL, &task),
		      RS_ERR_INVALID_VALUE);
	assert_null(task);
	rs_buf_unref(local);
	rs_buf_unref(remote);
	rs_sync_event_remote_destroy(event);
}

static void test_the_setters_keep_to_what_tasks_on_events_need(void **state)
{
	struct fixture *fixture = *state;
	struct rs_sync_event_remote *event = remote_event();
	struct rs_buf *local = fixture_data(fixture, 0, 8);
	struct rs_buf *remote = fixture_peer_data(fixture, 0, 8);
	struct rs_task *get, *set, *add;

	fixture_run(fixture, 1);
	assert_ok(rs_task_alloc_event_get(fixture->rdma, fixture->connections[0], event, local,
					  NULL, &get));
	assert_ok(rs_task_alloc_event_set(fixture->rdma, fixture->connections[0], event, local,
					  NULL, &set));
	assert_ok(rs_task_alloc_event_add(fixture->rdma, fixture->connections[0], event, local, 1,
					  NULL, &add));
	assert_status(rs_task_set_destination(get, NULL), RS_ERR_INVALID_VALUE);
	assert_status(rs_task_set_destination(get, remote), RS_ERR_INVALID_VALUE);
	assert_status(rs_task_set_source(get, remote), RS_ERR_INVALID_VALUE);
	assert_status(rs_task_set_source(set, NULL), RS_ERR_INVALID_VALUE);
	assert_status(rs_task_set_source(set, remote), RS_ERR_INVALID_VALUE);
	assert_status(rs_task_set_destination(set, remote), RS_ERR_INVALID_VALUE);
	assert_status(rs_task_set_destination(add, NULL), RS_ERR_INVALID_VALUE);
	assert_status(rs_task_set_destination(add, remote), RS_ERR_INVALID_VALUE);
	assert_status(rs_task_set_source(add, remote), RS_ERR_INVALID_VALUE);
	assert_ptr_equal(rs_task_destination(get), local);
	assert_ptr_equal(rs_task_source(set), local);
	assert_ptr_equal(rs_task_destination(add), local);
	assert_ok(rs_task_free(get));
	assert_ok(rs_task_free(set));
	assert_ok(rs_task_free(add));
	rs_buf_unref(local);
	rs_buf_unref(remote);
	rs_sync_event_remote_destroy(event);
}

/* ---- Receives ---- */

static void test_a_receive_gets_the_message_its_kind_and_its_sender(void **state)
{
	struct fixture *fixture = *state;
	struct rs_buf *destination;
	struct rs_task *task;

	fixture_run(fixture, 1);
	destination = fixture_room(fixture, 16, 32);
	task = alloc_receive(fixture, destination);
	assert_ok(rs_task_submit(task));
	fake_deliver_send(fixture_qp(fixture, 0), "hello", 5);
	rs_pe_progress(fixture->pe);
	assert_ok(rs_task_status(task));
	assert_memory_equal(fixture->memory + 16, "hello", 5);
	assert_int_equal(rs_buf_data_length(destination), 5);
	assert_int_equal(rs_task_result_length(task), 5);
	assert_int_equal(rs_task_result_opcode(task), RS_RECEIVED_SEND);
	assert_int_equal(rs_task_result_immediate(task), 0);
	assert_ptr_equal(rs_task_result_connection(task), fixture->connections[0]);
	assert_null(rs_task_connection(task));
	fixture_free_task(task);
}

static void test_a_receive_gets_immediate_values_in_host_order(void **state)
{
	struct fixture *fixture = *state;
	struct rs_task *task;

	fixture_run(fixture, 1);
	task = alloc_receive(fixture, fixture_room(fixture, 0, 32));
	assert_ok(rs_task_submit(task));
	fake_deliver_send_immediate(fixture_qp(fixture, 0), "abc", 3, 0xa1b2c3d4);
	rs_pe_progress(fixture->pe);
	assert_int_equal(rs_task_result_immediate(task), 0xa1b2c3d4);
	assert_int_equal(rs_task_result_opcode(task), RS_RECEIVED_SEND_IMMEDIATE);
	assert_int_equal(rs_buf_data_length(rs_task_destination(task)), 3);
	/* The next message has none, and must not show the old one. */
	assert_ok(rs_task_submit(task));
	fake_deliver_send(fixture_qp(fixture, 0), "d", 1);
	rs_pe_progress(fixture->pe);
	assert_int_equal(rs_task_result_immediate(task), 0);
	assert_int_equal(rs_task_result_opcode(task), RS_RECEIVED_SEND);
	assert_memory_equal(fixture->memory, "abcd", 4);
	assert_int_equal(rs_buf_data_length(rs_task_destination(task)), 4);
	fixture_free_task(task);
}

static void test_a_write_with_immediate_leaves_the_receives_buffer_alone(void **state)
{
	struct fixture *fixture = *state;
	struct rs_task *with_buffer, *without;

	fixture_run(fixture, 1);
	with_buffer = alloc_receive(fixture, fixture_room(fixture, 0, 32));
	without = alloc_receive(fixture, NULL);
	assert_ok(rs_task_submit(with_buffer));
	assert_ok(rs_task_submit(without));
	fake_deliver_write_immediate(fixture_qp(fixture, 0), 1000, 7);
	fake_deliver_write_immediate(fixture_qp(fixture, 0), 2000, 8);
	rs_pe_progress(fixture->pe);
	assert_int_equal(rs_task_result_opcode(with_buffer), RS_RECEIVED_WRITE_IMMEDIATE);
	assert_int_equal(rs_task_result_length(with_buffer), 1000);
	assert_int_equal(rs_buf_data_length(rs_task_destination(with_buffer)), 0);
	assert_int_equal(rs_task_result_immediate(without), 8);
	assert_int_equal(rs_task_result_length(without), 2000);
	fixture_free_task(with_buffer);
	fixture_free_task(without);
}

static void test_a_receive_scatters_along_its_chain(void **state)
{
	struct fixture *fixture = *state;
	struct rs_buf *head;
	struct rs_task *task;

	assert_ok(rs_rdma_set_max_chain(fixture->rdma, 3));
	fixture_run(fixture, 1);
	head = fixture_room(fixture, 0, 3);
	assert_ok(rs_buf_chain(head, fixture_room(fixture, 100, 2)));
	assert_ok(rs_buf_chain(head, fixture_room(fixture, 200, 50)));
	task = alloc_receive(fixture, head);
	assert_ok(rs_task_submit(task));
	fake_deliver_send(fixture_qp(fixture, 0), "abcdefg", 7);
	rs_pe_progress(fixture->pe);
	assert_memory_equal(fixture->memory, "abc", 3);
	assert_memory_equal(fixture->memory + 100, "de", 2);
	assert_memory_equal(fixture->memory + 200, "fg", 2);
	assert_int_equal(rs_buf_data_length(head), 3);
	assert_int_equal(rs_buf_data_length(rs_buf_next(rs_buf_next(head))), 2);
	assert_int_equal(rs_buf_chain_data_length(head), 7);
	fixture_free_task(task);
}

static void test_a_receive_that_was_too_small_fails_and_moves_nothing(void **state)
{
	struct fixture *fixture = *state;
	struct rs_task *task;

	fixture_run(fixture, 1);
	task = alloc_receive(fixture, fixture_room(fixture, 0, 8));
	assert_ok(rs_task_submit(task));
	fake_fail_receive(fixture_qp(fixture, 0), IBV_WC_LOC_LEN_ERR);
	rs_pe_progress(fixture->pe);
	assert_status(rs_task_status(task), RS_ERR_LOCAL_LENGTH);
	assert_int_equal(rs_task_result_length(task), 0);
	assert_int_equal(rs_buf_data_length(rs_task_destination(task)), 0);
	assert_ptr_equal(fixture->last_failed_connection, fixture->connections[0]);
	fixture_free_task(task);
}

static void test_a_failed_receive_forgets_what_the_one_before_got(void **state)
{
	struct fixture *fixture = *state;
	struct rs_task *task;

	fixture_run(fixture, 1);
	task = alloc_receive(fixture, fixture_room(fixture, 0, 8));
	assert_ok(rs_task_submit(task));
	fake_deliver_send(fixture_qp(fixture, 0), "old", 3);
	rs_pe_progress(fixture->pe);
	assert_ok(rs_task_submit(task));
	fixture_stop(fixture);
	assert_status(rs_task_status(task), RS_ERR_FLUSHED);
	assert_int_equal(rs_task_result_length(task), 0);
	assert_int_equal(rs_buf_data_length(rs_task_destination(task)), 3);
	fixture_free_task(task);
}

static void test_receives_may_be_submitted_before_running(void **state)
{
	struct fixture *fixture = *state;
	struct rs_connection *connection;
	struct rs_task *task;

	assert_ok(rs_rdma_set_needed_connections(fixture->rdma, 1));
	fixture_start(fixture);
	task = alloc_receive(fixture, fixture_room(fixture, 0, 8));
	assert_ok(rs_task_submit(task));
	connection = fixture_connect(fixture, 0x100);
	/* The peer is faster than our own step to Running. */
	fake_deliver_send(rs_connection_qp(connection), "x", 1);
	rs_pe_progress(fixture->pe);
	assert_int_equal(fixture->completed, 1);
	assert_ptr_equal(rs_task_result_connection(task), connection);
	fixture_free_task(task);
}

/* ---- Chains, and what is refused ---- */

static void test_a_send_gathers_its_chain(void **state)
{
	struct fixture *fixture = *state;
	struct rs_buf *head;
	struct rs_task *task;

	assert_ok(rs_rdma_set_max_chain(fixture->rdma, 2));
	fixture_run(fixture, 1);
	head = fixture_data(fixture, 50, 5);
	assert_ok(rs_buf_chain(head, fixture_data(fixture, 10, 7)));
	task = alloc_send(fixture, head);
	assert_ok(rs_task_submit(task));
	assert_int_equal(posted(fixture)->wr.num_sge, 2);
	assert_int_equal(posted(fixture)->sges[1].addr, (uintptr_t)fixture->memory + 10);
	fake_complete_send(fixture_qp(fixture, 0), IBV_WC_SUCCESS);
	rs_pe_progress(fixture->pe);
	assert_int_equal(rs_task_result_length(task), 12);
	/* One piece more than configured. */
	assert_ok(rs_buf_chain(head, fixture_data(fixture, 0, 1)));
	assert_status(rs_task_submit(task), RS_ERR_TOO_BIG);
	fixture_free_task(task);
}

static void test_a_read_scatters_along_its_chain(void **state)
{
	struct fixture *fixture = *state;
	struct rs_buf *head;
	struct rs_task *task;

	assert_ok(rs_rdma_set_max_chain(fixture->rdma, 2));
	fixture_run(fixture, 1);
	head = fixture_room(fixture, 0, 5);
	assert_ok(rs_buf_chain(head, fixture_room(fixture, 100, 20)));
	assert_ok(rs_task_alloc_read(fixture->rdma, fixture->connections[0],
				     fixture_peer_data(fixture, 0, 12), head, NULL, &task));
	carry_out(fixture, task);
	assert_int_equal(rs_buf_data_length(head), 5);
	assert_int_equal(rs_buf_data_length(rs_buf_next(head)), 7);
	fixture_free_task(task);
}

static void test_local_and_remote_buffers_are_refused_in_each_others_place(void **state)
{
	struct fixture *fixture = *state;
	struct rs_buf *local = fixture_data(fixture, 0, 8);
	struct rs_buf *remote = fixture_peer_data(fixture, 0, 8);
	struct rs_connection *connection;
	struct rs_rdma *rdma = fixture->rdma;
	struct rs_task *task = NULL;

	fixture_run(fixture, 1);
	connection = fixture->connections[0];
	assert_status(rs_task_alloc_send(rdma, connection, remote, NULL, &task),
		      RS_ERR_INVALID_VALUE);
	assert_status(rs_task_alloc_send_immediate(rdma, connection, remote, 0, NULL, &task),
		      RS_ERR_INVALID_VALUE);
	assert_status(rs_task_alloc_receive(rdma, remote, NULL, &task), RS_ERR_INVALID_VALUE);
	assert_status(rs_task_alloc_write(rdma, connection, remote, remote, NULL, &task),
		      RS_ERR_INVALID_VALUE);
	assert_status(rs_task_alloc_write(rdma, connection, local, local, NULL, &task),
		      RS_ERR_INVALID_VALUE);
	assert_status(rs_task_alloc_write(rdma, connection, local, NULL, NULL, &task),
		      RS_ERR_INVALID_VALUE);
	assert_status(rs_task_alloc_write_immediate(rdma, connection, local, local, 0, NULL, &task),
		      RS_ERR_INVALID_VALUE);
	assert_status(rs_task_alloc_read(rdma, connection, local, local, NULL, &task),
		      RS_ERR_INVALID_VALUE);
	assert_status(rs_task_alloc_read(rdma, connection, remote, remote, NULL, &task),
		      RS_ERR_INVALID_VALUE);
	assert_status(rs_task_alloc_read(rdma, connection, NULL, local, NULL, &task),
		      RS_ERR_INVALID_VALUE);
	assert_status(rs_task_alloc_compare_and_swap(rdma, connection, local, local, 0, 0, NULL,
						     &task),
		      RS_ERR_INVALID_VALUE);
	assert_status(rs_task_alloc_fetch_and_add(rdma, connection, remote, remote, 0, NULL, &task),
		      RS_ERR_INVALID_VALUE);
	assert_null(task);
	task = alloc_send(fixture, local);
	assert_status(rs_task_set_source(task, remote), RS_ERR_INVALID_VALUE);
	assert_status(rs_task_set_destination(task, remote), RS_ERR_INVALID_VALUE);
	assert_ptr_equal(rs_task_source(task), local);
	assert_null(rs_task_destination(task));
	fixture_free_task(task);
	rs_buf_unref(remote);
}

static void test_the_connection_of_another_instance_or_none_is_refused(void **state)
{
	struct fixture *fixture = *state;
	struct rs_connection *foreign;
	struct rs_task *task;
	struct rs_rdma *other;
	const char *line;

	fixture_run(fixture, 1);
	assert_ok(rs_rdma_create(fixture->device, &other));
	assert_ok(rs_pe_connect_ctx(fixture->pe, rs_rdma_as_ctx(other)));
	assert_ok(rs_ctx_start(rs_rdma_as_ctx(other)));
	rs_pe_progress(fixture->pe);
	assert_ok(rs_rdma_export(other, &line, &foreign));
	assert_status(rs_task_alloc_send(fixture->rdma, foreign, NULL, NULL, &task),
		      RS_ERR_INVALID_VALUE);
	assert_status(rs_task_alloc_send(fixture->rdma, NULL, NULL, NULL, &task),
		      RS_ERR_INVALID_VALUE);
	/* Of this type the other instance has no tasks at all. */
	assert_status(rs_task_alloc_send(other, foreign, NULL, NULL, &task), RS_ERR_INVALID_VALUE);
	rs_ctx_stop(rs_rdma_as_ctx(other));
	rs_pe_progress(fixture->pe);
	assert_ok(rs_rdma_destroy(other));
}

static void test_a_type_has_only_so_many_tasks(void **state)
{
	struct fixture *fixture = *state;
	struct rs_task *tasks[FIXTURE_TASKS], *one_more;

	fixture_run(fixture, 1);
	for (int i = 0; i < FIXTURE_TASKS; i++)
		tasks[i] = alloc_send(fixture, NULL);
	assert_status(rs_task_alloc_send(fixture->rdma, fixture->connections[0], NULL, NULL,
					 &one_more),
		      RS_ERR_FULL);
	/* Other types are not concerned. */
	one_more = alloc_receive(fixture, NULL);
	assert_ok(rs_task_free(one_more));
	assert_ok(rs_task_free(tasks[1]));
	tasks[1] = alloc_send(fixture, NULL);
	for (int i = 0; i < FIXTURE_TASKS; i++)
		assert_ok(rs_task_free(tasks[i]));
	assert_ok(rs_task_free(NULL));
}

static void test_all_tasks_of_an_instance_can_be_in_flight_on_one_connection(void **state)
{
	struct fixture *fixture = *state;
	struct rs_sync_event_remote *event = remote_event();
	struct rs_task *tasks[10 * FIXTURE_TASKS];
	struct rs_connection *connection;
	struct rs_rdma *rdma = fixture->rdma;
	unsigned count = 0;

	fixture_run(fixture, 1);
	connection = fixture->connections[0];
	for (int i = 0; i < FIXTURE_TASKS; i++) {
		struct rs_buf *local = fixture_data(fixture, 0, 8);
		struct rs_buf *room = fixture_room(fixture, 0, 8);
		struct rs_buf *there = fixture_peer_data(fixture, 0, 8);
		struct rs_buf *there_room = fixture_peer_room(fixture, 0, 8);

		assert_ok(rs_task_alloc_send(rdma, connection, local, NULL, &tasks[count++]));
		assert_ok(rs_task_alloc_send_immediate(rdma, connection, local, 0, NULL,
						       &tasks[count++]));
		assert_ok(rs_task_alloc_write(rdma, connection, local, there_room, NULL,
					      &tasks[count++]));
		assert_ok(rs_task_alloc_write_immediate(rdma, connection, local, there_room, 0,
							NULL, &tasks[count++]));
		assert_ok(rs_task_alloc_read(rdma, connection, there, room, NULL, &tasks[count++]));
		assert_ok(rs_task_alloc_compare_and_swap(rdma, connection, there, room, 0, 0, NULL,
							 &tasks[count++]));
		assert_ok(rs_task_alloc_fetch_and_add(rdma, connection, there, room, 0, NULL,
						      &tasks[count++]));
		assert_ok(rs_task_alloc_event_get(rdma, connection, event, room, NULL,
						  &tasks[count++]));
		assert_ok(rs_task_alloc_event_set(rdma, connection, event, local, NULL,
						  &tasks[count++]));
		assert_ok(rs_task_alloc_event_add(rdma, connection, event, room, 0, NULL,
						  &tasks[count++]));
		for (unsigned j = count - 10; j < count; j++)
			assert_ok(rs_task_submit(tasks[j]));
		/* From here on the buffers are held by the tasks in flight alone. */
		rs_buf_unref(local);
		rs_buf_unref(room);
		rs_buf_unref(there);
		rs_buf_unref(there_room);
	}
	assert_int_equal(rs_ctx_in_flight(fixture->ctx), count);
	assert_int_equal(rs_buf_inventory_available(fixture->inventory),
			 FIXTURE_BUFS - 4 * FIXTURE_TASKS);
	fixture_stop(fixture);
	assert_int_equal(fixture->failed, count);
	assert_int_equal(rs_buf_inventory_available(fixture->inventory), FIXTURE_BUFS);
	while (count-- > 0)
		assert_ok(rs_task_free(tasks[count]));
	rs_sync_event_remote_destroy(event);
}

/* ---- States ---- */

static void test_tasks_are_allocated_in_starting_and_running_only(void **state)
{
	struct fixture *fixture = *state;
	struct rs_task *task;

	assert_status(rs_task_alloc_receive(fixture->rdma, NULL, NULL, &task), RS_ERR_BAD_STATE);
	fixture_run(fixture, 1);
	task = alloc_receive(fixture, NULL);
	fixture_stop(fixture);
	assert_status(rs_task_submit(task), RS_ERR_BAD_STATE);
	assert_status(rs_task_alloc_receive(fixture->rdma, NULL, NULL, &task), RS_ERR_BAD_STATE);
	/* Freeing is always allowed. */
	assert_ok(rs_task_free(task));
}

static void test_sends_are_submitted_in_running_on_connected_connections_only(void **state)
{
	struct fixture *fixture = *state;
	struct rs_connection *connection;
	struct rs_task *task;

	assert_ok(rs_rdma_set_needed_connections(fixture->rdma, 1));
	assert_ok(rs_rdma_set_max_connections(fixture->rdma, 2));
	fixture_start(fixture);
	connection = fixture_export(fixture);
	assert_ok(rs_task_alloc_send(fixture->rdma, connection, NULL, NULL, &task));
	assert_status(rs_task_submit(task), RS_ERR_BAD_STATE);
	fixture_connect(fixture, 0x100);
	assert_status(rs_task_submit(task), RS_ERR_BAD_STATE);
	rs_pe_progress(fixture->pe);
	assert_int_equal(rs_ctx_state(fixture->ctx), RS_CTX_RUNNING);
	/* Running, but this connection is only exported. */
	assert_status(rs_task_submit(task), RS_ERR_BAD_STATE);
	assert_ok(rs_rdma_connect(fixture->rdma, peer_connection_line(0x101), connection));
	assert_ok(rs_task_submit(task));
	fixture_stop(fixture);
	assert_ok(rs_task_free(task));
}

static void test_a_task_in_flight_can_be_neither_changed_freed_nor_submitted(void **state)
{
	struct fixture *fixture = *state;
	struct rs_buf *source, *other;
	struct rs_task *task;

	fixture_run(fixture, 1);
	source = fixture_data(fixture, 0, 8);
	other = fixture_data(fixture, 8, 8);
	task = alloc_send(fixture, source);
	assert_ok(rs_task_submit(task));
	assert_status(rs_task_submit(task), RS_ERR_BAD_STATE);
	assert_status(rs_task_free(task), RS_ERR_BAD_STATE);
	assert_status(rs_task_set_source(task, other), RS_ERR_BAD_STATE);
	assert_status(rs_task_set_destination(task, NULL), RS_ERR_BAD_STATE);
	assert_status(rs_task_set_user_data(task, task), RS_ERR_BAD_STATE);
	assert_status(rs_task_set_immediate(task, 1), RS_ERR_BAD_STATE);
	assert_status(rs_task_set_atomic(task, 1, 1), RS_ERR_BAD_STATE);
	assert_ptr_equal(rs_task_source(task), source);
	assert_null(rs_task_user_data(task));
	assert_int_equal(fake_send_count(fixture_qp(fixture, 0)), 1);
	assert_int_equal(rs_ctx_in_flight(fixture->ctx), 1);
	fake_complete_send(fixture_qp(fixture, 0), IBV_WC_SUCCESS);
	rs_pe_progress(fixture->pe);
	assert_int_equal(fixture->completed, 1);
	assert_ok(rs_task_set_source(task, other));
	assert_ok(rs_task_free(task));
	/* Freed already. */
	assert_status(rs_task_free(task), RS_ERR_BAD_STATE);
	assert_status(rs_task_submit(task), RS_ERR_BAD_STATE);
	rs_buf_unref(source);
	rs_buf_unref(other);
}

static void test_setters_count_for_the_next_submission(void **state)
{
	struct fixture *fixture = *state;
	struct end_record end = { 0 };
	struct rs_buf *second;
	struct rs_task *task;

	fixture_run(fixture, 1);
	second = fixture_data(fixture, 300, 3);
	assert_ok(rs_task_alloc_send_immediate(fixture->rdma, fixture->connections[0], NULL, 1,
					       NULL, &task));
	carry_out(fixture, task);
	assert_ok(rs_task_set_source(task, second));
	assert_ok(rs_task_set_immediate(task, 2));
	assert_ok(rs_task_set_user_data(task, &end));
	assert_ok(rs_task_submit(task));
	assert_int_equal(posted(fixture)->sges[0].addr, (uintptr_t)fixture->memory + 300);
	assert_int_equal(posted(fixture)->wr.imm_data, htonl(2));
	fake_complete_send(fixture_qp(fixture, 0), IBV_WC_SUCCESS);
	rs_pe_progress(fixture->pe);
	assert_int_equal(end.completed, 1);
	fixture_free_task(task);
}

static void test_a_post_that_fails_leaves_the_task_as_it_was(void **state)
{
	struct fixture *fixture = *state;
	struct rs_task *send, *receive;

	fixture_run(fixture, 1);
	send = alloc_send(fixture, fixture_data(fixture, 0, 8));
	receive = alloc_receive(fixture, fixture_room(fixture, 0, 8));
	fake_fail_call(FAKE_POST_SEND, 0, EINVAL);
	assert_status(rs_task_submit(send), RS_ERR_INVALID_VALUE);
	assert_logged("ibv_post_send(connection 0, send, 8 bytes in 1 pieces) failed");
	fake_fail_call(FAKE_POST_SEND, 0, ENOMEM);
	assert_status(rs_task_submit(send), RS_ERR_FULL);
	fake_fail_call(FAKE_POST_SRQ_RECV, 0, EINVAL);
	assert_status(rs_task_submit(receive), RS_ERR_INVALID_VALUE);
	fake_fail_call(FAKE_POST_SRQ_RECV, 0, ENOMEM);
	assert_status(rs_task_submit(receive), RS_ERR_FULL);
	assert_int_equal(rs_ctx_in_flight(fixture->ctx), 0);
	rs_pe_progress(fixture->pe);
	assert_int_equal(fixture->completed + fixture->failed, 0);
	carry_out(fixture, send);
	fixture_free_task(send);
	fixture_free_task(receive);
}

static void test_a_buffer_that_was_given_back_is_not_sent(void **state)
{
	struct fixture *fixture = *state;
	struct rs_buf *source;
	struct rs_task *task;

	fixture_run(fixture, 1);
	source = fixture_data(fixture, 0, 8);
	task = alloc_send(fixture, source);
	rs_buf_unref(source);
	assert_status(rs_task_submit(task), RS_ERR_INVALID_VALUE);
	assert_int_equal(fake_calls(FAKE_POST_SEND), 0);
	assert_ok(rs_task_free(task));
}

static void test_a_map_of_another_device_is_not_sent(void **state)
{
	struct fixture *fixture = *state;
	struct rs_device *other;
	struct rs_mmap *mmap;
	struct rs_buf *source;
	struct rs_task *task;

	fixture_run(fixture, 1);
	assert_ok(rs_device_open(NULL, 0, &other));
	assert_ok(rs_mmap_create(&mmap));
	assert_ok(rs_mmap_set_memrange(mmap, fixture->memory, 16));
	assert_ok(rs_mmap_add_device(mmap, other));
	assert_ok(rs_mmap_start(mmap));
	assert_ok(rs_buf_get_by_data(fixture->inventory, mmap, (uintptr_t)fixture->memory, 16,
				     &source));
	task = alloc_send(fixture, source);
	assert_status(rs_task_submit(task), RS_ERR_INVALID_VALUE);
	fixture_free_task(task);
	assert_ok(rs_mmap_destroy(mmap));
	assert_ok(rs_device_close(other));
}

static void test_a_task_in_flight_keeps_its_buffers_when_the_user_lets_go(void **state)
{
	struct fixture *fixture = *state;
	struct rs_buf *source;
	struct rs_task *task;

	fixture_run(fixture, 1);
	source = fixture_data(fixture, 0, 8);
	task = alloc_send(fixture, source);
	assert_ok(rs_task_submit(task));
	rs_buf_unref(source);
	assert_int_equal(rs_buf_inventory_available(fixture->inventory), FIXTURE_BUFS - 1);
	assert_status(rs_mmap_stop(fixture->mmap), RS_ERR_IN_USE);
	fake_complete_send(fixture_qp(fixture, 0), IBV_WC_SUCCESS);
	rs_pe_progress(fixture->pe);
	assert_int_equal(rs_buf_inventory_available(fixture->inventory), FIXTURE_BUFS);
	assert_ok(rs_task_free(task));
}

/* ---- Callbacks ---- */

static void resubmit(struct fixture *fixture, struct rs_task *task)
{
	if (fixture->completed < 3)
		assert_ok(rs_task_submit(task));
}

static void test_a_task_can_be_submitted_again_in_its_callback(void **state)
{
	struct fixture *fixture = *state;
	struct end_record end = { 0 };
	struct rs_task *task;

	fixture_run(fixture, 1);
	fixture->on_end = resubmit;
	task = fixture_submit_send(fixture, 8, &end);
	for (unsigned i = 1; i <= 3; i++) {
		fake_complete_send(fixture_qp(fixture, 0), IBV_WC_SUCCESS);
		assert_int_equal(rs_pe_progress(fixture->pe), 1);
		assert_int_equal(end.completed, i);
	}
	assert_int_equal(rs_ctx_in_flight(fixture->ctx), 0);
	fixture_free_task(task);
}

static void free_task(struct fixture *fixture, struct rs_task *task)
{
	(void)fixture;
	fixture_free_task(task);
}

static void test_a_task_and_its_buffers_can_be_given_back_in_its_callback(void **state)
{
	struct fixture *fixture = *state;

	fixture_run(fixture, 1);
	fixture->on_end = free_task;
	for (int round = 0; round < 3 * FIXTURE_TASKS; round++) {
		fixture_submit_send(fixture, 8, NULL);
		fixture_submit_receive(fixture, 0, 8, NULL);
		fake_complete_send(fixture_qp(fixture, 0), IBV_WC_SUCCESS);
		fake_deliver_send(fixture_qp(fixture, 0), "x", 1);
		rs_pe_progress(fixture->pe);
		assert_int_equal(rs_buf_inventory_available(fixture->inventory), FIXTURE_BUFS);
	}
	fixture_submit_send(fixture, 8, NULL);
	fixture_submit_receive(fixture, 0, 8, NULL);
	fixture_stop(fixture);
	assert_int_equal(fixture->failed, 2);
}

static void replace_task(struct fixture *fixture, struct rs_task *task)
{
	fixture_free_task(task);
	if (fixture->completed + fixture->failed < 4)
		fixture_submit_send(fixture, 8, NULL);
}

static void test_a_callback_may_free_its_task_and_submit_another(void **state)
{
	struct fixture *fixture = *state;

	fixture_run(fixture, 1);
	fixture->on_end = replace_task;
	fixture_submit_send(fixture, 8, NULL);
	for (int i = 0; i < 4; i++) {
		fake_complete_send(fixture_qp(fixture, 0), IBV_WC_SUCCESS);
		rs_pe_progress(fixture->pe);
	}
	assert_int_equal(fixture->completed, 4);
	assert_int_equal(fake_send_count(fixture_qp(fixture, 0)), 0);
}

static void test_opcodes_have_names(void **state)
{
	(void)state;
	assert_string_equal(rs_receive_opcode_name(RS_RECEIVED_WRITE_IMMEDIATE),
			    "write with immediate");
	assert_string_equal(rs_receive_opcode_name((enum rs_receive_opcode)9), "unknown");
	assert_string_equal(rs_op_name(RS_OP_EVENT_GET), "remote event get");
	assert_string_equal(rs_op_name(RS_OP_EVENT_SET), "remote event set");
	assert_string_equal(rs_op_name(RS_OP_EVENT_ADD), "remote event add");
}

#define task_test(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		task_test(test_a_send_carries_the_data_of_its_source),
		task_test(test_a_message_without_data_has_no_pieces),
		task_test(test_a_write_goes_behind_the_data_of_the_peers_buffer),
		task_test(test_a_write_with_immediate_has_both),
		task_test(test_a_read_fills_its_destination_behind_its_data),
		task_test(test_compare_and_swap_hands_over_both_values),
		task_test(test_fetch_and_add_hands_over_what_to_add),
		task_test(test_atomics_need_8_aligned_bytes_there_and_8_bytes_of_room_here),
		task_test(test_less_room_than_data_is_refused_and_nothing_is_posted),
		task_test(test_an_events_get_reads_8_bytes_behind_the_data),
		task_test(test_an_events_set_writes_its_8_bytes),
		task_test(test_an_events_add_fetches_the_value_from_before),
		task_test(test_an_event_is_set_to_exactly_8_bytes),
		task_test(test_the_value_of_an_event_needs_8_bytes_of_room),
		task_test(test_a_failed_get_of_an_event_fills_nothing),
		task_test(test_tasks_on_events_need_an_event_and_a_local_buffer),
		task_test(test_the_setters_keep_to_what_tasks_on_events_need),
		task_test(test_a_receive_gets_the_message_its_kind_and_its_sender),
		task_test(test_a_receive_gets_immediate_values_in_host_order),
		task_test(test_a_write_with_immediate_leaves_the_receives_buffer_alone),
		task_test(test_a_receive_scatters_along_its_chain),
		task_test(test_a_receive_that_was_too_small_fails_and_moves_nothing),
		task_test(test_a_failed_receive_forgets_what_the_one_before_got),
		task_test(test_receives_may_be_submitted_before_running),
		task_test(test_a_send_gathers_its_chain),
		task_test(test_a_read_scatters_along_its_chain),
		task_test(test_local_and_remote_buffers_are_refused_in_each_others_place),
		task_test(test_the_connection_of_another_instance_or_none_is_refused),
		task_test(test_a_type_has_only_so_many_tasks),
		task_test(test_all_tasks_of_an_instance_can_be_in_flight_on_one_connection),
		task_test(test_tasks_are_allocated_in_starting_and_running_only),
		task_test(test_sends_are_submitted_in_running_on_connected_connections_only),
		task_test(test_a_task_in_flight_can_be_neither_changed_freed_nor_submitted),
		task_test(test_setters_count_for_the_next_submission),
		task_test(test_a_post_that_fails_leaves_the_task_as_it_was),
		task_test(test_a_buffer_that_was_given_back_is_not_sent),
		task_test(test_a_map_of_another_device_is_not_sent),
		task_test(test_a_task_in_flight_keeps_its_buffers_when_the_user_lets_go),
		task_test(test_a_task_can_be_submitted_again_in_its_callback),
		task_test(test_a_task_and_its_buffers_can_be_given_back_in_its_callback),
		task_test(test_a_callback_may_free_its_task_and_submit_another),
		task_test(test_opcodes_have_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
