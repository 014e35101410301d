#include "forward.h"

#include <errno.h>
#include <string.h>

#include "../wire/packet.h"

static const uint8_t magic[4] = { 'U', 'R', 'F', 'W' };

/* As on the wire. */
struct envelope {
	uint8_t magic[sizeof(magic)];
	uint8_t family;
	uint8_t zero;
	in_port_t port;
	union {
		struct in_addr v4;
		struct in6_addr v6;
	} address;
};
_Static_assert(sizeof(struct envelope) == UR_ENVELOPE_SIZE, "no padding");

static struct envelope envelope_of(const union ur_sockaddr *sender)
{
	struct envelope envelope = { .port = htons(ur_address_port(sender)) };

	memcpy(envelope.magic, magic, sizeof(magic));
	if (ur_address_is_ipv4(sender)) {
		envelope.family = 4;
		envelope.address.v4 = sender->v4.sin_addr;
	} else {
		envelope.family = 6;
		envelope.address.v6 = sender->v6.sin6_addr;
	}
	return envelope;
}

/* The same local address with another process's port. */
static union ur_sockaddr neighbour(const struct ur_socket *sock, uint8_t number)
{
	union ur_sockaddr address = sock->address;

	ur_address_set_port(&address, (uint16_t)(UR_UDP_PORT + number));
	return address;
}

int ur_forward(const struct ur_socket *sock, uint8_t number, const union ur_sockaddr *sender,
	       const void *data, size_t length)
{
	struct envelope envelope = envelope_of(sender);
	union ur_sockaddr dest = neighbour(sock, number);
	struct iovec pieces[] = {
		{ &envelope, sizeof(envelope) },
		{ (void *)(uintptr_t)data, length },
	};
	const struct msghdr header = {
		.msg_name = &dest,
		.msg_namelen = ur_address_size(&dest),
		.msg_iov = pieces,
		.msg_iovlen = 2,
	};

	return sendmsg(sock->fd, &header, 0) < 0 ? errno : 0;
}

bool ur_forward_is_there(const struct ur_socket *sock, uint8_t number)
{
	union ur_sockaddr address = neighbour(sock, number);
	struct ur_socket probe;
	int error = ur_socket_open(&probe, &address, sock->gid_index);

	if (!error)
		ur_socket_close(&probe);
	return error == EADDRINUSE;
}

bool ur_is_envelope(const struct ur_socket *sock, const union ur_sockaddr *from,
		    const uint8_t *data, size_t length)
{
	union ur_sockaddr owner;

	if (length < UR_ENVELOPE_SIZE || memcmp(data, magic, sizeof(magic)) != 0)
		return false;
	owner = neighbour(sock, 0);
	return ur_address_equal(from, &owner);
}

static bool read_ipv4(const struct envelope *envelope, union ur_sockaddr *sender)
{
	sender->v4 = (struct sockaddr_in){ .sin_family = AF_INET,
					   .sin_port = envelope->port,
					   .sin_addr = envelope->address.v4 };
	return envelope->family == 4;
}

/* A link-local sender is on the same link as the address that it sent to. */
static bool read_ipv6(const struct envelope *envelope, uint32_t scope_id, union ur_sockaddr *sender)
{
	sender->v6 = (struct sockaddr_in6){ .sin6_family = AF_INET6,
					    .sin6_port = envelope->port,
					    .sin6_addr = envelope->address.v6 };
	if (IN6_IS_ADDR_LINKLOCAL(&sender->v6.sin6_addr))
		sender->v6.sin6_scope_id = scope_id;
	return envelope->family == 6;
}

bool ur_envelope_sender(const struct ur_socket *sock, const uint8_t *data,
			union ur_sockaddr *sender)
{
	struct envelope envelope;

	memcpy(&envelope, data, sizeof(envelope));
	if (ur_address_is_ipv4(&sock->address))
		return read_ipv4(&envelope, sender);
	return read_ipv6(&envelope, sock->address.v6.sin6_scope_id, sender);
}
