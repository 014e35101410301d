/*
 * Connection manager of the process: connections in the making, over uroce devices. It has one
 * thread, started with the first use, and one lock; all functions may be called from any thread,
 * without the lock of a device held, and also inside the callbacks.
 *
 * A connection has two sides:
 *
 *   active:  request -> [REPLIED] -> ready       -> ESTABLISHED … disconnect / DISCONNECTED -> release
 *   passive: REQUESTED (listener) -> reply       -> ESTABLISHED … disconnect / DISCONNECTED -> release
 *   datagrams: look_up -> [LOOKED_UP];  passive: LOOK_UP (listener) -> answer
 *
 * Messages are sent again until they are answered: at intervals of UR_CM_FIRST_INTERVAL_MS,
 * doubled each time, UR_CM_RETRIES times; then the connection has failed (UNREACHABLE). Duplicates
 * of the peer's messages are answered again and make no second connection. See endpoint.h.
 *
 * A child after fork has none of its parent's connections and listeners: what it calls on them
 * does nothing (EINVAL), and it can begin its own.
 *
 * What the general services ask of it stands in gsi.h.
 *
 * Order of locks: the manager's, then those of device.h; a device's, then that of what has arrived
 * and of who listens, under which nothing else is locked.
 */
#ifndef UR_MANAGER_H
#define UR_MANAGER_H

#include <infiniband/verbs.h>

#include "endpoint.h"
#include "port.h"
#include "route.h"

/*
 * Requests that a listener holds unanswered, read or not, whatever its backlog is; more are dropped
 * (the peer tries again).
 */
#define UR_CM_MAX_BACKLOG 1024

struct ur_cm_connection;
struct ur_cm_listener;

struct ur_cm_event {
	enum ur_cm_event_kind kind;
	struct ur_cm_connection *connection;
	const struct ur_cm_message *message; /* valid during the callback; NULL where none came */
};

/*
 * Called in the manager's thread without a lock, one at a time; not after ur_cm_end,
 * ur_cm_release or ur_cm_unlisten has returned: they wait for a callback that runs (so hold no lock that it takes),
 * unless they are called in it. While it runs all others wait.
 */
typedef void (*ur_cm_event_fn)(void *user_data, const struct ur_cm_event *event);

/* ---- Passive side ---- */

/*
 * Requests for the service (the port of address, in the port space), to address (any: to all
 * devices that there are now, of both families), become events from now on. The port was taken,
 * and is given back after ur_cm_unlisten. Holds the devices open. An exact address is preferred to
 * any, and any of the sender's family to any of the other. backlog: how many requests may be
 * neither read (see ur_cm_note_read) nor replied to nor rejected nor released; 0 or less:
 * UR_CM_MAX_BACKLOG, which is the greatest. What comes beyond that is dropped. Returns 0; EADDRINUSE: there is one with this very
 * address; ENODEV: no device has the address, or there is none at all; or another errno.
 */
int ur_cm_listen(uint16_t port_space, const union ur_sockaddr *address, int backlog,
		 ur_cm_event_fn event, void *user_data, struct ur_cm_listener **listener);

/* No more events. Requests not delivered yet are rejected. */
void ur_cm_unlisten(struct ur_cm_listener *listener);

/* The program has read the request, which is no longer in the backlog. */
void ur_cm_note_read(struct ur_cm_connection *connection);

/* What the REQ or SIDR_REQ says of the way: device, addresses. */
const struct ur_cm_route *ur_cm_route_of(const struct ur_cm_connection *connection);

/*
 * Whose events these are from now on. Call it in UR_CM_EVENT_REQUESTED / _LOOK_UP, or later:
 * events wait.
 */
void ur_cm_adopt(struct ur_cm_connection *connection, ur_cm_event_fn event, void *user_data);

/* ---- Both sides ---- */

/* What a side says of its queue pair and wishes. */
struct ur_cm_params {
	uint32_t qpn;
	uint32_t psn; /* of the first request received; 0: a random one, see ur_cm_qp_attr */
	uint8_t responder_resources, initiator_depth;
	bool flow_control, srq;
	uint8_t retry_count, rnr_retry_count;
	uint32_t qkey;   /* datagrams */
	uint8_t qp_type; /* enum ibv_qp_type */
	const void *private_data;
	size_t private_length;
};

/*
 * REQ to the service at route->dest (its port, in this port space). *connection: the caller's to
 * release. Returns 0; EMSGSIZE: the private data does not fit behind the header of IP addressing
 * (36 bytes); or another errno. The message of the peer's event UR_CM_EVENT_REQUESTED has that
 * header in front.
 */
int ur_cm_request(uint16_t port_space, const struct ur_cm_route *route,
		  const struct ur_cm_params *params, ur_cm_event_fn event, void *user_data,
		  struct ur_cm_connection **connection);
/* SIDR_REQ, the same way. */
int ur_cm_look_up(uint16_t port_space, const struct ur_cm_route *route, const void *private_data,
		  size_t private_length, ur_cm_event_fn event, void *user_data,
		  struct ur_cm_connection **connection);

/* All of these: 0, or EINVAL: not in this state; EMSGSIZE: private data does not fit. */
int ur_cm_reply(struct ur_cm_connection *connection, const struct ur_cm_params *params); /* REP */
int ur_cm_ready(struct ur_cm_connection *connection, const void *private_data,
		size_t private_length); /* RTU */
int ur_cm_reject(struct ur_cm_connection *connection, uint16_t reason, const void *private_data,
		 size_t private_length);
int ur_cm_answer(struct ur_cm_connection *connection, uint8_t status,
		 const struct ur_cm_params *params); /* SIDR_REP */
int ur_cm_disconnect(
	struct ur_cm_connection *connection); /* DREQ, or DREP when the peer has asked */
/* The queue pair received something before the RTU came (IBV_EVENT_COMM_EST): established. */
int ur_cm_established(struct ur_cm_connection *connection);

/*
 * In any state: what is due is sent in the background (REJ, DREQ and their repetitions, answers to
 * duplicates), and no more events come. It can still be named in calls, which fail, until it is
 * released.
 */
void ur_cm_end(struct ur_cm_connection *connection);
/* The caller does not need it any more. Ends it if that has not been done, see ur_cm_end. */
void ur_cm_release(struct ur_cm_connection *connection);

/*
 * Attributes to bring the queue pair to attr->qp_state: INIT, RTR or RTS, and their mask (as
 * Linux's rdma_init_qp_attr). Returns 0, or EINVAL: another state, or not known in the
 * connection's state.
 */
int ur_cm_qp_attr(struct ur_cm_connection *connection, struct ibv_qp_attr *attr, int *mask);

/*
 * The process ends: peers are told so once, without waiting. Call it before ur_devices_at_exit,
 * which sends what is queued. No more events after that.
 */
void ur_cm_at_exit(void);

#endif
