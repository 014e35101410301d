/*
 * Connection: an endpoint, the way to its peer, what was agreed for the queue pair, and the events
 * that wait for the program; and the table in which messages find it. All guarded by the manager's
 * lock.
 */
#ifndef UR_CONNECTION_H
#define UR_CONNECTION_H

#include "manager.h"

/*
 * By what a connection is found: its own id; the peer's id of its request; the peer's queue pair.
 */
enum ur_connection_key { UR_BY_ID, UR_BY_REQUEST, UR_BY_QPN, UR_CONNECTION_KEYS };

struct ur_cm_connection {
	struct ur_endpoint endpoint; /* first */
	struct ur_cm_route route;
	struct ibv_qp_attr attr; /* what was agreed */
	unsigned process;        /* that it is of, see manager.c */
	bool is_datagram;
	uint64_t service_id; /* that was asked for here */
	bool known_by[UR_CONNECTION_KEYS];
	struct ur_cm_connection *next_by[UR_CONNECTION_KEYS];

	ur_cm_event_fn event; /* NULL: nobody has adopted it yet */
	void *user_data;
	/* The request came to it, and is not answered yet; NULL also once it has gone. */
	struct ur_cm_listener *listener;
	bool delivered; /* the request, to the listener */
	bool unread;    /* the request, and it is in the listener's backlog */
	bool closing;   /* no more events */
	bool held;      /* has ended, but is not released */
	bool lingers;   /* is counted as such */

	struct ur_pending_event *first_event;
	bool ready; /* in the list of those that have events */
	struct ur_cm_connection *next_ready;

	bool timed;
	struct ur_cm_connection *timer_prev, *timer_next;
};

struct ur_pending_event {
	struct ur_pending_event *next;
	enum ur_cm_event_kind kind;
	bool has_message;
	struct ur_cm_message message;
};

/* At the end of those that wait. Returns 0 or ENOMEM. */
int ur_connection_put_event(struct ur_cm_connection *connection, enum ur_cm_event_kind kind,
			    const struct ur_cm_message *message);
/* The caller frees it. NULL: none. */
struct ur_pending_event *ur_connection_take_event(struct ur_cm_connection *connection);
void ur_connection_drop_events(struct ur_cm_connection *connection);

/* ---- Table ---- */

#define UR_CONNECTION_BUCKETS 1024

struct ur_connection_table {
	struct ur_cm_connection *buckets[UR_CONNECTION_KEYS][UR_CONNECTION_BUCKETS];
};

/* Its endpoint and route hold the key's value. */
void ur_connection_add(struct ur_connection_table *table, struct ur_cm_connection *connection,
		       enum ur_connection_key key);
/* From all keys. */
void ur_connection_remove(struct ur_connection_table *table, struct ur_cm_connection *connection);

struct ur_cm_connection *ur_connection_find(const struct ur_connection_table *table, uint32_t id);
/* peer: its port does not matter. */
struct ur_cm_connection *ur_connection_find_request(const struct ur_connection_table *table,
						    const union ur_sockaddr *peer,
						    uint32_t remote_id, bool is_datagram);
/* Of those with that queue pair of the peer one that is live (see endpoint.h). */
struct ur_cm_connection *ur_connection_find_live(const struct ur_connection_table *table,
						 const union ur_sockaddr *peer, uint32_t qpn);

/* Goes through all: the one behind connection (NULL: the first). NULL: that was the last. */
struct ur_cm_connection *ur_connection_next(const struct ur_connection_table *table,
					    const struct ur_cm_connection *connection);

#endif
