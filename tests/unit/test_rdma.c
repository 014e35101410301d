#include "support.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "rdma.h"

static void no_task_callback(struct rs_task *task, void *ctx_user_data)
{
	(void)task;
	(void)ctx_user_data;
}

/* ---- Configuration ---- */

static void assert_all_setters(struct rs_rdma *rdma, enum rs_status expected)
{
	assert_status(rs_rdma_set_name(rdma, "name"), expected);
	assert_status(rs_rdma_set_permissions(rdma, RS_ACCESS_ALL), expected);
	assert_status(rs_rdma_set_gid_index(rdma, 1), expected);
	assert_status(rs_rdma_set_max_connections(rdma, 1), expected);
	assert_status(rs_rdma_set_needed_connections(rdma, 0), expected);
	assert_status(rs_rdma_set_transport(rdma, RS_TRANSPORT_RC), expected);
	assert_status(rs_rdma_set_max_chain(rdma, 1), expected);
	assert_status(rs_rdma_set_max_sends(rdma, 1), expected);
	assert_status(rs_rdma_set_ack_timeout(rdma, 18, 6), expected);
	assert_status(rs_rdma_set_connection_failed_cb(rdma, NULL), expected);
	assert_status(rs_rdma_set_task_conf(rdma, RS_OP_SEND, no_task_callback, no_task_callback,
					    1),
		      expected);
	assert_status(rs_ctx_set_state_changed_cb(rs_rdma_as_ctx(rdma), NULL), expected);
}

static void test_setters_are_for_an_idle_instance_only(void **state)
{
	struct fixture *fixture = *state;
	struct rs_rdma *rdma = fixture->rdma;

	assert_ok(rs_rdma_set_needed_connections(rdma, 1));
	assert_ok(rs_ctx_start(fixture->ctx));
	assert_all_setters(rdma, RS_ERR_BAD_STATE);
	rs_pe_progress(fixture->pe);
	assert_int_equal(rs_ctx_state(fixture->ctx), RS_CTX_STARTING);
	assert_all_setters(rdma, RS_ERR_BAD_STATE);
	fixture_connect(fixture, 0x100);
	rs_pe_progress(fixture->pe);
	assert_int_equal(rs_ctx_state(fixture->ctx), RS_CTX_RUNNING);
	assert_all_setters(rdma, RS_ERR_BAD_STATE);
	fixture_stop(fixture);
	assert_all_setters(rdma, RS_OK);
}

static void test_values_out_of_range_are_refused(void **state)
{
	struct fixture *fixture = *state;
	struct rs_rdma *rdma = fixture->rdma;

	assert_status(rs_rdma_set_permissions(rdma, 1U << 20), RS_ERR_INVALID_VALUE);
	assert_status(rs_rdma_set_gid_index(rdma, -2), RS_ERR_INVALID_VALUE);
	assert_status(rs_rdma_set_max_connections(rdma, 0), RS_ERR_INVALID_VALUE);
	assert_ok(rs_rdma_set_max_connections(rdma, 64));
	log_forget();
	assert_status(rs_rdma_set_max_connections(rdma, 65), RS_ERR_INVALID_VALUE);
	assert_logged("65 connections: device fake0 can have 1 to 64");
	assert_status(rs_rdma_set_name(rdma, ""), RS_ERR_INVALID_VALUE);
	assert_status(rs_rdma_set_name(rdma, "two words"), RS_ERR_INVALID_VALUE);
	assert_status(rs_rdma_set_max_chain(rdma, 0), RS_ERR_INVALID_VALUE);
	assert_ok(rs_rdma_set_max_chain(rdma, RS_RDMA_MAX_CHAIN));
	assert_status(rs_rdma_set_max_chain(rdma, RS_RDMA_MAX_CHAIN + 1), RS_ERR_INVALID_VALUE);
	assert_status(rs_rdma_set_ack_timeout(rdma, 0, 6), RS_ERR_INVALID_VALUE);
	assert_status(rs_rdma_set_ack_timeout(rdma, 32, 6), RS_ERR_INVALID_VALUE);
	/* 7 would mean "for ever" to some devices. */
	assert_status(rs_rdma_set_ack_timeout(rdma, 31, 7), RS_ERR_INVALID_VALUE);
	assert_status(rs_rdma_set_task_conf(rdma, RS_OP_SEND, no_task_callback, NULL, 1),
		      RS_ERR_INVALID_VALUE);
	assert_status(rs_rdma_set_task_conf(rdma, RS_OP_SEND, NULL, no_task_callback, 1),
		      RS_ERR_INVALID_VALUE);
	assert_status(rs_rdma_set_task_conf(rdma, RS_OP_SEND, no_task_callback, no_task_callback,
					    0),
		      RS_ERR_INVALID_VALUE);
	assert_status(rs_rdma_set_task_conf(rdma, (enum rs_op)RS_OP_COUNT, no_task_callback,
					    no_task_callback, 1),
		      RS_ERR_INVALID_VALUE);
}

static void test_the_dc_transport_is_refused_with_advice(void **state)
{
	struct fixture *fixture = *state;

	assert_status(rs_rdma_set_transport(fixture->rdma, RS_TRANSPORT_DC), RS_ERR_NOT_SUPPORTED);
	assert_logged("device fake0 offers no DC transport");
	assert_logged("use RC");
}

static void test_operations_that_the_device_lacks_are_refused(void **state)
{
	struct rs_device *device;
	struct rs_rdma *rdma;

	(void)state;
	fake_add_device("weak0")->atomic_cap = IBV_ATOMIC_NONE;
	assert_ok(rs_device_open("weak0", 0, &device));
	assert_ok(rs_rdma_create(device, &rdma));
	assert_status(rs_rdma_set_task_conf(rdma, RS_OP_FETCH_AND_ADD, no_task_callback,
					    no_task_callback, 1),
		      RS_ERR_NOT_SUPPORTED);
	assert_logged("device weak0 cannot do this: fetch-and-add");
	assert_ok(rs_rdma_destroy(rdma));
	assert_ok(rs_device_close(device));
}

static void test_tasks_that_are_in_use_cannot_be_configured_again(void **state)
{
	struct fixture *fixture = *state;
	struct rs_task *task;

	fixture_run(fixture, 1);
	assert_ok(rs_task_alloc_receive(fixture->rdma, NULL, NULL, &task));
	fixture_stop(fixture);
	assert_status(rs_rdma_set_task_conf(fixture->rdma, RS_OP_RECEIVE, no_task_callback,
					    no_task_callback, 9),
		      RS_ERR_IN_USE);
	assert_ok(rs_task_free(task));
	assert_ok(rs_rdma_set_task_conf(fixture->rdma, RS_OP_RECEIVE, no_task_callback,
					no_task_callback, 9));
}

static void test_an_instance_holds_its_device(void **state)
{
	struct fixture *fixture = *state;
	struct rs_device *device;
	struct rs_rdma *rdma;

	(void)fixture;
	assert_ok(rs_device_open(NULL, 0, &device));
	assert_ok(rs_rdma_create(device, &rdma));
	assert_status(rs_device_close(device), RS_ERR_IN_USE);
	assert_ok(rs_rdma_destroy(rdma));
	assert_ok(rs_device_close(device));
	assert_ok(rs_rdma_destroy(NULL));
}

/* ---- Start ---- */

static void test_starting_unwinds_whatever_call_fails(void **state)
{
	struct fixture *fixture = *state;
	unsigned skip, queries = 4;

	for (skip = 0;; skip++) {
		enum rs_status status;

		fake_fail_any(skip, ENOMEM);
		status = rs_ctx_start(fixture->ctx);
		if (!fake_has_failed())
			break;
		assert_status(status, RS_ERR_NO_MEMORY);
		assert_int_equal(fake_live(), fixture->live_before_start);
		assert_int_equal(rs_pe_progress(fixture->pe), 0);
		assert_int_equal(log_count("error: "), 1);
		log_forget();
		/* And it works when nothing fails. */
		fixture_run(fixture, 1);
		fixture_stop(fixture);
		assert_int_equal(fake_live(), fixture->live_before_start);
		log_forget();
	}
	/* The GID table, channel, completion queue, shared receive queue. */
	assert_int_equal(skip, queries + 3);
	rs_pe_progress(fixture->pe);
}

static void test_an_instance_without_receives_has_no_shared_queue(void **state)
{
	struct fixture *fixture = *state;
	struct rs_connection *connection;
	struct rs_rdma *rdma;
	const char *line;

	assert_ok(rs_rdma_create(fixture->device, &rdma));
	assert_ok(rs_pe_connect_ctx(fixture->pe, rs_rdma_as_ctx(rdma)));
	assert_ok(rs_ctx_start(rs_rdma_as_ctx(rdma)));
	rs_pe_progress(fixture->pe);
	assert_int_equal(fake_calls(FAKE_CREATE_SRQ), 0);
	assert_ok(rs_rdma_export(rdma, &line, &connection));
	assert_null(rs_connection_qp(connection)->srq);
	/* Not empty: some devices make no queue without a place. */
	assert_int_equal(fake_qp_init_attr(rs_connection_qp(connection))->cap.max_send_wr, 1);
	rs_ctx_stop(rs_rdma_as_ctx(rdma));
	rs_pe_progress(fixture->pe);
	assert_ok(rs_rdma_destroy(rdma));
}

static void test_more_needed_connections_than_can_exist_do_not_start(void **state)
{
	struct fixture *fixture = *state;

	assert_ok(rs_rdma_set_needed_connections(fixture->rdma, 2));
	assert_status(rs_ctx_start(fixture->ctx), RS_ERR_INVALID_VALUE);
	assert_logged("2 needed connections are configured, but 1 are possible");
	assert_int_equal(fake_live(), fixture->live_before_start);
	assert_ok(rs_rdma_set_max_connections(fixture->rdma, 2));
	assert_ok(rs_ctx_start(fixture->ctx));
}

static void test_more_tasks_than_the_device_s_queues_hold_do_not_start(void **state)
{
	struct fixture *fixture = *state;
	const int limit = rs_device_attr(fixture->device)->max_qp_wr;

	assert_ok(rs_rdma_set_task_conf(fixture->rdma, RS_OP_SEND, no_task_callback,
					no_task_callback, (size_t)limit + 1));
	assert_status(rs_ctx_start(fixture->ctx), RS_ERR_INVALID_VALUE);
	assert_logged("tasks per connection are configured, but 1024 are possible");
	assert_ok(rs_rdma_set_task_conf(fixture->rdma, RS_OP_SEND, no_task_callback,
					no_task_callback, 1));
	assert_ok(rs_rdma_set_task_conf(fixture->rdma, RS_OP_RECEIVE, no_task_callback,
					no_task_callback,
					(size_t)rs_device_attr(fixture->device)->max_srq_wr + 1));
	assert_status(rs_ctx_start(fixture->ctx), RS_ERR_INVALID_VALUE);
	assert_logged("receive tasks are configured, but 1024 are possible");
	assert_int_equal(fake_live(), fixture->live_before_start);
}

static void test_the_gid_index_is_checked_at_start(void **state)
{
	struct fixture *fixture = *state;
	struct ibv_gid_entry entry;

	assert_status(rs_rdma_get_gid(fixture->rdma, &entry), RS_ERR_BAD_STATE);
	assert_ok(rs_rdma_set_gid_index(fixture->rdma, 3));
	assert_status(rs_ctx_start(fixture->ctx), RS_ERR_NOT_FOUND);
	assert_ok(rs_rdma_set_gid_index(fixture->rdma, 100));
	assert_status(rs_ctx_start(fixture->ctx), RS_ERR_INVALID_VALUE);
	assert_ok(rs_rdma_set_gid_index(fixture->rdma, 0));
	assert_ok(rs_ctx_start(fixture->ctx));
	assert_ok(rs_rdma_get_gid(fixture->rdma, &entry));
	assert_int_equal(entry.gid_index, 0);
}

static void test_without_needed_connections_running_comes_at_once(void **state)
{
	struct fixture *fixture = *state;

	fixture_start(fixture);
	assert_string_equal(fixture->transitions, "Idle>Starting Starting>Running ");
	fixture_connect(fixture, 0x100);
}

static void test_running_waits_for_all_needed_connections(void **state)
{
	struct fixture *fixture = *state;
	struct rs_connection *last;

	assert_ok(rs_rdma_set_max_connections(fixture->rdma, 4));
	assert_ok(rs_rdma_set_needed_connections(fixture->rdma, 3));
	fixture_start(fixture);
	fixture_connect(fixture, 0x100);
	fixture_connect(fixture, 0x101);
	last = fixture_export(fixture);
	assert_int_equal(rs_pe_progress(fixture->pe), 0);
	assert_int_equal(rs_ctx_state(fixture->ctx), RS_CTX_STARTING);
	assert_ok(rs_rdma_connect(fixture->rdma, peer_connection_line(0x102), last));
	assert_int_equal(rs_pe_progress(fixture->pe), 1);
	assert_int_equal(rs_ctx_state(fixture->ctx), RS_CTX_RUNNING);
}

static void test_an_instance_that_is_not_idle_is_not_destroyed(void **state)
{
	struct fixture *fixture = *state;

	assert_ok(rs_ctx_start(fixture->ctx));
	assert_status(rs_rdma_destroy(fixture->rdma), RS_ERR_BAD_STATE);
	rs_pe_progress(fixture->pe);
	assert_status(rs_rdma_destroy(fixture->rdma), RS_ERR_BAD_STATE);
	rs_ctx_stop(fixture->ctx);
	assert_status(rs_rdma_destroy(fixture->rdma), RS_ERR_BAD_STATE);
}

static void destroy_in_idle(struct fixture *fixture, enum rs_ctx_state to)
{
	if (to == RS_CTX_IDLE)
		assert_status(rs_rdma_destroy(fixture->rdma), RS_ERR_BAD_STATE);
}

static void test_an_instance_is_not_destroyed_inside_a_callback(void **state)
{
	struct fixture *fixture = *state;

	fixture->on_state = destroy_in_idle;
	fixture_run(fixture, 1);
	fixture_stop(fixture);
}

/* ---- Errors and stops ---- */

/* Sends and receives in flight, each with a record of its end. */
struct in_flight {
	struct rs_task *sends[FIXTURE_TASKS];
	struct rs_task *receives[FIXTURE_TASKS];
	struct end_record send_ends[FIXTURE_TASKS];
	struct end_record receive_ends[FIXTURE_TASKS];
};

static void submit_all(struct fixture *fixture, struct in_flight *all)
{
	*all = (struct in_flight){ 0 };
	for (int i = 0; i < FIXTURE_TASKS; i++) {
		all->sends[i] = fixture_submit_send(fixture, 8, &all->send_ends[i]);
		all->receives[i] = fixture_submit_receive(fixture, 64, 64, &all->receive_ends[i]);
	}
}

static void free_all(struct in_flight *all)
{
	for (int i = 0; i < FIXTURE_TASKS; i++) {
		fixture_free_task(all->sends[i]);
		fixture_free_task(all->receives[i]);
	}
}

static void assert_end(const struct end_record *end, enum rs_status status)
{
	assert_int_equal(end->completed, status == RS_OK ? 1 : 0);
	assert_int_equal(end->failed, status == RS_OK ? 0 : 1);
	assert_status(end->status, status);
}

static void assert_all_flushed(const struct in_flight *all)
{
	for (int i = 0; i < FIXTURE_TASKS; i++) {
		assert_end(&all->send_ends[i], RS_ERR_FLUSHED);
		assert_end(&all->receive_ends[i], RS_ERR_FLUSHED);
	}
}

static void test_a_stop_flushes_sends_and_receives_exactly_once_before_idle(void **state)
{
	struct fixture *fixture = *state;
	struct in_flight all;

	fixture_run(fixture, 1);
	submit_all(fixture, &all);
	assert_int_equal(rs_ctx_in_flight(fixture->ctx), 2 * FIXTURE_TASKS);
	fixture_stop(fixture);
	assert_all_flushed(&all);
	assert_int_equal(rs_ctx_in_flight(fixture->ctx), 0);
	assert_int_equal(fake_live(), fixture->live_before_start);
	assert_ok(rs_ctx_error(fixture->ctx));
	assert_int_equal(log_count("error: "), 0);
	rs_pe_progress(fixture->pe);
	assert_all_flushed(&all);
	free_all(&all);
}

static void test_idle_waits_until_the_device_has_flushed_the_sends(void **state)
{
	struct fixture *fixture = *state;
	struct in_flight all;

	fixture_run(fixture, 1);
	submit_all(fixture, &all);
	/* Receives that came back before do not count any more. */
	for (int i = 0; i < FIXTURE_TASKS; i++)
		fake_deliver_send(fixture_qp(fixture, 0), "x", 1);
	rs_pe_progress(fixture->pe);
	fake_hold_flushes();
	rs_ctx_stop(fixture->ctx);
	for (int i = 0; i < 10; i++)
		rs_pe_progress(fixture->pe);
	assert_int_equal(rs_ctx_state(fixture->ctx), RS_CTX_STOPPING);
	assert_int_equal(fixture->failed, 0);
	assert_int_equal(fake_calls(FAKE_DESTROY_QP), 0);
	fake_flush(fixture_qp(fixture, 0));
	fixture_progress_until(fixture, RS_CTX_IDLE);
	assert_int_equal(fixture->completed, FIXTURE_TASKS);
	assert_int_equal(fixture->failed, FIXTURE_TASKS);
	free_all(&all);
}

static void stop_context(struct fixture *fixture, struct rs_task *task)
{
	(void)task;
	assert_status(rs_ctx_stop(fixture->ctx), RS_IN_PROGRESS);
}

static void test_a_stop_inside_a_task_callback_loses_no_task(void **state)
{
	struct fixture *fixture = *state;
	struct in_flight all;

	fixture_run(fixture, 1);
	submit_all(fixture, &all);
	fixture->on_end = stop_context;
	/* Two are done in one poll: the second is delivered after the stop was asked for. */
	fake_complete_send(fixture_qp(fixture, 0), IBV_WC_SUCCESS);
	fake_deliver_send(fixture_qp(fixture, 0), "x", 1);
	fixture_progress_until(fixture, RS_CTX_IDLE);
	assert_end(&all.send_ends[0], RS_OK);
	assert_end(&all.receive_ends[0], RS_OK);
	for (int i = 1; i < FIXTURE_TASKS; i++) {
		assert_end(&all.send_ends[i], RS_ERR_FLUSHED);
		assert_end(&all.receive_ends[i], RS_ERR_FLUSHED);
	}
	free_all(&all);
}

static void resubmit_is_refused(struct fixture *fixture, struct rs_task *task)
{
	if (rs_ctx_state(fixture->ctx) == RS_CTX_STOPPING)
		assert_status(rs_task_submit(task), RS_ERR_BAD_STATE);
}

static void test_nothing_is_submitted_while_stopping(void **state)
{
	struct fixture *fixture = *state;
	struct in_flight all;

	fixture_run(fixture, 1);
	submit_all(fixture, &all);
	fixture->on_end = resubmit_is_refused;
	fixture_stop(fixture);
	assert_all_flushed(&all);
	free_all(&all);
}

static void deliver_late(void *data)
{
	fake_before_destroy_qp(NULL, NULL);
	/* The device took the receive while the queue pair was still working. */
	((struct ibv_qp *)data)->state = IBV_QPS_RTS;
	fake_deliver_send(data, "late", 4);
	((struct ibv_qp *)data)->state = IBV_QPS_ERR;
}

static void test_a_receive_done_just_before_the_queue_pairs_go_is_not_flushed(void **state)
{
	struct fixture *fixture = *state;
	struct in_flight all;

	fixture_run(fixture, 1);
	submit_all(fixture, &all);
	fake_before_destroy_qp(deliver_late, fixture_qp(fixture, 0));
	fixture_stop(fixture);
	assert_end(&all.receive_ends[0], RS_OK);
	assert_memory_equal(fixture->memory + 64, "late", 4);
	for (int i = 1; i < FIXTURE_TASKS; i++)
		assert_end(&all.receive_ends[i], RS_ERR_FLUSHED);
	assert_int_equal(fixture->completed, 1);
	free_all(&all);
}

static void test_a_failed_send_tells_why_and_ends_the_connection(void **state)
{
	struct fixture *fixture = *state;
	struct in_flight all;

	fixture_run(fixture, 1);
	submit_all(fixture, &all);
	fake_complete_send(fixture_qp(fixture, 0), IBV_WC_REM_ACCESS_ERR);
	fixture_progress_until(fixture, RS_CTX_IDLE);
	assert_end(&all.send_ends[0], RS_ERR_REMOTE_ACCESS);
	for (int i = 1; i < FIXTURE_TASKS; i++)
		assert_end(&all.send_ends[i], RS_ERR_FLUSHED);
	assert_int_equal(fixture->failed_connections, 1);
	assert_status(fixture->failure_reason, RS_ERR_REMOTE_ACCESS);
	assert_status(rs_ctx_error(fixture->ctx), RS_ERR_REMOTE_ACCESS);
	assert_logged("send failed: remote access error");
	assert_int_equal(log_count("failed:"), 1);
	free_all(&all);
}

static void test_a_peer_that_does_not_answer_is_named_with_the_age_of_its_line(void **state)
{
	struct fixture *fixture = *state;
	struct rs_task *task;

	fixture_run(fixture, 1);
	task = fixture_submit_send(fixture, 8, NULL);
	fake_complete_send(fixture_qp(fixture, 0), IBV_WC_RETRY_EXC_ERR);
	fixture_progress_until(fixture, RS_CTX_IDLE);
	assert_logged("tried for 7.5 s: QPN 0x000100 at ::ffff:192.0.2.2.");
	assert_logged("Its descriptor is 0 s old");
	fixture_free_task(task);
}

static void test_with_several_connections_each_result_names_its_own(void **state)
{
	struct fixture *fixture = *state;
	struct rs_task *tasks[4];

	fixture_run(fixture, 4);
	for (unsigned i = 0; i < 4; i++)
		tasks[i] = fixture_submit_receive(fixture, 0, 8, NULL);
	for (unsigned i = 0; i < 4; i++)
		fake_deliver_send(fixture_qp(fixture, 3 - i), "x", 1);
	rs_pe_progress(fixture->pe);
	for (unsigned i = 0; i < 4; i++) {
		assert_ptr_equal(rs_task_result_connection(tasks[i]), fixture->connections[3 - i]);
		fixture_free_task(tasks[i]);
	}
}

static void test_one_failing_connection_does_not_stop_the_others_the_last_one_does(void **state)
{
	struct fixture *fixture = *state;
	struct rs_task *tasks[3], *receive;

	fixture_run(fixture, 3);
	receive = fixture_submit_receive(fixture, 0, 8, NULL);
	for (unsigned i = 0; i < 3; i++) {
		assert_ok(rs_task_alloc_send(fixture->rdma, fixture->connections[i], NULL, NULL,
					     &tasks[i]));
		assert_ok(rs_task_submit(tasks[i]));
	}
	for (unsigned i = 0; i < 2; i++) {
		fake_complete_send(fixture_qp(fixture, i), IBV_WC_RETRY_EXC_ERR);
		rs_pe_progress(fixture->pe);
		assert_int_equal(rs_connection_state(fixture->connections[i]),
				 RS_CONNECTION_FAILED);
		assert_int_equal(fixture->failed_connections, i + 1);
		assert_ptr_equal(fixture->last_failed_connection, fixture->connections[i]);
		assert_int_equal(rs_ctx_state(fixture->ctx), RS_CTX_RUNNING);
		assert_status(rs_task_submit(tasks[i]), RS_ERR_BAD_STATE);
	}
	/* The receive is still there for the last one. */
	assert_status(rs_task_status(receive), RS_IN_PROGRESS);
	fake_complete_send(fixture_qp(fixture, 2), IBV_WC_SUCCESS);
	rs_pe_progress(fixture->pe);
	assert_int_equal(fixture->completed, 1);
	assert_ok(rs_task_submit(tasks[2]));
	fake_complete_send(fixture_qp(fixture, 2), IBV_WC_REM_OP_ERR);
	fixture_progress_until(fixture, RS_CTX_IDLE);
	assert_status(rs_ctx_error(fixture->ctx), RS_ERR_REMOTE_OPERATION);
	assert_status(rs_task_status(receive), RS_ERR_FLUSHED);
	for (unsigned i = 0; i < 3; i++)
		assert_ok(rs_task_free(tasks[i]));
	fixture_free_task(receive);
}

static void test_without_needed_connections_the_last_failing_one_stops_nothing(void **state)
{
	struct fixture *fixture = *state;
	struct rs_connection *connection;
	struct rs_task *task;

	assert_ok(rs_rdma_set_max_connections(fixture->rdma, 2));
	fixture_start(fixture);
	connection = fixture_connect(fixture, 0x100);
	assert_ok(rs_task_alloc_send(fixture->rdma, connection, NULL, NULL, &task));
	assert_ok(rs_task_submit(task));
	fake_complete_send(rs_connection_qp(connection), IBV_WC_RETRY_EXC_ERR);
	rs_pe_progress(fixture->pe);
	assert_int_equal(fixture->failed_connections, 1);
	assert_int_equal(rs_ctx_state(fixture->ctx), RS_CTX_RUNNING);
	/* A new peer can still come. */
	fixture_connect(fixture, 0x101);
	assert_ok(rs_task_free(task));
}

static void test_a_start_that_cannot_reach_running_any_more_ends(void **state)
{
	struct fixture *fixture = *state;
	struct rs_connection *connection;

	assert_ok(rs_rdma_set_max_connections(fixture->rdma, 3));
	assert_ok(rs_rdma_set_needed_connections(fixture->rdma, 2));
	fixture_start(fixture);
	for (int i = 0; i < 2; i++) {
		connection = fixture_connect(fixture, 0x100);
		fake_push_event(rs_device_verbs(fixture->device), IBV_EVENT_QP_FATAL,
				rs_connection_qp(connection));
		assert_int_equal(rs_ctx_state(fixture->ctx), RS_CTX_STARTING);
		rs_pe_clear_notification(fixture->pe);
		rs_pe_progress(fixture->pe);
	}
	/* One place is left, two connections are needed. */
	assert_int_equal(rs_ctx_state(fixture->ctx), RS_CTX_IDLE);
	assert_status(rs_ctx_error(fixture->ctx), RS_ERR_DISCONNECTED);
}

static void stop_on_failure(struct rs_connection *connection, enum rs_status reason,
			    void *ctx_user_data)
{
	struct fixture *fixture = ctx_user_data;

	(void)connection;
	(void)reason;
	fixture->failed_connections++;
	rs_ctx_stop(fixture->ctx);
}

static void test_the_context_can_be_stopped_when_a_connection_fails(void **state)
{
	struct fixture *fixture = *state;
	struct rs_task *task;

	assert_ok(rs_rdma_set_connection_failed_cb(fixture->rdma, stop_on_failure));
	fixture_run(fixture, 2);
	task = fixture_submit_send(fixture, 8, NULL);
	fake_complete_send(fixture_qp(fixture, 0), IBV_WC_RETRY_EXC_ERR);
	fixture_progress_until(fixture, RS_CTX_IDLE);
	assert_int_equal(fixture->failed, 1);
	/* That was the user's stop, not the context's own. */
	assert_ok(rs_ctx_error(fixture->ctx));
	fixture_free_task(task);
}

static void test_events_of_a_queue_pair_end_its_connection_once(void **state)
{
	static const enum ibv_event_type types[] = { IBV_EVENT_QP_FATAL, IBV_EVENT_QP_REQ_ERR,
						     IBV_EVENT_QP_ACCESS_ERR,
						     IBV_EVENT_QP_LAST_WQE_REACHED };
	struct fixture *fixture = *state;

	fixture_run(fixture, 4);
	for (unsigned i = 0; i < 4; i++) {
		struct ibv_context *verbs = rs_device_verbs(fixture->device);

		fake_push_event(verbs, types[i], fixture_qp(fixture, i));
		fake_push_event(verbs, IBV_EVENT_QP_LAST_WQE_REACHED, fixture_qp(fixture, i));
		rs_pe_clear_notification(fixture->pe);
		assert_int_equal(fixture->failed_connections, i + 1);
		assert_ptr_equal(fixture->last_failed_connection, fixture->connections[i]);
		assert_status(fixture->failure_reason, types[i] == IBV_EVENT_QP_ACCESS_ERR
							       ? RS_ERR_NOT_PERMITTED
							       : RS_ERR_DISCONNECTED);
	}
	fixture_progress_until(fixture, RS_CTX_IDLE);
}

static void test_a_completion_that_explains_an_event_comes_before_it(void **state)
{
	struct fixture *fixture = *state;
	struct rs_task *task;

	fixture_run(fixture, 1);
	task = fixture_submit_send(fixture, 8, NULL);
	fake_complete_send(fixture_qp(fixture, 0), IBV_WC_RETRY_EXC_ERR);
	fake_push_event(rs_device_verbs(fixture->device), IBV_EVENT_QP_LAST_WQE_REACHED,
			fixture_qp(fixture, 0));
	rs_pe_clear_notification(fixture->pe);
	assert_status(fixture->failure_reason, RS_ERR_RETRY_EXCEEDED);
	assert_int_equal(fixture->failed_connections, 1);
	fixture_progress_until(fixture, RS_CTX_IDLE);
	assert_status(rs_ctx_error(fixture->ctx), RS_ERR_RETRY_EXCEEDED);
	fixture_free_task(task);
}

static void test_an_event_of_a_connection_that_is_not_connected_is_ignored(void **state)
{
	struct fixture *fixture = *state;
	struct rs_connection *connection;

	assert_ok(rs_rdma_set_needed_connections(fixture->rdma, 1));
	fixture_start(fixture);
	connection = fixture_export(fixture);
	fake_push_event(rs_device_verbs(fixture->device), IBV_EVENT_QP_FATAL,
			rs_connection_qp(connection));
	rs_pe_clear_notification(fixture->pe);
	assert_int_equal(rs_connection_state(connection), RS_CONNECTION_EXPORTED);
	assert_int_equal(fixture->failed_connections, 0);
}

static void test_an_event_of_another_instance_on_the_device_reaches_its_own(void **state)
{
	struct fixture *fixture = *state;
	struct rs_connection *foreign;
	struct rs_rdma *other;
	const char *line;

	fixture_run(fixture, 1);
	assert_ok(rs_rdma_create(fixture->device, &other));
	assert_ok(rs_rdma_set_needed_connections(other, 1));
	assert_ok(rs_pe_connect_ctx(fixture->pe, rs_rdma_as_ctx(other)));
	assert_ok(rs_ctx_start(rs_rdma_as_ctx(other)));
	rs_pe_progress(fixture->pe);
	assert_ok(rs_rdma_export(other, &line, &foreign));
	assert_ok(rs_rdma_connect(other, peer_connection_line(0x200), foreign));
	fake_push_event(rs_device_verbs(fixture->device), IBV_EVENT_QP_FATAL,
			rs_connection_qp(foreign));
	rs_pe_clear_notification(fixture->pe);
	rs_pe_progress(fixture->pe);
	assert_int_equal(rs_ctx_state(rs_rdma_as_ctx(other)), RS_CTX_IDLE);
	assert_status(rs_ctx_error(rs_rdma_as_ctx(other)), RS_ERR_DISCONNECTED);
	assert_int_equal(rs_ctx_state(fixture->ctx), RS_CTX_RUNNING);
	assert_int_equal(fixture->failed_connections, 0);
	assert_ok(rs_rdma_destroy(other));
}

static void test_a_port_that_goes_down_is_only_reported(void **state)
{
	struct fixture *fixture = *state;

	fixture_run(fixture, 1);
	fake_push_event(rs_device_verbs(fixture->device), IBV_EVENT_PORT_ERR, NULL);
	rs_pe_clear_notification(fixture->pe);
	rs_pe_progress(fixture->pe);
	assert_logged("warning: port");
	assert_int_equal(rs_ctx_state(fixture->ctx), RS_CTX_RUNNING);
}

/* ---- A device that returns nothing more ---- */

static void assert_lost(struct fixture *fixture, struct in_flight *all)
{
	fixture_progress_until(fixture, RS_CTX_IDLE);
	assert_all_flushed(all);
	assert_int_equal(fake_live(), fixture->live_before_start);
	free_all(all);
}

static void test_tasks_come_back_when_the_device_does_not_even_take_the_stop(void **state)
{
	struct fixture *fixture = *state;
	struct in_flight all;

	fixture_run(fixture, 1);
	submit_all(fixture, &all);
	fake_fail_always(FAKE_MODIFY_QP, EIO);
	rs_ctx_stop(fixture->ctx);
	assert_lost(fixture, &all);
	fake_fail_always(FAKE_MODIFY_QP, 0);
	/* And the next start is a fresh one. */
	fixture_run(fixture, 1);
	submit_all(fixture, &all);
	fixture_stop(fixture);
	assert_all_flushed(&all);
	free_all(&all);
}

static void test_tasks_come_back_when_polling_fails(void **state)
{
	struct fixture *fixture = *state;
	struct in_flight all;

	fixture_run(fixture, 1);
	submit_all(fixture, &all);
	fake_fail_always(FAKE_POLL_CQ, EIO);
	assert_lost(fixture, &all);
	assert_status(rs_ctx_error(fixture->ctx), RS_ERR_DEVICE_FATAL);
	assert_int_equal(log_count("ibv_poll_cq(fake0) failed"), 1);
}

static void test_tasks_come_back_when_polling_fails_while_stopping(void **state)
{
	struct fixture *fixture = *state;
	struct in_flight all;

	fixture_run(fixture, 1);
	submit_all(fixture, &all);
	rs_ctx_stop(fixture->ctx);
	fake_fail_call(FAKE_POLL_CQ, 1, EIO);
	assert_lost(fixture, &all);
}

static void test_tasks_come_back_when_arming_fails(void **state)
{
	struct fixture *fixture = *state;
	struct in_flight all;

	fixture_run(fixture, 1);
	submit_all(fixture, &all);
	fake_fail_always(FAKE_REQ_NOTIFY_CQ, EIO);
	fake_fail_always(FAKE_MODIFY_QP, EIO);
	while (rs_ctx_state(fixture->ctx) != RS_CTX_IDLE)
		assert_ok(rs_pe_wait(fixture->pe, 10000));
	assert_lost(fixture, &all);
	assert_status(rs_ctx_error(fixture->ctx), RS_ERR_DEVICE_FATAL);
}

static void test_tasks_come_back_when_the_device_dies(void **state)
{
	struct fixture *fixture = *state;
	struct in_flight all;

	fixture_run(fixture, 1);
	submit_all(fixture, &all);
	fake_push_event(rs_device_verbs(fixture->device), IBV_EVENT_DEVICE_FATAL, NULL);
	fake_fail_always(FAKE_MODIFY_QP, EIO);
	rs_pe_clear_notification(fixture->pe);
	assert_lost(fixture, &all);
	assert_status(rs_ctx_error(fixture->ctx), RS_ERR_DEVICE_FATAL);
}

static void test_tasks_come_back_when_the_completion_queue_breaks(void **state)
{
	struct fixture *fixture = *state;
	struct in_flight all;

	fixture_run(fixture, 1);
	submit_all(fixture, &all);
	fake_push_event(rs_device_verbs(fixture->device), IBV_EVENT_CQ_ERR,
			fixture_qp(fixture, 0)->send_cq);
	rs_pe_clear_notification(fixture->pe);
	/* Nothing comes out of it any more. */
	fake_hold_flushes();
	assert_lost(fixture, &all);
	assert_status(rs_ctx_error(fixture->ctx), RS_ERR_DEVICE_FATAL);
}

static void test_a_device_that_dies_ends_all_its_instances(void **state)
{
	struct fixture *fixture = *state;
	struct rs_rdma *other;

	assert_ok(rs_rdma_create(fixture->device, &other));
	assert_ok(rs_pe_connect_ctx(fixture->pe, rs_rdma_as_ctx(other)));
	assert_ok(rs_ctx_start(rs_rdma_as_ctx(other)));
	fixture_run(fixture, 1);
	fake_push_event(rs_device_verbs(fixture->device), IBV_EVENT_DEVICE_FATAL, NULL);
	while (rs_ctx_state(fixture->ctx) != RS_CTX_IDLE ||
	       rs_ctx_state(rs_rdma_as_ctx(other)) != RS_CTX_IDLE)
		assert_ok(rs_pe_wait(fixture->pe, 10000));
	assert_status(rs_ctx_error(fixture->ctx), RS_ERR_DEVICE_FATAL);
	assert_status(rs_ctx_error(rs_rdma_as_ctx(other)), RS_ERR_DEVICE_FATAL);
	assert_ok(rs_rdma_destroy(other));
}

static void test_a_device_that_died_ends_an_instance_on_another_engine_too(void **state)
{
	struct fixture *fixture = *state;
	struct rs_rdma *other;
	struct rs_pe *pe;

	assert_ok(rs_pe_create(&pe));
	assert_ok(rs_rdma_create(fixture->device, &other));
	assert_ok(rs_pe_connect_ctx(pe, rs_rdma_as_ctx(other)));
	assert_ok(rs_ctx_start(rs_rdma_as_ctx(other)));
	rs_pe_progress(pe);
	fixture_run(fixture, 1);
	fake_push_event(rs_device_verbs(fixture->device), IBV_EVENT_DEVICE_FATAL, NULL);
	/* This takes the event. */
	rs_pe_clear_notification(fixture->pe);
	/* It only polls. */
	rs_pe_progress(pe);
	assert_int_equal(rs_ctx_state(rs_rdma_as_ctx(other)), RS_CTX_IDLE);
	assert_status(rs_ctx_error(rs_rdma_as_ctx(other)), RS_ERR_DEVICE_FATAL);
	assert_ok(rs_rdma_destroy(other));
	assert_ok(rs_pe_destroy(pe));
}

static void test_a_failing_destroy_is_logged_and_the_context_still_becomes_idle(void **state)
{
	struct fixture *fixture = *state;

	fixture_run(fixture, 1);
	fake_fail_call(FAKE_DESTROY_QP, 0, EIO);
	fixture_stop(fixture);
	assert_logged("ibv_destroy_qp(connection 0) failed");
}

/* ---- Again ---- */

static void test_an_instance_can_be_started_again_and_again(void **state)
{
	struct fixture *fixture = *state;

	for (unsigned round = 1; round <= 3; round++) {
		struct in_flight all;

		fixture_run(fixture, round);
		submit_all(fixture, &all);
		fake_complete_send(fixture_qp(fixture, 0), IBV_WC_SUCCESS);
		fixture_stop(fixture);
		assert_int_equal(fake_live(), fixture->live_before_start);
		assert_end(&all.send_ends[0], RS_OK);
		assert_end(&all.send_ends[1], RS_ERR_FLUSHED);
		free_all(&all);
	}
}

static void test_a_task_that_was_kept_over_a_restart_has_lost_its_connection(void **state)
{
	struct fixture *fixture = *state;
	struct rs_task *send, *receive;

	fixture_run(fixture, 1);
	send = fixture_submit_send(fixture, 8, NULL);
	receive = fixture_submit_receive(fixture, 0, 8, NULL);
	fixture_stop(fixture);
	assert_null(rs_task_connection(send));
	fixture_run(fixture, 1);
	assert_status(rs_task_submit(send), RS_ERR_BAD_STATE);
	/* A receive has none. */
	assert_ok(rs_task_submit(receive));
	fixture_stop(fixture);
	fixture_free_task(send);
	fixture_free_task(receive);
}

static void test_more_completions_than_one_poll_takes_all_come(void **state)
{
	struct fixture *fixture = *state;
	struct rs_task *tasks[40];

	assert_ok(rs_rdma_set_task_conf(fixture->rdma, RS_OP_RECEIVE, no_task_callback,
					no_task_callback, 40));
	fixture_run(fixture, 1);
	for (int i = 0; i < 40; i++) {
		assert_ok(rs_task_alloc_receive(fixture->rdma, NULL, NULL, &tasks[i]));
		assert_ok(rs_task_submit(tasks[i]));
	}
	for (int i = 0; i < 40; i++)
		fake_deliver_write_immediate(fixture_qp(fixture, 0), 0, (uint32_t)i);
	/* They are there, but only the stop takes them out. */
	fixture_stop(fixture);
	for (int i = 0; i < 40; i++) {
		assert_ok(rs_task_status(tasks[i]));
		assert_int_equal(rs_task_result_immediate(tasks[i]), i);
		assert_ok(rs_task_free(tasks[i]));
	}
}

static void test_tasks_come_back_when_the_shared_receive_queue_breaks(void **state)
{
	struct fixture *fixture = *state;
	struct in_flight all;

	fixture_run(fixture, 1);
	submit_all(fixture, &all);
	fake_push_event(rs_device_verbs(fixture->device), IBV_EVENT_SRQ_ERR,
			fixture_qp(fixture, 0)->srq);
	rs_pe_clear_notification(fixture->pe);
	assert_lost(fixture, &all);
}

static void test_events_that_concern_nothing_here_are_ignored(void **state)
{
	struct fixture *fixture = *state;

	fixture_run(fixture, 1);
	fake_push_event(rs_device_verbs(fixture->device), IBV_EVENT_GID_CHANGE, NULL);
	fake_push_event(rs_device_verbs(fixture->device), IBV_EVENT_PORT_ACTIVE, NULL);
	rs_pe_clear_notification(fixture->pe);
	rs_pe_progress(fixture->pe);
	assert_int_equal(rs_ctx_state(fixture->ctx), RS_CTX_RUNNING);
	assert_int_equal(fixture->failed_connections, 0);
}

static void set_descriptor_limit(rlim_t limit)
{
	struct rlimit limits;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limits), 0);
	limits.rlim_cur = limit;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limits), 0);
}

static void test_starting_unwinds_when_the_process_has_no_descriptor_left(void **state)
{
	struct fixture *fixture = *state;
	struct rlimit limits;
	int first_free = dup(0);
	enum rs_status status = RS_ERR_FULL;
	unsigned extra = 0;

	assert_true(first_free >= 0);
	close(first_free);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limits), 0);
	for (; status != RS_OK; extra++) {
		set_descriptor_limit((rlim_t)first_free + extra);
		status = rs_ctx_start(fixture->ctx);
		set_descriptor_limit(limits.rlim_cur);
		if (status == RS_OK)
			break;
		assert_status(status, RS_ERR_FULL);
		assert_int_equal(fake_live(), fixture->live_before_start);
		assert_int_equal(rs_pe_progress(fixture->pe), 0);
	}
	/* The channel's, and one more for events of the device. */
	assert_int_equal(extra, 2);
}

#define rdma_test(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		rdma_test(test_setters_are_for_an_idle_instance_only),
		rdma_test(test_values_out_of_range_are_refused),
		rdma_test(test_the_dc_transport_is_refused_with_advice),
		rdma_test(test_operations_that_the_device_lacks_are_refused),
		rdma_test(test_tasks_that_are_in_use_cannot_be_configured_again),
		rdma_test(test_an_instance_holds_its_device),
		rdma_test(test_starting_unwinds_whatever_call_fails),
		rdma_test(test_an_instance_without_receives_has_no_shared_queue),
		rdma_test(test_more_needed_connections_than_can_exist_do_not_start),
		rdma_test(test_more_tasks_than_the_device_s_queues_hold_do_not_start),
		rdma_test(test_the_gid_index_is_checked_at_start),
		rdma_test(test_without_needed_connections_running_comes_at_once),
		rdma_test(test_running_waits_for_all_needed_connections),
		rdma_test(test_an_instance_that_is_not_idle_is_not_destroyed),
		rdma_test(test_an_instance_is_not_destroyed_inside_a_callback),
		rdma_test(test_a_stop_flushes_sends_and_receives_exactly_once_before_idle),
		rdma_test(test_a_stop_inside_a_task_callback_loses_no_task),
		rdma_test(test_idle_waits_until_the_device_has_flushed_the_sends),
		rdma_test(test_an_event_of_a_connection_that_is_not_connected_is_ignored),
		rdma_test(test_nothing_is_submitted_while_stopping),
		rdma_test(test_a_receive_done_just_before_the_queue_pairs_go_is_not_flushed),
		rdma_test(test_a_failed_send_tells_why_and_ends_the_connection),
		rdma_test(test_a_peer_that_does_not_answer_is_named_with_the_age_of_its_line),
		rdma_test(test_with_several_connections_each_result_names_its_own),
		rdma_test(test_one_failing_connection_does_not_stop_the_others_the_last_one_does),
		rdma_test(test_without_needed_connections_the_last_failing_one_stops_nothing),
		rdma_test(test_a_start_that_cannot_reach_running_any_more_ends),
		rdma_test(test_the_context_can_be_stopped_when_a_connection_fails),
		rdma_test(test_events_of_a_queue_pair_end_its_connection_once),
		rdma_test(test_a_completion_that_explains_an_event_comes_before_it),
		rdma_test(test_an_event_of_another_instance_on_the_device_reaches_its_own),
		rdma_test(test_a_port_that_goes_down_is_only_reported),
		rdma_test(test_tasks_come_back_when_the_device_does_not_even_take_the_stop),
		rdma_test(test_tasks_come_back_when_polling_fails),
		rdma_test(test_tasks_come_back_when_polling_fails_while_stopping),
		rdma_test(test_tasks_come_back_when_arming_fails),
		rdma_test(test_tasks_come_back_when_the_device_dies),
		rdma_test(test_tasks_come_back_when_the_completion_queue_breaks),
		rdma_test(test_a_device_that_dies_ends_all_its_instances),
		rdma_test(test_a_device_that_died_ends_an_instance_on_another_engine_too),
		rdma_test(test_a_failing_destroy_is_logged_and_the_context_still_becomes_idle),
		rdma_test(test_an_instance_can_be_started_again_and_again),
		rdma_test(test_a_task_that_was_kept_over_a_restart_has_lost_its_connection),
		rdma_test(test_more_completions_than_one_poll_takes_all_come),
		rdma_test(test_tasks_come_back_when_the_shared_receive_queue_breaks),
		rdma_test(test_events_that_concern_nothing_here_are_ignored),
		rdma_test(test_starting_unwinds_when_the_process_has_no_descriptor_left),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
