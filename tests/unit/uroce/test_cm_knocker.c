/* Knocks at ports of addresses of this host, in a network of its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../../../uroce/cm/knocker.h"
#include "../../../uroce/link/address.h"
#include "network.h"

#define LOCAL_ID  0x01000017
#define REMOTE_ID 0x02000029
#define WAIT_MS   10000

/* Source and destination. */
static const char *const families[][2] = { { "127.0.0.1", "127.0.0.2" }, { "::1", "::1" } };
#define FAMILIES (sizeof(families) / sizeof(families[0]))

static struct ur_knocker *open_at(const char *address)
{
	/* Its port does not matter. */
	const union ur_sockaddr source = network_address(address, UR_UDP_PORT);
	struct ur_knocker *knocker = ur_knocker_open(&source);

	assert_non_null(knocker);
	assert_int_not_equal(ur_address_port(&knocker->source), 0);
	assert_int_not_equal(ur_address_port(&knocker->source), UR_UDP_PORT);
	return knocker;
}

static bool has_something(const struct ur_knocker *knocker, int ms)
{
	struct pollfd waiting = { .fd = knocker->fd, .events = POLLIN };

	return poll(&waiting, 1, ms) > 0;
}

static void assert_hears(const struct ur_knocker *knocker, const union ur_sockaddr *dest)
{
	struct ur_cm_message message;
	union ur_sockaddr address;

	assert_true(has_something(knocker, WAIT_MS));
	assert_true(ur_knocker_hear(knocker, &address, &message));
	assert_true(ur_address_equal(&address, dest));
	assert_int_equal(message.kind, UR_CM_MRA);
	assert_int_equal(message.local_id, LOCAL_ID);
	assert_int_equal(message.remote_id, REMOTE_ID);
}

static void assert_hears_nothing(const struct ur_knocker *knocker)
{
	struct ur_cm_message message;
	union ur_sockaddr address;

	assert_false(ur_knocker_hear(knocker, &address, &message));
	assert_false(has_something(knocker, 0));
}

static void test_a_port_that_nobody_has_is_heard_of(void **state)
{
	(void)state;
	for (size_t i = 0; i < FAMILIES; i++) {
		struct ur_knocker *knocker = open_at(families[i][0]);
		const union ur_sockaddr dest = network_address(families[i][1], 7000);

		/* A second one is not kept back by what the first has brought. */
		ur_knocker_send(knocker, &dest, LOCAL_ID, REMOTE_ID);
		ur_knocker_send(knocker, &dest, LOCAL_ID, REMOTE_ID);
		assert_hears(knocker, &dest);
		assert_hears(knocker, &dest);
		assert_hears_nothing(knocker);
		ur_knocker_close(knocker);
	}
}

/* What comes there is a good packet, as any of the connection manager's. */
static void test_who_has_the_port_gets_a_message(void **state)
{
	(void)state;
	for (size_t i = 0; i < FAMILIES; i++) {
		struct ur_knocker *knocker = open_at(families[i][0]);
		struct ur_flow flow = { .source = knocker->source,
					.dest = network_address(families[i][1], UR_UDP_PORT) };
		int fd = network_socket(families[i][1], UR_UDP_PORT);
		struct ur_cm_message message;
		struct ur_packet packet;
		uint8_t bytes[1024];
		uint16_t ip_id = 0;
		ssize_t size;

		ur_knocker_send(knocker, &flow.dest, LOCAL_ID, REMOTE_ID);
		size = recv(fd, bytes, sizeof(bytes), 0);
		assert_true(size > 0);
		assert_true(ur_icrc_check(&flow, bytes, (size_t)size, false, &ip_id));
		assert_int_equal(ur_packet_decode(bytes, (size_t)size, &packet), UR_DECODED);
		assert_int_equal(packet.dest_qpn, UR_GSI_QPN);
		assert_int_equal(ur_cm_decode(packet.payload, packet.payload_length, &message),
				 UR_CM_DECODED);
		assert_int_equal(message.local_id, LOCAL_ID);
		assert_hears_nothing(knocker);
		close(fd);
		ur_knocker_close(knocker);
	}
}

/* They would be readable for ever, and take the room of what is to be heard. */
static void test_datagrams_of_strangers_are_thrown_away(void **state)
{
	struct ur_knocker *knocker = open_at("127.0.0.1");
	const union ur_sockaddr dest = network_address("127.0.0.2", 7000);
	int fd = network_socket("127.0.0.2", 5000);

	(void)state;
	for (unsigned i = 0; i < 10; i++)
		assert_int_equal(sendto(fd, "hello", 5, 0, &knocker->source.any,
					ur_address_size(&knocker->source)),
				 5);
	assert_true(has_something(knocker, WAIT_MS));
	assert_hears_nothing(knocker);
	ur_knocker_send(knocker, &dest, LOCAL_ID, REMOTE_ID);
	assert_hears(knocker, &dest);
	close(fd);
	ur_knocker_close(knocker);
}

static void test_an_address_of_nobody_cannot_be_knocked_from(void **state)
{
	const union ur_sockaddr source = network_address("192.0.2.1", 0);

	(void)state;
	assert_null(ur_knocker_open(&source));
	assert_int_equal(errno, EADDRNOTAVAIL);
	ur_knocker_close(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_port_that_nobody_has_is_heard_of),
		cmocka_unit_test(test_who_has_the_port_gets_a_message),
		cmocka_unit_test(test_datagrams_of_strangers_are_thrown_away),
		cmocka_unit_test(test_an_address_of_nobody_cannot_be_knocked_from),
	};

	return network_enter() ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}
