#define LOG_MODULE "connection"

#include "connection.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "address.h"
#include "log.h"

#define BACKLOG 1

#define MAX_READS 16
#define RETRIES   6
#define RNR_RETRY 7 /* without end: a peer that gets no processor is slow */

#define ACCESS                                                                       \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
	 IBV_ACCESS_REMOTE_ATOMIC)

/* What the server tells the client when it accepts; in network byte order. */
struct offer {
	uint32_t rkey;
	uint32_t address[2]; /* upper half, lower half */
};

static const struct ibv_qp_init_attr queue_pair = {
	.cap = { .max_send_wr = (SLOTS + 1) * REQUESTS_PER_ROUND,
		 .max_recv_wr = RECEIVES,
		 .max_send_sge = 1,
		 .max_recv_sge = 1 },
	.qp_type = IBV_QPT_RC,
	.sq_sig_all = 1,
};

static const struct rdma_conn_param parameters = {
	.responder_resources = MAX_READS,
	.initiator_depth = MAX_READS,
	.retry_count = RETRIES,
	.rnr_retry_count = RNR_RETRY,
};

/* flags: 0, or RAI_PASSIVE for the address to listen at. */
static struct rdma_cm_id *create_endpoint(union rs_address *address, int flags)
{
	socklen_t length =
		address->any.sa_family == AF_INET ? sizeof(address->ipv4) : sizeof(address->ipv6);
	struct rdma_addrinfo hints = { .ai_flags = flags,
				       .ai_family = address->any.sa_family,
				       .ai_qp_type = IBV_QPT_RC,
				       .ai_port_space = RDMA_PS_TCP };
	struct ibv_qp_init_attr qp = queue_pair;
	struct rdma_addrinfo *info;
	struct rdma_cm_id *id = NULL;

	if (flags & RAI_PASSIVE) {
		hints.ai_src_len = length;
		hints.ai_src_addr = &address->any;
	} else {
		hints.ai_dst_len = length;
		hints.ai_dst_addr = &address->any;
	}
	if (rdma_getaddrinfo(NULL, NULL, &hints, &info) != 0) {
		LOG_FAILED_CALL(errno, NULL, "rdma_getaddrinfo()");
		return NULL;
	}
	if (rdma_create_ep(&id, info, NULL, &qp) != 0)
		LOG_FAILED_CALL(errno, NULL, "rdma_create_ep()");
	rdma_freeaddrinfo(info);
	return id;
}

struct rdma_cm_id *listener_open(const char *text, uint16_t *port)
{
	union rs_address address;
	struct rdma_cm_id *listener;

	if (rs_address_parse(text, RS_ADDRESS_GUESSED, 0, &address) != RS_OK)
		return NULL;
	listener = create_endpoint(&address, RAI_PASSIVE);
	if (!listener)
		return NULL;
	if (rdma_listen(listener, BACKLOG) != 0) {
		LOG_FAILED_CALL(errno, NULL, "rdma_listen(%s)", text);
		rdma_destroy_ep(listener);
		return NULL;
	}
	*port = ntohs(rdma_get_src_port(listener));
	return listener;
}

enum rs_status connection_post_receive(struct connection *connection, uint64_t index)
{
	uint64_t *place = &connection->memory.received[index];
	struct ibv_sge sge = { (uintptr_t)place, sizeof(*place), connection->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = index, .sg_list = &sge, .num_sge = 1 };
	struct ibv_recv_wr *bad;
	int error = ibv_post_recv(connection->id->qp, &wr, &bad);

	return error ? LOG_FAILED_CALL(error, NULL, "ibv_post_recv()") : RS_OK;
}

static enum rs_status prepare(struct connection *connection)
{
	enum rs_status status = RS_OK;

	connection->mr = ibv_reg_mr(connection->id->pd, &connection->memory,
				    sizeof(connection->memory), ACCESS);
	if (!connection->mr)
		return LOG_FAILED_CALL(errno, NULL, "ibv_reg_mr()");
	for (uint64_t i = 0; i < RECEIVES && status == RS_OK; i++)
		status = connection_post_receive(connection, i);
	return status;
}

enum rs_status connection_accept(struct connection *connection, struct rdma_cm_id *listener)
{
	uint64_t address = (uintptr_t)&connection->memory;
	struct rdma_conn_param param = parameters;
	struct offer offer;
	enum rs_status status;

	if (rdma_get_request(listener, &connection->id) != 0)
		return LOG_FAILED_CALL(errno, NULL, "rdma_get_request()");
	status = prepare(connection);
	if (status != RS_OK)
		return status;
	offer = (struct offer){ htonl(connection->mr->rkey),
				{ htonl((uint32_t)(address >> 32)), htonl((uint32_t)address) } };
	param.private_data = &offer;
	param.private_data_len = sizeof(offer);
	if (rdma_accept(connection->id, &param) != 0)
		return LOG_FAILED_CALL(errno, NULL, "rdma_accept()");
	return RS_OK;
}

static enum rs_status read_offer(struct connection *connection)
{
	const struct rdma_cm_event *event = connection->id->event;
	struct offer offer;

	if (!event || event->param.conn.private_data_len < sizeof(offer)) {
		LOG_ERROR("the server did not say where its memory is");
		return RS_ERR_BAD_DATA;
	}
	memcpy(&offer, event->param.conn.private_data, sizeof(offer));
	connection->rkey = ntohl(offer.rkey);
	connection->remote = (uint64_t)ntohl(offer.address[0]) << 32 | ntohl(offer.address[1]);
	return RS_OK;
}

enum rs_status connection_connect(struct connection *connection, const char *text, uint16_t port)
{
	struct rdma_conn_param param = parameters;
	union rs_address address;
	enum rs_status status;

	status = rs_address_parse(text, RS_ADDRESS_GUESSED, port, &address);
	if (status != RS_OK)
		return status;
	connection->id = create_endpoint(&address, 0);
	if (!connection->id)
		return RS_ERR_UNREACHABLE;
	status = prepare(connection);
	if (status != RS_OK)
		return status;
	if (rdma_connect(connection->id, &param) != 0)
		return LOG_FAILED_CALL(errno, NULL, "rdma_connect()");
	return read_offer(connection);
}

enum rs_status connection_disconnect(struct connection *connection)
{
	return rdma_disconnect(connection->id) == 0
		       ? RS_OK
		       : LOG_FAILED_CALL(errno, NULL, "rdma_disconnect()");
}

void connection_close(struct connection *connection)
{
	if (connection->mr)
		ibv_dereg_mr(connection->mr);
	if (connection->id)
		rdma_destroy_ep(connection->id);
}
