#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <string.h>

#include "../../../uroce/wire/ip.h"

static union ur_sockaddr address(int family, const char *text)
{
	union ur_sockaddr address = { .any.sa_family = (sa_family_t)family };
	void *to = family == AF_INET ? (void *)&address.v4.sin_addr : &address.v6.sin6_addr;

	assert_int_equal(inet_pton(family, text, to), 1);
	return address;
}

static void test_an_ipv4_header_has_its_checksum(void **state)
{
	static const uint8_t wanted[UR_IPV4_HEADER_SIZE] = { 0x45, 0x00, 0x00, 0x73, 0x00,
							     0x00, 0x40, 0x00, 0x40, 0x11,
							     0xb8, 0x61, 0xc0, 0xa8, 0x00,
							     0x01, 0xc0, 0xa8, 0x00, 0xc7 };
	struct ur_flow flow = { address(AF_INET, "192.168.0.1"),
				address(AF_INET, "192.168.0.199") };
	uint8_t header[UR_IPV6_HEADER_SIZE];

	(void)state;
	assert_int_equal(ur_ip_header(&flow, 0, 95, header), sizeof(wanted));
	assert_memory_equal(header, wanted, sizeof(wanted));
	ur_ip_header(&flow, 0x1234, 95, header);
	assert_int_equal(header[4], 0x12);
	assert_int_equal(header[5], 0x34);
	/* A header with its checksum sums up to ones. */
	assert_int_equal(ur_ip_checksum(ur_ip_sum(0, header, UR_IPV4_HEADER_SIZE)), 0);
}

static void test_an_ipv6_header_has_its_addresses(void **state)
{
	struct ur_flow flow = { address(AF_INET6, "2001:db8::1"), address(AF_INET6, "fe80::2") };
	static const uint8_t start[] = { 0x60, 0, 0, 0, 0x01, 0x02, 17, 64 };
	uint8_t header[UR_IPV6_HEADER_SIZE];

	(void)state;
	assert_int_equal(ur_ip_header(&flow, 0, 0x102, header), UR_IPV6_HEADER_SIZE);
	assert_memory_equal(header, start, sizeof(start));
	assert_memory_equal(header + 8, &flow.source.v6.sin6_addr, 16);
	assert_memory_equal(header + 24, &flow.dest.v6.sin6_addr, 16);
}

static void test_an_odd_byte_is_the_upper_one_of_a_word(void **state)
{
	(void)state;
	assert_int_equal(ur_ip_sum(1, "\x01\x02\x03", 3), 1 + 0x0102 + 0x0300);
	assert_int_equal(ur_ip_checksum(0x1fffe), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_an_ipv4_header_has_its_checksum),
		cmocka_unit_test(test_an_ipv6_header_has_its_addresses),
		cmocka_unit_test(test_an_odd_byte_is_the_upper_one_of_a_word),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
