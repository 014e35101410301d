/*
 * Routes: which device reaches an address, and from which of its own.
 */
#ifndef UR_ROUTE_H
#define UR_ROUTE_H

#include "../core/device.h"

/* Where a connection goes. */
struct ur_cm_route {
	struct ur_device *device;
	struct ur_path path;      /* to UDP port 4791, or to a process of this host at its own */
	union ur_sockaddr source; /* of the device; the port is the program's, see address.h */
	union ur_sockaddr dest;   /* the port is the service's */
};

/*
 * The device whose interface has the address (the port does not matter; IPv6 link-local: with its
 * scope), or NULL: also for 127.0.0.2 and the like, unless the loopback interface has it as an
 * address.
 */
struct ur_device *ur_cm_device_of(const union ur_sockaddr *address);

/* Which of the device's GIDs an address is; -1: none. */
int ur_cm_gid_index(const struct ur_device *device, const union ur_sockaddr *address);

/* An address as a GID. */
union ibv_gid ur_cm_gid_of(const union ur_sockaddr *address);

/*
 * The way to dest as the system routes it, from source (NULL or any address: the system chooses).
 * Ports are kept. dest can be a multicast group. To an any address is to this host, as with TCP. To an address of 127.0.0.0/8 that
 * no process can have there is a way, through uroce_lo, but nobody answers.
 * Returns 0; ENODEV: no device of ours has the source; or what the system says (ENETUNREACH,
 * EADDRNOTAVAIL, EINVAL: families differ, …).
 */
int ur_cm_route(const union ur_sockaddr *source, const union ur_sockaddr *dest,
		struct ur_cm_route *route);

/*
 * The way back to the sender of a datagram that came to the device by path. source_port, dest_port:
 * host order. Returns 0, or EINVAL: the device has no such GID.
 */
int ur_cm_route_back(struct ur_device *device, const struct ur_path *from, uint16_t source_port,
		     uint16_t dest_port, struct ur_cm_route *route);

#endif
