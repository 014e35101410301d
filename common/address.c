#define LOG_MODULE "address"

#include "address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "log.h"

static const char *const type_names[] = {
	[RS_ADDRESS_GUESSED] = "address",
	[RS_ADDRESS_IPV4] = "IPv4 address",
	[RS_ADDRESS_IPV6] = "IPv6 address",
	[RS_ADDRESS_GID] = "GID",
};

static int family_of(enum rs_address_type type)
{
	switch (type) {
	case RS_ADDRESS_IPV4:
		return AF_INET;
	case RS_ADDRESS_IPV6:
	case RS_ADDRESS_GID:
		return AF_INET6;
	default:
		return AF_UNSPEC;
	}
}

static bool holds_ipv4(const union rs_address *address)
{
	return address->any.sa_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&address->ipv6.sin6_addr);
}

/* ::ffff:192.0.2.1 is what RoCE calls 192.0.2.1. */
static void take_ipv4_out(union rs_address *address)
{
	struct sockaddr_in ipv4 = { .sin_family = AF_INET };

	memcpy(&ipv4.sin_addr, &address->ipv6.sin6_addr.s6_addr[12], sizeof(ipv4.sin_addr));
	address->ipv4 = ipv4;
}

static void set_port(union rs_address *address, uint16_t port)
{
	if (address->any.sa_family == AF_INET)
		address->ipv4.sin_port = htons(port);
	else
		address->ipv6.sin6_port = htons(port);
}

enum rs_status rs_address_parse(const char *text, enum rs_address_type type, uint16_t port,
				union rs_address *address)
{
	struct addrinfo hints = { .ai_family = family_of(type), .ai_socktype = SOCK_STREAM };
	struct addrinfo *found;
	int error;

	if (type == RS_ADDRESS_GID)
		hints.ai_flags = AI_NUMERICHOST;
	error = getaddrinfo(text, NULL, &hints, &found);
	if (error) {
		LOG_ERROR("\"%s\" is no %s: %s", text, type_names[type], gai_strerror(error));
		return RS_ERR_INVALID_VALUE;
	}
	memset(address, 0, sizeof(*address));
	memcpy(address, found->ai_addr, found->ai_addrlen);
	freeaddrinfo(found);
	if (holds_ipv4(address))
		take_ipv4_out(address);
	set_port(address, port);
	return RS_OK;
}

void rs_address_any(uint16_t port, union rs_address *address)
{
	*address = (union rs_address){ .ipv6 = { .sin6_family = AF_INET6,
						 .sin6_addr = IN6ADDR_ANY_INIT } };
	set_port(address, port);
}

const char *rs_address_text(const struct sockaddr *address, char text[RS_ADDRESS_TEXT_SIZE])
{
	socklen_t size = address->sa_family == AF_INET ? sizeof(struct sockaddr_in)
						       : sizeof(struct sockaddr_in6);
	char host[INET6_ADDRSTRLEN + 16], port[8];

	if (getnameinfo(address, size, host, sizeof(host), port, sizeof(port),
			NI_NUMERICHOST | NI_NUMERICSERV) == 0)
		snprintf(text, RS_ADDRESS_TEXT_SIZE, "%s port %s", host, port);
	else
		snprintf(text, RS_ADDRESS_TEXT_SIZE, "an unknown address");
	return text;
}
