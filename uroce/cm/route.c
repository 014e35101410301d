#include "route.h"

#include <errno.h>
#include <unistd.h>

#include "../core/interface.h"
#include "../link/address.h"

/* As the system's default. */
#define HOP_LIMIT 64

/* ---- Addresses ---- */

static bool is_link_local(const union ur_sockaddr *address)
{
	return !ur_address_is_ipv4(address) && IN6_IS_ADDR_LINKLOCAL(&address->v6.sin6_addr);
}

union ibv_gid ur_cm_gid_of(const union ur_sockaddr *address)
{
	union ibv_gid gid = { .raw = { [10] = 0xff, [11] = 0xff } };

	if (ur_address_is_ipv4(address))
		memcpy(&gid.raw[12], &address->v4.sin_addr, sizeof(address->v4.sin_addr));
	else
		memcpy(gid.raw, &address->v6.sin6_addr, sizeof(gid.raw));
	return gid;
}

int ur_cm_gid_index(const struct ur_device *device, const union ur_sockaddr *address)
{
	const union ibv_gid gid = ur_cm_gid_of(address);

	if (is_link_local(address) && address->v6.sin6_scope_id != device->if_index)
		return -1;
	return ur_device_gid_index(device, &gid);
}

struct ur_device *ur_cm_device_of(const union ur_sockaddr *address)
{
	const union ibv_gid gid = ur_cm_gid_of(address);

	/* A link-local one without a scope is of no device. */
	if (is_link_local(address) && address->v6.sin6_scope_id == 0)
		return NULL;
	return ur_devices_find(&gid, is_link_local(address) ? address->v6.sin6_scope_id : 0);
}

static bool is_group(const union ur_sockaddr *address)
{
	const union ibv_gid gid = ur_cm_gid_of(address);

	return ur_gid_is_group(&gid);
}

/* ---- What the system says ---- */

static int ask(int fd, const union ur_sockaddr *source, union ur_sockaddr *used_source,
	       union ur_sockaddr *used_dest)
{
	socklen_t source_size = sizeof(*used_source), dest_size = sizeof(*used_dest);

	if ((source && bind(fd, &source->any, ur_address_size(source)) < 0) ||
	    connect(fd, &used_dest->any, ur_address_size(used_dest)) < 0 ||
	    getsockname(fd, &used_source->any, &source_size) < 0 ||
	    getpeername(fd, &used_dest->any, &dest_size) < 0)
		return errno;
	return 0;
}

/* Sends nothing: to connect a UDP socket is only to look for the way. */
static int ask_system(const union ur_sockaddr *source, const union ur_sockaddr *dest,
		      struct ur_cm_route *route)
{
	int fd = socket(dest->any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	union ur_sockaddr any_port;
	int error;

	if (fd < 0)
		return errno;
	if (source) {
		any_port = *source;
		ur_address_set_port(&any_port, 0);
	}
	route->dest = *dest;
	ur_address_set_port(&route->dest, UR_UDP_PORT);
	error = ask(fd, source ? &any_port : NULL, &route->source, &route->dest);
	close(fd);
	return error;
}

/* ---- Ways ---- */

static uint8_t hop_limit(const struct ur_device *device, const union ur_sockaddr *source,
			 const union ur_sockaddr *dest)
{
	return device->loopback || ur_address_same_host(source, dest) ? 0 : HOP_LIMIT;
}

static int make_path(struct ur_cm_route *route)
{
	int gid_index = ur_cm_gid_index(route->device, &route->source);
	struct ibv_ah_attr attr = {
		.is_global = 1,
		.port_num = 1,
		.grh = { .dgid = ur_cm_gid_of(&route->dest),
			 .sgid_index = (uint8_t)gid_index,
			 .hop_limit = hop_limit(route->device, &route->source, &route->dest) },
	};

	if (gid_index < 0)
		return ENODEV;
	if (is_group(&route->dest))
		return ur_device_group_path(route->device, &attr, &route->path);
	return ur_device_path(route->device, &attr, UR_UDP_PORT, &route->path);
}

/* To a group all goes out where the source is, whatever other interfaces would do. */
static void take_source(const union ur_sockaddr *source, const union ur_sockaddr *dest,
			struct ur_cm_route *route)
{
	route->source = *source;
	route->dest = *dest;
}

int ur_cm_route(const union ur_sockaddr *source, const union ur_sockaddr *dest,
		struct ur_cm_route *route)
{
	bool chosen = source && !ur_address_is_any(source);
	int error = 0;

	if (source && source->any.sa_family != dest->any.sa_family)
		return EINVAL;
	if (chosen && is_group(dest))
		take_source(source, dest, route);
	else
		error = ask_system(chosen ? source : NULL, dest, route);
	if (error)
		return error;
	route->device = ur_cm_device_of(&route->source);
	if (!route->device)
		return ENODEV;
	error = make_path(route);
	ur_address_set_port(&route->source, source ? ur_address_port(source) : 0);
	ur_address_set_port(&route->dest, ur_address_port(dest));
	return error;
}

/*
 * A process of this host is answered at its own port: what went through port 4791 would be lost with
 * the sender, if that has the port and ends at once.
 */
static uint16_t port_back(const struct ur_cm_route *route)
{
	uint16_t port = ur_address_port(&route->dest);
	bool is_neighbour = ur_address_same_host(&route->source, &route->dest) &&
			    port >= UR_UDP_PORT && port <= UR_UDP_PORT + UINT8_MAX;

	return is_neighbour ? port : UR_UDP_PORT;
}

int ur_cm_route_back(struct ur_device *device, const struct ur_path *from, uint16_t source_port,
		     uint16_t dest_port, struct ur_cm_route *route)
{
	if (from->gid_index >= device->gid_count)
		return EINVAL;
	*route = (struct ur_cm_route){ .device = device, .path = *from, .dest = from->remote };
	ur_device_address(device, from->gid_index, &route->source);
	route->path.hop_limit = hop_limit(device, &route->source, &route->dest);
	ur_address_set_port(&route->path.remote, port_back(route));
	ur_address_set_port(&route->source, source_port);
	ur_address_set_port(&route->dest, dest_port);
	return 0;
}
