/*
 * ibv_wr_*: work requests that a program puts together by calls. They are filled into the send queue
 * behind its tail, and become part of it all at once.
 */
#include <errno.h>

#include "../transport/datagram.h"
#include "qp.h"

#define SUPPORTED_OPS                                                                           \
	(IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND | \
	 IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ |                              \
	 IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD |              \
	 IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_BIND_MW |     \
	 IBV_QP_EX_WITH_ATOMIC_WRITE)

#define UNRELIABLE_OPS                                                                          \
	(IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND | \
	 IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW)

#define DATAGRAM_OPS (IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM)

static struct ur_qp *qp_of(struct ibv_qp_ex *verbs)
{
	return (struct ur_qp *)verbs;
}

/* The first error stays, and all that follows is ignored. */
static void note_error(struct ur_qp *qp, int error)
{
	if (!qp->staged_error)
		qp->staged_error = error;
}

static void start(struct ibv_qp_ex *verbs)
{
	struct ur_qp *qp = qp_of(verbs);

	pthread_mutex_lock(&qp->builder_lock);
	qp->staged = 0;
	qp->staged_error = 0;
	pthread_mutex_lock(&qp->device->lock);
	qp->staged_room = ur_send_queue_room(&qp->sq);
	pthread_mutex_unlock(&qp->device->lock);
}

static void check_staged(struct ur_qp *qp)
{
	for (uint32_t i = 0; i < qp->staged; i++)
		note_error(qp, ur_qp_check_send(qp, ur_send_queue_at(&qp->sq, qp->sq.tail + i)));
}

static int complete(struct ibv_qp_ex *verbs)
{
	struct ur_qp *qp = qp_of(verbs);
	int error;

	check_staged(qp);
	pthread_mutex_lock(&qp->device->lock);
	if (!ur_qp_takes_sends(qp))
		note_error(qp, EINVAL);
	error = qp->staged_error;
	if (!error)
		ur_qp_add_sends(qp, qp->staged);
	pthread_mutex_unlock(&qp->device->lock);
	pthread_mutex_unlock(&qp->builder_lock);
	return error;
}

static void cancel(struct ibv_qp_ex *verbs)
{
	pthread_mutex_unlock(&qp_of(verbs)->builder_lock);
}

/* ---- Operations ---- */

static void stage(struct ibv_qp_ex *verbs, struct ibv_send_wr *wr)
{
	struct ur_qp *qp = qp_of(verbs);

	if (qp->staged == qp->staged_room)
		note_error(qp, ENOMEM);
	if (qp->staged_error)
		return;
	wr->wr_id = verbs->wr_id;
	wr->send_flags = verbs->wr_flags;
	note_error(qp, ur_send_queue_describe(&qp->sq, qp->staged, wr, qp->signal_all));
	/* It comes later. */
	ur_send_queue_at(&qp->sq, qp->sq.tail + qp->staged)->remote_qpn = 0;
	ur_send_queue_at(&qp->sq, qp->sq.tail + qp->staged)->srqn = UR_NO_SRQ;
	qp->staged++;
}

static void stage_send(struct ibv_qp_ex *verbs)
{
	stage(verbs, &(struct ibv_send_wr){ .opcode = IBV_WR_SEND });
}

static void stage_send_imm(struct ibv_qp_ex *verbs, __be32 imm)
{
	stage(verbs, &(struct ibv_send_wr){ .opcode = IBV_WR_SEND_WITH_IMM, .imm_data = imm });
}

static void stage_send_inv(struct ibv_qp_ex *verbs, uint32_t rkey)
{
	stage(verbs,
	      &(struct ibv_send_wr){ .opcode = IBV_WR_SEND_WITH_INV, .invalidate_rkey = rkey });
}

static void stage_local_inv(struct ibv_qp_ex *verbs, uint32_t rkey)
{
	stage(verbs, &(struct ibv_send_wr){ .opcode = IBV_WR_LOCAL_INV, .invalidate_rkey = rkey });
}

static void stage_bind(struct ibv_qp_ex *verbs, struct ibv_mw *mw, uint32_t rkey,
		       const struct ibv_mw_bind_info *info)
{
	stage(verbs,
	      &(struct ibv_send_wr){ .opcode = IBV_WR_BIND_MW,
				     .bind_mw = { .mw = mw, .rkey = rkey, .bind_info = *info } });
}

static void stage_read(struct ibv_qp_ex *verbs, uint32_t rkey, uint64_t remote_addr)
{
	stage(verbs,
	      &(struct ibv_send_wr){ .opcode = IBV_WR_RDMA_READ,
				     .wr.rdma = { .remote_addr = remote_addr, .rkey = rkey } });
}

static void stage_write(struct ibv_qp_ex *verbs, uint32_t rkey, uint64_t remote_addr)
{
	stage(verbs,
	      &(struct ibv_send_wr){ .opcode = IBV_WR_RDMA_WRITE,
				     .wr.rdma = { .remote_addr = remote_addr, .rkey = rkey } });
}

static void stage_write_imm(struct ibv_qp_ex *verbs, uint32_t rkey, uint64_t remote_addr,
			    __be32 imm)
{
	stage(verbs,
	      &(struct ibv_send_wr){ .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
				     .imm_data = imm,
				     .wr.rdma = { .remote_addr = remote_addr, .rkey = rkey } });
}

static void stage_compare_swap(struct ibv_qp_ex *verbs, uint32_t rkey, uint64_t remote_addr,
			       uint64_t compare, uint64_t swap)
{
	stage(verbs, &(struct ibv_send_wr){ .opcode = IBV_WR_ATOMIC_CMP_AND_SWP,
					    .wr.atomic = { .remote_addr = remote_addr,
							   .compare_add = compare,
							   .swap = swap,
							   .rkey = rkey } });
}

static void stage_fetch_add(struct ibv_qp_ex *verbs, uint32_t rkey, uint64_t remote_addr,
			    uint64_t add)
{
	stage(verbs, &(struct ibv_send_wr){ .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
					    .wr.atomic = { .remote_addr = remote_addr,
							   .compare_add = add,
							   .rkey = rkey } });
}

/* ---- Their data ---- */

/* The newest entry; NULL: there is none, or an error came before. */
static struct ur_send_wqe *newest(struct ur_qp *qp)
{
	if (qp->staged == 0)
		note_error(qp, EINVAL);
	return qp->staged_error ? NULL : ur_send_queue_at(&qp->sq, qp->sq.tail + qp->staged - 1);
}

static void stage_atomic_write(struct ibv_qp_ex *verbs, uint32_t rkey, uint64_t remote_addr,
			       const void *value)
{
	struct ur_send_wqe *wqe;

	stage(verbs,
	      &(struct ibv_send_wr){ .opcode = IBV_WR_ATOMIC_WRITE,
				     .wr.rdma = { .remote_addr = remote_addr, .rkey = rkey } });
	wqe = newest(qp_of(verbs));
	if (wqe)
		ur_send_wqe_set_value(wqe, value);
}

static void set_sge_list(struct ibv_qp_ex *verbs, size_t count, const struct ibv_sge *sges)
{
	struct ur_qp *qp = qp_of(verbs);
	struct ur_send_wqe *wqe = newest(qp);

	if (wqe)
		note_error(qp, ur_send_queue_set_sges(&qp->sq, wqe, sges, count));
}

static void set_sge(struct ibv_qp_ex *verbs, uint32_t lkey, uint64_t addr, uint32_t length)
{
	set_sge_list(verbs, 1, &(struct ibv_sge){ .addr = addr, .length = length, .lkey = lkey });
}

static void set_inline_data_list(struct ibv_qp_ex *verbs, size_t count,
				 const struct ibv_data_buf *bufs)
{
	struct ur_qp *qp = qp_of(verbs);

	for (size_t i = 0; i < count; i++) {
		struct ur_send_wqe *wqe = newest(qp);

		if (!wqe)
			return;
		note_error(qp,
			   ur_send_queue_add_inline(&qp->sq, wqe, bufs[i].addr, bufs[i].length));
	}
}

static void set_inline_data(struct ibv_qp_ex *verbs, void *addr, size_t length)
{
	set_inline_data_list(verbs, 1, &(struct ibv_data_buf){ .addr = addr, .length = length });
}

static void set_ud_addr(struct ibv_qp_ex *verbs, struct ibv_ah *ah, uint32_t remote_qpn,
			uint32_t remote_qkey)
{
	struct ur_qp *qp = qp_of(verbs);
	struct ur_send_wqe *wqe = newest(qp);

	if (wqe)
		note_error(qp, ur_datagram_set_address(qp, wqe, ah, remote_qpn, remote_qkey));
}

static void set_xrc_srqn(struct ibv_qp_ex *verbs, uint32_t srqn)
{
	struct ur_send_wqe *wqe = newest(qp_of(verbs));

	if (wqe)
		wqe->srqn = srqn;
}

static uint64_t supported_ops(const struct ur_qp *qp)
{
	if (!qp->send_cq)
		return 0;
	if (ur_qp_is_reliable(qp))
		return SUPPORTED_OPS;
	return ur_qp_is_datagram(qp) ? DATAGRAM_OPS : UNRELIABLE_OPS;
}

int ur_qp_set_wr_ops(struct ur_qp *qp, uint64_t ops)
{
	struct ibv_qp_ex *verbs = &qp->verbs_ex;

	if (ops & ~supported_ops(qp))
		return EOPNOTSUPP;
	verbs->wr_atomic_cmp_swp = stage_compare_swap;
	verbs->wr_atomic_fetch_add = stage_fetch_add;
	verbs->wr_atomic_write = stage_atomic_write;
	verbs->wr_bind_mw = stage_bind;
	verbs->wr_local_inv = stage_local_inv;
	verbs->wr_rdma_read = stage_read;
	verbs->wr_rdma_write = stage_write;
	verbs->wr_rdma_write_imm = stage_write_imm;
	verbs->wr_send = stage_send;
	verbs->wr_send_imm = stage_send_imm;
	verbs->wr_send_inv = stage_send_inv;
	verbs->wr_set_inline_data = set_inline_data;
	verbs->wr_set_inline_data_list = set_inline_data_list;
	verbs->wr_set_sge = set_sge;
	verbs->wr_set_sge_list = set_sge_list;
	verbs->wr_set_ud_addr = set_ud_addr;
	verbs->wr_set_xrc_srqn = set_xrc_srqn;
	verbs->wr_start = start;
	verbs->wr_complete = complete;
	verbs->wr_abort = cancel;
	qp->extended = true;
	return 0;
}
