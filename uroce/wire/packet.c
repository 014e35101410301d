#include "packet.h"

#include <string.h>

#define RETH_SIZE       16
#define ATOMIC_SIZE     28
#define AETH_SIZE       4
#define ATOMIC_ACK_SIZE 8
#define IMM_SIZE        4
#define IETH_SIZE       4
#define DETH_SIZE       8
#define XRCETH_SIZE     4

#define VERSION 0

/* Bits of the second byte of the BTH, of its fifth, and of its ninth. */
#define SOLICITED     0x80
#define MIGRATED      0x40
#define PADDING_SHIFT 4
#define PADDING_MASK  3
#define VERSION_MASK  0x0f
#define FECN          0x80
#define BECN          0x40
#define ACK_REQUEST   0x80

#define SERVICE_SHIFT 5

/* Requests have an XRCETH, if the service has it. */
#define REQUEST  (UR_IS_REQUEST | UR_HAS_XRCETH)
#define ONLY     (UR_IS_FIRST | UR_IS_LAST)
#define SEND     (REQUEST | UR_IS_SEND | UR_HAS_PAYLOAD)
#define WRITE    (REQUEST | UR_IS_WRITE | UR_HAS_PAYLOAD)
#define RESPONSE (UR_IS_RESPONSE | UR_HAS_PAYLOAD)
#define ATOMIC   (REQUEST | UR_HAS_ATOMIC | ONLY)

/* What stands behind the BTH in services that say whom a message is for there, too. */
#define ADDRESSING (UR_HAS_DETH | UR_HAS_XRCETH)

/* The lower five bits of an opcode, which mean the same for every service that has them. */
static const struct {
	const char *name;
	uint32_t flags;
} operations[] = {
	[UR_RC_SEND_FIRST] = { "SEND_FIRST", SEND | UR_IS_FIRST },
	[UR_RC_SEND_MIDDLE] = { "SEND_MIDDLE", SEND },
	[UR_RC_SEND_LAST] = { "SEND_LAST", SEND | UR_IS_LAST },
	[UR_RC_SEND_LAST_IMM] = { "SEND_LAST_IMM", SEND | UR_IS_LAST | UR_HAS_IMM },
	[UR_RC_SEND_ONLY] = { "SEND_ONLY", SEND | ONLY },
	[UR_RC_SEND_ONLY_IMM] = { "SEND_ONLY_IMM", SEND | ONLY | UR_HAS_IMM },
	[UR_RC_WRITE_FIRST] = { "WRITE_FIRST", WRITE | UR_IS_FIRST | UR_HAS_RETH },
	[UR_RC_WRITE_MIDDLE] = { "WRITE_MIDDLE", WRITE },
	[UR_RC_WRITE_LAST] = { "WRITE_LAST", WRITE | UR_IS_LAST },
	[UR_RC_WRITE_LAST_IMM] = { "WRITE_LAST_IMM", WRITE | UR_IS_LAST | UR_HAS_IMM },
	[UR_RC_WRITE_ONLY] = { "WRITE_ONLY", WRITE | ONLY | UR_HAS_RETH },
	[UR_RC_WRITE_ONLY_IMM] = { "WRITE_ONLY_IMM", WRITE | ONLY | UR_HAS_RETH | UR_HAS_IMM },
	[UR_RC_READ_REQUEST] = { "READ_REQUEST", REQUEST | ONLY | UR_HAS_RETH },
	[UR_RC_READ_RESPONSE_FIRST] = { "READ_RESPONSE_FIRST",
					RESPONSE | UR_IS_FIRST | UR_HAS_AETH },
	[UR_RC_READ_RESPONSE_MIDDLE] = { "READ_RESPONSE_MIDDLE", RESPONSE },
	[UR_RC_READ_RESPONSE_LAST] = { "READ_RESPONSE_LAST", RESPONSE | UR_IS_LAST | UR_HAS_AETH },
	[UR_RC_READ_RESPONSE_ONLY] = { "READ_RESPONSE_ONLY", RESPONSE | ONLY | UR_HAS_AETH },
	[UR_RC_ACKNOWLEDGE] = { "ACKNOWLEDGE", UR_IS_RESPONSE | ONLY | UR_HAS_AETH },
	[UR_RC_ATOMIC_ACKNOWLEDGE] = { "ATOMIC_ACKNOWLEDGE",
				       UR_IS_RESPONSE | ONLY | UR_HAS_AETH | UR_HAS_ATOMIC_ACK },
	[UR_RC_COMPARE_SWAP] = { "COMPARE_SWAP", ATOMIC },
	[UR_RC_FETCH_ADD] = { "FETCH_ADD", ATOMIC },
	[UR_RC_SEND_LAST_INV] = { "SEND_LAST_INV", SEND | UR_IS_LAST | UR_HAS_IETH },
	[UR_RC_SEND_ONLY_INV] = { "SEND_ONLY_INV", SEND | ONLY | UR_HAS_IETH },
	[UR_RC_ATOMIC_WRITE] = { "ATOMIC_WRITE", REQUEST | ONLY | UR_HAS_RETH | UR_HAS_PAYLOAD },
};

/*
 * The upper three bits: what they add and take away, and which operations the service has, a bit for
 * each.
 */
static const struct {
	uint32_t flags;
	uint32_t without;
	uint32_t operations;
} services[1 << (8 - SERVICE_SHIFT)] = {
	[UR_RC_SEND_FIRST >> SERVICE_SHIFT] = { UR_IS_RC, UR_HAS_XRCETH, 0x20dfffff },
	[UR_UC_SEND_FIRST >> SERVICE_SHIFT] = { UR_IS_UC, UR_HAS_XRCETH, 0x000fff },
	[UR_UD_SEND_ONLY >> SERVICE_SHIFT] = { UR_IS_UD | UR_HAS_DETH, UR_HAS_XRCETH, 0x000030 },
	[UR_XRC_SEND_FIRST >> SERVICE_SHIFT] = { UR_IS_XRC, 0, 0x20dfffff },
};

static bool is_known(uint8_t opcode)
{
	return services[opcode >> SERVICE_SHIFT].operations >> ur_operation(opcode) & 1;
}

uint32_t ur_opcode_flags(uint8_t opcode)
{
	if (!is_known(opcode))
		return 0;
	return (operations[ur_operation(opcode)].flags &
		~services[opcode >> SERVICE_SHIFT].without) |
	       services[opcode >> SERVICE_SHIFT].flags;
}

const char *ur_opcode_name(uint8_t opcode)
{
	return is_known(opcode) ? operations[ur_operation(opcode)].name : "?";
}

static size_t headers_size(uint32_t flags)
{
	return UR_BTH_SIZE + (flags & UR_HAS_DETH ? DETH_SIZE : 0U) +
	       (flags & UR_HAS_XRCETH ? XRCETH_SIZE : 0U) + (flags & UR_HAS_RETH ? RETH_SIZE : 0U) +
	       (flags & UR_HAS_ATOMIC ? ATOMIC_SIZE : 0U) + (flags & UR_HAS_AETH ? AETH_SIZE : 0U) +
	       (flags & UR_HAS_ATOMIC_ACK ? ATOMIC_ACK_SIZE : 0U) +
	       (flags & UR_HAS_IMM ? IMM_SIZE : 0U) + (flags & UR_HAS_IETH ? IETH_SIZE : 0U);
}

size_t ur_headers_size(uint8_t opcode)
{
	return headers_size(ur_opcode_flags(opcode));
}

static uint16_t read_16(const uint8_t *at)
{
	return (uint16_t)(at[0] << 8 | at[1]);
}

static uint32_t read_24(const uint8_t *at)
{
	return (uint32_t)at[0] << 16 | read_16(at + 1);
}

static uint32_t read_32(const uint8_t *at)
{
	return (uint32_t)read_16(at) << 16 | read_16(at + 2);
}

static uint64_t read_64(const uint8_t *at)
{
	return (uint64_t)read_32(at) << 32 | read_32(at + 4);
}

static void write_16(uint8_t *at, uint32_t value)
{
	at[0] = (uint8_t)(value >> 8);
	at[1] = (uint8_t)value;
}

static void write_24(uint8_t *at, uint32_t value)
{
	at[0] = (uint8_t)(value >> 16);
	write_16(at + 1, value);
}

static void write_32(uint8_t *at, uint32_t value)
{
	write_16(at, value >> 16);
	write_16(at + 2, value);
}

static void write_64(uint8_t *at, uint64_t value)
{
	write_32(at, (uint32_t)(value >> 32));
	write_32(at + 4, (uint32_t)value);
}

/* Returns how many bytes of padding the header tells of. */
static size_t decode_bth(const uint8_t *at, struct ur_packet *packet)
{
	*packet = (struct ur_packet){ .opcode = at[0],
				      .solicited = at[1] & SOLICITED,
				      .migrated = at[1] & MIGRATED,
				      .pkey = read_16(at + 2),
				      .fecn = at[4] & FECN,
				      .becn = at[4] & BECN,
				      .dest_qpn = read_24(at + 5),
				      .ack_request = at[8] & ACK_REQUEST,
				      .psn = read_24(at + 9) };
	return at[1] >> PADDING_SHIFT & PADDING_MASK;
}

/* Returns where the next header stands. */
static const uint8_t *decode_addressing(const uint8_t *at, uint32_t flags, struct ur_packet *packet)
{
	if (flags & UR_HAS_XRCETH) {
		packet->srqn = read_24(at + 1);
		return at + XRCETH_SIZE;
	}
	packet->qkey = read_32(at);
	packet->src_qpn = read_24(at + 5);
	return at + DETH_SIZE;
}

static void decode_extended(const uint8_t *at, uint32_t flags, struct ur_packet *packet)
{
	if (flags & ADDRESSING)
		at = decode_addressing(at, flags, packet);
	if (flags & UR_HAS_RETH) {
		packet->va = read_64(at);
		packet->rkey = read_32(at + 8);
		packet->dma_length = read_32(at + 12);
		at += RETH_SIZE;
	}
	if (flags & UR_HAS_ATOMIC) {
		packet->va = read_64(at);
		packet->rkey = read_32(at + 8);
		packet->swap_or_add = read_64(at + 12);
		packet->compare = read_64(at + 20);
		at += ATOMIC_SIZE;
	}
	if (flags & UR_HAS_AETH) {
		packet->syndrome = at[0];
		packet->msn = read_24(at + 1);
		at += AETH_SIZE;
	}
	if (flags & UR_HAS_ATOMIC_ACK) {
		packet->atomic_original = read_64(at);
		at += ATOMIC_ACK_SIZE;
	}
	if (flags & UR_HAS_IMM) {
		memcpy(&packet->imm, at, IMM_SIZE);
		at += IMM_SIZE;
	}
	if (flags & UR_HAS_IETH)
		packet->invalidate_rkey = read_32(at);
}

enum ur_decode_result ur_packet_decode(const void *data, size_t length, struct ur_packet *packet)
{
	const uint8_t *at = data;
	size_t headers, padding, padded_length;
	uint32_t flags;

	if (length < UR_BTH_SIZE + UR_ICRC_SIZE || length % 4 != 0)
		return UR_TOO_SHORT;
	if ((at[1] & VERSION_MASK) != VERSION)
		return UR_BAD_VERSION;
	flags = ur_opcode_flags(at[0]);
	if (flags == 0)
		return UR_UNKNOWN_OPCODE;
	headers = headers_size(flags);
	if (length < headers + UR_ICRC_SIZE)
		return UR_TOO_SHORT;
	padded_length = length - headers - UR_ICRC_SIZE;
	if (padded_length > 0 && !(flags & UR_HAS_PAYLOAD))
		return UR_UNEXPECTED_PAYLOAD;
	padding = decode_bth(at, packet);
	if (padding > padded_length)
		return UR_BAD_PADDING;
	decode_extended(at + UR_BTH_SIZE, flags, packet);
	packet->payload = at + headers;
	packet->payload_length = padded_length - padding;
	return UR_DECODED;
}

static void encode_bth(const struct ur_packet *packet, uint8_t *at)
{
	at[0] = packet->opcode;
	at[1] = (uint8_t)((packet->solicited ? SOLICITED : 0) | (packet->migrated ? MIGRATED : 0) |
			  ur_padding(packet->payload_length) << PADDING_SHIFT | VERSION);
	write_16(at + 2, packet->pkey);
	at[4] = (uint8_t)((packet->fecn ? FECN : 0) | (packet->becn ? BECN : 0));
	write_24(at + 5, packet->dest_qpn);
	at[8] = packet->ack_request ? ACK_REQUEST : 0;
	write_24(at + 9, packet->psn);
}

/* Returns where the next header stands. */
static uint8_t *encode_addressing(const struct ur_packet *packet, uint32_t flags, uint8_t *at)
{
	if (flags & UR_HAS_XRCETH) {
		write_32(at, packet->srqn & UR_24_BITS);
		return at + XRCETH_SIZE;
	}
	write_32(at, packet->qkey);
	write_32(at + 4, packet->src_qpn & UR_24_BITS);
	return at + DETH_SIZE;
}

static void encode_extended(const struct ur_packet *packet, uint32_t flags, uint8_t *at)
{
	if (flags & ADDRESSING)
		at = encode_addressing(packet, flags, at);
	if (flags & UR_HAS_RETH) {
		write_64(at, packet->va);
		write_32(at + 8, packet->rkey);
		write_32(at + 12, packet->dma_length);
		at += RETH_SIZE;
	}
	if (flags & UR_HAS_ATOMIC) {
		write_64(at, packet->va);
		write_32(at + 8, packet->rkey);
		write_64(at + 12, packet->swap_or_add);
		write_64(at + 20, packet->compare);
		at += ATOMIC_SIZE;
	}
	if (flags & UR_HAS_AETH) {
		at[0] = packet->syndrome;
		write_24(at + 1, packet->msn);
		at += AETH_SIZE;
	}
	if (flags & UR_HAS_ATOMIC_ACK) {
		write_64(at, packet->atomic_original);
		at += ATOMIC_ACK_SIZE;
	}
	if (flags & UR_HAS_IMM) {
		memcpy(at, &packet->imm, IMM_SIZE);
		at += IMM_SIZE;
	}
	if (flags & UR_HAS_IETH)
		write_32(at, packet->invalidate_rkey);
}

size_t ur_packet_encode(const struct ur_packet *packet, uint8_t headers[UR_MAX_HEADERS])
{
	uint32_t flags = ur_opcode_flags(packet->opcode);

	encode_bth(packet, headers);
	encode_extended(packet, flags, headers + UR_BTH_SIZE);
	return headers_size(flags);
}
