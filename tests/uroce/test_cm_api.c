/*
 * The functions of librdmacm, as a program calls them, on the loopback interface's device: both
 * sides of a connection are in this process.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <rdma/rsocket.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "../unit/uroce/network.h"

#define PATIENCE_MS 20000

#define REASON_CONSUMER         28
#define REASON_INVALID_SERVICE  8
#define REASON_VENDOR_OPTION    35
#define ROOM_OF_CONNECT         56
#define ROOM_OF_REPLY           196
#define ROOM_OF_REJECTION       148
#define ROOM_OF_DATAGRAM_ASK    180
#define ROOM_OF_DATAGRAM_ANSWER 136

#define assert_fails(error, call)               \
	do {                                    \
		errno = 0;                      \
		assert_int_equal((call), -1);   \
		assert_int_equal(errno, error); \
	} while (0)

enum { CLIENT, SERVER };

static char memory[2][64];

static struct {
	struct rdma_event_channel *channels[2];
	struct rdma_cm_id *listener;
	struct rdma_cm_id *ids[2];
	struct ibv_mr *mrs[2];
} on;

static int set_up(void **state)
{
	(void)state;
	memset(&on, 0, sizeof(on));
	memset(memory, 0, sizeof(memory));
	for (int i = 0; i < 2; i++)
		on.channels[i] = rdma_create_event_channel();
	return on.channels[0] && on.channels[1] ? 0 : -1;
}

static int tear_down(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		if (on.mrs[i])
			rdma_dereg_mr(on.mrs[i]);
		if (on.ids[i])
			rdma_destroy_ep(on.ids[i]);
	}
	if (on.listener)
		rdma_destroy_id(on.listener);
	for (int i = 0; i < 2; i++)
		rdma_destroy_event_channel(on.channels[i]);
	return 0;
}

/* ---- Events ---- */

static bool has_event(const struct rdma_event_channel *channel, int timeout_ms)
{
	struct pollfd waiting = { .fd = channel->fd, .events = POLLIN };

	return poll(&waiting, 1, timeout_ms) == 1;
}

/* The next event of the channel, which the caller acknowledges. */
static struct rdma_cm_event *wait_for(struct rdma_event_channel *channel,
				      enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event;

	assert_true(has_event(channel, PATIENCE_MS));
	assert_int_equal(rdma_get_cm_event(channel, &event), 0);
	assert_string_equal(rdma_event_str(event->event), rdma_event_str(type));
	return event;
}

static void acknowledge(struct rdma_cm_event *event)
{
	assert_int_equal(rdma_ack_cm_event(event), 0);
}

static void expect(struct rdma_event_channel *channel, struct rdma_cm_id *id,
		   enum rdma_cm_event_type type, int status)
{
	struct rdma_cm_event *event = wait_for(channel, type);

	assert_ptr_equal(event->id, id);
	assert_int_equal(event->status, status);
	acknowledge(event);
}

/* The id of the next request; it is destroyed with on. */
static struct rdma_cm_id *take_request(void)
{
	struct rdma_cm_event *event = wait_for(on.channels[SERVER], RDMA_CM_EVENT_CONNECT_REQUEST);

	on.ids[SERVER] = event->id;
	acknowledge(event);
	return on.ids[SERVER];
}

/* ---- Addresses ---- */

static struct sockaddr *address_of(const char *text, uint16_t port)
{
	static union ur_sockaddr addresses[4];
	static unsigned next;
	union ur_sockaddr *address = &addresses[next++ % 4];

	*address = network_address(text, port);
	return &address->any;
}

static struct rdma_cm_id *create_id(int side, enum rdma_port_space space)
{
	struct rdma_cm_id *id = NULL;

	assert_int_equal(rdma_create_id(on.channels[side], &id, &on, space), 0);
	assert_ptr_equal(id->context, &on);
	assert_ptr_equal(id->channel, on.channels[side]);
	assert_int_equal(id->ps, space);
	return id;
}

static void listen_at(const char *address, enum rdma_port_space space)
{
	on.listener = create_id(SERVER, space);
	assert_int_equal(rdma_bind_addr(on.listener, address_of(address, 0)), 0);
	assert_int_equal(rdma_listen(on.listener, 0), 0);
	assert_int_not_equal(rdma_get_src_port(on.listener), 0);
}

static uint16_t listener_port(void)
{
	return ntohs(rdma_get_src_port(on.listener));
}

static struct rdma_cm_id *resolve(const char *address, uint16_t port, enum rdma_port_space space)
{
	struct rdma_cm_id *id = create_id(CLIENT, space);

	assert_int_equal(rdma_resolve_addr(id, NULL, address_of(address, port), 2000), 0);
	expect(on.channels[CLIENT], id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	assert_int_equal(rdma_resolve_route(id, 2000), 0);
	expect(on.channels[CLIENT], id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	return id;
}

/* ---- Connections ---- */

static void create_qp(int side)
{
	struct ibv_qp_init_attr attr = {
		.cap = { .max_send_wr = 2, .max_recv_wr = 2, .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = on.ids[side]->qp_type,
		.sq_sig_all = 1,
	};

	assert_int_equal(rdma_create_qp(on.ids[side], NULL, &attr), 0);
	assert_non_null(on.ids[side]->qp);
	on.mrs[side] = rdma_reg_msgs(on.ids[side], memory[side], sizeof(memory[side]));
	assert_non_null(on.mrs[side]);
	assert_int_equal(rdma_post_recv(on.ids[side], NULL, memory[side], sizeof(memory[side]),
					on.mrs[side]),
			 0);
}

/* A client that has asked, and its request that the server has read. */
static struct rdma_cm_event *ask(const char *address, enum rdma_port_space space,
				 struct rdma_conn_param *param)
{
	struct rdma_cm_event *event;

	on.ids[CLIENT] = resolve(address, listener_port(), space);
	create_qp(CLIENT);
	assert_int_equal(rdma_connect(on.ids[CLIENT], param), 0);
	event = wait_for(on.channels[SERVER], RDMA_CM_EVENT_CONNECT_REQUEST);
	assert_ptr_equal(event->listen_id, on.listener);
	on.ids[SERVER] = event->id;
	return event;
}

static void establish(void)
{
	acknowledge(ask("127.0.0.1", RDMA_PS_TCP, NULL));
	create_qp(SERVER);
	assert_int_equal(rdma_accept(on.ids[SERVER], NULL), 0);
	expect(on.channels[CLIENT], on.ids[CLIENT], RDMA_CM_EVENT_ESTABLISHED, 0);
	expect(on.channels[SERVER], on.ids[SERVER], RDMA_CM_EVENT_ESTABLISHED, 0);
}

static void send_from(int side, const char *text)
{
	struct rdma_cm_id *id = on.ids[side], *peer = on.ids[!side];
	struct ibv_wc wc;

	strcpy(memory[side], text);
	assert_int_equal(
		rdma_post_send(id, NULL, memory[side], sizeof(memory[side]), on.mrs[side], 0), 0);
	assert_int_equal(rdma_get_send_comp(id, &wc), 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(rdma_get_recv_comp(peer, &wc), 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_string_equal(memory[!side], text);
}

static void disconnect_from(int side)
{
	assert_int_equal(rdma_disconnect(on.ids[side]), 0);
	expect(on.channels[!side], on.ids[!side], RDMA_CM_EVENT_DISCONNECTED, 0);
	assert_int_equal(rdma_disconnect(on.ids[!side]), 0);
	expect(on.channels[side], on.ids[side], RDMA_CM_EVENT_DISCONNECTED, 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(on.ids[i]->qp->state, IBV_QPS_ERR);
		expect(on.channels[i], on.ids[i], RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
		/* It is over: no error, and nothing comes of it. */
		assert_int_equal(rdma_disconnect(on.ids[i]), 0);
		assert_false(has_event(on.channels[i], 0));
	}
}

static void test_a_connection_carries_data_both_ways_and_ends_from_either_side(void **state)
{
	(void)state;
	for (int side = 0; side < 2; side++) {
		listen_at("127.0.0.1", RDMA_PS_TCP);
		establish();
		send_from(CLIENT, "to the server");
		send_from(SERVER, "to the client");
		disconnect_from(side);
		tear_down(state);
		set_up(state);
	}
}

static void test_a_connection_over_ipv6_to_any_address(void **state)
{
	(void)state;
	listen_at("::", RDMA_PS_TCP);
	assert_null(on.listener->verbs);
	acknowledge(ask("::1", RDMA_PS_TCP, NULL));
	create_qp(SERVER);
	assert_int_equal(rdma_accept(on.ids[SERVER], NULL), 0);
	expect(on.channels[CLIENT], on.ids[CLIENT], RDMA_CM_EVENT_ESTABLISHED, 0);
	expect(on.channels[SERVER], on.ids[SERVER], RDMA_CM_EVENT_ESTABLISHED, 0);
	send_from(CLIENT, "IPv6");
}

/* ---- What both sides learn of each other ---- */

static void assert_private(const void *data, size_t length, const char *text, size_t room)
{
	static const char zeros[ROOM_OF_REPLY];

	assert_int_equal(length, room);
	assert_string_equal(data, text);
	assert_memory_equal((const char *)data + strlen(text), zeros, room - strlen(text));
}

static void test_each_side_learns_what_the_other_says(void **state)
{
	struct rdma_conn_param asks = { .private_data = "ping",
					.private_data_len = 4,
					.responder_resources = 3,
					.initiator_depth = 5,
					.flow_control = 1,
					.retry_count = 6,
					.rnr_retry_count = 2 };
	struct rdma_conn_param answers = { .private_data = "pong",
					   .private_data_len = 4,
					   .responder_resources = 4,
					   .initiator_depth = 2,
					   .flow_control = 1,
					   .rnr_retry_count = 1 };
	const struct rdma_conn_param *said;
	struct rdma_cm_event *event;

	(void)state;
	listen_at("127.0.0.1", RDMA_PS_TCP);
	event = ask("127.0.0.1", RDMA_PS_TCP, &asks);
	said = &event->param.conn;
	assert_private(said->private_data, said->private_data_len, "ping", ROOM_OF_CONNECT);
	assert_int_equal(said->responder_resources, 5);
	assert_int_equal(said->initiator_depth, 3);
	assert_int_equal(said->flow_control, 1);
	assert_int_equal(said->retry_count, 6);
	assert_int_equal(said->rnr_retry_count, 2);
	assert_int_equal(said->srq, 0);
	assert_int_equal(said->qp_num, on.ids[CLIENT]->qp->qp_num);
	acknowledge(event);

	create_qp(SERVER);
	assert_int_equal(rdma_accept(on.ids[SERVER], &answers), 0);
	event = wait_for(on.channels[CLIENT], RDMA_CM_EVENT_ESTABLISHED);
	said = &event->param.conn;
	assert_private(said->private_data, said->private_data_len, "pong", ROOM_OF_REPLY);
	assert_int_equal(said->responder_resources, 2);
	assert_int_equal(said->initiator_depth, 4);
	assert_int_equal(said->rnr_retry_count, 1);
	assert_int_equal(said->qp_num, on.ids[SERVER]->qp->qp_num);
	acknowledge(event);
	expect(on.channels[SERVER], on.ids[SERVER], RDMA_CM_EVENT_ESTABLISHED, 0);
}

static void test_ids_know_their_addresses_and_the_way(void **state)
{
	struct rdma_cm_id *client, *server;

	(void)state;
	listen_at("0.0.0.0", RDMA_PS_TCP);
	establish();
	client = on.ids[CLIENT];
	server = on.ids[SERVER];
	assert_int_equal(rdma_get_dst_port(client), rdma_get_src_port(on.listener));
	assert_int_equal(rdma_get_src_port(server), rdma_get_dst_port(client));
	assert_int_equal(rdma_get_dst_port(server), rdma_get_src_port(client));
	for (int i = 0; i < 2; i++) {
		const struct rdma_route *route = &on.ids[i]->route;

		assert_int_equal(route->addr.src_sin.sin_addr.s_addr, htonl(INADDR_LOOPBACK));
		assert_int_equal(route->addr.dst_sin.sin_addr.s_addr, htonl(INADDR_LOOPBACK));
		assert_int_equal(route->num_paths, 1);
		assert_int_equal(route->path_rec->mtu, IBV_MTU_4096);
		assert_int_equal(route->path_rec->pkey, 0xffff);
		assert_memory_equal(&route->path_rec->dgid, &route->addr.addr.ibaddr.dgid, 16);
		assert_memory_equal(&route->path_rec->sgid, &route->addr.addr.ibaddr.sgid, 16);
		assert_string_equal(ibv_get_device_name(on.ids[i]->verbs->device), "uroce_lo");
		assert_int_equal(on.ids[i]->port_num, 1);
	}
	assert_ptr_equal(client->verbs, server->verbs);
	assert_ptr_equal(client->pd, server->pd);
	assert_ptr_equal(server->channel, on.channels[SERVER]);
	assert_ptr_equal(server->context, on.listener->context);
}

static void test_private_data_that_does_not_fit_is_refused(void **state)
{
	static const char data[256];
	struct rdma_conn_param param = { .private_data = data };

	(void)state;
	listen_at("127.0.0.1", RDMA_PS_TCP);
	on.ids[CLIENT] = resolve("127.0.0.1", listener_port(), RDMA_PS_TCP);
	create_qp(CLIENT);
	param.private_data_len = ROOM_OF_CONNECT + 1;
	assert_fails(EINVAL, rdma_connect(on.ids[CLIENT], &param));
	param.private_data_len = ROOM_OF_CONNECT;
	assert_int_equal(rdma_connect(on.ids[CLIENT], &param), 0);
	take_request();
}

/* ---- Refusal ---- */

static void test_a_rejection_has_a_reason_and_data(void **state)
{
	static const struct {
		int (*reject)(struct rdma_cm_id *id, const void *data, uint8_t length);
		int reason;
	} ways[] = { { rdma_reject, REASON_CONSUMER }, { rdma_reject_ece, REASON_VENDOR_OPTION } };

	for (unsigned i = 0; i < 2; i++) {
		struct rdma_cm_event *event;

		listen_at("127.0.0.1", RDMA_PS_TCP);
		acknowledge(ask("127.0.0.1", RDMA_PS_TCP, NULL));
		assert_int_equal(ways[i].reject(on.ids[SERVER], "no", 2), 0);
		assert_fails(EINVAL, ways[i].reject(on.ids[SERVER], "no", 2));
		event = wait_for(on.channels[CLIENT], RDMA_CM_EVENT_REJECTED);
		assert_int_equal(event->status, ways[i].reason);
		assert_private(event->param.conn.private_data, event->param.conn.private_data_len,
			       "no", ROOM_OF_REJECTION);
		acknowledge(event);
		assert_int_equal(on.ids[CLIENT]->qp->state, IBV_QPS_ERR);
		tear_down(state);
		set_up(state);
	}
}

static void test_who_asks_where_nobody_listens_is_rejected(void **state)
{
	struct rdma_cm_id *bound = create_id(SERVER, RDMA_PS_TCP);

	(void)state;
	assert_int_equal(rdma_bind_addr(bound, address_of("127.0.0.1", 0)), 0);
	on.ids[CLIENT] = resolve("127.0.0.1", ntohs(rdma_get_src_port(bound)), RDMA_PS_TCP);
	create_qp(CLIENT);
	assert_int_equal(rdma_connect(on.ids[CLIENT], NULL), 0);
	expect(on.channels[CLIENT], on.ids[CLIENT], RDMA_CM_EVENT_REJECTED, REASON_INVALID_SERVICE);
	assert_int_equal(rdma_destroy_id(bound), 0);
}

static void test_requests_that_are_not_read_are_rejected_when_the_listener_goes(void **state)
{
	struct rdma_cm_id *clients[3];

	(void)state;
	listen_at("127.0.0.1", RDMA_PS_TCP);
	for (unsigned i = 0; i < 3; i++) {
		struct rdma_conn_param param = { .qp_num = 1 + i };

		clients[i] = resolve("127.0.0.1", listener_port(), RDMA_PS_TCP);
		assert_int_equal(rdma_connect(clients[i], &param), 0);
	}
	assert_true(has_event(on.channels[SERVER], PATIENCE_MS));
	assert_int_equal(rdma_destroy_id(on.listener), 0);
	on.listener = NULL;
	assert_false(has_event(on.channels[SERVER], 0));
	for (unsigned i = 0; i < 3; i++)
		acknowledge(wait_for(on.channels[CLIENT], RDMA_CM_EVENT_REJECTED));
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(rdma_destroy_id(clients[i]), 0);
}

static void test_a_backlog_holds_no_more_than_it_should(void **state)
{
	struct rdma_cm_id *clients[3];
	struct rdma_cm_event *event;

	(void)state;
	on.listener = create_id(SERVER, RDMA_PS_TCP);
	assert_int_equal(rdma_listen(on.listener, 2), 0);
	for (unsigned i = 0; i < 3; i++) {
		struct rdma_conn_param param = { .qp_num = 1 + i };

		clients[i] = resolve("127.0.0.1", listener_port(), RDMA_PS_TCP);
		assert_int_equal(rdma_connect(clients[i], &param), 0);
	}
	for (unsigned i = 0; i < 3; i++) {
		/* The third comes when it asks again, after there is room. */
		event = wait_for(on.channels[SERVER], RDMA_CM_EVENT_CONNECT_REQUEST);
		assert_int_equal(rdma_reject(event->id, NULL, 0), 0);
		assert_int_equal(rdma_destroy_id(event->id), 0);
		acknowledge(event);
	}
	for (unsigned i = 0; i < 3; i++)
		acknowledge(wait_for(on.channels[CLIENT], RDMA_CM_EVENT_REJECTED));
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(rdma_destroy_id(clients[i]), 0);
}

static void test_requests_that_were_read_leave_the_backlog(void **state)
{
	struct rdma_cm_id *clients[2];
	struct rdma_cm_event *events[2];

	(void)state;
	on.listener = create_id(SERVER, RDMA_PS_TCP);
	assert_int_equal(rdma_listen(on.listener, 1), 0);
	for (unsigned i = 0; i < 2; i++) {
		struct rdma_conn_param param = { .qp_num = 1 + i };

		clients[i] = resolve("127.0.0.1", listener_port(), RDMA_PS_TCP);
		assert_int_equal(rdma_connect(clients[i], &param), 0);
	}
	for (unsigned i = 0; i < 2; i++)
		events[i] = wait_for(on.channels[SERVER], RDMA_CM_EVENT_CONNECT_REQUEST);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(rdma_destroy_id(events[i]->id), 0);
		acknowledge(events[i]);
	}
	for (unsigned i = 0; i < 2; i++)
		acknowledge(wait_for(on.channels[CLIENT], RDMA_CM_EVENT_REJECTED));
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(rdma_destroy_id(clients[i]), 0);
}

/* ---- Queue pairs that the program makes itself ---- */

static void bring_to(struct rdma_cm_id *id, struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state };
	int mask;

	assert_int_equal(rdma_init_qp_attr(id, &attr, &mask), 0);
	assert_int_equal(ibv_modify_qp(qp, &attr, mask), 0);
}

static void test_a_queue_pair_can_be_the_programs_own(void **state)
{
	struct ibv_qp_init_attr attr = { .cap = { .max_send_wr = 1, .max_send_sge = 1 },
					 .qp_type = IBV_QPT_RC };
	struct ibv_qp *qps[2];
	struct ibv_cq *cq;

	(void)state;
	listen_at("127.0.0.1", RDMA_PS_TCP);
	on.ids[CLIENT] = resolve("127.0.0.1", listener_port(), RDMA_PS_TCP);
	cq = ibv_create_cq(on.ids[CLIENT]->verbs, 10, NULL, NULL, 0);
	attr.send_cq = attr.recv_cq = cq;
	for (int i = 0; i < 2; i++)
		qps[i] = ibv_create_qp(on.ids[CLIENT]->pd, &attr);

	assert_fails(EINVAL, rdma_connect(on.ids[CLIENT], NULL));
	assert_int_equal(rdma_connect(on.ids[CLIENT],
				      &(struct rdma_conn_param){ .qp_num = qps[CLIENT]->qp_num }),
			 0);
	take_request();
	for (enum ibv_qp_state to = IBV_QPS_INIT; to <= IBV_QPS_RTS; to++)
		bring_to(on.ids[SERVER], qps[SERVER], to);
	assert_fails(EINVAL, rdma_accept(on.ids[SERVER], NULL));
	assert_int_equal(rdma_accept(on.ids[SERVER],
				     &(struct rdma_conn_param){ .qp_num = qps[SERVER]->qp_num }),
			 0);

	expect(on.channels[CLIENT], on.ids[CLIENT], RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
	assert_false(has_event(on.channels[SERVER], 0));
	for (enum ibv_qp_state to = IBV_QPS_INIT; to <= IBV_QPS_RTS; to++)
		bring_to(on.ids[CLIENT], qps[CLIENT], to);
	assert_int_equal(rdma_establish(on.ids[CLIENT]), 0);
	expect(on.channels[SERVER], on.ids[SERVER], RDMA_CM_EVENT_ESTABLISHED, 0);
	assert_fails(EINVAL, rdma_establish(on.ids[CLIENT]));
	assert_fails(EISCONN, rdma_notify(on.ids[SERVER], IBV_EVENT_COMM_EST));

	for (int i = 0; i < 2; i++)
		assert_int_equal(ibv_destroy_qp(qps[i]), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
}

static void test_a_message_before_the_last_word_makes_a_connection_too(void **state)
{
	struct rdma_conn_param param = { .qp_num = 1 };

	(void)state;
	listen_at("127.0.0.1", RDMA_PS_TCP);
	on.ids[CLIENT] = resolve("127.0.0.1", listener_port(), RDMA_PS_TCP);
	assert_int_equal(rdma_connect(on.ids[CLIENT], &param), 0);
	take_request();
	assert_fails(EINVAL, rdma_notify(on.ids[SERVER], IBV_EVENT_COMM_EST));
	assert_int_equal(rdma_accept(on.ids[SERVER], &param), 0);
	assert_fails(EINVAL, rdma_notify(on.ids[SERVER], IBV_EVENT_CQ_ERR));
	assert_int_equal(rdma_notify(on.ids[SERVER], IBV_EVENT_COMM_EST), 0);
	expect(on.channels[SERVER], on.ids[SERVER], RDMA_CM_EVENT_ESTABLISHED, 0);
}

static void test_queues_are_those_that_the_program_has_made(void **state)
{
	struct ibv_srq_init_attr srq_attr = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_qp_init_attr attr = { .cap = { .max_send_wr = 2, .max_send_sge = 1 },
					 .qp_type = IBV_QPT_RC };
	struct rdma_cm_id *id = on.ids[CLIENT] = resolve("127.0.0.1", 1, RDMA_PS_TCP);
	struct ibv_cq *cq = ibv_create_cq(id->verbs, 10, NULL, NULL, 0);

	(void)state;
	assert_int_equal(rdma_create_srq(id, NULL, &srq_attr), 0);
	assert_non_null(id->srq);
	attr.recv_cq = cq;
	assert_int_equal(rdma_create_qp(id, NULL, &attr), 0);
	assert_ptr_equal(id->qp->srq, id->srq);
	assert_ptr_equal(id->qp->recv_cq, cq);
	assert_null(id->recv_cq);
	assert_ptr_equal(id->qp->send_cq, id->send_cq);
	assert_ptr_equal(id->send_cq->channel, id->send_cq_channel);
	assert_ptr_equal(id->send_cq->cq_context, id);
	assert_int_equal(id->qp->state, IBV_QPS_INIT);
	assert_fails(EINVAL, rdma_create_qp(id, NULL, &attr));
	rdma_destroy_qp(id);
	assert_null(id->qp);
	assert_null(id->send_cq);
	assert_null(id->send_cq_channel);
	rdma_destroy_srq(id);
	assert_null(id->srq);
	assert_int_equal(ibv_destroy_cq(cq), 0);
}

/* ---- Datagrams ---- */

static void test_datagrams_are_sent_to_the_one_who_accepted(void **state)
{
	struct rdma_conn_param asks = { .private_data = "ping", .private_data_len = 4 };
	struct rdma_conn_param answers = { .private_data = "pong", .private_data_len = 4 };
	const struct rdma_ud_param *said;
	struct rdma_cm_event *event;
	struct ibv_ah *ah;
	struct ibv_wc wc;

	(void)state;
	listen_at("127.0.0.1", RDMA_PS_UDP);
	event = ask("127.0.0.1", RDMA_PS_UDP, &asks);
	said = &event->param.ud;
	assert_private(said->private_data, said->private_data_len, "ping", ROOM_OF_DATAGRAM_ASK);
	acknowledge(event);
	assert_int_equal(on.ids[SERVER]->qp_type, IBV_QPT_UD);
	create_qp(SERVER);
	assert_int_equal(on.ids[SERVER]->qp->state, IBV_QPS_RTS);
	assert_int_equal(rdma_accept(on.ids[SERVER], &answers), 0);

	event = wait_for(on.channels[CLIENT], RDMA_CM_EVENT_ESTABLISHED);
	said = &event->param.ud;
	assert_private(said->private_data, said->private_data_len, "pong", ROOM_OF_DATAGRAM_ANSWER);
	assert_int_equal(said->qp_num, on.ids[SERVER]->qp->qp_num);
	assert_int_equal(said->qkey, RDMA_UDP_QKEY);
	ah = ibv_create_ah(on.ids[CLIENT]->pd, &event->param.ud.ah_attr);
	assert_non_null(ah);
	strcpy(memory[CLIENT], "datagram");
	assert_int_equal(rdma_post_ud_send(on.ids[CLIENT], NULL, memory[CLIENT], 9, on.mrs[CLIENT],
					   0, ah, said->qp_num),
			 0);
	acknowledge(event);
	assert_int_equal(rdma_get_send_comp(on.ids[CLIENT], &wc), 1);
	assert_int_equal(rdma_get_recv_comp(on.ids[SERVER], &wc), 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_string_equal(memory[SERVER] + sizeof(struct ibv_grh), "datagram");
	assert_int_equal(ibv_destroy_ah(ah), 0);
	assert_false(has_event(on.channels[SERVER], 0));
}

static void test_a_datagram_service_can_say_no(void **state)
{
	(void)state;
	listen_at("127.0.0.1", RDMA_PS_UDP);
	acknowledge(ask("127.0.0.1", RDMA_PS_UDP, NULL));
	assert_int_equal(rdma_reject(on.ids[SERVER], NULL, 0), 0);
	expect(on.channels[CLIENT], on.ids[CLIENT], RDMA_CM_EVENT_UNREACHABLE, 2);
}

static void test_a_service_is_one_of_its_port_space(void **state)
{
	(void)state;
	listen_at("127.0.0.1", RDMA_PS_UDP);
	on.ids[CLIENT] = resolve("127.0.0.1", listener_port(), RDMA_PS_TCP);
	create_qp(CLIENT);
	assert_int_equal(rdma_connect(on.ids[CLIENT], NULL), 0);
	expect(on.channels[CLIENT], on.ids[CLIENT], RDMA_CM_EVENT_REJECTED, REASON_INVALID_SERVICE);
}

/* ---- Ids without a channel ---- */

static struct rdma_addrinfo *look_up(const char *node, uint16_t port, int flags)
{
	struct rdma_addrinfo hints = { .ai_flags = flags | RAI_NUMERICHOST,
				       .ai_port_space = RDMA_PS_TCP,
				       .ai_qp_type = IBV_QPT_RC };
	struct rdma_addrinfo *found = NULL;
	char service[8];

	snprintf(service, sizeof(service), "%u", port);
	assert_int_equal(rdma_getaddrinfo(node, service, &hints, &found), 0);
	return found;
}

static struct rdma_cm_id *create_ep(const char *node, uint16_t port, int flags)
{
	struct rdma_addrinfo *found = look_up(node, port, flags);
	struct ibv_qp_init_attr attr = {
		.cap = { .max_send_wr = 2, .max_recv_wr = 2, .max_send_sge = 1, .max_recv_sge = 1 },
		.sq_sig_all = 1
	};
	struct rdma_cm_id *id = NULL;

	assert_int_equal(rdma_create_ep(&id, found, NULL, &attr), 0);
	rdma_freeaddrinfo(found);
	return id;
}

/* Takes one connection, and rejects another. */
static void *serve(void *listener)
{
	struct rdma_cm_id *id;

	assert_int_equal(rdma_get_request(listener, &on.ids[SERVER]), 0);
	id = on.ids[SERVER];
	assert_int_equal(id->event->event, RDMA_CM_EVENT_CONNECT_REQUEST);
	on.mrs[SERVER] = rdma_reg_msgs(id, memory[SERVER], sizeof(memory[SERVER]));
	assert_int_equal(rdma_post_recv(id, NULL, memory[SERVER], sizeof(memory[SERVER]),
					on.mrs[SERVER]),
			 0);
	assert_int_equal(rdma_accept(id, NULL), 0);
	assert_int_equal(id->event->event, RDMA_CM_EVENT_ESTABLISHED);

	assert_int_equal(rdma_get_request(listener, &id), 0);
	assert_int_equal(rdma_reject(id, NULL, 0), 0);
	rdma_destroy_ep(id);
	return NULL;
}

/* Waits until the peer does so as well. */
static void *disconnect(void *id)
{
	assert_int_equal(rdma_disconnect(id), 0);
	return NULL;
}

static void test_calls_without_a_channel_wait(void **state)
{
	struct rdma_cm_id *listener = create_ep("127.0.0.1", 0, RAI_PASSIVE), *rejected;
	uint16_t port = ntohs(rdma_get_src_port(listener));
	pthread_t server;

	(void)state;
	assert_int_equal(rdma_listen(listener, 1), 0);
	assert_int_equal(pthread_create(&server, NULL, serve, listener), 0);
	on.ids[CLIENT] = create_ep("127.0.0.1", port, 0);
	assert_int_equal(on.ids[CLIENT]->event->event, RDMA_CM_EVENT_ROUTE_RESOLVED);
	on.mrs[CLIENT] = rdma_reg_msgs(on.ids[CLIENT], memory[CLIENT], sizeof(memory[CLIENT]));
	assert_int_equal(rdma_connect(on.ids[CLIENT], NULL), 0);
	assert_int_equal(on.ids[CLIENT]->event->event, RDMA_CM_EVENT_ESTABLISHED);

	rejected = create_ep("127.0.0.1", port, 0);
	assert_fails(ECONNREFUSED, rdma_connect(rejected, NULL));
	assert_int_equal(rejected->event->event, RDMA_CM_EVENT_REJECTED);
	rdma_destroy_ep(rejected);
	assert_int_equal(pthread_join(server, NULL), 0);

	send_from(CLIENT, "synchronous");
	assert_int_equal(pthread_create(&server, NULL, disconnect, on.ids[SERVER]), 0);
	disconnect(on.ids[CLIENT]);
	assert_int_equal(pthread_join(server, NULL), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(on.ids[i]->event->event, RDMA_CM_EVENT_DISCONNECTED);
	rdma_dereg_mr(on.mrs[SERVER]);
	rdma_destroy_ep(on.ids[SERVER]);
	on.ids[SERVER] = NULL;
	on.mrs[SERVER] = NULL;
	rdma_destroy_ep(listener);
}

/* The one that connects sends it in front of what the program gives then. */
static struct rdma_cm_id *create_ep_with_data(char *data, size_t length)
{
	struct rdma_addrinfo hints = { .ai_flags = RAI_NUMERICHOST,
				       .ai_port_space = RDMA_PS_TCP,
				       .ai_connect = data,
				       .ai_connect_len = length };
	struct rdma_addrinfo *found;
	struct rdma_cm_id *id;
	char service[8];

	snprintf(service, sizeof(service), "%u", listener_port());
	assert_int_equal(rdma_getaddrinfo("127.0.0.1", service, &hints, &found), 0);
	assert_int_equal(found->ai_connect_len, length);
	assert_int_equal(rdma_create_ep(&id, found, NULL, NULL), 0);
	rdma_freeaddrinfo(found);
	return id;
}

static void assert_asks_with(const struct rdma_conn_param *given, const char *text)
{
	struct rdma_conn_param param = *given;
	struct rdma_cm_event *event;

	on.ids[CLIENT] = create_ep_with_data((char[]){ "front" }, 5);
	assert_int_equal(rdma_migrate_id(on.ids[CLIENT], on.channels[CLIENT]), 0);
	assert_int_equal(rdma_connect(on.ids[CLIENT], &param), 0);
	event = wait_for(on.channels[SERVER], RDMA_CM_EVENT_CONNECT_REQUEST);
	on.ids[SERVER] = event->id;
	assert_private(event->param.conn.private_data, event->param.conn.private_data_len, text,
		       ROOM_OF_CONNECT);
	acknowledge(event);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(rdma_destroy_id(on.ids[i]), 0);
		on.ids[i] = NULL;
	}
}

static void test_an_endpoint_sends_its_data_in_front(void **state)
{
	struct rdma_conn_param param = { .qp_num = 0x123 };
	struct rdma_cm_id *id;
	char data[UINT8_MAX + 1] = { 0 };

	(void)state;
	listen_at("127.0.0.1", RDMA_PS_TCP);
	assert_asks_with(&param, "front");
	param.private_data = " and back";
	param.private_data_len = 9;
	assert_asks_with(&param, "front and back");

	/* Together they have the room that there is. */
	id = create_ep_with_data(data, ROOM_OF_CONNECT - 8);
	assert_fails(EINVAL, rdma_connect(id, &param));
	rdma_destroy_ep(id);
}

static void test_connect_data_must_be_there_and_fit(void **state)
{
	char data[UINT8_MAX + 1] = { 0 };
	struct rdma_addrinfo to = { .ai_port_space = RDMA_PS_TCP,
				    .ai_qp_type = IBV_QPT_RC,
				    .ai_dst_addr = address_of("127.0.0.1", 1),
				    .ai_dst_len = sizeof(struct sockaddr_in),
				    .ai_connect_len = 1 };
	struct rdma_cm_id *id;

	(void)state;
	assert_fails(EINVAL, rdma_create_ep(&id, &to, NULL, NULL));
	to.ai_connect = data;
	to.ai_connect_len = sizeof(data);
	assert_fails(EINVAL, rdma_create_ep(&id, &to, NULL, NULL));
}

static void test_a_call_that_waits_says_what_went_wrong(void **state)
{
	struct rdma_cm_id *id;

	(void)state;
	assert_int_equal(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP), 0);
	assert_fails(ENODEV, rdma_resolve_addr(id, address_of("127.0.0.2", 0),
					       address_of("127.0.0.1", 1), 100));
	assert_int_equal(rdma_resolve_addr(id, NULL, address_of("127.0.0.1", 1), 100), 0);
	assert_fails(EINVAL, rdma_get_request(id, &id));
	assert_fails(EINVAL, rdma_migrate_id(id, NULL));
	assert_int_equal(rdma_destroy_id(id), 0);
}

/* ---- Channels ---- */

static void test_a_channel_that_does_not_block_says_that_there_is_nothing(void **state)
{
	int flags = fcntl(on.channels[CLIENT]->fd, F_GETFL);
	struct rdma_cm_event *event;

	(void)state;
	assert_int_equal(fcntl(on.channels[CLIENT]->fd, F_SETFL, flags | O_NONBLOCK), 0);
	assert_fails(EAGAIN, rdma_get_cm_event(on.channels[CLIENT], &event));
	on.ids[CLIENT] = resolve("127.0.0.1", 1, RDMA_PS_TCP);
	assert_fails(EAGAIN, rdma_get_cm_event(on.channels[CLIENT], &event));
}

static void test_an_id_moves_with_the_events_that_were_not_read(void **state)
{
	struct rdma_cm_id *id = create_id(CLIENT, RDMA_PS_TCP);

	(void)state;
	on.ids[CLIENT] = id;
	assert_int_equal(rdma_resolve_addr(id, NULL, address_of("127.0.0.1", 1), 100), 0);
	assert_int_equal(rdma_migrate_id(id, on.channels[CLIENT]), 0); /* where it is already */
	assert_int_equal(rdma_migrate_id(id, on.channels[SERVER]), 0);
	assert_ptr_equal(id->channel, on.channels[SERVER]);
	assert_false(has_event(on.channels[CLIENT], 0));
	expect(on.channels[SERVER], id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	assert_int_equal(rdma_resolve_route(id, 100), 0);
	expect(on.channels[SERVER], id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	/* To none: its calls wait from now on. */
	assert_int_equal(rdma_migrate_id(id, NULL), 0);
	assert_ptr_not_equal(id->channel, on.channels[SERVER]);
}

static void test_requests_come_where_the_listener_has_moved_to(void **state)
{
	struct rdma_event_channel *other = rdma_create_event_channel();
	struct rdma_conn_param param = { .qp_num = 1 };
	struct rdma_cm_event *event;

	(void)state;
	listen_at("127.0.0.1", RDMA_PS_TCP);
	on.ids[CLIENT] = resolve("127.0.0.1", listener_port(), RDMA_PS_TCP);
	assert_int_equal(rdma_connect(on.ids[CLIENT], &param), 0);
	assert_true(has_event(on.channels[SERVER], PATIENCE_MS));
	assert_int_equal(rdma_migrate_id(on.listener, other), 0);
	event = wait_for(other, RDMA_CM_EVENT_CONNECT_REQUEST);
	assert_ptr_equal(event->id->channel, other);
	assert_int_equal(rdma_destroy_id(event->id), 0);
	acknowledge(event);
	assert_int_equal(rdma_destroy_id(on.listener), 0);
	on.listener = NULL;
	rdma_destroy_event_channel(other);
}

static void *destroy(void *id)
{
	assert_int_equal(rdma_destroy_id(id), 0);
	return NULL;
}

static void test_an_id_lives_until_its_events_are_acknowledged(void **state)
{
	struct rdma_cm_id *id = create_id(CLIENT, RDMA_PS_TCP);
	struct rdma_cm_event *event;
	pthread_t destroyer;

	(void)state;
	assert_int_equal(rdma_resolve_addr(id, NULL, address_of("127.0.0.1", 1), 100), 0);
	event = wait_for(on.channels[CLIENT], RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_int_equal(rdma_resolve_route(id, 100), 0);
	assert_int_equal(pthread_create(&destroyer, NULL, destroy, id), 0);
	/* What was not read is taken back first. */
	while (has_event(on.channels[CLIENT], 0))
		usleep(1000);
	assert_int_equal(pthread_tryjoin_np(destroyer, NULL), EBUSY);
	assert_ptr_equal(event->id, id);
	acknowledge(event);
	assert_int_equal(pthread_join(destroyer, NULL), 0);
}

static void test_a_channel_can_go_before_its_ids(void **state)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *id;

	(void)state;
	assert_int_equal(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_resolve_addr(id, NULL, address_of("127.0.0.1", 1), 100), 0);
	rdma_destroy_event_channel(channel);
	assert_int_equal(rdma_resolve_route(id, 100), 0);
	assert_int_equal(rdma_destroy_id(id), 0);
}

/* ---- States ---- */

static void test_a_loopback_address_names_no_device_before_there_is_a_way(void **state)
{
	const char *const addresses[] = { "127.0.0.1", "::1" };

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct rdma_cm_id *id = create_id(CLIENT, RDMA_PS_TCP);

		assert_int_equal(rdma_bind_addr(id, address_of(addresses[i], 0)), 0);
		assert_null(id->verbs);
		assert_int_equal(rdma_destroy_id(id), 0);
		id = resolve(addresses[i], 1, RDMA_PS_TCP);
		assert_non_null(id->verbs);
		assert_int_equal(rdma_destroy_id(id), 0);
	}
}

static void test_an_id_can_go_in_any_state(void **state)
{
	struct rdma_conn_param param = { .qp_num = 1 };
	struct rdma_cm_id *id;

	(void)state;
	assert_int_equal(rdma_destroy_id(create_id(CLIENT, RDMA_PS_TCP)), 0);
	id = create_id(CLIENT, RDMA_PS_TCP);
	assert_int_equal(rdma_bind_addr(id, address_of("127.0.0.1", 0)), 0);
	assert_int_equal(rdma_destroy_id(id), 0);
	assert_int_equal(rdma_destroy_id(resolve("127.0.0.1", 1, RDMA_PS_TCP)), 0);

	listen_at("127.0.0.1", RDMA_PS_TCP);
	for (int round = 0; round < 4; round++) {
		struct rdma_cm_id *client = resolve("127.0.0.1", listener_port(), RDMA_PS_TCP);

		assert_int_equal(rdma_connect(client, &param), 0);
		id = take_request();
		if (round == 0) /* asked: the client goes first */
			assert_int_equal(rdma_destroy_id(client), 0);
		if (round >= 2)
			assert_int_equal(rdma_accept(id, &param), 0);
		if (round == 3) { /* connected */
			expect(on.channels[CLIENT], client, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
			assert_int_equal(rdma_establish(client), 0);
			expect(on.channels[SERVER], id, RDMA_CM_EVENT_ESTABLISHED, 0);
		}
		assert_int_equal(rdma_destroy_id(id), 0);
		on.ids[SERVER] = NULL;
		if (round == 1)
			expect(on.channels[CLIENT], client, RDMA_CM_EVENT_REJECTED,
			       REASON_CONSUMER);
		if (round == 3)
			expect(on.channels[CLIENT], client, RDMA_CM_EVENT_DISCONNECTED, 0);
		if (round > 0)
			assert_int_equal(rdma_destroy_id(client), 0);
	}
}

static void test_calls_come_in_their_order(void **state)
{
	struct rdma_conn_param param = { .qp_num = 1 };
	struct rdma_cm_id *id = on.ids[CLIENT] = create_id(CLIENT, RDMA_PS_TCP);
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC };
	struct ibv_qp_attr qp_attr = { .qp_state = IBV_QPS_INIT };
	int mask;

	(void)state;
	assert_fails(EINVAL, rdma_resolve_route(id, 100));
	assert_fails(EINVAL, rdma_connect(id, &param));
	assert_fails(EINVAL, rdma_accept(id, &param));
	assert_fails(EINVAL, rdma_reject(id, NULL, 0));
	assert_fails(EINVAL, rdma_disconnect(id));
	assert_fails(EINVAL, rdma_establish(id));
	assert_fails(EINVAL, rdma_notify(id, IBV_EVENT_COMM_EST));
	assert_fails(EINVAL, rdma_create_qp(id, NULL, &attr));
	assert_fails(EINVAL, rdma_init_qp_attr(id, &qp_attr, &mask));
	assert_int_equal(rdma_bind_addr(id, address_of("127.0.0.1", 0)), 0);
	assert_fails(EINVAL, rdma_bind_addr(id, address_of("127.0.0.1", 0)));
	assert_fails(EINVAL, rdma_resolve_addr(id, NULL, address_of("::1", 1), 100));
	assert_int_equal(rdma_resolve_addr(id, NULL, address_of("127.0.0.1", 1), 100), 0);
	assert_fails(EINVAL, rdma_resolve_addr(id, NULL, address_of("127.0.0.1", 1), 100));
	assert_fails(EINVAL, rdma_listen(id, 0));
	assert_int_equal(rdma_resolve_route(id, 100), 0);
	assert_fails(EINVAL, rdma_resolve_route(id, 100));
	param.responder_resources = 129;
	assert_fails(EINVAL, rdma_connect(id, &param));
	param.responder_resources = 0;
	param.initiator_depth = 129;
	assert_fails(EINVAL, rdma_connect(id, &param));
	param.initiator_depth = RDMA_MAX_INIT_DEPTH;
	assert_int_equal(rdma_connect(id, &param), 0);
	assert_fails(EINVAL, rdma_connect(id, &param));
}

/* ---- Arguments ---- */

static void test_wrong_arguments_are_refused(void **state)
{
	struct sockaddr unknown = { .sa_family = AF_UNIX };
	struct rdma_addrinfo *found;
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	(void)state;
	assert_fails(EINVAL, rdma_create_id(on.channels[0], NULL, NULL, RDMA_PS_TCP));
	assert_fails(EINVAL, rdma_create_id(on.channels[0], &id, NULL, 7));
	assert_fails(EOPNOTSUPP, rdma_create_id(on.channels[0], &id, NULL, RDMA_PS_IPOIB));
	assert_fails(EINVAL, rdma_get_cm_event(on.channels[0], NULL));
	assert_fails(EINVAL, rdma_get_cm_event(NULL, &event));
	assert_fails(EINVAL, rdma_ack_cm_event(NULL));
	assert_fails(EINVAL, rdma_destroy_id(NULL));
	assert_fails(EINVAL, rdma_create_ep(&id, NULL, NULL, NULL));
	assert_fails(EINVAL, rdma_getaddrinfo(NULL, NULL, NULL, &found));
	id = on.ids[CLIENT] = create_id(CLIENT, RDMA_PS_TCP);
	assert_fails(EINVAL, rdma_bind_addr(id, NULL));
	assert_fails(EINVAL, rdma_bind_addr(id, &unknown));
	assert_fails(EINVAL, rdma_resolve_addr(id, NULL, NULL, 100));
	assert_fails(EINVAL, rdma_resolve_addr(id, &unknown, address_of("127.0.0.1", 1), 100));
	assert_fails(EADDRNOTAVAIL, rdma_bind_addr(id, address_of("192.0.2.1", 0)));
	assert_fails(ENODEV, rdma_bind_addr(id, address_of("127.0.0.2", 0)));
	assert_fails(ENETUNREACH, rdma_resolve_addr(id, NULL, address_of("192.0.2.1", 1), 100));
	assert_int_equal(rdma_get_dst_port(id), 0);
	rdma_destroy_qp(id);
	rdma_destroy_srq(id);
}

static void test_a_port_has_one_owner_unless_it_is_shared(void **state)
{
	struct rdma_cm_id *ids[3], *other_space;
	uint16_t port;
	int yes = 1;

	(void)state;
	for (int i = 0; i < 3; i++)
		ids[i] = create_id(CLIENT, RDMA_PS_TCP);
	assert_int_equal(rdma_bind_addr(ids[0], address_of("127.0.0.1", 0)), 0);
	port = ntohs(rdma_get_src_port(ids[0]));
	assert_fails(EADDRINUSE, rdma_bind_addr(ids[1], address_of("127.0.0.1", port)));
	other_space = create_id(CLIENT, RDMA_PS_UDP);
	assert_int_equal(rdma_bind_addr(other_space, address_of("127.0.0.1", port)), 0);
	assert_int_equal(rdma_destroy_id(other_space), 0);
	assert_int_equal(rdma_destroy_id(ids[0]), 0);

	for (int i = 1; i < 3; i++) {
		assert_int_equal(rdma_set_option(ids[i], RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR,
						 &yes, sizeof(yes)),
				 0);
		assert_int_equal(rdma_bind_addr(ids[i], address_of("127.0.0.1", port)), 0);
	}
	for (int i = 1; i < 3; i++)
		assert_int_equal(rdma_destroy_id(ids[i]), 0);
}

static void test_options_are_checked_and_kept(void **state)
{
	struct rdma_conn_param param = { .qp_num = 1 };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR };
	uint8_t tos = 0x20, timeout = 12, wrong = 32;
	struct rdma_cm_id *id;
	int mask, yes = 1;

	(void)state;
#define set(option, value) rdma_set_option(id, RDMA_OPTION_ID, option, &(value), sizeof(value))
	listen_at("127.0.0.1", RDMA_PS_TCP);
	id = on.listener;
	assert_fails(EINVAL, set(RDMA_OPTION_ID_REUSEADDR, yes)); /* too late */
	id = on.ids[CLIENT] = create_id(CLIENT, RDMA_PS_TCP);
	assert_int_equal(set(RDMA_OPTION_ID_TOS, tos), 0);
	assert_int_equal(set(RDMA_OPTION_ID_ACK_TIMEOUT, timeout), 0);
	assert_int_equal(set(RDMA_OPTION_ID_AFONLY, yes), 0);
	assert_fails(EINVAL, set(RDMA_OPTION_ID_ACK_TIMEOUT, wrong));
	assert_fails(EINVAL, set(RDMA_OPTION_ID_TOS, yes));
	assert_fails(EINVAL, set(RDMA_OPTION_ID_AFONLY, tos));
	assert_fails(ENOSYS, set(99, yes));
	assert_fails(EINVAL, rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, NULL, 1));
	assert_fails(EOPNOTSUPP,
		     rdma_set_option(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, &yes, sizeof(yes)));
	assert_fails(ENOSYS, rdma_set_option(id, 99, 0, &yes, sizeof(yes)));

	assert_int_equal(rdma_resolve_addr(id, NULL, address_of("127.0.0.1", listener_port()), 100),
			 0);
	assert_int_equal(rdma_resolve_route(id, 100), 0);
	assert_int_equal(id->route.path_rec->traffic_class, tos);
	assert_int_equal(id->route.path_rec->packet_life_time, timeout - 1);
	assert_int_equal(rdma_connect(id, &param), 0);
	assert_int_equal(rdma_accept(take_request(), &param), 0);
	acknowledge(wait_for(on.channels[CLIENT], RDMA_CM_EVENT_ADDR_RESOLVED));
	acknowledge(wait_for(on.channels[CLIENT], RDMA_CM_EVENT_ROUTE_RESOLVED));
	acknowledge(wait_for(on.channels[CLIENT], RDMA_CM_EVENT_CONNECT_RESPONSE));
	assert_int_equal(rdma_init_qp_attr(id, &attr, &mask), 0);
	assert_int_equal(attr.ah_attr.grh.traffic_class, tos);
	attr.qp_state = IBV_QPS_RTS;
	assert_int_equal(rdma_init_qp_attr(id, &attr, &mask), 0);
	assert_int_equal(attr.timeout, timeout);
}

static void test_a_listener_can_keep_to_its_family(void **state)
{
	struct rdma_conn_param param = { .qp_num = 1 };
	int yes;

	for (yes = 0; yes < 2; yes++) {
		on.listener = create_id(SERVER, RDMA_PS_TCP);
		assert_int_equal(rdma_set_option(on.listener, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY,
						 &yes, sizeof(yes)),
				 0);
		assert_int_equal(rdma_bind_addr(on.listener, address_of("::", 0)), 0);
		assert_int_equal(rdma_listen(on.listener, 0), 0);
		on.ids[CLIENT] = resolve("127.0.0.1", listener_port(), RDMA_PS_TCP);
		assert_int_equal(rdma_connect(on.ids[CLIENT], &param), 0);
		if (yes)
			acknowledge(wait_for(on.channels[CLIENT], RDMA_CM_EVENT_REJECTED));
		else
			assert_true(has_event(on.channels[SERVER], PATIENCE_MS));
		tear_down(state);
		set_up(state);
	}
}

/* ---- Names ---- */

static void test_names_become_addresses_as_the_hints_say(void **state)
{
	struct rdma_addrinfo hints = { .ai_flags = RAI_PASSIVE, .ai_port_space = RDMA_PS_UDP };
	union ur_sockaddr source = network_address("127.0.0.1", 0);
	struct rdma_addrinfo *found;

	(void)state;
	assert_int_equal(rdma_getaddrinfo(NULL, "7471", &hints, &found), 0);
	assert_int_equal(found->ai_flags, RAI_PASSIVE);
	assert_int_equal(found->ai_qp_type, IBV_QPT_UD);
	assert_int_equal(found->ai_port_space, RDMA_PS_UDP);
	assert_int_equal(found->ai_dst_len, 0);
	assert_int_equal(((struct sockaddr_in *)found->ai_src_addr)->sin_port, htons(7471));
	rdma_freeaddrinfo(found);

	hints = (struct rdma_addrinfo){ .ai_flags = RAI_NUMERICHOST | RAI_FAMILY | RAI_NOROUTE,
					.ai_family = AF_INET,
					.ai_src_len = sizeof(source.v4),
					.ai_src_addr = &source.any };
	assert_int_equal(rdma_getaddrinfo("127.0.0.1", "1", &hints, &found), 0);
	assert_int_equal(found->ai_flags, 0);
	assert_int_equal(found->ai_family, AF_INET);
	assert_int_equal(found->ai_qp_type, IBV_QPT_RC);
	assert_int_equal(found->ai_port_space, RDMA_PS_TCP);
	assert_int_equal(found->ai_dst_len, sizeof(struct sockaddr_in));
	assert_memory_equal(found->ai_src_addr, &source, sizeof(source.v4));
	rdma_freeaddrinfo(found);

	assert_int_equal(rdma_getaddrinfo("::1", "1", &hints, &found), EAI_ADDRFAMILY);
	assert_int_equal(rdma_getaddrinfo("localhost", "1", &hints, &found), EAI_NONAME);
	hints = (struct rdma_addrinfo){ .ai_qp_type = IBV_QPT_UD, .ai_port_space = RDMA_PS_TCP };
	assert_int_not_equal(rdma_getaddrinfo("127.0.0.1", "1", &hints, &found), 0);

	hints = (struct rdma_addrinfo){ .ai_port_space = RDMA_PS_IB,
					.ai_qp_type = IBV_QPT_UD,
					.ai_dst_len = sizeof(source.v4),
					.ai_dst_addr = &source.any };
	assert_int_equal(rdma_getaddrinfo(NULL, NULL, &hints, &found), 0);
	assert_int_equal(found->ai_port_space, RDMA_PS_IB);
	assert_memory_equal(found->ai_dst_addr, &source, sizeof(source.v4));
	rdma_freeaddrinfo(found);
	rdma_freeaddrinfo(NULL);
}

static void test_events_have_names(void **state)
{
	(void)state;
	assert_string_equal(rdma_event_str(RDMA_CM_EVENT_ADDR_RESOLVED),
			    "RDMA_CM_EVENT_ADDR_RESOLVED");
	assert_string_equal(rdma_event_str(RDMA_CM_EVENT_DEVICE_REMOVAL),
			    "RDMA_CM_EVENT_DEVICE_REMOVAL");
	assert_string_equal(rdma_event_str(RDMA_CM_EVENT_TIMEWAIT_EXIT),
			    "RDMA_CM_EVENT_TIMEWAIT_EXIT");
	assert_string_equal(rdma_event_str(RDMA_CM_EVENT_TIMEWAIT_EXIT + 1), "UNKNOWN EVENT");
}

/* ---- Others ---- */

static void test_devices_are_open_and_stay_so(void **state)
{
	int count = 0;
	struct ibv_context **list = rdma_get_devices(&count);
	struct ibv_device_attr attr;
	struct ibv_context *context;

	(void)state;
	assert_non_null(list);
	assert_int_equal(count, 1);
	assert_null(list[1]);
	context = list[0];
	rdma_free_devices(list);
	assert_int_equal(ibv_query_device(context, &attr), 0);
	on.ids[CLIENT] = resolve("127.0.0.1", 1, RDMA_PS_TCP);
	assert_ptr_equal(on.ids[CLIENT]->verbs, context);
}

static struct rdma_cm_id *create_extended(enum ibv_qp_type type)
{
	struct rdma_addrinfo info = { .ai_flags = RAI_PASSIVE,
				      .ai_qp_type = type,
				      .ai_port_space = RDMA_PS_IB,
				      .ai_src_addr = address_of("127.0.0.1", 0) };
	struct rdma_cm_id *id;

	assert_int_equal(rdma_create_ep(&id, &info, NULL, NULL), 0);
	return id;
}

static void test_the_halves_of_an_extended_connection_keep_to_their_roles(void **state)
{
	struct rdma_cm_id *sender = create_extended(IBV_QPT_XRC_SEND);
	struct rdma_cm_id *receiver = create_extended(IBV_QPT_XRC_RECV);
	struct rdma_cm_event *event;

	(void)state;
	assert_fails(EINVAL, rdma_listen(sender, 0));
	assert_fails(EINVAL, rdma_connect(receiver, NULL));
	assert_int_equal(rdma_listen(receiver, 0), 0);
	on.ids[CLIENT] = resolve("127.0.0.1", ntohs(rdma_get_src_port(receiver)), RDMA_PS_IB);
	create_qp(CLIENT);
	assert_int_equal(rdma_connect(on.ids[CLIENT], NULL), 0);
	event = wait_for(on.channels[CLIENT], RDMA_CM_EVENT_REJECTED);
	acknowledge(event);
	rdma_destroy_ep(sender);
	rdma_destroy_ep(receiver);
}

/* Also when the queue pair, whose queue for completions it uses, goes first. */
static void test_a_shared_receive_queue_of_an_extended_connection_has_what_it_needs(void **state)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 1, .max_sge = 1 } };
	struct ibv_qp_init_attr qp_attr = { .qp_type = IBV_QPT_XRC_RECV, .cap.max_recv_wr = 1 };
	/* One that knows its device. */
	struct rdma_addrinfo info = { .ai_qp_type = IBV_QPT_XRC_RECV,
				      .ai_port_space = RDMA_PS_IB,
				      .ai_dst_addr = address_of("127.0.0.1", 1) };
	struct rdma_cm_id *id;
	uint32_t number = 0;

	(void)state;
	assert_int_equal(rdma_create_ep(&id, &info, NULL, NULL), 0);
	assert_int_equal(rdma_create_qp(id, NULL, &qp_attr), 0);
	assert_int_equal(rdma_create_srq(id, NULL, &attr), 0);
	assert_int_equal(ibv_get_srq_num(id->srq, &number), 0);
	assert_int_not_equal(number, 0);
	assert_non_null(id->recv_cq);
	rdma_destroy_qp(id);
	assert_non_null(id->recv_cq);
	rdma_destroy_srq(id);
	assert_null(id->recv_cq);
	assert_int_equal(rdma_create_srq(id, NULL, &attr), 0);
	assert_non_null(id->recv_cq);
	rdma_destroy_ep(id);
}

static void test_what_is_not_there_is_refused(void **state)
{
	struct rdma_addrinfo xrc = { .ai_port_space = RDMA_PS_TCP, .ai_qp_type = IBV_QPT_XRC_SEND };
	struct ibv_ece ece = { .vendor_id = 1, .options = 1 };
	struct rdma_cm_id *id = on.ids[CLIENT] = create_id(CLIENT, RDMA_PS_UDP);

	(void)state;
	assert_fails(EOPNOTSUPP, rsocket(AF_INET, SOCK_STREAM, 0));
	assert_fails(EOPNOTSUPP, rdma_create_ep(&id, &xrc, NULL, NULL));
	assert_int_equal(rdma_set_local_ece(id, &ece), 0);
	assert_int_equal(rdma_get_remote_ece(id, &ece), 0);
	assert_int_equal(ece.vendor_id, 0);
	assert_fails(EINVAL, rdma_set_local_ece(id, NULL));
	ece.comp_mask = 1;
	assert_fails(EINVAL, rdma_get_remote_ece(id, &ece));
}

static void connect_anew(void **state)
{
	set_up(state);
	listen_at("127.0.0.1", RDMA_PS_TCP);
	establish();
	send_from(CLIENT, "from a child");
	tear_down(state);
}

static void test_a_forked_child_begins_anew(void **state)
{
	int status;
	pid_t child;

#ifdef __SANITIZE_THREAD__
	skip(); /* it forbids a child threads of its own */
#endif
	listen_at("127.0.0.1", RDMA_PS_TCP);
	establish();
	child = fork();
	if (child == 0) {
		connect_anew(state);
		_exit(7);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 7);
	send_from(CLIENT, "still there");
}

/* The events are the parent's: one that it has read, and one that it has not. */
static void test_a_forked_child_can_destroy_what_its_parent_uses(void **state)
{
	struct rdma_cm_id *id = create_id(CLIENT, RDMA_PS_TCP);
	struct rdma_cm_event *event;
	int status;
	pid_t child;

	(void)state;
	on.ids[CLIENT] = id;
	assert_int_equal(rdma_resolve_addr(id, NULL, address_of("127.0.0.1", 1), 100), 0);
	event = wait_for(on.channels[CLIENT], RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_int_equal(rdma_resolve_route(id, 100), 0);
	assert_true(has_event(on.channels[CLIENT], PATIENCE_MS));
	child = fork();
	if (child == 0) {
		rdma_destroy_id(id);
		rdma_destroy_event_channel(on.channels[CLIENT]);
		_exit(7);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 7);
	acknowledge(event);
	expect(on.channels[CLIENT], id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
}

/* In a child, whose ids of its parent hold no port there. */
static bool keeps_its_port(struct rdma_cm_id *parents, uint16_t port)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *own, *other;

	if (!channel || rdma_create_id(channel, &own, NULL, RDMA_PS_TCP) != 0 ||
	    rdma_create_id(channel, &other, NULL, RDMA_PS_TCP) != 0)
		return false;
	/* The parent must have given it back: until then it is taken. */
	for (unsigned ms = 0; rdma_bind_addr(own, address_of("127.0.0.1", port)) != 0; ms++) {
		if (errno != EADDRINUSE || ms == PATIENCE_MS)
			return false;
		usleep(1000);
	}
	rdma_destroy_id(parents);
	return rdma_bind_addr(other, address_of("127.0.0.1", port)) == -1 && errno == EADDRINUSE;
}

static void test_a_forked_child_keeps_a_port_that_it_took_after_its_parent(void **state)
{
	struct rdma_cm_id *id = create_id(CLIENT, RDMA_PS_TCP);
	uint16_t port;
	int status;
	pid_t child;

	(void)state;
#ifdef __SANITIZE_THREAD__
	skip(); /* it forbids a child threads of its own */
#endif
	on.ids[CLIENT] = id;
	assert_int_equal(rdma_bind_addr(id, address_of("127.0.0.1", 0)), 0);
	port = ntohs(rdma_get_src_port(id));
	child = fork();
	if (child == 0)
		_exit(keeps_its_port(id, port) ? 7 : 1);
	on.ids[CLIENT] = NULL;
	assert_int_equal(rdma_destroy_id(id), 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 7);
}

/* What this program does when it is given a port: it ends without a word of its connection. */
static int connect_and_end(const char *port)
{
	if (set_up(NULL) != 0)
		return 1;
	on.ids[CLIENT] = resolve("127.0.0.1", (uint16_t)atoi(port), RDMA_PS_TCP);
	create_qp(CLIENT);
	assert_int_equal(rdma_connect(on.ids[CLIENT], NULL), 0);
	expect(on.channels[CLIENT], on.ids[CLIENT], RDMA_CM_EVENT_ESTABLISHED, 0);
	return 0;
}

static pid_t start_self(uint16_t port)
{
	char text[8];
	pid_t child;

	snprintf(text, sizeof(text), "%u", port);
	child = fork();
	if (child == 0) {
		execl("/proc/self/exe", "test_cm_api", text, NULL);
		_exit(127);
	}
	return child;
}

static void test_a_process_that_ends_disconnects(void **state)
{
	int status;
	pid_t child;

	(void)state;
	listen_at("127.0.0.1", RDMA_PS_TCP);
	child = start_self(listener_port());
	take_request();
	create_qp(SERVER);
	assert_int_equal(rdma_accept(on.ids[SERVER], NULL), 0);
	expect(on.channels[SERVER], on.ids[SERVER], RDMA_CM_EVENT_ESTABLISHED, 0);
	expect(on.channels[SERVER], on.ids[SERVER], RDMA_CM_EVENT_DISCONNECTED, 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

#define cm_test(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cm_test(test_a_connection_carries_data_both_ways_and_ends_from_either_side),
		cm_test(test_a_connection_over_ipv6_to_any_address),
		cm_test(test_each_side_learns_what_the_other_says),
		cm_test(test_ids_know_their_addresses_and_the_way),
		cm_test(test_private_data_that_does_not_fit_is_refused),
		cm_test(test_a_rejection_has_a_reason_and_data),
		cm_test(test_who_asks_where_nobody_listens_is_rejected),
		cm_test(test_requests_that_are_not_read_are_rejected_when_the_listener_goes),
		cm_test(test_a_backlog_holds_no_more_than_it_should),
		cm_test(test_requests_that_were_read_leave_the_backlog),
		cm_test(test_a_queue_pair_can_be_the_programs_own),
		cm_test(test_a_message_before_the_last_word_makes_a_connection_too),
		cm_test(test_queues_are_those_that_the_program_has_made),
		cm_test(test_datagrams_are_sent_to_the_one_who_accepted),
		cm_test(test_a_datagram_service_can_say_no),
		cm_test(test_a_service_is_one_of_its_port_space),
		cm_test(test_calls_without_a_channel_wait),
		cm_test(test_an_endpoint_sends_its_data_in_front),
		cm_test(test_connect_data_must_be_there_and_fit),
		cm_test(test_a_call_that_waits_says_what_went_wrong),
		cm_test(test_a_channel_that_does_not_block_says_that_there_is_nothing),
		cm_test(test_an_id_moves_with_the_events_that_were_not_read),
		cm_test(test_requests_come_where_the_listener_has_moved_to),
		cm_test(test_an_id_lives_until_its_events_are_acknowledged),
		cm_test(test_a_channel_can_go_before_its_ids),
		cm_test(test_a_loopback_address_names_no_device_before_there_is_a_way),
		cm_test(test_an_id_can_go_in_any_state),
		cm_test(test_calls_come_in_their_order),
		cm_test(test_wrong_arguments_are_refused),
		cm_test(test_a_port_has_one_owner_unless_it_is_shared),
		cm_test(test_options_are_checked_and_kept),
		cm_test(test_a_listener_can_keep_to_its_family),
		cm_test(test_names_become_addresses_as_the_hints_say),
		cm_test(test_events_have_names),
		cm_test(test_devices_are_open_and_stay_so),
		cm_test(test_the_halves_of_an_extended_connection_keep_to_their_roles),
		cm_test(test_a_shared_receive_queue_of_an_extended_connection_has_what_it_needs),
		cm_test(test_what_is_not_there_is_refused),
		cm_test(test_a_forked_child_begins_anew),
		cm_test(test_a_forked_child_can_destroy_what_its_parent_uses),
		cm_test(test_a_forked_child_keeps_a_port_that_it_took_after_its_parent),
		cm_test(test_a_process_that_ends_disconnects),
	};

	setenv("UROCE_CM", "1", 1);
	if (argc > 1)
		return connect_and_end(argv[1]);
	return network_enter() ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}
