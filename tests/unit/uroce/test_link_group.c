#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "link_nodes.h"
#include "network.h"

#define GROUP         "224.0.1.77"
#define OTHER_GROUP   "239.1.2.3"
#define STRANGER_PORT 5000

/* What a group is, the link does not look at. */
static const char marks[UR_MAX_GROUPS + 1];

static const struct ur_group *mark(unsigned i)
{
	return (const struct ur_group *)&marks[i];
}

/* Three processes: number 0, the owner of 4791, and two more. */
struct host {
	struct node *owner;
	struct node *second;
	struct node *third;
};

static int open_host(void **state)
{
	static struct host host;

	host.owner = node_open();
	host.second = node_open();
	host.third = node_open();
	*state = &host;
	return 0;
}

static int close_host(void **state)
{
	struct host *host = *state;

	node_close(host->third);
	node_close(host->second);
	if (host->owner)
		node_close(host->owner);
	return 0;
}

static int join(struct node *node, const char *address, unsigned i)
{
	const union ur_sockaddr group = network_address(address, 0);

	return ur_link_join_group(node->link, &group, LOOPBACK, mark(i));
}

static void send_to(struct node *node, const char *group, uint32_t qpn, uint32_t psn)
{
	struct ur_path path = { .remote = network_address(group, UR_UDP_PORT),
				.gid_index = IPV4_GID };

	node_send(node, &path, qpn, psn, 100);
	node_flush(node);
}

static void send_to_group(struct node *node, uint32_t psn)
{
	send_to(node, GROUP, UR_MULTICAST_QPN, psn);
}

/* The number of a packet, and nothing else, has come. */
static void assert_next(struct node *node, size_t index, uint32_t psn)
{
	node_wait(node, index + 1);
	assert_arrived(node, index, UR_MULTICAST_QPN, psn, 100);
	assert_int_equal(node->count, index + 1);
}

/* ---- Copies ---- */

static void test_each_process_that_has_joined_gets_one_copy(void **state)
{
	struct host *host = *state;

	assert_int_equal(join(host->owner, GROUP, 0), 0);
	assert_int_equal(join(host->second, GROUP, 0), 0);
	for (uint32_t psn = 1; psn < 5; psn++) {
		send_to_group(host->third, psn);
		assert_next(host->owner, psn - 1, psn);
		assert_next(host->second, psn - 1, psn);
	}
	node_receive(host->third);
	assert_int_equal(host->third->counters.rx_packets, 0);
	assert_int_equal(host->owner->counters.rx_forwarded, 0);
}

static void test_the_sender_gets_its_copy_too(void **state)
{
	struct host *host = *state;

	assert_int_equal(join(host->second, GROUP, 0), 0);
	send_to_group(host->second, 1);
	assert_next(host->second, 0, 1);
}

static void test_packets_of_one_message_come_all(void **state)
{
	struct host *host = *state;
	struct ur_path path = { .remote = network_address(GROUP, UR_UDP_PORT) };

	assert_int_equal(join(host->owner, GROUP, 0), 0);
	assert_int_equal(join(host->second, GROUP, 0), 0);
	for (uint32_t psn = 0; psn < UR_MAX_GROUPS; psn++)
		node_send(host->third, &path, UR_MULTICAST_QPN, psn, 100);
	node_flush(host->third);
	node_wait(host->owner, UR_MAX_GROUPS);
	node_wait(host->second, UR_MAX_GROUPS);
	for (uint32_t psn = 0; psn < UR_MAX_GROUPS; psn++) {
		assert_arrived(host->owner, psn, UR_MULTICAST_QPN, psn, 100);
		assert_arrived(host->second, psn, UR_MULTICAST_QPN, psn, 100);
	}
}

static void test_who_has_left_gets_nothing_and_the_others_go_on(void **state)
{
	struct host *host = *state;

	assert_int_equal(join(host->owner, GROUP, 0), 0);
	assert_int_equal(join(host->owner, OTHER_GROUP, 1), 0);
	assert_int_equal(join(host->second, GROUP, 0), 0);
	ur_link_leave_group(host->owner->link, mark(0));
	send_to_group(host->third, 1);
	send_to(host->third, OTHER_GROUP, UR_MULTICAST_QPN, 2);
	assert_next(host->second, 0, 1);
	assert_next(host->owner, 0, 2);
	assert_int_equal(join(host->owner, GROUP, 0), 0);
	send_to_group(host->third, 3);
	assert_next(host->owner, 1, 3);
}

static void test_no_process_needs_the_owner(void **state)
{
	struct host *host = *state;

	assert_int_equal(join(host->owner, GROUP, 0), 0);
	assert_int_equal(join(host->second, GROUP, 0), 0);
	node_close(host->owner);
	host->owner = NULL;
	send_to_group(host->third, 1);
	assert_next(host->second, 0, 1);
	ur_link_owner_tick(host->second->link);
	assert_true(ur_link_is_owner(host->second->link));
	send_to_group(host->third, 2);
	assert_next(host->second, 1, 2);
}

/* ---- Which group ---- */

struct seen {
	struct ur_link *link;
	const struct ur_group *groups[4];
	unsigned count;
};

static void see(void *user_data, const struct ur_packet *packet, const struct ur_path *from)
{
	struct seen *seen = user_data;

	(void)packet;
	(void)from;
	seen->groups[seen->count++] = ur_link_group(seen->link);
}

static void test_the_group_of_a_packet_is_known(void **state)
{
	struct host *host = *state;
	struct seen seen = { .link = host->second->link };
	struct ur_path own = path_to(host->second, IPV4_GID);
	const char *groups[] = { GROUP, OTHER_GROUP };

	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(join(host->second, groups[i], i), 0);
		send_to(host->third, groups[i], UR_MULTICAST_QPN, i);
		while (seen.count == i)
			ur_link_receive(host->second->link, see, &seen);
		assert_ptr_equal(seen.groups[i], mark(i));
	}
	node_send(host->third, &own, qpn_of(host->second, 5), 3, 0);
	node_flush(host->third);
	while (seen.count == 2)
		ur_link_receive(host->second->link, see, &seen);
	assert_null(seen.groups[2]);
}

/* ---- Limits and faults ---- */

static void test_there_are_so_many_groups_and_no_more(void **state)
{
	struct host *host = *state;
	char address[16];

	for (unsigned i = 0; i < UR_MAX_GROUPS; i++) {
		snprintf(address, sizeof(address), "239.0.0.%u", i);
		assert_int_equal(join(host->second, address, i), 0);
	}
	assert_int_equal(join(host->second, GROUP, UR_MAX_GROUPS), ENOMEM);
	ur_link_leave_group(host->second->link, mark(7));
	assert_int_equal(join(host->second, GROUP, UR_MAX_GROUPS), 0);
	send_to_group(host->third, 1);
	assert_next(host->second, 0, 1);
}

static void test_an_address_that_is_no_group_or_an_interface_that_is_none_is_refused(void **state)
{
	struct host *host = *state;
	const union ur_sockaddr group = network_address(GROUP, 0);

	assert_int_equal(join(host->second, "127.0.0.9", 0), EINVAL);
	assert_int_not_equal(ur_link_join_group(host->second->link, &group, 4711, mark(0)), 0);
	assert_int_equal(join(host->second, GROUP, 0), 0);
}

/* One who does not share it has the group's port. */
static void test_a_port_that_a_stranger_has_alone_is_refused(void **state)
{
	struct host *host = *state;
	int stranger = network_socket(GROUP, UR_UDP_PORT);

	assert_int_equal(join(host->second, GROUP, 0), EADDRINUSE);
	close(stranger);
	assert_int_equal(join(host->second, GROUP, 0), 0);
}

static void test_epoll_reports_a_group_only_while_the_link_is_watched(void **state)
{
	struct host *host = *state;

	assert_int_equal(join(host->second, GROUP, 0), 0);
	ur_link_watch(host->second->link, false);
	assert_int_equal(join(host->second, OTHER_GROUP, 1), 0);
	send_to_group(host->third, 1);
	send_to(host->third, OTHER_GROUP, UR_MULTICAST_QPN, 2);
	assert_false(node_is_reported(host->second, EPOLLIN));
	ur_link_watch(host->second->link, true);
	assert_true(node_is_reported(host->second, EPOLLIN));
	node_wait(host->second, 2);
	assert_false(node_is_reported(host->second, EPOLLIN));
}

/* ---- Packets that nobody should send ---- */

/* From a stranger's socket, which sends by the loopback interface. */
static void send_as_stranger(const char *to, uint32_t qpn, bool spoilt)
{
	struct ur_flow flow = { .source = network_address("127.0.0.1", STRANGER_PORT),
				.dest = network_address(to, UR_UDP_PORT) };
	struct ur_packet packet = { .opcode = UR_UD_SEND_ONLY,
				    .pkey = UR_DEFAULT_PKEY,
				    .dest_qpn = qpn,
				    .payload_length = 8 };
	int fd = network_socket("127.0.0.1", STRANGER_PORT);
	const struct in_addr interface = flow.source.v4.sin_addr;
	uint8_t datagram[128];
	size_t length = build_datagram(&packet, &flow, 0, (const uint8_t *)"8 bytes", datagram);

	datagram[length - 1] ^= spoilt;
	assert_int_equal(setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &interface, sizeof(interface)),
			 0);
	assert_int_equal(sendto(fd, datagram, length, 0, &flow.dest.any, sizeof(flow.dest.v4)),
			 length);
	close(fd);
}

static void wait_for_packets(struct node *node, uint64_t count)
{
	struct epoll_event event;

	while (node->counters.rx_packets < count) {
		assert_int_equal(epoll_wait(node->epoll_fd, &event, 1, 10000), 1);
		node_receive(node);
	}
}

static void test_only_a_groups_own_number_is_received_there(void **state)
{
	struct host *host = *state;
	const uint32_t numbers[] = { 0,       1, 5, qpn_of(host->second, 5), qpn_of(host->third, 5),
				     0xff0005 };

	assert_int_equal(join(host->owner, GROUP, 0), 0);
	assert_int_equal(join(host->second, GROUP, 0), 0);
	for (size_t i = 0; i < 6; i++)
		send_as_stranger(GROUP, numbers[i], false);
	wait_for_packets(host->owner, 6);
	wait_for_packets(host->second, 6);
	assert_int_equal(host->owner->counters.rx_unknown_qp, 6);
	assert_int_equal(host->second->counters.rx_unknown_qp, 6);
	assert_int_equal(host->owner->counters.rx_forwarded, 0);
	assert_int_equal(host->owner->count + host->second->count, 0);
}

static void test_the_number_of_groups_is_received_at_no_other_address(void **state)
{
	struct host *host = *state;

	send_as_stranger("127.0.0.1", UR_MULTICAST_QPN, false);
	wait_for_packets(host->owner, 1);
	assert_int_equal(host->owner->counters.rx_unknown_qp, 1);
	assert_int_equal(host->owner->counters.rx_forwarded, 0);
}

static void test_a_group_that_nobody_has_joined_is_not_received(void **state)
{
	struct host *host = *state;

	assert_int_equal(join(host->second, GROUP, 0), 0);
	send_as_stranger(OTHER_GROUP, UR_MULTICAST_QPN, false);
	send_as_stranger(GROUP, UR_MULTICAST_QPN, false);
	node_wait(host->second, 1);
	node_receive(host->owner);
	assert_int_equal(host->second->counters.rx_packets, 1);
	assert_int_equal(host->owner->counters.rx_packets, 0);
}

static void test_a_wrong_icrc_is_found_in_groups_too(void **state)
{
	struct host *host = *state;

	assert_int_equal(join(host->second, GROUP, 0), 0);
	send_as_stranger(GROUP, UR_MULTICAST_QPN, true);
	wait_for_packets(host->second, 1);
	assert_int_equal(host->second->counters.rx_bad_icrc, 1);
	assert_int_equal(host->second->count, 0);
}

#define host_test(name) cmocka_unit_test_setup_teardown(name, open_host, close_host)

int main(void)
{
	const struct CMUnitTest tests[] = {
		host_test(test_each_process_that_has_joined_gets_one_copy),
		host_test(test_the_sender_gets_its_copy_too),
		host_test(test_packets_of_one_message_come_all),
		host_test(test_who_has_left_gets_nothing_and_the_others_go_on),
		host_test(test_no_process_needs_the_owner),
		host_test(test_the_group_of_a_packet_is_known),
		host_test(test_there_are_so_many_groups_and_no_more),
		host_test(test_an_address_that_is_no_group_or_an_interface_that_is_none_is_refused),
		host_test(test_a_port_that_a_stranger_has_alone_is_refused),
		host_test(test_epoll_reports_a_group_only_while_the_link_is_watched),
		host_test(test_only_a_groups_own_number_is_received_there),
		host_test(test_the_number_of_groups_is_received_at_no_other_address),
		host_test(test_a_group_that_nobody_has_joined_is_not_received),
		host_test(test_a_wrong_icrc_is_found_in_groups_too),
	};

	if (!network_enter())
		return 1;
	return cmocka_run_group_tests_name("link_group", tests, NULL, NULL);
}
