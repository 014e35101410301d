/*
 * IP headers as RoCE v2 packets have them, for those who want to see what a UDP socket does not show:
 * captures, and receivers of datagrams.
 */
#ifndef UR_IP_H
#define UR_IP_H

#include <stddef.h>
#include <stdint.h>

#include "icrc.h"

#define UR_IPV4_HEADER_SIZE 20
#define UR_IPV6_HEADER_SIZE 40

/*
 * Writes an IPv4 or an IPv6 header, as the flow's addresses are; returns its size. What the system does
 * not tell is as it mostly is: traffic class 0, hop limit 64. id: of IPv4. udp_length: bytes behind the
 * header.
 */
size_t ur_ip_header(const struct ur_flow *flow, uint16_t id, size_t udp_length,
		    uint8_t header[UR_IPV6_HEADER_SIZE]);

/* Adds to a sum of 16-bit words, for the checksums of the Internet. */
uint64_t ur_ip_sum(uint64_t start, const void *data, size_t length);
/* The checksum that stands in a header, in network order. */
uint16_t ur_ip_checksum(uint64_t sum);

#endif
