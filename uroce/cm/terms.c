#include "terms.h"

#include <endian.h>
#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "../core/clock.h"
#include "../link/address.h"

/*
 * How soon a queue pair sends again what is not acknowledged: 268 ms (the exponent of 4.096 us).
 * The engine's thread answers while the program does something else, but it has to get a
 * processor.
 */
#define ACK_TIMEOUT 16
#define MAX_TIMEOUT 31

/* What we promise as the time in which we answer messages, and expect: 1.07 s. */
#define RESPONSE_TIMEOUT 18

#define DEFAULT_HOP_LIMIT 64
#define LID_NONE          0xffff     /* as Linux, where there are none */
#define RATE_10_GBPS      3          /* what stands there is not used on Ethernet */
#define DEFAULT_QKEY      0x01234567 /* RDMA_UDP_QKEY */

uint32_t ur_terms_random(void)
{
	uint32_t number = 0;

	while (number == 0) {
		if (getrandom(&number, sizeof(number), 0) != sizeof(number))
			number = (uint32_t)ur_clock_ns();
		number &= UR_24_BITS;
	}
	return number;
}

/* ---- IP addressing ---- */

/* An IPv4 address stands in the last four bytes, as in a GID, but with zeros before. */
static void set_ip(const union ur_sockaddr *address, uint8_t ip[16])
{
	const union ibv_gid gid = ur_cm_gid_of(address);

	memcpy(ip, gid.raw, sizeof(gid.raw));
	if (ur_address_is_ipv4(address))
		memset(ip, 0, 12);
}

static void make_ip_header(const union ur_sockaddr *source, const union ur_sockaddr *dest,
			   struct ur_cm_ip_header *header)
{
	header->ip_version = ur_address_is_ipv4(source) ? 4 : 6;
	header->source_port = ur_address_port(source);
	set_ip(source, header->source);
	set_ip(dest, header->dest);
}

bool ur_terms_is_right(const struct ur_cm_ip_header *header, const struct ur_cm_route *route)
{
	struct ur_cm_ip_header right;

	make_ip_header(&route->dest, &route->source, &right);
	return header->ip_version == right.ip_version &&
	       memcmp(header->source, right.source, sizeof(right.source)) == 0 &&
	       memcmp(header->dest, right.dest, sizeof(right.dest)) == 0;
}

/* ---- Messages ---- */

int ur_terms_add_data(struct ur_cm_message *message, const void *data, size_t length)
{
	size_t used = message->private_length;

	if (length > ur_cm_private_room(message->kind) - used)
		return EMSGSIZE;
	if (length > 0)
		memcpy(message->private_data + used, data, length);
	message->private_length = used + length;
	return 0;
}

int ur_terms_add_request_data(struct ur_cm_message *message, const struct ur_cm_route *route,
			      const void *data, size_t length)
{
	struct ur_cm_ip_header header;

	make_ip_header(&route->source, &route->dest, &header);
	ur_cm_ip_header_encode(&header, message->private_data);
	message->private_length = UR_CM_IP_HEADER_SIZE;
	return ur_terms_add_data(message, data, length);
}

static void make_path(const struct ur_cm_connection *connection, struct ur_cm_path *path)
{
	const struct ur_cm_route *route = &connection->route;
	const struct ibv_global_route *grh = &connection->attr.ah_attr.grh;
	const union ibv_gid local = ur_cm_gid_of(&route->source);

	*path = (struct ur_cm_path){
		.local_lid = LID_NONE,
		.remote_lid = LID_NONE,
		.rate = RATE_10_GBPS,
		.traffic_class = grh->traffic_class,
		.hop_limit = grh->hop_limit,
		.ack_timeout = ACK_TIMEOUT,
	};
	memcpy(path->local_gid, local.raw, sizeof(local.raw));
	memcpy(path->remote_gid, grh->dgid.raw, sizeof(grh->dgid.raw));
}

/* As Linux does: what only a queue pair that receives has to do with is not said. */
static void make_extended_req(struct ur_cm_req *req)
{
	req->transport = UR_CM_EXTENDED;
	req->extended_transport = UR_CM_XRC;
	req->responder_resources = 0;
	req->retry_count = 0;
	req->rnr_retry_count = 0;
	req->srq = false;
}

void ur_terms_make_req(const struct ur_cm_connection *connection, uint64_t service_id,
		       const struct ur_cm_params *params, struct ur_cm_req *req)
{
	const struct ibv_qp_attr *attr = &connection->attr;

	*req = (struct ur_cm_req){
		.service_id = service_id,
		.ca_guid = be64toh(connection->route.device->guid),
		.qpn = params->qpn,
		.psn = attr->rq_psn,
		.responder_resources = params->responder_resources,
		.initiator_depth = params->initiator_depth,
		.remote_timeout = RESPONSE_TIMEOUT,
		.local_timeout = RESPONSE_TIMEOUT,
		.transport = UR_CM_RC,
		.flow_control = params->flow_control,
		.retry_count = params->retry_count,
		.rnr_retry_count = params->rnr_retry_count,
		.max_cm_retries = UR_CM_RETRIES,
		.pkey = UR_DEFAULT_PKEY,
		.path_mtu = (uint8_t)attr->path_mtu,
		.srq = params->srq,
	};
	if (params->qp_type == IBV_QPT_XRC_SEND)
		make_extended_req(req);
	make_path(connection, &req->path);
}

static void make_extended_rep(struct ur_cm_rep *rep)
{
	rep->eecn = rep->qpn;
	rep->qpn = 0;
	rep->initiator_depth = 0;
	rep->flow_control = false;
	rep->srq = true;
}

void ur_terms_make_rep(const struct ur_cm_connection *connection, const struct ur_cm_params *params,
		       struct ur_cm_rep *rep)
{
	*rep = (struct ur_cm_rep){
		.qpn = params->qpn,
		.psn = connection->attr.rq_psn,
		.responder_resources = params->responder_resources,
		.initiator_depth = params->initiator_depth,
		.target_ack_delay = ACK_TIMEOUT - 1,
		.flow_control = params->flow_control,
		.rnr_retry_count = params->rnr_retry_count,
		.srq = params->srq,
		.ca_guid = be64toh(connection->route.device->guid),
	};
	if (params->qp_type == IBV_QPT_XRC_RECV)
		make_extended_rep(rep);
}

/* ---- Queue pair ---- */

void ur_terms_begin(struct ur_cm_connection *connection)
{
	const struct ur_cm_route *route = &connection->route;
	struct ibv_ah_attr *ah = &connection->attr.ah_attr;

	connection->attr.path_mtu = route->device->mtu;
	connection->attr.rq_psn = ur_terms_random();
	connection->attr.qkey = DEFAULT_QKEY;
	connection->attr.timeout = ACK_TIMEOUT;
	ah->is_global = 1;
	ah->port_num = 1;
	ah->grh.dgid = ur_cm_gid_of(&route->dest);
	ah->grh.sgid_index = route->path.gid_index;
	ah->grh.traffic_class = route->path.traffic_class;
	ah->grh.hop_limit = route->path.hop_limit ? route->path.hop_limit : DEFAULT_HOP_LIMIT;
}

static uint8_t smaller(uint8_t a, uint8_t b)
{
	return a < b ? a : b;
}

void ur_terms_take_req(struct ur_cm_connection *connection, const struct ur_cm_req *req)
{
	struct ibv_qp_attr *attr = &connection->attr;

	if (req->path_mtu < (uint8_t)attr->path_mtu)
		attr->path_mtu = req->path_mtu;
	attr->dest_qp_num = req->qpn;
	attr->sq_psn = req->psn;
	attr->max_rd_atomic = req->responder_resources;
	attr->max_dest_rd_atomic = req->initiator_depth;
	attr->retry_cnt = req->retry_count;
	attr->rnr_retry = req->rnr_retry_count;
	attr->timeout = req->path.ack_timeout;
}

void ur_terms_take_params(struct ur_cm_connection *connection, const struct ur_cm_params *params)
{
	struct ibv_qp_attr *attr = &connection->attr;

	if (params->psn != 0)
		attr->rq_psn = params->psn & UR_24_BITS;
	attr->max_rd_atomic = params->initiator_depth;
	attr->max_dest_rd_atomic = params->responder_resources;
}

/* No more than was asked for: what a peer promises beyond would break our queue pair. */
void ur_terms_take_rep(struct ur_cm_connection *connection, const struct ur_cm_rep *rep)
{
	struct ibv_qp_attr *attr = &connection->attr;

	attr->dest_qp_num = ur_cm_rep_qpn(rep);
	attr->sq_psn = rep->psn;
	attr->max_rd_atomic = smaller(attr->max_rd_atomic, rep->responder_resources);
	attr->max_dest_rd_atomic = smaller(attr->max_dest_rd_atomic, rep->initiator_depth);
	attr->rnr_retry = rep->rnr_retry_count;
	/* It needs longer to acknowledge than we thought. */
	if (rep->target_ack_delay >= attr->timeout)
		attr->timeout = smaller(rep->target_ack_delay + 1, MAX_TIMEOUT);
}

static void give_init(const struct ur_cm_connection *connection, struct ibv_qp_attr *attr,
		      int *mask)
{
	*mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
	attr->pkey_index = 0;
	attr->port_num = 1;
	if (connection->is_datagram) {
		*mask |= IBV_QP_QKEY;
		attr->qkey = connection->attr.qkey;
		return;
	}
	*mask |= IBV_QP_ACCESS_FLAGS;
	attr->qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
	if (connection->attr.max_dest_rd_atomic > 0)
		attr->qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
}

static void give_rtr(const struct ur_cm_connection *connection, struct ibv_qp_attr *attr, int *mask)
{
	const struct ibv_qp_attr *agreed = &connection->attr;

	*mask = IBV_QP_STATE;
	if (connection->is_datagram)
		return;
	*mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		 IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	attr->ah_attr = agreed->ah_attr;
	attr->path_mtu = agreed->path_mtu;
	attr->dest_qp_num = agreed->dest_qp_num;
	attr->rq_psn = agreed->rq_psn;
	attr->max_dest_rd_atomic = agreed->max_dest_rd_atomic;
	attr->min_rnr_timer = 0;
}

static void give_rts(const struct ur_cm_connection *connection, struct ibv_qp_attr *attr, int *mask)
{
	const struct ibv_qp_attr *agreed = &connection->attr;

	*mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
	attr->sq_psn = agreed->sq_psn;
	if (connection->is_datagram)
		return;
	*mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	attr->timeout = agreed->timeout;
	attr->retry_cnt = agreed->retry_cnt;
	attr->rnr_retry = agreed->rnr_retry;
	attr->max_rd_atomic = agreed->max_rd_atomic;
}

int ur_terms_attr(const struct ur_cm_connection *connection, struct ibv_qp_attr *attr, int *mask)
{
	bool known = connection->is_datagram || ur_endpoint_is_live(&connection->endpoint);

	if (attr->qp_state == IBV_QPS_INIT)
		give_init(connection, attr, mask);
	else if (attr->qp_state == IBV_QPS_RTR && known)
		give_rtr(connection, attr, mask);
	else if (attr->qp_state == IBV_QPS_RTS && known)
		give_rts(connection, attr, mask);
	else
		return EINVAL;
	return 0;
}
