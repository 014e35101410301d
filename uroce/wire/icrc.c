#include "icrc.h"

#include <isa-l/crc.h>
#include <string.h>

#include "packet.h"

#define LRH_SIZE  8
#define IPV4_SIZE 20
#define IPV6_SIZE 40
#define UDP_SIZE  8

/* The identification and what stands behind it in the IPv4 header. */
#define IPV4_FROM_ID 16

/* The byte of the BTH with the bits for congestion, and reserved ones. */
#define BTH_MASKED 4

#define MASKED        0xff
#define DONT_FRAGMENT 0x4000

#define BYTES_OF(value) (uint8_t)((value) >> 8), (uint8_t)(value)

/*
 * CRCs here are polynomials over GF(2) modulo the one of CRC-32, the highest power in the lowest
 * bit.
 */
#define CRC_POLYNOMIAL UINT32_C(0xedb88320)
#define X_TO_0         UINT32_C(0x80000000)
#define X_TO_MINUS_8   UINT32_C(0x6567cb95)

/* The headers that are not in the datagram, and those with which it begins. */
struct head {
	uint8_t bytes[LRH_SIZE + IPV6_SIZE + UDP_SIZE + UR_MAX_HEADERS];
	size_t size;
};

static void put(struct head *head, const void *bytes, size_t size)
{
	memcpy(head->bytes + head->size, bytes, size);
	head->size += size;
}

static void put_ipv4(struct head *head, const struct ur_flow *flow, uint16_t id, size_t udp_length)
{
	const struct sockaddr_in *source = &flow->source.v4, *dest = &flow->dest.v4;
	const uint8_t fields[] = {
		0x45,   /* version, length of the header */
		MASKED, /* type of service */
		BYTES_OF(IPV4_SIZE + udp_length),
		BYTES_OF(id),
		BYTES_OF(DONT_FRAGMENT),
		MASKED, /* time to live */
		IPPROTO_UDP,
		MASKED, /* checksum */
		MASKED,
	};

	put(head, fields, sizeof(fields));
	put(head, &source->sin_addr, sizeof(source->sin_addr));
	put(head, &dest->sin_addr, sizeof(dest->sin_addr));
	put(head, &source->sin_port, sizeof(source->sin_port));
	put(head, &dest->sin_port, sizeof(dest->sin_port));
}

static void put_ipv6(struct head *head, const struct ur_flow *flow, size_t udp_length)
{
	const struct sockaddr_in6 *source = &flow->source.v6, *dest = &flow->dest.v6;
	const uint8_t fields[] = {
		0x6f,                 /* version, traffic class */
		MASKED,               /* traffic class, flow label */
		MASKED,               /* flow label */
		MASKED,               /* flow label */
		BYTES_OF(udp_length), /* of what follows */
		IPPROTO_UDP,          /* next header */
		MASKED,               /* hop limit */
	};

	put(head, fields, sizeof(fields));
	put(head, &source->sin6_addr, sizeof(source->sin6_addr));
	put(head, &dest->sin6_addr, sizeof(dest->sin6_addr));
	put(head, &source->sin6_port, sizeof(source->sin6_port));
	put(head, &dest->sin6_port, sizeof(dest->sin6_port));
}

static bool is_ipv4(const struct ur_flow *flow)
{
	return flow->source.any.sa_family == AF_INET;
}

/* udp_length: of the whole datagram, with its header and the ICRC. */
static void put_headers(struct head *head, const struct ur_flow *flow, uint16_t ip_id,
			size_t udp_length)
{
	const uint8_t udp_rest[] = { BYTES_OF(udp_length), MASKED, MASKED };

	memset(head->bytes, MASKED, LRH_SIZE);
	head->size = LRH_SIZE;
	if (is_ipv4(flow))
		put_ipv4(head, flow, ip_id, udp_length);
	else
		put_ipv6(head, flow, udp_length);
	put(head, udp_rest, sizeof(udp_rest));
}

static size_t total_length(const struct iovec *parts, size_t part_count)
{
	size_t length = 0;

	for (size_t i = 0; i < part_count; i++)
		length += parts[i].iov_len;
	return length;
}

#ifdef __x86_64__
__attribute__((target("avx"))) static void zero_upper(void)
{
	__builtin_ia32_vzeroupper();
}

/*
 * ISA-L leaves the upper halves of vector registers dirty, which makes the code after it, in SSE, slower
 * than the CRC itself.
 */
static void clean_registers(void)
{
	if (__builtin_cpu_supports("avx"))
		zero_upper();
}
#else
static void clean_registers(void)
{
}
#endif

/* ISA-L does this three times as fast as zlib's likes (on processors with AVX-512). */
static uint32_t extend(uint32_t crc, const void *bytes, size_t size)
{
	return size > 0 ? crc32_gzip_refl(crc, bytes, size) : crc;
}

uint32_t ur_icrc(const struct ur_flow *flow, uint16_t ip_id, const struct iovec *parts,
		 size_t part_count)
{
	size_t copied = parts[0].iov_len < UR_MAX_HEADERS ? parts[0].iov_len : UR_MAX_HEADERS;
	struct head head;
	uint32_t crc;

	put_headers(&head, flow, ip_id, UDP_SIZE + total_length(parts, part_count) + UR_ICRC_SIZE);
	put(&head, parts[0].iov_base, copied);
	head.bytes[head.size - copied + BTH_MASKED] = MASKED;
	crc = extend(0, head.bytes, head.size);
	crc = extend(crc, (const uint8_t *)parts[0].iov_base + copied, parts[0].iov_len - copied);
	for (size_t i = 1; i < part_count; i++)
		crc = extend(crc, parts[i].iov_base, parts[i].iov_len);
	clean_registers();
	return crc;
}

static uint32_t read_icrc(const uint8_t *at)
{
	return (uint32_t)at[3] << 24 | (uint32_t)at[2] << 16 | (uint32_t)at[1] << 8 | at[0];
}

static uint32_t multiply(uint32_t a, uint32_t b)
{
	uint32_t product = 0;

	for (; b != 0; b <<= 1) {
		if (b & X_TO_0)
			product ^= a;
		a = a >> 1 ^ (a & 1 ? CRC_POLYNOMIAL : 0);
	}
	return product;
}

/* What a CRC (without inversions) was before the last length bytes, if those were zero. */
static uint32_t undo_zeros(uint32_t crc, size_t length)
{
	uint32_t factor = X_TO_MINUS_8;

	for (; length > 0; length >>= 1) {
		if (length & 1)
			crc = multiply(crc, factor);
		factor = multiply(factor, factor);
	}
	return crc;
}

/*
 * The bits in which two identifications differ whose ICRCs differ as given. CRCs are linear, so
 * that is the CRC, without its inversions, of a packet which is zero but for those bits; and that
 * of zeros alone which begins with these bits in its lower half. length: from the identification
 * on.
 */
static bool find_id_difference(uint32_t difference, size_t length, uint16_t *id_difference)
{
	uint32_t crc = undo_zeros(difference, length);

	*id_difference = (uint16_t)((crc & 0xff) << 8 | crc >> 8);
	return crc <= UINT16_MAX;
}

bool ur_icrc_check(const struct ur_flow *flow, const uint8_t *data, size_t length, bool any_id,
		   uint16_t *ip_id)
{
	size_t covered = length - UR_ICRC_SIZE;
	struct iovec part = { .iov_base = (void *)(uintptr_t)data, .iov_len = covered };
	uint32_t difference = ur_icrc(flow, *ip_id, &part, 1) ^ read_icrc(data + covered);
	uint16_t id_difference, id;

	if (difference == 0)
		return true;
	if (!is_ipv4(flow) ||
	    !find_id_difference(difference, IPV4_FROM_ID + UDP_SIZE + covered, &id_difference))
		return false;
	id = *ip_id ^ id_difference;
	if (!any_id && id >= UR_MAX_BATCH)
		return false;
	*ip_id = id;
	return true;
}
