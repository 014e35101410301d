#define LOG_MODULE "rdma"

#include "rdma.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "log.h"
#include "rdma_impl.h"
#include "slow_path.h"

#define POLL_BATCH 16

#define DEFAULT_ACK_TIMEOUT 18
/*
 * 7 would be allowed, but the kernel's rxe takes it for "for ever", as all do for
 * receiver-not-ready.
 */
#define MAX_RETRIES     6
#define DEFAULT_RETRIES 6

static struct rs_rdma *rdma_of(struct rs_ctx *ctx)
{
	return (struct rs_rdma *)ctx;
}

/* ---- Configuration ---- */

enum rs_status rs_rdma_set_name(struct rs_rdma *rdma, const char *name)
{
	if (!rs_ctx_is_configurable(&rdma->ctx))
		return RS_ERR_BAD_STATE;
	if (!rs_descriptor_is_name(name))
		return RS_ERR_INVALID_VALUE;
	strcpy(rdma->name, name);
	return RS_OK;
}

enum rs_status rs_rdma_set_permissions(struct rs_rdma *rdma, uint32_t access)
{
	if (!rs_ctx_is_configurable(&rdma->ctx))
		return RS_ERR_BAD_STATE;
	if (access & ~(uint32_t)RS_ACCESS_ALL)
		return RS_ERR_INVALID_VALUE;
	rdma->access = access;
	return RS_OK;
}

enum rs_status rs_rdma_set_gid_index(struct rs_rdma *rdma, int index)
{
	if (!rs_ctx_is_configurable(&rdma->ctx))
		return RS_ERR_BAD_STATE;
	if (index < -1)
		return RS_ERR_INVALID_VALUE;
	rdma->gid_index = index;
	return RS_OK;
}

enum rs_status rs_rdma_set_max_connections(struct rs_rdma *rdma, unsigned count)
{
	if (!rs_ctx_is_configurable(&rdma->ctx))
		return RS_ERR_BAD_STATE;
	if (count == 0 || count > (unsigned)rs_device_attr(rdma->device)->max_qp ||
	    count > RS_DESCRIPTOR_MAX_ID + 1U) {
		LOG_ERROR("%u connections: device %s can have 1 to %d", count,
			  rs_device_info(rdma->device)->name, rs_device_attr(rdma->device)->max_qp);
		return RS_ERR_INVALID_VALUE;
	}
	rdma->max_connections = count;
	return RS_OK;
}

enum rs_status rs_rdma_set_needed_connections(struct rs_rdma *rdma, unsigned count)
{
	if (!rs_ctx_is_configurable(&rdma->ctx))
		return RS_ERR_BAD_STATE;
	rdma->needed_connections = count;
	return RS_OK;
}

enum rs_status rs_rdma_set_transport(struct rs_rdma *rdma, enum rs_transport transport)
{
	if (!rs_ctx_is_configurable(&rdma->ctx))
		return RS_ERR_BAD_STATE;
	if (transport == RS_TRANSPORT_RC)
		return RS_OK;
	LOG_ERROR(
		"device %s offers no DC transport (it is an extension of some NVIDIA devices, not part of verbs): use RC",
		rs_device_info(rdma->device)->name);
	return RS_ERR_NOT_SUPPORTED;
}

enum rs_status rs_rdma_set_max_chain(struct rs_rdma *rdma, unsigned count)
{
	if (!rs_ctx_is_configurable(&rdma->ctx))
		return RS_ERR_BAD_STATE;
	if (count == 0 || count > RS_RDMA_MAX_CHAIN ||
	    count > (unsigned)rs_device_attr(rdma->device)->max_sge)
		return RS_ERR_INVALID_VALUE;
	rdma->max_chain = count;
	return RS_OK;
}

enum rs_status rs_rdma_set_max_sends(struct rs_rdma *rdma, unsigned count)
{
	if (!rs_ctx_is_configurable(&rdma->ctx))
		return RS_ERR_BAD_STATE;
	rdma->max_sends = count;
	return RS_OK;
}

enum rs_status rs_rdma_set_ack_timeout(struct rs_rdma *rdma, unsigned exponent, unsigned retries)
{
	if (!rs_ctx_is_configurable(&rdma->ctx))
		return RS_ERR_BAD_STATE;
	if (exponent == 0 || exponent > 31 || retries > MAX_RETRIES)
		return RS_ERR_INVALID_VALUE;
	rdma->ack_timeout = exponent;
	rdma->retries = retries;
	return RS_OK;
}

enum rs_status rs_rdma_set_task_conf(struct rs_rdma *rdma, enum rs_op op, rs_task_cb completed,
				     rs_task_cb failed, size_t count)
{
	struct task_pool *pool;

	if (!rs_ctx_is_configurable(&rdma->ctx))
		return RS_ERR_BAD_STATE;
	if ((unsigned)op >= RS_OP_COUNT || !completed || !failed || count == 0)
		return RS_ERR_INVALID_VALUE;
	if (!rs_device_supports(rs_device_info(rdma->device), op)) {
		LOG_ERROR("device %s cannot do this: %s", rs_device_info(rdma->device)->name,
			  rs_op_name(op));
		return RS_ERR_NOT_SUPPORTED;
	}
	pool = &rdma->pools[op];
	if (rs_task_pool_is_in_use(pool))
		return RS_ERR_IN_USE;
	return rs_task_pool_create(rdma, op, completed, failed, count);
}

enum rs_status rs_rdma_set_connection_failed_cb(struct rs_rdma *rdma,
						rs_connection_failed_cb callback)
{
	if (!rs_ctx_is_configurable(&rdma->ctx))
		return RS_ERR_BAD_STATE;
	rdma->connection_failed = callback;
	return RS_OK;
}

/* All tasks that are not receives. */
static size_t send_tasks(const struct rs_rdma *rdma)
{
	size_t count = 0;

	for (unsigned op = 0; op < RS_OP_COUNT; op++)
		if (op != RS_OP_RECEIVE)
			count += rdma->pools[op].count;
	return count;
}

size_t rs_rdma_send_places(const struct rs_rdma *rdma)
{
	size_t count = send_tasks(rdma);

	if (rdma->max_sends > 0 && rdma->max_sends < count)
		return rdma->max_sends;
	/* Some devices make no queue without a place. */
	return count > 0 ? count : 1;
}

/* ---- Completions and events ---- */

/* The peer does not answer: what a user has to look at. */
static void log_silent_peer(const struct rs_rdma *rdma, const struct rs_task *task,
			    const struct rs_connection *connection)
{
	const struct sockaddr *address = rs_connection_peer_address(connection);
	const struct rs_descriptor *peer = &connection->peer;
	double seconds = 4.096e-6 * (double)(1ULL << rdma->ack_timeout) * (rdma->retries + 1);
	int64_t age = (int64_t)(rs_descriptor_now() - peer->time);
	char gid[RS_GID_TEXT_SIZE], text[RS_ADDRESS_TEXT_SIZE];

	if (address) {
		LOG_ERROR("%s failed: %s, tried for %.1f s: %s. Is that program still running?",
			  rs_op_name(task->op), rs_status_text(RS_ERR_RETRY_EXCEEDED), seconds,
			  rs_address_text(address, text));
		return;
	}
	LOG_ERROR(
		"%s failed: %s, tried for %.1f s: QPN 0x%06x at %s. Is that program still running, and is it this one that it has connected to? Its descriptor is %lld s old",
		rs_op_name(task->op), rs_status_text(RS_ERR_RETRY_EXCEEDED), seconds,
		(unsigned)peer->connection.qpn, rs_gid_text(&peer->connection.gid, gid),
		(long long)(age > 0 ? age : 0)); /* the clocks of two hosts may differ */
}

static void log_failed_task(const struct rs_rdma *rdma, const struct rs_task *task,
			    const struct ibv_wc *wc)
{
	const struct rs_connection *connection = rs_connection_of_qpn(rdma, wc->qp_num);
	enum rs_status status = rs_status_from_wc(wc->status);

	if (status == RS_ERR_RETRY_EXCEEDED && connection)
		log_silent_peer(rdma, task, connection);
	else if (status == RS_ERR_RNR_RETRY_EXCEEDED)
		LOG_ERROR(
			"%s failed: %s, tried %d more times, %d ms apart. Does the peer submit its receives before it connects?",
			rs_op_name(task->op), rs_status_text(status), RNR_RETRIES, RNR_TIMER_MS);
	else
		LOG_ERROR("%s failed: %s (%s)", rs_op_name(task->op), rs_status_text(status),
			  ibv_wc_status_str(wc->status));
}

static void read_receive_result(struct rs_task *task, const struct ibv_wc *wc)
{
	bool immediate = wc->wc_flags & IBV_WC_WITH_IMM;

	task->length = wc->byte_len;
	task->immediate = immediate ? ntohl(wc->imm_data) : 0;
	if (wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM)
		task->received = RS_RECEIVED_WRITE_IMMEDIATE;
	else
		task->received = immediate ? RS_RECEIVED_SEND_IMMEDIATE : RS_RECEIVED_SEND;
}

static RS_SLOW_PATH void fail_task(struct rs_rdma *rdma, struct rs_task *task,
				   const struct ibv_wc *wc)
{
	enum rs_status status = rs_status_from_wc(wc->status);

	if (status != RS_ERR_FLUSHED) {
		log_failed_task(rdma, task, wc);
		/*
		 * The device has moved the queue pair to error: a connection does not outlive it.
		 */
		if (task->connection)
			rs_connection_fail(task->connection, status);
	}
	rs_task_end(task, status);
}

static void complete(struct rs_rdma *rdma, const struct ibv_wc *wc)
{
	struct rs_task *task = (struct rs_task *)(uintptr_t)wc->wr_id;

	if (task->op == RS_OP_RECEIVE)
		task->connection = connection_of_qpn(rdma, wc->qp_num);
	if (wc->status != IBV_WC_SUCCESS) {
		fail_task(rdma, task, wc);
		return;
	}
	if (task->op == RS_OP_RECEIVE)
		read_receive_result(task, wc);
	rs_task_end(task, RS_OK);
}

/* Nothing more will complete. */
static RS_SLOW_PATH void lose_device(struct rs_rdma *rdma)
{
	rdma->device_lost = true;
	rs_ctx_fail(&rdma->ctx, RS_ERR_DEVICE_FATAL);
}

static size_t rdma_progress(struct rs_ctx *ctx)
{
	struct rs_rdma *rdma = rdma_of(ctx);
	struct ibv_wc wcs[POLL_BATCH];
	int count;

	if (rdma->device_lost)
		return 0;
	count = ibv_poll_cq(rdma->cq, POLL_BATCH, wcs);
	rdma->in_batch = true;
	for (int i = 0; i < count; i++)
		complete(rdma, &wcs[i]);
	rdma->in_batch = false;
	if (count > 0)
		return (size_t)count;
	if (rdma->ends_due > 0)
		return rs_cm_end_due(rdma);
	if (count < 0)
		LOG_ERROR("ibv_poll_cq(%s) failed: the completion queue or the device is broken",
			  rs_device_info(rdma->device)->name);
	/* The event of a failed device goes to one of its instances; the others see it here. */
	if (count < 0 || rs_device_has_failed(rdma->device))
		lose_device(rdma);
	return 0;
}

void rs_rdma_complete_all(struct rs_rdma *rdma)
{
	while (rdma_progress(&rdma->ctx) > 0)
		;
}

static void rdma_request_notification(struct rs_ctx *ctx)
{
	struct rs_rdma *rdma = rdma_of(ctx);
	int error;

	if (rdma->armed || rdma->device_lost)
		return;
	error = ibv_req_notify_cq(rdma->cq, 0);
	if (error) {
		LOG_FAILED_CALL(error, NULL, "ibv_req_notify_cq(%s)",
				rs_device_info(rdma->device)->name);
		lose_device(rdma);
		return;
	}
	rdma->armed = true;
}

static void on_completion_event(int fd, void *user_data)
{
	struct rs_rdma *rdma = user_data;
	struct ibv_cq *cq;
	void *cq_context;

	(void)fd;
	while (ibv_get_cq_event(rdma->channel, &cq, &cq_context) == 0) {
		ibv_ack_cq_events(cq, 1);
		rdma->armed = false;
	}
}

static void handle_qp_event(struct rs_connection *connection, enum ibv_event_type type)
{
	const struct ibv_qp *qp = connection->qp;

	/*
	 * A completion that says what happened may have come before: it tells more. And it may lead
	 * to another connection in this one's place.
	 */
	rs_rdma_complete_all(connection->rdma);
	if (connection->state != RS_CONNECTION_CONNECTED || connection->qp != qp)
		return;
	LOG_ERROR("connection %u has failed: %s%s", connection->id, ibv_event_type_str(type),
		  type == IBV_EVENT_QP_LAST_WQE_REACHED
			  ? ""
			  : ": a request of the peer was refused, or broke the protocol");
	rs_connection_fail(connection, type == IBV_EVENT_QP_ACCESS_ERR ? RS_ERR_NOT_PERMITTED
								       : RS_ERR_DISCONNECTED);
}

/* The event may be another instance's on the same device: whose it is, its element says. */
static void handle_async_event(struct rs_rdma *reader, const struct ibv_async_event *event)
{
	const char *name = ibv_event_type_str(event->event_type);
	struct rs_rdma *rdma;

	switch (event->event_type) {
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED: /* comes when a queue pair with a shared queue breaks */
		handle_qp_event(event->element.qp->qp_context, event->event_type);
		return;
	case IBV_EVENT_COMM_EST: /* data has overtaken the peer's last message of the handshake */
		rs_cm_notify(event->element.qp->qp_context, event->event_type);
		return;
	case IBV_EVENT_CQ_ERR:
	case IBV_EVENT_SRQ_ERR:
		rdma = event->event_type == IBV_EVENT_CQ_ERR ? event->element.cq->cq_context
							     : event->element.srq->srq_context;
		LOG_ERROR("%s", name);
		lose_device(rdma);
		return;
	case IBV_EVENT_DEVICE_FATAL:
		LOG_ERROR("device %s: %s", rs_device_info(reader->device)->name, name);
		rs_device_set_failed(reader->device);
		return;
	case IBV_EVENT_PORT_ERR:
		LOG_WARNING("port %d of device %s is down", event->element.port_num,
			    rs_device_info(reader->device)->name);
		return;
	default:
		LOG_DEBUG("%s", name);
	}
}

static void on_async_event(int fd, void *user_data)
{
	struct rs_rdma *rdma = user_data;
	struct ibv_async_event event;

	(void)fd;
	while (ibv_get_async_event(rs_device_verbs(rdma->device), &event) == 0) {
		/* First, since what is done about it may destroy its element, which waits for that. */
		ibv_ack_async_event(&event);
		handle_async_event(rdma, &event);
	}
}

/* ---- Start ---- */

static enum rs_status check_count(const char *what, size_t count, int limit)
{
	if (count <= (size_t)(limit > 0 ? limit : 0))
		return RS_OK;
	LOG_ERROR("%zu %s are configured, but %d are possible", count, what, limit);
	return RS_ERR_INVALID_VALUE;
}

static size_t all_tasks(const struct rs_rdma *rdma)
{
	size_t count = send_tasks(rdma) + rdma->pools[RS_OP_RECEIVE].count;

	return count > 0 ? count : 1;
}

static enum rs_status check_configuration(const struct rs_rdma *rdma)
{
	const struct ibv_device_attr *limits = rs_device_attr(rdma->device);
	enum rs_status status = check_count("needed connections", rdma->needed_connections,
					    (int)rdma->max_connections);

	if (status == RS_OK)
		status = check_count("tasks per connection", rs_rdma_send_places(rdma),
				     limits->max_qp_wr);
	if (status == RS_OK)
		status = check_count("receive tasks", rdma->pools[RS_OP_RECEIVE].count,
				     limits->max_srq_wr);
	if (status == RS_OK && rdma->pools[RS_OP_RECEIVE].count > 0)
		status = check_count("pieces per receive", rdma->max_chain, limits->max_srq_sge);
	if (status == RS_OK)
		status = check_count("tasks", all_tasks(rdma), limits->max_cqe);
	return status;
}

static enum rs_status create_cq(struct rs_rdma *rdma)
{
	struct ibv_context *verbs = rs_device_verbs(rdma->device);
	size_t entries = all_tasks(rdma);

	rdma->channel = ibv_create_comp_channel(verbs);
	if (!rdma->channel)
		return LOG_FAILED_CALL(errno, NULL, "ibv_create_comp_channel(%s)",
				       rs_device_info(rdma->device)->name);
	rdma->cq = ibv_create_cq(verbs, (int)entries, rdma, rdma->channel, 0);
	if (!rdma->cq)
		return LOG_FAILED_CALL(errno,
				       "more tasks than the device's completion queues hold?",
				       "ibv_create_cq(%s, %zu entries)",
				       rs_device_info(rdma->device)->name, entries);
	return RS_OK;
}

static enum rs_status create_srq(struct rs_rdma *rdma)
{
	size_t receives = rdma->pools[RS_OP_RECEIVE].count;
	struct ibv_srq_init_attr attr = {
		.srq_context = rdma,
		.attr = { .max_wr = (uint32_t)receives, .max_sge = rdma->max_chain },
	};

	if (receives == 0)
		return RS_OK;
	rdma->srq = ibv_create_srq(rs_device_pd(rdma->device), &attr);
	if (!rdma->srq)
		return LOG_FAILED_CALL(errno,
				       "more receives or pieces than the device has room for?",
				       "ibv_create_srq(%s, %zu receives of %u pieces)",
				       rs_device_info(rdma->device)->name, receives,
				       rdma->max_chain);
	return RS_OK;
}

enum rs_status rs_rdma_set_nonblocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
		return LOG_FAILED_SYSTEM_CALL(errno, "fcntl(O_NONBLOCK)");
	return RS_OK;
}

static enum rs_status watch_events(struct rs_rdma *rdma)
{
	struct rs_pe *pe = rdma->ctx.pe;
	enum rs_status status;

	/* A duplicate, since instances that share the device each watch it. */
	rdma->async_fd = fcntl(rs_device_verbs(rdma->device)->async_fd, F_DUPFD_CLOEXEC, 0);
	if (rdma->async_fd < 0)
		return LOG_FAILED_SYSTEM_CALL(errno, "fcntl(F_DUPFD_CLOEXEC)");
	status = rs_rdma_set_nonblocking(rdma->async_fd);
	if (status == RS_OK)
		status = rs_rdma_set_nonblocking(rdma->channel->fd);
	if (status == RS_OK)
		status = rs_pe_watch(pe, rdma->async_fd, on_async_event, rdma);
	if (status == RS_OK)
		status = rs_pe_watch(pe, rdma->channel->fd, on_completion_event, rdma);
	return status;
}

static enum rs_status alloc_connections(struct rs_rdma *rdma)
{
	rdma->connections = calloc(rdma->max_connections, sizeof(*rdma->connections));
	rdma->by_qpn = calloc(rdma->max_connections, sizeof(*rdma->by_qpn));
	return rdma->connections && rdma->by_qpn ? RS_OK : RS_ERR_NO_MEMORY;
}

static void log_failed_destroy(int error, const char *call)
{
	if (error)
		LOG_FAILED_CALL(error, NULL, "%s", call);
}

/* Whatever of it there is. */
static void free_resources(struct rs_rdma *rdma)
{
	for (unsigned i = 0; i < rdma->connection_count; i++) {
		rs_connection_destroy_qp(&rdma->connections[i]);
		rs_cm_forget(&rdma->connections[i]);
	}
	rdma->connection_count = 0;
	rdma->qp_count = 0;
	rdma->ends_due = 0;
	rs_cm_close(rdma);
	if (rdma->channel)
		rs_pe_unwatch(rdma->ctx.pe, rdma->channel->fd);
	if (rdma->async_fd >= 0) {
		rs_pe_unwatch(rdma->ctx.pe, rdma->async_fd);
		close(rdma->async_fd);
	}
	if (rdma->srq)
		log_failed_destroy(ibv_destroy_srq(rdma->srq), "ibv_destroy_srq()");
	if (rdma->cq)
		log_failed_destroy(ibv_destroy_cq(rdma->cq), "ibv_destroy_cq()");
	if (rdma->channel)
		log_failed_destroy(ibv_destroy_comp_channel(rdma->channel),
				   "ibv_destroy_comp_channel()");
	free(rdma->connections);
	free(rdma->by_qpn);
	rdma->srq = NULL;
	rdma->cq = NULL;
	rdma->channel = NULL;
	rdma->async_fd = -1;
	rdma->connections = NULL;
	rdma->by_qpn = NULL;
	rdma->armed = false;
	rdma->device_lost = false;
}

static enum rs_status rdma_start(struct rs_ctx *ctx)
{
	struct rs_rdma *rdma = rdma_of(ctx);
	enum rs_status status = check_configuration(rdma);

	if (status == RS_OK)
		status = rs_device_choose_gid(rdma->device, rdma->gid_index, &rdma->gid);
	if (status == RS_OK)
		status = alloc_connections(rdma);
	if (status == RS_OK)
		status = create_cq(rdma);
	if (status == RS_OK)
		status = create_srq(rdma);
	if (status == RS_OK)
		status = watch_events(rdma);
	if (status != RS_OK)
		free_resources(rdma);
	return status;
}

static bool rdma_is_ready(const struct rs_ctx *ctx)
{
	const struct rs_rdma *rdma = (const struct rs_rdma *)ctx;
	unsigned connected = 0;

	for (unsigned i = 0; i < rdma->connection_count; i++)
		connected += rs_connection_counts(&rdma->connections[i]);
	return connected >= rdma->needed_connections;
}

/* ---- Stop ---- */

static void rdma_stop(struct rs_ctx *ctx)
{
	struct rs_rdma *rdma = rdma_of(ctx);

	rs_rdma_stop_listen(rdma); /* fails if it does not listen */
	for (unsigned i = 0; i < rdma->connection_count; i++) {
		if (rdma->connections[i].state != RS_CONNECTION_FAILED &&
		    rdma->connections[i].state != RS_CONNECTION_DISCONNECTED) {
			rdma->connections[i].state = RS_CONNECTION_DISCONNECTED;
			rs_cm_shut(&rdma->connections[i]);
		}
		/* A device that does not even do this returns nothing either. */
		if (rs_connection_shut(&rdma->connections[i]) != RS_OK)
			rdma->device_lost = true;
	}
}

/* What no completion will come for. */
static void flush_tasks(struct rs_rdma *rdma)
{
	for (unsigned op = 0; op < RS_OP_COUNT; op++) {
		struct task_pool *pool = &rdma->pools[op];

		for (size_t i = 0; i < pool->count; i++)
			if (pool->tasks[i].state == TASK_IN_FLIGHT)
				rs_task_end(&pool->tasks[i], RS_ERR_FLUSHED);
	}
}

/*
 * Queue pairs flush their sends, but receives in a shared queue belong to none of them and stay.
 * So, when the sends are back: no more queue pairs, so nothing can take a receive; then whatever
 * they did take, from the completion queue; then the rest by hand.
 */
static bool rdma_drain(struct rs_ctx *ctx)
{
	struct rs_rdma *rdma = rdma_of(ctx);

	if (ctx->in_flight > rdma->receives_in_flight && !rdma->device_lost)
		return false;
	rs_rdma_complete_all(rdma);
	for (unsigned i = 0; i < rdma->connection_count; i++)
		rs_connection_destroy_qp(&rdma->connections[i]);
	rs_rdma_complete_all(rdma);
	flush_tasks(rdma);
	return true;
}

static void rdma_release(struct rs_ctx *ctx)
{
	struct rs_rdma *rdma = rdma_of(ctx);

	free_resources(rdma);
	for (unsigned op = 0; op < RS_OP_COUNT; op++)
		rs_task_pool_forget_connections(&rdma->pools[op]);
}

/* ---- Create and destroy ---- */

static const struct rs_ctx_ops rdma_ctx_ops = {
	.start = rdma_start,
	.is_ready = rdma_is_ready,
	.stop = rdma_stop,
	.drain = rdma_drain,
	.release = rdma_release,
	.progress = rdma_progress,
	.request_notification = rdma_request_notification,
};

enum rs_status rs_rdma_create(struct rs_device *device, struct rs_rdma **rdma)
{
	struct rs_rdma *created = calloc(1, sizeof(*created));

	if (!created)
		return RS_ERR_NO_MEMORY;
	created->ctx.ops = &rdma_ctx_ops;
	created->device = device;
	strcpy(created->name, RS_DESCRIPTOR_NO_NAME);
	created->gid_index = -1;
	created->max_connections = 1;
	created->max_chain = 1;
	created->ack_timeout = DEFAULT_ACK_TIMEOUT;
	created->retries = DEFAULT_RETRIES;
	created->async_fd = -1;
	rs_device_hold(device);
	*rdma = created;
	return RS_OK;
}

enum rs_status rs_rdma_destroy(struct rs_rdma *rdma)
{
	if (!rdma)
		return RS_OK;
	if (!rs_ctx_is_configurable(&rdma->ctx) ||
	    (rdma->ctx.pe && rs_pe_is_in_callback(rdma->ctx.pe)))
		return RS_ERR_BAD_STATE;
	if (rdma->ctx.pe)
		rs_pe_disconnect_ctx(rdma->ctx.pe, &rdma->ctx);
	for (unsigned op = 0; op < RS_OP_COUNT; op++)
		rs_task_pool_destroy(&rdma->pools[op]);
	rs_device_release(rdma->device);
	free(rdma);
	return RS_OK;
}

struct rs_ctx *rs_rdma_as_ctx(struct rs_rdma *rdma)
{
	return &rdma->ctx;
}

enum rs_status rs_rdma_get_gid(const struct rs_rdma *rdma, struct ibv_gid_entry *entry)
{
	if (rs_ctx_is_configurable(&rdma->ctx))
		return RS_ERR_BAD_STATE;
	*entry = rdma->gid;
	return RS_OK;
}
