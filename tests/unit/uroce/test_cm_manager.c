/*
 * The connection manager: its thread, listeners, callbacks, and what it makes of requests. The
 * test is the peer: what is sent is noted, what arrives is handed over as the general services do
 * it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../../uroce/cm/claim.h"
#include "../../../uroce/cm/gsi.h"
#include "../../../uroce/cm/inbox.h"
#include "../../../uroce/cm/knocker.h"
#include "../../../uroce/cm/manager.h"
#include "../../../uroce/core/clock.h"
#include "../../../uroce/core/timed_lock.h"
#include "../../../uroce/link/address.h"

#define PORT_SPACE 0x106
#define PORT       7000
#define SERVICE    UR_CM_SERVICE_ID(PORT_SPACE, PORT)
#define NUMBER     5
#define PEER       "10.0.0.9"
#define OWN_PORT   (UR_UDP_PORT + 2) /* of a peer that is a process of this host */
#define PATIENCE_S 20

static struct ur_device device;
/* The last address is of a device that is not open. */
static struct ur_device other_device;
static const char *const addresses[] = { "10.0.0.1", "10.0.0.2", "10.0.1.1" };
#define OTHER_GID 2
static int claim_fd;
static struct ur_claimed claimed; /* once, when claim_fd is readable */

/* What the test sees, with its lock. */
static pthread_mutex_t seen_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t seen_change = PTHREAD_COND_INITIALIZER;
static struct ur_cm_message sent; /* the last */
static _Atomic uint16_t sent_to;  /* which port */
static unsigned sent_count[UR_CM_APR + 1];
static int users, other_users;
static unsigned silenced; /* how often the claim was */

#define MAX_NOTED 2048

static struct {
	enum ur_cm_event_kind kind;
	struct ur_cm_connection *connection;
	void *user_data;
} noted[MAX_NOTED];
static unsigned noted_count;
static struct ur_cm_message noted_message;

static union ur_sockaddr address_of(const char *text, uint16_t port)
{
	union ur_sockaddr address = { .v4 = { .sin_family = AF_INET, .sin_port = htons(port) } };

	assert_int_equal(inet_pton(AF_INET, text, &address.v4.sin_addr), 1);
	return address;
}

/* ---- The surroundings ---- */

int ur_device_get(struct ur_device *got)
{
	assert_true(got == &device || got == &other_device);
	(*(got == &device ? &users : &other_users))++;
	return 0;
}

void ur_device_put(struct ur_device *put)
{
	assert_true(put == &device || put == &other_device);
	(*(put == &device ? &users : &other_users))--;
}

int ur_devices_scan(struct ur_device ***devices, unsigned *count)
{
	*devices = calloc(1, sizeof(**devices));
	(*devices)[0] = &device;
	*count = 1;
	return 0;
}

uint8_t ur_link_number(const struct ur_link *link)
{
	(void)link;
	return NUMBER;
}

int ur_cm_port_fd(uint16_t port_space, uint16_t port)
{
	return port_space == PORT_SPACE && port == PORT ? claim_fd : -1;
}

void ur_cm_port_end_fd(uint16_t port_space, uint16_t port)
{
	if (port_space == PORT_SPACE && port == PORT)
		silenced++;
}

bool ur_claim_read(int fd, struct ur_claimed *request)
{
	uint64_t count;

	if (read(fd, &count, sizeof(count)) < 0)
		return false;
	*request = claimed;
	return true;
}

union ibv_gid ur_cm_gid_of(const union ur_sockaddr *address)
{
	union ibv_gid gid = { .raw = { [10] = 0xff, [11] = 0xff } };

	memcpy(&gid.raw[12], &address->v4.sin_addr, 4);
	return gid;
}

int ur_cm_gid_index(const struct ur_device *of, const union ur_sockaddr *address)
{
	(void)of;
	for (int i = 0; i <= OTHER_GID; i++) {
		union ur_sockaddr own = address_of(addresses[i], 0);

		if (ur_address_same_host(&own, address))
			return i;
	}
	return -1;
}

struct ur_device *ur_cm_device_of(const union ur_sockaddr *address)
{
	int gid_index = ur_cm_gid_index(&device, address);

	if (gid_index < 0)
		return NULL;
	return gid_index == OTHER_GID ? &other_device : &device;
}

/* Where what arrives is answered. */
static _Atomic uint16_t port_back = UR_UDP_PORT;

int ur_cm_route_back(struct ur_device *of, const struct ur_path *from, uint16_t source_port,
		     uint16_t dest_port, struct ur_cm_route *route)
{
	*route = (struct ur_cm_route){ .device = of, .path = *from, .dest = from->remote };
	route->source = address_of(addresses[from->gid_index], source_port);
	ur_address_set_port(&route->path.remote, port_back);
	ur_address_set_port(&route->dest, dest_port);
	return 0;
}

static void note_sent(const struct ur_path *path, const struct ur_cm_message *message)
{
	pthread_mutex_lock(&seen_lock);
	sent = *message;
	sent_to = ur_address_port(&path->remote);
	sent_count[message->kind]++;
	pthread_cond_broadcast(&seen_change);
	pthread_mutex_unlock(&seen_lock);
}

bool ur_gsi_try_send(struct ur_device *by, const struct ur_path *path,
		     const struct ur_cm_message *message, unsigned ms)
{
	if (!ur_lock_for(&by->lock, ms))
		return false;
	note_sent(path, message);
	pthread_mutex_unlock(&by->lock);
	return true;
}

void ur_gsi_send(struct ur_device *by, const struct ur_path *path,
		 const struct ur_cm_message *message)
{
	pthread_mutex_lock(&by->lock);
	note_sent(path, message);
	pthread_mutex_unlock(&by->lock);
}

/* Knocks are noted, but at a port that somebody has, and a test says what is heard. */
static struct ur_knocker knocker = { .fd = -1 };
static _Atomic uint16_t living_port;
static unsigned knocks;
static struct ur_cm_message report;
static union ur_sockaddr reported = { .v4 = { .sin_family = AF_INET } };

struct ur_knocker *ur_knocker_open(const union ur_sockaddr *source)
{
	knocker.source = *source;
	knocker.fd = eventfd(0, EFD_NONBLOCK | EFD_SEMAPHORE);
	return &knocker;
}

void ur_knocker_close(struct ur_knocker *closed)
{
	if (closed)
		close(closed->fd);
}

void ur_knocker_send(const struct ur_knocker *by, const union ur_sockaddr *dest, uint32_t local_id,
		     uint32_t remote_id)
{
	const union ur_sockaddr peer = address_of(PEER, 0);

	assert_ptr_equal(by, &knocker);
	assert_true(ur_address_same_host(dest, &peer));
	if (ur_address_port(dest) == living_port)
		return;
	pthread_mutex_lock(&seen_lock);
	reported = *dest;
	knocks++;
	report = (struct ur_cm_message){ .kind = UR_CM_MRA,
					 .local_id = local_id,
					 .remote_id = remote_id };
	pthread_cond_broadcast(&seen_change);
	pthread_mutex_unlock(&seen_lock);
}

bool ur_knocker_hear(const struct ur_knocker *by, union ur_sockaddr *dest,
		     struct ur_cm_message *message)
{
	uint64_t count;

	if (read(by->fd, &count, sizeof(count)) < 0)
		return false;
	pthread_mutex_lock(&seen_lock);
	*dest = reported;
	*message = report;
	pthread_mutex_unlock(&seen_lock);
	return true;
}

bool ur_gsi_refusal(const struct ur_cm_message *message, struct ur_cm_message *refusal)
{
	*refusal = (struct ur_cm_message){ .kind = UR_CM_REJ,
					   .local_id = message->remote_id,
					   .remote_id = message->local_id };
	if (message->kind == UR_CM_REQ)
		refusal->rej.reason = UR_CM_INVALID_SERVICE_ID;
	else if (message->kind == UR_CM_REP)
		refusal->rej.reason = UR_CM_INVALID_COMM_ID;
	else if (message->kind == UR_CM_DREQ)
		refusal->kind = UR_CM_DREP;
	else if (message->kind == UR_CM_SIDR_REQ)
		refusal->kind = UR_CM_SIDR_REP;
	else
		return false;
	return true;
}

/* ---- The program ---- */

static void note_event(void *user_data, const struct ur_cm_event *event)
{
	pthread_mutex_lock(&seen_lock);
	assert_true(noted_count < MAX_NOTED);
	noted[noted_count].kind = event->kind;
	noted[noted_count].connection = event->connection;
	noted[noted_count].user_data = user_data;
	noted_count++;
	if (event->message)
		noted_message = *event->message;
	pthread_cond_broadcast(&seen_change);
	pthread_mutex_unlock(&seen_lock);
}

#define WAIT_UNTIL(condition)                                                            \
	do {                                                                             \
		struct timespec end;                                                     \
		clock_gettime(CLOCK_REALTIME, &end);                                     \
		end.tv_sec += PATIENCE_S;                                                \
		pthread_mutex_lock(&seen_lock);                                          \
		while (!(condition))                                                     \
			if (pthread_cond_timedwait(&seen_change, &seen_lock, &end) != 0) \
				fail_msg("in vain: %s", #condition);                     \
		pthread_mutex_unlock(&seen_lock);                                        \
	} while (0)

static void wait_for_event(unsigned number, enum ur_cm_event_kind kind)
{
	WAIT_UNTIL(noted_count > number);
	assert_int_equal(noted[number].kind, kind);
}

/* What asks for an answer is sent again when the test is slow. */
static bool is_repeated(uint16_t kind)
{
	return kind == UR_CM_REQ || kind == UR_CM_REP || kind == UR_CM_DREQ ||
	       kind == UR_CM_SIDR_REQ;
}

/* The last sent is of that kind, and it is the count-th. */
static void wait_for_sent(uint16_t kind, unsigned count)
{
	WAIT_UNTIL(sent_count[kind] >= count);
	if (!is_repeated(kind))
		assert_int_equal(sent_count[kind], count);
}

static struct ur_cm_listener *listen_at(const char *address, int backlog, ur_cm_event_fn event,
					void *user_data)
{
	const union ur_sockaddr local = address_of(address, PORT);
	struct ur_cm_listener *listener;

	assert_int_equal(ur_cm_listen(PORT_SPACE, &local, backlog, event, user_data, &listener), 0);
	return listener;
}

/* ---- The peer ---- */

static struct ur_path from_peer(uint8_t gid_index)
{
	return (struct ur_path){ .remote = address_of(PEER, 60000), .gid_index = gid_index };
}

static bool arrive_at(uint8_t gid_index, const struct ur_cm_message *message)
{
	const struct ur_path from = from_peer(gid_index);
	bool taken;

	pthread_mutex_lock(&device.lock);
	taken = ur_cm_input(&device, &from, message);
	pthread_mutex_unlock(&device.lock);
	return taken;
}

static void arrive(const struct ur_cm_message *message)
{
	assert_true(arrive_at(0, message));
}

static void set_ip_header(struct ur_cm_message *request, const char *source, const char *dest)
{
	struct ur_cm_ip_header header = { .ip_version = 4, .source_port = 33333 };

	assert_int_equal(inet_pton(AF_INET, source, header.source + 12), 1);
	assert_int_equal(inet_pton(AF_INET, dest, header.dest + 12), 1);
	ur_cm_ip_header_encode(&header, request->private_data);
	request->private_length = ur_cm_private_room(request->kind);
}

#define UROCE_GUID 0x5054007572123456
static uint64_t peer_guid;

/* id: also of its queue pair. */
static struct ur_cm_message req_of(uint32_t id)
{
	struct ur_cm_message req = {
		.kind = UR_CM_REQ,
		.local_id = id,
		.req = { .service_id = SERVICE,
			 .ca_guid = peer_guid,
			 .qpn = id & UR_24_BITS,
			 .psn = 0x123456,
			 .responder_resources = 3,
			 .initiator_depth = 4,
			 .retry_count = 5,
			 .rnr_retry_count = 6,
			 .path_mtu = IBV_MTU_512,
			 .path.ack_timeout = 17 },
	};

	set_ip_header(&req, PEER, addresses[0]);
	return req;
}

static void arrive_req(uint32_t id)
{
	const struct ur_cm_message req = req_of(id);

	arrive(&req);
}

static struct ur_cm_message reply_to(const struct ur_cm_message *message, uint16_t kind)
{
	return (struct ur_cm_message){ .kind = kind,
				       .local_id = 0x09000001,
				       .remote_id = message->local_id };
}

/* Answers to what was sent last, with the peer's id as it is in that. */
static void arrive_answer(uint16_t kind)
{
	struct ur_cm_message answer = reply_to(&sent, kind);

	if (sent.remote_id != 0)
		answer.local_id = sent.remote_id;
	arrive(&answer);
}

/*
 * All that came before has been dealt with: a request for nothing that is there has been refused.
 */
static void wait_for_all_input(void)
{
	unsigned before;

	pthread_mutex_lock(&seen_lock);
	before = sent_count[UR_CM_SIDR_REP];
	pthread_mutex_unlock(&seen_lock);
	for (;;) {
		struct ur_cm_message probe = { .kind = UR_CM_SIDR_REQ,
					       .local_id = 1,
					       .sidr_req.service_id = 1 };
		uint64_t dropped = device.counters.cm_dropped;

		arrive(&probe);
		if (device.counters.cm_dropped == dropped)
			break;
		usleep(1000);
	}
	WAIT_UNTIL(sent_count[UR_CM_SIDR_REP] == before + 1);
}

/* ---- Setup ---- */

static int set_up_device(void **state)
{
	(void)state;
	pthread_mutex_init(&device.lock, NULL);
	pthread_mutex_init(&other_device.lock, NULL);
	device.mtu = IBV_MTU_1024;
	device.guid = htobe64(0x0102030405060708);
	return 0;
}

static int set_up(void **state)
{
	(void)state;
	claim_fd = eventfd(0, EFD_NONBLOCK | EFD_SEMAPHORE);
	memset(sent_count, 0, sizeof(sent_count));
	noted_count = 0;
	return 0;
}

/* Connections that linger may be left. */
static int tear_down(void **state)
{
	(void)state;
	close(claim_fd);
	return 0;
}

static struct ur_cm_params params_of(uint32_t qpn)
{
	return (struct ur_cm_params){ .qpn = qpn,
				      .responder_resources = 7,
				      .initiator_depth = 8,
				      .retry_count = 2,
				      .rnr_retry_count = 1,
				      .qkey = 0x77,
				      .private_data = "hello",
				      .private_length = 6 };
}

static struct ur_cm_route route_to_peer(void)
{
	return (struct ur_cm_route){ .device = &device,
				     .path = { .remote = address_of(PEER, UR_UDP_PORT) },
				     .source = address_of(addresses[0], 44444),
				     .dest = address_of(PEER, PORT) };
}

/* Ids of peers' connections that no other test has. */
static uint32_t next_id = 0x08000001;

/* A passive connection that is up, and its first two events. */
static struct ur_cm_connection *accept_one(uint32_t id)
{
	const struct ur_cm_params params = params_of(0x05000099);
	unsigned first = noted_count, reps = sent_count[UR_CM_REP];
	struct ur_cm_connection *connection;

	arrive_req(id);
	wait_for_event(first, UR_CM_EVENT_REQUESTED);
	connection = noted[first].connection;
	ur_cm_adopt(connection, note_event, NULL);
	assert_int_equal(ur_cm_reply(connection, &params), 0);
	wait_for_sent(UR_CM_REP, reps + 1);
	arrive_answer(UR_CM_RTU);
	wait_for_event(first + 1, UR_CM_EVENT_ESTABLISHED);
	return connection;
}

/* The peer agrees to the end of one that was released. */
static void end(struct ur_cm_connection *connection)
{
	unsigned dreqs = sent_count[UR_CM_DREQ];

	ur_cm_release(connection);
	wait_for_sent(UR_CM_DREQ, dreqs + 1);
	arrive_answer(UR_CM_DREP);
}

/* ---- Passive side ---- */

/* The first test: nothing lingers yet. */
static void a_device_is_held_open_while_it_is_used(void **state)
{
	struct ur_cm_listener *listener = listen_at("0.0.0.0", 0, note_event, NULL);
	const struct ur_cm_message req = req_of(next_id);

	(void)state;
	assert_int_equal(users, 1);
	ur_cm_unlisten(listener);
	assert_int_equal(users, 0);
	assert_false(arrive_at(0, &req));
}

static void a_request_becomes_a_connection(void **state)
{
	struct ur_cm_listener *listener = listen_at(addresses[0], 0, note_event, &device);
	const struct ur_cm_route *route;
	struct ur_cm_connection *connection;

	(void)state;
	connection = accept_one(next_id);
	assert_ptr_equal(noted[0].user_data, &device);
	assert_ptr_equal(noted[1].user_data, NULL);
	assert_int_equal(sent.local_id >> 24, NUMBER);
	assert_int_equal(sent.remote_id, next_id);
	assert_int_equal(sent.rep.qpn, 0x05000099);
	assert_int_equal(sent.rep.ca_guid, 0x0102030405060708);
	assert_string_equal((const char *)sent.private_data, "hello");
	assert_int_equal(noted_message.req.psn, 0x123456);
	route = ur_cm_route_of(connection);
	assert_int_equal(ur_address_port(&route->source), PORT);
	assert_int_equal(ur_address_port(&route->dest), 33333);
	end(connection);
	ur_cm_unlisten(listener);
	next_id++;
}

static void attributes_follow_from_the_request(void **state)
{
	struct ur_cm_listener *listener = listen_at("0.0.0.0", 0, note_event, NULL);
	struct ur_cm_connection *connection = accept_one(next_id++);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT };
	int mask;

	(void)state;
	assert_int_equal(ur_cm_qp_attr(connection, &attr, &mask), 0);
	assert_int_equal(mask,
			 IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	assert_int_equal(attr.port_num, 1);
	attr.qp_state = IBV_QPS_RTR;
	assert_int_equal(ur_cm_qp_attr(connection, &attr, &mask), 0);
	assert_int_equal(mask, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				       IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				       IBV_QP_MIN_RNR_TIMER);
	assert_int_equal(attr.path_mtu, IBV_MTU_512);
	assert_int_equal(attr.rq_psn, sent.rep.psn);
	assert_int_equal(attr.max_dest_rd_atomic, 7);
	attr.qp_state = IBV_QPS_RTS;
	assert_int_equal(ur_cm_qp_attr(connection, &attr, &mask), 0);
	assert_int_equal(mask, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				       IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
	assert_int_equal(attr.sq_psn, 0x123456);
	assert_int_equal(attr.timeout, 17);
	assert_int_equal(attr.retry_cnt, 5);
	assert_int_equal(attr.rnr_retry, 6);
	assert_int_equal(attr.max_rd_atomic, 8);
	attr.qp_state = IBV_QPS_ERR;
	assert_int_equal(ur_cm_qp_attr(connection, &attr, &mask), EINVAL);
	end(connection);
	ur_cm_unlisten(listener);
}

static void a_request_that_comes_again_is_no_second_one(void **state)
{
	struct ur_cm_listener *listener = listen_at(addresses[0], 0, note_event, NULL);

	(void)state;
	for (unsigned i = 0; i < 3; i++)
		arrive_req(next_id);
	wait_for_sent(UR_CM_MRA, 2);
	assert_int_equal(noted_count, 1);
	assert_int_equal(ur_cm_reject(noted[0].connection, UR_CM_CONSUMER, "no", 3), 0);
	wait_for_sent(UR_CM_REJ, 1);
	assert_int_equal(sent.rej.reason, UR_CM_CONSUMER);
	assert_string_equal((const char *)sent.private_data, "no");
	arrive_req(next_id++);
	wait_for_sent(UR_CM_REJ, 2);
	assert_int_equal(noted_count, 1);
	ur_cm_release(noted[0].connection);
	ur_cm_unlisten(listener);
}

static void the_exact_address_comes_before_any(void **state)
{
	struct ur_cm_listener *any = listen_at("0.0.0.0", 0, note_event, "any");
	struct ur_cm_listener *exact = listen_at(addresses[1], 0, note_event, "exact");
	const union ur_sockaddr local = address_of(addresses[1], PORT);
	const union ur_sockaddr strange = address_of("10.0.0.3", PORT);
	struct ur_cm_message req = req_of(next_id++);
	struct ur_cm_listener *second;

	(void)state;
	assert_int_equal(ur_cm_listen(PORT_SPACE, &local, 0, note_event, NULL, &second),
			 EADDRINUSE);
	assert_int_equal(ur_cm_listen(PORT_SPACE, &strange, 0, note_event, NULL, &second), ENODEV);
	arrive(&req);
	wait_for_event(0, UR_CM_EVENT_REQUESTED);
	req = req_of(next_id++);
	set_ip_header(&req, PEER, addresses[1]);
	assert_true(arrive_at(1, &req));
	wait_for_event(1, UR_CM_EVENT_REQUESTED);
	assert_string_equal(noted[0].user_data, "any");
	assert_string_equal(noted[1].user_data, "exact");
	assert_true(ur_cm_serves(SERVICE, &local));
	ur_cm_unlisten(any);
	assert_true(ur_cm_serves(SERVICE, &local));
	assert_false(ur_cm_serves(SERVICE + 1, &local));
	ur_cm_unlisten(exact);
	assert_false(ur_cm_serves(SERVICE, &local));
	ur_cm_release(noted[0].connection);
	ur_cm_release(noted[1].connection);
}

static void arrive_through_claim(const char *local)
{
	struct ur_cm_message req = req_of(next_id++);
	const uint64_t one = 1;

	claimed.from = address_of(PEER, 60000);
	claimed.to = address_of(local, 0);
	set_ip_header(&req, PEER, local);
	ur_cm_encode(&req, claimed.mad);
	assert_int_equal(write(claim_fd, &one, sizeof(one)), sizeof(one));
}

static void a_request_comes_through_the_claim(void **state)
{
	struct ur_cm_listener *listener = listen_at("0.0.0.0", 0, note_event, NULL);

	(void)state;
	arrive_through_claim(addresses[1]);
	wait_for_event(0, UR_CM_EVENT_REQUESTED);
	ur_cm_release(noted[0].connection);
	ur_cm_unlisten(listener);
}

static void a_request_for_another_address_is_refused_on_its_device(void **state)
{
	struct ur_cm_listener *listener = listen_at(addresses[0], 0, note_event, NULL);

	(void)state;
	arrive_through_claim(addresses[OTHER_GID]);
	wait_for_sent(UR_CM_REJ, 1);
	assert_int_equal(sent.rej.reason, UR_CM_INVALID_SERVICE_ID);
	ur_cm_unlisten(listener);
	assert_int_equal(other_users, 0);
	assert_int_equal(noted_count, 0);
}

static void the_claim_is_silent_when_nobody_listens(void **state)
{
	const union ur_sockaddr local = address_of(addresses[0], PORT);
	struct ur_cm_listener *listener = listen_at(addresses[0], 0, note_event, NULL), *second;

	(void)state;
	silenced = 0;
	assert_int_equal(ur_cm_listen(PORT_SPACE, &local, 0, note_event, NULL, &second),
			 EADDRINUSE);
	assert_int_equal(silenced, 1);
	ur_cm_unlisten(listener);
	assert_int_equal(silenced, 2);
}

static void assert_refused(const struct ur_cm_message *request, uint16_t reason)
{
	unsigned before = sent_count[UR_CM_REJ];

	arrive(request);
	wait_for_sent(UR_CM_REJ, before + 1);
	assert_int_equal(sent.rej.reason, reason);
	assert_int_equal(sent.remote_id, request->local_id);
	assert_int_equal(noted_count, 0);
}

static void wrong_requests_are_refused(void **state)
{
	struct ur_cm_listener *listener = listen_at("0.0.0.0", 0, note_event, NULL);
	struct ur_cm_message req = req_of(next_id);

	(void)state;
	req.req.service_id++;
	assert_refused(&req, UR_CM_INVALID_SERVICE_ID);
	req = req_of(next_id);
	req.req.transport = UR_CM_UC;
	assert_refused(&req, UR_CM_INVALID_TRANSPORT);
	req.req.transport = UR_CM_EXTENDED;
	req.req.extended_transport = UR_CM_XRC + 1;
	assert_refused(&req, UR_CM_INVALID_TRANSPORT);
	req = req_of(next_id);
	set_ip_header(&req, "10.0.0.8", addresses[0]);
	assert_refused(&req, UR_CM_UNSUPPORTED);
	set_ip_header(&req, PEER, addresses[1]);
	assert_refused(&req, UR_CM_UNSUPPORTED);
	memset(req.private_data, 0, sizeof(req.private_data));
	assert_refused(&req, UR_CM_UNSUPPORTED);
	ur_cm_unlisten(listener);
}

static void an_old_connection_of_the_queue_pair_is_stale(void **state)
{
	struct ur_cm_listener *listener = listen_at("0.0.0.0", 0, note_event, NULL);
	struct ur_cm_connection *connection = accept_one(next_id);
	struct ur_cm_message req = req_of(next_id);

	(void)state;
	req.local_id = ++next_id;
	arrive(&req);
	wait_for_sent(UR_CM_REJ, 1);
	wait_for_event(2, UR_CM_EVENT_DISCONNECTED);
	wait_for_event(3, UR_CM_EVENT_TIMEWAIT_EXIT);
	ur_cm_release(connection);
	arrive(&req);
	wait_for_event(4, UR_CM_EVENT_REQUESTED);
	ur_cm_release(noted[4].connection);
	ur_cm_unlisten(listener);
	next_id++;
}

/* ---- Active side ---- */

static struct ur_cm_connection *request_of_type(enum ibv_qp_type type)
{
	const struct ur_cm_route route = route_to_peer();
	struct ur_cm_params params = params_of(0x05000088);
	struct ur_cm_connection *connection;

	params.qp_type = (uint8_t)type;
	assert_int_equal(ur_cm_request(PORT_SPACE, &route, &params, note_event, &connection,
				       &connection),
			 0);
	wait_for_sent(UR_CM_REQ, 1);
	return connection;
}

static struct ur_cm_connection *request(void)
{
	return request_of_type(IBV_QPT_RC);
}

static void a_request_says_who_asks(void **state)
{
	struct ur_cm_connection *connection = request();
	struct ur_cm_ip_header header;

	(void)state;
	assert_int_equal(sent.req.service_id, SERVICE);
	assert_int_equal(sent.req.qpn, 0x05000088);
	assert_int_equal(sent.req.path_mtu, IBV_MTU_1024);
	assert_int_equal(sent.local_id >> 24, NUMBER);
	assert_true(ur_cm_ip_header_decode(sent.private_data, &header));
	assert_int_equal(header.source_port, 44444);
	assert_memory_equal(header.source + 12, "\x0a\0\0\x01", 4);
	assert_memory_equal(header.dest + 12, "\x0a\0\0\x09", 4);
	assert_string_equal((const char *)sent.private_data + UR_CM_IP_HEADER_SIZE, "hello");
	ur_cm_release(connection);
	wait_for_sent(UR_CM_REJ, 1);
	assert_int_equal(sent.rej.reason, UR_CM_TIMEOUT);
}

static void a_request_is_replied_to(void **state)
{
	struct ur_cm_connection *connection = request();
	struct ur_cm_message rep = reply_to(&sent, UR_CM_REP);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS };
	uint32_t asked_psn = sent.req.psn;
	int mask;

	(void)state;
	assert_int_equal(ur_cm_qp_attr(connection, &attr, &mask), EINVAL);
	rep.rep = (struct ur_cm_rep){ .qpn = 0x42,
				      .psn = 0x43,
				      .responder_resources = 3,
				      .initiator_depth = 200,
				      .rnr_retry_count = 4 };
	arrive(&rep);
	wait_for_event(0, UR_CM_EVENT_REPLIED);
	assert_ptr_equal(noted[0].connection, connection);
	assert_int_equal(ur_cm_qp_attr(connection, &attr, &mask), 0);
	assert_int_equal(attr.sq_psn, 0x43);
	assert_int_equal(attr.max_rd_atomic, 3);
	assert_int_equal(attr.rnr_retry, 4);
	assert_int_equal(attr.retry_cnt, 2);
	attr.qp_state = IBV_QPS_RTR;
	assert_int_equal(ur_cm_qp_attr(connection, &attr, &mask), 0);
	assert_int_equal(attr.dest_qp_num, 0x42);
	assert_int_equal(attr.rq_psn, asked_psn);
	assert_int_equal(attr.max_dest_rd_atomic, 7);
	assert_int_equal(ur_cm_ready(connection, NULL, 0), 0);
	wait_for_event(1, UR_CM_EVENT_ESTABLISHED);
	assert_int_equal(ur_cm_disconnect(connection), 0);
	wait_for_sent(UR_CM_DREQ, 1);
	assert_int_equal(sent.dreq.remote_qpn, 0x42);
	arrive_answer(UR_CM_DREP);
	wait_for_event(2, UR_CM_EVENT_DISCONNECTED);
	wait_for_event(3, UR_CM_EVENT_TIMEWAIT_EXIT);
	ur_cm_release(connection);
}

static void a_request_of_an_extended_connection_says_so(void **state)
{
	struct ur_cm_connection *connection = request_of_type(IBV_QPT_XRC_SEND);
	struct ur_cm_message rep = reply_to(&sent, UR_CM_REP);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR };
	int mask;

	(void)state;
	assert_int_equal(sent.req.transport, UR_CM_EXTENDED);
	assert_int_equal(sent.req.extended_transport, UR_CM_XRC);
	assert_int_equal(sent.req.responder_resources, 0);
	assert_int_equal(sent.req.retry_count, 0);
	assert_int_equal(sent.req.initiator_depth, 8);
	rep.rep = (struct ur_cm_rep){ .eecn = 0x42, .psn = 0x43, .srq = true };
	arrive(&rep);
	wait_for_event(0, UR_CM_EVENT_REPLIED);
	assert_int_equal(ur_cm_qp_attr(connection, &attr, &mask), 0);
	assert_int_equal(attr.dest_qp_num, 0x42);
	assert_int_equal(ur_cm_ready(connection, NULL, 0), 0);
	wait_for_event(1, UR_CM_EVENT_ESTABLISHED);
	assert_int_equal(ur_cm_disconnect(connection), 0);
	wait_for_sent(UR_CM_DREQ, 1);
	assert_int_equal(sent.dreq.remote_qpn, 0x42);
	arrive_answer(UR_CM_DREP);
	wait_for_event(2, UR_CM_EVENT_DISCONNECTED);
	ur_cm_release(connection);
}

static void the_number_of_an_extended_queue_pair_stands_in_the_place_of_a_context(void **state)
{
	struct ur_cm_listener *listener = listen_at("0.0.0.0", 0, note_event, NULL);
	struct ur_cm_message req = req_of(next_id++), dreq;
	struct ur_cm_params params = params_of(0x05000099);

	(void)state;
	req.req.transport = UR_CM_EXTENDED;
	req.req.extended_transport = UR_CM_XRC;
	arrive(&req);
	wait_for_event(0, UR_CM_EVENT_REQUESTED);
	ur_cm_adopt(noted[0].connection, note_event, NULL);
	params.qp_type = IBV_QPT_XRC_RECV;
	assert_int_equal(ur_cm_reply(noted[0].connection, &params), 0);
	wait_for_sent(UR_CM_REP, 1);
	assert_int_equal(sent.rep.eecn, 0x05000099);
	assert_int_equal(sent.rep.qpn, 0);
	assert_true(sent.rep.srq);
	dreq = reply_to(&sent, UR_CM_DREQ);
	dreq.local_id = sent.remote_id;
	dreq.dreq.remote_qpn = 0x05000099;
	arrive_answer(UR_CM_RTU);
	wait_for_event(1, UR_CM_EVENT_ESTABLISHED);
	arrive(&dreq);
	wait_for_event(2, UR_CM_EVENT_DISCONNECTED);
	ur_cm_release(noted[0].connection);
	ur_cm_unlisten(listener);
}

static void private_data_has_its_limits(void **state)
{
	static const char data[256];
	const struct ur_cm_route route = route_to_peer();
	struct ur_cm_params params = params_of(1);
	struct ur_cm_connection *connection;

	(void)state;
	params.private_data = data;
	params.private_length = 57;
	assert_int_equal(ur_cm_request(PORT_SPACE, &route, &params, note_event, NULL, &connection),
			 EMSGSIZE);
	assert_int_equal(ur_cm_look_up(PORT_SPACE, &route, data, 181, note_event, NULL,
				       &connection),
			 EMSGSIZE);
	params.private_length = 56;
	assert_int_equal(ur_cm_request(PORT_SPACE, &route, &params, note_event, NULL, &connection),
			 0);
	assert_int_equal(ur_cm_reject(connection, 28, data, 149), EMSGSIZE);
	assert_int_equal(ur_cm_ready(connection, data, 225), EMSGSIZE);
	assert_int_equal(ur_cm_ready(connection, data, 224), EINVAL);
	params.private_length = 197;
	assert_int_equal(ur_cm_reply(connection, &params), EMSGSIZE);
	params.private_length = 196;
	assert_int_equal(ur_cm_reply(connection, &params), EINVAL);
	ur_cm_release(connection);
}

static void a_queue_pair_is_looked_up(void **state)
{
	const struct ur_cm_route route = route_to_peer();
	struct ur_cm_message answer = { .kind = UR_CM_SIDR_REP };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT };
	struct ur_cm_connection *connection;
	int mask;

	(void)state;
	assert_int_equal(ur_cm_look_up(PORT_SPACE, &route, "hi", 3, note_event, NULL, &connection),
			 0);
	wait_for_sent(UR_CM_SIDR_REQ, 1);
	answer.local_id = sent.local_id;
	answer.sidr_rep.qpn = 0x55;
	answer.sidr_rep.qkey = 0x66;
	arrive(&answer);
	wait_for_event(0, UR_CM_EVENT_LOOKED_UP);
	assert_int_equal(noted_message.sidr_rep.qpn, 0x55);
	assert_int_equal(ur_cm_qp_attr(connection, &attr, &mask), 0);
	assert_int_equal(mask, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
	assert_int_equal(attr.qkey, 0x66);
	ur_cm_release(connection);
}

static void a_look_up_is_answered(void **state)
{
	struct ur_cm_listener *listener = listen_at("0.0.0.0", 0, note_event, NULL);
	const struct ur_cm_params params = params_of(0x05000077);
	struct ur_cm_message look_up = { .kind = UR_CM_SIDR_REQ,
					 .local_id = next_id++,
					 .sidr_req.service_id = SERVICE };

	(void)state;
	set_ip_header(&look_up, PEER, addresses[0]);
	arrive(&look_up);
	wait_for_event(0, UR_CM_EVENT_LOOK_UP);
	assert_int_equal(ur_cm_answer(noted[0].connection, 0, &params), 0);
	wait_for_sent(UR_CM_SIDR_REP, 1);
	assert_int_equal(sent.local_id, look_up.local_id);
	assert_int_equal(sent.sidr_rep.qpn, 0x05000077);
	assert_int_equal(sent.sidr_rep.qkey, 0x77);
	assert_int_equal(sent.sidr_rep.service_id, SERVICE);
	arrive(&look_up);
	wait_for_sent(UR_CM_SIDR_REP, 2);
	assert_int_equal(noted_count, 1);
	ur_cm_release(noted[0].connection);
	ur_cm_unlisten(listener);
}

static void strangers_messages_are_answered(void **state)
{
	struct ur_cm_listener *listener = listen_at("0.0.0.0", 0, note_event, NULL);
	struct ur_cm_message message = { .kind = UR_CM_DREQ,
					 .local_id = 5,
					 .remote_id = NUMBER << 24 | 1 };

	(void)state;
	arrive(&message);
	wait_for_sent(UR_CM_DREP, 1);
	message.kind = UR_CM_REP;
	arrive(&message);
	wait_for_sent(UR_CM_REJ, 1);
	assert_int_equal(sent.rej.reason, UR_CM_INVALID_COMM_ID);
	ur_cm_unlisten(listener);
}

static void messages_of_another_host_are_not_the_peers(void **state)
{
	struct ur_cm_connection *connection = request();
	struct ur_cm_message rep = reply_to(&sent, UR_CM_REP);
	struct ur_path from = from_peer(0);

	(void)state;
	from.remote = address_of("10.0.0.8", 4791);
	pthread_mutex_lock(&device.lock);
	assert_true(ur_cm_input(&device, &from, &rep));
	pthread_mutex_unlock(&device.lock);
	wait_for_sent(UR_CM_REJ, 1);
	assert_int_equal(noted_count, 0);
	ur_cm_release(connection);
}

/* But for the reply, to which the owner of port 4791 says at once if nobody is there. */
static void who_asks_on_this_host_is_spoken_to_at_its_own_port(void **state)
{
	struct ur_cm_listener *listener = listen_at("0.0.0.0", 0, note_event, NULL);
	const struct ur_cm_params params = params_of(0x05000097);

	(void)state;
	port_back = OWN_PORT;
	arrive_req(next_id++);
	wait_for_event(0, UR_CM_EVENT_REQUESTED);
	assert_int_equal(ur_cm_reply(noted[0].connection, &params), 0);
	assert_int_equal(sent_to, UR_UDP_PORT);
	arrive_answer(UR_CM_RTU);
	wait_for_all_input();
	end(noted[0].connection);
	assert_int_equal(sent_to, OWN_PORT);
	port_back = UR_UDP_PORT;
	ur_cm_unlisten(listener);
}

static void a_peer_of_this_host_is_spoken_to_at_its_own_port_once_it_has_replied(void **state)
{
	struct ur_cm_connection *connection = request();

	(void)state;
	assert_int_equal(sent_to, UR_UDP_PORT);
	port_back = OWN_PORT;
	arrive_answer(UR_CM_REP);
	wait_for_event(0, UR_CM_EVENT_REPLIED);
	assert_int_equal(ur_cm_ready(connection, NULL, 0), 0);
	wait_for_sent(UR_CM_RTU, 1);
	assert_int_equal(sent_to, OWN_PORT);
	end(connection);
	assert_int_equal(sent_to, OWN_PORT);
	port_back = UR_UDP_PORT;
}

/* ---- In callbacks ---- */

static void reject_at_once(void *user_data, const struct ur_cm_event *event)
{
	assert_int_equal(ur_cm_reject(event->connection, UR_CM_CONSUMER, NULL, 0), 0);
	ur_cm_release(event->connection);
	note_event(user_data, event);
}

static void release_at_once(void *user_data, const struct ur_cm_event *event)
{
	ur_cm_release(event->connection);
	note_event(user_data, event);
}

static void a_request_may_be_released_in_its_callback(void **state)
{
	struct ur_cm_listener *listener = listen_at("0.0.0.0", 0, release_at_once, NULL);

	(void)state;
	for (unsigned i = 0; i < 10; i++)
		arrive_req(next_id++);
	wait_for_sent(UR_CM_REJ, 10);
	ur_cm_unlisten(listener);
}

static struct ur_cm_listener *to_unlisten;

static void unlisten_at_once(void *user_data, const struct ur_cm_event *event)
{
	ur_cm_unlisten(to_unlisten);
	to_unlisten = listen_at(addresses[1], 0, note_event, NULL);
	release_at_once(user_data, event);
}

static void listeners_may_change_in_a_callback(void **state)
{
	const struct ur_cm_message reqs[] = { req_of(next_id), req_of(next_id + 1) };

	(void)state;
	next_id += 2;
	to_unlisten = listen_at(addresses[0], 0, unlisten_at_once, NULL);
	pthread_mutex_lock(&device.lock);
	for (unsigned i = 0; i < 2; i++) {
		const struct ur_path from = from_peer(0);

		assert_true(ur_cm_input(&device, &from, &reqs[i]));
	}
	pthread_mutex_unlock(&device.lock);
	wait_for_event(0, UR_CM_EVENT_REQUESTED);
	/* The second was for nobody. */
	wait_for_sent(UR_CM_REJ, 2);
	assert_int_equal(sent.rej.reason, UR_CM_INVALID_SERVICE_ID);
	assert_int_equal(noted_count, 1);
	ur_cm_unlisten(to_unlisten);
}

static bool may_return;

static void return_when_allowed(void *user_data, const struct ur_cm_event *event)
{
	note_event(user_data, event);
	WAIT_UNTIL(may_return);
	note_event(user_data, event);
}

static void *allow_soon(void *unused)
{
	(void)unused;
	usleep(20000);
	pthread_mutex_lock(&seen_lock);
	may_return = true;
	pthread_cond_broadcast(&seen_change);
	pthread_mutex_unlock(&seen_lock);
	return NULL;
}

static void no_callback_runs_after_unlisten_and_release(void **state)
{
	pthread_t thread;

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct ur_cm_listener *listener =
			listen_at("0.0.0.0", 0, return_when_allowed, NULL);

		noted_count = 0;
		may_return = false;
		arrive_req(next_id++);
		wait_for_event(0, UR_CM_EVENT_REQUESTED);
		pthread_create(&thread, NULL, allow_soon, NULL);
		if (i == 0)
			ur_cm_unlisten(listener);
		ur_cm_release(noted[0].connection);
		assert_int_equal(noted_count, 2);
		if (i == 1)
			ur_cm_unlisten(listener);
		pthread_join(thread, NULL);
	}
}

static void events_wait_for_who_adopts_the_connection(void **state)
{
	struct ur_cm_listener *listener = listen_at("0.0.0.0", 0, note_event, NULL);
	struct ur_cm_message rej = { .kind = UR_CM_REJ,
				     .local_id = next_id,
				     .rej.reason = UR_CM_TIMEOUT };

	(void)state;
	arrive_req(next_id++);
	arrive(&rej);
	wait_for_all_input();
	assert_int_equal(noted_count, 1);
	ur_cm_adopt(noted[0].connection, note_event, "adopter");
	wait_for_event(1, UR_CM_EVENT_REJECTED);
	assert_string_equal(noted[1].user_data, "adopter");
	ur_cm_release(noted[0].connection);
	ur_cm_unlisten(listener);
}

/* The sanitizers see whether it is still there. */
static void a_connection_that_has_ended_stays_until_it_is_released(void **state)
{
	struct ur_cm_listener *listener = listen_at("0.0.0.0", 0, note_event, NULL);
	struct ur_cm_message rej = { .kind = UR_CM_REJ, .local_id = next_id };
	struct ur_cm_connection *connection;

	(void)state;
	arrive_req(next_id++);
	wait_for_event(0, UR_CM_EVENT_REQUESTED);
	connection = noted[0].connection;
	arrive(&rej);
	wait_for_all_input();
	ur_cm_end(connection);
	ur_cm_unlisten(listener);
	assert_int_equal(users, 1);
	assert_int_equal(ur_cm_disconnect(connection), EINVAL);
	ur_cm_adopt(connection, note_event, NULL);
	ur_cm_release(connection);
	assert_int_equal(noted_count, 1);
}

/* ---- Peers that are gone ---- */

static void hear_that_nobody_is_there(void)
{
	const uint64_t one = 1;

	assert_int_equal(write(knocker.fd, &one, sizeof(one)), sizeof(one));
}

/* Each knock is answered, as by the peer's system. Returns how many were. */
static unsigned answer_knocks_until(unsigned events)
{
	unsigned answered = 0, seen = 0;

	for (;;) {
		WAIT_UNTIL(noted_count >= events || knocks > seen);
		if (noted_count >= events)
			return answered;
		seen = knocks;
		hear_that_nobody_is_there();
		answered++;
	}
}

/* What is heard for one connection ends all to that port, requests as well. */
static void where_nobody_has_the_port_all_connections_end(void **state)
{
	struct ur_cm_listener *listener = listen_at("0.0.0.0", 0, note_event, NULL);
	const struct ur_cm_route route = route_to_peer();
	const struct ur_cm_params params = params_of(0x05000098);
	struct ur_cm_connection *passive, *active;

	(void)state;
	peer_guid = UROCE_GUID;
	passive = accept_one(next_id++);
	peer_guid = 0;
	assert_int_equal(ur_cm_request(PORT_SPACE, &route, &params, note_event, NULL, &active), 0);
	knocks = 0;
	assert_in_range(answer_knocks_until(noted_count + 2), 2, 10);
	assert_in_set(noted[noted_count - 2].kind,
		      ((uintmax_t[]){ UR_CM_EVENT_DISCONNECTED, UR_CM_EVENT_REJECTED }), 2);
	ur_cm_release(active);
	ur_cm_release(passive);
	ur_cm_unlisten(listener);
}

/* Of two processes of this host, each at its own port, one is gone. */
static void where_another_has_its_port_the_connection_stays(void **state)
{
	struct ur_cm_listener *listener = listen_at("0.0.0.0", 0, note_event, NULL);
	struct ur_cm_connection *living, *gone;

	(void)state;
	peer_guid = UROCE_GUID;
	living_port = OWN_PORT;
	port_back = living_port;
	living = accept_one(next_id++);
	port_back = OWN_PORT + 1;
	gone = accept_one(next_id++);
	port_back = UR_UDP_PORT;
	peer_guid = 0;
	knocks = 0;
	answer_knocks_until(5);
	assert_int_equal(noted[4].kind, UR_CM_EVENT_DISCONNECTED);
	assert_ptr_equal(noted[4].connection, gone);
	ur_cm_release(gone);
	end(living);
	living_port = 0;
	ur_cm_unlisten(listener);
}

static void what_is_heard_with_other_ids_ends_nothing(void **state)
{
	struct ur_cm_listener *listener = listen_at("0.0.0.0", 0, note_event, NULL);
	struct ur_cm_connection *connection;

	(void)state;
	peer_guid = UROCE_GUID;
	connection = accept_one(next_id++);
	peer_guid = 0;
	for (unsigned i = 0; i < 4; i++) {
		pthread_mutex_lock(&seen_lock);
		report = (struct ur_cm_message){ .kind = UR_CM_MRA,
						 .local_id = sent.local_id,
						 .remote_id = sent.remote_id + 1 };
		pthread_mutex_unlock(&seen_lock);
		hear_that_nobody_is_there();
		usleep(UR_CM_TAKEOVER_MS * 1000 / 2);
	}
	assert_int_equal(noted_count, 2);
	end(connection);
	ur_cm_unlisten(listener);
}

/* ---- Floods ---- */

#define FLOOD 100000

static void flood(void)
{
	for (unsigned i = 0; i < FLOOD; i++)
		arrive_req(next_id++);
}

static void a_flood_fills_no_more_than_the_backlog(void **state)
{
	struct ur_cm_listener *listener = listen_at("0.0.0.0", 16, note_event, NULL);

	(void)state;
	flood();
	wait_for_all_input();
	assert_int_equal(noted_count, 16);
	for (unsigned i = 0; i < 16; i++)
		ur_cm_release(noted[i].connection);
	arrive_req(next_id++);
	wait_for_event(16, UR_CM_EVENT_REQUESTED);
	ur_cm_release(noted[16].connection);
	ur_cm_unlisten(listener);
}

static void what_was_read_is_not_in_the_backlog(void **state)
{
	struct ur_cm_listener *listener = listen_at("0.0.0.0", 1, note_event, NULL);

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		arrive_req(next_id++);
		arrive_req(next_id++);
		wait_for_all_input();
		assert_int_equal(noted_count, i + 1);
		ur_cm_note_read(noted[i].connection);
	}
	for (unsigned i = 0; i < 2; i++)
		ur_cm_release(noted[i].connection);
	ur_cm_unlisten(listener);
}

static void note_and_read(void *user_data, const struct ur_cm_event *event)
{
	note_event(user_data, event);
	ur_cm_note_read(event->connection);
}

static void no_more_are_read_than_there_is_memory_for(void **state)
{
	struct ur_cm_listener *listener = listen_at("0.0.0.0", 1, note_and_read, NULL);

	(void)state;
	for (unsigned i = 0; i < UR_CM_MAX_BACKLOG + 10; i++)
		arrive_req(next_id++);
	wait_for_all_input();
	assert_int_equal(noted_count, UR_CM_MAX_BACKLOG);
	for (unsigned i = 0; i < UR_CM_MAX_BACKLOG; i++)
		ur_cm_release(noted[i].connection);
	ur_cm_unlisten(listener);
}

static void the_greatest_backlog_is_bounded_too(void **state)
{
	struct ur_cm_listener *listener = listen_at("0.0.0.0", 1 << 30, note_event, NULL);

	(void)state;
	for (unsigned i = 0; i < 3000; i++)
		arrive_req(next_id++);
	wait_for_all_input();
	assert_int_equal(noted_count, UR_CM_MAX_BACKLOG);
	for (unsigned i = 0; i < UR_CM_MAX_BACKLOG; i++)
		ur_cm_release(noted[i].connection);
	ur_cm_unlisten(listener);
}

static void count_and_reject(void *user_data, const struct ur_cm_event *event)
{
	reject_at_once(user_data, event);
	pthread_mutex_lock(&seen_lock);
	noted_count = 0;
	pthread_mutex_unlock(&seen_lock);
}

static void a_client_gets_in_during_a_flood(void **state)
{
	struct ur_cm_listener *listener = listen_at("0.0.0.0", 4, count_and_reject, NULL);

	(void)state;
	flood();
	wait_for_all_input();
	assert_true(sent_count[UR_CM_REJ] >= 1000);
	ur_cm_unlisten(listener);
}

/* ---- Processes ---- */

static int exit_status_of(pid_t child)
{
	int status;

	assert_int_equal(waitpid(child, &status, 0), child);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* What is its parent's is as if it were not there. */
static int be_a_child(struct ur_cm_connection *parents, struct ur_cm_listener *listener)
{
	unsigned dreqs = sent_count[UR_CM_DREQ];

	ur_cm_unlisten(listener);
	if (ur_cm_disconnect(parents) != EINVAL)
		return 1;
	ur_cm_release(parents);
	ur_cm_at_exit();
	return sent_count[UR_CM_DREQ] == dreqs ? 0 : 2;
}

static void a_child_leaves_its_parents_connections_alone(void **state)
{
	struct ur_cm_listener *listener = listen_at("0.0.0.0", 0, note_event, NULL);
	struct ur_cm_connection *connection = accept_one(next_id++);
	pid_t child = fork();

	(void)state;
	if (child == 0)
		_exit(be_a_child(connection, listener));
	assert_int_equal(exit_status_of(child), 0);
	end(connection);
	ur_cm_unlisten(listener);
}

static int connect_as_a_child(void)
{
	struct ur_cm_connection *own;

	listen_at("0.0.0.0", 0, note_event, NULL);
	own = accept_one(next_id);
	return own ? 0 : 1;
}

static void a_child_can_have_its_own_connections(void **state)
{
	struct ur_cm_listener *listener;
	pid_t child;

	(void)state;
#ifdef __SANITIZE_THREAD__
	skip(); /* it allows no threads after fork */
#endif
	listener = listen_at("0.0.0.0", 0, note_event, NULL);
	child = fork();
	if (child == 0)
		_exit(connect_as_a_child());
	assert_int_equal(exit_status_of(child), 0);
	ur_cm_unlisten(listener);
	next_id++;
}

/* The last test: the manager does nothing any more then. */
static void peers_are_told_once_when_the_process_exits(void **state)
{
	struct ur_cm_listener *listener = listen_at("0.0.0.0", 0, note_event, NULL);
	struct ur_cm_connection *connection = accept_one(next_id++);

	unsigned dreqs;

	(void)state;
	/* It waits a while for the answer, and asks again. */
	ur_cm_at_exit();
	dreqs = sent_count[UR_CM_DREQ];
	assert_true(dreqs > 1);
	ur_cm_at_exit();
	assert_int_equal(sent_count[UR_CM_DREQ], dreqs);
	ur_cm_release(connection);
	ur_cm_unlisten(listener);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_device_is_held_open_while_it_is_used),
		TEST(a_request_becomes_a_connection),
		TEST(attributes_follow_from_the_request),
		TEST(a_request_that_comes_again_is_no_second_one),
		TEST(the_exact_address_comes_before_any),
		TEST(a_request_comes_through_the_claim),
		TEST(a_request_for_another_address_is_refused_on_its_device),
		TEST(the_claim_is_silent_when_nobody_listens),
		TEST(wrong_requests_are_refused),
		TEST(an_old_connection_of_the_queue_pair_is_stale),
		TEST(a_request_says_who_asks),
		TEST(a_request_is_replied_to),
		TEST(a_request_of_an_extended_connection_says_so),
		TEST(the_number_of_an_extended_queue_pair_stands_in_the_place_of_a_context),
		TEST(private_data_has_its_limits),
		TEST(a_queue_pair_is_looked_up),
		TEST(a_look_up_is_answered),
		TEST(strangers_messages_are_answered),
		TEST(messages_of_another_host_are_not_the_peers),
		TEST(who_asks_on_this_host_is_spoken_to_at_its_own_port),
		TEST(a_peer_of_this_host_is_spoken_to_at_its_own_port_once_it_has_replied),
		TEST(a_request_may_be_released_in_its_callback),
		TEST(listeners_may_change_in_a_callback),
		TEST(no_callback_runs_after_unlisten_and_release),
		TEST(events_wait_for_who_adopts_the_connection),
		TEST(a_connection_that_has_ended_stays_until_it_is_released),
		TEST(where_nobody_has_the_port_all_connections_end),
		TEST(where_another_has_its_port_the_connection_stays),
		TEST(what_is_heard_with_other_ids_ends_nothing),
		TEST(a_flood_fills_no_more_than_the_backlog),
		TEST(what_was_read_is_not_in_the_backlog),
		TEST(no_more_are_read_than_there_is_memory_for),
		TEST(the_greatest_backlog_is_bounded_too),
		TEST(a_client_gets_in_during_a_flood),
		TEST(a_child_leaves_its_parents_connections_alone),
		TEST(a_child_can_have_its_own_connections),
		TEST(peers_are_told_once_when_the_process_exits),
	};

	return cmocka_run_group_tests(tests, set_up_device, NULL);
}
