/*
 * Network interfaces that can carry RoCE: they are up, have an address, and their MTU is large
 * enough.
 */
#ifndef UR_INTERFACE_H
#define UR_INTERFACE_H

#include <string.h>

#include "device.h"

struct ur_interface {
	char name[IFNAMSIZ];
	unsigned index;
	bool loopback;
	bool running;   /* with a carrier: something is at its other end */
	uint8_t mac[6]; /* zeros: it has none */
	enum ibv_mtu mtu;
	/*
	 * In the order that a device has them; addresses that the system does not use yet are not
	 * there.
	 */
	union ibv_gid gids[UR_MAX_GIDS];
	unsigned gid_count;
};

/* *interfaces: an array of *count that the caller frees. Returns 0 or an errno. */
int ur_interfaces_find(struct ur_interface **interfaces, unsigned *count);

/* In Mbit/s; 0: not known. */
unsigned ur_interface_speed(const char *name);

static inline bool ur_gid_is_ipv4(const union ibv_gid *gid)
{
	return IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)gid->raw);
}

/* Whether it is a multicast group's. */
static inline bool ur_gid_is_group(const union ibv_gid *gid)
{
	uint32_t ipv4;

	if (!ur_gid_is_ipv4(gid))
		return IN6_IS_ADDR_MULTICAST((const struct in6_addr *)gid->raw);
	memcpy(&ipv4, &gid->raw[12], sizeof(ipv4));
	return IN_MULTICAST(ntohl(ipv4));
}

#endif
