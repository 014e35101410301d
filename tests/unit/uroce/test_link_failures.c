#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <netinet/udp.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "link_nodes.h"
#include "network.h"

/*
 * The next calls of sendmmsg: each takes so many messages, and fails if that is 0. Behind the last,
 * calls are the system's.
 */
static struct outcome {
	unsigned messages;
	int error;
} outcomes[8];
static unsigned outcome_count, next_outcome;
static bool refuse_gso;
static bool is_full;

static bool has_segments(const struct msghdr *header)
{
	const struct cmsghdr *control = CMSG_FIRSTHDR(header);

	return control && control->cmsg_level == SOL_UDP && control->cmsg_type == UDP_SEGMENT;
}

/* Takes the place of the C library's. */
int sendmmsg(int fd, struct mmsghdr *headers, unsigned count, int flags)
{
	if (refuse_gso && has_segments(&headers[0].msg_hdr)) {
		errno = EIO;
		return -1;
	}
	if (next_outcome < outcome_count) {
		const struct outcome *outcome = &outcomes[next_outcome++];

		if (outcome->messages == 0) {
			errno = outcome->error;
			return -1;
		}
		count = outcome->messages < count ? outcome->messages : count;
	}
	return (int)syscall(SYS_sendmmsg, fd, headers, count, flags);
}

int poll(struct pollfd *fds, nfds_t count, int timeout)
{
	return is_full ? 0 : (int)syscall(SYS_poll, fds, count, timeout);
}

static void expect(unsigned messages, int error)
{
	outcomes[outcome_count++] = (struct outcome){ messages, error };
}

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
	outcome_count = next_outcome = 0;
	refuse_gso = is_full = false;
	return 0;
}

static int close_pair(void **state)
{
	struct pair *pair = *state;

	node_close(pair->b);
	node_close(pair->a);
	return 0;
}

/* Sends packets that become messages of their own, as each is longer than the one before. */
static void send_messages(struct pair *pair, uint32_t first, uint32_t count)
{
	struct ur_path path = path_to(pair->b, IPV4_GID);

	for (uint32_t i = first; i < first + count; i++)
		node_send(pair->a, &path, qpn_of(pair->b, 5), i, 4 * i + 4);
}

static void assert_messages_arrived(struct pair *pair, size_t at, uint32_t first, uint32_t count)
{
	node_wait(pair->b, at + count);
	for (uint32_t i = 0; i < count; i++)
		assert_arrived(pair->b, at + i, qpn_of(pair->b, 5), first + i, 4 * (first + i) + 4);
}

static void assert_given_back(const struct node *node, size_t at, uint32_t first, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		assert_ptr_equal(node->unsent[at + i].owner, node);
		assert_int_equal(node->unsent[at + i].psn, first + i);
		assert_int_equal(node->unsent[at + i].opcode, UR_RC_SEND_ONLY);
	}
}

static void test_messages_that_the_system_takes_only_in_part_are_sent_by_further_calls(void **state)
{
	struct pair *pair = *state;

	expect(2, 0);
	expect(1, 0);
	send_messages(pair, 0, 6);
	node_flush(pair->a);
	assert_messages_arrived(pair, 0, 0, 6);
	assert_int_equal(pair->a->counters.tx_packets, 6);
	assert_int_equal(pair->a->counters.tx_batches, 6);
}

static void block(struct pair *pair, int error)
{
	expect(2, 0);
	expect(0, error);
	send_messages(pair, 0, 5);
	is_full = true;
	node_flush(pair->a);
}

static void blocks_and_goes_on(struct pair *pair, int error)
{
	block(pair, error);
	assert_true(pair->a->carrier->blocked);
	assert_int_equal(pair->a->unsent_count, 3);
	assert_given_back(pair->a, 0, 2, 3);
	assert_int_equal(pair->a->counters.tx_packets, 2);
	assert_int_equal(pair->a->counters.tx_blocked, 3);
	assert_int_equal(pair->a->counters.tx_failed, 0);

	assert_false(ur_link_writable(pair->a->link));
	assert_true(pair->a->carrier->blocked);
	is_full = false;
	assert_true(ur_link_writable(pair->a->link));
	assert_false(pair->a->carrier->blocked);
	send_messages(pair, 2, 3);
	node_flush(pair->a);
	assert_messages_arrived(pair, 0, 0, 5);
}

static void test_a_full_socket_blocks_the_carrier_until_there_is_room(void **state)
{
	blocks_and_goes_on(*state, EAGAIN);
}

static void test_a_system_out_of_buffers_blocks_the_carrier_alike(void **state)
{
	blocks_and_goes_on(*state, ENOBUFS);
}

static void test_packets_given_to_a_blocked_carrier_come_back_at_once(void **state)
{
	struct pair *pair = *state;

	block(pair, EAGAIN);
	send_messages(pair, 5, 1);
	assert_int_equal(pair->a->unsent_count, 4);
	assert_given_back(pair->a, 3, 5, 1);
	node_flush(pair->a);
	assert_int_equal(pair->a->counters.tx_packets, 2);
}

static void test_each_packet_of_a_message_that_does_not_go_out_comes_back(void **state)
{
	struct pair *pair = *state;
	struct ur_path path = path_to(pair->b, IPV6_GID);

	expect(0, EAGAIN);
	for (uint32_t i = 0; i < 10; i++)
		node_send(pair->a, &path, qpn_of(pair->b, 5), i, 4096);
	node_flush(pair->a);
	assert_int_equal(pair->a->unsent_count, 10);
	assert_given_back(pair->a, 0, 0, 10);
}

/* Messages of 3, 1, 2 and 2 packets. */
static void test_only_packets_of_messages_that_did_not_go_out_come_back(void **state)
{
	static const size_t sizes[] = { 8, 8, 4, 12, 16, 12, 16, 16 };
	struct pair *pair = *state;
	struct ur_path path = path_to(pair->b, IPV4_GID);

	expect(1, 0);
	expect(0, EPERM);
	expect(1, 0);
	expect(0, EAGAIN);
	for (uint32_t i = 0; i < 8; i++)
		node_send(pair->a, &path, qpn_of(pair->b, 5), i, sizes[i]);
	node_flush(pair->a);
	assert_int_equal(pair->a->counters.tx_packets, 5);
	assert_int_equal(pair->a->counters.tx_failed, 1);
	assert_int_equal(pair->a->unsent_count, 2);
	assert_given_back(pair->a, 0, 6, 2);
}

static void test_room_in_a_socket_is_watched_for_only_while_the_carrier_is_blocked(void **state)
{
	struct pair *pair = *state;

	assert_false(node_is_reported(pair->a, EPOLLOUT));
	block(pair, EAGAIN);
	assert_true(node_is_reported(pair->a, EPOLLOUT));
	is_full = false;
	assert_true(ur_link_writable(pair->a->link));
	assert_false(node_is_reported(pair->a, EPOLLOUT));
	/* It still is for packets. */
	assert_messages_arrived(pair, 0, 0, 2);
	node_send(pair->b, &(struct ur_path){ .remote = path_to(pair->a, IPV4_GID).remote },
		  qpn_of(pair->a, 5), 0, 8);
	node_flush(pair->b);
	node_wait(pair->a, 1);
}

static void test_a_message_that_the_system_refuses_is_lost_and_the_others_are_sent(void **state)
{
	struct pair *pair = *state;

	expect(1, 0);
	expect(0, EPERM);
	send_messages(pair, 0, 4);
	node_flush(pair->a);
	node_wait(pair->b, 3);
	assert_messages_arrived(pair, 1, 2, 2);
	assert_int_equal(pair->a->counters.tx_failed, 1);
	assert_int_equal(pair->a->counters.tx_packets, 3);
	assert_int_equal(pair->a->unsent_count, 0);
	assert_false(pair->a->carrier->blocked);
}

static void test_an_error_that_an_earlier_packet_met_costs_no_packet(void **state)
{
	struct pair *pair = *state;

	expect(0, ECONNREFUSED);
	send_messages(pair, 0, 3);
	node_flush(pair->a);
	assert_messages_arrived(pair, 0, 0, 3);
	assert_int_equal(pair->a->counters.tx_failed, 0);
}

static void test_an_error_that_stays_costs_one_message_only(void **state)
{
	struct pair *pair = *state;

	expect(0, ECONNREFUSED);
	expect(0, ECONNREFUSED);
	send_messages(pair, 0, 3);
	node_flush(pair->a);
	assert_messages_arrived(pair, 0, 1, 2);
	assert_int_equal(pair->a->counters.tx_failed, 1);
}

static void test_where_an_interface_cannot_segment_packets_go_one_by_one(void **state)
{
	struct pair *pair = *state;
	struct ur_path path = path_to(pair->b, IPV4_GID);

	refuse_gso = true;
	for (uint32_t i = 0; i < 8; i++)
		node_send(pair->a, &path, qpn_of(pair->b, 5), i, 1024);
	node_flush(pair->a);
	assert_int_equal(pair->a->counters.tx_failed, 8);
	for (uint32_t i = 8; i < 16; i++)
		node_send(pair->a, &path, qpn_of(pair->b, 5), i, 1024);
	node_flush(pair->a);
	node_wait(pair->b, 8);
	for (uint32_t i = 0; i < 8; i++)
		assert_arrived(pair->b, i, qpn_of(pair->b, 5), 8 + i, 1024);
	assert_int_equal(pair->a->counters.tx_failed, 8);
	assert_int_equal(pair->a->counters.tx_batches, 8);
}

/* The network namespace has no way to other hosts. */
static void test_a_host_that_cannot_be_reached_keeps_no_other_from_getting_packets(void **state)
{
	struct pair *pair = *state;
	struct ur_path nowhere = { .remote = network_address("192.0.2.1", UR_UDP_PORT) };
	struct ur_path path = path_to(pair->b, IPV4_GID);

	for (uint32_t i = 0; i < 3; i++) {
		node_send(pair->a, &nowhere, 5, i, 8);
		node_send(pair->a, &path, qpn_of(pair->b, 5), i, 8);
	}
	node_flush(pair->a);
	node_wait(pair->b, 3);
	assert_int_equal(pair->a->counters.tx_failed, 3);
}

#define pair_test(name) cmocka_unit_test_setup_teardown(name, open_pair, close_pair)

int main(void)
{
	const struct CMUnitTest tests[] = {
		pair_test(
			test_messages_that_the_system_takes_only_in_part_are_sent_by_further_calls),
		pair_test(test_a_full_socket_blocks_the_carrier_until_there_is_room),
		pair_test(test_a_system_out_of_buffers_blocks_the_carrier_alike),
		pair_test(test_packets_given_to_a_blocked_carrier_come_back_at_once),
		pair_test(test_each_packet_of_a_message_that_does_not_go_out_comes_back),
		pair_test(test_only_packets_of_messages_that_did_not_go_out_come_back),
		pair_test(test_room_in_a_socket_is_watched_for_only_while_the_carrier_is_blocked),
		pair_test(test_a_message_that_the_system_refuses_is_lost_and_the_others_are_sent),
		pair_test(test_an_error_that_an_earlier_packet_met_costs_no_packet),
		pair_test(test_an_error_that_stays_costs_one_message_only),
		pair_test(test_where_an_interface_cannot_segment_packets_go_one_by_one),
		pair_test(test_a_host_that_cannot_be_reached_keeps_no_other_from_getting_packets),
	};

	if (!network_enter())
		return 1;
	return cmocka_run_group_tests_name("link failures", tests, NULL, NULL);
}
