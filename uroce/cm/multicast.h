/*
 * Membership: a multicast group that an id has joined (man rdma_join_multicast). No manager is asked
 * for it, as in InfiniBand: the system tells the network when a queue pair is attached. As in Linux,
 * the group's GID is the IP address: ::ffff:a.b.c.d, or the IPv6 address.
 */
#ifndef UR_CM_MULTICAST_H
#define UR_CM_MULTICAST_H

#include "id.h"

struct ur_membership {
	struct ur_event_source
		events;             /* first; of its own, since who leaves waits for these alone */
	struct ur_membership *next; /* of the id */
	union ur_sockaddr address;
	union ibv_gid gid;
	bool send_only;
	bool attached; /* the id's queue pair is; */
	bool left;     /* and is not to be any more */
};

/* That an event (RDMA_CM_EVENT_MULTICAST_JOIN) is of. */
static inline struct ur_membership *ur_membership_of(const struct ur_event *event)
{
	return (struct ur_membership *)event->source;
}

/*
 * The event RDMA_CM_EVENT_MULTICAST_JOIN follows. send_only: no queue pair will be attached. context:
 * of the program, for the event. Returns 0; EINVAL: not a group, or the id is of another service than
 * datagrams, has no device yet or an address of the other family, or is connecting; or ENOMEM.
 */
int ur_id_join(struct ur_cm_id *id, const union ur_sockaddr *address, bool send_only,
	       void *context);

/*
 * Detaches the queue pair, takes back the events that were not read, and waits until the others are
 * acknowledged. Returns 0, or EADDRNOTAVAIL: not joined.
 */
int ur_id_leave(struct ur_cm_id *id, const union ur_sockaddr *address);
void ur_id_leave_all(struct ur_cm_id *id);

/* Attaches the id's queue pair, if there is one. Returns 0, or what ur_group_attach does. */
int ur_membership_attach(struct ur_membership *membership, struct ibv_qp *qp);

/* The id's queue pair is going. */
void ur_id_detach_all(struct ur_cm_id *id);

/* The id was moved to another channel: its memberships follow. Returns 0 or an errno. */
int ur_id_move_memberships(struct ur_cm_id *id);

#endif
