#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "../../../uroce/wire/packet.h"
#include "pcap_reader.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Header sizes by opcode, 0 for those that do not exist. */
static const uint8_t header_sizes[256] = {
	/* RC */
	[0x00] = 12,
	[0x01] = 12,
	[0x02] = 12,
	[0x03] = 16,
	[0x04] = 12,
	[0x05] = 16,
	[0x06] = 28,
	[0x07] = 12,
	[0x08] = 12,
	[0x09] = 16,
	[0x0a] = 28,
	[0x0b] = 32,
	[0x0c] = 28,
	[0x0d] = 16,
	[0x0e] = 12,
	[0x0f] = 16,
	[0x10] = 16,
	[0x11] = 16,
	[0x12] = 24,
	[0x13] = 40,
	[0x14] = 40,
	[0x16] = 16,
	[0x17] = 16,
	[0x1d] = 28,
	/* UC */
	[0x20] = 12,
	[0x21] = 12,
	[0x22] = 12,
	[0x23] = 16,
	[0x24] = 12,
	[0x25] = 16,
	[0x26] = 28,
	[0x27] = 12,
	[0x28] = 12,
	[0x29] = 16,
	[0x2a] = 28,
	[0x2b] = 32,
	/* UD */
	[0x64] = 20,
	[0x65] = 24,
	/* XRC: four more in requests */
	[0xa0] = 16,
	[0xa1] = 16,
	[0xa2] = 16,
	[0xa3] = 20,
	[0xa4] = 16,
	[0xa5] = 20,
	[0xa6] = 32,
	[0xa7] = 16,
	[0xa8] = 16,
	[0xa9] = 20,
	[0xaa] = 32,
	[0xab] = 36,
	[0xac] = 32,
	[0xad] = 16,
	[0xae] = 12,
	[0xaf] = 16,
	[0xb0] = 16,
	[0xb1] = 16,
	[0xb2] = 24,
	[0xb3] = 44,
	[0xb4] = 44,
	[0xb6] = 20,
	[0xb7] = 20,
	[0xbd] = 32,
};

static struct pcap vectors;

static int read_vectors(void **state)
{
	(void)state;
	return pcap_add_folder(&vectors, VECTORS_FOLDER) ? 0 : -1;
}

static int free_vectors(void **state)
{
	(void)state;
	pcap_free(&vectors);
	return 0;
}

static void assert_decodes(const void *data, size_t length, struct ur_packet *packet)
{
	assert_int_equal(ur_packet_decode(data, length, packet), UR_DECODED);
}

/* The datagram that decoding and encoding make of one, with the ICRC of this flow. */
static size_t encode_again(const struct pcap_packet *vector, uint8_t *out)
{
	static const uint8_t zeros[3];
	uint8_t headers[UR_MAX_HEADERS];
	struct ur_packet packet;
	struct iovec parts[3] = { { .iov_base = headers } };
	size_t used = 0;
	uint32_t icrc;

	assert_decodes(vector->data, vector->length, &packet);
	parts[0].iov_len = ur_packet_encode(&packet, headers);
	parts[1].iov_base = (void *)(uintptr_t)packet.payload;
	parts[1].iov_len = packet.payload_length;
	parts[2].iov_base = (void *)(uintptr_t)zeros;
	parts[2].iov_len = ur_padding(packet.payload_length);
	icrc = htole32(ur_icrc(&vector->flow, vector->ip_id, parts, COUNT(parts)));
	for (size_t i = 0; i < COUNT(parts); i++) {
		memcpy(out + used, parts[i].iov_base, parts[i].iov_len);
		used += parts[i].iov_len;
	}
	memcpy(out + used, &icrc, sizeof(icrc));
	return used + sizeof(icrc);
}

static void test_every_packet_of_the_kernel_becomes_the_same_again(void **state)
{
	uint8_t out[UR_MAX_HEADERS + 4096 + UR_ICRC_SIZE];

	(void)state;
	for (size_t i = 0; i < vectors.count; i++) {
		const struct pcap_packet *vector = &vectors.packets[i];

		assert_in_range(vector->length, 0, sizeof(out));
		assert_int_equal(encode_again(vector, out), vector->length);
		assert_memory_equal(out, vector->data, vector->length);
	}
}

static void test_the_vectors_hold_all_that_the_kernel_sent(void **state)
{
	static const uint8_t sent[] = { 0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10,  12, 13,
					14, 15, 16, 17, 18, 19, 20, 32, 33, 34, 100, 101 };
	bool seen[256] = { false };
	size_t kinds = 0;

	(void)state;
	for (size_t i = 0; i < vectors.count; i++) {
		kinds += !seen[vectors.packets[i].data[0]];
		seen[vectors.packets[i].data[0]] = true;
	}
	assert_int_equal(kinds, sizeof(sent));
	for (size_t i = 0; i < sizeof(sent); i++)
		assert_true(seen[sent[i]]);
}

static void test_each_opcode_has_the_headers_of_the_specification(void **state)
{
	(void)state;
	for (unsigned opcode = 0; opcode < COUNT(header_sizes); opcode++) {
		bool known = header_sizes[opcode] > 0;

		assert_int_equal(ur_opcode_flags((uint8_t)opcode) != 0, known);
		if (known)
			assert_int_equal(ur_headers_size((uint8_t)opcode), header_sizes[opcode]);
	}
}

static void test_each_operation_has_a_name_in_every_service(void **state)
{
	(void)state;
	assert_string_equal(ur_opcode_name(UR_RC_SEND_FIRST), "SEND_FIRST");
	assert_string_equal(ur_opcode_name(UR_UC_WRITE_ONLY_IMM), "WRITE_ONLY_IMM");
	assert_string_equal(ur_opcode_name(UR_UD_SEND_ONLY), "SEND_ONLY");
	assert_string_equal(ur_opcode_name(UR_RC_SEND_ONLY_INV), "SEND_ONLY_INV");
	assert_string_equal(ur_opcode_name(UR_RC_ATOMIC_WRITE), "ATOMIC_WRITE");
	for (unsigned opcode = 0; opcode < COUNT(header_sizes); opcode++)
		assert_int_equal(strcmp(ur_opcode_name((uint8_t)opcode), "?") == 0,
				 header_sizes[opcode] == 0);
}

static void assert_flags(uint8_t opcode, uint32_t mask, uint32_t expected)
{
	assert_int_equal(ur_opcode_flags(opcode) & mask, expected);
}

static void test_flags_tell_the_place_of_a_packet_in_its_message(void **state)
{
	const uint32_t mask = UR_IS_FIRST | UR_IS_LAST;

	(void)state;
	assert_flags(UR_RC_SEND_FIRST, mask, UR_IS_FIRST);
	assert_flags(UR_RC_SEND_MIDDLE, mask, 0);
	assert_flags(UR_RC_SEND_LAST, mask, UR_IS_LAST);
	assert_flags(UR_RC_SEND_LAST_IMM, mask, UR_IS_LAST);
	assert_flags(UR_RC_SEND_LAST_INV, mask, UR_IS_LAST);
	assert_flags(UR_RC_SEND_ONLY, mask, mask);
	assert_flags(UR_UC_WRITE_FIRST, mask, UR_IS_FIRST);
	assert_flags(UR_UC_WRITE_MIDDLE, mask, 0);
	assert_flags(UR_UC_WRITE_LAST_IMM, mask, UR_IS_LAST);
	assert_flags(UR_UD_SEND_ONLY_IMM, mask, mask);
	assert_flags(UR_RC_READ_REQUEST, mask, mask);
	assert_flags(UR_RC_READ_RESPONSE_FIRST, mask, UR_IS_FIRST);
	assert_flags(UR_RC_READ_RESPONSE_MIDDLE, mask, 0);
	assert_flags(UR_RC_READ_RESPONSE_LAST, mask, UR_IS_LAST);
	assert_flags(UR_RC_READ_RESPONSE_ONLY, mask, mask);
	assert_flags(UR_RC_FETCH_ADD, mask, mask);
	assert_flags(UR_RC_ATOMIC_WRITE, mask, mask);
}

static void test_flags_tell_what_a_packet_is(void **state)
{
	const uint32_t mask = UR_IS_REQUEST | UR_IS_RESPONSE | UR_IS_SEND | UR_IS_WRITE | UR_IS_RC |
			      UR_IS_UC | UR_IS_UD | UR_HAS_PAYLOAD;

	(void)state;
	assert_flags(UR_RC_SEND_LAST_INV, mask,
		     UR_IS_REQUEST | UR_IS_SEND | UR_IS_RC | UR_HAS_PAYLOAD);
	assert_flags(UR_UC_WRITE_LAST, mask,
		     UR_IS_REQUEST | UR_IS_WRITE | UR_IS_UC | UR_HAS_PAYLOAD);
	assert_flags(UR_UD_SEND_ONLY, mask, UR_IS_REQUEST | UR_IS_SEND | UR_IS_UD | UR_HAS_PAYLOAD);
	assert_flags(UR_RC_READ_REQUEST, mask, UR_IS_REQUEST | UR_IS_RC);
	assert_flags(UR_RC_COMPARE_SWAP, mask, UR_IS_REQUEST | UR_IS_RC);
	assert_flags(UR_RC_ATOMIC_WRITE, mask, UR_IS_REQUEST | UR_IS_RC | UR_HAS_PAYLOAD);
	assert_flags(UR_RC_READ_RESPONSE_MIDDLE, mask, UR_IS_RESPONSE | UR_IS_RC | UR_HAS_PAYLOAD);
	assert_flags(UR_RC_ACKNOWLEDGE, mask, UR_IS_RESPONSE | UR_IS_RC);
	assert_flags(UR_RC_ATOMIC_ACKNOWLEDGE, mask, UR_IS_RESPONSE | UR_IS_RC);
}

/* Only what is sent to the shared receive queue names it. */
static void test_an_extended_connection_has_all_of_a_reliable_one_and_a_header_in_requests(
	void **state)
{
	(void)state;
	for (uint8_t opcode = UR_RC_SEND_FIRST; opcode <= UR_RC_ATOMIC_WRITE; opcode++) {
		uint32_t flags = ur_opcode_flags(opcode);
		uint32_t header = flags & UR_IS_REQUEST ? UR_HAS_XRCETH : 0;

		assert_flags(opcode, UR_HAS_XRCETH, 0);
		assert_flags(UR_XRC_SEND_FIRST | opcode, UINT32_MAX,
			     flags ? (flags & ~(uint32_t)UR_IS_RC) | UR_IS_XRC | header : 0);
		assert_int_equal(ur_operation(UR_XRC_SEND_FIRST | opcode), opcode);
	}
}

static void assert_same_fields(const struct ur_packet *a, const struct ur_packet *b)
{
	assert_int_equal(a->opcode, b->opcode);
	assert_int_equal(a->solicited, b->solicited);
	assert_int_equal(a->migrated, b->migrated);
	assert_int_equal(a->fecn, b->fecn);
	assert_int_equal(a->becn, b->becn);
	assert_int_equal(a->ack_request, b->ack_request);
	assert_int_equal(a->pkey, b->pkey);
	assert_int_equal(a->dest_qpn, b->dest_qpn);
	assert_int_equal(a->psn, b->psn);
	assert_int_equal(a->va, b->va);
	assert_int_equal(a->rkey, b->rkey);
	assert_int_equal(a->dma_length, b->dma_length);
	assert_int_equal(a->swap_or_add, b->swap_or_add);
	assert_int_equal(a->compare, b->compare);
	assert_int_equal(a->syndrome, b->syndrome);
	assert_int_equal(a->msn, b->msn);
	assert_int_equal(a->atomic_original, b->atomic_original);
	assert_int_equal(a->imm, b->imm);
	assert_int_equal(a->invalidate_rkey, b->invalidate_rkey);
	assert_int_equal(a->qkey, b->qkey);
	assert_int_equal(a->src_qpn, b->src_qpn);
	assert_int_equal(a->srqn, b->srqn);
	assert_int_equal(a->payload_length, b->payload_length);
}

/* Checks that the datagram, with any ICRC, says what packet says, and the other way round. */
static void assert_coded(const struct ur_packet *packet, const char *datagram, size_t length)
{
	const uint8_t *bytes = (const uint8_t *)datagram;
	uint8_t headers[UR_MAX_HEADERS];
	size_t size = ur_packet_encode(packet, headers);
	struct ur_packet decoded;

	assert_int_equal(size, header_sizes[packet->opcode]);
	assert_memory_equal(headers, bytes, size);
	assert_decodes(bytes, length, &decoded);
	assert_same_fields(&decoded, packet);
	assert_ptr_equal(decoded.payload, bytes + size);
}

/* The length without the terminator. */
#define DATAGRAM(bytes) bytes, sizeof(bytes) - 1
#define ICRC            "icrc"

/* A base transport header of opcode, with nothing else in it. */
#define PLAIN_BTH(opcode) opcode "\0\xff\xff\0\0\0\0\0\0\0\0"

static void test_the_base_header_has_its_fields_in_their_places(void **state)
{
	struct ur_packet packet = { .opcode = UR_RC_SEND_MIDDLE,
				    .pkey = 0x8123,
				    .dest_qpn = 0xabcdef,
				    .psn = 0x123456,
				    .payload_length = 3 };

	(void)state;
	assert_coded(&packet, DATAGRAM("\x01\x10\x81\x23\x00\xab\xcd\xef\x00\x12\x34\x56"
				       "abc\0" ICRC));
	packet.solicited = true;
	assert_coded(&packet, DATAGRAM("\x01\x90\x81\x23\x00\xab\xcd\xef\x00\x12\x34\x56"
				       "abc\0" ICRC));
	packet.migrated = true;
	packet.payload_length = 1;
	assert_coded(&packet, DATAGRAM("\x01\xf0\x81\x23\x00\xab\xcd\xef\x00\x12\x34\x56"
				       "a\0\0\0" ICRC));
	packet.fecn = true;
	packet.payload_length = 4;
	assert_coded(&packet, DATAGRAM("\x01\xc0\x81\x23\x80\xab\xcd\xef\x00\x12\x34\x56"
				       "abcd" ICRC));
	packet.becn = true;
	packet.ack_request = true;
	packet.payload_length = 0;
	assert_coded(&packet, DATAGRAM("\x01\xc0\x81\x23\xc0\xab\xcd\xef\x80\x12\x34\x56" ICRC));
}

static void test_extended_headers_have_their_fields_in_their_places(void **state)
{
	const struct ur_packet write = { .opcode = UR_UC_WRITE_ONLY_IMM,
					 .pkey = UR_DEFAULT_PKEY,
					 .va = 0x0123456789abcdef,
					 .rkey = 0xfedcba98,
					 .dma_length = 0x76543210,
					 .imm = htonl(0x11223344) };
	const struct ur_packet swap = { .opcode = UR_RC_COMPARE_SWAP,
					.pkey = UR_DEFAULT_PKEY,
					.va = 0x0123456789abcdef,
					.rkey = 0xfedcba98,
					.swap_or_add = 0x1122334455667788,
					.compare = 0x99aabbccddeeff01 };
	const struct ur_packet swapped = { .opcode = UR_RC_ATOMIC_ACKNOWLEDGE,
					   .pkey = UR_DEFAULT_PKEY,
					   .syndrome = UR_SYNDROME_ACK | UR_CREDITS_UNLIMITED,
					   .msn = 0xabcdef,
					   .atomic_original = 0x0123456789abcdef };
	const struct ur_packet invalidate = { .opcode = UR_RC_SEND_ONLY_INV,
					      .pkey = UR_DEFAULT_PKEY,
					      .invalidate_rkey = 0xfedcba98 };
	const struct ur_packet datagram = { .opcode = UR_UD_SEND_ONLY_IMM,
					    .pkey = UR_DEFAULT_PKEY,
					    .qkey = 0x11111112,
					    .src_qpn = 0xabcdef,
					    .imm = htonl(0x11223344) };
	const struct ur_packet extended_write = { .opcode = UR_XRC_SEND_FIRST | UR_RC_WRITE_ONLY,
						  .pkey = UR_DEFAULT_PKEY,
						  .srqn = 0xabcdef,
						  .va = 0x0123456789abcdef,
						  .rkey = 0xfedcba98,
						  .dma_length = 0x76543210 };
	const struct ur_packet extended_ack = { .opcode = UR_XRC_SEND_FIRST | UR_RC_ACKNOWLEDGE,
						.pkey = UR_DEFAULT_PKEY,
						.syndrome = UR_SYNDROME_ACK | UR_CREDITS_UNLIMITED,
						.msn = 0xabcdef };

	(void)state;
	assert_coded(&write, DATAGRAM(PLAIN_BTH("\x2b") "\x01\x23\x45\x67\x89\xab\xcd\xef"
							"\xfe\xdc\xba\x98"
							"\x76\x54\x32\x10"
							"\x11\x22\x33\x44" ICRC));
	assert_coded(&swap, DATAGRAM(PLAIN_BTH("\x13") "\x01\x23\x45\x67\x89\xab\xcd\xef"
						       "\xfe\xdc\xba\x98"
						       "\x11\x22\x33\x44\x55\x66\x77\x88"
						       "\x99\xaa\xbb\xcc\xdd\xee\xff\x01" ICRC));
	assert_coded(&swapped, DATAGRAM(PLAIN_BTH("\x12") "\x1f\xab\xcd\xef"
							  "\x01\x23\x45\x67\x89\xab\xcd\xef" ICRC));
	assert_coded(&invalidate, DATAGRAM(PLAIN_BTH("\x17") "\xfe\xdc\xba\x98" ICRC));
	assert_coded(&datagram, DATAGRAM(PLAIN_BTH("\x65") "\x11\x11\x11\x12"
							   "\x00\xab\xcd\xef"
							   "\x11\x22\x33\x44" ICRC));
	assert_coded(&extended_write, DATAGRAM(PLAIN_BTH("\xaa") "\x00\xab\xcd\xef"
								 "\x01\x23\x45\x67\x89\xab\xcd\xef"
								 "\xfe\xdc\xba\x98"
								 "\x76\x54\x32\x10" ICRC));
	assert_coded(&extended_ack, DATAGRAM(PLAIN_BTH("\xb1") "\x1f\xab\xcd\xef" ICRC));
}

static void test_numbers_of_more_than_24_bits_do_not_touch_what_stands_before_them(void **state)
{
	const struct ur_packet packet = { .opcode = UR_UD_SEND_ONLY,
					  .dest_qpn = UINT32_MAX,
					  .psn = UINT32_MAX,
					  .src_qpn = UINT32_MAX };
	const struct ur_packet extended = { .opcode = UR_XRC_SEND_FIRST, .srqn = UINT32_MAX };
	uint8_t headers[UR_MAX_HEADERS];

	(void)state;
	ur_packet_encode(&packet, headers);
	assert_int_equal(headers[4], 0);
	assert_int_equal(headers[8], 0);
	assert_int_equal(headers[16], 0);
	ur_packet_encode(&extended, headers);
	assert_int_equal(headers[12], 0);
}

static void test_reserved_bits_are_not_looked_at(void **state)
{
	struct ur_packet packet;

	(void)state;
	assert_decodes(DATAGRAM("\x64\x00\xff\xff\x3f\0\0\x12\x7f\0\0\x34"
				"\0\0\0\0\xff\0\0\x56" ICRC),
		       &packet);
	assert_int_equal(packet.dest_qpn, 0x12);
	assert_int_equal(packet.psn, 0x34);
	assert_int_equal(packet.src_qpn, 0x56);
	assert_false(packet.ack_request || packet.fecn || packet.becn);
	assert_decodes(DATAGRAM(PLAIN_BTH("\xa4") "\xff\0\0\x56" ICRC), &packet);
	assert_int_equal(packet.srqn, 0x56);
}

/* The end of every copy is the end of memory of that size, so that sanitizers see a read beyond. */
static void test_no_beginning_of_a_packet_is_read_beyond_its_end(void **state)
{
	(void)state;
	for (size_t i = 0; i < vectors.count; i++) {
		const struct pcap_packet *vector = &vectors.packets[i];
		uint8_t *memory = malloc(vector->length);

		assert_non_null(memory);
		for (size_t length = 0; length < vector->length; length++) {
			uint8_t *data = memory + vector->length - length;
			struct ur_packet packet;

			memcpy(data, vector->data, length);
			if (ur_packet_decode(data, length, &packet) != UR_DECODED)
				continue;
			assert_int_equal(length % 4, 0);
			assert_true(packet.payload >= data + header_sizes[data[0]]);
			assert_true(packet.payload + packet.payload_length <=
				    data + length - UR_ICRC_SIZE);
		}
		free(memory);
	}
}

static enum ur_decode_result decode(const void *data, size_t length)
{
	struct ur_packet packet;

	return ur_packet_decode(data, length, &packet);
}

static void test_a_packet_shorter_than_its_headers_and_icrc_is_refused(void **state)
{
	static uint8_t data[UR_MAX_HEADERS + UR_ICRC_SIZE];

	(void)state;
	for (unsigned opcode = 0; opcode < COUNT(header_sizes); opcode++) {
		size_t size = header_sizes[opcode];

		if (size == 0)
			continue;
		data[0] = (uint8_t)opcode;
		assert_int_equal(decode(data, size + UR_ICRC_SIZE), UR_DECODED);
		for (size_t length = 0; length < size + UR_ICRC_SIZE; length++)
			assert_int_equal(decode(data, length), UR_TOO_SHORT);
	}
}

static void test_a_length_that_is_not_of_whole_words_is_refused(void **state)
{
	static const uint8_t data[UR_BTH_SIZE + 8 + UR_ICRC_SIZE];

	(void)state;
	for (size_t length = UR_BTH_SIZE + UR_ICRC_SIZE; length <= sizeof(data); length++)
		assert_int_equal(decode(data, length), length % 4 ? UR_TOO_SHORT : UR_DECODED);
}

static void test_another_version_is_refused(void **state)
{
	uint8_t data[UR_BTH_SIZE + UR_ICRC_SIZE] = { UR_RC_SEND_ONLY };

	(void)state;
	for (data[1] = 1; data[1] < 16; data[1]++)
		assert_int_equal(decode(data, sizeof(data)), UR_BAD_VERSION);
}

static void test_an_opcode_that_does_not_exist_is_refused(void **state)
{
	uint8_t data[64] = { 0 };

	(void)state;
	for (unsigned opcode = 0; opcode < COUNT(header_sizes); opcode++) {
		data[0] = (uint8_t)opcode;
		assert_int_equal(decode(data, sizeof(data)) == UR_UNKNOWN_OPCODE,
				 header_sizes[opcode] == 0);
	}
}

static void test_padding_may_take_up_all_of_a_payload_but_not_more(void **state)
{
	(void)state;
	assert_int_equal(decode(DATAGRAM("\x04\x30\xff\xff\0\0\0\0\0\0\0\0" ICRC)), UR_BAD_PADDING);
	assert_int_equal(decode(DATAGRAM("\x04\x10\xff\xff\0\0\0\0\0\0\0\0" ICRC)), UR_BAD_PADDING);
	assert_int_equal(decode(DATAGRAM("\x04\x30\xff\xff\0\0\0\0\0\0\0\0"
					 "a\0\0\0" ICRC)),
			 UR_DECODED);
}

static void test_padding_of_a_packet_that_has_no_payload_is_refused(void **state)
{
	(void)state;
	assert_int_equal(decode(DATAGRAM("\x11\x10\xff\xff\0\0\0\0\0\0\0\0"
					 "\x1f\0\0\0" ICRC)),
			 UR_BAD_PADDING);
}

static void test_a_payload_of_an_opcode_that_has_none_is_refused(void **state)
{
	static uint8_t data[UR_MAX_HEADERS + 4 + UR_ICRC_SIZE];

	(void)state;
	for (unsigned opcode = 0; opcode < COUNT(header_sizes); opcode++) {
		bool has_payload = ur_opcode_flags((uint8_t)opcode) & UR_HAS_PAYLOAD;

		if (header_sizes[opcode] == 0)
			continue;
		data[0] = (uint8_t)opcode;
		assert_int_equal(decode(data, header_sizes[opcode] + 4U + UR_ICRC_SIZE),
				 has_payload ? UR_DECODED : UR_UNEXPECTED_PAYLOAD);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_packet_of_the_kernel_becomes_the_same_again),
		cmocka_unit_test(test_the_vectors_hold_all_that_the_kernel_sent),
		cmocka_unit_test(test_each_opcode_has_the_headers_of_the_specification),
		cmocka_unit_test(test_each_operation_has_a_name_in_every_service),
		cmocka_unit_test(test_flags_tell_the_place_of_a_packet_in_its_message),
		cmocka_unit_test(test_flags_tell_what_a_packet_is),
		cmocka_unit_test(
			test_an_extended_connection_has_all_of_a_reliable_one_and_a_header_in_requests),
		cmocka_unit_test(test_the_base_header_has_its_fields_in_their_places),
		cmocka_unit_test(test_extended_headers_have_their_fields_in_their_places),
		cmocka_unit_test(
			test_numbers_of_more_than_24_bits_do_not_touch_what_stands_before_them),
		cmocka_unit_test(test_reserved_bits_are_not_looked_at),
		cmocka_unit_test(test_no_beginning_of_a_packet_is_read_beyond_its_end),
		cmocka_unit_test(test_a_packet_shorter_than_its_headers_and_icrc_is_refused),
		cmocka_unit_test(test_a_length_that_is_not_of_whole_words_is_refused),
		cmocka_unit_test(test_another_version_is_refused),
		cmocka_unit_test(test_an_opcode_that_does_not_exist_is_refused),
		cmocka_unit_test(test_padding_may_take_up_all_of_a_payload_but_not_more),
		cmocka_unit_test(test_padding_of_a_packet_that_has_no_payload_is_refused),
		cmocka_unit_test(test_a_payload_of_an_opcode_that_has_none_is_refused),
	};

	return cmocka_run_group_tests(tests, read_vectors, free_vectors);
}
