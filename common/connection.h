/*
 * Connection: one reliable connection of an RDMA instance, made by exchanging descriptors with the
 * peer, or by its address (see cm.h).
 *
 * With descriptors: both peers export (rs_rdma_export), carry the line to the other, and connect. A connection
 * belongs to its instance and lasts until the instance's context is Idle.
 */
#ifndef RS_CONNECTION_H
#define RS_CONNECTION_H

#include <stdbool.h>
#include <stddef.h>

#include "status.h"

struct rs_connection;
struct rs_rdma;

enum rs_connection_state {
	RS_CONNECTION_EXPORTED,     /* its queue pair is there, the peer is not known */
	RS_CONNECTION_REQUESTED,    /* a peer asks for it, see cm.h */
	RS_CONNECTION_CONNECTING,   /* by address: what is asked or answered is on its way */
	RS_CONNECTION_CONNECTED,    /* this side can send and receive */
	RS_CONNECTION_FAILED,       /* an error has ended it */
	RS_CONNECTION_DISCONNECTED, /* rs_connection_disconnect has ended it */
};

/* "exported", "connected", … Never NULL. */
const char *rs_connection_state_name(enum rs_connection_state state);

/*
 * Makes a queue pair and the descriptor line (see descriptor.h) with which the peer connects to it.
 * line: stays the connection's, valid as long as it lasts. Allowed in Starting and Running
 * (RS_ERR_BAD_STATE). RS_ERR_FULL: the instance has all the connections that it was configured for.
 */
enum rs_status rs_rdma_export(struct rs_rdma *rdma, const char **line,
			      struct rs_connection **connection);

/*
 * Connects to the peer whose line this is: after it, this side can send and receive. It does not
 * talk to the peer: if that is not there, tasks will fail with RS_ERR_RETRY_EXCEEDED.
 * RS_ERR_BAD_STATE: not in Starting or Running, or not in the exported state;
 * RS_ERR_BAD_DESCRIPTOR: damaged, not a connection's, or this connection's own;
 * RS_ERR_NOT_SUPPORTED: the peer's link or GID type differs. The log has the reason.
 */
enum rs_status rs_rdma_connect(struct rs_rdma *rdma, const char *line,
			       struct rs_connection *connection);

/*
 * Ends it: sends in flight come back flushed, the peer's requests are no longer answered.
 * RS_ERR_BAD_STATE: it has ended already. If Running cannot be reached without it, the context
 * stops.
 */
enum rs_status rs_connection_disconnect(struct rs_connection *connection);

/*
 * It has done what it was for: when the peer ends it, it still counts among those that Running waits
 * for, and keeps its place.
 */
void rs_connection_set_complete(struct rs_connection *connection);
bool rs_connection_is_complete(const struct rs_connection *connection);

enum rs_connection_state rs_connection_state(const struct rs_connection *connection);

/* Its number in the instance: 0 for the first one exported. */
unsigned rs_connection_id(const struct rs_connection *connection);

void rs_connection_set_user_data(struct rs_connection *connection, void *user_data);
void *rs_connection_user_data(const struct rs_connection *connection);

/* The queue pair, for calls that this layer does not make. It stays the connection's. */
struct ibv_qp *rs_connection_qp(const struct rs_connection *connection);

#endif
