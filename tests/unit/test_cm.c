#include "support.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "cm.h"

#define PORT  13579
#define HELLO "hello"
#define READS 16 /* that the instance asks for and serves, at most */

/* What the callbacks were told, with the ends of tasks: "requested established completed …". */
static struct {
	char order[256];
	struct rs_connection *connection;
} seen;

static void see(const char *what)
{
	size_t used = strlen(seen.order);

	snprintf(seen.order + used, sizeof(seen.order) - used, "%s%s", used > 0 ? " " : "", what);
}

static void on_requested(struct rs_connection *connection, void *ctx_user_data)
{
	(void)ctx_user_data;
	assert_int_equal(rs_connection_state(connection), RS_CONNECTION_REQUESTED);
	see("requested");
	seen.connection = connection;
}

static void on_established(struct rs_connection *connection, void *ctx_user_data)
{
	(void)ctx_user_data;
	assert_int_equal(rs_connection_state(connection), RS_CONNECTION_CONNECTED);
	see("established");
}

static void on_disconnected(struct rs_connection *connection, void *ctx_user_data)
{
	(void)ctx_user_data;
	assert_int_equal(rs_connection_state(connection), RS_CONNECTION_DISCONNECTED);
	see("disconnected");
}

static void on_end(struct fixture *fixture, struct rs_task *task)
{
	(void)fixture;
	see(rs_task_status(task) == RS_OK ? "completed" : "failed");
}

static int setup(void **state)
{
	static const struct rs_connection_callbacks callbacks = {
		.requested = on_requested,
		.established = on_established,
		.disconnected = on_disconnected,
	};
	struct fixture *fixture;

	memset(&seen, 0, sizeof(seen));
	if (fixture_setup(state) != 0)
		return -1;
	fixture = *state;
	fixture->on_end = on_end;
	return rs_rdma_set_connection_callbacks(fixture->rdma, &callbacks) == RS_OK ? 0 : -1;
}

static void start_with(struct fixture *fixture, unsigned connections)
{
	assert_ok(rs_rdma_set_max_connections(fixture->rdma, connections));
	fixture_start(fixture);
}

/* Handles all events that are there. */
static void look(struct fixture *fixture)
{
	while (fake_cm_pending() > 0)
		rs_pe_clear_notification(fixture->pe);
	rs_pe_progress(fixture->pe);
}

static void push_to(struct fixture *fixture, struct rdma_cm_id *id, enum rdma_cm_event_type type,
		    int status, const struct rdma_conn_param *param)
{
	fake_cm_push(id, type, status, param);
	look(fixture);
}

static void push(struct fixture *fixture, enum rdma_cm_event_type type)
{
	push_to(fixture, fake_cm_last_id(), type, 0, NULL);
}

/*
 * What a request or an answer brings. Its fields are its receiver's: the peer asks for
 * responder_resources reads at a time, and serves initiator_depth.
 */
static struct rdma_conn_param offer(uint8_t asks, uint8_t serves, const char *data)
{
	return (struct rdma_conn_param){ .private_data = data,
					 .private_data_len = (uint8_t)strlen(data),
					 .responder_resources = asks,
					 .initiator_depth = serves };
}

/* ---- A client ---- */

static union rs_address server_address(void)
{
	return (union rs_address){ .ipv4 = { .sin_family = AF_INET,
					     .sin_port = htons(PORT),
					     .sin_addr.s_addr = inet_addr("192.0.2.7") } };
}

static enum rs_status connect_to(struct fixture *fixture, struct rs_connection **connection)
{
	union rs_address address = server_address();

	return rs_rdma_connect_to_address(fixture->rdma, &address, HELLO, strlen(HELLO),
					  connection);
}

static struct rs_connection *begin(struct fixture *fixture)
{
	struct rs_connection *connection;

	assert_ok(connect_to(fixture, &connection));
	assert_int_equal(rs_connection_state(connection), RS_CONNECTION_CONNECTING);
	return connection;
}

static void answer(struct fixture *fixture)
{
	struct rdma_conn_param param = offer(READS, READS, "welcome");

	push_to(fixture, fake_cm_last_id(), RDMA_CM_EVENT_CONNECT_RESPONSE, 0, &param);
}

/* The events of the way to a server, the first count of them. */
static void go(struct fixture *fixture, unsigned count)
{
	if (count > 0)
		push(fixture, RDMA_CM_EVENT_ADDR_RESOLVED);
	if (count > 1)
		push(fixture, RDMA_CM_EVENT_ROUTE_RESOLVED);
	if (count > 2)
		answer(fixture);
}

static struct rs_connection *connect_client(struct fixture *fixture)
{
	struct rs_connection *connection = begin(fixture);

	go(fixture, 3);
	assert_int_equal(rs_connection_state(connection), RS_CONNECTION_CONNECTED);
	return connection;
}

/* ---- A server ---- */

static struct rdma_cm_id *listen_at(struct fixture *fixture)
{
	assert_ok(rs_rdma_listen(fixture->rdma, PORT));
	return fake_cm_last_id();
}

static struct rdma_cm_id *request(struct fixture *fixture, struct rdma_cm_id *listener)
{
	struct rdma_conn_param param = offer(READS, READS, HELLO);
	struct rdma_cm_id *id = fake_cm_request(listener, &param);

	seen.connection = NULL;
	look(fixture);
	return id;
}

static struct rs_connection *serve_client(struct fixture *fixture, struct rdma_cm_id *listener,
					  struct rdma_cm_id **id)
{
	struct rs_connection *connection;

	*id = request(fixture, listener);
	connection = seen.connection;
	assert_non_null(connection);
	assert_ok(rs_connection_accept(connection, NULL, 0));
	push_to(fixture, *id, RDMA_CM_EVENT_ESTABLISHED, 0, NULL);
	assert_int_equal(rs_connection_state(connection), RS_CONNECTION_CONNECTED);
	return connection;
}

static void assert_turned_away(const char *reason)
{
	char line[256];

	assert_null(seen.connection);
	assert_string_equal(fake_cm_reason(), reason);
	snprintf(line, sizeof(line), "192.0.2.9 port 40000 is rejected: %s", reason);
	assert_logged(line);
}

/* ---- To established ---- */

static void assert_private_data(const struct rs_connection *connection, const char *expected)
{
	size_t length;
	const void *data = rs_connection_private_data(connection, &length);

	assert_int_equal(length, strlen(expected));
	assert_memory_equal(data, expected, length);
}

static void assert_address(const struct rs_connection *connection, const char *expected)
{
	char text[RS_ADDRESS_TEXT_SIZE];

	assert_string_equal(rs_address_text(rs_connection_peer_address(connection), text),
			    expected);
}

/* What the peer has said, but for the times, which are ours. */
static void assert_attributes(const struct ibv_qp *qp, unsigned serves, unsigned asks)
{
	const struct ibv_qp_attr *rtr = fake_qp_attr(qp, IBV_QPS_RTR);
	const struct ibv_qp_attr *rts = fake_qp_attr(qp, IBV_QPS_RTS);

	assert_int_equal(qp->state, IBV_QPS_RTS);
	assert_int_equal(rtr->dest_qp_num, FAKE_CM_PEER_QPN);
	assert_int_equal(rtr->rq_psn, FAKE_CM_PEER_PSN);
	assert_int_equal(rtr->path_mtu, FAKE_CM_MTU);
	assert_int_equal(rtr->max_dest_rd_atomic, serves);
	assert_int_equal(rtr->min_rnr_timer, 24);
	assert_int_equal(rts->sq_psn, FAKE_CM_OWN_PSN);
	assert_int_equal(rts->max_rd_atomic, asks);
	assert_int_equal(rts->timeout, 14);
	assert_int_equal(rts->retry_cnt, 5);
	assert_int_equal(rts->rnr_retry, 6);
}

static void assert_parameters(const struct rs_connection *connection, unsigned serves,
			      unsigned asks, const char *data)
{
	const struct rdma_conn_param *param = fake_cm_param();

	assert_int_equal(param->qp_num, rs_connection_qp(connection)->qp_num);
	assert_int_equal(param->srq, 1);
	assert_int_equal(param->responder_resources, serves);
	assert_int_equal(param->initiator_depth, asks);
	assert_int_equal(param->retry_count, 5);
	assert_int_equal(param->rnr_retry_count, 6);
	assert_int_equal(param->flow_control, 0);
	assert_int_equal(param->private_data_len, strlen(data));
	assert_memory_equal(param->private_data, data, strlen(data));
}

static void test_a_client_connects(void **state)
{
	struct fixture *fixture = *state;
	struct rs_connection *connection;

	assert_ok(rs_rdma_set_ack_timeout(fixture->rdma, 14, 5));
	assert_ok(rs_rdma_set_needed_connections(fixture->rdma, 1));
	fixture_start(fixture);
	connection = begin(fixture);
	assert_null(rs_connection_qp(connection));
	go(fixture, 2);
	assert_int_equal(rs_connection_qp(connection)->state, IBV_QPS_INIT);
	assert_parameters(connection, READS, READS, HELLO);
	assert_int_equal(rs_ctx_state(fixture->ctx), RS_CTX_STARTING);
	answer(fixture);
	assert_string_equal(fake_cm_calls(),
			    "create_channel create_id resolve_addr resolve_route connect "
			    "init_qp_attr init_qp_attr establish");
	assert_attributes(rs_connection_qp(connection), READS, READS);
	assert_private_data(connection, "welcome");
	assert_address(connection, "192.0.2.7 port 13579");
	assert_string_equal(seen.order, "established");
	assert_int_equal(rs_ctx_state(fixture->ctx), RS_CTX_RUNNING);
}

static void test_a_server_accepts(void **state)
{
	struct fixture *fixture = *state;
	struct rs_connection *connection;
	struct rdma_cm_id *id;

	assert_ok(rs_rdma_set_ack_timeout(fixture->rdma, 14, 5));
	assert_ok(rs_rdma_set_needed_connections(fixture->rdma, 1));
	fixture_start(fixture);
	id = request(fixture, listen_at(fixture));
	assert_string_equal(fake_cm_calls(), "create_channel create_id bind_addr listen");
	assert_int_equal(fake_cm_port(), PORT);
	connection = seen.connection;
	assert_private_data(connection, HELLO);
	assert_address(connection, "192.0.2.9 port 40000");
	fake_cm_forget_calls();
	assert_ok(rs_connection_accept(connection, "welcome", 7));
	assert_string_equal(fake_cm_calls(), "init_qp_attr init_qp_attr accept");
	assert_parameters(connection, READS, READS, "welcome");
	assert_attributes(rs_connection_qp(connection), READS, READS);
	assert_int_equal(rs_connection_state(connection), RS_CONNECTION_CONNECTING);
	assert_int_equal(rs_ctx_state(fixture->ctx), RS_CTX_STARTING);
	push_to(fixture, id, RDMA_CM_EVENT_ESTABLISHED, 0, NULL);
	assert_string_equal(seen.order, "requested established");
	assert_int_equal(rs_ctx_state(fixture->ctx), RS_CTX_RUNNING);
}

/* serves, asks: what a server agrees to when its client asks for and serves these. */
static void assert_agreed(struct fixture *fixture, struct rdma_conn_param param, unsigned serves,
			  unsigned asks)
{
	assert_ok(rs_rdma_set_ack_timeout(fixture->rdma, 14, 5));
	fixture_start(fixture);
	fake_cm_request(listen_at(fixture), &param);
	look(fixture);
	assert_ok(rs_connection_accept(seen.connection, NULL, 0));
	assert_parameters(seen.connection, serves, asks, "");
	assert_attributes(rs_connection_qp(seen.connection), serves, asks);
	fixture_stop(fixture);
}

static void test_a_server_agrees_to_what_both_sides_can(void **state)
{
	assert_agreed(*state, offer(3, 5, HELLO), 3, 5);
	assert_agreed(*state, offer(0, 0, HELLO), 0, 0);
	/* The device has no place for so many. */
	assert_agreed(*state, offer(200, 255, HELLO), READS, READS);
}

static void test_a_client_takes_what_the_server_agrees_to(void **state)
{
	struct fixture *fixture = *state;
	struct rdma_conn_param param = offer(3, 200, "");
	struct rs_connection *connection;

	assert_ok(rs_rdma_set_ack_timeout(fixture->rdma, 14, 5));
	fixture_start(fixture);
	connection = begin(fixture);
	go(fixture, 2);
	push_to(fixture, fake_cm_last_id(), RDMA_CM_EVENT_CONNECT_RESPONSE, 0, &param);
	assert_attributes(rs_connection_qp(connection), 3, READS);
	assert_private_data(connection, "");
}

static void test_without_receives_there_is_no_shared_queue(void **state)
{
	struct fixture *fixture = *state;
	struct rs_connection *connection;
	struct rs_rdma *rdma;
	union rs_address address = server_address();

	assert_ok(rs_rdma_create(fixture->device, &rdma));
	assert_ok(rs_pe_connect_ctx(fixture->pe, rs_rdma_as_ctx(rdma)));
	assert_ok(rs_ctx_start(rs_rdma_as_ctx(rdma)));
	look(fixture);
	assert_ok(rs_rdma_connect_to_address(rdma, &address, NULL, 0, &connection));
	go(fixture, 2);
	assert_int_equal(fake_cm_param()->srq, 0);
	assert_int_equal(fake_cm_param()->private_data_len, 0);
	answer(fixture); /* nobody has to be told */
	assert_int_equal(rs_connection_state(connection), RS_CONNECTION_CONNECTED);
	rs_ctx_stop(rs_rdma_as_ctx(rdma));
	while (rs_ctx_state(rs_rdma_as_ctx(rdma)) != RS_CTX_IDLE)
		rs_pe_progress(fixture->pe);
	assert_ok(rs_rdma_destroy(rdma));
}

static void test_data_before_the_last_message_complete_the_handshake(void **state)
{
	struct fixture *fixture = *state;

	fixture_start(fixture);
	request(fixture, listen_at(fixture));
	assert_ok(rs_connection_accept(seen.connection, NULL, 0));
	fake_push_event(rs_device_verbs(fixture->device), IBV_EVENT_COMM_EST,
			rs_connection_qp(seen.connection));
	rs_pe_clear_notification(fixture->pe);
	assert_int_equal(fake_cm_notified(), IBV_EVENT_COMM_EST);
	/* Of a connection by descriptors nobody needs to know. */
	fixture_stop(fixture);
	fixture_start(fixture);
	fake_cm_forget_calls();
	fake_push_event(rs_device_verbs(fixture->device), IBV_EVENT_COMM_EST,
			rs_connection_qp(fixture_export(fixture)));
	rs_pe_clear_notification(fixture->pe);
	assert_string_equal(fake_cm_calls(), "");
}

/* ---- What can fail on the way ---- */

static void assert_fails(struct fixture *fixture, unsigned steps, enum rdma_cm_event_type type,
			 int event_status, enum rs_status expected)
{
	struct rs_connection *connection;

	fixture->failed_connections = 0;
	log_forget();
	fixture_start(fixture);
	connection = begin(fixture);
	go(fixture, steps);
	push_to(fixture, fake_cm_last_id(), type, event_status, NULL);
	assert_int_equal(rs_connection_state(connection), RS_CONNECTION_FAILED);
	assert_int_equal(fixture->failed_connections, 1);
	assert_ptr_equal(fixture->last_failed_connection, connection);
	assert_status(fixture->failure_reason, expected);
	assert_logged("connecting with 192.0.2.7 port 13579 failed: ");
	assert_logged(rs_status_text(expected));
	fixture_stop(fixture);
}

static void test_events_of_failure_end_the_connection_with_a_reason(void **state)
{
	assert_fails(*state, 0, RDMA_CM_EVENT_ADDR_ERROR, -ENODEV, RS_ERR_UNREACHABLE);
	assert_fails(*state, 0, RDMA_CM_EVENT_ADDR_ERROR, -ETIMEDOUT, RS_ERR_TIMED_OUT);
	assert_logged("status -110");
	assert_fails(*state, 1, RDMA_CM_EVENT_ROUTE_ERROR, -EINVAL, RS_ERR_UNREACHABLE);
	assert_fails(*state, 2, RDMA_CM_EVENT_CONNECT_ERROR, -ENOMEM, RS_ERR_NO_MEMORY);
	assert_fails(*state, 2, RDMA_CM_EVENT_CONNECT_ERROR, 0, RS_ERR_UNKNOWN);
	assert_fails(*state, 2, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT, RS_ERR_TIMED_OUT);
	assert_fails(*state, 2, RDMA_CM_EVENT_UNREACHABLE, -EHOSTUNREACH, RS_ERR_UNREACHABLE);
	assert_fails(*state, 2, RDMA_CM_EVENT_REJECTED, 28, RS_ERR_REJECTED);
	assert_string_equal(seen.order, "");
}

static void test_a_server_goes_on_without_a_client_that_was_lost(void **state)
{
	struct fixture *fixture = *state;
	struct rdma_cm_id *listener, *id;

	assert_ok(rs_rdma_set_needed_connections(fixture->rdma, 1));
	fixture_start(fixture);
	listener = listen_at(fixture);
	id = request(fixture, listener);
	assert_ok(rs_connection_accept(seen.connection, NULL, 0));
	push_to(fixture, id, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT, NULL);
	assert_status(fixture->failure_reason, RS_ERR_TIMED_OUT);
	assert_logged("connecting with 192.0.2.9 port 40000 failed: timed out");
	assert_int_equal(rs_ctx_state(fixture->ctx), RS_CTX_STARTING);
	serve_client(fixture, listener, &id);
	assert_int_equal(rs_ctx_state(fixture->ctx), RS_CTX_RUNNING);
}

static void test_an_instance_that_needs_the_connection_stops(void **state)
{
	struct fixture *fixture = *state;

	assert_ok(rs_rdma_set_needed_connections(fixture->rdma, 1));
	fixture_start(fixture);
	begin(fixture);
	push_to(fixture, fake_cm_last_id(), RDMA_CM_EVENT_ADDR_ERROR, -ETIMEDOUT, NULL);
	fixture_progress_until(fixture, RS_CTX_IDLE);
	assert_status(rs_ctx_error(fixture->ctx), RS_ERR_TIMED_OUT);
}

static void reject_with(struct fixture *fixture, const char *reason, size_t length)
{
	struct rdma_conn_param param = { .private_data = reason,
					 .private_data_len = (uint8_t)length };

	log_forget();
	fixture_start(fixture);
	begin(fixture);
	go(fixture, 2);
	push_to(fixture, fake_cm_last_id(), RDMA_CM_EVENT_REJECTED, 28, &param);
	fixture_stop(fixture);
}

static void test_the_reason_of_a_rejection_is_told_and_harms_no_terminal(void **state)
{
	static const char padded[148] = "no room";
	char longest[UINT8_MAX];

	reject_with(*state, "\x1b[2Jgo\naway\xff", 12);
	assert_logged("28): \\x1b[2Jgo\\naway\\xff");
	assert_null(strchr(log_text(), '\x1b'));
	reject_with(*state, padded, sizeof(padded));
	assert_logged(": no room\n");
	reject_with(*state, "", 0);
	assert_logged("status 28): the program there refused it\n");
	memset(longest, '\x01', sizeof(longest));
	reject_with(*state, longest, sizeof(longest));
	assert_int_equal(log_count("\\x01"), RS_CM_MAX_REASON);
}

static void assert_cause(struct fixture *fixture, int event_status, const char *cause)
{
	log_forget();
	fixture_start(fixture);
	begin(fixture);
	go(fixture, 2);
	push_to(fixture, fake_cm_last_id(), RDMA_CM_EVENT_REJECTED, event_status, NULL);
	assert_logged(cause);
	fixture_stop(fixture);
}

static void test_a_rejection_without_words_has_a_cause(void **state)
{
	assert_cause(*state, 8, "status 8): nobody listens at that port\n");
	assert_cause(*state, 10, "status 10): the peer takes it for a connection that it has");
	assert_cause(*state, 28, "status 28): the program there refused it\n");
	assert_cause(*state, 99, "status 99): ");
}

static void test_an_address_of_another_device_is_refused(void **state)
{
	struct fixture *fixture = *state;

	fake_cm_set_device(&fake_add_device("fake1")->verbs);
	fixture_start(fixture);
	begin(fixture);
	go(fixture, 1);
	assert_status(fixture->failure_reason, RS_ERR_UNREACHABLE);
	assert_logged("192.0.2.7 port 13579 is reached through device fake1, but this program has "
		      "opened fake0: compare --device");
	assert_string_equal(fake_cm_calls(), "create_channel create_id resolve_addr");
}

static void test_a_request_over_another_device_is_rejected(void **state)
{
	struct fixture *fixture = *state;

	fake_cm_set_device(&fake_add_device("fake1")->verbs);
	fixture_start(fixture);
	request(fixture, listen_at(fixture));
	assert_turned_away("this server works on device fake0, not on fake1");
	assert_int_equal(fake_cm_live(), 2);
}

/* Whatever there is of it is gone when the instance is Idle. */
static void assert_unwound(struct fixture *fixture)
{
	fixture_stop(fixture);
	assert_int_equal(fake_cm_live(), 0);
	assert_int_equal(fake_live(), fixture->live_before_start);
	fixture->failed_connections = 0;
}

/* Whether it connects. What comes after a failed call is of no consequence. */
static bool try_client(struct fixture *fixture)
{
	struct rs_connection *connection;
	enum rs_status status = connect_to(fixture, &connection);

	if (status == RS_OK) {
		go(fixture, 3);
		if (rs_connection_state(connection) == RS_CONNECTION_CONNECTED)
			return true;
		assert_int_equal(rs_connection_state(connection), RS_CONNECTION_FAILED);
		status = fixture->failure_reason;
	}
	assert_status(status, RS_ERR_NO_MEMORY);
	assert_int_equal(fixture->failed_connections, 1);
	return false;
}

static bool try_server(struct fixture *fixture)
{
	enum rs_status status = rs_rdma_listen(fixture->rdma, PORT);
	struct rdma_cm_id *id;

	if (status != RS_OK) {
		assert_status(status, RS_ERR_NO_MEMORY);
		return false;
	}
	id = request(fixture, fake_cm_last_id());
	status = rs_connection_accept(seen.connection, NULL, 0);
	push_to(fixture, id, RDMA_CM_EVENT_ESTABLISHED, 0, NULL);
	if (status == RS_OK)
		return true;
	assert_status(status, RS_ERR_NO_MEMORY);
	assert_int_equal(rs_connection_state(seen.connection), RS_CONNECTION_FAILED);
	assert_int_equal(fixture->failed_connections, 1);
	return false;
}

static void fail_each(struct fixture *fixture, bool (*attempt)(struct fixture *fixture),
		      void (*fail_any)(unsigned skip, int error), unsigned expected)
{
	unsigned skip = 0;
	bool worked;

	do {
		fixture_start(fixture);
		log_forget();
		fail_any(skip++, ENOMEM);
		worked = attempt(fixture);
		if (!worked)
			assert_logged(" failed: Cannot allocate memory");
		assert_unwound(fixture);
	} while (!worked);
	assert_int_equal(skip - 1, expected);
	fail_any(UINT_MAX, 0); /* the one that was left over */
}

static void test_whatever_call_of_a_client_fails_is_unwound(void **state)
{
	/* create_channel … establish; create_qp, and three moves. */
	fail_each(*state, try_client, fake_cm_fail_any, 8);
	fail_each(*state, try_client, fake_fail_any, 4);
}

static void test_whatever_call_of_a_server_fails_is_unwound(void **state)
{
	fail_each(*state, try_server, fake_cm_fail_any, 7);
	fail_each(*state, try_server, fake_fail_any, 4);
}

static void test_a_client_is_told_that_the_server_has_failed(void **state)
{
	struct fixture *fixture = *state;

	fixture_start(fixture);
	request(fixture, listen_at(fixture));
	fake_fail_call(FAKE_CREATE_QP, 0, ENOMEM);
	assert_status(rs_connection_accept(seen.connection, NULL, 0), RS_ERR_NO_MEMORY);
	assert_string_equal(fake_cm_reason(), "this server has failed: out of memory");
}

static void test_ends_that_fail_are_logged(void **state)
{
	struct fixture *fixture = *state;

	fixture_start(fixture);
	listen_at(fixture);
	fake_cm_fail_call(FAKE_CM_DESTROY_ID, 0, EIO);
	assert_ok(rs_rdma_stop_listen(fixture->rdma));
	assert_logged("rdma_destroy_id() failed: ");
	request(fixture, listen_at(fixture));
	fake_cm_fail_call(FAKE_CM_REJECT, 0, EIO);
	assert_ok(rs_connection_reject(seen.connection, "no"));
	assert_logged("rdma_reject() failed: ");
}

/* ---- Calls that are not allowed ---- */

static void test_a_client_connects_in_the_right_states_only(void **state)
{
	struct fixture *fixture = *state;
	struct rs_connection *connection;
	union rs_address address = server_address();
	char data[RS_CM_MAX_PRIVATE_DATA + 1] = "";

	assert_status(connect_to(fixture, &connection), RS_ERR_BAD_STATE);
	fixture_start(fixture);
	assert_status(rs_rdma_connect_to_address(fixture->rdma, &address, data, sizeof(data),
						 &connection),
		      RS_ERR_TOO_BIG);
	assert_ok(rs_rdma_connect_to_address(fixture->rdma, &address, data, RS_CM_MAX_PRIVATE_DATA,
					     &connection));
	assert_status(connect_to(fixture, &connection), RS_ERR_FULL);
	assert_int_equal(fake_cm_live(), 2);
}

static void test_a_server_answers_once(void **state)
{
	struct fixture *fixture = *state;
	char data[RS_CM_MAX_PRIVATE_DATA + 1] = "";
	struct rdma_cm_id *listener;

	fixture_start(fixture);
	listener = listen_at(fixture);
	request(fixture, listener);
	assert_status(rs_connection_accept(seen.connection, data, sizeof(data)), RS_ERR_TOO_BIG);
	assert_ok(rs_connection_accept(seen.connection, data, RS_CM_MAX_PRIVATE_DATA));
	assert_status(rs_connection_accept(seen.connection, NULL, 0), RS_ERR_BAD_STATE);
	assert_status(rs_connection_reject(seen.connection, "late"), RS_ERR_BAD_STATE);
	assert_ok(rs_connection_disconnect(seen.connection));
	request(fixture, listener);
	assert_ok(rs_connection_reject(seen.connection, "no"));
	assert_status(rs_connection_reject(seen.connection, "late"), RS_ERR_BAD_STATE);
	assert_status(rs_connection_accept(seen.connection, NULL, 0), RS_ERR_BAD_STATE);
	assert_string_equal(fake_cm_reason(), "no");
	assert_int_equal(rs_connection_state(seen.connection), RS_CONNECTION_DISCONNECTED);
}

static void test_a_client_s_connection_is_not_to_be_accepted(void **state)
{
	struct fixture *fixture = *state;
	struct rs_connection *connection;

	fixture_start(fixture);
	connection = connect_client(fixture);
	assert_status(rs_connection_accept(connection, NULL, 0), RS_ERR_BAD_STATE);
	assert_status(rs_connection_reject(connection, "no"), RS_ERR_BAD_STATE);
	assert_int_equal(rs_connection_state(connection), RS_CONNECTION_CONNECTED);
}

static void test_a_long_reason_is_cut(void **state)
{
	struct fixture *fixture = *state;
	char reason[300];

	memset(reason, 'x', sizeof(reason) - 1);
	reason[sizeof(reason) - 1] = '\0';
	fixture_start(fixture);
	request(fixture, listen_at(fixture));
	assert_ok(rs_connection_reject(seen.connection, reason));
	assert_int_equal(strlen(fake_cm_reason()), RS_CM_MAX_REASON);
}

static void test_an_instance_listens_once(void **state)
{
	struct fixture *fixture = *state;

	assert_status(rs_rdma_listen(fixture->rdma, PORT), RS_ERR_BAD_STATE);
	fixture_start(fixture);
	assert_status(rs_rdma_stop_listen(fixture->rdma), RS_ERR_BAD_STATE);
	listen_at(fixture);
	assert_status(rs_rdma_listen(fixture->rdma, PORT + 1), RS_ERR_BAD_STATE);
	assert_int_equal(fake_cm_port(), PORT);
	assert_ok(rs_rdma_stop_listen(fixture->rdma));
	assert_status(rs_rdma_stop_listen(fixture->rdma), RS_ERR_BAD_STATE);
	assert_ok(rs_rdma_listen(fixture->rdma, PORT + 1));
	assert_int_equal(fake_cm_port(), PORT + 1);
}

static void test_a_port_in_use_is_told(void **state)
{
	struct fixture *fixture = *state;

	fixture_start(fixture);
	fake_cm_fail_call(FAKE_CM_BIND_ADDR, 0, EADDRINUSE);
	assert_status(rs_rdma_listen(fixture->rdma, PORT), RS_ERR_IN_USE);
	assert_logged("rdma_bind_addr(port 13579) failed: Address already in use: another program "
		      "listens there");
	listen_at(fixture);
}

static void test_callbacks_are_set_in_idle_only(void **state)
{
	static const struct rs_connection_callbacks none;
	struct fixture *fixture = *state;

	fixture_start(fixture);
	assert_status(rs_rdma_set_connection_callbacks(fixture->rdma, &none), RS_ERR_BAD_STATE);
	connect_client(fixture);
	assert_string_equal(seen.order, "established");
}

static void test_without_callbacks_nobody_is_accepted_and_all_else_works(void **state)
{
	static const struct rs_connection_callbacks none;
	struct fixture *fixture = *state;
	struct rs_connection *connection;

	assert_ok(rs_rdma_set_connection_callbacks(fixture->rdma, &none));
	start_with(fixture, 2);
	request(fixture, listen_at(fixture));
	assert_string_equal(fake_cm_reason(), "this server takes no connections");
	connection = connect_client(fixture);
	push(fixture, RDMA_CM_EVENT_DISCONNECTED);
	assert_int_equal(rs_connection_state(connection), RS_CONNECTION_DISCONNECTED);
	assert_string_equal(seen.order, "");
}

/* ---- Places ---- */

static void test_one_client_too_many_is_rejected(void **state)
{
	struct fixture *fixture = *state;
	struct rdma_cm_id *listener, *id;

	start_with(fixture, 2);
	listener = listen_at(fixture);
	serve_client(fixture, listener, &id);
	serve_client(fixture, listener, &id);
	request(fixture, listener);
	assert_turned_away("all 2 connections of this server are taken");
	/* The channel, the listener and the two. */
	assert_int_equal(fake_cm_live(), 4);
}

static void test_the_place_of_a_connection_that_has_ended_is_used_again(void **state)
{
	struct fixture *fixture = *state;
	struct rs_connection *first;
	struct rdma_cm_id *listener, *id;
	unsigned live;

	fixture_start(fixture);
	listener = listen_at(fixture);
	first = serve_client(fixture, listener, &id);
	rs_connection_set_user_data(first, fixture);
	live = fake_live();
	for (unsigned i = 0; i < 3; i++) {
		push_to(fixture, id, RDMA_CM_EVENT_DISCONNECTED, 0, NULL);
		assert_ptr_equal(serve_client(fixture, listener, &id), first);
		assert_int_equal(rs_connection_id(first), 0);
		assert_null(rs_connection_user_data(first));
		assert_int_equal(fake_live(), live);
		assert_int_equal(fake_cm_live(), 3);
	}
	/* What arrives is the new one's. */
	fixture->connections[0] = first;
	fixture_submit_receive(fixture, 0, 16, NULL);
	fake_deliver_send(rs_connection_qp(first), "data", 4);
	rs_pe_progress(fixture->pe);
	assert_ptr_equal(rs_task_result_connection(fixture->last_task), first);
	fixture_free_task(fixture->last_task);
}

static void test_what_came_before_a_place_is_used_again_is_the_old_one_s(void **state)
{
	struct fixture *fixture = *state;
	struct rdma_cm_id *listener, *id;
	struct rs_connection *first;
	struct rs_task *task;

	fixture_start(fixture);
	listener = listen_at(fixture);
	first = serve_client(fixture, listener, &id);
	task = fixture_submit_receive(fixture, 0, 16, NULL);
	fake_deliver_send(rs_connection_qp(first), "data", 4);
	fake_cm_push(id, RDMA_CM_EVENT_CONNECT_ERROR, 0, NULL);
	request(fixture, listener);
	assert_string_equal(seen.order, "requested established completed requested");
	assert_ptr_equal(rs_task_result_connection(task), first);
	fixture_free_task(task);
}

static void test_a_client_can_try_again(void **state)
{
	struct fixture *fixture = *state;
	struct rs_connection *connection;

	fixture_start(fixture);
	fake_cm_fail_call(FAKE_CM_RESOLVE_ADDR, 0, ENETUNREACH);
	assert_status(connect_to(fixture, &connection), RS_ERR_UNREACHABLE);
	assert_logged("rdma_resolve_addr(192.0.2.7 port 13579) failed: Network is unreachable: is "
		      "there a route to it from an RDMA device?");
	begin(fixture);
	push_to(fixture, fake_cm_last_id(), RDMA_CM_EVENT_ADDR_ERROR, -ETIMEDOUT, NULL);
	connect_client(fixture);
	assert_int_equal(fake_cm_live(), 2);
}

static void test_a_place_is_not_used_again_while_a_task_is_in_flight(void **state)
{
	struct fixture *fixture = *state;
	struct rdma_cm_id *listener, *id;
	struct end_record end = { 0 };
	struct rs_task *task;

	fixture_start(fixture);
	listener = listen_at(fixture);
	fixture->connections[0] = serve_client(fixture, listener, &id);
	fake_hold_flushes();
	task = fixture_submit_send(fixture, 16, &end);
	push_to(fixture, id, RDMA_CM_EVENT_DISCONNECTED, 0, NULL);
	request(fixture, listener);
	assert_turned_away("all 1 connections of this server are taken");
	assert_int_equal(end.failed, 0);
	fake_flush(fixture_qp(fixture, 0));
	rs_pe_progress(fixture->pe);
	assert_int_equal(end.failed, 1);
	fixture_free_task(task);
	serve_client(fixture, listener, &id);
}

static void test_a_complete_connection_keeps_its_place_and_counts(void **state)
{
	struct fixture *fixture = *state;
	struct rs_connection *first;
	struct rdma_cm_id *listener, *id;

	assert_ok(rs_rdma_set_needed_connections(fixture->rdma, 2));
	start_with(fixture, 2);
	listener = listen_at(fixture);
	first = serve_client(fixture, listener, &id);
	assert_false(rs_connection_is_complete(first));
	rs_connection_set_complete(first);
	push_to(fixture, id, RDMA_CM_EVENT_DISCONNECTED, 0, NULL);
	assert_true(rs_connection_is_complete(first));
	assert_int_equal(rs_ctx_state(fixture->ctx), RS_CTX_STARTING);
	assert_ptr_not_equal(serve_client(fixture, listener, &id), first);
	assert_int_equal(rs_ctx_state(fixture->ctx), RS_CTX_RUNNING);
	request(fixture, listener);
	assert_turned_away("all 2 connections of this server are taken");
}

static void test_a_server_that_starts_waits_for_others_when_one_has_gone(void **state)
{
	struct fixture *fixture = *state;
	struct rdma_cm_id *listener, *id;

	assert_ok(rs_rdma_set_needed_connections(fixture->rdma, 2));
	start_with(fixture, 2);
	listener = listen_at(fixture);
	serve_client(fixture, listener, &id);
	push_to(fixture, id, RDMA_CM_EVENT_DISCONNECTED, 0, NULL);
	serve_client(fixture, listener, &id);
	assert_int_equal(rs_ctx_state(fixture->ctx), RS_CTX_STARTING);
	serve_client(fixture, listener, &id);
	assert_int_equal(rs_ctx_state(fixture->ctx), RS_CTX_RUNNING);
}

/* ---- Ends ---- */

static void test_what_came_before_the_peer_s_end_counts(void **state)
{
	struct fixture *fixture = *state;
	struct end_record received = { 0 }, sent = { 0 };
	struct rs_task *receive, *send;

	fixture_start(fixture);
	fixture->connections[0] = connect_client(fixture);
	receive = fixture_submit_receive(fixture, 0, 16, &received);
	send = fixture_submit_send(fixture, 16, &sent);
	fake_deliver_send(fixture_qp(fixture, 0), "data", 4);
	fake_cm_forget_calls();
	fake_cm_push(fake_cm_last_id(), RDMA_CM_EVENT_DISCONNECTED, 0, NULL);
	fake_cm_push(fake_cm_last_id(), RDMA_CM_EVENT_DISCONNECTED, 0, NULL);
	fake_cm_push(fake_cm_last_id(), RDMA_CM_EVENT_TIMEWAIT_EXIT, 0, NULL);
	look(fixture);
	assert_string_equal(seen.order, "established completed disconnected failed");
	assert_string_equal(fake_cm_calls(), "disconnect");
	assert_status(sent.status, RS_ERR_FLUSHED);
	assert_int_equal(fixture_qp(fixture, 0)->state, IBV_QPS_ERR);
	assert_status(rs_connection_disconnect(fixture->connections[0]), RS_ERR_BAD_STATE);
	assert_int_equal(fixture->failed_connections, 0);
	fixture_free_task(receive);
	fixture_free_task(send);
}

static void test_the_last_connection_s_end_stops_an_instance_that_needs_it(void **state)
{
	struct fixture *fixture = *state;

	assert_ok(rs_rdma_set_needed_connections(fixture->rdma, 1));
	fixture_start(fixture);
	connect_client(fixture);
	push(fixture, RDMA_CM_EVENT_DISCONNECTED);
	fixture_progress_until(fixture, RS_CTX_IDLE);
	assert_status(rs_ctx_error(fixture->ctx), RS_ERR_DISCONNECTED);
	assert_string_equal(seen.order, "established disconnected");
}

static void test_a_failure_that_came_before_the_peer_s_end_counts(void **state)
{
	struct fixture *fixture = *state;
	struct rs_task *task;

	fixture_start(fixture);
	fixture->connections[0] = connect_client(fixture);
	task = fixture_submit_send(fixture, 16, NULL);
	fake_complete_send(fixture_qp(fixture, 0), IBV_WC_REM_ACCESS_ERR);
	fake_cm_forget_calls();
	push(fixture, RDMA_CM_EVENT_DISCONNECTED);
	assert_status(fixture->failure_reason, RS_ERR_REMOTE_ACCESS);
	assert_string_equal(seen.order, "established failed");
	/* The peer waits for an answer all the same. */
	assert_string_equal(fake_cm_calls(), "disconnect disconnect");
	fixture_free_task(task);
}

static void test_the_end_of_a_connection_that_has_failed_is_answered(void **state)
{
	struct fixture *fixture = *state;
	struct rs_task *task;

	fixture_start(fixture);
	fixture->connections[0] = connect_client(fixture);
	task = fixture_submit_send(fixture, 16, NULL);
	fake_complete_send(fixture_qp(fixture, 0), IBV_WC_REM_ACCESS_ERR);
	look(fixture);
	fake_cm_forget_calls();
	push(fixture, RDMA_CM_EVENT_DISCONNECTED);
	assert_string_equal(fake_cm_calls(), "disconnect");
	assert_string_equal(seen.order, "established failed");
	assert_int_equal(fixture->failed_connections, 1);
	fixture_free_task(task);
}

static void test_an_end_of_ours_is_told_to_the_peer(void **state)
{
	struct fixture *fixture = *state;
	struct rs_connection *connection;

	fixture_start(fixture);
	connection = connect_client(fixture);
	fake_cm_forget_calls();
	assert_ok(rs_connection_disconnect(connection));
	assert_string_equal(fake_cm_calls(), "disconnect");
	assert_int_equal(rs_connection_qp(connection)->state, IBV_QPS_ERR);
	/* The peer's answer. */
	push(fixture, RDMA_CM_EVENT_DISCONNECTED);
	assert_string_equal(seen.order, "established");
	assert_string_equal(fake_cm_calls(), "disconnect");
}

static void test_an_end_that_overtakes_the_handshake_comes_after_running(void **state)
{
	struct fixture *fixture = *state;
	struct rdma_cm_id *id;

	assert_ok(rs_rdma_set_needed_connections(fixture->rdma, 1));
	fixture_start(fixture);
	id = request(fixture, listen_at(fixture));
	assert_ok(rs_connection_accept(seen.connection, NULL, 0));
	push_to(fixture, id, RDMA_CM_EVENT_DISCONNECTED, 0, NULL);
	fixture_progress_until(fixture, RS_CTX_IDLE);
	assert_string_equal(seen.order, "requested established disconnected");
	assert_string_equal(fixture->transitions, "Idle>Starting Starting>Running "
						  "Running>Stopping Stopping>Idle ");
	assert_status(rs_ctx_error(fixture->ctx), RS_ERR_DISCONNECTED);
}

static void test_an_end_that_overtakes_the_handshake_of_one_of_several(void **state)
{
	struct fixture *fixture = *state;
	struct rdma_cm_id *listener, *id;

	assert_ok(rs_rdma_set_needed_connections(fixture->rdma, 2));
	start_with(fixture, 2);
	listener = listen_at(fixture);
	id = request(fixture, listener);
	assert_ok(rs_connection_accept(seen.connection, NULL, 0));
	push_to(fixture, id, RDMA_CM_EVENT_DISCONNECTED, 0, NULL);
	rs_pe_progress(fixture->pe);
	assert_string_equal(seen.order, "requested established disconnected");
	serve_client(fixture, listener, &id);
	assert_int_equal(rs_ctx_state(fixture->ctx), RS_CTX_STARTING);
	serve_client(fixture, listener, &id);
	assert_int_equal(rs_ctx_state(fixture->ctx), RS_CTX_RUNNING);
}

static void test_an_end_of_ours_before_the_answer_is_told_as_well(void **state)
{
	struct fixture *fixture = *state;

	start_with(fixture, 2);
	request(fixture, listen_at(fixture));
	fake_cm_forget_calls();
	assert_ok(rs_connection_disconnect(seen.connection));
	assert_string_equal(fake_cm_calls(), "reject");
	fake_cm_forget_calls();
	assert_ok(rs_connection_disconnect(begin(fixture)));
	assert_string_equal(fake_cm_calls(), "create_id resolve_addr destroy_id");
	assert_int_equal(fixture->failed_connections, 0);
}

static void test_a_changed_address_is_but_told(void **state)
{
	struct fixture *fixture = *state;
	struct rs_connection *connection;

	fixture_start(fixture);
	connection = connect_client(fixture);
	push(fixture, RDMA_CM_EVENT_ADDR_CHANGE);
	assert_logged("the address of this side of connection 0 has changed");
	assert_int_equal(rs_connection_state(connection), RS_CONNECTION_CONNECTED);
}

static void test_an_instance_whose_connections_are_all_complete_stays(void **state)
{
	struct fixture *fixture = *state;

	assert_ok(rs_rdma_set_needed_connections(fixture->rdma, 1));
	fixture_start(fixture);
	rs_connection_set_complete(connect_client(fixture));
	push(fixture, RDMA_CM_EVENT_DISCONNECTED);
	assert_int_equal(rs_ctx_state(fixture->ctx), RS_CTX_RUNNING);
}

static void test_a_client_that_gives_up_before_the_answer_has_failed(void **state)
{
	struct fixture *fixture = *state;
	struct rdma_cm_id *id;

	fixture_start(fixture);
	id = request(fixture, listen_at(fixture));
	push_to(fixture, id, RDMA_CM_EVENT_REJECTED, 4, NULL);
	assert_status(fixture->failure_reason, RS_ERR_REJECTED);
	assert_status(rs_connection_accept(seen.connection, NULL, 0), RS_ERR_BAD_STATE);
}

static void test_stale_events_change_nothing(void **state)
{
	static const enum rdma_cm_event_type types[] = {
		RDMA_CM_EVENT_ADDR_RESOLVED,    RDMA_CM_EVENT_ADDR_ERROR,
		RDMA_CM_EVENT_ROUTE_RESOLVED,   RDMA_CM_EVENT_ROUTE_ERROR,
		RDMA_CM_EVENT_CONNECT_RESPONSE, RDMA_CM_EVENT_CONNECT_ERROR,
		RDMA_CM_EVENT_UNREACHABLE,      RDMA_CM_EVENT_REJECTED,
		RDMA_CM_EVENT_ESTABLISHED,      RDMA_CM_EVENT_DISCONNECTED,
		RDMA_CM_EVENT_ADDR_CHANGE,      RDMA_CM_EVENT_TIMEWAIT_EXIT,
	};
	struct fixture *fixture = *state;
	struct rs_connection *connection;

	fixture_start(fixture);
	connection = connect_client(fixture);
	assert_ok(rs_connection_disconnect(connection));
	seen.order[0] = '\0';
	fake_cm_forget_calls();
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		push(fixture, types[i]);
	assert_int_equal(rs_connection_state(connection), RS_CONNECTION_DISCONNECTED);
	assert_string_equal(fake_cm_calls(), "");
	assert_string_equal(seen.order, "");
	assert_int_equal(fixture->failed_connections, 0);
	assert_unwound(fixture);
}

static void test_a_connection_is_established_once(void **state)
{
	struct fixture *fixture = *state;
	struct rdma_cm_id *id;

	fixture_start(fixture);
	serve_client(fixture, listen_at(fixture), &id);
	push_to(fixture, id, RDMA_CM_EVENT_ESTABLISHED, 0, NULL);
	assert_string_equal(seen.order, "requested established");
}

static void test_a_client_can_be_stopped_in_each_state(void **state)
{
	struct fixture *fixture = *state;

	for (unsigned steps = 0; steps <= 3; steps++) {
		fixture_start(fixture);
		begin(fixture);
		go(fixture, steps);
		/* What comes now, nobody will read. */
		fake_cm_push(fake_cm_last_id(), RDMA_CM_EVENT_DISCONNECTED, 0, NULL);
		assert_unwound(fixture);
	}
}

static void stop_server(struct fixture *fixture, unsigned steps)
{
	struct rdma_conn_param param = offer(READS, READS, HELLO);
	struct rdma_cm_id *listener, *id;

	fixture_start(fixture);
	listener = listen_at(fixture);
	id = steps > 0 ? request(fixture, listener) : NULL;
	if (steps > 1)
		assert_ok(rs_connection_accept(seen.connection, NULL, 0));
	if (steps > 2)
		push_to(fixture, id, RDMA_CM_EVENT_ESTABLISHED, 0, NULL);
	fake_cm_request(listener, &param);
	assert_unwound(fixture);
}

static void test_a_server_can_be_stopped_in_each_state(void **state)
{
	for (unsigned steps = 0; steps <= 3; steps++)
		stop_server(*state, steps);
}

static void test_a_stop_tells_the_peers_that_are_still_there(void **state)
{
	struct fixture *fixture = *state;
	struct rdma_cm_id *listener, *id;

	start_with(fixture, 2);
	listener = listen_at(fixture);
	serve_client(fixture, listener, &id);
	push_to(fixture, id, RDMA_CM_EVENT_DISCONNECTED, 0, NULL);
	serve_client(fixture, listener, &id);
	fake_cm_forget_calls();
	fixture_stop(fixture);
	assert_string_equal(fake_cm_calls(), "destroy_id disconnect destroy_id destroy_id");
}

static void test_an_instance_that_stops_takes_nobody_and_nothing(void **state)
{
	struct fixture *fixture = *state;
	struct rs_connection *connection;
	struct rs_task *task;

	start_with(fixture, 3);
	listen_at(fixture);
	fixture->connections[0] = connect_client(fixture);
	connection = begin(fixture);
	fake_hold_flushes();
	task = fixture_submit_send(fixture, 16, NULL);
	assert_status(rs_ctx_stop(fixture->ctx), RS_IN_PROGRESS);
	rs_pe_progress(fixture->pe);
	assert_int_equal(rs_ctx_state(fixture->ctx), RS_CTX_STOPPING);
	assert_status(rs_rdma_stop_listen(fixture->rdma), RS_ERR_BAD_STATE);
	fake_cm_forget_calls();
	go(fixture, 1);
	assert_string_equal(fake_cm_calls(), "");
	assert_int_equal(rs_connection_state(connection), RS_CONNECTION_DISCONNECTED);
	fake_flush(fixture_qp(fixture, 0));
	fixture_progress_until(fixture, RS_CTX_IDLE);
	fixture_free_task(task);
}

static void test_a_listener_that_ends_turns_away_who_was_not_heard(void **state)
{
	struct fixture *fixture = *state;
	struct rdma_conn_param param = offer(READS, READS, HELLO);
	struct rdma_cm_id *id;

	start_with(fixture, 2);
	serve_client(fixture, listen_at(fixture), &id);
	assert_ok(rs_rdma_stop_listen(fixture->rdma));
	fake_cm_request(listen_at(fixture), &param);
	assert_ok(rs_rdma_stop_listen(fixture->rdma));
	look(fixture);
	assert_string_equal(seen.order, "requested established");
	/* The channel, and the one that was accepted, which goes on. */
	assert_int_equal(fake_cm_live(), 2);
	push_to(fixture, id, RDMA_CM_EVENT_DISCONNECTED, 0, NULL);
	assert_string_equal(seen.order, "requested established disconnected");
}

static void test_a_device_that_is_removed_ends_all(void **state)
{
	struct fixture *fixture = *state;

	fixture_start(fixture);
	connect_client(fixture);
	push(fixture, RDMA_CM_EVENT_DEVICE_REMOVAL);
	assert_logged("device fake0 was removed");
	fixture_progress_until(fixture, RS_CTX_IDLE);
	assert_status(rs_ctx_error(fixture->ctx), RS_ERR_DEVICE_FATAL);
}

static void test_a_peer_that_is_silent_is_named_by_its_address(void **state)
{
	struct fixture *fixture = *state;
	struct rs_task *task;

	fixture_start(fixture);
	fixture->connections[0] = connect_client(fixture);
	task = fixture_submit_send(fixture, 16, NULL);
	fake_complete_send(fixture_qp(fixture, 0), IBV_WC_RETRY_EXC_ERR);
	rs_pe_progress(fixture->pe);
	assert_logged("192.0.2.7 port 13579. Is that program still running?");
	assert_status(fixture->failure_reason, RS_ERR_RETRY_EXCEEDED);
	fixture_free_task(task);
}

static void test_a_connection_by_descriptors_has_no_address(void **state)
{
	struct fixture *fixture = *state;
	struct rs_connection *connection;

	fixture_start(fixture);
	connection = fixture_connect(fixture, 0x123);
	assert_null(rs_connection_peer_address(connection));
	assert_private_data(connection, "");
	assert_ok(rs_connection_disconnect(connection));
	assert_string_equal(fake_cm_calls(), "");
}

/* ---- The device of an address ---- */

static void test_the_device_of_an_address_is_found(void **state)
{
	union rs_address address = server_address();
	char name[IBV_SYSFS_NAME_MAX];

	(void)state;
	assert_ok(rs_cm_find_device(&address, name));
	assert_string_equal(name, "fake0");
	assert_string_equal(fake_cm_calls(), "create_id resolve_addr destroy_id");
}

static void test_an_address_without_a_device_is_told(void **state)
{
	union rs_address address = server_address();
	char name[IBV_SYSFS_NAME_MAX];

	(void)state;
	fake_cm_fail_call(FAKE_CM_RESOLVE_ADDR, 0, ENODEV);
	assert_status(rs_cm_find_device(&address, name), RS_ERR_NOT_FOUND);
	assert_logged("rdma_resolve_addr(192.0.2.7 port 13579) failed: No such device: is there a "
		      "route to it from an RDMA device?");
	fake_cm_fail_call(FAKE_CM_CREATE_ID, 0, ENOENT);
	assert_status(rs_cm_find_device(&address, name), RS_ERR_NOT_FOUND);
	assert_logged("rdma_create_id() failed: No such file or directory: is the module rdma_ucm "
		      "loaded?");
	assert_int_equal(fake_cm_live(), 0);
}

#define cm_test(name) cmocka_unit_test_setup_teardown(name, setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cm_test(test_a_client_connects),
		cm_test(test_a_server_accepts),
		cm_test(test_a_server_agrees_to_what_both_sides_can),
		cm_test(test_a_client_takes_what_the_server_agrees_to),
		cm_test(test_without_receives_there_is_no_shared_queue),
		cm_test(test_data_before_the_last_message_complete_the_handshake),
		cm_test(test_events_of_failure_end_the_connection_with_a_reason),
		cm_test(test_a_server_goes_on_without_a_client_that_was_lost),
		cm_test(test_an_instance_that_needs_the_connection_stops),
		cm_test(test_the_reason_of_a_rejection_is_told_and_harms_no_terminal),
		cm_test(test_a_rejection_without_words_has_a_cause),
		cm_test(test_an_address_of_another_device_is_refused),
		cm_test(test_a_request_over_another_device_is_rejected),
		cm_test(test_whatever_call_of_a_client_fails_is_unwound),
		cm_test(test_whatever_call_of_a_server_fails_is_unwound),
		cm_test(test_a_client_is_told_that_the_server_has_failed),
		cm_test(test_ends_that_fail_are_logged),
		cm_test(test_a_client_connects_in_the_right_states_only),
		cm_test(test_a_server_answers_once),
		cm_test(test_a_client_s_connection_is_not_to_be_accepted),
		cm_test(test_a_long_reason_is_cut),
		cm_test(test_an_instance_listens_once),
		cm_test(test_a_port_in_use_is_told),
		cm_test(test_callbacks_are_set_in_idle_only),
		cm_test(test_without_callbacks_nobody_is_accepted_and_all_else_works),
		cm_test(test_one_client_too_many_is_rejected),
		cm_test(test_the_place_of_a_connection_that_has_ended_is_used_again),
		cm_test(test_what_came_before_a_place_is_used_again_is_the_old_one_s),
		cm_test(test_a_client_can_try_again),
		cm_test(test_a_place_is_not_used_again_while_a_task_is_in_flight),
		cm_test(test_a_complete_connection_keeps_its_place_and_counts),
		cm_test(test_a_server_that_starts_waits_for_others_when_one_has_gone),
		cm_test(test_what_came_before_the_peer_s_end_counts),
		cm_test(test_the_last_connection_s_end_stops_an_instance_that_needs_it),
		cm_test(test_a_failure_that_came_before_the_peer_s_end_counts),
		cm_test(test_the_end_of_a_connection_that_has_failed_is_answered),
		cm_test(test_an_end_of_ours_is_told_to_the_peer),
		cm_test(test_an_end_that_overtakes_the_handshake_comes_after_running),
		cm_test(test_an_end_that_overtakes_the_handshake_of_one_of_several),
		cm_test(test_an_end_of_ours_before_the_answer_is_told_as_well),
		cm_test(test_a_changed_address_is_but_told),
		cm_test(test_an_instance_whose_connections_are_all_complete_stays),
		cm_test(test_a_client_that_gives_up_before_the_answer_has_failed),
		cm_test(test_stale_events_change_nothing),
		cm_test(test_a_connection_is_established_once),
		cm_test(test_a_client_can_be_stopped_in_each_state),
		cm_test(test_a_server_can_be_stopped_in_each_state),
		cm_test(test_a_stop_tells_the_peers_that_are_still_there),
		cm_test(test_an_instance_that_stops_takes_nobody_and_nothing),
		cm_test(test_a_listener_that_ends_turns_away_who_was_not_heard),
		cm_test(test_a_device_that_is_removed_ends_all),
		cm_test(test_a_peer_that_is_silent_is_named_by_its_address),
		cm_test(test_a_connection_by_descriptors_has_no_address),
		cm_test(test_the_device_of_an_address_is_found),
		cm_test(test_an_address_without_a_device_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
