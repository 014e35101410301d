#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "../../../uroce/cm/claim.h"
#include "../../../uroce/cm/gsi.h"
#include "../../../uroce/core/engine.h"
#include "../../../uroce/link/forward.h"
#include "link_nodes.h"
#include "network.h"
#include "pcap_reader.h"

#define SERVICE UINT64_C(0x1061c06)

/* The peer is a host of its own: an address that no process has. */
#define PEER        "127.0.0.2"
#define DEVICE_PORT 50000

#define WAIT_MS 10000

/* ---- A manager that notes what it is asked for ---- */

static struct {
	bool serves;
	bool in_use;
	uint64_t service_id;
	union ur_sockaddr local;

	unsigned inputs;
	struct ur_device *device;
	struct ur_path from;
	struct ur_cm_message message;
} manager;

bool ur_cm_serves(uint64_t service_id, const union ur_sockaddr *local)
{
	manager.service_id = service_id;
	manager.local = *local;
	return manager.serves;
}

bool ur_cm_input(struct ur_device *device, const struct ur_path *from,
		 const struct ur_cm_message *message)
{
	if (!manager.in_use)
		return false;
	manager.inputs++;
	manager.device = device;
	manager.from = *from;
	manager.message = *message;
	return true;
}

/* ---- Processes, each with a device ---- */

struct process {
	struct node *node;
	struct ur_device device;
};

static void flush(struct process *process)
{
	process->node->carrier->flush(process->node->carrier);
}

void ur_engine_flush(struct ur_device *device)
{
	struct ur_carrier *carrier = ur_link_carrier(device->link);

	assert_int_not_equal(pthread_mutex_trylock(&device->lock), 0);
	carrier->flush(carrier);
}

void ur_device_address(const struct ur_device *device, uint8_t gid_index,
		       union ur_sockaddr *address)
{
	(void)device;
	*address = node_addresses()[gid_index].address;
}

static void start(struct process *process)
{
	*process = (struct process){ .node = node_open() };
	process->device.link = process->node->link;
	pthread_mutex_init(&process->device.lock, NULL);
}

static void end(struct process *process)
{
	node_close(process->node);
	pthread_mutex_destroy(&process->device.lock);
}

static void receive(void *user_data, const struct ur_packet *packet, const struct ur_path *from)
{
	assert_int_equal(packet->dest_qpn, UR_GSI_QPN);
	ur_gsi_receive(user_data, packet, from);
}

static uint64_t received(const struct process *process)
{
	return process->device.counters.cm_received + process->device.counters.rx_unexpected;
}

/* Waits until so many packets have come since the process started. */
static void wait_for(struct process *process, uint64_t count)
{
	while (received(process) < count)
		ur_link_receive(process->node->link, receive, &process->device);
	assert_int_equal(received(process), count);
	flush(process);
}

/* One process, the owner of port 4791, and a peer. */
static struct {
	struct process process;
	int fd; /* the peer's, on port 4791 */
} scene;

static int set_up(void **state)
{
	(void)state;
	memset(&manager, 0, sizeof(manager));
	manager.in_use = true;
	start(&scene.process);
	scene.fd = network_socket(PEER, UR_UDP_PORT);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	end(&scene.process);
	close(scene.fd);
	return 0;
}

/* ---- What the peer sends ---- */

static struct ur_packet packet_to_gsi(void)
{
	return (struct ur_packet){ .opcode = UR_UD_SEND_ONLY,
				   .pkey = UR_DEFAULT_PKEY,
				   .dest_qpn = UR_GSI_QPN,
				   .qkey = UR_GSI_QKEY,
				   .src_qpn = UR_GSI_QPN,
				   .payload_length = UR_MAD_SIZE };
}

static void send_from(int fd, const char *source, uint16_t port, const char *dest,
		      const struct ur_packet *packet, const uint8_t *payload)
{
	struct ur_flow flow = { .source = network_address(source, port),
				.dest = network_address(dest, UR_UDP_PORT) };
	uint8_t data[512];
	size_t length = build_datagram(packet, &flow, 0, payload, data);

	assert_int_equal(sendto(fd, data, length, 0, &flow.dest.any, sizeof(flow.dest)), length);
}

static void send_packet(const struct ur_packet *packet, const uint8_t *payload)
{
	send_from(scene.fd, PEER, UR_UDP_PORT, "127.0.0.1", packet, payload);
}

static void send_message(const struct ur_cm_message *message)
{
	const struct ur_packet packet = packet_to_gsi();
	uint8_t mad[UR_MAD_SIZE];

	ur_cm_encode(message, mad);
	send_packet(&packet, mad);
}

static struct ur_cm_message request(void)
{
	return (struct ur_cm_message){ .kind = UR_CM_REQ,
				       .transaction_id = 0x1122334455667788,
				       .local_id = 0x0a0b0c0d,
				       .req = { .service_id = SERVICE, .path_mtu = 3 } };
}

static struct ur_cm_message look_up(void)
{
	return (struct ur_cm_message){ .kind = UR_CM_SIDR_REQ,
				       .transaction_id = 77,
				       .local_id = 0x0a0b0c0d,
				       .sidr_req = { .pkey = UR_DEFAULT_PKEY,
						     .service_id = SERVICE } };
}

/* For an id that the process with that number made. */
static struct ur_cm_message answer(uint16_t kind, uint8_t number)
{
	struct ur_cm_message message = { .kind = kind,
					 .transaction_id = 99,
					 .local_id = 0x0a0b0c0d,
					 .remote_id = (uint32_t)number << 24 | 0x123456 };

	if (kind == UR_CM_SIDR_REP) {
		message.local_id = message.remote_id;
		message.remote_id = 0;
	}
	return message;
}

/* ---- What the peer receives ---- */

static bool has_answer(int timeout_ms)
{
	struct pollfd waiting = { .fd = scene.fd, .events = POLLIN };

	return poll(&waiting, 1, timeout_ms) > 0;
}

/* The next packet; its payload is valid until the next call. */
static struct ur_packet next_packet(void)
{
	static uint8_t data[512];
	struct ur_flow flow = { .dest = network_address(PEER, UR_UDP_PORT) };
	socklen_t size = sizeof(flow.source);
	struct ur_packet packet;
	uint16_t ip_id = 0;
	ssize_t length;

	assert_true(has_answer(WAIT_MS));
	length = recvfrom(scene.fd, data, sizeof(data), 0, &flow.source.any, &size);
	assert_true(length > 0);
	assert_true(ur_icrc_check(&flow, data, (size_t)length, false, &ip_id));
	assert_int_equal(ur_packet_decode(data, (size_t)length, &packet), UR_DECODED);
	return packet;
}

static struct ur_cm_message next_answer(void)
{
	struct ur_packet packet = next_packet();
	struct ur_cm_message message;

	assert_int_equal(ur_cm_decode(packet.payload, packet.payload_length, &message),
			 UR_CM_DECODED);
	return message;
}

static void assert_no_answer(void)
{
	assert_false(has_answer(0));
}

static void assert_input(const struct process *process, uint16_t kind)
{
	union ur_sockaddr peer = network_address(PEER, UR_UDP_PORT);

	assert_int_equal(manager.inputs, 1);
	assert_ptr_equal(manager.device, &process->device);
	assert_int_equal(manager.from.gid_index, IPV4_GID);
	assert_true(ur_address_equal(&manager.from.remote, &peer));
	assert_int_equal(manager.message.kind, kind);
	manager.inputs = 0;
}

/* ---- Requests ---- */

static void test_a_request_for_a_service_of_this_process_goes_to_the_manager(void **state)
{
	const struct ur_cm_message messages[] = { request(), look_up() };
	const union ur_sockaddr local = network_address("127.0.0.1", 0);

	(void)state;
	manager.serves = true;
	for (unsigned i = 0; i < 2; i++) {
		send_message(&messages[i]);
		wait_for(&scene.process, i + 1);
		assert_input(&scene.process, messages[i].kind);
		assert_int_equal(manager.message.local_id, messages[i].local_id);
		assert_int_equal(manager.service_id, SERVICE);
		assert_true(ur_address_equal(&manager.local, &local));
	}
	assert_no_answer();
}

static void assert_rejected(uint8_t rejected, uint16_t reason, const struct ur_cm_message *message)
{
	struct ur_cm_message answered = next_answer();

	assert_int_equal(answered.kind, UR_CM_REJ);
	assert_int_equal(answered.rej.message, rejected);
	assert_int_equal(answered.rej.reason, reason);
	assert_int_equal(answered.transaction_id, message->transaction_id);
	assert_int_equal(answered.local_id, message->remote_id);
	assert_int_equal(answered.remote_id, message->local_id);
}

static void test_a_request_for_nobodys_service_is_rejected(void **state)
{
	struct ur_cm_message message = request();

	(void)state;
	send_message(&message);
	wait_for(&scene.process, 1);
	assert_rejected(0, UR_CM_INVALID_SERVICE_ID, &message);
	assert_int_equal(manager.inputs, 0);

	manager.serves = true;
	manager.in_use = false;
	send_message(&message);
	wait_for(&scene.process, 2);
	assert_rejected(0, UR_CM_INVALID_SERVICE_ID, &message);
	assert_no_answer();
	assert_int_equal(scene.process.device.counters.cm_refused, 2);
}

static void test_a_look_up_of_nobodys_service_is_answered(void **state)
{
	struct ur_cm_message message = look_up(), answered;

	(void)state;
	send_message(&message);
	wait_for(&scene.process, 1);
	answered = next_answer();
	assert_int_equal(answered.kind, UR_CM_SIDR_REP);
	assert_int_equal(answered.sidr_rep.status, 1);
	assert_int_equal(answered.sidr_rep.service_id, SERVICE);
	assert_int_equal(answered.local_id, message.local_id);
	assert_int_equal(answered.transaction_id, message.transaction_id);
	assert_no_answer();
}

static void test_a_refused_request_gets_what_the_kernel_answers(void **state)
{
	struct pcap pcap = { 0 };
	struct ur_packet asked, expected, packet;

	(void)state;
	assert_true(pcap_add_file(&pcap, VECTORS_FOLDER "/cm_reject.pcap"));
	assert_int_equal(pcap.count, 2);
	assert_int_equal(ur_packet_decode(pcap.packets[0].data, pcap.packets[0].length, &asked),
			 UR_DECODED);
	assert_int_equal(ur_packet_decode(pcap.packets[1].data, pcap.packets[1].length, &expected),
			 UR_DECODED);
	for (unsigned i = 0; i < 2; i++) {
		send_packet(&asked, asked.payload);
		wait_for(&scene.process, i + 1);
		packet = next_packet();
		assert_memory_equal(packet.payload, expected.payload, UR_MAD_SIZE);
		assert_int_equal(packet.payload_length, expected.payload_length);
		assert_int_equal(packet.opcode, expected.opcode);
		assert_int_equal(packet.pkey, expected.pkey);
		assert_int_equal(packet.qkey, expected.qkey);
		assert_int_equal(packet.dest_qpn, expected.dest_qpn);
		assert_int_equal(packet.src_qpn, expected.src_qpn);
		assert_int_equal(packet.ack_request, expected.ack_request);
		assert_int_equal(packet.solicited, expected.solicited);
		assert_int_equal(packet.migrated, expected.migrated);
		/* Each sender numbers its own. */
		assert_int_equal(packet.psn, i);
	}
	pcap_free(&pcap);
}

static int claim_service(void)
{
	int fd = ur_claim_open(SERVICE);

	assert_true(fd >= 0);
	ur_claim_listen(fd);
	return fd;
}

static void test_a_request_goes_to_the_process_that_has_claimed_the_service(void **state)
{
	const union ur_sockaddr peer = network_address(PEER, UR_UDP_PORT);
	const union ur_sockaddr local = network_address("127.0.0.1", 0);
	const struct ur_cm_message messages[] = { request(), look_up() };
	int fd = claim_service();
	uint8_t mad[UR_MAD_SIZE];

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct ur_claimed claimed;

		send_message(&messages[i]);
		wait_for(&scene.process, i + 1);
		assert_true(ur_claim_read(fd, &claimed));
		ur_cm_encode(&messages[i], mad);
		assert_memory_equal(claimed.mad, mad, sizeof(mad));
		assert_true(ur_address_equal(&claimed.from, &peer));
		assert_true(ur_address_equal(&claimed.to, &local));
	}
	assert_no_answer();
	assert_int_equal(manager.inputs, 0);
	assert_int_equal(scene.process.device.counters.rx_forwarded, 2);
	close(fd);
}

static void test_addresses_of_a_request_over_ipv6_go_along(void **state)
{
	const union ur_sockaddr peer = network_address("::1", DEVICE_PORT);
	const union ur_sockaddr local = network_address("::1", 0);
	int fd = claim_service(), sock = network_socket("::1", DEVICE_PORT);
	const struct ur_packet packet = packet_to_gsi();
	const struct ur_cm_message message = request();
	struct ur_claimed claimed;
	uint8_t mad[UR_MAD_SIZE];

	(void)state;
	ur_cm_encode(&message, mad);
	send_from(sock, "::1", DEVICE_PORT, "::1", &packet, mad);
	wait_for(&scene.process, 1);
	assert_true(ur_claim_read(fd, &claimed));
	assert_true(ur_address_equal(&claimed.from, &peer));
	assert_true(ur_address_equal(&claimed.to, &local));
	close(sock);
	close(fd);
}

static void test_a_request_for_a_process_that_is_too_slow_is_dropped(void **state)
{
	const struct ur_cm_message message = request();
	const struct ur_counters *counters = &scene.process.device.counters;
	int fd = claim_service();
	unsigned sent = 0;

	(void)state;
	while (counters->cm_dropped < 3) {
		send_message(&message);
		wait_for(&scene.process, ++sent);
	}
	assert_int_equal(counters->rx_forwarded, sent - 3);
	assert_no_answer();
	close(fd);
}

static void test_an_answer_goes_to_port_4791_whatever_the_request_came_from(void **state)
{
	const struct ur_packet packet = packet_to_gsi();
	const struct ur_cm_message message = request();
	int fd = network_socket(PEER, DEVICE_PORT);
	uint8_t mad[UR_MAD_SIZE];

	(void)state;
	ur_cm_encode(&message, mad);
	send_from(fd, PEER, DEVICE_PORT, "127.0.0.1", &packet, mad);
	wait_for(&scene.process, 1);
	assert_rejected(0, UR_CM_INVALID_SERVICE_ID, &message);
	close(fd);
}

/* ---- Answers ---- */

static const uint16_t answers[] = { UR_CM_MRA,  UR_CM_REJ,      UR_CM_REP, UR_CM_RTU, UR_CM_DREQ,
				    UR_CM_DREP, UR_CM_SIDR_REP, UR_CM_LAP, UR_CM_APR };
#define ANSWERS (sizeof(answers) / sizeof(answers[0]))

static void test_answers_for_this_process_go_to_the_manager(void **state)
{
	(void)state;
	for (unsigned i = 0; i < ANSWERS; i++) {
		const struct ur_cm_message message = answer(answers[i], 0);

		send_message(&message);
		wait_for(&scene.process, i + 1);
		assert_input(&scene.process, answers[i]);
		assert_int_equal(manager.message.remote_id, message.remote_id);
	}
	assert_no_answer();
}

/* Sends all of them for a process that is not there, or does not know what they are about. */
static void assert_refused(struct process *process, uint8_t number)
{
	const struct ur_cm_message rep = answer(UR_CM_REP, number);
	struct ur_cm_message answered;

	for (unsigned i = 0; i < ANSWERS; i++) {
		const struct ur_cm_message message = answer(answers[i], number);

		send_message(&message);
		wait_for(process, i + 1);
	}
	assert_rejected(1, UR_CM_INVALID_COMM_ID, &rep);
	answered = next_answer();
	assert_int_equal(answered.kind, UR_CM_DREP);
	assert_int_equal(answered.transaction_id, rep.transaction_id);
	assert_int_equal(answered.local_id, rep.remote_id);
	assert_int_equal(answered.remote_id, rep.local_id);
	answered = next_answer();
	assert_int_equal(answered.kind, UR_CM_APR);
	assert_int_equal(answered.apr.status, UR_CM_PATH_INVALID_COMM_ID);
	assert_int_equal(answered.transaction_id, rep.transaction_id);
	assert_int_equal(answered.local_id, rep.remote_id);
	assert_int_equal(answered.remote_id, rep.local_id);
	assert_no_answer();
	assert_int_equal(manager.inputs, 0);
}

static void test_answers_that_no_manager_waits_for_are_refused_or_dropped(void **state)
{
	(void)state;
	manager.in_use = false;
	assert_refused(&scene.process, 0);
	assert_int_equal(scene.process.device.counters.cm_refused, 3);
	assert_int_equal(scene.process.device.counters.cm_dropped, ANSWERS - 3);
}

static void test_answers_for_another_process_are_passed_on(void **state)
{
	struct process other, third;

	(void)state;
	start(&other);
	start(&third);
	for (unsigned i = 0; i < ANSWERS; i++) {
		const struct ur_cm_message message = answer(answers[i], 1);

		send_message(&message);
		wait_for(&scene.process, i + 1);
		wait_for(&other, i + 1);
		assert_input(&other, answers[i]);
	}
	assert_no_answer();
	assert_int_equal(scene.process.node->counters.rx_forwarded, ANSWERS);
	ur_link_receive(third.node->link, receive, &third.device);
	assert_int_equal(received(&third), 0);
	end(&third);
	end(&other);
}

static void test_answers_for_a_process_that_has_gone_are_refused_or_dropped(void **state)
{
	struct process gone;

	(void)state;
	start(&gone);
	end(&gone);
	assert_refused(&scene.process, 1);
}

static void test_a_successor_takes_its_own_answers_and_refuses_those_of_the_first_owner(
	void **state)
{
	const struct ur_cm_message message = answer(UR_CM_DREQ, 1);
	struct process successor;

	(void)state;
	start(&successor);
	end(&scene.process);
	ur_link_owner_tick(successor.node->link);
	assert_true(ur_link_is_owner(successor.node->link));

	assert_refused(&successor, 0);
	assert_int_equal(successor.node->counters.rx_forwarded, 0);
	send_message(&message);
	wait_for(&successor, ANSWERS + 1);
	assert_input(&successor, UR_CM_DREQ);
	assert_no_answer();
	scene.process = successor;
	pthread_mutex_init(&scene.process.device.lock, NULL);
}

/* What a process that is not the owner gets in an envelope, from whoever has port 4791. */
static void test_what_came_in_an_envelope_is_not_passed_on_again(void **state)
{
	const struct ur_packet packet = packet_to_gsi();
	const struct ur_cm_message messages[] = { answer(UR_CM_RTU, 2), answer(UR_CM_DREQ, 2) };
	const union ur_sockaddr peer = network_address(PEER, UR_UDP_PORT);
	struct ur_flow flow = { .source = peer };
	struct ur_socket owner = { .address = network_address("127.0.0.1", UR_UDP_PORT) };
	struct process process, third;

	(void)state;
	start(&process);
	start(&third);
	end(&scene.process);
	owner.fd = network_socket("127.0.0.1", UR_UDP_PORT);
	flow.dest = owner.address;
	for (unsigned i = 0; i < 2; i++) {
		uint8_t mad[UR_MAD_SIZE], data[512];
		size_t length;

		ur_cm_encode(&messages[i], mad);
		length = build_datagram(&packet, &flow, 0, mad, data);
		assert_int_equal(ur_forward(&owner, 1, &peer, data, length), 0);
		wait_for(&process, i + 1);
	}
	assert_int_equal(next_answer().kind, UR_CM_DREP);
	assert_int_equal(process.node->counters.rx_forwarded, 0);
	assert_int_equal(process.device.counters.cm_dropped, 1);
	ur_link_receive(third.node->link, receive, &third.device);
	assert_int_equal(received(&third), 0);
	close(owner.fd);
	end(&third);
	scene.process = process;
	pthread_mutex_init(&scene.process.device.lock, NULL);
}

/* ---- What is no message ---- */

static void test_what_is_no_message_is_dropped(void **state)
{
	const struct ur_cm_message message = request();
	struct ur_packet packet = packet_to_gsi();
	uint8_t mad[UR_MAD_SIZE];

	(void)state;
	ur_cm_encode(&message, mad);
	packet.qkey = 0x11111111;
	send_packet(&packet, mad);
	packet = packet_to_gsi();
	packet.opcode = UR_UD_SEND_ONLY_IMM;
	send_packet(&packet, mad);
	packet.opcode = UR_RC_SEND_ONLY;
	send_packet(&packet, mad);
	packet = packet_to_gsi();
	packet.payload_length = UR_MAD_SIZE - 1;
	send_packet(&packet, mad);
	packet.payload_length = 0;
	send_packet(&packet, mad);
	packet = packet_to_gsi();
	mad[1] = 0x01; /* management class */
	send_packet(&packet, mad);
	wait_for(&scene.process, 6);
	assert_int_equal(scene.process.device.counters.rx_unexpected, 6);
	assert_int_equal(manager.inputs, 0);
	assert_no_answer();
}

#define FLOOD       5000
#define FLOOD_BURST 50

static void test_a_flood_of_requests_gets_one_answer_each_and_takes_no_memory(void **state)
{
	const struct ur_cm_message message = request();
	size_t before = mallinfo2().uordblks;
	int next = dup(0);

	(void)state;
	close(next);
	for (unsigned i = 0; i < FLOOD; i += FLOOD_BURST) {
		for (unsigned j = 0; j < FLOOD_BURST; j++)
			send_message(&message);
		wait_for(&scene.process, i + FLOOD_BURST);
		for (unsigned j = 0; j < FLOOD_BURST; j++) {
			uint8_t data[512];

			assert_true(has_answer(WAIT_MS));
			assert_true(recv(scene.fd, data, sizeof(data), 0) > 0);
		}
		assert_no_answer();
	}
	assert_int_equal(mallinfo2().uordblks, before);
	assert_int_equal(dup(0), next);
	close(next);
}

/* ---- Sending ---- */

static void test_a_message_is_sent_at_once(void **state)
{
	const struct ur_cm_message message = request();
	struct ur_path path = { .remote = network_address(PEER, UR_UDP_PORT),
				.gid_index = IPV4_GID };

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		struct ur_packet packet;
		uint8_t mad[UR_MAD_SIZE];

		ur_gsi_send(&scene.process.device, &path, &message);
		packet = next_packet();
		ur_cm_encode(&message, mad);
		assert_memory_equal(packet.payload, mad, sizeof(mad));
		assert_int_equal(packet.psn, i);
	}
	assert_int_equal(scene.process.device.counters.cm_sent, 3);
	assert_int_equal(pthread_mutex_trylock(&scene.process.device.lock), 0);
	pthread_mutex_unlock(&scene.process.device.lock);
}

static void test_messages_sent_with_the_lock_go_out_together(void **state)
{
	struct ur_path path = { .remote = network_address(PEER, UR_UDP_PORT),
				.gid_index = IPV4_GID };
	struct process *process = &scene.process;

	(void)state;
	for (uint32_t i = 0; i < 3; i++) {
		struct ur_cm_message message = request();

		message.local_id = i;
		ur_gsi_send_locked(&process->device, &path, &message);
	}
	assert_no_answer();
	flush(process);
	for (uint32_t i = 0; i < 3; i++) {
		uint8_t data[512];
		struct ur_packet packet;
		struct ur_cm_message message;
		ssize_t length = recv(scene.fd, data, sizeof(data), 0);

		assert_int_equal(ur_packet_decode(data, (size_t)length, &packet), UR_DECODED);
		assert_int_equal(ur_cm_decode(packet.payload, packet.payload_length, &message),
				 UR_CM_DECODED);
		assert_int_equal(message.local_id, i);
	}
	assert_int_equal(process->node->counters.tx_batches, 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_a_request_for_a_service_of_this_process_goes_to_the_manager),
		TEST(test_a_request_for_nobodys_service_is_rejected),
		TEST(test_a_look_up_of_nobodys_service_is_answered),
		TEST(test_a_refused_request_gets_what_the_kernel_answers),
		TEST(test_a_request_goes_to_the_process_that_has_claimed_the_service),
		TEST(test_addresses_of_a_request_over_ipv6_go_along),
		TEST(test_a_request_for_a_process_that_is_too_slow_is_dropped),
		TEST(test_an_answer_goes_to_port_4791_whatever_the_request_came_from),
		TEST(test_answers_for_this_process_go_to_the_manager),
		TEST(test_answers_that_no_manager_waits_for_are_refused_or_dropped),
		TEST(test_answers_for_another_process_are_passed_on),
		TEST(test_answers_for_a_process_that_has_gone_are_refused_or_dropped),
		TEST(test_a_successor_takes_its_own_answers_and_refuses_those_of_the_first_owner),
		TEST(test_what_came_in_an_envelope_is_not_passed_on_again),
		TEST(test_what_is_no_message_is_dropped),
		TEST(test_a_flood_of_requests_gets_one_answer_each_and_takes_no_memory),
		TEST(test_a_message_is_sent_at_once),
		TEST(test_messages_sent_with_the_lock_go_out_together),
	};

	if (!network_enter())
		return 1;
	return cmocka_run_group_tests_name("cm gsi", tests, NULL, NULL);
}
