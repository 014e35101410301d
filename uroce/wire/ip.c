#include "ip.h"

#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <string.h>

#define HOP_LIMIT 64

uint64_t ur_ip_sum(uint64_t start, const void *data, size_t length)
{
	const uint8_t *bytes = data;

	for (size_t i = 0; i + 1 < length; i += 2)
		start += (uint32_t)bytes[i] << 8 | bytes[i + 1];
	if (length % 2 == 1)
		start += (uint32_t)bytes[length - 1] << 8;
	return start;
}

uint16_t ur_ip_checksum(uint64_t sum)
{
	while (sum > UINT16_MAX)
		sum = (sum & UINT16_MAX) + (sum >> 16);
	return htons((uint16_t)~sum);
}

static size_t put_ipv4(uint8_t *header, const struct ur_flow *flow, uint16_t id, size_t udp_length)
{
	struct iphdr ip = {
		.version = 4,
		.ihl = sizeof(ip) / 4,
		.tot_len = htons((uint16_t)(sizeof(ip) + udp_length)),
		.id = htons(id),
		.frag_off = htons(IP_DF),
		.ttl = HOP_LIMIT,
		.protocol = IPPROTO_UDP,
		.saddr = flow->source.v4.sin_addr.s_addr,
		.daddr = flow->dest.v4.sin_addr.s_addr,
	};

	ip.check = ur_ip_checksum(ur_ip_sum(0, &ip, sizeof(ip)));
	memcpy(header, &ip, sizeof(ip));
	return sizeof(ip);
}

static size_t put_ipv6(uint8_t *header, const struct ur_flow *flow, size_t udp_length)
{
	const struct ip6_hdr ip = {
		.ip6_flow = htonl(6 << 28),
		.ip6_plen = htons((uint16_t)udp_length),
		.ip6_nxt = IPPROTO_UDP,
		.ip6_hlim = HOP_LIMIT,
		.ip6_src = flow->source.v6.sin6_addr,
		.ip6_dst = flow->dest.v6.sin6_addr,
	};

	memcpy(header, &ip, sizeof(ip));
	return sizeof(ip);
}

size_t ur_ip_header(const struct ur_flow *flow, uint16_t id, size_t udp_length,
		    uint8_t header[UR_IPV6_HEADER_SIZE])
{
	return flow->source.any.sa_family == AF_INET ? put_ipv4(header, flow, id, udp_length)
						     : put_ipv6(header, flow, udp_length);
}
