/*
 * Address: where a peer is reached through the connection manager: an IP address, or a GID that
 * holds one, and a port.
 */
#ifndef RS_ADDRESS_H
#define RS_ADDRESS_H

#include <netinet/in.h>
#include <stdint.h>

#include "status.h"

enum rs_address_type { RS_ADDRESS_GUESSED, RS_ADDRESS_IPV4, RS_ADDRESS_IPV6, RS_ADDRESS_GID };

union rs_address {
	struct sockaddr any;
	struct sockaddr_in ipv4;
	struct sockaddr_in6 ipv6;
};

/*
 * Reads an address of the type: "192.0.2.1", "2001:db8::1", "fe80::1%eth0", a GID
 * "::ffff:192.0.2.1", or (but for a GID) a host's name. A GID that holds an IPv4 address is that
 * address. RS_ERR_INVALID_VALUE: it is none; the log says why. Source: man getaddrinfo.
 */
enum rs_status rs_address_parse(const char *text, enum rs_address_type type, uint16_t port,
				union rs_address *address);

/* All addresses of this host, of both families where the system listens on both. */
void rs_address_any(uint16_t port, union rs_address *address);

/* Size of a text that rs_address_text writes. */
#define RS_ADDRESS_TEXT_SIZE 80

/* "192.0.2.1 port 13579". Returns text. */
const char *rs_address_text(const struct sockaddr *address, char text[RS_ADDRESS_TEXT_SIZE]);

#endif
