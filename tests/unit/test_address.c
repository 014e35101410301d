#include "support.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "address.h"

#define PORT 13579

static union rs_address address;
static char text[RS_ADDRESS_TEXT_SIZE];

static enum rs_status parse(const char *from, enum rs_address_type type)
{
	log_capture();
	/* What an earlier address has left must not be seen. */
	memset(&address, 0xff, sizeof(address));
	return rs_address_parse(from, type, PORT, &address);
}

static void assert_parsed(const char *from, enum rs_address_type type, const char *expected)
{
	assert_ok(parse(from, type));
	assert_string_equal(rs_address_text(&address.any, text), expected);
	assert_string_equal(log_text(), "");
}

static void assert_refused(const char *from, enum rs_address_type type, const char *message)
{
	assert_status(parse(from, type), RS_ERR_INVALID_VALUE);
	assert_logged(message);
}

static void test_ipv4_addresses_are_read(void **state)
{
	(void)state;
	assert_parsed("192.0.2.1", RS_ADDRESS_GUESSED, "192.0.2.1 port 13579");
	assert_parsed("192.0.2.1", RS_ADDRESS_IPV4, "192.0.2.1 port 13579");
	assert_int_equal(address.ipv4.sin_family, AF_INET);
	assert_int_equal(address.ipv4.sin_addr.s_addr, htonl(0xc0000201));
	assert_int_equal(address.ipv4.sin_port, htons(PORT));
}

static void test_ipv6_addresses_are_read(void **state)
{
	(void)state;
	assert_parsed("2001:db8::1", RS_ADDRESS_GUESSED, "2001:db8::1 port 13579");
	assert_parsed("2001:db8::1", RS_ADDRESS_IPV6, "2001:db8::1 port 13579");
	assert_int_equal(address.ipv6.sin6_family, AF_INET6);
	assert_int_equal(address.ipv6.sin6_port, htons(PORT));
	assert_int_equal(address.ipv6.sin6_scope_id, 0);
	assert_int_equal(address.ipv6.sin6_flowinfo, 0);
}

static void test_link_local_addresses_keep_their_interface(void **state)
{
	static const enum rs_address_type types[] = { RS_ADDRESS_GUESSED, RS_ADDRESS_IPV6,
						      RS_ADDRESS_GID };

	(void)state;
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		assert_parsed("fe80::1%lo", types[i], "fe80::1%lo port 13579");
		assert_int_equal(address.ipv6.sin6_scope_id, if_nametoindex("lo"));
	}
}

static void test_gids_are_read(void **state)
{
	(void)state;
	assert_parsed("fd00::7", RS_ADDRESS_GID, "fd00::7 port 13579");
	assert_parsed("0000:0000:0000:0000:0000:ffff:c000:0201", RS_ADDRESS_GID,
		      "192.0.2.1 port 13579");
	assert_parsed("::ffff:192.0.2.1", RS_ADDRESS_GID, "192.0.2.1 port 13579");
	assert_int_equal(address.any.sa_family, AF_INET);
	/* The same, whoever says it. */
	assert_parsed("::ffff:192.0.2.1", RS_ADDRESS_GUESSED, "192.0.2.1 port 13579");
	assert_parsed("::ffff:192.0.2.1", RS_ADDRESS_IPV6, "192.0.2.1 port 13579");
}

static void test_names_are_looked_up(void **state)
{
	(void)state;
	assert_parsed("localhost", RS_ADDRESS_IPV4, "127.0.0.1 port 13579");
	assert_ok(parse("localhost", RS_ADDRESS_GUESSED));
	assert_non_null(strstr(rs_address_text(&address.any, text), "1 port 13579"));
}

static void test_what_is_no_address_is_refused_with_the_reason(void **state)
{
	(void)state;
	assert_refused("", RS_ADDRESS_GUESSED, "address: error: \"\" is no address: Name or ");
	assert_refused("192.0.2.1 x", RS_ADDRESS_IPV4, "\"192.0.2.1 x\" is no IPv4 address: ");
	assert_refused("2001:db8::1", RS_ADDRESS_IPV4,
		       "\"2001:db8::1\" is no IPv4 address: Address family for hostname not "
		       "supported");
	assert_refused("192.0.2.1", RS_ADDRESS_IPV6, "\"192.0.2.1\" is no IPv6 address: ");
	assert_refused("192.0.2.1", RS_ADDRESS_GID, "\"192.0.2.1\" is no GID: ");
	/* A GID is no name, so nobody is asked. */
	assert_refused("localhost", RS_ADDRESS_GID, "\"localhost\" is no GID: Name or service");
	assert_refused("fe80::1%nowhere0", RS_ADDRESS_GID, "\"fe80::1%nowhere0\" is no GID: ");
	assert_refused("2001:db8:::1", RS_ADDRESS_GID, "\"2001:db8:::1\" is no GID: ");
	assert_refused("a\x1b[2J", RS_ADDRESS_GID, "\"a\\x1b[2J\" is no GID: ");
}

static void test_all_addresses_of_a_host_are_one(void **state)
{
	(void)state;
	memset(&address, 0xff, sizeof(address));
	rs_address_any(PORT, &address);
	assert_string_equal(rs_address_text(&address.any, text), ":: port 13579");
	assert_int_equal(address.ipv6.sin6_scope_id, 0);
}

static void test_the_longest_address_fits_its_text(void **state)
{
	struct sockaddr_in6 longest = { .sin6_family = AF_INET6,
					.sin6_port = htons(65535),
					.sin6_scope_id = UINT32_MAX };

	(void)state;
	memset(&longest.sin6_addr, 0xab, sizeof(longest.sin6_addr));
	longest.sin6_addr.s6_addr[0] = 0xfe;
	assert_string_equal(rs_address_text((struct sockaddr *)&longest, text),
			    "feab:abab:abab:abab:abab:abab:abab:abab%4294967295 port 65535");
}

static void test_what_has_no_address_has_a_text_all_the_same(void **state)
{
	(void)state;
	memset(&address, 0, sizeof(address));
	assert_string_equal(rs_address_text(&address.any, text), "an unknown address");
}

static int restore_log(void **state)
{
	(void)state;
	rs_log_set_sink(NULL, NULL);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ipv4_addresses_are_read),
		cmocka_unit_test(test_ipv6_addresses_are_read),
		cmocka_unit_test(test_link_local_addresses_keep_their_interface),
		cmocka_unit_test(test_gids_are_read),
		cmocka_unit_test(test_names_are_looked_up),
		cmocka_unit_test(test_what_is_no_address_is_refused_with_the_reason),
		cmocka_unit_test(test_all_addresses_of_a_host_are_one),
		cmocka_unit_test(test_the_longest_address_fits_its_text),
		cmocka_unit_test(test_what_has_no_address_has_a_text_all_the_same),
	};

	return cmocka_run_group_tests(tests, NULL, restore_log);
}
