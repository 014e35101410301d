/*
 * Addresses: what the link does with IPv4 and IPv6 addresses and UDP ports alike.
 */
#ifndef UR_ADDRESS_H
#define UR_ADDRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "../wire/icrc.h"

static inline bool ur_address_is_ipv4(const union ur_sockaddr *address)
{
	return address->any.sa_family == AF_INET;
}

static inline socklen_t ur_address_size(const union ur_sockaddr *address)
{
	return ur_address_is_ipv4(address) ? sizeof(address->v4) : sizeof(address->v6);
}

/* Host order. */
static inline uint16_t ur_address_port(const union ur_sockaddr *address)
{
	return ntohs(ur_address_is_ipv4(address) ? address->v4.sin_port : address->v6.sin6_port);
}

/* port: in host order. */
static inline void ur_address_set_port(union ur_sockaddr *address, uint16_t port)
{
	if (ur_address_is_ipv4(address))
		address->v4.sin_port = htons(port);
	else
		address->v6.sin6_port = htons(port);
}

/* Whether it stands for all addresses of its family. */
static inline bool ur_address_is_any(const union ur_sockaddr *address)
{
	return ur_address_is_ipv4(address) ? address->v4.sin_addr.s_addr == htonl(INADDR_ANY)
					   : IN6_IS_ADDR_UNSPECIFIED(&address->v6.sin6_addr);
}

/* Whether it is one of this host alone. */
static inline bool ur_address_is_loopback(const union ur_sockaddr *address)
{
	return ur_address_is_ipv4(address)
		       ? ntohl(address->v4.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET
		       : IN6_IS_ADDR_LOOPBACK(&address->v6.sin6_addr);
}

/* Whether address and port are the same. */
static inline bool ur_address_equal(const union ur_sockaddr *a, const union ur_sockaddr *b)
{
	if (a->any.sa_family != b->any.sa_family)
		return false;
	if (ur_address_is_ipv4(a))
		return a->v4.sin_port == b->v4.sin_port &&
		       a->v4.sin_addr.s_addr == b->v4.sin_addr.s_addr;
	return a->v6.sin6_port == b->v6.sin6_port && a->v6.sin6_scope_id == b->v6.sin6_scope_id &&
	       memcmp(&a->v6.sin6_addr, &b->v6.sin6_addr, sizeof(a->v6.sin6_addr)) == 0;
}

/* The same without the port, and without the scope, which both ends of a path share. */
static inline bool ur_address_same_host(const union ur_sockaddr *a, const union ur_sockaddr *b)
{
	if (a->any.sa_family != b->any.sa_family)
		return false;
	if (ur_address_is_ipv4(a))
		return a->v4.sin_addr.s_addr == b->v4.sin_addr.s_addr;
	return memcmp(&a->v6.sin6_addr, &b->v6.sin6_addr, sizeof(a->v6.sin6_addr)) == 0;
}

/*
 * Sources of UDP packets from here on are of devices and of Linux, which spread flows over them and number
 * their packets as they like: no uroce's.
 */
#define UR_FIRST_DEVICE_PORT 49152

#define UR_ADDRESS_TEXT_SIZE 80

/* "127.0.0.1 port 4791", for logs. Returns text. */
const char *ur_address_text(const union ur_sockaddr *address, char text[UR_ADDRESS_TEXT_SIZE]);

#endif
