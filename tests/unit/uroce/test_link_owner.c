#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "../../../uroce/link/forward.h"
#include "link_nodes.h"
#include "network.h"

#define STRANGER_PORT 5000

/* A stranger's packet to port 4791, as a device sends it that knows no other. */
static void send_to_4791(const char *address, uint32_t qpn, uint32_t psn)
{
	struct ur_flow flow = { .source = network_address(address, STRANGER_PORT),
				.dest = network_address(address, UR_UDP_PORT) };
	struct ur_packet packet = { .opcode = UR_RC_SEND_ONLY,
				    .pkey = UR_DEFAULT_PKEY,
				    .dest_qpn = qpn,
				    .psn = psn,
				    .payload_length = 100 };
	int fd = network_socket(address, STRANGER_PORT);
	uint8_t data[256];
	size_t length = build_datagram(&packet, &flow, 0, payload_of(psn, 100), data);

	assert_int_equal(sendto(fd, data, length, 0, &flow.dest.any, sizeof(flow.dest)), length);
	close(fd);
}

static void assert_sender(const struct node *node, size_t index, const char *address,
			  uint8_t gid_index)
{
	union ur_sockaddr sender = network_address(address, STRANGER_PORT);

	assert_int_equal(node->arrivals[index].from.gid_index, gid_index);
	assert_true(ur_address_equal(&node->arrivals[index].from.remote, &sender));
}

static void test_the_owner_passes_packets_on_to_the_process_they_are_for(void **state)
{
	struct node *a = node_open(), *b = node_open(), *c = node_open();

	(void)state;
	send_to_4791("127.0.0.1", qpn_of(c, 7), 1);
	send_to_4791("127.0.0.1", qpn_of(b, 7), 2);
	send_to_4791("::1", qpn_of(b, 7), 3);
	send_to_4791("127.0.0.1", qpn_of(a, 7), 4);
	node_wait(a, 1);
	while (a->counters.rx_packets < 4)
		node_receive(a);
	node_wait(b, 2);
	node_wait(c, 1);

	assert_int_equal(a->counters.rx_forwarded, 3);
	assert_arrived(a, 0, qpn_of(a, 7), 4, 100);
	assert_arrived(b, 0, qpn_of(b, 7), 2, 100);
	assert_sender(b, 0, "127.0.0.1", IPV4_GID);
	assert_arrived(b, 1, qpn_of(b, 7), 3, 100);
	assert_sender(b, 1, "::1", IPV6_GID);
	assert_arrived(c, 0, qpn_of(c, 7), 1, 100);
	node_close(c);
	node_close(b);
	node_close(a);
}

static void test_packets_for_the_management_queue_pair_stay_where_they_arrive(void **state)
{
	struct node *a = node_open(), *b = node_open();
	struct ur_path path = path_to(b, IPV4_GID);

	(void)state;
	send_to_4791("127.0.0.1", 1, 1);
	node_wait(a, 1);
	assert_int_equal(a->counters.rx_forwarded, 0);
	assert_arrived(a, 0, 1, 1, 100);
	node_send(a, &path, 1, 2, 100);
	node_flush(a);
	node_wait(b, 1);
	assert_arrived(b, 0, 1, 2, 100);
	node_close(b);
	node_close(a);
}

static void test_packets_with_a_wrong_icrc_are_not_passed_on(void **state)
{
	struct node *a = node_open(), *b = node_open();
	union ur_sockaddr dest = network_address("127.0.0.1", UR_UDP_PORT);
	int fd = network_socket("127.0.0.1", STRANGER_PORT);
	uint8_t data[20] = { UR_RC_ACKNOWLEDGE, 0, 0xff, 0xff, 0, 1, 0, 7 };

	(void)state;
	assert_int_equal(sendto(fd, data, sizeof(data), 0, &dest.any, sizeof(dest.v4)),
			 sizeof(data));
	while (a->counters.rx_packets < 1)
		node_receive(a);
	assert_int_equal(a->counters.rx_bad_icrc, 1);
	assert_int_equal(a->counters.rx_forwarded, 0);
	close(fd);
	node_close(b);
	node_close(a);
}

static void test_a_packet_for_another_process_is_passed_on_only_from_port_4791(void **state)
{
	struct node *a = node_open(), *b = node_open(), *c = node_open();
	struct ur_path path = path_to(b, IPV4_GID);

	(void)state;
	node_send(a, &path, qpn_of(c, 7), 1, 100);
	node_send(a, &path, qpn_of(b, 7), 2, 104);
	node_flush(a);
	node_wait(b, 1);
	assert_arrived(b, 0, qpn_of(b, 7), 2, 104);
	assert_int_equal(b->counters.rx_unknown_qp, 1);
	assert_int_equal(b->counters.rx_forwarded, 0);
	node_close(c);
	node_close(b);
	node_close(a);
}

/* ---- Envelopes ---- */

/* Sends an envelope to a node from some address of the host, with a packet from a remote sender. */
static void send_envelope(int fd, const struct node *node, uint32_t qpn, uint32_t psn)
{
	struct ur_socket from = { .fd = fd, .address = network_address("127.0.0.1", UR_UDP_PORT) };
	union ur_sockaddr sender = network_address("127.0.0.9", STRANGER_PORT);
	struct ur_flow flow = { .source = sender, .dest = from.address };
	struct ur_packet packet = { .opcode = UR_RC_SEND_ONLY,
				    .pkey = UR_DEFAULT_PKEY,
				    .dest_qpn = qpn,
				    .psn = psn,
				    .payload_length = 100 };
	uint8_t data[256];
	size_t length = build_datagram(&packet, &flow, 0, payload_of(psn, 100), data);

	assert_int_equal(ur_forward(&from, ur_link_number(node->link), &sender, data, length), 0);
}

static void test_an_envelope_is_taken_from_port_4791_of_the_same_address_only(void **state)
{
	int owner = network_socket("127.0.0.1", UR_UDP_PORT);
	int stranger = network_socket("127.0.0.1", STRANGER_PORT);
	int other_address = network_socket("127.0.0.2", UR_UDP_PORT);
	struct node *node = node_open();

	(void)state;
	send_envelope(stranger, node, qpn_of(node, 7), 1);
	send_envelope(other_address, node, qpn_of(node, 7), 2);
	send_envelope(owner, node, qpn_of(node, 7), 3);
	node_wait(node, 1);
	assert_int_equal(node->count, 1);
	assert_arrived(node, 0, qpn_of(node, 7), 3, 100);
	assert_int_equal(node->counters.rx_bad_icrc, 2);
	node_close(node);
	close(owner);
	close(stranger);
	close(other_address);
}

static void test_what_is_in_an_envelope_is_not_passed_on_again(void **state)
{
	int owner = network_socket("127.0.0.1", UR_UDP_PORT);
	struct node *a = node_open(), *b = node_open();

	(void)state;
	send_envelope(owner, a, qpn_of(b, 7), 1);
	send_envelope(owner, a, qpn_of(a, 7), 2);
	node_wait(a, 1);
	assert_arrived(a, 0, qpn_of(a, 7), 2, 100);
	assert_int_equal(a->counters.rx_unknown_qp, 1);
	assert_int_equal(a->counters.rx_forwarded, 0);
	node_close(b);
	node_close(a);
	close(owner);
}

static void test_an_envelope_with_a_malformed_packet_or_sender_is_dropped(void **state)
{
	int owner = network_socket("127.0.0.1", UR_UDP_PORT);
	struct node *node = node_open();
	union ur_sockaddr dest = path_to(node, IPV4_GID).remote;
	uint8_t data[UR_ENVELOPE_SIZE + 16] = { 'U', 'R', 'F', 'W', 4 };

	(void)state;
	sendto(owner, data, UR_ENVELOPE_SIZE - 1, 0, &dest.any, sizeof(dest.v4));
	sendto(owner, data, UR_ENVELOPE_SIZE, 0, &dest.any, sizeof(dest.v4));
	data[UR_ENVELOPE_SIZE] = 0x1f;
	sendto(owner, data, sizeof(data), 0, &dest.any, sizeof(dest.v4));
	data[4] = 6;
	sendto(owner, data, sizeof(data), 0, &dest.any, sizeof(dest.v4));
	send_envelope(owner, node, qpn_of(node, 7), 1);
	node_wait(node, 1);
	assert_int_equal(node->count, 1);
	assert_int_equal(node->counters.rx_malformed, 3);
	assert_int_equal(node->counters.rx_bad_icrc, 1);
	node_close(node);
	close(owner);
}

static void test_a_sender_of_another_family_makes_no_sense(void **state)
{
	const struct ur_socket ipv4 = { .address = network_address("127.0.0.1", 4792) };
	const struct ur_socket ipv6 = { .address = network_address("::1", 4792) };
	uint8_t envelope[UR_ENVELOPE_SIZE] = { 'U', 'R', 'F', 'W', 4, 0, 0x13, 0x88, 127, 0, 0, 1 };
	union ur_sockaddr sender;

	(void)state;
	assert_true(ur_envelope_sender(&ipv4, envelope, &sender));
	assert_false(ur_envelope_sender(&ipv6, envelope, &sender));
	envelope[4] = 6;
	assert_false(ur_envelope_sender(&ipv4, envelope, &sender));
	assert_true(ur_envelope_sender(&ipv6, envelope, &sender));
}

static void test_a_link_local_sender_is_on_the_link_of_the_address_that_it_sent_to(void **state)
{
	struct ur_socket sock = { .address = network_address("fe80::1", 4792) };
	uint8_t envelope[UR_ENVELOPE_SIZE] = { 'U', 'R', 'F', 'W', 6, 0, 0x13, 0x88, 0xfe, 0x80 };
	union ur_sockaddr sender, expected = network_address("fe80::", STRANGER_PORT);

	(void)state;
	sock.address.v6.sin6_scope_id = 3;
	expected.v6.sin6_scope_id = 3;
	assert_true(ur_envelope_sender(&sock, envelope, &sender));
	assert_memory_equal(&sender, &expected, sizeof(sender));
	envelope[8] = 0x20;
	assert_true(ur_envelope_sender(&sock, envelope, &sender));
	assert_int_equal(sender.v6.sin6_scope_id, 0);
}

/* ---- Succession ---- */

static void test_when_the_owner_goes_another_process_takes_its_place(void **state)
{
	struct node *a = node_open(), *b = node_open(), *c = node_open();

	(void)state;
	ur_link_owner_tick(b->link);
	assert_false(ur_link_is_owner(b->link));
	node_close(a);
	ur_link_owner_tick(b->link);
	ur_link_owner_tick(c->link);
	assert_true(ur_link_is_owner(b->link));
	assert_false(ur_link_is_owner(c->link));

	send_to_4791("127.0.0.1", qpn_of(b, 7), 1);
	while (!node_is_reported(b, EPOLLIN))
		;
	send_to_4791("::1", qpn_of(b, 7), 2);
	node_wait(b, 2);
	assert_sender(b, 0, "127.0.0.1", IPV4_GID);
	assert_sender(b, 1, "::1", IPV6_GID);
	send_to_4791("::1", qpn_of(c, 7), 3);
	while (b->counters.rx_forwarded < 1)
		node_receive(b);
	node_wait(c, 1);
	assert_arrived(c, 0, qpn_of(c, 7), 3, 100);
	node_close(c);
	node_close(b);
}

static void test_a_process_takes_port_4791_on_those_addresses_where_it_is_free(void **state)
{
	int stranger = network_socket("127.0.0.1", UR_UDP_PORT);
	struct node *node = node_open();

	(void)state;
	for (unsigned i = 0; i < 3; i++)
		ur_link_owner_tick(node->link);
	assert_false(ur_link_is_owner(node->link));
	send_to_4791("::1", qpn_of(node, 7), 1);
	node_wait(node, 1);
	assert_sender(node, 0, "::1", IPV6_GID);
	close(stranger);
	ur_link_owner_tick(node->link);
	assert_true(ur_link_is_owner(node->link));
	send_to_4791("127.0.0.1", qpn_of(node, 7), 2);
	node_wait(node, 2);
	assert_sender(node, 1, "127.0.0.1", IPV4_GID);
	node_close(node);
}

static void test_a_successor_that_polls_is_not_disturbed_by_packets_to_port_4791(void **state)
{
	struct node *a = node_open(), *b = node_open();

	(void)state;
	node_close(a);
	ur_link_watch(b->link, false);
	ur_link_owner_tick(b->link);
	send_to_4791("127.0.0.1", qpn_of(b, 7), 1);
	while (b->count == 0) {
		assert_false(node_is_reported(b, EPOLLIN));
		node_receive(b);
	}
	ur_link_watch(b->link, true);
	send_to_4791("127.0.0.1", qpn_of(b, 7), 2);
	while (!node_is_reported(b, EPOLLIN))
		;
	node_close(b);
}

static void test_a_successor_drops_packets_for_the_process_that_has_gone(void **state)
{
	struct node *a = node_open(), *b = node_open();
	uint32_t gone = qpn_of(a, 7);

	(void)state;
	node_close(a);
	ur_link_owner_tick(b->link);
	send_to_4791("127.0.0.1", gone, 1);
	send_to_4791("127.0.0.1", qpn_of(b, 7), 2);
	node_wait(b, 1);
	assert_arrived(b, 0, qpn_of(b, 7), 2, 100);
	assert_int_equal(b->counters.rx_unknown_qp, 1);
	assert_int_equal(b->counters.rx_forwarded, 0);
	node_close(b);
}

static void test_a_process_that_starts_later_can_become_the_owner(void **state)
{
	struct node *a = node_open(), *b = node_open(), *c;

	(void)state;
	node_close(a);
	ur_link_owner_tick(b->link);
	c = node_open();
	assert_int_equal(ur_link_number(c->link), 2);
	node_close(b);
	ur_link_owner_tick(c->link);
	assert_true(ur_link_is_owner(c->link));
	node_close(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_owner_passes_packets_on_to_the_process_they_are_for),
		cmocka_unit_test(test_packets_for_the_management_queue_pair_stay_where_they_arrive),
		cmocka_unit_test(test_packets_with_a_wrong_icrc_are_not_passed_on),
		cmocka_unit_test(
			test_a_packet_for_another_process_is_passed_on_only_from_port_4791),
		cmocka_unit_test(test_an_envelope_is_taken_from_port_4791_of_the_same_address_only),
		cmocka_unit_test(test_what_is_in_an_envelope_is_not_passed_on_again),
		cmocka_unit_test(test_an_envelope_with_a_malformed_packet_or_sender_is_dropped),
		cmocka_unit_test(test_a_sender_of_another_family_makes_no_sense),
		cmocka_unit_test(
			test_a_link_local_sender_is_on_the_link_of_the_address_that_it_sent_to),
		cmocka_unit_test(test_when_the_owner_goes_another_process_takes_its_place),
		cmocka_unit_test(
			test_a_process_takes_port_4791_on_those_addresses_where_it_is_free),
		cmocka_unit_test(
			test_a_successor_that_polls_is_not_disturbed_by_packets_to_port_4791),
		cmocka_unit_test(test_a_successor_drops_packets_for_the_process_that_has_gone),
		cmocka_unit_test(test_a_process_that_starts_later_can_become_the_owner),
	};

	if (!network_enter())
		return 1;
	return cmocka_run_group_tests_name("link owner", tests, NULL, NULL);
}
