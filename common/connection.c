#define LOG_MODULE "connection"

#include "connection.h"

#include <string.h>
#include <sys/random.h>

#include "log.h"
#include "rdma_impl.h"

#define PSN_MASK 0xffffff

/* RoCE v2 packets that cross routers need more than 1. */
#define HOP_LIMIT 64

/* Reads and atomics in flight per direction, at most; more does not make a connection faster. */
#define MAX_READS 16

const char *rs_connection_state_name(enum rs_connection_state state)
{
	static const char *const names[] = {
		[RS_CONNECTION_EXPORTED] = "exported",
		[RS_CONNECTION_REQUESTED] = "requested",
		[RS_CONNECTION_CONNECTING] = "connecting",
		[RS_CONNECTION_CONNECTED] = "connected",
		[RS_CONNECTION_FAILED] = "failed",
		[RS_CONNECTION_DISCONNECTED] = "disconnected",
	};

	return (unsigned)state < sizeof(names) / sizeof(names[0]) ? names[state] : "unknown state";
}

static unsigned at_most(uint64_t value, uint64_t limit)
{
	return (unsigned)(value < limit ? value : limit);
}

static unsigned positive(int value)
{
	return value > 0 ? (unsigned)value : 0;
}

static unsigned mtu_bytes(enum ibv_mtu mtu)
{
	return 128U << mtu;
}

static enum ibv_mtu mtu_from_bytes(uint64_t bytes)
{
	enum ibv_mtu mtu = IBV_MTU_256;

	while (mtu < IBV_MTU_4096 && mtu_bytes(mtu) < bytes)
		mtu++;
	return mtu;
}

uint8_t rs_connection_served_reads(const struct rs_rdma *rdma)
{
	return (uint8_t)at_most(positive(rs_device_attr(rdma->device)->max_qp_rd_atom), MAX_READS);
}

uint8_t rs_connection_asked_reads(const struct rs_rdma *rdma)
{
	return (uint8_t)at_most(positive(rs_device_attr(rdma->device)->max_qp_init_rd_atom),
				MAX_READS);
}

static enum rs_status create_qp(struct rs_rdma *rdma, struct rs_connection *connection)
{
	struct ibv_qp_init_attr attr = {
		.qp_context = connection,
		.send_cq = rdma->cq,
		.recv_cq = rdma->cq,
		.srq = rdma->srq,
		.cap = { .max_send_wr = (uint32_t)rs_rdma_send_places(rdma),
			 .max_recv_wr = rdma->srq ? 0 : 1,
			 .max_send_sge = rdma->max_chain,
			 .max_recv_sge = rdma->srq ? 0 : 1 },
		.qp_type = IBV_QPT_RC,
	};

	connection->qp = ibv_create_qp(rs_device_pd(rdma->device), &attr);
	if (!connection->qp)
		return LOG_FAILED_CALL(errno, NULL, "ibv_create_qp(%s, RC, %u sends of %u pieces)",
				       rs_device_info(rdma->device)->name, attr.cap.max_send_wr,
				       attr.cap.max_send_sge);
	connection->qpn = connection->qp->qp_num;
	return RS_OK;
}

static enum rs_status move_to_init(struct rs_connection *connection)
{
	const struct rs_rdma *rdma = connection->rdma;
	uint8_t port = rs_device_info(rdma->device)->port;
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT,
				    .port_num = port,
				    .qp_access_flags = rdma->access };
	int error =
		ibv_modify_qp(connection->qp, &attr,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);

	if (error)
		return LOG_FAILED_CALL(error, NULL,
				       "ibv_modify_qp(QPN 0x%06x to INIT, port %u, access 0x%x)",
				       connection->qpn, port, rdma->access);
	return RS_OK;
}

/* A random start keeps stale packets of an earlier connection out. */
static enum rs_status choose_psn(struct rs_connection *connection)
{
	if (getrandom(&connection->psn, sizeof(connection->psn), 0) != sizeof(connection->psn))
		return LOG_FAILED_SYSTEM_CALL(errno, "getrandom()");
	connection->psn &= PSN_MASK;
	return RS_OK;
}

static void format_line(struct rs_connection *connection)
{
	const struct rs_rdma *rdma = connection->rdma;
	const struct ibv_port_attr *port = rs_device_port_attr(rdma->device);
	struct rs_descriptor descriptor = {
		.kind = RS_DESCRIPTOR_CONNECTION,
		.time = rs_descriptor_now(),
		.connection = { .id = connection->id,
				.transport = IBV_QPT_RC,
				.link_layer = port->link_layer == IBV_LINK_LAYER_INFINIBAND
						      ? IBV_LINK_LAYER_INFINIBAND
						      : IBV_LINK_LAYER_ETHERNET,
				.gid = rdma->gid.gid,
				.gid_type = rdma->gid.gid_type,
				.lid = port->lid,
				.qpn = connection->qpn,
				.psn = connection->psn,
				.mtu = mtu_bytes(port->active_mtu),
				.reads = rs_connection_served_reads(rdma) },
	};

	strcpy(descriptor.connection.name, rdma->name);
	rs_descriptor_format(&descriptor, connection->line);
}

/* Keeps by_qpn sorted; it has room for all connections. */
static void index_by_qpn(struct rs_rdma *rdma, struct rs_connection *connection)
{
	unsigned at = rdma->qp_count++;

	for (; at > 0 && rdma->by_qpn[at - 1]->qpn > connection->qpn; at--)
		rdma->by_qpn[at] = rdma->by_qpn[at - 1];
	rdma->by_qpn[at] = connection;
}

static void forget_qpn(struct rs_rdma *rdma, const struct rs_connection *connection)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < rdma->qp_count; i++)
		if (rdma->by_qpn[i] != connection)
			rdma->by_qpn[kept++] = rdma->by_qpn[i];
	rdma->qp_count = kept;
}

enum rs_status rs_connection_make_qp(struct rs_connection *connection)
{
	enum rs_status status = create_qp(connection->rdma, connection);

	if (status != RS_OK)
		return status;
	status = move_to_init(connection);
	if (status != RS_OK) {
		rs_connection_destroy_qp(connection);
		return status;
	}
	index_by_qpn(connection->rdma, connection);
	return RS_OK;
}

/* One that has ended, with nothing in flight; what it had is freed. */
static struct rs_connection *free_ended(struct rs_rdma *rdma)
{
	for (unsigned i = 0; i < rdma->connection_count; i++) {
		struct rs_connection *connection = &rdma->connections[i];

		if (!connection_has_ended(connection) || connection->complete ||
		    rs_task_refers_to(rdma, connection))
			continue;
		rs_connection_destroy_qp(connection);
		forget_qpn(rdma, connection);
		rs_cm_forget(connection);
		return connection;
	}
	return NULL;
}

/* What has completed on the old queue pair is handled while that can still be told from the new. */
static struct rs_connection *reuse_place(struct rs_rdma *rdma)
{
	rs_rdma_complete_all(rdma);
	return free_ended(rdma);
}

struct rs_connection *rs_connection_take_place(struct rs_rdma *rdma, bool reuse)
{
	struct rs_connection *taken = NULL;

	if (rdma->connection_count < rdma->max_connections)
		taken = &rdma->connections[rdma->connection_count++];
	else if (reuse && !rdma->in_batch)
		taken = reuse_place(rdma);
	if (taken)
		*taken = (struct rs_connection){ .rdma = rdma,
						 .id = (unsigned)(taken - rdma->connections) };
	return taken;
}

static enum rs_status make_exported(struct rs_connection *connection)
{
	enum rs_status status = choose_psn(connection);

	if (status == RS_OK)
		status = rs_connection_make_qp(connection);
	if (status == RS_OK)
		format_line(connection);
	return status;
}

enum rs_status rs_rdma_export(struct rs_rdma *rdma, const char **line,
			      struct rs_connection **connection)
{
	struct rs_connection *made;
	enum rs_status status;

	if (!rs_rdma_is_up(rdma))
		return RS_ERR_BAD_STATE;
	made = rs_connection_take_place(rdma, false);
	if (!made)
		return RS_ERR_FULL;
	status = make_exported(made);
	if (status != RS_OK) {
		rdma->connection_count--;
		return status;
	}
	*line = made->line;
	*connection = made;
	return RS_OK;
}

bool rs_connection_counts(const struct rs_connection *connection)
{
	return connection->state == RS_CONNECTION_CONNECTED ||
	       (connection->complete && connection_has_ended(connection));
}

/* Running cannot be reached any more, or the last connection of those it waited for is gone. */
static bool is_hopeless(const struct rs_rdma *rdma)
{
	unsigned alive = 0;

	for (unsigned i = 0; i < rdma->connection_count; i++)
		alive += !connection_has_ended(&rdma->connections[i]) ||
			 rdma->connections[i].complete;
	/* A listener's connections that have ended make room for others. */
	if (rdma->ctx.state == RS_CTX_STARTING)
		return !rdma->cm_listener &&
		       alive + rdma->max_connections - rdma->connection_count <
			       rdma->needed_connections;
	return rdma->needed_connections > 0 && alive == 0;
}

void rs_connection_check_hope(struct rs_rdma *rdma, enum rs_status reason)
{
	if (!rdma->ctx.stop_requested && is_hopeless(rdma))
		rs_ctx_fail(&rdma->ctx, reason);
}

/* So that it can be connected once more; a queue pair that cannot is of no use. */
static void back_to_init(struct rs_connection *connection)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };
	int error = ibv_modify_qp(connection->qp, &attr, IBV_QP_STATE);

	if (error)
		LOG_FAILED_CALL(error, NULL, "ibv_modify_qp(QPN 0x%06x to RESET)", connection->qpn);
	else if (move_to_init(connection) == RS_OK)
		return;
	rs_connection_destroy_qp(connection);
	connection->state = RS_CONNECTION_FAILED;
	rs_connection_check_hope(connection->rdma, RS_ERR_LOCAL_OPERATION);
}

/* Without this check such a task would wait in the send queue for ever. */
static bool uses_reads(const struct rs_rdma *rdma)
{
	return rdma->pools[RS_OP_READ].count > 0 || rdma->pools[RS_OP_COMPARE_AND_SWAP].count > 0 ||
	       rdma->pools[RS_OP_FETCH_AND_ADD].count > 0 ||
	       rdma->pools[RS_OP_EVENT_GET].count > 0 || rdma->pools[RS_OP_EVENT_ADD].count > 0;
}

static enum rs_status check_peer(const struct rs_connection *connection,
				 const struct rs_descriptor *peer)
{
	const struct rs_rdma *rdma = connection->rdma;
	bool infiniband =
		rs_device_port_attr(rdma->device)->link_layer == IBV_LINK_LAYER_INFINIBAND;

	if (peer->connection.qpn == connection->qpn && peer->connection.psn == connection->psn &&
	    memcmp(&peer->connection.gid, &rdma->gid.gid, sizeof(rdma->gid.gid)) == 0) {
		LOG_ERROR("this is the program's own connection descriptor: give it the peer's");
		return RS_ERR_BAD_DESCRIPTOR;
	}
	if ((peer->connection.link_layer == IBV_LINK_LAYER_INFINIBAND) != infiniband) {
		LOG_ERROR("one side is on InfiniBand, the other on Ethernet: they cannot connect");
		return RS_ERR_NOT_SUPPORTED;
	}
	if (peer->connection.reads == 0 && uses_reads(rdma)) {
		LOG_ERROR("the peer's device serves no reads and no atomics");
		return RS_ERR_NOT_SUPPORTED;
	}
	if (peer->connection.gid_type != rdma->gid.gid_type) {
		LOG_ERROR(
			"different GID types, here %s, at the peer %s: compare --gid-index on both sides",
			rs_gid_type_name(rdma->gid.gid_type),
			rs_gid_type_name((uint32_t)peer->connection.gid_type));
		return RS_ERR_NOT_SUPPORTED;
	}
	return RS_OK;
}

static enum rs_status move_to_rtr(struct rs_connection *connection,
				  const struct rs_descriptor *peer)
{
	const struct rs_rdma *rdma = connection->rdma;
	const struct ibv_port_attr *port = rs_device_port_attr(rdma->device);
	unsigned mtu = at_most(peer->connection.mtu, mtu_bytes(port->active_mtu));
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = mtu_from_bytes(mtu),
		.dest_qp_num = (uint32_t)peer->connection.qpn,
		.rq_psn = (uint32_t)peer->connection.psn,
		.max_dest_rd_atomic = rs_connection_served_reads(rdma),
		.min_rnr_timer = RNR_TIMER,
		.ah_attr = { .dlid = (uint16_t)peer->connection.lid,
			     .port_num = rs_device_info(rdma->device)->port,
			     .is_global = 1,
			     .grh = { .dgid = peer->connection.gid,
				      .sgid_index = (uint8_t)rdma->gid.gid_index,
				      .hop_limit = HOP_LIMIT } },
	};
	char here[RS_GID_TEXT_SIZE], there[RS_GID_TEXT_SIZE];
	int error = ibv_modify_qp(connection->qp, &attr,
				  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
					  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
					  IBV_QP_MIN_RNR_TIMER);

	if (error)
		return LOG_FAILED_CALL(
			error,
			"different RoCE versions or unreachable address: compare --gid-index on both sides",
			"ibv_modify_qp(QPN 0x%06x to RTR, GID %s index %u %s, MTU %u; peer: QPN 0x%06x, GID %s %s, MTU %u)",
			connection->qpn, rs_gid_text(&rdma->gid.gid, here), rdma->gid.gid_index,
			rs_gid_type_name(rdma->gid.gid_type), mtu_bytes(port->active_mtu),
			attr.dest_qp_num, rs_gid_text(&peer->connection.gid, there),
			rs_gid_type_name((uint32_t)peer->connection.gid_type),
			(unsigned)peer->connection.mtu);
	return RS_OK;
}

static enum rs_status move_to_rts(struct rs_connection *connection,
				  const struct rs_descriptor *peer)
{
	const struct rs_rdma *rdma = connection->rdma;
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.timeout = (uint8_t)rdma->ack_timeout,
		.retry_cnt = (uint8_t)rdma->retries,
		.rnr_retry = RNR_RETRIES,
		.sq_psn = connection->psn,
		.max_rd_atomic =
			(uint8_t)at_most(peer->connection.reads, rs_connection_asked_reads(rdma)),
	};
	int error =
		ibv_modify_qp(connection->qp, &attr,
			      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				      IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);

	if (error)
		return LOG_FAILED_CALL(
			error, NULL,
			"ibv_modify_qp(QPN 0x%06x to RTS, timeout %u, retries %u, reads %u)",
			connection->qpn, attr.timeout, attr.retry_cnt, attr.max_rd_atomic);
	return RS_OK;
}

enum rs_status rs_rdma_connect(struct rs_rdma *rdma, const char *line,
			       struct rs_connection *connection)
{
	struct rs_descriptor peer;
	char gid[RS_GID_TEXT_SIZE];
	enum rs_status status;

	if (connection->rdma != rdma)
		return RS_ERR_INVALID_VALUE;
	if (!rs_rdma_is_up(rdma) || connection->state != RS_CONNECTION_EXPORTED)
		return RS_ERR_BAD_STATE;
	status = rs_descriptor_read(line, RS_DESCRIPTOR_CONNECTION, &peer);
	if (status == RS_OK)
		status = check_peer(connection, &peer);
	if (status != RS_OK)
		return status;
	status = move_to_rtr(connection, &peer);
	if (status == RS_OK)
		status = move_to_rts(connection, &peer);
	if (status != RS_OK) {
		back_to_init(connection);
		return status;
	}
	connection->peer = peer;
	connection->state = RS_CONNECTION_CONNECTED;
	LOG_DEBUG("connection %u: QPN 0x%06x to QPN 0x%06x at %s", connection->id, connection->qpn,
		  (unsigned)peer.connection.qpn, rs_gid_text(&peer.connection.gid, gid));
	return RS_OK;
}

enum rs_status rs_connection_disconnect(struct rs_connection *connection)
{
	if (connection_has_ended(connection))
		return RS_ERR_BAD_STATE;
	if (connection->state == RS_CONNECTION_REQUESTED)
		return rs_connection_reject(connection, "this program ends the connection");
	/* Before the answer, the end of the identifier is what tells the peer. */
	if (connection->state == RS_CONNECTION_CONNECTING)
		rs_cm_forget(connection);
	connection->state = RS_CONNECTION_DISCONNECTED;
	rs_cm_shut(connection);
	if (connection->rdma->ctx.state == RS_CTX_STARTING)
		rs_connection_check_hope(connection->rdma, RS_ERR_DISCONNECTED);
	return rs_connection_shut(connection);
}

enum rs_status rs_connection_shut(struct rs_connection *connection)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	int error = connection->qp ? ibv_modify_qp(connection->qp, &attr, IBV_QP_STATE) : 0;

	if (error)
		return LOG_FAILED_CALL(error, NULL, "ibv_modify_qp(QPN 0x%06x to ERR)",
				       connection->qpn);
	return RS_OK;
}

void rs_connection_destroy_qp(struct rs_connection *connection)
{
	int error;

	if (!connection->qp)
		return;
	error = ibv_destroy_qp(connection->qp);
	if (error)
		LOG_FAILED_CALL(error, NULL, "ibv_destroy_qp(connection %u)", connection->id);
	connection->qp = NULL;
}

void rs_connection_fail(struct rs_connection *connection, enum rs_status reason)
{
	struct rs_rdma *rdma = connection->rdma;

	if (connection_has_ended(connection))
		return;
	connection->state = RS_CONNECTION_FAILED;
	rs_cm_shut(connection);
	if (rdma->connection_failed)
		rdma->connection_failed(connection, reason, rdma->ctx.user_data);
	rs_connection_check_hope(rdma, reason);
}

struct rs_connection *rs_connection_of_qpn(const struct rs_rdma *rdma, uint32_t qpn)
{
	unsigned low = 0, high = rdma->qp_count;

	while (low < high) {
		unsigned middle = (low + high) / 2;

		if (rdma->by_qpn[middle]->qpn < qpn)
			low = middle + 1;
		else
			high = middle;
	}
	if (low < rdma->qp_count && rdma->by_qpn[low]->qpn == qpn)
		return rdma->by_qpn[low];
	return NULL;
}

void rs_connection_set_complete(struct rs_connection *connection)
{
	connection->complete = true;
}

bool rs_connection_is_complete(const struct rs_connection *connection)
{
	return connection->complete;
}

enum rs_connection_state rs_connection_state(const struct rs_connection *connection)
{
	return connection->state;
}

unsigned rs_connection_id(const struct rs_connection *connection)
{
	return connection->id;
}

void rs_connection_set_user_data(struct rs_connection *connection, void *user_data)
{
	connection->user_data = user_data;
}

void *rs_connection_user_data(const struct rs_connection *connection)
{
	return connection->user_data;
}

struct ibv_qp *rs_connection_qp(const struct rs_connection *connection)
{
	return connection->qp;
}
