#include "support.h"

#include <errno.h>
#include <string.h>

#include "connection.h"

static const char *own_line(struct fixture *fixture, struct rs_connection **connection)
{
	const char *line;

	assert_ok(rs_rdma_export(fixture->rdma, &line, connection));
	return line;
}

static void test_an_exported_line_says_how_to_reach_the_queue_pair(void **state)
{
	struct fixture *fixture = *state;
	struct rs_connection *connection;
	struct rs_descriptor descriptor;
	const struct ibv_qp *qp;

	fixture_start(fixture);
	assert_ok(rs_descriptor_read(own_line(fixture, &connection), RS_DESCRIPTOR_CONNECTION,
				     &descriptor));
	qp = rs_connection_qp(connection);
	assert_int_equal(qp->state, IBV_QPS_INIT);
	assert_int_equal(descriptor.connection.qpn, qp->qp_num);
	assert_int_equal(descriptor.connection.mtu, 1024);
	assert_int_equal(descriptor.connection.link_layer, IBV_LINK_LAYER_ETHERNET);
	assert_int_equal(descriptor.connection.gid_type, IBV_GID_TYPE_ROCE_V2);
	assert_memory_equal(&descriptor.connection.gid, &fixture->fake->ports[0].gids[1].gid,
			    sizeof(union ibv_gid));
	assert_int_equal(descriptor.connection.reads, 16);
	assert_string_equal(descriptor.connection.name, RS_DESCRIPTOR_NO_NAME);
	assert_int_equal(descriptor.connection.id, 0);
	assert_int_equal(rs_connection_state(connection), RS_CONNECTION_EXPORTED);
	assert_int_equal(rs_connection_id(connection), 0);
}

static void test_lines_carry_the_program_s_name_and_their_numbers(void **state)
{
	struct fixture *fixture = *state;
	struct rs_connection *connection;
	struct rs_descriptor descriptor;

	assert_ok(rs_rdma_set_name(fixture->rdma, "rdma_x"));
	assert_ok(rs_rdma_set_max_connections(fixture->rdma, 2));
	fixture_start(fixture);
	for (unsigned i = 0; i < 2; i++) {
		assert_ok(rs_descriptor_read(own_line(fixture, &connection),
					     RS_DESCRIPTOR_CONNECTION, &descriptor));
		assert_string_equal(descriptor.connection.name, "rdma_x");
		assert_int_equal(descriptor.connection.id, i);
	}
}

static void test_each_start_has_packet_numbers_of_its_own(void **state)
{
	struct fixture *fixture = *state;
	struct rs_descriptor first, second;
	struct rs_connection *connection;

	assert_ok(rs_rdma_set_max_connections(fixture->rdma, 2));
	fixture_start(fixture);
	assert_ok(rs_descriptor_read(own_line(fixture, &connection), RS_DESCRIPTOR_CONNECTION,
				     &first));
	assert_ok(rs_descriptor_read(own_line(fixture, &connection), RS_DESCRIPTOR_CONNECTION,
				     &second));
	/* One in 16 million that they are the same by chance. */
	assert_int_not_equal(first.connection.psn, second.connection.psn);
}

static void test_connecting_gives_the_queue_pair_what_the_peers_line_says(void **state)
{
	struct fixture *fixture = *state;
	struct rs_connection *connection;
	struct rs_descriptor own;
	const struct ibv_qp_attr *rtr, *rts;

	assert_ok(rs_rdma_set_ack_timeout(fixture->rdma, 14, 5));
	fixture_start(fixture);
	assert_ok(
		rs_descriptor_read(own_line(fixture, &connection), RS_DESCRIPTOR_CONNECTION, &own));
	assert_ok(rs_rdma_connect(fixture->rdma, peer_connection_line(0x123), connection));
	assert_int_equal(rs_connection_state(connection), RS_CONNECTION_CONNECTED);
	assert_int_equal(rs_connection_qp(connection)->state, IBV_QPS_RTS);
	rtr = fake_qp_attr(rs_connection_qp(connection), IBV_QPS_RTR);
	assert_int_equal(rtr->dest_qp_num, 0x123);
	assert_int_equal(rtr->rq_psn, 0x777);
	/* The smaller of 4096 there and 1024 here. */
	assert_int_equal(rtr->path_mtu, IBV_MTU_1024);
	assert_int_equal(rtr->ah_attr.is_global, 1);
	assert_int_equal(rtr->ah_attr.grh.sgid_index, 1);
	assert_int_equal(rtr->ah_attr.grh.dgid.raw[15], 2);
	assert_in_range(rtr->ah_attr.grh.hop_limit, 2, 255);
	assert_int_equal(rtr->max_dest_rd_atomic, 16);
	rts = fake_qp_attr(rs_connection_qp(connection), IBV_QPS_RTS);
	assert_int_equal(rts->sq_psn, own.connection.psn);
	assert_int_equal(rts->timeout, 14);
	assert_int_equal(rts->retry_cnt, 5);
	/* As many reads as the peer serves. */
	assert_int_equal(rts->max_rd_atomic, 8);
}

static void test_the_peer_gets_the_rights_of_the_instance_and_no_more(void **state)
{
	struct fixture *fixture = *state;
	struct rs_connection *connection;

	assert_ok(rs_rdma_set_permissions(fixture->rdma, RS_ACCESS_REMOTE_READ));
	fixture_start(fixture);
	connection = fixture_export(fixture);
	assert_int_equal(fake_qp_attr(rs_connection_qp(connection), IBV_QPS_INIT)->qp_access_flags,
			 IBV_ACCESS_REMOTE_READ);
}

static void test_queue_sizes_follow_the_tasks_and_chains(void **state)
{
	struct fixture *fixture = *state;
	const struct ibv_qp_init_attr *attr;

	assert_ok(rs_rdma_set_max_chain(fixture->rdma, 3));
	fixture_start(fixture);
	attr = fake_qp_init_attr(rs_connection_qp(fixture_export(fixture)));
	assert_int_equal(attr->cap.max_send_wr, (RS_OP_COUNT - 1) * FIXTURE_TASKS);
	assert_int_equal(attr->cap.max_send_sge, 3);
	assert_int_equal(attr->sq_sig_all, 0);
	assert_non_null(attr->srq);
}

static void test_send_queues_can_be_shorter_than_all_tasks(void **state)
{
	struct fixture *fixture = *state;

	assert_ok(rs_rdma_set_max_sends(fixture->rdma, 3));
	fixture_start(fixture);
	assert_int_equal(
		fake_qp_init_attr(rs_connection_qp(fixture_export(fixture)))->cap.max_send_wr, 3);
	fixture_stop(fixture);
	/* But not longer than is of use. */
	assert_ok(rs_rdma_set_max_sends(fixture->rdma, 1000));
	fixture_start(fixture);
	assert_int_equal(
		fake_qp_init_attr(rs_connection_qp(fixture_export(fixture)))->cap.max_send_wr,
		(RS_OP_COUNT - 1) * FIXTURE_TASKS);
}

static void test_exporting_unwinds_whatever_call_fails(void **state)
{
	struct fixture *fixture = *state;
	struct rs_connection *connection;
	const char *line;
	unsigned live, skip;

	fixture_start(fixture);
	live = fake_live();
	for (skip = 0;; skip++) {
		enum rs_status status;

		fake_fail_any(skip, ENOMEM);
		status = rs_rdma_export(fixture->rdma, &line, &connection);
		if (!fake_has_failed())
			break;
		assert_status(status, RS_ERR_NO_MEMORY);
		assert_int_equal(fake_live(), live);
	}
	assert_int_equal(skip, 2);
	/* The failed ones took no place: this is the first. */
	assert_int_equal(rs_connection_id(connection), 0);
	assert_status(rs_rdma_export(fixture->rdma, &line, &connection), RS_ERR_FULL);
}

static void test_a_connect_that_failed_can_be_tried_again(void **state)
{
	struct fixture *fixture = *state;
	struct rs_connection *connection;
	unsigned skip;

	assert_ok(rs_rdma_set_max_connections(fixture->rdma, 8));
	fixture_start(fixture);
	for (skip = 0;; skip++) {
		enum rs_status status;

		connection = fixture_export(fixture);
		fake_fail_any(skip, EINVAL);
		status = rs_rdma_connect(fixture->rdma, peer_connection_line(0x123), connection);
		if (!fake_has_failed())
			break;
		assert_status(status, RS_ERR_INVALID_VALUE);
		assert_int_equal(rs_connection_state(connection), RS_CONNECTION_EXPORTED);
		assert_ok(rs_rdma_connect(fixture->rdma, peer_connection_line(0x123), connection));
		assert_int_equal(rs_connection_qp(connection)->state, IBV_QPS_RTS);
	}
	assert_int_equal(skip, 2);
}

static void test_a_connect_that_failed_is_logged_with_both_sides_and_the_likely_cause(void **state)
{
	struct fixture *fixture = *state;
	struct rs_connection *connection;

	fixture_start(fixture);
	connection = fixture_export(fixture);
	fake_fail_call(FAKE_MODIFY_QP, 0, ETIMEDOUT);
	assert_status(rs_rdma_connect(fixture->rdma, peer_connection_line(0x123), connection),
		      RS_ERR_TIMED_OUT);
	assert_logged("GID ::ffff:192.0.2.1 index 1 rocev2, MTU 1024; peer: QPN 0x000123, "
		      "GID ::ffff:192.0.2.2 rocev2, MTU 4096");
	assert_logged("compare --gid-index on both sides");
	assert_int_equal(log_count("error: "), 1);
}

static void test_connections_are_made_in_starting_and_running_only(void **state)
{
	struct fixture *fixture = *state;
	struct rs_connection *connection;
	const char *line;

	assert_ok(rs_rdma_set_max_connections(fixture->rdma, 3));
	assert_status(rs_rdma_export(fixture->rdma, &line, &connection), RS_ERR_BAD_STATE);
	assert_ok(rs_rdma_set_needed_connections(fixture->rdma, 1));
	assert_ok(rs_ctx_start(fixture->ctx));
	/* Started, but not yet in Starting. */
	assert_status(rs_rdma_export(fixture->rdma, &line, &connection), RS_ERR_BAD_STATE);
	rs_pe_progress(fixture->pe);
	fixture_connect(fixture, 0x100);
	rs_pe_progress(fixture->pe);
	assert_int_equal(rs_ctx_state(fixture->ctx), RS_CTX_RUNNING);
	fixture_connect(fixture, 0x101);
	connection = fixture_export(fixture);
	rs_ctx_stop(fixture->ctx);
	fixture_progress_until(fixture, RS_CTX_IDLE);
	assert_status(rs_rdma_export(fixture->rdma, &line, &connection), RS_ERR_BAD_STATE);
}

static void test_a_connection_is_connected_once(void **state)
{
	struct fixture *fixture = *state;
	unsigned calls;

	fixture_run(fixture, 1);
	calls = fake_calls(FAKE_MODIFY_QP);
	assert_status(rs_rdma_connect(fixture->rdma, peer_connection_line(0x123),
				      fixture->connections[0]),
		      RS_ERR_BAD_STATE);
	assert_int_equal(fake_calls(FAKE_MODIFY_QP), calls);
	assert_ok(rs_connection_disconnect(fixture->connections[0]));
	assert_status(rs_rdma_connect(fixture->rdma, peer_connection_line(0x123),
				      fixture->connections[0]),
		      RS_ERR_BAD_STATE);
}

static void test_the_connection_of_another_instance_is_refused(void **state)
{
	struct fixture *fixture = *state;
	struct rs_rdma *other;

	fixture_start(fixture);
	assert_ok(rs_rdma_create(fixture->device, &other));
	assert_status(rs_rdma_connect(other, peer_connection_line(1), fixture_export(fixture)),
		      RS_ERR_INVALID_VALUE);
	assert_ok(rs_rdma_destroy(other));
}

static void test_a_line_that_does_not_fit_is_refused_and_the_right_one_still_works(void **state)
{
	struct fixture *fixture = *state;
	struct rs_connection *connection;
	struct rs_descriptor peer;
	char line[RS_DESCRIPTOR_LINE_SIZE];
	const char *own;

	fixture_start(fixture);
	own = own_line(fixture, &connection);
	assert_status(rs_rdma_connect(fixture->rdma, own, connection), RS_ERR_BAD_DESCRIPTOR);
	assert_logged("this is the program's own connection descriptor: give it the peer's");
	assert_status(rs_rdma_connect(fixture->rdma, peer_mmap_line(0, 1, 1), connection),
		      RS_ERR_BAD_DESCRIPTOR);
	assert_status(rs_rdma_connect(fixture->rdma, "rdma1 conn transp", connection),
		      RS_ERR_BAD_DESCRIPTOR);
	assert_ok(rs_descriptor_read(peer_connection_line(1), RS_DESCRIPTOR_CONNECTION, &peer));
	peer.connection.link_layer = IBV_LINK_LAYER_INFINIBAND;
	rs_descriptor_format(&peer, line);
	assert_status(rs_rdma_connect(fixture->rdma, line, connection), RS_ERR_NOT_SUPPORTED);
	assert_logged("one side is on InfiniBand, the other on Ethernet");
	peer.connection.link_layer = IBV_LINK_LAYER_ETHERNET;
	peer.connection.gid_type = IBV_GID_TYPE_ROCE_V1;
	rs_descriptor_format(&peer, line);
	assert_status(rs_rdma_connect(fixture->rdma, line, connection), RS_ERR_NOT_SUPPORTED);
	assert_logged("different GID types, here rocev2, at the peer rocev1");
	assert_int_equal(rs_connection_qp(connection)->state, IBV_QPS_INIT);
	assert_ok(rs_rdma_connect(fixture->rdma, peer_connection_line(1), connection));
}

static void test_two_instances_of_one_program_can_connect_to_each_other(void **state)
{
	struct fixture *fixture = *state;
	struct rs_connection *first, *second;
	const char *first_line, *second_line;

	assert_ok(rs_rdma_set_max_connections(fixture->rdma, 2));
	fixture_start(fixture);
	first_line = own_line(fixture, &first);
	second_line = own_line(fixture, &second);
	assert_ok(rs_rdma_connect(fixture->rdma, second_line, first));
	assert_ok(rs_rdma_connect(fixture->rdma, first_line, second));
}

static void test_only_as_many_connections_as_configured_can_exist(void **state)
{
	struct fixture *fixture = *state;
	struct rs_connection *connection;
	const char *line;

	assert_ok(rs_rdma_set_max_connections(fixture->rdma, 3));
	fixture_start(fixture);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(rs_connection_id(fixture_export(fixture)), i);
	assert_status(rs_rdma_export(fixture->rdma, &line, &connection), RS_ERR_FULL);
	fixture_stop(fixture);
	/* A new start has them all again. */
	fixture_start(fixture);
	assert_int_equal(rs_connection_id(fixture_export(fixture)), 0);
}

static void test_disconnecting_brings_the_sends_back_and_ends_the_connection(void **state)
{
	struct fixture *fixture = *state;
	struct end_record end = { 0 };
	struct rs_task *task;

	fixture_run(fixture, 1);
	task = fixture_submit_send(fixture, 8, &end);
	assert_ok(rs_connection_disconnect(fixture->connections[0]));
	assert_int_equal(rs_connection_state(fixture->connections[0]), RS_CONNECTION_DISCONNECTED);
	assert_int_equal(fixture_qp(fixture, 0)->state, IBV_QPS_ERR);
	rs_pe_progress(fixture->pe);
	assert_int_equal(end.failed, 1);
	assert_status(end.status, RS_ERR_FLUSHED);
	assert_status(rs_task_submit(task), RS_ERR_BAD_STATE);
	assert_status(rs_connection_disconnect(fixture->connections[0]), RS_ERR_BAD_STATE);
	/* That was no failure: the callback heard nothing, and the context goes on. */
	assert_int_equal(fixture->failed_connections, 0);
	assert_int_equal(rs_ctx_state(fixture->ctx), RS_CTX_RUNNING);
	fixture_free_task(task);
}

static void test_a_connection_that_was_not_connected_can_be_disconnected(void **state)
{
	struct fixture *fixture = *state;
	struct rs_connection *connection;

	fixture_start(fixture);
	connection = fixture_export(fixture);
	assert_ok(rs_connection_disconnect(connection));
	assert_int_equal(rs_connection_state(connection), RS_CONNECTION_DISCONNECTED);
}

static void test_a_disconnect_that_the_device_refuses_is_reported(void **state)
{
	struct fixture *fixture = *state;

	fixture_run(fixture, 1);
	fake_fail_call(FAKE_MODIFY_QP, 0, EIO);
	assert_status(rs_connection_disconnect(fixture->connections[0]), RS_ERR_IO);
	assert_logged("to ERR) failed");
}

static void test_connections_keep_what_the_user_attaches(void **state)
{
	struct fixture *fixture = *state;
	int mine;

	fixture_run(fixture, 1);
	assert_null(rs_connection_user_data(fixture->connections[0]));
	rs_connection_set_user_data(fixture->connections[0], &mine);
	assert_ptr_equal(rs_connection_user_data(fixture->connections[0]), &mine);
}

static void test_a_connection_that_cannot_be_made_ready_again_has_failed(void **state)
{
	struct fixture *fixture = *state;
	struct rs_connection *connection;

	assert_ok(rs_rdma_set_needed_connections(fixture->rdma, 1));
	fixture_start(fixture);
	connection = fixture_export(fixture);
	fake_fail_always(FAKE_MODIFY_QP, EIO);
	assert_status(rs_rdma_connect(fixture->rdma, peer_connection_line(0x123), connection),
		      RS_ERR_IO);
	assert_int_equal(rs_connection_state(connection), RS_CONNECTION_FAILED);
	fixture_progress_until(fixture, RS_CTX_IDLE);
	assert_int_not_equal(rs_ctx_error(fixture->ctx), RS_OK);
}

/* Reading from it would wait for ever. */
static void no_task_callback(struct rs_task *task, void *ctx_user_data)
{
	(void)task;
	(void)ctx_user_data;
}

/* Connects an instance with one task of type op to a peer that serves no reads and no atomics. */
static enum rs_status connect_without_reads(struct fixture *fixture, enum rs_op op)
{
	char line[RS_DESCRIPTOR_LINE_SIZE];
	struct rs_connection *connection;
	struct rs_descriptor peer;
	struct rs_rdma *rdma;
	enum rs_status status;
	const char *own;

	assert_ok(rs_descriptor_read(peer_connection_line(0x123), RS_DESCRIPTOR_CONNECTION, &peer));
	peer.connection.reads = 0;
	rs_descriptor_format(&peer, line);
	assert_ok(rs_rdma_create(fixture->device, &rdma));
	assert_ok(rs_rdma_set_task_conf(rdma, op, no_task_callback, no_task_callback, 1));
	assert_ok(rs_pe_connect_ctx(fixture->pe, rs_rdma_as_ctx(rdma)));
	assert_ok(rs_ctx_start(rs_rdma_as_ctx(rdma)));
	rs_pe_progress(fixture->pe);
	assert_ok(rs_rdma_export(rdma, &own, &connection));
	status = rs_rdma_connect(rdma, line, connection);
	rs_ctx_stop(rs_rdma_as_ctx(rdma));
	while (rs_ctx_state(rs_rdma_as_ctx(rdma)) != RS_CTX_IDLE)
		rs_pe_progress(fixture->pe);
	assert_ok(rs_rdma_destroy(rdma));
	return status;
}

static void test_a_peer_that_serves_no_reads_is_refused_where_they_are_needed(void **state)
{
	static const enum rs_op reading[] = { RS_OP_READ, RS_OP_COMPARE_AND_SWAP,
					      RS_OP_FETCH_AND_ADD, RS_OP_EVENT_GET,
					      RS_OP_EVENT_ADD };
	static const enum rs_op others[] = { RS_OP_SEND, RS_OP_RECEIVE, RS_OP_WRITE,
					     RS_OP_EVENT_SET };

	for (size_t i = 0; i < sizeof(reading) / sizeof(reading[0]); i++) {
		log_forget();
		assert_status(connect_without_reads(*state, reading[i]), RS_ERR_NOT_SUPPORTED);
		assert_logged("the peer's device serves no reads and no atomics");
	}
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		assert_ok(connect_without_reads(*state, others[i]));
}

static void test_a_start_that_is_left_without_its_connection_ends(void **state)
{
	struct fixture *fixture = *state;

	assert_ok(rs_rdma_set_needed_connections(fixture->rdma, 1));
	fixture_start(fixture);
	assert_ok(rs_connection_disconnect(fixture_export(fixture)));
	fixture_progress_until(fixture, RS_CTX_IDLE);
	assert_status(rs_ctx_error(fixture->ctx), RS_ERR_DISCONNECTED);
}

static void test_states_have_names(void **state)
{
	(void)state;
	assert_string_equal(rs_connection_state_name(RS_CONNECTION_REQUESTED), "requested");
	assert_string_equal(rs_connection_state_name(RS_CONNECTION_CONNECTED), "connected");
	assert_string_equal(rs_connection_state_name((enum rs_connection_state)9), "unknown state");
}

#define connection_test(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		connection_test(test_an_exported_line_says_how_to_reach_the_queue_pair),
		connection_test(test_lines_carry_the_program_s_name_and_their_numbers),
		connection_test(test_each_start_has_packet_numbers_of_its_own),
		connection_test(test_connecting_gives_the_queue_pair_what_the_peers_line_says),
		connection_test(test_the_peer_gets_the_rights_of_the_instance_and_no_more),
		connection_test(test_queue_sizes_follow_the_tasks_and_chains),
		connection_test(test_send_queues_can_be_shorter_than_all_tasks),
		connection_test(test_exporting_unwinds_whatever_call_fails),
		connection_test(test_a_connect_that_failed_can_be_tried_again),
		connection_test(
			test_a_connect_that_failed_is_logged_with_both_sides_and_the_likely_cause),
		connection_test(test_connections_are_made_in_starting_and_running_only),
		connection_test(test_a_connection_is_connected_once),
		connection_test(test_the_connection_of_another_instance_is_refused),
		connection_test(
			test_a_line_that_does_not_fit_is_refused_and_the_right_one_still_works),
		connection_test(test_two_instances_of_one_program_can_connect_to_each_other),
		connection_test(test_only_as_many_connections_as_configured_can_exist),
		connection_test(test_disconnecting_brings_the_sends_back_and_ends_the_connection),
		connection_test(test_a_connection_that_was_not_connected_can_be_disconnected),
		connection_test(test_a_disconnect_that_the_device_refuses_is_reported),
		connection_test(test_connections_keep_what_the_user_attaches),
		connection_test(test_states_have_names),
		connection_test(test_a_connection_that_cannot_be_made_ready_again_has_failed),
		connection_test(test_a_peer_that_serves_no_reads_is_refused_where_they_are_needed),
		connection_test(test_a_start_that_is_left_without_its_connection_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
