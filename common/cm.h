/*
 * Connecting by address, through the RDMA connection manager (librdmacm), in place of descriptors.
 *
 *   client: rs_rdma_connect_to_address -> established
 *   server: rs_rdma_listen -> requested -> rs_connection_accept -> established
 *   both:   … rs_connection_disconnect, or disconnected
 *
 * Nothing blocks: events of the connection manager are read from its channel inside
 * rs_pe_progress, copied, acknowledged, and then handled. The queue pairs are the instance's, on
 * its device; the connection manager only carries their numbers, and private data of the programs.
 * Source: man 7 rdma_cm.
 */
#ifndef RS_CM_H
#define RS_CM_H

#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "address.h"
#include "connection.h"
#include "status.h"

/* What fits into a request, with the address that stands there, too. */
#define RS_CM_MAX_PRIVATE_DATA 56

/* Bytes of a text that tells a peer why it is rejected. */
#define RS_CM_MAX_REASON 147

/* Called inside rs_pe_progress. Any may be NULL. */
struct rs_connection_callbacks {
	/*
	 * A peer asks for a connection, and has sent private data: accept it or reject it, now or
	 * later.
	 */
	void (*requested)(struct rs_connection *connection, void *ctx_user_data);
	/* Data can be sent. On the client, the server's private data are there. */
	void (*established)(struct rs_connection *connection, void *ctx_user_data);
	/* The peer has ended it. What is in flight comes back flushed. */
	void (*disconnected)(struct rs_connection *connection, void *ctx_user_data);
};

/*
 * Default: none. A connection that fails, on the way or later, is told by
 * rs_rdma_set_connection_failed_cb. RS_ERR_BAD_STATE: the context is not Idle.
 */
enum rs_status rs_rdma_set_connection_callbacks(struct rs_rdma *rdma,
						const struct rs_connection_callbacks *callbacks);

/*
 * Peers can connect to this port of all addresses that the instance's device has. As many at a time
 * as the instance has connections; one more is rejected with the reason in words.
 * RS_ERR_BAD_STATE: not Starting or Running, or listening already; RS_ERR_IN_USE: the port.
 */
enum rs_status rs_rdma_listen(struct rs_rdma *rdma, uint16_t port);

/* RS_ERR_BAD_STATE: it does not listen. */
enum rs_status rs_rdma_stop_listen(struct rs_rdma *rdma);

/*
 * Begins to connect. length: at most RS_CM_MAX_PRIVATE_DATA (RS_ERR_TOO_BIG).
 * RS_ERR_BAD_STATE: not Starting or Running; RS_ERR_FULL: the instance has all its connections.
 * What fails later is told by the callback: RS_ERR_UNREACHABLE, RS_ERR_REJECTED, …
 */
enum rs_status rs_rdma_connect_to_address(struct rs_rdma *rdma, const union rs_address *address,
					  const void *private_data, size_t length,
					  struct rs_connection **connection);

/* Answers a request. RS_ERR_BAD_STATE: there is none; RS_ERR_TOO_BIG: the private data. */
enum rs_status rs_connection_accept(struct rs_connection *connection, const void *private_data,
				    size_t length);

/* reason: a text for the peer's log, RS_CM_MAX_REASON bytes of it. */
enum rs_status rs_connection_reject(struct rs_connection *connection, const char *reason);

/* What the peer has sent with its request or answer. It stays the connection's. */
const void *rs_connection_private_data(const struct rs_connection *connection, size_t *length);

/* Where the peer is; NULL for a connection that was made with descriptors. */
const struct sockaddr *rs_connection_peer_address(const struct rs_connection *connection);

/*
 * The name of the device through which an address is reached. RS_ERR_UNREACHABLE,
 * RS_ERR_NOT_FOUND: by none; the log says why.
 */
enum rs_status rs_cm_find_device(const union rs_address *address, char name[IBV_SYSFS_NAME_MAX]);

#endif
