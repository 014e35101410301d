#define LOG_MODULE "cm"

#include "cm.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "rdma_impl.h"
#include "text.h"

/* For finding the address's device, and the way to it; the kernel tries again meanwhile. */
#define RESOLVE_MS 3000

/* Requests that the system holds until this program has read them. */
#define BACKLOG 128

static const char *peer_text(const struct rs_connection *connection,
			     char text[RS_ADDRESS_TEXT_SIZE])
{
	return rs_address_text(rdma_get_peer_addr(connection->cm_id), text);
}

/* ---- Queue pairs ---- */

static uint8_t smaller(uint8_t a, uint8_t b)
{
	return a < b ? a : b;
}

/*
 * What the connection manager has agreed on with the peer, but for the times, which are ours. Before
 * a server has answered, the reads are those that the peer wishes: the device may not have as many.
 */
static enum rs_status move_qp(struct rs_connection *connection, enum ibv_qp_state state)
{
	const struct rs_rdma *rdma = connection->rdma;
	struct ibv_qp_attr attr = { .qp_state = state };
	int mask, error;

	if (rdma_init_qp_attr(connection->cm_id, &attr, &mask) != 0)
		return LOG_FAILED_CALL(errno, NULL, "rdma_init_qp_attr(%s)",
				       state == IBV_QPS_RTR ? "RTR" : "RTS");
	attr.max_dest_rd_atomic =
		smaller(attr.max_dest_rd_atomic, rs_connection_served_reads(rdma));
	attr.max_rd_atomic = smaller(attr.max_rd_atomic, rs_connection_asked_reads(rdma));
	attr.min_rnr_timer = RNR_TIMER;
	attr.timeout = (uint8_t)rdma->ack_timeout;
	attr.retry_cnt = (uint8_t)rdma->retries;
	attr.rnr_retry = RNR_RETRIES;
	error = ibv_modify_qp(connection->qp, &attr, mask);
	if (error)
		return LOG_FAILED_CALL(error, NULL, "ibv_modify_qp(QPN 0x%06x to %s)",
				       connection->qpn, state == IBV_QPS_RTR ? "RTR" : "RTS");
	return RS_OK;
}

static enum rs_status move_to_rts(struct rs_connection *connection)
{
	enum rs_status status = move_qp(connection, IBV_QPS_RTR);

	return status == RS_OK ? move_qp(connection, IBV_QPS_RTS) : status;
}

static struct rdma_conn_param parameters(const struct rs_connection *connection,
					 const void *private_data, size_t length)
{
	const struct rs_rdma *rdma = connection->rdma;

	return (struct rdma_conn_param){
		.private_data = private_data,
		.private_data_len = (uint8_t)length,
		.responder_resources = rs_connection_served_reads(rdma),
		.initiator_depth = rs_connection_asked_reads(rdma),
		.retry_count = (uint8_t)rdma->retries,
		.rnr_retry_count = RNR_RETRIES,
		.srq = rdma->srq != NULL,
		.qp_num = connection->qpn,
	};
}

/* ---- Ends ---- */

static void destroy_id(struct rdma_cm_id *id)
{
	if (id && rdma_destroy_id(id) != 0)
		LOG_FAILED_CALL(errno, NULL, "rdma_destroy_id()");
}

void rs_cm_forget(struct rs_connection *connection)
{
	destroy_id(connection->cm_id);
	connection->cm_id = NULL;
}

/* The peer is told; what is in flight comes back. */
void rs_cm_shut(struct rs_connection *connection)
{
	if (connection->cm_id && connection->qp)
		rdma_disconnect(connection->cm_id); /* fails if there is nothing to end */
}

void rs_cm_notify(struct rs_connection *connection, enum ibv_event_type event)
{
	if (connection->cm_id)
		rdma_notify(connection->cm_id, event); /* fails if it knows already */
}

static void fail(struct rs_connection *connection, enum rs_status reason)
{
	if (reason == RS_OK)
		return;
	rs_connection_shut(connection);
	rs_connection_fail(connection, reason);
}

/* ---- Active side ---- */

static enum rs_status check_device(const struct rs_connection *connection)
{
	const struct rdma_cm_id *id = connection->cm_id;
	const char *opened = rs_device_info(connection->rdma->device)->name;
	char text[RS_ADDRESS_TEXT_SIZE];

	if (strcmp(ibv_get_device_name(id->verbs->device), opened) == 0)
		return RS_OK;
	LOG_ERROR(
		"%s is reached through device %s, but this program has opened %s: compare --device",
		peer_text(connection, text), ibv_get_device_name(id->verbs->device), opened);
	return RS_ERR_UNREACHABLE;
}

static enum rs_status resolve_route(struct rs_connection *connection)
{
	enum rs_status status = check_device(connection);

	if (status != RS_OK)
		return status;
	if (rdma_resolve_route(connection->cm_id, RESOLVE_MS) != 0)
		return LOG_FAILED_CALL(errno, NULL, "rdma_resolve_route()");
	return RS_OK;
}

static enum rs_status send_request(struct rs_connection *connection)
{
	struct rdma_conn_param param;
	enum rs_status status = rs_connection_make_qp(connection);

	if (status != RS_OK)
		return status;
	param = parameters(connection, connection->private_data, connection->private_length);
	if (rdma_connect(connection->cm_id, &param) != 0)
		return LOG_FAILED_CALL(errno, NULL, "rdma_connect(QPN 0x%06x)", connection->qpn);
	return RS_OK;
}

static void establish(struct rs_connection *connection)
{
	const struct rs_rdma *rdma = connection->rdma;
	char text[RS_ADDRESS_TEXT_SIZE];

	connection->state = RS_CONNECTION_CONNECTED;
	LOG_DEBUG("connection %u: QPN 0x%06x with %s", connection->id, connection->qpn,
		  peer_text(connection, text));
	if (rdma->callbacks.established)
		rdma->callbacks.established(connection, rdma->ctx.user_data);
}

static void keep_private_data(struct rs_connection *connection, const struct rdma_cm_event *event)
{
	size_t length = event->param.conn.private_data_len;

	if (length > sizeof(connection->private_data))
		length = sizeof(connection->private_data);
	if (length > 0)
		memcpy(connection->private_data, event->param.conn.private_data, length);
	connection->private_length = length;
}

/* The queue pair is not the identifier's, so it is brought up here, and then the peer is told. */
static enum rs_status finish_request(struct rs_connection *connection,
				     const struct rdma_cm_event *event)
{
	enum rs_status status = move_to_rts(connection);

	if (status != RS_OK)
		return status;
	keep_private_data(connection, event);
	if (rdma_establish(connection->cm_id) != 0)
		return LOG_FAILED_CALL(errno, NULL, "rdma_establish(QPN 0x%06x)", connection->qpn);
	establish(connection);
	return RS_OK;
}

/* ---- Passive side ---- */

static void reject(struct rdma_cm_id *id, const char *reason)
{
	size_t length = strlen(reason);

	if (length > RS_CM_MAX_REASON)
		length = RS_CM_MAX_REASON;
	if (rdma_reject(id, reason, (uint8_t)length) != 0)
		LOG_FAILED_CALL(errno, NULL, "rdma_reject()");
}

static void turn_away(struct rdma_cm_id *id, const char *reason)
{
	char text[RS_ADDRESS_TEXT_SIZE];

	LOG_WARNING("%s is rejected: %s", rs_address_text(rdma_get_peer_addr(id), text), reason);
	reject(id, reason);
	destroy_id(id);
}

/* A request that came over another device cannot be served: the queue pairs are on this one. */
static bool is_on_device(const struct rs_rdma *rdma, const struct rdma_cm_id *id)
{
	return strcmp(ibv_get_device_name(id->verbs->device), rs_device_info(rdma->device)->name) ==
	       0;
}

static void take_request(struct rs_rdma *rdma, const struct rdma_cm_event *event)
{
	struct rs_connection *connection;
	char reason[RS_CM_MAX_REASON + 1];

	if (!is_on_device(rdma, event->id)) {
		snprintf(reason, sizeof(reason), "this server works on device %s, not on %s",
			 rs_device_info(rdma->device)->name,
			 ibv_get_device_name(event->id->verbs->device));
		turn_away(event->id, reason);
		return;
	}
	connection = rs_connection_take_place(rdma, true);
	if (!connection) {
		snprintf(reason, sizeof(reason), "all %u connections of this server are taken",
			 rdma->max_connections);
		turn_away(event->id, reason);
		return;
	}
	connection->state = RS_CONNECTION_REQUESTED;
	connection->cm_id = event->id;
	connection->cm_id->context = connection;
	connection->peer_reads = event->param.conn.responder_resources;
	connection->peer_serves = event->param.conn.initiator_depth;
	keep_private_data(connection, event);
	if (rdma->callbacks.requested)
		rdma->callbacks.requested(connection, rdma->ctx.user_data);
	else
		rs_connection_reject(connection, "this server takes no connections");
}

/* Or tells the peer, which would wait for an answer. */
static enum rs_status make_ready(struct rs_connection *connection)
{
	enum rs_status status = rs_connection_make_qp(connection);
	char reason[RS_CM_MAX_REASON + 1];

	if (status == RS_OK)
		status = move_to_rts(connection);
	if (status == RS_OK)
		return RS_OK;
	snprintf(reason, sizeof(reason), "this server has failed: %s", rs_status_text(status));
	reject(connection->cm_id, reason);
	return status;
}

static enum rs_status accept_request(struct rs_connection *connection, const void *private_data,
				     size_t length)
{
	struct rdma_conn_param param;
	enum rs_status status = make_ready(connection);

	if (status != RS_OK)
		return status;
	param = parameters(connection, private_data, length);
	/* No more than the peer has asked for, or serves. */
	param.responder_resources = smaller(param.responder_resources, connection->peer_reads);
	param.initiator_depth = smaller(param.initiator_depth, connection->peer_serves);
	if (rdma_accept(connection->cm_id, &param) != 0)
		return LOG_FAILED_CALL(errno, NULL, "rdma_accept(QPN 0x%06x)", connection->qpn);
	return RS_OK;
}

enum rs_status rs_connection_accept(struct rs_connection *connection, const void *private_data,
				    size_t length)
{
	enum rs_status status;

	if (connection->state != RS_CONNECTION_REQUESTED)
		return RS_ERR_BAD_STATE;
	if (length > RS_CM_MAX_PRIVATE_DATA)
		return RS_ERR_TOO_BIG;
	connection->state = RS_CONNECTION_CONNECTING;
	connection->accepted = true;
	status = accept_request(connection, private_data, length);
	fail(connection, status);
	return status;
}

enum rs_status rs_connection_reject(struct rs_connection *connection, const char *reason)
{
	if (connection->state != RS_CONNECTION_REQUESTED)
		return RS_ERR_BAD_STATE;
	reject(connection->cm_id, reason);
	connection->state = RS_CONNECTION_DISCONNECTED;
	return RS_OK;
}

/* ---- Events ---- */

/* The numbers are those of InfiniBand's REJ messages. */
static const char *reject_cause(int status)
{
	switch (status) {
	case 8:
		return "nobody listens at that port";
	case 10:
		return "the peer takes it for a connection that it has already";
	case 28:
		return "the program there refused it";
	default:
		return "see the number";
	}
}

/* Why, in words: the peer's own if it has sent some, made fit for the log. */
static void find_cause(const struct rdma_cm_event *event, char *cause, size_t size)
{
	const char *reason = event->param.conn.private_data;
	size_t length = event->param.conn.private_data_len;

	cause[0] = '\0';
	if (event->event != RDMA_CM_EVENT_REJECTED)
		return;
	length = strnlen(reason ? reason : "",
			 length < RS_CM_MAX_REASON ? length : RS_CM_MAX_REASON);
	if (length > 0)
		rs_text_escape(reason, length, cause, size);
	else
		snprintf(cause, size, "%s", reject_cause(event->status));
}

static void log_failure(const struct rs_connection *connection, const struct rdma_cm_event *event,
			enum rs_status status)
{
	char cause[RS_TEXT_ESCAPED_SIZE(RS_CM_MAX_REASON)];
	char text[RS_ADDRESS_TEXT_SIZE];

	find_cause(event, cause, sizeof(cause));
	LOG_ERROR("connecting with %s failed: %s (%s, status %d)%s%s", peer_text(connection, text),
		  rs_status_text(status), rdma_event_str(event->event), event->status,
		  cause[0] ? ": " : "", cause);
}

/* By the peer's wish, or because the peer is gone. */
static void end_by_peer(struct rs_connection *connection)
{
	const struct rdma_cm_id *id = connection->cm_id;
	struct rs_rdma *rdma = connection->rdma;

	/* What came before the end counts. It may lead to another connection in this one's place. */
	rs_rdma_complete_all(rdma);
	if (connection_has_ended(connection) || connection->cm_id != id)
		return;
	connection->state = RS_CONNECTION_DISCONNECTED;
	rs_connection_shut(connection);
	if (rdma->callbacks.disconnected)
		rdma->callbacks.disconnected(connection, rdma->ctx.user_data);
	rs_connection_check_hope(rdma, RS_ERR_DISCONNECTED);
}

size_t rs_cm_end_due(struct rs_rdma *rdma)
{
	size_t count = 0;

	/* Running is about to come, and comes first. */
	if (rdma->ctx.state == RS_CTX_STARTING && rdma->ctx.ops->is_ready(&rdma->ctx))
		return 0;
	for (unsigned i = 0; i < rdma->connection_count; i++) {
		struct rs_connection *connection = &rdma->connections[i];

		if (!connection->end_is_due)
			continue;
		connection->end_is_due = false;
		rdma->ends_due--;
		count++;
		end_by_peer(connection);
	}
	return count;
}

static void take_disconnect(struct rs_connection *connection)
{
	/* The peer waits for an answer, unless this is its answer. */
	if (connection->state != RS_CONNECTION_DISCONNECTED)
		rdma_disconnect(connection->cm_id);
	if (connection_has_ended(connection))
		return;
	if (!connection->accepted || connection->state != RS_CONNECTION_CONNECTING) {
		end_by_peer(connection);
		return;
	}
	/*
	 * The peer's last message of the handshake was lost: it could not end what was not
	 * established. So that comes first, with all that follows from it.
	 */
	connection->end_is_due = true;
	connection->rdma->ends_due++;
	establish(connection);
}

/* The next step to established; of one that has ended there may still be events. */
static void go_on(struct rs_connection *connection, const struct rdma_cm_event *event)
{
	if (connection->state != RS_CONNECTION_CONNECTING)
		return;
	if (event->event == RDMA_CM_EVENT_ADDR_RESOLVED)
		fail(connection, resolve_route(connection));
	else if (event->event == RDMA_CM_EVENT_ROUTE_RESOLVED)
		fail(connection, send_request(connection));
	else if (event->event == RDMA_CM_EVENT_CONNECT_RESPONSE)
		fail(connection, finish_request(connection, event));
	else
		establish(connection);
}

static void handle_connection(struct rs_connection *connection, const struct rdma_cm_event *event)
{
	enum rs_status status;

	switch (event->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
	case RDMA_CM_EVENT_ESTABLISHED:
		go_on(connection, event);
		return;
	case RDMA_CM_EVENT_DISCONNECTED:
		take_disconnect(connection);
		return;
	case RDMA_CM_EVENT_ADDR_CHANGE:
		LOG_WARNING("the address of this side of connection %u has changed",
			    connection->id);
		return;
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		LOG_ERROR("device %s was removed", rs_device_info(connection->rdma->device)->name);
		rs_device_set_failed(connection->rdma->device);
		return;
	default:
		break;
	}
	status = rs_status_from_cm_event(event->event, event->status);
	if (status == RS_OK || connection_has_ended(connection))
		return;
	log_failure(connection, event, status);
	fail(connection, status);
}

/* An event's private data go with its acknowledgement, so both are copied. */
static void handle_event(struct rs_rdma *rdma, struct rdma_cm_event *event)
{
	uint8_t private_data[UINT8_MAX];
	struct rdma_cm_event copy = *event;

	if (copy.param.conn.private_data) {
		memcpy(private_data, copy.param.conn.private_data,
		       copy.param.conn.private_data_len);
		copy.param.conn.private_data = private_data;
	}
	rdma_ack_cm_event(event);
	LOG_DEBUG("%s, status %d", rdma_event_str(copy.event), copy.status);
	if (copy.event == RDMA_CM_EVENT_CONNECT_REQUEST)
		take_request(rdma, &copy);
	else if (copy.id->context)
		handle_connection(copy.id->context, &copy);
}

static void on_events(int fd, void *user_data)
{
	struct rs_rdma *rdma = user_data;
	struct rdma_cm_event *event;

	(void)fd;
	/* One at a time: what it makes ready comes before the next, which may end it. */
	if (rdma_get_cm_event(rdma->cm_channel, &event) == 0)
		handle_event(rdma, event);
}

/* ---- The channel ---- */

static enum rs_status open_channel(struct rs_rdma *rdma)
{
	enum rs_status status;

	if (rdma->cm_channel)
		return RS_OK;
	rdma->cm_channel = rdma_create_event_channel();
	if (!rdma->cm_channel)
		return LOG_FAILED_CALL(errno, "is the module rdma_ucm loaded?",
				       "rdma_create_event_channel()");
	status = rs_rdma_set_nonblocking(rdma->cm_channel->fd);
	if (status == RS_OK)
		status = rs_pe_watch(rdma->ctx.pe, rdma->cm_channel->fd, on_events, rdma);
	if (status != RS_OK)
		rs_cm_close(rdma);
	return status;
}

void rs_cm_close(struct rs_rdma *rdma)
{
	destroy_id(rdma->cm_listener);
	rdma->cm_listener = NULL;
	if (!rdma->cm_channel)
		return;
	rs_pe_unwatch(rdma->ctx.pe, rdma->cm_channel->fd);
	rdma_destroy_event_channel(rdma->cm_channel);
	rdma->cm_channel = NULL;
}

static enum rs_status create_id(struct rs_rdma *rdma, void *context, struct rdma_cm_id **id)
{
	enum rs_status status = open_channel(rdma);

	if (status != RS_OK)
		return status;
	if (rdma_create_id(rdma->cm_channel, id, context, RDMA_PS_TCP) != 0)
		return LOG_FAILED_CALL(errno, NULL, "rdma_create_id()");
	return RS_OK;
}

/* ---- Listen and connect ---- */

/* Where a program has the port for all addresses, the kernel calls them not available. */
static int bind_error(int error)
{
	return error == EADDRNOTAVAIL ? EADDRINUSE : error;
}

static enum rs_status listen_on(struct rdma_cm_id *id, uint16_t port)
{
	union rs_address any;
	int error;

	rs_address_any(port, &any);
	if (rdma_bind_addr(id, &any.any) != 0) {
		error = bind_error(errno);
		return LOG_FAILED_CALL(error,
				       error == EADDRINUSE ? "another program listens there" : NULL,
				       "rdma_bind_addr(port %u)", port);
	}
	if (rdma_listen(id, BACKLOG) != 0)
		return LOG_FAILED_CALL(errno, NULL, "rdma_listen(port %u)", port);
	return RS_OK;
}

enum rs_status rs_rdma_listen(struct rs_rdma *rdma, uint16_t port)
{
	struct rdma_cm_id *id;
	enum rs_status status;

	if (!rs_rdma_is_up(rdma) || rdma->cm_listener)
		return RS_ERR_BAD_STATE;
	status = create_id(rdma, NULL, &id);
	if (status != RS_OK)
		return status;
	status = listen_on(id, port);
	if (status != RS_OK) {
		destroy_id(id);
		return status;
	}
	rdma->cm_listener = id;
	return RS_OK;
}

enum rs_status rs_rdma_stop_listen(struct rs_rdma *rdma)
{
	if (!rdma->cm_listener)
		return RS_ERR_BAD_STATE;
	destroy_id(rdma->cm_listener);
	rdma->cm_listener = NULL;
	return RS_OK;
}

static enum rs_status begin_request(struct rs_connection *connection,
				    const union rs_address *address)
{
	struct sockaddr *dest = (struct sockaddr *)(uintptr_t)&address->any;
	char text[RS_ADDRESS_TEXT_SIZE];
	enum rs_status status = create_id(connection->rdma, connection, &connection->cm_id);

	if (status != RS_OK)
		return status;
	if (rdma_resolve_addr(connection->cm_id, NULL, dest, RESOLVE_MS) != 0)
		return LOG_FAILED_CALL(errno, "is there a route to it from an RDMA device?",
				       "rdma_resolve_addr(%s)", rs_address_text(dest, text));
	return RS_OK;
}

enum rs_status rs_rdma_connect_to_address(struct rs_rdma *rdma, const union rs_address *address,
					  const void *private_data, size_t length,
					  struct rs_connection **connection)
{
	struct rs_connection *made;
	enum rs_status status;

	if (!rs_rdma_is_up(rdma))
		return RS_ERR_BAD_STATE;
	if (length > RS_CM_MAX_PRIVATE_DATA)
		return RS_ERR_TOO_BIG;
	made = rs_connection_take_place(rdma, true);
	if (!made)
		return RS_ERR_FULL;
	made->state = RS_CONNECTION_CONNECTING;
	if (length > 0)
		memcpy(made->private_data, private_data, length);
	made->private_length = length;
	status = begin_request(made, address);
	if (status != RS_OK) {
		fail(made, status);
		return status;
	}
	*connection = made;
	return RS_OK;
}

/* ---- What there is to know ---- */

enum rs_status rs_rdma_set_connection_callbacks(struct rs_rdma *rdma,
						const struct rs_connection_callbacks *callbacks)
{
	if (!rs_ctx_is_configurable(&rdma->ctx))
		return RS_ERR_BAD_STATE;
	rdma->callbacks = *callbacks;
	return RS_OK;
}

const void *rs_connection_private_data(const struct rs_connection *connection, size_t *length)
{
	*length = connection->private_length;
	return connection->private_data;
}

const struct sockaddr *rs_connection_peer_address(const struct rs_connection *connection)
{
	return connection->cm_id ? rdma_get_peer_addr(connection->cm_id) : NULL;
}

/* An identifier without a channel: its calls wait for their events. */
enum rs_status rs_cm_find_device(const union rs_address *address, char name[IBV_SYSFS_NAME_MAX])
{
	struct sockaddr *dest = (struct sockaddr *)(uintptr_t)&address->any;
	char text[RS_ADDRESS_TEXT_SIZE];
	enum rs_status status = RS_OK;
	struct rdma_cm_id *id;

	if (rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP) != 0)
		return LOG_FAILED_CALL(errno, "is the module rdma_ucm loaded?", "rdma_create_id()");
	if (rdma_resolve_addr(id, NULL, dest, RESOLVE_MS) != 0)
		status = LOG_FAILED_CALL(errno, "is there a route to it from an RDMA device?",
					 "rdma_resolve_addr(%s)", rs_address_text(dest, text));
	else
		snprintf(name, IBV_SYSFS_NAME_MAX, "%s", ibv_get_device_name(id->verbs->device));
	destroy_id(id);
	return status;
}
