/*
 * What the system says of other sockets' receive buffers: of plain UDP sockets in a network of the test's
 * own.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../../../uroce/link/address.h"
#include "../../../uroce/link/backlog.h"
#include "network.h"

#define PORT        4791
#define OTHER_PORT  4792
#define BUFFER_SIZE (1 << 20) /* the system doubles it */
#define LITTLE      1024
#define TOO_MUCH    (2 * BUFFER_SIZE + 1)

struct place {
	const char *address;
	int receiver;
	int sender;
	struct ur_flow flow;
	struct ur_backlog backlog;
};

static struct place ipv4 = { .address = "127.0.0.1" }, ipv6 = { .address = "::1" };

static void open_place(struct place *place)
{
	const int size = BUFFER_SIZE;

	place->flow.source = network_address(place->address, OTHER_PORT);
	place->flow.dest = network_address(place->address, PORT);
	place->receiver = network_socket(place->address, PORT);
	place->sender = network_socket(place->address, OTHER_PORT);
	assert_int_equal(
		setsockopt(place->receiver, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)), 0);
}

static void close_place(struct place *place)
{
	ur_backlog_close(&place->backlog);
	close(place->receiver);
	close(place->sender);
}

static int set_up(void **state)
{
	(void)state;
	open_place(&ipv4);
	open_place(&ipv6);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	close_place(&ipv4);
	close_place(&ipv6);
	return 0;
}

static bool has_room(struct place *place, uint32_t size)
{
	return ur_backlog_has_room(&place->backlog, &place->flow, size);
}

static void send_one(const struct place *place)
{
	static const char data[4096];

	assert_int_equal(sendto(place->sender, data, sizeof(data), 0, &place->flow.dest.any,
				ur_address_size(&place->flow.dest)),
			 sizeof(data));
}

/* Returns how many datagrams that were. */
static unsigned read_all(const struct place *place)
{
	char data[4096];
	unsigned count = 0;

	while (recv(place->receiver, data, sizeof(data), MSG_DONTWAIT) >= 0)
		count++;
	return count;
}

static unsigned fill_up_to_no_room(struct place *place)
{
	unsigned sent = 0;

	for (; has_room(place, LITTLE); sent++)
		send_one(place);
	return sent;
}

/* ---- Room ---- */

static void assert_buffer_fills_to_half_and_is_emptied(struct place *place)
{
	unsigned sent = fill_up_to_no_room(place);

	/* A datagram counts as what it occupies. */
	assert_in_range(sent, 1, BUFFER_SIZE / 4096 + 1);
	assert_int_equal(read_all(place), sent);
	assert_true(has_room(place, LITTLE));
}

static void a_buffer_has_room_until_it_is_half_full(void **state)
{
	(void)state;
	assert_buffer_fills_to_half_and_is_emptied(&ipv4);
	assert_buffer_fills_to_half_and_is_emptied(&ipv6);
}

static void much_fits_into_an_empty_buffer_only(void **state)
{
	(void)state;
	assert_true(has_room(&ipv4, TOO_MUCH));
	assert_true(has_room(&ipv4, BUFFER_SIZE * 3 / 2));
	send_one(&ipv4);
	assert_false(has_room(&ipv4, TOO_MUCH));
	assert_true(has_room(&ipv4, BUFFER_SIZE * 3 / 2));
}

static void another_socket_s_buffer_is_not_meant(void **state)
{
	(void)state;
	fill_up_to_no_room(&ipv4);
	assert_false(has_room(&ipv4, LITTLE));
	assert_true(has_room(&ipv6, LITTLE));
	ur_address_set_port(&ipv4.flow.dest, OTHER_PORT);
	assert_true(has_room(&ipv4, LITTLE));
}

/* ---- Not known ---- */

static void where_nobody_is_there_is_room(void **state)
{
	(void)state;
	fill_up_to_no_room(&ipv4);
	ur_address_set_port(&ipv4.flow.dest, PORT + 2);
	assert_true(has_room(&ipv4, LITTLE));
	assert_int_equal(ipv4.backlog.state, UR_BACKLOG_OPEN);
}

static void without_a_descriptor_nothing_is_known_from_then_on(void **state)
{
	struct rlimit before, none;

	(void)state;
	fill_up_to_no_room(&ipv4);
	ur_backlog_close(&ipv4.backlog);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = (struct rlimit){ 0, before.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	assert_true(has_room(&ipv4, LITTLE));
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_int_equal(ipv4.backlog.state, UR_BACKLOG_UNAVAILABLE);
	assert_true(has_room(&ipv4, LITTLE));
}

static void one_that_was_closed_is_opened_anew(void **state)
{
	(void)state;
	ur_backlog_close(&ipv4.backlog);
	assert_int_equal(ipv4.backlog.state, UR_BACKLOG_CLOSED);
	fill_up_to_no_room(&ipv4);
	assert_int_equal(ipv4.backlog.state, UR_BACKLOG_OPEN);
	ur_backlog_close(&ipv4.backlog);
	ur_backlog_close(&ipv4.backlog);
	assert_false(has_room(&ipv4, LITTLE));
}

#define backlog_test(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		backlog_test(a_buffer_has_room_until_it_is_half_full),
		backlog_test(much_fits_into_an_empty_buffer_only),
		backlog_test(another_socket_s_buffer_is_not_meant),
		backlog_test(where_nobody_is_there_is_room),
		backlog_test(without_a_descriptor_nothing_is_known_from_then_on),
		backlog_test(one_that_was_closed_is_opened_anew),
	};

	return network_enter() ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}
