/*
 * libFuzzer target for ur_packet_decode: what is decoded must be encoded to the same headers.
 */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "../../uroce/wire/packet.h"

/* Bits that are reserved in the BTH, and the reserved bytes of DETH and XRCETH. */
#define BTH_RESERVED_IN_4    0x3f
#define BTH_RESERVED_IN_8    0x7f
#define DETH_RESERVED_BYTE   16
#define XRCETH_RESERVED_BYTE 12

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void clear_reserved(uint8_t *headers)
{
	headers[4] &= (uint8_t)~BTH_RESERVED_IN_4;
	headers[8] &= (uint8_t)~BTH_RESERVED_IN_8;
	if (ur_opcode_flags(headers[0]) & UR_HAS_DETH)
		headers[DETH_RESERVED_BYTE] = 0;
	if (ur_opcode_flags(headers[0]) & UR_HAS_XRCETH)
		headers[XRCETH_RESERVED_BYTE] = 0;
}

static void check_lengths(const uint8_t *data, size_t size, const struct ur_packet *packet)
{
	size_t headers = ur_headers_size(packet->opcode);
	size_t padded = packet->payload_length + (data[1] >> 4 & 3);

	assert(packet->payload == data + headers);
	assert(headers + padded + UR_ICRC_SIZE == size);
}

static void check_encoded(const uint8_t *data, const struct ur_packet *packet)
{
	uint8_t encoded[UR_MAX_HEADERS], expected[UR_MAX_HEADERS];
	size_t size = ur_packet_encode(packet, encoded);

	assert(size == ur_headers_size(packet->opcode));
	memcpy(expected, data, size);
	clear_reserved(expected);
	assert(memcmp(encoded, expected, size) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ur_packet packet;

	if (ur_packet_decode(data, size, &packet) != UR_DECODED)
		return 0;
	check_lengths(data, size, &packet);
	check_encoded(data, &packet);
	return 0;
}
