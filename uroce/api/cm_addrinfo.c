/*
 * From names to addresses, by getaddrinfo(3).
 */
#include <netdb.h>
#include <stdlib.h>
#include <string.h>

#include "cm.h"

static int socket_type(int qp_type)
{
	switch (qp_type) {
	case IBV_QPT_RC:
	case IBV_QPT_UC:
	case IBV_QPT_XRC_SEND:
	case IBV_QPT_XRC_RECV:
		return SOCK_STREAM;
	case IBV_QPT_UD:
		return SOCK_DGRAM;
	default:
		return 0;
	}
}

static int protocol(int port_space, int type)
{
	bool any_type = port_space == RDMA_PS_IB;

	if (port_space == RDMA_PS_TCP || (any_type && type == SOCK_STREAM))
		return IPPROTO_TCP;
	if (port_space == RDMA_PS_UDP || port_space == RDMA_PS_IPOIB ||
	    (any_type && type == SOCK_DGRAM))
		return IPPROTO_UDP;
	return 0;
}

static struct addrinfo to_hints(const struct rdma_addrinfo *hints)
{
	struct addrinfo converted = { .ai_family = hints->ai_family,
				      .ai_socktype = socket_type(hints->ai_qp_type) };

	if (hints->ai_flags & RAI_PASSIVE)
		converted.ai_flags |= AI_PASSIVE;
	if (hints->ai_flags & RAI_NUMERICHOST)
		converted.ai_flags |= AI_NUMERICHOST;
	converted.ai_protocol = protocol(hints->ai_port_space, converted.ai_socktype);
	return converted;
}

/* Returns 0 or an error of getaddrinfo. */
static int copy_address(struct sockaddr **to, socklen_t *to_length, const struct sockaddr *from,
			socklen_t length)
{
	*to = malloc(length);
	if (!*to)
		return EAI_MEMORY;
	memcpy(*to, from, length);
	*to_length = length;
	return 0;
}

static int from_result(struct rdma_addrinfo *to, const struct rdma_addrinfo *hints,
		       const struct addrinfo *from)
{
	bool is_datagram = from->ai_socktype == SOCK_DGRAM;

	to->ai_family = from->ai_family;
	to->ai_qp_type = hints->ai_qp_type;
	if (!to->ai_qp_type)
		to->ai_qp_type = is_datagram ? IBV_QPT_UD : IBV_QPT_RC;
	to->ai_port_space = hints->ai_port_space;
	if (!to->ai_port_space)
		to->ai_port_space = is_datagram ? RDMA_PS_UDP : RDMA_PS_TCP;
	if (!(hints->ai_flags & RAI_PASSIVE))
		return copy_address(&to->ai_dst_addr, &to->ai_dst_len, from->ai_addr,
				    from->ai_addrlen);
	to->ai_flags = RAI_PASSIVE;
	return copy_address(&to->ai_src_addr, &to->ai_src_len, from->ai_addr, from->ai_addrlen);
}

static int look_up(const char *node, const char *service, const struct rdma_addrinfo *hints,
		   struct rdma_addrinfo *to)
{
	const struct addrinfo converted = to_hints(hints);
	struct addrinfo *found;
	int error = getaddrinfo(node, service, &converted, &found);

	if (error)
		return error;
	error = from_result(to, hints, found);
	freeaddrinfo(found);
	return error;
}

/* The program has the addresses already. */
static int take_hints(const struct rdma_addrinfo *hints, struct rdma_addrinfo *to)
{
	to->ai_flags = hints->ai_flags;
	to->ai_family = hints->ai_family;
	to->ai_qp_type = hints->ai_qp_type;
	to->ai_port_space = hints->ai_port_space;
	if (hints->ai_dst_len == 0)
		return 0;
	return copy_address(&to->ai_dst_addr, &to->ai_dst_len, hints->ai_dst_addr,
			    hints->ai_dst_len);
}

/* Nothing here knows such data but the program; only who connects says it. */
static int copy_connect_data(const struct rdma_addrinfo *hints, struct rdma_addrinfo *to)
{
	if (!hints->ai_connect || hints->ai_connect_len == 0 || hints->ai_flags & RAI_PASSIVE)
		return 0;
	to->ai_connect = malloc(hints->ai_connect_len);
	if (!to->ai_connect)
		return EAI_MEMORY;
	memcpy(to->ai_connect, hints->ai_connect, hints->ai_connect_len);
	to->ai_connect_len = hints->ai_connect_len;
	return 0;
}

static int fill(const char *node, const char *service, const struct rdma_addrinfo *hints,
		struct rdma_addrinfo *to)
{
	int error = node || service ? look_up(node, service, hints, to) : take_hints(hints, to);

	if (!error)
		error = copy_connect_data(hints, to);
	if (error || to->ai_src_len > 0 || hints->ai_src_len == 0)
		return error;
	return copy_address(&to->ai_src_addr, &to->ai_src_len, hints->ai_src_addr,
			    hints->ai_src_len);
}

UR_EXPORT int rdma_getaddrinfo(const char *node, const char *service,
			       const struct rdma_addrinfo *hints, struct rdma_addrinfo **res)
{
	static const struct rdma_addrinfo no_hints;
	struct rdma_addrinfo *found;
	int error;

	if (!ur_cm_is_ours())
		return UR_FORWARD(-1, rdma_getaddrinfo, node, service, hints, res);
	if (!res || (!node && !service && !hints))
		return ur_cm_result(EINVAL);
	found = calloc(1, sizeof(*found));
	if (!found)
		return -1;
	error = fill(node, service, hints ? hints : &no_hints, found);
	if (error)
		goto err_found;
	*res = found;
	return 0;

err_found:
	rdma_freeaddrinfo(found);
	return error;
}

UR_EXPORT void rdma_freeaddrinfo(struct rdma_addrinfo *res)
{
	if (!ur_cm_is_ours()) {
		UR_FORWARD_VOID(rdma_freeaddrinfo, res);
		return;
	}
	while (res) {
		struct rdma_addrinfo *next = res->ai_next;

		free(res->ai_src_addr);
		free(res->ai_dst_addr);
		free(res->ai_src_canonname);
		free(res->ai_dst_canonname);
		free(res->ai_route);
		free(res->ai_connect);
		free(res);
		res = next;
	}
}
