/*
 * RoCE v2 packets: the payload of a UDP datagram to port 4791, without the ICRC at its end.
 * Base transport header, extended headers, payload, padding (InfiniBand specification volume 1,
 * chapter 9; extended reliable connections are its annex A14, RoCE v2 is its annex A17).
 */
#ifndef UR_PACKET_H
#define UR_PACKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define UR_UDP_PORT  4791
#define UR_BTH_SIZE  12
#define UR_ICRC_SIZE 4
/* The longest headers: BTH, XRCETH and atomic request. */
#define UR_MAX_HEADERS  (UR_BTH_SIZE + 4 + 28)
#define UR_24_BITS      UINT32_C(0xffffff)
#define UR_DEFAULT_PKEY 0xffff
/* Stands for all queue pairs that are attached to the group that a packet is sent to. */
#define UR_MULTICAST_QPN UR_24_BITS

/*
 * Opcodes: the upper three bits are the service, the lower five the operation (table 38). Those of an
 * extended reliable connection are those of a reliable one, moved by UR_XRC_SEND_FIRST.
 */
enum ur_opcode {
	UR_RC_SEND_FIRST = 0x00,
	UR_RC_SEND_MIDDLE,
	UR_RC_SEND_LAST,
	UR_RC_SEND_LAST_IMM,
	UR_RC_SEND_ONLY,
	UR_RC_SEND_ONLY_IMM,
	UR_RC_WRITE_FIRST,
	UR_RC_WRITE_MIDDLE,
	UR_RC_WRITE_LAST,
	UR_RC_WRITE_LAST_IMM,
	UR_RC_WRITE_ONLY,
	UR_RC_WRITE_ONLY_IMM,
	UR_RC_READ_REQUEST,
	UR_RC_READ_RESPONSE_FIRST,
	UR_RC_READ_RESPONSE_MIDDLE,
	UR_RC_READ_RESPONSE_LAST,
	UR_RC_READ_RESPONSE_ONLY,
	UR_RC_ACKNOWLEDGE,
	UR_RC_ATOMIC_ACKNOWLEDGE,
	UR_RC_COMPARE_SWAP,
	UR_RC_FETCH_ADD,
	UR_RC_SEND_LAST_INV = 0x16,
	UR_RC_SEND_ONLY_INV = 0x17,
	UR_RC_ATOMIC_WRITE = 0x1d,
	UR_UC_SEND_FIRST = 0x20,
	UR_UC_SEND_MIDDLE,
	UR_UC_SEND_LAST,
	UR_UC_SEND_LAST_IMM,
	UR_UC_SEND_ONLY,
	UR_UC_SEND_ONLY_IMM,
	UR_UC_WRITE_FIRST,
	UR_UC_WRITE_MIDDLE,
	UR_UC_WRITE_LAST,
	UR_UC_WRITE_LAST_IMM,
	UR_UC_WRITE_ONLY,
	UR_UC_WRITE_ONLY_IMM,
	UR_UD_SEND_ONLY = 0x64,
	UR_UD_SEND_ONLY_IMM = 0x65,
	UR_XRC_SEND_FIRST = 0xa0,
};

/* The operation alone, which is the opcode of a reliable connection. */
static inline uint8_t ur_operation(uint8_t opcode)
{
	return opcode & 0x1f;
}

/* What an opcode means for the packet; 0 for one that is not known. */
enum ur_opcode_flag {
	UR_HAS_RETH = 1 << 0,
	UR_HAS_ATOMIC = 1 << 1,
	UR_HAS_AETH = 1 << 2,
	UR_HAS_ATOMIC_ACK = 1 << 3,
	UR_HAS_IMM = 1 << 4,
	UR_HAS_IETH = 1 << 5,
	UR_HAS_DETH = 1 << 6,
	UR_HAS_PAYLOAD = 1 << 7,
	UR_IS_FIRST = 1 << 8, /* first and only packets of a message */
	UR_IS_LAST = 1 << 9,  /* last and only packets of a message */
	UR_IS_REQUEST = 1 << 10,
	UR_IS_RESPONSE = 1 << 11,
	UR_IS_SEND = 1 << 12,
	UR_IS_WRITE = 1 << 13,
	UR_IS_RC = 1 << 14,
	UR_IS_UC = 1 << 15,
	UR_IS_UD = 1 << 16,
	UR_IS_XRC = 1 << 17,
	UR_HAS_XRCETH = 1 << 18,
};

uint32_t ur_opcode_flags(uint8_t opcode);

/* "SEND_FIRST" and the like, for logs; "?" for one that is not known. */
const char *ur_opcode_name(uint8_t opcode);

/* A packet taken apart, or one to be put together. Numbers are in host order but imm. */
struct ur_packet {
	uint8_t opcode;
	bool solicited;
	bool migrated;
	bool fecn;
	bool becn;
	bool ack_request;
	uint16_t pkey;
	uint32_t dest_qpn;
	uint32_t psn;

	/* RETH: writes, atomic ones too, and read requests. Atomic requests use va, rkey and the next two. */
	uint64_t va;
	uint32_t rkey;
	uint32_t dma_length;
	uint64_t swap_or_add;
	uint64_t compare;

	/* AETH: acknowledgements and read responses. */
	uint8_t syndrome;
	uint32_t msn;
	uint64_t atomic_original;

	uint32_t imm; /* network order, as verbs have it */
	uint32_t invalidate_rkey;

	/* DETH: datagrams. */
	uint32_t qkey;
	uint32_t src_qpn;

	uint32_t srqn; /* XRCETH: requests of extended reliable connections */

	/* Of the payload without padding. Points into the datagram when decoded, unused to encode. */
	const uint8_t *payload;
	size_t payload_length;
};

enum ur_decode_result {
	UR_DECODED,
	UR_TOO_SHORT,   /* for the headers that its opcode has, or not a multiple of 4 bytes */
	UR_BAD_VERSION, /* of the transport header */
	UR_UNKNOWN_OPCODE,
	UR_BAD_PADDING,        /* more than there is payload, or on a packet without payload */
	UR_UNEXPECTED_PAYLOAD, /* on an opcode that has none */
};

/*
 * Takes a datagram apart, its ICRC included in length but not looked at. Reads nothing outside
 * of data. On failure *packet is not defined.
 */
enum ur_decode_result ur_packet_decode(const void *data, size_t length, struct ur_packet *packet);

/*
 * Writes the headers of a packet whose payload has packet->payload_length bytes; returns their
 * size, at most UR_MAX_HEADERS. Behind the payload come ur_padding() zero bytes, then the ICRC.
 */
size_t ur_packet_encode(const struct ur_packet *packet, uint8_t headers[UR_MAX_HEADERS]);

/* Bytes that fill a payload up to a multiple of four. */
static inline size_t ur_padding(size_t payload_length)
{
	return -payload_length & 3;
}

/* Size of the headers that an opcode has, BTH included. */
size_t ur_headers_size(uint8_t opcode);

/* Of the datagram that the packet is, from its headers to its ICRC. */
static inline size_t ur_packet_size(const struct ur_packet *packet)
{
	return ur_headers_size(packet->opcode) + packet->payload_length +
	       ur_padding(packet->payload_length) + UR_ICRC_SIZE;
}

/* AETH syndromes (section 9.7.5.2.1): the upper three bits are the kind. */
#define UR_SYNDROME_ACK     0x00 /* | credits, UR_CREDITS_UNLIMITED: not counted */
#define UR_SYNDROME_RNR_NAK 0x20 /* | timer */
#define UR_SYNDROME_NAK     0x60 /* | code */
#define UR_SYNDROME_KIND    0xe0 /* masks; the rest is the value */
#define UR_SYNDROME_VALUE   0x1f

#define UR_CREDITS_UNLIMITED 0x1f

enum ur_nak_code {
	UR_NAK_SEQUENCE,
	UR_NAK_INVALID_REQUEST,
	UR_NAK_REMOTE_ACCESS,
	UR_NAK_REMOTE_OPERATION,
	UR_NAK_INVALID_RD_REQUEST,
};

#endif
