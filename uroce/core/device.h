/*
 * Device: one per network interface that is up and has an address, named uroce_IFNAME. It exists
 * once in a process, however many contexts are opened on it. Its lock guards all that packets and
 * the program share: queue pairs, keys, shared receive queues, the link.
 *
 * Its GIDs are the interface's addresses: IPv4 first (as ::ffff:a.b.c.d), then IPv6, then IPv6
 * link-local, so that the one a program takes without asking reaches most. For the same reason the
 * loopback interface's device is the last in the list.
 *
 * Order of locks: the table of devices, a device, a completion queue, a completion channel.
 */
#ifndef UR_DEVICE_H
#define UR_DEVICE_H

#include <infiniband/verbs.h>
#include <net/if.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "../link/link.h"
#include "counters.h"
#include "group.h"
#include "key_table.h"
#include "mr.h"
#include "qp_table.h"

#define UR_MAX_GIDS 32

struct ur_engine;
struct ur_xrc_domain;

struct ur_device {
	struct ibv_device verbs; /* first: what programs hold is a pointer to it */
	char if_name[IFNAMSIZ];
	unsigned if_index;
	bool loopback;
	bool running;
	uint64_t guid; /* network order, as verbs have it */
	enum ibv_mtu mtu;
	/* As found when the device was listed or first opened; fixed while it is open. */
	union ibv_gid gids[UR_MAX_GIDS];
	unsigned gid_count;

	/* Guarded by the table's lock. */
	unsigned contexts;
	struct ur_device *next;
	/* It was open when this process was forked off: its link and engine are the parent's. */
	bool inherited;

	pthread_mutex_t lock;
	/* The following are there while a context is open. */
	struct ur_link *link;
	struct ur_engine *engine;
	struct ur_key_table keys;
	struct ur_pd *pds; /* so that they can be imported */
	struct ur_qp_table qps;
	struct ur_group_table groups;
	struct ur_xrc_domain *domains;
	struct ur_counters counters;
};

/*
 * Finds the interfaces and updates the table of devices. *devices: an array of *count pointers that
 * the caller frees; the devices stay for the life of the process. Returns 0 or an errno.
 */
int ur_devices_scan(struct ur_device ***devices, unsigned *count);

/*
 * Finds the interfaces the same way, and the device with the GID, of the interface if_index (0: of
 * any). NULL: none.
 */
struct ur_device *ur_devices_find(const union ibv_gid *gid, unsigned if_index);

/* The device of an interface, if a context is open on it; NULL: none. */
struct ur_device *ur_devices_find_open(const char *if_name);

/* Whether a device is one of ours. */
bool ur_is_ours(const struct ibv_device *device);

static inline struct ur_device *ur_device_of(const struct ibv_device *device)
{
	return (struct ur_device *)(uintptr_t)device;
}

/*
 * Opens the link and starts the engine when the first context is opened, and undoes that when the
 * last is closed. Returns 0 or an errno; what failed is logged.
 */
int ur_device_get(struct ur_device *device);
void ur_device_put(struct ur_device *device);

/*
 * The process ends: lets the engines of open devices send what is queued, and prints the counters.
 */
void ur_devices_at_exit(void);

/*
 * The GIDs as addresses of the interface. addresses: room for UR_MAX_GIDS; returns how many it
 * filled.
 */
size_t ur_device_addresses(const struct ur_device *device, struct ur_link_address *addresses);

/* Which of its GIDs it is; -1: none. */
int ur_device_gid_index(const struct ur_device *device, const union ibv_gid *gid);

/* A GID, of anybody, as an address without a port. */
void ur_device_gid_address(const struct ur_device *device, const union ibv_gid *gid,
			   union ur_sockaddr *address);

/* One of them. */
void ur_device_address(const struct ur_device *device, uint8_t gid_index,
		       union ur_sockaddr *address);

/* Makes a path to a peer. port: UDP, in host order. Returns 0, or EINVAL and logs why. */
int ur_device_path(const struct ur_device *device, const struct ibv_ah_attr *attr, uint16_t port,
		   struct ur_path *path);
/* The same to a multicast group. */
int ur_device_group_path(const struct ur_device *device, const struct ibv_ah_attr *attr,
			 struct ur_path *path);

/* What verbs report of the device and of its port. */
void ur_device_attr(const struct ur_device *device, struct ibv_device_attr *attr);
void ur_device_port_attr(const struct ur_device *device, struct ibv_port_attr *attr);

/* Limits that attr reports and the objects keep. */
#define UR_MAX_QPS       65000
#define UR_MAX_WRS       16384
#define UR_MAX_CQE       (1 << 22)
#define UR_MAX_INLINE    1024
#define UR_MAX_RD_ATOMIC 128
#define UR_MAX_MESSAGE   (UINT32_C(1) << 30)
#define UR_MAX_KEYS      (1 << 22) /* of memory regions and windows together */

#endif
