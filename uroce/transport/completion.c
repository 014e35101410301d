#include "completion.h"

#include "../core/engine.h"
#include "../core/qp.h"

static enum ibv_wc_opcode wc_opcode(enum ibv_wr_opcode opcode)
{
	switch (opcode) {
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return IBV_WC_RDMA_WRITE;
	case IBV_WR_RDMA_READ:
		return IBV_WC_RDMA_READ;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		return IBV_WC_COMP_SWAP;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		return IBV_WC_FETCH_ADD;
	case IBV_WR_ATOMIC_WRITE:
		return IBV_WC_ATOMIC_WRITE;
	case IBV_WR_LOCAL_INV:
		return IBV_WC_LOCAL_INV;
	case IBV_WR_BIND_MW:
		return IBV_WC_BIND_MW;
	default:
		return IBV_WC_SEND;
	}
}

/* A completion that cannot be delivered is the end of the queue pair. */
static void push(struct ur_qp *qp, struct ur_cq *cq, const struct ibv_wc *wc, bool solicited)
{
	ur_cq_push(cq, wc, solicited);
	if (cq->overrun && qp->attr.qp_state != IBV_QPS_ERR) {
		ur_async_raise(qp->context, &qp->fatal_event);
		ur_qp_to_error(qp);
	}
}

void ur_complete_send(struct ur_qp *qp, enum ibv_wc_status status)
{
	const struct ur_send_wqe *wqe = ur_send_queue_at(&qp->sq, qp->sq.head++);
	struct ibv_wc wc = {
		.wr_id = wqe->wr_id,
		.status = status,
		.opcode = wc_opcode(wqe->opcode),
		.qp_num = qp->verbs.qp_num,
	};

	if (status == IBV_WC_SUCCESS && !wqe->signaled)
		return;
	/* As reads and atomics are defined to; for others it is what was sent. */
	wc.byte_len = (uint32_t)wqe->length;
	push(qp, qp->send_cq, &wc, false);
}

bool ur_take_recv(struct ur_qp *qp, struct ur_recv_wqe *wqe)
{
	return qp->target.srq ? ur_srq_take(qp->target.srq, wqe) : ur_recv_queue_take(&qp->rq, wqe);
}

void ur_complete_recv(struct ur_qp *qp, const struct ur_recv_wqe *wqe, struct ibv_wc *wc,
		      bool solicited)
{
	wc->wr_id = wqe->wr_id;
	wc->qp_num = qp->verbs.qp_num;
	if (wc->src_qp == 0)
		wc->src_qp = qp->attr.dest_qp_num;
	push(qp, qp->target.cq, wc, solicited);
}

static void flush_recv(struct ur_qp *qp, const struct ur_recv_wqe *wqe)
{
	struct ibv_wc wc = { .status = IBV_WC_WR_FLUSH_ERR, .opcode = IBV_WC_RECV };

	ur_complete_recv(qp, wqe, &wc, false);
}

void ur_qp_flush(struct ur_qp *qp)
{
	struct ur_recv_wqe wqe;

	while (qp->sq.head != qp->sq.tail)
		ur_complete_send(qp, IBV_WC_WR_FLUSH_ERR);
	qp->sq.next = qp->sq.tail;
	qp->requester.current = qp->sq.tail;
	qp->requester.offset = 0;
	if (ur_qp_shares_receives(qp) || qp->attr.qp_state == IBV_QPS_SQE)
		return;
	while (ur_recv_queue_take(&qp->rq, &wqe))
		flush_recv(qp, &wqe);
}

void ur_qp_to_error(struct ur_qp *qp)
{
	if (qp->attr.qp_state == IBV_QPS_ERR)
		return;
	/* What has been executed is acknowledged, as by a device that never puts that off. */
	if (qp->attr.qp_state >= IBV_QPS_RTR)
		ur_responder_respond(qp);
	/* That may have been the end by itself. */
	if (qp->attr.qp_state == IBV_QPS_ERR)
		return;
	qp->responder.job_count = 0;
	ur_qp_set_state(qp, IBV_QPS_ERR);
	ur_engine_set_timer(qp->device, qp, UR_NEVER);
	if (qp->responder.has_receive)
		flush_recv(qp, &qp->responder.wqe);
	qp->responder.has_receive = false;
	qp->responder.message = UR_NO_MESSAGE;
	ur_qp_flush(qp);
	if (ur_qp_shares_receives(qp))
		ur_async_raise(qp->context, &qp->last_wqe_event);
}
