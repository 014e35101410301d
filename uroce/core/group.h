/*
 * Multicast groups of a device, each while queue pairs are attached to it. What is sent to a group is
 * for all queue pairs that are attached to it, in all processes, and that of the sender is no
 * exception (as with the kernel's driver), unless it was made with
 * IBV_QP_CREATE_BLOCK_SELF_MCAST_LB.
 *
 * In RoCE v2 a group is an IPv4 multicast address, as ::ffff:a.b.c.d, or an IPv6 one (InfiniBand
 * specification volume 1, annex A17).
 */
#ifndef UR_GROUP_H
#define UR_GROUP_H

#include <infiniband/verbs.h>

#include "../link/link.h"

/* Queue pairs that can be attached to a group. */
#define UR_MAX_GROUP_QPS 1024

struct ur_qp;

/* Guarded by the device's lock, as the table. */
struct ur_group {
	union ibv_gid gid;
	struct ur_qp **qps;
	unsigned qp_count;
};

struct ur_group_table {
	struct ur_group *groups[UR_MAX_GROUPS];
	unsigned count;
};

/*
 * man ibv_attach_mcast. Once attached, again is no error and changes nothing. Returns 0; EINVAL: not
 * a group, or not a queue pair of datagrams; ENOMEM: too many groups, or queue pairs of this one;
 * or why the system does not let this process join (logged).
 */
int ur_group_attach(struct ur_qp *qp, const union ibv_gid *gid);
/* Returns 0, or EINVAL: it is not attached. */
int ur_group_detach(struct ur_qp *qp, const union ibv_gid *gid);

/*
 * Whether a packet that was sent to a group is for a queue pair that is attached to it: not if that has
 * sent it and does not want to hear itself. from: the sender's address.
 */
bool ur_group_is_for(const struct ur_qp *qp, const struct ur_packet *packet,
		     const union ur_sockaddr *from);

#endif
