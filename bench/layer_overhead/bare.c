#define LOG_MODULE "bare"

#include "bare.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

#include "log.h"

#define POLL_BATCH 16

#define PSN_MASK 0xffffff

/* In a work request's number: it is a receive. The rest is the slot. */
#define RECEIVE_FLAG ((uint64_t)1 << 32)

struct request {
	struct ibv_send_wr wr;
	struct ibv_sge sge;
};

struct receive {
	struct ibv_recv_wr wr;
	struct ibv_sge sge;
};

struct bare {
	struct parameters parameters;
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	uint32_t psn;
	const struct memory *memory;

	/* Made once, posted again and again */
	struct request requests[OPERATION_COUNT][MAX_DEPTH];
	struct receive receives[RECEIVES];

	/* The run that is on */
	struct flow *flow;
	struct request *slots;
	unsigned idle[MAX_DEPTH]; /* slots that are not in flight */
	unsigned idle_count;
};

enum rs_status parameters_query(struct ibv_qp *qp, struct parameters *parameters)
{
	int error = ibv_query_qp(qp, &parameters->qp,
				 IBV_QP_ACCESS_FLAGS | IBV_QP_PORT | IBV_QP_AV | IBV_QP_PATH_MTU |
					 IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
					 IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC |
					 IBV_QP_MIN_RNR_TIMER | IBV_QP_CAP,
				 &parameters->init);

	if (error)
		return LOG_FAILED_CALL(error, NULL, "ibv_query_qp(QPN 0x%06x)", qp->qp_num);
	error = ibv_query_srq(qp->srq, &parameters->srq);
	if (error)
		return LOG_FAILED_CALL(error, NULL, "ibv_query_srq()");
	parameters->cq_entries = qp->send_cq->cqe;
	return RS_OK;
}

/* Creation
 * -------------------------------------------------------------------------------------------------
 */

static enum rs_status create_queues(struct bare *bare)
{
	const struct parameters *model = &bare->parameters;
	struct ibv_srq_init_attr srq_attr = { .attr = { .max_wr = model->srq.max_wr,
							.max_sge = model->srq.max_sge } };

	bare->cq = ibv_create_cq(bare->context, model->cq_entries, NULL, NULL, 0);
	if (!bare->cq)
		return LOG_FAILED_CALL(errno, NULL, "ibv_create_cq(%d entries)", model->cq_entries);
	bare->srq = ibv_create_srq(bare->pd, &srq_attr);
	if (!bare->srq)
		return LOG_FAILED_CALL(errno, NULL, "ibv_create_srq(%u receives)",
				       model->srq.max_wr);
	return RS_OK;
}

static enum rs_status create_qp(struct bare *bare)
{
	const struct ibv_qp_attr *model = &bare->parameters.qp;
	struct ibv_qp_init_attr init = { .send_cq = bare->cq,
					 .recv_cq = bare->cq,
					 .srq = bare->srq,
					 .cap = bare->parameters.init.cap,
					 .qp_type = IBV_QPT_RC };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT,
				    .port_num = model->port_num,
				    .qp_access_flags = model->qp_access_flags };
	int error;

	bare->qp = ibv_create_qp(bare->pd, &init);
	if (!bare->qp)
		return LOG_FAILED_CALL(errno, NULL, "ibv_create_qp()");
	error = ibv_modify_qp(bare->qp, &attr,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	if (error)
		return LOG_FAILED_CALL(error, NULL, "ibv_modify_qp(to INIT)");
	if (getrandom(&bare->psn, sizeof(bare->psn), 0) != sizeof(bare->psn))
		return LOG_FAILED_CALL(errno, NULL, "getrandom()");
	bare->psn &= PSN_MASK;
	return RS_OK;
}

static enum rs_status create_all(struct bare *bare, struct ibv_qp *model)
{
	enum rs_status status = parameters_query(model, &bare->parameters);

	if (status != RS_OK)
		return status;
	bare->context = ibv_open_device(model->context->device);
	if (!bare->context)
		return LOG_FAILED_CALL(errno ? errno : ENODEV, NULL, "ibv_open_device()");
	bare->pd = ibv_alloc_pd(bare->context);
	if (!bare->pd)
		return LOG_FAILED_CALL(errno, NULL, "ibv_alloc_pd()");
	bare->mr = ibv_reg_mr(bare->pd, bare->memory->base, bare->memory->length,
			      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				      IBV_ACCESS_REMOTE_READ);
	if (!bare->mr)
		return LOG_FAILED_CALL(errno, NULL, "ibv_reg_mr(%zu bytes)", bare->memory->length);
	status = create_queues(bare);
	return status == RS_OK ? create_qp(bare) : status;
}

enum rs_status bare_create(struct ibv_qp *model, const struct memory *memory, struct bare **bare)
{
	struct bare *created = calloc(1, sizeof(*created));
	enum rs_status status;

	if (!created)
		return RS_ERR_NO_MEMORY;
	created->memory = memory;
	status = create_all(created, model);
	if (status != RS_OK) {
		bare_destroy(created);
		return status;
	}
	*bare = created;
	return RS_OK;
}

static void log_failed_destroy(int error, const char *call)
{
	if (error)
		LOG_FAILED_CALL(error, NULL, "%s", call);
}

void bare_destroy(struct bare *bare)
{
	if (!bare)
		return;
	if (bare->qp)
		log_failed_destroy(ibv_destroy_qp(bare->qp), "ibv_destroy_qp()");
	if (bare->srq)
		log_failed_destroy(ibv_destroy_srq(bare->srq), "ibv_destroy_srq()");
	if (bare->cq)
		log_failed_destroy(ibv_destroy_cq(bare->cq), "ibv_destroy_cq()");
	if (bare->mr)
		log_failed_destroy(ibv_dereg_mr(bare->mr), "ibv_dereg_mr()");
	if (bare->pd)
		log_failed_destroy(ibv_dealloc_pd(bare->pd), "ibv_dealloc_pd()");
	if (bare->context)
		log_failed_destroy(ibv_close_device(bare->context), "ibv_close_device()");
	free(bare);
}

void bare_describe(const struct bare *bare, struct bare_address *address)
{
	*address = (struct bare_address){ .base = (uintptr_t)bare->memory->base,
					  .rkey = bare->mr->rkey,
					  .qpn = bare->qp->qp_num,
					  .psn = bare->psn };
}

const struct parameters *bare_parameters(const struct bare *bare)
{
	return &bare->parameters;
}

/* Connection
 * -------------------------------------------------------------------------------------------------
 */

static enum rs_status move_to_rtr(struct bare *bare, const struct bare_address *peer)
{
	const struct ibv_qp_attr *model = &bare->parameters.qp;
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR,
				    .path_mtu = model->path_mtu,
				    .dest_qp_num = peer->qpn,
				    .rq_psn = peer->psn,
				    .max_dest_rd_atomic = model->max_dest_rd_atomic,
				    .min_rnr_timer = model->min_rnr_timer,
				    .ah_attr = model->ah_attr };
	int error = ibv_modify_qp(bare->qp, &attr,
				  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
					  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
					  IBV_QP_MIN_RNR_TIMER);

	return error ? LOG_FAILED_CALL(error, NULL, "ibv_modify_qp(to RTR)") : RS_OK;
}

static enum rs_status move_to_rts(struct bare *bare)
{
	const struct ibv_qp_attr *model = &bare->parameters.qp;
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS,
				    .timeout = model->timeout,
				    .retry_cnt = model->retry_cnt,
				    .rnr_retry = model->rnr_retry,
				    .sq_psn = bare->psn,
				    .max_rd_atomic = model->max_rd_atomic };
	int error =
		ibv_modify_qp(bare->qp, &attr,
			      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				      IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);

	return error ? LOG_FAILED_CALL(error, NULL, "ibv_modify_qp(to RTS)") : RS_OK;
}

static void make_request(struct bare *bare, enum operation_kind kind, unsigned slot,
			 const struct bare_address *peer)
{
	const struct operation *operation = &operations[kind];
	struct request *request = &bare->requests[kind][slot];

	request->sge = (struct ibv_sge){
		.addr = (uintptr_t)bare->memory->base +
			memory_offset(MEMORY_LOCAL, slot, operation->size),
		.length = (uint32_t)operation->size,
		.lkey = bare->mr->lkey,
	};
	request->wr = (struct ibv_send_wr){ .wr_id = slot,
					    .sg_list = &request->sge,
					    .num_sge = 1,
					    .opcode = operation->opcode,
					    .send_flags = IBV_SEND_SIGNALED };
	if (is_of_messages(kind))
		return;
	request->wr.wr.rdma.remote_addr =
		peer->base + memory_offset(MEMORY_REMOTE, slot, operation->size);
	request->wr.wr.rdma.rkey = peer->rkey;
}

static void make_receive(struct bare *bare, unsigned slot)
{
	size_t size = operations[OPERATION_SEND].size;
	struct receive *receive = &bare->receives[slot];

	receive->sge = (struct ibv_sge){
		.addr = (uintptr_t)bare->memory->base + memory_offset(MEMORY_RECEIVE, slot, size),
		.length = (uint32_t)size,
		.lkey = bare->mr->lkey,
	};
	receive->wr = (struct ibv_recv_wr){ .wr_id = RECEIVE_FLAG | slot,
					    .sg_list = &receive->sge,
					    .num_sge = 1 };
}

static enum rs_status post_receive(struct bare *bare, unsigned slot)
{
	struct ibv_recv_wr *bad_wr;
	int error = ibv_post_srq_recv(bare->srq, &bare->receives[slot].wr, &bad_wr);

	return error ? LOG_FAILED_CALL(error, NULL, "ibv_post_srq_recv()") : RS_OK;
}

enum rs_status bare_connect(struct bare *bare, const struct bare_address *peer_address)
{
	enum rs_status status = move_to_rtr(bare, peer_address);

	if (status == RS_OK)
		status = move_to_rts(bare);
	for (unsigned kind = 0; kind < OPERATION_COUNT; kind++)
		for (unsigned slot = 0; slot < MAX_DEPTH; slot++)
			make_request(bare, (enum operation_kind)kind, slot, peer_address);
	for (unsigned slot = 0; slot < RECEIVES && status == RS_OK; slot++) {
		make_receive(bare, slot);
		status = post_receive(bare, slot);
	}
	return status;
}

/* The measured loop
 * -------------------------------------------------------------------------------------------------
 */

static enum rs_status post_request(struct bare *bare, unsigned slot)
{
	struct ibv_send_wr *bad_wr;
	int error = ibv_post_send(bare->qp, &bare->slots[slot].wr, &bad_wr);

	return error ? LOG_FAILED_CALL(error, NULL, "ibv_post_send()") : RS_OK;
}

static enum rs_status post_idle(struct bare *bare)
{
	enum rs_status status = RS_OK;

	while (status == RS_OK && bare->idle_count > 0 && flow_take(bare->flow))
		status = post_request(bare, bare->idle[--bare->idle_count]);
	return status;
}

static enum rs_status on_received(struct bare *bare, unsigned slot)
{
	enum rs_status status = post_receive(bare, slot);

	if (status != RS_OK)
		return status;
	flow_received(bare->flow);
	return post_idle(bare);
}

static enum rs_status on_sent(struct bare *bare, unsigned slot)
{
	flow_sent(bare->flow);
	if (flow_take(bare->flow))
		return post_request(bare, slot);
	bare->idle[bare->idle_count++] = slot;
	return RS_OK;
}

static enum rs_status complete(struct bare *bare, const struct ibv_wc *wc)
{
	unsigned slot = (unsigned)(wc->wr_id & ~RECEIVE_FLAG);

	if (wc->status != IBV_WC_SUCCESS) {
		LOG_ERROR("a request failed: %s", ibv_wc_status_str(wc->status));
		return rs_status_from_wc(wc->status);
	}
	return wc->wr_id & RECEIVE_FLAG ? on_received(bare, slot) : on_sent(bare, slot);
}

static enum rs_status poll_once(struct bare *bare, struct peer *peer)
{
	struct ibv_wc wcs[POLL_BATCH];
	int count = ibv_poll_cq(bare->cq, POLL_BATCH, wcs);
	enum rs_status status = RS_OK;

	if (count < 0) {
		LOG_ERROR("ibv_poll_cq() failed");
		return RS_ERR_DEVICE_FATAL;
	}
	for (int i = 0; i < count && status == RS_OK; i++)
		status = complete(bare, &wcs[i]);
	return status == RS_OK ? peer_watch(peer, (size_t)count) : status;
}

enum rs_status bare_run(struct bare *bare, enum operation_kind kind, unsigned depth,
			struct flow *flow, struct peer *peer)
{
	enum rs_status status;

	bare->flow = flow;
	bare->slots = bare->requests[operations[kind].requests];
	bare->idle_count = 0;
	for (unsigned slot = 0; slot < depth; slot++)
		bare->idle[bare->idle_count++] = slot;
	status = post_idle(bare);
	while (status == RS_OK && !flow_is_over(flow))
		status = poll_once(bare, peer);
	return status;
}
