/*
 * The invariant CRC at the end of every RoCE v2 packet (InfiniBand specification volume 1, annex
 * A17): CRC-32 over the IP and UDP headers, with those fields masked that change on the way, and
 * all that follows.
 */
#ifndef UR_ICRC_H
#define UR_ICRC_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/uio.h>

/* An IPv4 or IPv6 address and a UDP port. */
union ur_sockaddr {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

/* Where a packet comes from and goes to. Both ends have the same family. */
struct ur_flow {
	union ur_sockaddr source;
	union ur_sockaddr dest;
};

/*
 * The ICRC of a packet, as the number that stands at its end in little-endian order.
 * ip_id: identification of the IPv4 header (with DF, the only fragment); not used for IPv6.
 * parts: headers, payload and padding, in pieces, 12 bytes of BTH at least in the first piece.
 */
uint32_t ur_icrc(const struct ur_flow *flow, uint16_t ip_id, const struct iovec *parts,
		 size_t part_count);

/*
 * Whether the ICRC at the end of a received datagram (length bytes, ICRC included, at least
 * UR_BTH_SIZE + UR_ICRC_SIZE) is right. A UDP socket does not show the identification of the IPv4
 * header, which the ICRC covers:
 * *ip_id: in, the one to expect; out, the one with which the ICRC is right.
 * any_id: accept every identification with which it is right (a sender that uses others than its
 * place in a batch: devices), else only those below UR_MAX_BATCH.
 */
bool ur_icrc_check(const struct ur_flow *flow, const uint8_t *data, size_t length, bool any_id,
		   uint16_t *ip_id);

/* Packets in one batch of the link (UDP GSO) at most: identifications 0 to 63. */
#define UR_MAX_BATCH 64

#endif
