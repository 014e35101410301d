#define LOG_MODULE "endpoint"

#include "endpoint.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "arguments.h"
#include "log.h"

#define PAGE_SIZE 4096
#define PSN_MASK  0xffffff

/* Of both sides, as both have the same device. */
#define MAX_READS     16
#define ACK_TIMEOUT   18 /* 1 s */
#define RETRIES       7
#define MIN_RNR_TIMER 1 /* 10 us; none is expected, as receives are posted ahead of sends */
#define HOP_LIMIT     64

#define OPS    (RS_OP_BIT(RS_OP_SEND) | RS_OP_BIT(RS_OP_WRITE) | RS_OP_BIT(RS_OP_READ))
#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

static enum rs_status open_device(struct endpoint *endpoint, const struct arguments *arguments)
{
	enum rs_status status = rs_device_open(arguments->device, OPS, &endpoint->device);

	if (status == RS_OK)
		status = rs_device_choose_gid(endpoint->device, arguments->gid_index,
					      &endpoint->gid);
	return status;
}

static enum rs_status register_memory(struct endpoint *endpoint)
{
	size_t length = (size_t)2 * MAX_SPAN;

	endpoint->local = aligned_alloc(PAGE_SIZE, length);
	if (!endpoint->local)
		return LOG_FAILED_SYSTEM_CALL(ENOMEM, "aligned_alloc(%zu bytes)", length);
	memset(endpoint->local, 0, length);
	endpoint->target = endpoint->local + MAX_SPAN;
	endpoint->mr = ibv_reg_mr(rs_device_pd(endpoint->device), endpoint->local, length, ACCESS);
	return endpoint->mr ? RS_OK : LOG_FAILED_CALL(errno, NULL, "ibv_reg_mr(%zu bytes)", length);
}

/* Some devices take no inline data. */
static struct ibv_qp *create_qp(struct endpoint *endpoint, uint32_t max_inline)
{
	struct ibv_qp_init_attr init = { .send_cq = endpoint->cq,
					 .recv_cq = endpoint->cq,
					 .cap = { .max_send_wr = QUEUE_DEPTH,
						  .max_recv_wr = QUEUE_DEPTH,
						  .max_send_sge = 1,
						  .max_recv_sge = 1,
						  .max_inline_data = max_inline },
					 .qp_type = IBV_QPT_RC };
	struct ibv_qp *qp = ibv_create_qp(rs_device_pd(endpoint->device), &init);

	endpoint->max_inline = init.cap.max_inline_data;
	return qp;
}

static enum rs_status create_queues(struct endpoint *endpoint)
{
	endpoint->cq =
		ibv_create_cq(rs_device_verbs(endpoint->device), 2 * QUEUE_DEPTH, NULL, NULL, 0);
	if (!endpoint->cq)
		return LOG_FAILED_CALL(errno, NULL, "ibv_create_cq(%d entries)", 2 * QUEUE_DEPTH);
	endpoint->qp = create_qp(endpoint, LATENCY_SIZE);
	if (!endpoint->qp)
		endpoint->qp = create_qp(endpoint, 0);
	if (!endpoint->qp)
		return LOG_FAILED_CALL(errno, NULL, "ibv_create_qp()");
	if (getrandom(&endpoint->psn, sizeof(endpoint->psn), 0) != sizeof(endpoint->psn))
		return LOG_FAILED_SYSTEM_CALL(errno, "getrandom()");
	endpoint->psn &= PSN_MASK;
	return RS_OK;
}

static enum rs_status modify(struct endpoint *endpoint, const char *to, struct ibv_qp_attr *attr,
			     int mask)
{
	int error = ibv_modify_qp(endpoint->qp, attr, mask);

	return error ? LOG_FAILED_CALL(error, NULL, "ibv_modify_qp(to %s)", to) : RS_OK;
}

static enum rs_status move_to_init(struct endpoint *endpoint)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT,
				    .port_num = rs_device_info(endpoint->device)->port,
				    .qp_access_flags = ACCESS };

	return modify(endpoint, "INIT", &attr,
		      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

static uint8_t max_reads(const struct endpoint *endpoint)
{
	int max = rs_device_attr(endpoint->device)->max_qp_rd_atom;

	return (uint8_t)(max < MAX_READS ? max : MAX_READS);
}

static enum rs_status move_to_rtr(struct endpoint *endpoint)
{
	const struct ibv_port_attr *port = rs_device_port_attr(endpoint->device);
	const struct endpoint_address *peer = &endpoint->peer;
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = port->active_mtu,
		.dest_qp_num = peer->qpn,
		.rq_psn = peer->psn,
		.max_dest_rd_atomic = max_reads(endpoint),
		.min_rnr_timer = MIN_RNR_TIMER,
		.ah_attr = { .dlid = peer->lid,
			     .port_num = rs_device_info(endpoint->device)->port,
			     .is_global = port->link_layer == IBV_LINK_LAYER_ETHERNET,
			     .grh = { .dgid = peer->gid,
				      .sgid_index = (uint8_t)endpoint->gid.gid_index,
				      .hop_limit = HOP_LIMIT } },
	};

	return modify(endpoint, "RTR", &attr,
		      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			      IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

static enum rs_status move_to_rts(struct endpoint *endpoint)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS,
				    .timeout = ACK_TIMEOUT,
				    .retry_cnt = RETRIES,
				    .rnr_retry = RETRIES,
				    .sq_psn = endpoint->psn,
				    .max_rd_atomic = max_reads(endpoint) };

	return modify(endpoint, "RTS", &attr,
		      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			      IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

static enum rs_status exchange_addresses(struct endpoint *endpoint, struct peer *peer)
{
	struct endpoint_address mine = { .gid = endpoint->gid.gid,
					 .target = (uintptr_t)endpoint->target,
					 .rkey = endpoint->mr->rkey,
					 .qpn = endpoint->qp->qp_num,
					 .psn = endpoint->psn,
					 .lid = rs_device_port_attr(endpoint->device)->lid };

	return peer_exchange(peer, &mine, &endpoint->peer, sizeof(mine));
}

enum rs_status endpoint_open(struct endpoint *endpoint, const struct arguments *arguments,
			     struct peer *peer)
{
	enum rs_status status = open_device(endpoint, arguments);

	if (status == RS_OK)
		status = register_memory(endpoint);
	if (status == RS_OK)
		status = create_queues(endpoint);
	if (status == RS_OK)
		status = move_to_init(endpoint);
	if (status == RS_OK)
		status = exchange_addresses(endpoint, peer);
	if (status == RS_OK)
		status = move_to_rtr(endpoint);
	if (status == RS_OK)
		status = move_to_rts(endpoint);
	return status;
}

void endpoint_close(struct endpoint *endpoint)
{
	if (endpoint->qp)
		ibv_destroy_qp(endpoint->qp);
	if (endpoint->cq)
		ibv_destroy_cq(endpoint->cq);
	if (endpoint->mr)
		ibv_dereg_mr(endpoint->mr);
	rs_device_close(endpoint->device);
	free(endpoint->local);
}
