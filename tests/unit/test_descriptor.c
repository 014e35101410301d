#include "support.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <libdeflate.h>

#include "access.h"
#include "descriptor.h"

/*
 * The line with a CRC that is right, so that what stands in it is judged. Valid until the next
 * call.
 */
static const char *with_crc(const char *body)
{
	static char line[2048];

	snprintf(line, sizeof(line), "%s crc=%08" PRIx32, body,
		 libdeflate_crc32(0, body, strlen(body)));
	return line;
}

#define CONN                                                                              \
	"rdma1 conn name=rdma_send id=0 transport=rc link=ethernet gid=::ffff:192.0.2.1 " \
	"gid-type=rocev2 lid=0 qpn=0x000011 psn=0x5a3c01 mtu=4096 reads=16 time=1795954592"
#define MMAP  "rdma1 mmap addr=0x7f0a12340000 len=4096 rkey=0x00001234 access=remote-read time=1"
#define EVENT "rdma1 event addr=0x7f0a12340000 rkey=0x00001234 time=1"

#define LONGEST_NAME "abcdefghijklmnopqrstuvwxyz_0123456789-abcdefghi"

static enum rs_status parse(const char *line, struct rs_descriptor *descriptor, char *message)
{
	memset(message, '#', RS_DESCRIPTOR_MESSAGE_SIZE);
	return rs_descriptor_parse(line, descriptor, message);
}

static void assert_refused(const char *line, const char *expected)
{
	struct rs_descriptor descriptor, before;
	char message[RS_DESCRIPTOR_MESSAGE_SIZE];

	memset(&descriptor, 0x5a, sizeof(descriptor));
	before = descriptor;
	if (parse(line, &descriptor, message) != RS_ERR_BAD_DESCRIPTOR)
		fail_msg("accepted: %s", line);
	assert_non_null(memchr(message, '\0', sizeof(message)));
	assert_memory_equal(&descriptor, &before, sizeof(descriptor));
	if (expected)
		assert_string_equal(message, expected);
}

static void assert_accepted(const char *line)
{
	struct rs_descriptor descriptor;
	char message[RS_DESCRIPTOR_MESSAGE_SIZE];

	if (parse(line, &descriptor, message) != RS_OK)
		fail_msg("refused, %s: %s", message, line);
}

static void assert_round_trip(const struct rs_descriptor *descriptor)
{
	char line[RS_DESCRIPTOR_LINE_SIZE], again[RS_DESCRIPTOR_LINE_SIZE];
	char message[RS_DESCRIPTOR_MESSAGE_SIZE];
	struct rs_descriptor parsed;

	rs_descriptor_format(descriptor, line);
	if (parse(line, &parsed, message) != RS_OK)
		fail_msg("refused, %s: %s", message, line);
	assert_memory_equal(&parsed, descriptor, sizeof(parsed));
	rs_descriptor_format(&parsed, again);
	assert_string_equal(again, line);
}

static void test_the_lines_are_those_of_the_header(void **state)
{
	struct rs_descriptor connection = {
		.kind = RS_DESCRIPTOR_CONNECTION,
		.time = 1795954592,
		.connection = { .name = "rdma_send",
				.transport = IBV_QPT_RC,
				.link_layer = IBV_LINK_LAYER_ETHERNET,
				.gid.raw = { [10] = 0xff, 0xff, 192, 0, 2, 1 },
				.gid_type = IBV_GID_TYPE_ROCE_V2,
				.qpn = 0x11,
				.psn = 0x5a3c01,
				.mtu = 4096,
				.reads = 16 },
	};
	struct rs_descriptor mmap = {
		.kind = RS_DESCRIPTOR_MMAP,
		.time = 1,
		.mmap = { 0x7f0a12340000, 4096, 0x1234, RS_ACCESS_REMOTE_READ },
	};
	struct rs_descriptor event = {
		.kind = RS_DESCRIPTOR_EVENT,
		.time = 1,
		.event = { 0x7f0a12340000, 0x1234 },
	};
	char line[RS_DESCRIPTOR_LINE_SIZE];

	(void)state;
	rs_descriptor_format(&connection, line);
	assert_string_equal(line, with_crc(CONN));
	rs_descriptor_format(&mmap, line);
	assert_string_equal(line, with_crc(MMAP));
	rs_descriptor_format(&event, line);
	assert_string_equal(line, with_crc(EVENT));
	assert_round_trip(&connection);
	assert_round_trip(&mmap);
	assert_round_trip(&event);
}

/*
 * Independent of the library that the code uses: the check value of CRC-32, and one line worked
 * out beforehand.
 */
static void test_the_check_is_the_crc_32_that_everyone_uses(void **state)
{
	(void)state;
	assert_int_equal(libdeflate_crc32(0, "123456789", 9), 0xcbf43926);
	assert_accepted("rdma1 event addr=0x0 rkey=0x00000000 time=0 crc=32231e07");
}

static void test_extreme_values_survive(void **state)
{
	struct rs_descriptor connection = {
		.kind = RS_DESCRIPTOR_CONNECTION,
		.time = UINT64_MAX,
		.connection = { .name = LONGEST_NAME,
				.id = RS_DESCRIPTOR_MAX_ID,
				.transport = IBV_QPT_RC,
				.link_layer = IBV_LINK_LAYER_INFINIBAND,
				.gid_type = IBV_GID_TYPE_ROCE_V1,
				.lid = 0xffff,
				.qpn = 0xffffff,
				.psn = 0xffffff,
				.mtu = 256,
				.reads = 255 },
	};
	struct rs_descriptor mmap = {
		.kind = RS_DESCRIPTOR_MMAP,
		.time = UINT64_MAX,
		.mmap = { UINT64_MAX - 7, 7, UINT32_MAX,
			  RS_ACCESS_REMOTE_READ | RS_ACCESS_REMOTE_WRITE |
				  RS_ACCESS_REMOTE_ATOMIC },
	};
	struct rs_descriptor event = {
		.kind = RS_DESCRIPTOR_EVENT,
		.time = UINT64_MAX,
		.event = { UINT64_MAX - 7, UINT32_MAX },
	};

	(void)state;
	memset(connection.connection.gid.raw, 0xff, sizeof(connection.connection.gid.raw));
	assert_round_trip(&connection);
	assert_round_trip(&mmap);
	assert_round_trip(&event);
	memset(&connection.connection.gid, 0, sizeof(connection.connection.gid));
	connection.connection.lid = connection.connection.qpn = connection.connection.psn = 0;
	connection.connection.reads = connection.time = connection.connection.id = 0;
	memset(connection.connection.name, 0, sizeof(connection.connection.name));
	strcpy(connection.connection.name, RS_DESCRIPTOR_NO_NAME);
	assert_round_trip(&connection);
	mmap.mmap.addr = mmap.mmap.len = mmap.mmap.rkey = mmap.mmap.access = mmap.time = 0;
	assert_round_trip(&mmap);
	event.event.addr = event.event.rkey = event.time = 0;
	assert_round_trip(&event);
}

static uint64_t random_bits(unsigned bits)
{
	uint64_t value = 0;

	for (int i = 0; i < 5; i++)
		value = value << 15 ^ (uint64_t)rand();
	/* Small numbers are as likely as large ones. */
	value >>= (unsigned)rand() % 64;
	return bits == 64 ? value : value & ((UINT64_C(1) << bits) - 1);
}

static void random_name(char name[RS_DESCRIPTOR_NAME_SIZE])
{
	size_t length = 1 + (size_t)rand() % (RS_DESCRIPTOR_NAME_SIZE - 1);

	for (size_t i = 0; i < length; i++)
		name[i] = LONGEST_NAME[(size_t)rand() % strlen(LONGEST_NAME)];
}

static struct rs_descriptor random_connection(void)
{
	static const uint64_t mtus[] = { 256, 512, 1024, 2048, 4096 };
	struct rs_descriptor random = {
		.kind = RS_DESCRIPTOR_CONNECTION,
		.time = random_bits(64),
		.connection = { .id = random_bits(16),
				.transport = IBV_QPT_RC,
				.link_layer = rand() % 2 ? IBV_LINK_LAYER_ETHERNET
							 : IBV_LINK_LAYER_INFINIBAND,
				.gid_type = (uint64_t)rand() % 3,
				.lid = random_bits(16),
				.qpn = random_bits(24),
				.psn = random_bits(24),
				.mtu = mtus[rand() % 5],
				.reads = random_bits(8) },
	};

	random_name(random.connection.name);
	/* Runs of zeros matter in how an IPv6 address is written. */
	for (size_t i = 0; i < sizeof(random.connection.gid.raw); i++)
		random.connection.gid.raw[i] = rand() % 2 ? (uint8_t)rand() : 0;
	return random;
}

static void test_random_descriptors_survive(void **state)
{
	(void)state;
	srand(1);
	for (int i = 0; i < 20000; i++) {
		struct rs_descriptor connection = random_connection();
		struct rs_descriptor mmap = {
			.kind = RS_DESCRIPTOR_MMAP,
			.time = random_bits(64),
			.mmap = { random_bits(63), random_bits(63), random_bits(32),
				  random_bits(3) << 1 },
		};
		struct rs_descriptor event = {
			.kind = RS_DESCRIPTOR_EVENT,
			.time = random_bits(64),
			.event = { random_bits(64) & ~UINT64_C(7), random_bits(32) },
		};

		assert_round_trip(&connection);
		assert_round_trip(&mmap);
		assert_round_trip(&event);
	}
}

static void test_a_line_cut_anywhere_is_refused(void **state)
{
	static const char *const bodies[] = { CONN, MMAP, EVENT };

	(void)state;
	for (int i = 0; i < 3; i++) {
		char cut[RS_DESCRIPTOR_LINE_SIZE];
		size_t length = strlen(with_crc(bodies[i]));

		while (length-- > 0) {
			memcpy(cut, with_crc(bodies[i]), length);
			cut[length] = '\0';
			assert_refused(cut, NULL);
			/* From the front as well. */
			assert_refused(with_crc(bodies[i]) + strlen(with_crc(bodies[i])) - length,
				       NULL);
		}
	}
}

static void test_a_line_with_any_character_changed_is_refused(void **state)
{
	static const char *const bodies[] = { CONN, MMAP, EVENT };
	static const char replacements[] = "0f9F =x:.-\t\x01\xff";

	(void)state;
	for (int i = 0; i < 3; i++) {
		char changed[RS_DESCRIPTOR_LINE_SIZE];

		strcpy(changed, with_crc(bodies[i]));
		for (size_t at = 0; changed[at]; at++) {
			char was = changed[at];

			for (size_t j = 0; j < sizeof(replacements) - 1; j++) {
				changed[at] = replacements[j];
				/* A tab in front or behind would be a blank around it. */
				if (changed[at] != was)
					assert_refused(changed, NULL);
			}
			changed[at] = was;
		}
		assert_accepted(changed);
	}
}

static void test_two_characters_swapped_are_refused(void **state)
{
	char changed[RS_DESCRIPTOR_LINE_SIZE];

	(void)state;
	strcpy(changed, with_crc(CONN));
	for (size_t at = 0; changed[at + 1]; at++) {
		char first = changed[at], second = changed[at + 1];

		if (first == second)
			continue;
		changed[at] = second;
		changed[at + 1] = first;
		assert_refused(changed, NULL);
		changed[at] = first;
		changed[at + 1] = second;
	}
}

#define NO_CRC   "no crc= at its end: was the line cut while copying?"
#define MISMATCH "CRC mismatch: was the line cut or changed while copying?"

static void test_a_broken_line_is_refused_with_the_place_and_the_reason(void **state)
{
	static const struct {
		const char *line;
		const char *message;
	} cases[] = {
		{ "", "at character 1: a descriptor begins with \"rdma1\"" },
		{ "hello", "at character 1: a descriptor begins with \"rdma1\"" },
		{ "rdma2 conn", "at character 1: a descriptor begins with \"rdma1\"" },
		{ "RDMA1 conn", "at character 1: a descriptor begins with \"rdma1\"" },
		{ "rdma1", "at character 6: unknown kind \"\" (conn, mmap, event)" },
		{ "rdma1 file x", "at character 7: unknown kind \"file\" (conn, mmap, event)" },
		{ "rdma1  conn", "at character 7: unknown kind \"\" (conn, mmap, event)" },
		{ "rdma1 conn", "at character 11: " NO_CRC },
		{ "rdma1 conn crc=", "at character 12: " MISMATCH },
		{ "rdma1 conn crc=0123456789", "at character 12: " MISMATCH },
		{ "rdma1 conncrc=12345678",
		  "at character 7: unknown kind \"conncrc=12345678\" (conn, mmap, event)" },
		{ EVENT " crc=00000000", "at character 56: " MISMATCH },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_refused(cases[i].line, cases[i].message);
}

static void test_a_wrong_value_is_refused_even_with_the_right_crc(void **state)
{
	static const struct {
		const char *body;
		const char *message;
	} cases[] = {
		{ "rdma1 conn", "at character 12: missing key \"name\"" },
		{ "rdma1 event rkey=0x00001234 time=1", "at character 13: missing key \"addr\"" },
		{ "rdma1 event addr:0x8 rkey=0x00001234 time=1",
		  "at character 13: missing key \"addr\"" },
		{ "rdma1 event addr=0x8 time=1 rkey=0x00001234",
		  "at character 22: missing key \"rkey\"" },
		{ "rdma1 event addr=0x8  rkey=0x00001234 time=1",
		  "at character 22: missing key \"rkey\"" },
		{ "rdma1 event addr=0x8 rkey=0x00001234", "at character 38: missing key \"time\"" },
		{ "rdma1 event addr= rkey=0x00001234 time=1",
		  "at character 18: addr is not a number" },
		{ "rdma1 event addr=x8 rkey=0x00001234 time=1",
		  "at character 18: addr is \"x8\", which is not a number" },
		{ "rdma1 event addr=-8 rkey=0x00001234 time=1",
		  "at character 18: addr is \"-8\", which is not a number" },
		{ "rdma1 event addr=0x8g rkey=0x00001234 time=1",
		  "at character 18: addr is \"0x8g\", which is not a number" },
		{ "rdma1 event addr=0x8 rkey=0x100000000 time=1",
		  "at character 27: rkey is 0x100000000, but 0xffffffff at most" },
		{ "rdma1 event addr=0x10000000000000000 rkey=0x00001234 time=1",
		  "at character 18: addr is 0x10000000000000000, but 0xffffffffffffffff at most" },
		{ "rdma1 event addr=0x8 rkey=0x00001234 time=18446744073709551616",
		  "at character 43: time is 18446744073709551616, but 18446744073709551615 at "
		  "most" },
		{ "rdma1 event addr=0x8 rkey=0x00001234 time=111111111111111111111111",
		  "at character 43: time is not a number" },
		{ "rdma1 event addr=0x9 rkey=0x00001234 time=1",
		  "at character 13: addr is not a multiple of 8" },
		{ "rdma1 event addr=0x008 rkey=0x00001234 time=1",
		  "at character 20: not written as a descriptor is; expected \"8 rkey=0x00001234 "
		  "ti\"" },
		{ "rdma1 event addr=0xAB8 rkey=0x00001234 time=1",
		  "at character 20: not written as a descriptor is; expected \"ab8 rkey=0x00001234 "
		  "\"" },
		{ "rdma1 event addr=8 rkey=0x00001234 time=1",
		  "at character 18: not written as a descriptor is; expected \"0x8 rkey=0x00001234 "
		  "\"" },
		{ "rdma1 event addr=0x8 rkey=0x1234 time=1",
		  "at character 29: not written as a descriptor is; expected \"00001234 time=1 "
		  "crc=\"" },
		{ "rdma1 event addr=0x8 rkey=0x00001234 time=01",
		  "at character 43: not written as a descriptor is; expected \"1 crc=ef952fed\"" },
		{ "rdma1 event addr=0x8 rkey=0x00001234 time=1 more=1",
		  "at character 45: not written as a descriptor is; expected \"crc=ef952fed\"" },
		{ "rdma1 mmap addr=0xfffffffffffffff0 len=17 rkey=0x00001234 access=none time=1",
		  "at character 36: addr + len is beyond 64 bits" },
		{ "rdma1 mmap addr=0x0 len=4 rkey=0x00001234 access=local time=1",
		  "at character 50: access is \"local\", but must be one of: none, remote-read, "
		  "remote-write, remote-atomic" },
		{ "rdma1 mmap addr=0x0 len=4 rkey=0x00001234 access=remote-read+ time=1",
		  "at character 50: access is \"remote-read+\", but must be one of: none, "
		  "remote-read, remote-write, remote-atomic" },
		{ "rdma1 mmap addr=0x0 len=4 rkey=0x00001234 access= time=1",
		  "at character 50: access is \"\", but must be one of: none, remote-read, "
		  "remote-write, remote-atomic" },
		{ "rdma1 mmap addr=0x0 len=4 rkey=0x00001234 access=remote-write+remote-read "
		  "time=1",
		  "at character 57: not written as a descriptor is; expected "
		  "\"read+remote-write ti\"" },
		{ "rdma1 mmap addr=0x0 len=4 rkey=0x00001234 access=none+remote-read time=1",
		  "at character 50: not written as a descriptor is; expected "
		  "\"remote-read time=1 c\"" },
		{ "rdma1 mmap addr=0x0 len=0x4 rkey=0x00001234 access=none time=1",
		  "at character 25: len is \"0x4\", which is not a number" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_refused(with_crc(cases[i].body), cases[i].message);
}

/* CONN with one part replaced, and the CRC right. */
static const char *changed_conn(const char *part, const char *replacement)
{
	static char body[1024];
	const char *at = strstr(CONN, part);

	assert_non_null(at);
	snprintf(body, sizeof(body), "%.*s%s%s", (int)(at - CONN), CONN, replacement,
		 at + strlen(part));
	return with_crc(body);
}

static void test_wrong_values_of_a_connection_are_refused(void **state)
{
	static const struct {
		const char *part;
		const char *replacement;
		const char *message;
	} cases[] = {
		{ "name=rdma_send ", "", "at character 12: missing key \"name\"" },
		{ "rdma_send", "", "at character 17: name is empty" },
		{ "rdma_send", LONGEST_NAME "j",
		  "at character 17: name has 48 characters, but may have 47 at most" },
		{ "rdma_send", "Rdma_send",
		  "at character 17: name is \"Rdma_send\", but may have only a-z, 0-9, \"_\" and "
		  "\"-\"" },
		{ "rdma_send", "rdma.send",
		  "at character 17: name is \"rdma.send\", but may have only a-z, 0-9, \"_\" and "
		  "\"-\"" },
		{ "rdma_send", "send\n",
		  "at character 17: name is \"send\n\", but may have only a-z, 0-9, \"_\" and "
		  "\"-\"" },
		{ "id=0 ", "", "at character 27: missing key \"id\"" },
		{ "id=0", "id=65536", "at character 30: id is 65536, but 65535 at most" },
		{ "id=0", "id=-1", "at character 30: id is \"-1\", which is not a number" },
		{ "id=0", "id=00",
		  "at character 31: not written as a descriptor is; expected \" transport=rc "
		  "link=e\"" },
		{ "transport=rc", "transport=dc",
		  "at character 42: transport is \"dc\", but must be one of: rc" },
		{ "link=ethernet", "link=token-ring",
		  "at character 50: link is \"token-ring\", but must be one of: ethernet, "
		  "infiniband" },
		{ "rocev2", "rocev3",
		  "at character 89: gid-type is \"rocev3\", but must be one of: ib, rocev1, "
		  "rocev2" },
		{ "::ffff:192.0.2.1", "192.0.2.1",
		  "at character 63: gid is \"192.0.2.1\", which is not a GID" },
		{ "::ffff:192.0.2.1", "", "at character 63: gid is \"\", which is not a GID" },
		{ "::ffff:192.0.2.1", "::ffff:c000:201",
		  "at character 70: not written as a descriptor is; expected "
		  "\"192.0.2.1 gid-type=r\"" },
		{ "::ffff:192.0.2.1", "0:0:0:0:0:ffff:192.0.2.1",
		  "at character 63: not written as a descriptor is; expected "
		  "\"::ffff:192.0.2.1 gid\"" },
		{ "::ffff:192.0.2.1", "::FFFF:192.0.2.1",
		  "at character 65: not written as a descriptor is; expected "
		  "\"ffff:192.0.2.1 gid-t\"" },
		{ "lid=0", "lid=65536", "at character 100: lid is 65536, but 65535 at most" },
		{ "qpn=0x000011", "qpn=0x1000000",
		  "at character 106: qpn is 0x1000000, but 0xffffff at most" },
		{ "mtu=4096", "mtu=1500",
		  "at character 132: mtu is \"1500\", but must be one of: 256, 512, 1024, 2048, "
		  "4096" },
		{ "reads=16", "reads=256", "at character 143: reads is 256, but 255 at most" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_refused(changed_conn(cases[i].part, cases[i].replacement), cases[i].message);
	assert_refused(changed_conn("::ffff:192.0.2.1",
				    "1111111111111111111111111111111111111111111111111111111111111"
				    "111111111111"),
		       "at character 63: gid is not a GID");
}

static void test_the_place_is_counted_in_the_line_without_its_blanks(void **state)
{
	(void)state;
	assert_refused(" \t rdma1 conn \r\n", "at character 11: " NO_CRC);
}

static void test_blanks_around_a_line_are_allowed(void **state)
{
	static const char *const forms[] = { "%s\n", "%s\r\n",   "%s\r",
					     " %s",  "\t %s \t", "  %s  \r\n\n" };

	(void)state;
	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		char line[2048 + 16];
		const char *valid = with_crc(CONN);
		const char *hole = strstr(forms[i], "%s");

		snprintf(line, sizeof(line), "%.*s%s%s", (int)(hole - forms[i]), forms[i], valid,
			 hole + 2);
		assert_accepted(line);
	}
}

static void test_a_line_that_is_too_long_is_refused_without_looking_at_it(void **state)
{
	char line[1024];

	(void)state;
	memset(line, 'x', sizeof(line));
	line[RS_DESCRIPTOR_LINE_SIZE] = '\0';
	assert_refused(line, "at character 320: longer than any descriptor");
	line[RS_DESCRIPTOR_LINE_SIZE - 1] = '\0';
	assert_refused(line, "at character 1: a descriptor begins with \"rdma1\"");
	line[RS_DESCRIPTOR_LINE_SIZE - 1] = ' ';
	assert_refused(line, "at character 1: a descriptor begins with \"rdma1\"");
}

/* Text that a stranger chose must not make a message run over. */
static void test_a_long_word_does_not_overflow_the_message(void **state)
{
	char body[400], word[240];

	(void)state;
	memset(word, 'y', sizeof(word) - 1);
	word[sizeof(word) - 1] = '\0';
	snprintf(body, sizeof(body), "rdma1 %s", word);
	assert_refused(body, "at character 7: unknown kind \"yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\" "
			     "(conn, mmap, event)");
	snprintf(body, sizeof(body), "rdma1 conn name=%s", word);
	assert_refused(with_crc(body),
		       "at character 17: name has 239 characters, but may have 47 at most");
	snprintf(body, sizeof(body), "rdma1 conn name=- id=0 transport=%s", word);
	assert_refused(with_crc(body), NULL);
}

static void test_a_descriptor_of_another_kind_is_not_read(void **state)
{
	struct rs_descriptor descriptor = { .time = 5 };

	(void)state;
	log_capture();
	assert_ok(rs_descriptor_read(with_crc(EVENT), RS_DESCRIPTOR_EVENT, &descriptor));
	descriptor.time = 5;
	assert_status(rs_descriptor_read(with_crc(EVENT), RS_DESCRIPTOR_MMAP, &descriptor),
		      RS_ERR_BAD_DESCRIPTOR);
	assert_logged("descriptor: error: this is a \"event\" descriptor, wanted is a \"mmap\"");
	assert_status(rs_descriptor_read("x", RS_DESCRIPTOR_MMAP, &descriptor),
		      RS_ERR_BAD_DESCRIPTOR);
	assert_logged("descriptor: error: at character 1: a descriptor begins with");
	assert_int_equal(descriptor.time, 5);
	rs_log_set_sink(NULL, NULL);
}

static void test_names_are_short_and_of_few_characters(void **state)
{
	(void)state;
	assert_true(rs_descriptor_is_name("rdma_write-2"));
	assert_true(rs_descriptor_is_name(RS_DESCRIPTOR_NO_NAME));
	assert_true(rs_descriptor_is_name(LONGEST_NAME));
	assert_int_equal(strlen(LONGEST_NAME), RS_DESCRIPTOR_NAME_SIZE - 1);
	assert_false(rs_descriptor_is_name(LONGEST_NAME "j"));
	assert_false(rs_descriptor_is_name(""));
	assert_false(rs_descriptor_is_name("rdma send"));
	assert_false(rs_descriptor_is_name("rdma=send"));
	assert_false(rs_descriptor_is_name("Rdma"));
	assert_false(rs_descriptor_is_name("rdma\xc3\xa9"));
}

static void test_kinds_have_names(void **state)
{
	(void)state;
	assert_string_equal(rs_descriptor_kind_name(RS_DESCRIPTOR_CONNECTION), "conn");
	assert_string_equal(rs_descriptor_kind_name(RS_DESCRIPTOR_MMAP), "mmap");
	assert_string_equal(rs_descriptor_kind_name(RS_DESCRIPTOR_EVENT), "event");
	assert_string_equal(rs_descriptor_kind_name(RS_DESCRIPTOR_KIND_COUNT), "unknown");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_lines_are_those_of_the_header),
		cmocka_unit_test(test_the_check_is_the_crc_32_that_everyone_uses),
		cmocka_unit_test(test_extreme_values_survive),
		cmocka_unit_test(test_random_descriptors_survive),
		cmocka_unit_test(test_a_line_cut_anywhere_is_refused),
		cmocka_unit_test(test_a_line_with_any_character_changed_is_refused),
		cmocka_unit_test(test_two_characters_swapped_are_refused),
		cmocka_unit_test(test_a_broken_line_is_refused_with_the_place_and_the_reason),
		cmocka_unit_test(test_a_wrong_value_is_refused_even_with_the_right_crc),
		cmocka_unit_test(test_wrong_values_of_a_connection_are_refused),
		cmocka_unit_test(test_the_place_is_counted_in_the_line_without_its_blanks),
		cmocka_unit_test(test_blanks_around_a_line_are_allowed),
		cmocka_unit_test(test_a_line_that_is_too_long_is_refused_without_looking_at_it),
		cmocka_unit_test(test_a_long_word_does_not_overflow_the_message),
		cmocka_unit_test(test_a_descriptor_of_another_kind_is_not_read),
		cmocka_unit_test(test_names_are_short_and_of_few_characters),
		cmocka_unit_test(test_kinds_have_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
