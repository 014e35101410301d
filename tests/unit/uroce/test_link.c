#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <errno.h>
#include <netinet/ip.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "link_nodes.h"
#include "network.h"

#define STRANGER_PORT 5000
#define DEVICE_PORT   50000

static unsigned recvmmsg_calls;

/* Takes the place of the C library's, to count. */
int recvmmsg(int fd, struct mmsghdr *headers, unsigned count, int flags, struct timespec *timeout)
{
	recvmmsg_calls++;
	return (int)syscall(SYS_recvmmsg, fd, headers, count, flags, timeout);
}

/* Two processes: number 0, the owner of 4791, and number 1. */
struct pair {
	struct node *a;
	struct node *b;
};

static int open_pair(void **state)
{
	static struct pair pair;

	pair.a = node_open();
	pair.b = node_open();
	*state = &pair;
	return 0;
}

static int close_pair(void **state)
{
	struct pair *pair = *state;

	node_close(pair->b);
	node_close(pair->a);
	return 0;
}

/* ---- Numbers ---- */

static void test_the_first_process_has_number_0_and_is_the_owner_the_second_has_number_1(
	void **state)
{
	struct pair *pair = *state;

	assert_int_equal(ur_link_number(pair->a->link), 0);
	assert_true(ur_link_is_owner(pair->a->link));
	assert_int_equal(ur_link_number(pair->b->link), 1);
	assert_false(ur_link_is_owner(pair->b->link));
	assert_int_equal(ur_link_port_of(qpn_of(pair->b, 77)), 4792);
}

static void test_a_number_is_free_again_when_its_process_has_gone(void **state)
{
	struct node *a = node_open(), *b = node_open(), *c;

	(void)state;
	node_close(b);
	c = node_open();
	assert_int_equal(ur_link_number(c->link), 1);
	node_close(c);
	node_close(a);
}

static void test_a_number_of_which_the_port_is_taken_on_any_address_is_not_used(void **state)
{
	int stranger = network_socket("::1", 4792);
	struct node *a = node_open(), *b = node_open();

	(void)state;
	assert_int_equal(ur_link_number(a->link), 0);
	assert_int_equal(ur_link_number(b->link), 2);
	/* Nor is it kept from others. */
	close(network_socket("127.0.0.1", 4792));
	node_close(b);
	node_close(a);
	close(stranger);
}

static void test_where_a_stranger_has_port_4791_nobody_is_the_owner(void **state)
{
	int stranger = network_socket("127.0.0.1", UR_UDP_PORT);
	struct node *a = node_open();

	(void)state;
	assert_int_equal(ur_link_number(a->link), 1);
	assert_false(ur_link_is_owner(a->link));
	ur_link_owner_tick(a->link);
	assert_false(ur_link_is_owner(a->link));
	close(stranger);
	ur_link_owner_tick(a->link);
	assert_true(ur_link_is_owner(a->link));
	node_close(a);
}

static void allow_files(rlim_t count)
{
	struct rlimit limit;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = limit.rlim_max < count ? limit.rlim_max : count;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static void test_there_are_256_numbers_and_no_more(void **state)
{
	struct ur_link *links[256], *further = NULL;
	int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	struct ur_counters counters = { 0 };

	(void)state;
	allow_files(1024);
	for (unsigned i = 0; i < 256; i++) {
		assert_int_equal(ur_link_open("uroce_lo", node_addresses(), 1, epoll_fd, &counters,
					      &links[i]),
				 0);
		assert_int_equal(ur_link_number(links[i]), i);
	}
	assert_int_equal(ur_link_open("uroce_lo", node_addresses(), 1, epoll_fd, &counters,
				      &further),
			 EADDRINUSE);
	assert_null(further);
	for (unsigned i = 0; i < 256; i++)
		ur_link_close(links[i]);
	close(epoll_fd);
}

static int open_with_address(union ur_sockaddr address)
{
	const struct ur_link_address addresses[] = { { address, 0, 0 } };
	int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	struct ur_counters counters = { 0 };
	struct ur_link *link = NULL;
	int error = ur_link_open("uroce_lo", addresses, 1, epoll_fd, &counters, &link);

	ur_link_close(link);
	close(epoll_fd);
	return error;
}

static void test_an_address_that_the_host_has_not_is_refused(void **state)
{
	(void)state;
	assert_int_equal(open_with_address(network_address("192.0.2.1", 0)), EADDRNOTAVAIL);
}

/* As one is for a while when its interface has come up. */
static void test_an_ipv6_address_that_is_not_confirmed_yet_is_taken(void **state)
{
	(void)state;
	assert_int_equal(open_with_address(network_address("2001:db8::1", 0)), 0);
}

static void test_a_device_without_addresses_is_refused(void **state)
{
	struct ur_counters counters = { 0 };
	struct ur_link *link;

	(void)state;
	assert_int_equal(ur_link_open("uroce_lo", node_addresses(), 0, -1, &counters, &link),
			 EINVAL);
}

/* ---- Sending and receiving ---- */

static void send_all_sizes(struct pair *pair, uint8_t gid_index)
{
	static const size_t sizes[] = { 0,    1,    2,    3,    4,    5,    100, 508, 509,
					510,  511,  512,  513,  514,  515,  516, 517, 1023,
					1024, 2047, 2048, 4093, 4094, 4095, 4096 };
	struct ur_path path = path_to(pair->b, gid_index);
	uint32_t count = sizeof(sizes) / sizeof(sizes[0]);

	for (uint32_t i = 0; i < count; i++) {
		node_send(pair->a, &path, qpn_of(pair->b, 5), i, sizes[i]);
		node_flush(pair->a);
	}
	node_wait(pair->b, count);
	for (uint32_t i = 0; i < count; i++) {
		const struct ur_path *from = &pair->b->arrivals[i].from;
		struct ur_path sender = path_to(pair->a, gid_index);

		assert_arrived(pair->b, i, qpn_of(pair->b, 5), i, sizes[i]);
		assert_int_equal(from->gid_index, gid_index);
		if (gid_index == IPV4_GID)
			assert_memory_equal(&from->remote, &sender.remote,
					    offsetof(struct sockaddr_in, sin_zero));
		else
			assert_memory_equal(&from->remote, &sender.remote,
					    sizeof(struct sockaddr_in6));
	}
	assert_int_equal(pair->b->count, count);
	assert_int_equal(pair->b->counters.rx_packets, count);
	assert_int_equal(pair->a->counters.tx_packets, count);
	assert_int_equal(pair->a->counters.tx_bytes, pair->b->counters.rx_bytes);
}

static void test_packets_of_all_sizes_arrive_over_ipv4(void **state)
{
	send_all_sizes(*state, IPV4_GID);
}

static void test_packets_of_all_sizes_arrive_over_ipv6(void **state)
{
	send_all_sizes(*state, IPV6_GID);
}

static void test_packets_of_one_size_go_out_as_one_message_and_come_in_as_one(void **state)
{
	struct pair *pair = *state;
	struct ur_path path = path_to(pair->b, IPV4_GID);

	for (uint32_t i = 0; i < 15; i++)
		node_send(pair->a, &path, qpn_of(pair->b, 5), i, 4096);
	assert_int_equal(pair->a->counters.tx_packets, 0);
	node_flush(pair->a);
	node_wait(pair->b, 15);
	for (uint32_t i = 0; i < 15; i++)
		assert_arrived(pair->b, i, qpn_of(pair->b, 5), i, 4096);
	assert_int_equal(pair->a->counters.tx_batches, 1);
	assert_int_equal(pair->b->counters.rx_batches, 1);
	assert_int_equal(pair->b->counters.rx_packets, 15);
}

static void test_the_last_packet_of_a_message_may_be_shorter_but_none_longer(void **state)
{
	static const size_t sizes[] = { 1024, 1024, 600, 1024, 1024, 1028, 1028 };
	struct pair *pair = *state;
	struct ur_path path = path_to(pair->b, IPV6_GID);

	for (uint32_t i = 0; i < 7; i++)
		node_send(pair->a, &path, qpn_of(pair->b, 5), i, sizes[i]);
	node_flush(pair->a);
	node_wait(pair->b, 7);
	for (uint32_t i = 0; i < 7; i++)
		assert_arrived(pair->b, i, qpn_of(pair->b, 5), i, sizes[i]);
	assert_int_equal(pair->a->counters.tx_batches, 3);
}

static void test_a_message_has_64_packets_at_most(void **state)
{
	struct pair *pair = *state;
	struct ur_path path = path_to(pair->b, IPV4_GID);

	for (uint32_t i = 0; i < 65; i++)
		node_send(pair->a, &path, qpn_of(pair->b, 5), i, 8);
	node_flush(pair->a);
	node_wait(pair->b, 65);
	assert_int_equal(pair->a->counters.tx_batches, 2);
	assert_int_equal(pair->b->counters.rx_bad_icrc, 0);
}

static void test_a_message_is_no_longer_than_the_system_takes(void **state)
{
	struct pair *pair = *state;
	struct ur_path path = path_to(pair->b, IPV4_GID);

	for (uint32_t i = 0; i < 32; i++)
		node_send(pair->a, &path, qpn_of(pair->b, 5), i, 4096);
	node_flush(pair->a);
	node_wait(pair->b, 32);
	assert_int_equal(pair->a->counters.tx_batches, 3);
	assert_int_equal(pair->a->counters.tx_failed, 0);
}

static void test_one_batch_can_follow_another_for_long(void **state)
{
	struct pair *pair = *state;
	struct ur_path path = path_to(pair->b, IPV4_GID);

	for (uint32_t i = 0; i < MAX_ARRIVALS; i++) {
		node_send(pair->a, &path, qpn_of(pair->b, 5), i, 500);
		if (i % 50 == 49) {
			node_flush(pair->a);
			node_wait(pair->b, i + 1);
		}
	}
	node_flush(pair->a);
	node_wait(pair->b, MAX_ARRIVALS);
	for (uint32_t i = 0; i < MAX_ARRIVALS; i++)
		assert_arrived(pair->b, i, qpn_of(pair->b, 5), i, 500);
}

static void test_packets_to_different_peers_go_out_as_different_messages(void **state)
{
	struct pair *pair = *state;
	struct ur_path ipv4 = path_to(pair->b, IPV4_GID), ipv6 = path_to(pair->b, IPV6_GID);
	struct ur_path own = path_to(pair->a, IPV4_GID);

	node_send(pair->a, &ipv4, qpn_of(pair->b, 5), 0, 100);
	node_send(pair->a, &ipv6, qpn_of(pair->b, 5), 1, 100);
	node_send(pair->a, &own, qpn_of(pair->a, 5), 2, 100);
	node_send(pair->a, &ipv4, qpn_of(pair->b, 5), 3, 100);
	node_flush(pair->a);
	node_wait(pair->b, 3);
	node_wait(pair->a, 1);
	assert_arrived(pair->a, 0, qpn_of(pair->a, 5), 2, 100);
	assert_int_equal(pair->a->counters.tx_batches, 4);
}

static void test_packets_go_out_from_the_address_of_their_path(void **state)
{
	const struct ur_link_address addresses[] = {
		{ network_address("127.0.0.2", 0), 0, 0 },
		{ network_address("127.0.0.3", 0), 1, 0 },
	};
	struct pair *pair = *state;
	struct ur_path path = path_to(pair->b, IPV4_GID);
	struct node sender = { .epoll_fd = epoll_create1(EPOLL_CLOEXEC) };

	assert_int_equal(ur_link_open("uroce_lo", addresses, 2, sender.epoll_fd, &sender.counters,
				      &sender.link),
			 0);
	sender.carrier = ur_link_carrier(sender.link);
	for (uint32_t i = 0; i < 4; i++) {
		path.gid_index = i % 2;
		node_send(&sender, &path, qpn_of(pair->b, 5), i, 100);
	}
	node_flush(&sender);
	node_wait(pair->b, 4);
	for (uint32_t i = 0; i < 4; i++) {
		assert_arrived(pair->b, i, qpn_of(pair->b, 5), i, 100);
		assert_int_equal(pair->b->arrivals[i].from.remote.v4.sin_addr.s_addr,
				 addresses[i % 2].address.v4.sin_addr.s_addr);
	}
	assert_int_equal(sender.counters.tx_batches, 4);
	ur_link_close(sender.link);
	close(sender.epoll_fd);
}

static void test_a_packet_ends_with_zeros_up_to_4_bytes_and_its_icrc(void **state)
{
	struct pair *pair = *state;
	struct ur_path path = { .remote = network_address("127.0.0.1", STRANGER_PORT) };
	struct ur_flow flow = { .source = path_to(pair->a, IPV4_GID).remote, .dest = path.remote };
	int stranger = network_socket("127.0.0.1", STRANGER_PORT);

	for (size_t length = 510; length < 516; length++) {
		struct ur_packet packet = { .opcode = UR_RC_SEND_ONLY,
					    .pkey = UR_DEFAULT_PKEY,
					    .dest_qpn = 5,
					    .psn = 1,
					    .payload_length = length };
		uint8_t expected[600], received[600];
		size_t size = build_datagram(&packet, &flow, 0, payload_of(1, length), expected);

		node_send(pair->a, &path, 5, 1, length);
		node_flush(pair->a);
		assert_int_equal(recv(stranger, received, sizeof(received), 0), size);
		assert_memory_equal(received, expected, size);
	}
	close(stranger);
}

/* What the ICRC of a packet takes for granted, as its receiver cannot see it. */
static void test_a_single_packet_has_the_identification_0_and_is_not_fragmented(void **state)
{
	struct pair *pair = *state;
	struct ur_path path = { .remote = network_address("127.0.0.1", STRANGER_PORT) };
	int raw = socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_UDP);
	struct iphdr ip;

	assert_true(raw >= 0);
	for (uint32_t i = 0; i < 3; i++) {
		node_send(pair->a, &path, 5, i, 100);
		node_flush(pair->a);
		assert_true(recv(raw, &ip, sizeof(ip), 0) > 0);
		assert_int_equal(ip.id, 0);
		assert_int_equal(ntohs(ip.frag_off), IP_DF);
	}
	close(raw);
}

static void send_pieces(struct node *node, const struct ur_path *path, uint32_t qpn, uint32_t psn,
			size_t piece, unsigned count)
{
	const uint8_t *payload = payload_of(psn, piece * count);
	struct ur_packet packet = { .opcode = UR_RC_SEND_ONLY,
				    .pkey = UR_DEFAULT_PKEY,
				    .dest_qpn = qpn,
				    .psn = psn,
				    .payload_length = piece * count };
	struct iovec pieces[UR_MAX_SGE];
	struct ur_tx tx = {
		.packet = &packet, .payload = pieces, .payload_count = count, .owner = node
	};

	/* Not one behind the other, in the memory of the process. */
	for (unsigned i = 0; i < count; i++) {
		pieces[i] = (struct iovec){ malloc(piece), piece };
		assert_non_null(pieces[i].iov_base);
		memcpy(pieces[i].iov_base, payload + i * piece, piece);
	}
	node->carrier->send(node->carrier, path, &tx);
	node->carrier->flush(node->carrier);
	for (unsigned i = 0; i < count; i++)
		free(pieces[i].iov_base);
}

static void test_a_payload_is_gathered_from_its_pieces(void **state)
{
	struct pair *pair = *state;
	struct ur_path path = path_to(pair->b, IPV4_GID);

	send_pieces(pair->a, &path, qpn_of(pair->b, 5), 0, 255, 16);
	send_pieces(pair->a, &path, qpn_of(pair->b, 5), 1, 31, 16);
	send_pieces(pair->a, &path, qpn_of(pair->b, 5), 2, 1025, 3);
	node_wait(pair->b, 3);
	assert_arrived(pair->b, 0, qpn_of(pair->b, 5), 0, 4080);
	assert_arrived(pair->b, 1, qpn_of(pair->b, 5), 1, 496);
	assert_arrived(pair->b, 2, qpn_of(pair->b, 5), 2, 3075);
}

static void test_a_full_batch_goes_out_by_itself(void **state)
{
	struct pair *pair = *state;
	struct ur_path path = path_to(pair->b, IPV4_GID);

	/* Each of another size, so that messages are what becomes full. */
	for (uint32_t i = 0; i < 300; i++)
		node_send(pair->a, &path, qpn_of(pair->b, 5), i, 4 * i);
	/* All alike, so that packets are. */
	for (uint32_t i = 300; i < 600; i++)
		node_send(pair->a, &path, qpn_of(pair->b, 5), i, 8);
	node_flush(pair->a);
	node_wait(pair->b, 600);
	for (uint32_t i = 0; i < 600; i++)
		assert_arrived(pair->b, i, qpn_of(pair->b, 5), i, i < 300 ? 4 * i : 8);
}

static void test_a_batch_full_of_pieces_goes_out_by_itself(void **state)
{
	struct pair *pair = *state;
	struct ur_path path = path_to(pair->b, IPV4_GID);
	struct ur_packet packet = { .opcode = UR_RC_SEND_ONLY,
				    .pkey = UR_DEFAULT_PKEY,
				    .dest_qpn = qpn_of(pair->b, 5),
				    .payload_length = 640 };
	struct iovec pieces[UR_MAX_SGE];
	struct ur_tx tx = {
		.packet = &packet, .payload = pieces, .payload_count = UR_MAX_SGE, .owner = pair->a
	};

	for (unsigned i = 0; i < UR_MAX_SGE; i++)
		pieces[i] = (struct iovec){ (void *)(uintptr_t)payload_of(50 * i, 40), 40 };
	for (; packet.psn < 200; packet.psn++)
		pair->a->carrier->send(pair->a->carrier, &path, &tx);
	node_flush(pair->a);
	node_wait(pair->b, 200);
	for (uint32_t i = 0; i < 200; i++) {
		assert_int_equal(pair->b->arrivals[i].packet.psn, i);
		assert_memory_equal(pair->b->arrivals[i].payload + 600, payload_of(750, 40), 40);
	}
}

static void test_a_small_payload_may_change_once_it_was_given_to_the_carrier(void **state)
{
	struct pair *pair = *state;
	struct ur_path path = path_to(pair->b, IPV4_GID);
	struct ur_packet packet = { .opcode = UR_RC_SEND_ONLY,
				    .pkey = UR_DEFAULT_PKEY,
				    .dest_qpn = qpn_of(pair->b, 5),
				    .payload_length = 8 };
	char memory[9] = "original";
	struct iovec payload = { memory, 8 };
	struct ur_tx tx = { .packet = &packet, .payload = &payload, .payload_count = 1 };

	pair->a->carrier->send(pair->a->carrier, &path, &tx);
	memcpy(memory, "modified", 8);
	node_flush(pair->a);
	node_wait(pair->b, 1);
	assert_memory_equal(pair->b->arrivals[0].payload, "original", 8);
}

static void test_a_packet_from_an_address_that_the_link_has_not_is_not_sent(void **state)
{
	struct pair *pair = *state;
	struct ur_path path = path_to(pair->b, IPV4_GID);

	path.gid_index = 7;
	node_send(pair->a, &path, qpn_of(pair->b, 5), 0, 100);
	assert_int_equal(pair->a->counters.tx_failed, 1);
	assert_int_equal(pair->a->unsent_count, 0);
}

static int receive_int(struct msghdr *header, int level, int type)
{
	for (struct cmsghdr *control = CMSG_FIRSTHDR(header); control;
	     control = CMSG_NXTHDR(header, control)) {
		if (control->cmsg_level == level && control->cmsg_type == type) {
			/* IP_TOS is a byte, the others are numbers. */
			int value = 0;

			memcpy(&value, CMSG_DATA(control), control->cmsg_len - CMSG_LEN(0));
			return value;
		}
	}
	return -1;
}

/* Returns traffic class and hop limit of the next packet. */
static void receive_marks(int fd, bool is_ipv4, int *traffic_class, int *hop_limit)
{
	union {
		struct cmsghdr align;
		char bytes[256];
	} control;
	char byte;
	struct iovec piece = { &byte, 1 };
	struct msghdr header = { .msg_iov = &piece,
				 .msg_iovlen = 1,
				 .msg_control = &control,
				 .msg_controllen = sizeof(control) };

	assert_true(recvmsg(fd, &header, 0) > 0);
	*traffic_class = is_ipv4 ? receive_int(&header, IPPROTO_IP, IP_TOS)
				 : receive_int(&header, IPPROTO_IPV6, IPV6_TCLASS);
	*hop_limit = is_ipv4 ? receive_int(&header, IPPROTO_IP, IP_TTL)
			     : receive_int(&header, IPPROTO_IPV6, IPV6_HOPLIMIT);
}

/* Packets of one size, alike in one of the two, or in both. */
static void assert_marks(struct node *node, int stranger, uint8_t gid_index)
{
	static const int marks[][2] = {
		{ 0, 64 }, { 0x20, 64 }, { 0x20, 3 }, { 0x20, 3 }, { 0, 3 }
	};
	struct ur_path path = { .remote = node_addresses()[gid_index].address,
				.gid_index = gid_index };
	int traffic_class, hop_limit;

	ur_address_set_port(&path.remote, STRANGER_PORT);
	for (uint32_t i = 0; i < 5; i++) {
		path.traffic_class = (uint8_t)marks[i][0];
		path.hop_limit = i < 2 ? 0 : (uint8_t)marks[i][1];
		node_send(node, &path, 5, i, 4);
	}
	node_flush(node);
	for (unsigned i = 0; i < 5; i++) {
		receive_marks(stranger, gid_index == IPV4_GID, &traffic_class, &hop_limit);
		assert_int_equal(traffic_class, marks[i][0]);
		assert_int_equal(hop_limit, marks[i][1]);
	}
}

static void test_packets_have_the_traffic_class_and_the_hop_limit_of_their_path(void **state)
{
	struct pair *pair = *state;
	int ipv4 = network_socket("127.0.0.1", STRANGER_PORT);
	int ipv6 = network_socket("::1", STRANGER_PORT);
	int on = 1;

	setsockopt(ipv4, IPPROTO_IP, IP_RECVTOS, &on, sizeof(on));
	setsockopt(ipv4, IPPROTO_IP, IP_RECVTTL, &on, sizeof(on));
	setsockopt(ipv6, IPPROTO_IPV6, IPV6_RECVTCLASS, &on, sizeof(on));
	setsockopt(ipv6, IPPROTO_IPV6, IPV6_RECVHOPLIMIT, &on, sizeof(on));
	assert_marks(pair->a, ipv4, IPV4_GID);
	assert_marks(pair->a, ipv6, IPV6_GID);
	close(ipv4);
	close(ipv6);
}

/* ---- What is refused ---- */

/* A stranger's datagram to a node, over IPv4. */
struct datagram {
	uint8_t data[256];
	size_t length;
};

static struct ur_packet good_packet(const struct node *node)
{
	return (struct ur_packet){ .opcode = UR_RC_SEND_ONLY,
				   .pkey = UR_DEFAULT_PKEY,
				   .dest_qpn = qpn_of(node, 5),
				   .payload_length = 8 };
}

static struct datagram datagram_from(uint16_t port, const struct node *node,
				     const struct ur_packet *packet, uint16_t ip_id)
{
	struct ur_flow flow = { .source = network_address("127.0.0.1", port),
				.dest = path_to(node, IPV4_GID).remote };
	struct datagram datagram;

	datagram.length = build_datagram(packet, &flow, ip_id, payload_of(0, 8), datagram.data);
	return datagram;
}

static void send_from(uint16_t port, const struct node *node, const struct datagram *datagram)
{
	union ur_sockaddr dest = path_to(node, IPV4_GID).remote;
	int fd = network_socket("127.0.0.1", port);

	assert_int_equal(sendto(fd, datagram->data, datagram->length, 0, &dest.any,
				sizeof(dest.v4)),
			 datagram->length);
	close(fd);
}

/* Waits for a good packet that was sent behind others, and that nothing else has arrived. */
static void assert_nothing_arrives(struct pair *pair)
{
	struct ur_path path = path_to(pair->b, IPV4_GID);

	node_send(pair->a, &path, qpn_of(pair->b, 9), 99, 20);
	node_flush(pair->a);
	node_wait(pair->b, 1);
	assert_int_equal(pair->b->count, 1);
	assert_arrived(pair->b, 0, qpn_of(pair->b, 9), 99, 20);
}

static void test_datagrams_that_are_too_short_are_dropped(void **state)
{
	struct pair *pair = *state;
	struct ur_packet packet = good_packet(pair->b);
	struct datagram datagram = datagram_from(STRANGER_PORT, pair->b, &packet, 0);

	for (datagram.length = 0; datagram.length < 16; datagram.length++)
		send_from(STRANGER_PORT, pair->b, &datagram);
	assert_nothing_arrives(pair);
	assert_int_equal(pair->b->counters.rx_malformed, 16);
}

static void test_malformed_packets_with_a_right_icrc_are_dropped(void **state)
{
	struct pair *pair = *state;
	struct ur_packet packet = good_packet(pair->b);
	struct datagram datagram;

	packet.opcode = 0x1f;
	datagram = datagram_from(STRANGER_PORT, pair->b, &packet, 0);
	send_from(STRANGER_PORT, pair->b, &datagram);
	packet.opcode = UR_RC_ACKNOWLEDGE;
	datagram = datagram_from(STRANGER_PORT, pair->b, &packet, 0);
	send_from(STRANGER_PORT, pair->b, &datagram);
	assert_nothing_arrives(pair);
	assert_int_equal(pair->b->counters.rx_malformed, 2);
}

static void test_packets_with_a_wrong_icrc_are_dropped(void **state)
{
	struct pair *pair = *state;
	struct ur_packet packet = good_packet(pair->b);
	struct datagram datagram = datagram_from(STRANGER_PORT, pair->b, &packet, 0);

	datagram.data[14] ^= 0x10;
	send_from(STRANGER_PORT, pair->b, &datagram);
	datagram.data[14] ^= 0x10;
	datagram.data[datagram.length - 1] ^= 1;
	send_from(STRANGER_PORT, pair->b, &datagram);
	assert_nothing_arrives(pair);
	assert_int_equal(pair->b->counters.rx_bad_icrc, 2);
}

static void test_packets_of_another_partition_are_dropped(void **state)
{
	struct pair *pair = *state;
	struct ur_packet packet = good_packet(pair->b);
	struct datagram datagram;

	packet.pkey = 0x8001;
	datagram = datagram_from(STRANGER_PORT, pair->b, &packet, 0);
	send_from(STRANGER_PORT, pair->b, &datagram);
	assert_nothing_arrives(pair);
	assert_int_equal(pair->b->counters.rx_bad_pkey, 1);
}

static void test_packets_of_a_limited_member_of_the_default_partition_arrive(void **state)
{
	struct pair *pair = *state;
	struct ur_packet packet = good_packet(pair->b);
	struct datagram datagram;

	packet.pkey = 0x7fff;
	datagram = datagram_from(STRANGER_PORT, pair->b, &packet, 0);
	send_from(STRANGER_PORT, pair->b, &datagram);
	node_wait(pair->b, 1);
	assert_int_equal(pair->b->arrivals[0].packet.pkey, 0x7fff);
}

static void test_any_identification_is_accepted_from_a_device_but_not_from_others(void **state)
{
	struct pair *pair = *state;
	struct ur_packet packet = good_packet(pair->b);
	struct datagram datagram = datagram_from(STRANGER_PORT, pair->b, &packet, 1234);

	send_from(STRANGER_PORT, pair->b, &datagram);
	datagram = datagram_from(STRANGER_PORT, pair->b, &packet, 63);
	send_from(STRANGER_PORT, pair->b, &datagram);
	datagram = datagram_from(DEVICE_PORT, pair->b, &packet, 1234);
	send_from(DEVICE_PORT, pair->b, &datagram);
	node_wait(pair->b, 2);
	assert_int_equal(pair->b->counters.rx_bad_icrc, 1);
	assert_int_equal(ntohs(pair->b->arrivals[0].from.remote.v4.sin_port), STRANGER_PORT);
	assert_int_equal(ntohs(pair->b->arrivals[1].from.remote.v4.sin_port), DEVICE_PORT);
}

/* ---- Watching ---- */

static void test_epoll_reports_packets_only_while_the_link_is_watched(void **state)
{
	struct pair *pair = *state;
	struct ur_path path = path_to(pair->b, IPV6_GID);

	assert_false(node_is_reported(pair->b, EPOLLIN));
	ur_link_watch(pair->b->link, false);
	node_send(pair->a, &path, qpn_of(pair->b, 5), 0, 8);
	node_flush(pair->a);
	while (pair->b->count == 0) {
		assert_false(node_is_reported(pair->b, EPOLLIN));
		node_receive(pair->b);
	}
	node_send(pair->a, &path, qpn_of(pair->b, 5), 1, 8);
	node_flush(pair->a);
	ur_link_watch(pair->b->link, true);
	node_wait(pair->b, 2);
	node_send(pair->a, &path, qpn_of(pair->b, 5), 2, 8);
	node_flush(pair->a);
	while (!node_is_reported(pair->b, EPOLLIN))
		;
}

static void poll_idle(struct node *node, unsigned times)
{
	while (times-- > 0)
		node_receive(node);
}

static void test_polling_leaves_out_sockets_that_were_idle_for_long_but_not_for_ever(void **state)
{
	struct pair *pair = *state;
	struct ur_path path = path_to(pair->b, IPV4_GID);

	ur_link_watch(pair->b->link, false);
	node_send(pair->a, &path, qpn_of(pair->b, 5), 0, 8);
	node_flush(pair->a);
	while (pair->b->count == 0)
		node_receive(pair->b);
	poll_idle(pair->b, 1000);
	recvmmsg_calls = 0;
	poll_idle(pair->b, 640);
	assert_int_equal(recvmmsg_calls, 640 + 10);

	path = path_to(pair->b, IPV6_GID);
	node_send(pair->a, &path, qpn_of(pair->b, 5), 1, 8);
	node_flush(pair->a);
	while (pair->b->count == 1)
		poll_idle(pair->b, 64);
	assert_arrived(pair->b, 1, qpn_of(pair->b, 5), 1, 8);
}

static void test_polling_looks_at_all_sockets_that_had_something_of_late(void **state)
{
	struct pair *pair = *state;

	ur_link_watch(pair->b->link, false);
	poll_idle(pair->b, 1000);
	for (uint8_t gid_index = 0; gid_index < NODE_ADDRESSES; gid_index++) {
		struct ur_path path = path_to(pair->b, gid_index);

		node_send(pair->a, &path, qpn_of(pair->b, 5), gid_index, 8);
	}
	node_flush(pair->a);
	while (pair->b->count < 2)
		node_receive(pair->b);
	recvmmsg_calls = 0;
	poll_idle(pair->b, 100);
	assert_int_equal(recvmmsg_calls, 200);
}

static void test_a_link_that_is_watched_looks_at_all_sockets_however_idle(void **state)
{
	struct pair *pair = *state;

	poll_idle(pair->b, 1000);
	recvmmsg_calls = 0;
	poll_idle(pair->b, 100);
	assert_int_equal(recvmmsg_calls, 200);
}

static void ignore(void *user_data, const struct ur_packet *packet, const struct ur_path *from)
{
	unsigned *of_gid = user_data;

	(void)packet;
	of_gid[from->gid_index]++;
}

static void test_a_busy_socket_does_not_keep_packets_of_another_waiting(void **state)
{
	struct pair *pair = *state;
	struct ur_path ipv4 = path_to(pair->b, IPV4_GID), ipv6 = path_to(pair->b, IPV6_GID);
	unsigned of_gid[NODE_ADDRESSES] = { 0 };

	/* Messages of their own, as each is longer than the one before. */
	for (uint32_t i = 0; i < 20; i++)
		node_send(pair->a, &ipv4, qpn_of(pair->b, 5), i, 4 * i + 4);
	node_send(pair->a, &ipv6, qpn_of(pair->b, 5), 20, 8);
	node_flush(pair->a);
	while (of_gid[IPV6_GID] == 0)
		ur_link_receive(pair->b->link, ignore, of_gid);
	assert_true(of_gid[IPV4_GID] < 10);
}

#define pair_test(name) cmocka_unit_test_setup_teardown(name, open_pair, close_pair)

int main(void)
{
	const struct CMUnitTest tests[] = {
		pair_test(
			test_the_first_process_has_number_0_and_is_the_owner_the_second_has_number_1),
		cmocka_unit_test(test_a_number_is_free_again_when_its_process_has_gone),
		cmocka_unit_test(
			test_a_number_of_which_the_port_is_taken_on_any_address_is_not_used),
		cmocka_unit_test(test_where_a_stranger_has_port_4791_nobody_is_the_owner),
		cmocka_unit_test(test_there_are_256_numbers_and_no_more),
		cmocka_unit_test(test_an_address_that_the_host_has_not_is_refused),
		cmocka_unit_test(test_an_ipv6_address_that_is_not_confirmed_yet_is_taken),
		cmocka_unit_test(test_a_device_without_addresses_is_refused),
		pair_test(test_packets_of_all_sizes_arrive_over_ipv4),
		pair_test(test_packets_of_all_sizes_arrive_over_ipv6),
		pair_test(test_packets_of_one_size_go_out_as_one_message_and_come_in_as_one),
		pair_test(test_the_last_packet_of_a_message_may_be_shorter_but_none_longer),
		pair_test(test_a_message_has_64_packets_at_most),
		pair_test(test_a_message_is_no_longer_than_the_system_takes),
		pair_test(test_one_batch_can_follow_another_for_long),
		pair_test(test_packets_to_different_peers_go_out_as_different_messages),
		pair_test(test_packets_go_out_from_the_address_of_their_path),
		pair_test(test_a_packet_ends_with_zeros_up_to_4_bytes_and_its_icrc),
		pair_test(test_a_single_packet_has_the_identification_0_and_is_not_fragmented),
		pair_test(test_a_payload_is_gathered_from_its_pieces),
		pair_test(test_a_full_batch_goes_out_by_itself),
		pair_test(test_a_batch_full_of_pieces_goes_out_by_itself),
		pair_test(test_a_small_payload_may_change_once_it_was_given_to_the_carrier),
		pair_test(test_a_packet_from_an_address_that_the_link_has_not_is_not_sent),
		pair_test(test_packets_have_the_traffic_class_and_the_hop_limit_of_their_path),
		pair_test(test_datagrams_that_are_too_short_are_dropped),
		pair_test(test_malformed_packets_with_a_right_icrc_are_dropped),
		pair_test(test_packets_with_a_wrong_icrc_are_dropped),
		pair_test(test_packets_of_another_partition_are_dropped),
		pair_test(test_packets_of_a_limited_member_of_the_default_partition_arrive),
		pair_test(test_any_identification_is_accepted_from_a_device_but_not_from_others),
		pair_test(test_epoll_reports_packets_only_while_the_link_is_watched),
		pair_test(test_polling_leaves_out_sockets_that_were_idle_for_long_but_not_for_ever),
		pair_test(test_polling_looks_at_all_sockets_that_had_something_of_late),
		pair_test(test_a_link_that_is_watched_looks_at_all_sockets_however_idle),
		pair_test(test_a_busy_socket_does_not_keep_packets_of_another_waiting),
	};

	if (!network_enter())
		return 1;
	return cmocka_run_group_tests_name("link", tests, NULL, NULL);
}
