#include "support.h"

#include <stdio.h>
#include <string.h>

#include "access.h"
#include "hello.h"

#define ADDRESS UINT64_C(0x7f0012345678)
#define NAME    24 /* where it begins */

static struct rs_hello hello;

static enum rs_status decode(const uint8_t data[RS_HELLO_SIZE])
{
	return rs_hello_decode(data, RS_HELLO_SIZE, &hello);
}

static struct rs_descriptor decoded_resource(enum rs_descriptor_kind kind)
{
	struct rs_descriptor resource;

	assert_ok(rs_descriptor_read(hello.resource, kind, &resource));
	assert_in_range(resource.time, rs_descriptor_now() - 60, rs_descriptor_now());
	return resource;
}

static void test_a_name_alone_goes_there_and_back(void **state)
{
	uint8_t data[RS_HELLO_SIZE];

	(void)state;
	assert_ok(rs_hello_encode("rdma_send", NULL, data));
	assert_memory_equal(data, "rsh1\0\0\0\0", 8);
	assert_string_equal((const char *)data + NAME, "rdma_send");
	assert_ok(decode(data));
	assert_string_equal(hello.name, "rdma_send");
	assert_string_equal(hello.resource, "");
}

static void test_a_map_goes_there_and_back(void **state)
{
	static const uint8_t head[NAME] = { 'r', 's', 'h',  '1',  1,    6,    0,    0,
					    0,   0,   0x12, 0x34, 0,    0,    0x10, 0,
					    0,   0,   0x7f, 0,    0x12, 0x34, 0x56, 0x78 };
	uint8_t data[RS_HELLO_SIZE];
	struct rs_descriptor map;

	(void)state;
	assert_ok(rs_hello_encode("x", peer_mmap_line(ADDRESS, 4096, 0x1234), data));
	assert_memory_equal(data, head, sizeof(head));
	assert_ok(decode(data));
	map = decoded_resource(RS_DESCRIPTOR_MMAP);
	assert_int_equal(map.mmap.addr, ADDRESS);
	assert_int_equal(map.mmap.len, 4096);
	assert_int_equal(map.mmap.rkey, 0x1234);
	assert_int_equal(map.mmap.access, RS_ACCESS_REMOTE_READ | RS_ACCESS_REMOTE_WRITE);
}

static void test_an_event_goes_there_and_back(void **state)
{
	uint8_t data[RS_HELLO_SIZE];
	struct rs_descriptor event;

	(void)state;
	assert_ok(rs_hello_encode("x", peer_event_line(ADDRESS, UINT32_MAX), data));
	assert_ok(decode(data));
	event = decoded_resource(RS_DESCRIPTOR_EVENT);
	assert_int_equal(event.event.addr, ADDRESS);
	assert_int_equal(event.event.rkey, UINT32_MAX);
}

static void test_the_largest_values_go_there_and_back(void **state)
{
	const char *name = "a234567890123456789012345678901"; /* 31 */
	uint8_t data[RS_HELLO_SIZE];
	struct rs_descriptor map;

	(void)state;
	assert_ok(rs_hello_encode(
		name, peer_mmap_line(UINT64_MAX - UINT32_MAX, UINT32_MAX, UINT32_MAX), data));
	assert_ok(decode(data));
	assert_string_equal(hello.name, name);
	map = decoded_resource(RS_DESCRIPTOR_MMAP);
	assert_int_equal(map.mmap.addr, UINT64_MAX - UINT32_MAX);
	assert_int_equal(map.mmap.len, UINT32_MAX);
	assert_int_equal(map.mmap.rkey, UINT32_MAX);
}

static void test_what_does_not_fit_is_refused(void **state)
{
	uint8_t data[RS_HELLO_SIZE];

	(void)state;
	assert_status(rs_hello_encode("a2345678901234567890123456789012", NULL, data),
		      RS_ERR_TOO_BIG);
	assert_status(rs_hello_encode("x", peer_mmap_line(ADDRESS, 1UL << 32, 1), data),
		      RS_ERR_TOO_BIG);
	assert_status(rs_hello_encode("x", peer_connection_line(1), data), RS_ERR_BAD_DESCRIPTOR);
	assert_status(rs_hello_encode("x", "damaged", data), RS_ERR_BAD_DESCRIPTOR);
}

/* Each of length bytes may hold nothing but what is there: what else is refused. */
static void assert_fixed(const uint8_t good[RS_HELLO_SIZE], size_t first, size_t length)
{
	uint8_t data[RS_HELLO_SIZE];

	for (size_t at = first; at < first + length; at++) {
		memcpy(data, good, sizeof(data));
		data[at] ^= 0x80;
		if (decode(data) != RS_ERR_BAD_DESCRIPTOR)
			fail_msg("byte %zu is not looked at", at);
	}
}

static void test_damaged_fields_are_refused(void **state)
{
	uint8_t data[RS_HELLO_SIZE];

	(void)state;
	/* All but the map's key, length and address, of which any may be. */
	assert_ok(rs_hello_encode("x", peer_mmap_line(ADDRESS, 4096, 0x1234), data));
	assert_fixed(data, 0, 8);
	assert_fixed(data, NAME, RS_HELLO_NAME_SIZE);
	/* An event has neither access nor length; its address is aligned. */
	assert_ok(rs_hello_encode("x", peer_event_line(ADDRESS, 0x1234), data));
	assert_fixed(data, 0, 8);
	assert_fixed(data, 12, 4);
	data[23] |= 1;
	assert_status(decode(data), RS_ERR_BAD_DESCRIPTOR);
	assert_ok(rs_hello_encode("x", NULL, data));
	assert_fixed(data, 0, NAME);
}

static void test_each_kind_and_access_that_is_none_is_refused(void **state)
{
	uint8_t data[RS_HELLO_SIZE];

	(void)state;
	assert_ok(rs_hello_encode("x", peer_mmap_line(ADDRESS, 4096, 0x1234), data));
	for (unsigned access = 0; access <= UINT8_MAX; access++) {
		bool known = (access & ~(unsigned)RS_ACCESS_ALL) == 0 &&
			     !(access & RS_ACCESS_LOCAL_READ_WRITE);

		data[5] = (uint8_t)access;
		assert_status(decode(data), known ? RS_OK : RS_ERR_BAD_DESCRIPTOR);
	}
	data[5] = 0;
	for (unsigned kind = 2; kind <= UINT8_MAX; kind++) {
		data[4] = (uint8_t)kind;
		assert_status(decode(data), RS_ERR_BAD_DESCRIPTOR);
	}
}

static void test_a_map_that_wraps_around_is_refused(void **state)
{
	uint8_t data[RS_HELLO_SIZE];

	(void)state;
	assert_ok(rs_hello_encode("x", peer_mmap_line(UINT64_MAX - 4096, 4096, 1), data));
	assert_ok(decode(data));
	data[15] = 1; /* length: 4097 */
	assert_status(decode(data), RS_ERR_BAD_DESCRIPTOR);
}

static void test_names_that_are_none_are_refused(void **state)
{
	static const char *const names[] = { "", "a b", "\x1b[2J", "A", "\xff" };
	uint8_t data[RS_HELLO_SIZE];

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		assert_ok(rs_hello_encode(names[i], NULL, data));
		assert_status(decode(data), RS_ERR_BAD_DESCRIPTOR);
	}
	/* Without an end. */
	memset(data + NAME, 'x', RS_HELLO_NAME_SIZE);
	assert_status(decode(data), RS_ERR_BAD_DESCRIPTOR);
}

static void test_the_length_may_be_more_but_not_less(void **state)
{
	uint8_t data[196] = { 0 }; /* what a RoCE answer brings */

	(void)state;
	assert_ok(rs_hello_encode("x", NULL, data));
	assert_ok(rs_hello_decode(data, sizeof(data), &hello));
	for (size_t length = 0; length < RS_HELLO_SIZE; length++)
		assert_status(rs_hello_decode(data, length, &hello), RS_ERR_BAD_DESCRIPTOR);
	assert_status(rs_hello_decode(NULL, 0, &hello), RS_ERR_BAD_DESCRIPTOR);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_name_alone_goes_there_and_back),
		cmocka_unit_test(test_a_map_goes_there_and_back),
		cmocka_unit_test(test_an_event_goes_there_and_back),
		cmocka_unit_test(test_the_largest_values_go_there_and_back),
		cmocka_unit_test(test_what_does_not_fit_is_refused),
		cmocka_unit_test(test_damaged_fields_are_refused),
		cmocka_unit_test(test_each_kind_and_access_that_is_none_is_refused),
		cmocka_unit_test(test_a_map_that_wraps_around_is_refused),
		cmocka_unit_test(test_names_that_are_none_are_refused),
		cmocka_unit_test(test_the_length_may_be_more_but_not_less),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
