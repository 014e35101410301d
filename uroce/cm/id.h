/*
 * Id: what stands for a connection, a listener or a datagram service in programs that use librdmacm
 * (man rdma_cm), over uroce's devices.
 *
 * A program calls for an id from one thread at a time, but events come from the manager's thread
 * and are read by any: what both touch is atomic or stands in the id's event source. No lock is
 * held when the manager is called.
 */
#ifndef UR_ID_H
#define UR_ID_H

#include <rdma/rdma_cma.h>
#include <stdatomic.h>

#include "channel.h"
#include "manager.h"

enum ur_id_state {
	UR_ID_IDLE,
	UR_ID_BOUND,
	UR_ID_ADDR_RESOLVED,
	UR_ID_ROUTE_RESOLVED,
	UR_ID_LISTENING,
	UR_ID_REQUESTED,  /* passive: neither accepted nor rejected */
	UR_ID_CONNECTING, /* asked, or accepted */
	UR_ID_CONNECTED,
	UR_ID_FAILED, /* the own queue pair could not be made ready; the peer's word does not count */
};

struct ur_cm_id {
	struct rdma_cm_id verbs; /* first */
	struct ur_event_source events;
	_Atomic enum ur_id_state state;

	uint16_t port;            /* that it has taken; 0: none */
	unsigned port_process;    /* and in which process, see port.h */
	struct ur_cm_route route; /* since ADDR_RESOLVED, or REQUESTED */
	struct ur_cm_listener *listener;
	_Atomic(struct ur_cm_connection *) connection;
	bool passive;
	/* Of the own queue pair: agreed, or what the peer's request allows. */
	uint8_t responder_resources, initiator_depth;
	struct ur_membership *memberships; /* in multicast groups, see multicast.h */

	/* Options. */
	bool shares_port;
	bool own_family_only;
	uint8_t traffic_class;
	bool has_ack_timeout;
	uint8_t ack_timeout; /* exponent */

	/* For the queue pairs of requests, see rdma_create_ep; NULL: the program makes them. */
	struct ibv_qp_init_attr *qp_init_attr;
	/* What a request says in front of the program's private data, see man rdma_getaddrinfo. */
	size_t connect_length;
	uint8_t connect_data[UR_CM_MAX_PRIVATE];
};

static inline struct ur_cm_id *ur_id_of(struct rdma_cm_id *verbs)
{
	return (struct ur_cm_id *)verbs;
}

static inline bool ur_id_is_datagram(const struct ur_cm_id *id)
{
	return id->verbs.qp_type == IBV_QPT_UD;
}

/* The half of an extended connection that only sends, or only receives. */
static inline bool ur_id_only_sends(const struct ur_cm_id *id)
{
	return id->verbs.qp_type == IBV_QPT_XRC_SEND;
}

static inline bool ur_id_only_receives(const struct ur_cm_id *id)
{
	return id->verbs.qp_type == IBV_QPT_XRC_RECV;
}

/* Its calls wait for their events, which come to a channel of its own. */
static inline bool ur_id_is_synchronous(const struct ur_cm_id *id)
{
	return id->events.owns_channel;
}

/* False: it is not in the state from. */
static inline bool ur_id_advance(struct ur_cm_id *id, enum ur_id_state from, enum ur_id_state to)
{
	return atomic_compare_exchange_strong(&id->state, &from, to);
}

/* channel NULL: a synchronous one. NULL and errno. */
struct ur_cm_id *ur_id_create(struct ur_event_channel *channel, void *context,
			      enum rdma_port_space port_space, enum ibv_qp_type qp_type);

/*
 * For a connection that a listener was asked for; its events stay with the connection until it is
 * adopted. The connection is the id's from now on. NULL and errno: it is released.
 */
struct ur_cm_id *ur_id_create_passive(struct ur_cm_id *listener,
				      struct ur_cm_connection *connection);

/* In any state. Waits until its events are acknowledged. */
void ur_id_destroy(struct ur_cm_id *id);

/* Moves it, and its events that were not read; see ur_event_source_move. Returns 0 or an errno. */
int ur_id_move(struct ur_cm_id *id, struct ur_event_channel *channel);

/* False: of no family that is known. */
bool ur_id_read_address(const struct sockaddr *from, union ur_sockaddr *to);

/*
 * IDLE to BOUND: takes the port, sets the source address and, unless it is an any address, the
 * device. Returns 0; EINVAL: in another state; EADDRNOTAVAIL: not an address of this host; ENODEV:
 * of none of our devices; EADDRINUSE; or another errno.
 */
int ur_id_bind(struct ur_cm_id *id, const union ur_sockaddr *address);

/* Of a bound one. */
union ur_sockaddr ur_id_source(const struct ur_cm_id *id);

/* Sets the route, and what programs see of it: device and addresses. Returns 0 or an errno. */
int ur_id_set_route(struct ur_cm_id *id, const struct ur_cm_route *route);

/* Sets the path record of its route. Returns 0 or ENOMEM. */
int ur_id_set_path_record(struct ur_cm_id *id);

/* Posts an event of it. Takes back what is behind it if the channel is closed. */
void ur_id_post(struct ur_cm_id *id, struct ur_event *event);

#endif
