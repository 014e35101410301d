#define LOG_MODULE "pair"

#include "pair.h"

#include <errno.h>
#include <time.h>

#include "log.h"

#define ACCESS      (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)
#define ACK_TIMEOUT 18 /* 1 s */
#define RETRIES     7
#define PSN         0
#define BATCH       16

static struct ibv_qp *create_qp(const struct pair_parts *parts)
{
	struct ibv_qp_init_attr init = { .send_cq = parts->cq,
					 .recv_cq = parts->cq,
					 .cap = { .max_send_wr = PAIR_DEPTH,
						  .max_recv_wr = 1,
						  .max_send_sge = 1,
						  .max_recv_sge = 1 },
					 .qp_type = IBV_QPT_RC };
	struct ibv_qp *qp = ibv_create_qp(rs_device_pd(parts->device), &init);

	if (!qp)
		LOG_FAILED_CALL(errno, NULL, "ibv_create_qp()");
	return qp;
}

static enum rs_status modify(struct ibv_qp *qp, const char *to, struct ibv_qp_attr attr, int mask)
{
	int error = ibv_modify_qp(qp, &attr, mask);

	return error ? LOG_FAILED_CALL(error, NULL, "ibv_modify_qp(to %s)", to) : RS_OK;
}

static enum rs_status connect_to(struct ibv_qp *qp, const struct ibv_qp *peer,
				 const struct pair_parts *parts)
{
	const struct ibv_port_attr *port = rs_device_port_attr(parts->device);
	uint8_t port_number = rs_device_info(parts->device)->port;
	enum rs_status status;

	status = modify(qp, "INIT",
			(struct ibv_qp_attr){ .qp_state = IBV_QPS_INIT,
					      .port_num = port_number,
					      .qp_access_flags = ACCESS },
			IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	if (status != RS_OK)
		return status;
	status = modify(
		qp, "RTR",
		(struct ibv_qp_attr){
			.qp_state = IBV_QPS_RTR,
			.path_mtu = port->active_mtu,
			.dest_qp_num = peer->qp_num,
			.rq_psn = PSN,
			.max_dest_rd_atomic = 1,
			.ah_attr = { .dlid = port->lid,
				     .port_num = port_number,
				     .is_global = port->link_layer == IBV_LINK_LAYER_ETHERNET,
				     .grh = { .dgid = parts->gid.gid,
					      .sgid_index = (uint8_t)parts->gid.gid_index,
					      .hop_limit = 64 } } },
		IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	if (status != RS_OK)
		return status;
	return modify(qp, "RTS",
		      (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS,
					    .timeout = ACK_TIMEOUT,
					    .retry_cnt = RETRIES,
					    .rnr_retry = RETRIES,
					    .sq_psn = PSN,
					    .max_rd_atomic = 1 },
		      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			      IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

enum rs_status pair_open(struct pair *pair, const struct pair_parts *parts)
{
	enum rs_status status;

	pair->requester = create_qp(parts);
	pair->responder = create_qp(parts);
	if (!pair->requester || !pair->responder)
		return RS_ERR_NO_MEMORY;
	status = connect_to(pair->responder, pair->requester, parts);
	return status == RS_OK ? connect_to(pair->requester, pair->responder, parts) : status;
}

void pair_close(struct pair *pair)
{
	if (pair->requester)
		ibv_destroy_qp(pair->requester);
	if (pair->responder)
		ibv_destroy_qp(pair->responder);
	*pair = (struct pair){ NULL, NULL };
}

static enum rs_status post(const struct pair *pair, const struct ibv_mr *mr, uint32_t length)
{
	struct ibv_sge sge = { (uintptr_t)mr->addr, length, mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_RDMA_WRITE,
				  .send_flags = IBV_SEND_SIGNALED,
				  .wr.rdma = { (uintptr_t)mr->addr + length, mr->rkey } };
	struct ibv_send_wr *bad;
	int error = ibv_post_send(pair->requester, &wr, &bad);

	return error ? LOG_FAILED_CALL(error, NULL, "ibv_post_send()") : RS_OK;
}

/* Takes completions; *completed grows by their number. */
static enum rs_status poll(const struct pair_parts *parts, uint64_t *completed)
{
	struct ibv_wc wcs[BATCH];
	int count = ibv_poll_cq(parts->cq, BATCH, wcs);

	for (int i = 0; i < count; i++) {
		if (wcs[i].status == IBV_WC_SUCCESS)
			continue;
		LOG_ERROR("a write failed: %s", ibv_wc_status_str(wcs[i].status));
		return rs_status_from_wc(wcs[i].status);
	}
	*completed += (uint64_t)count;
	return RS_OK;
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

enum rs_status pair_measure(const struct pair *pair, const struct pair_parts *parts,
			    const struct ibv_mr *mr, uint32_t length, uint64_t iterations,
			    double *rate)
{
	uint64_t posted = 0, completed = 0;
	enum rs_status status = RS_OK;
	double start = now();

	while (completed < iterations && status == RS_OK) {
		while (posted < iterations && posted < completed + PAIR_DEPTH && status == RS_OK) {
			status = post(pair, mr, length);
			posted++;
		}
		if (status == RS_OK)
			status = poll(parts, &completed);
	}
	*rate = (double)iterations / (now() - start);
	return status;
}
