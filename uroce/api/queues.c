/*
 * Queue pairs, shared receive queues, and the XRC domains that put these together.
 */
#include <string.h>

#include "../core/qp.h"
#include "../core/srq.h"
#include "api.h"
#include "operations.h"

/* ---- Queue pairs ---- */

UR_EXPORT struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ibv_qp_init_attr_ex extended = { .comp_mask = IBV_QP_INIT_ATTR_PD,
						.pd = pd,
						.qp_context = attr->qp_context,
						.send_cq = attr->send_cq,
						.recv_cq = attr->recv_cq,
						.srq = attr->srq,
						.cap = attr->cap,
						.qp_type = attr->qp_type,
						.sq_sig_all = attr->sq_sig_all };
	struct ibv_qp *qp;

	if (!ur_has_ours(pd->context))
		return UR_FORWARD(NULL, ibv_create_qp, pd, attr);
	qp = ur_create_qp_ex(pd->context, &extended);
	if (qp)
		attr->cap = extended.cap;
	return qp;
}

struct ibv_qp *ur_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
	struct ur_qp *qp = ur_qp_create(ur_context_of(context), attr);

	return qp ? &qp->verbs : NULL;
}

UR_EXPORT struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
	struct ur_qp *ours = (struct ur_qp *)qp;

	if (!ur_has_ours(qp->context))
		return UR_FORWARD(NULL, ibv_qp_to_qp_ex, qp);
	return ours->extended ? &ours->verbs_ex : NULL;
}

UR_EXPORT int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	if (!ur_has_ours(qp->context))
		return UR_FORWARD(ENOSYS, ibv_modify_qp, qp, attr, mask);
	return ur_qp_modify((struct ur_qp *)qp, attr, mask);
}

UR_EXPORT int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
			   struct ibv_qp_init_attr *init_attr)
{
	if (!ur_has_ours(qp->context))
		return UR_FORWARD(ENOSYS, ibv_query_qp, qp, attr, mask, init_attr);
	return ur_qp_query((struct ur_qp *)qp, attr, mask, init_attr);
}

UR_EXPORT int ibv_destroy_qp(struct ibv_qp *qp)
{
	if (!ur_has_ours(qp->context))
		return UR_FORWARD(ENOSYS, ibv_destroy_qp, qp);
	return ur_qp_destroy((struct ur_qp *)qp);
}

/* What is sent again may be written again, after what comes behind it. */
UR_EXPORT int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)
{
	if (!ur_has_ours(qp->context))
		return UR_FORWARD(0, ibv_query_qp_data_in_order, qp, op, flags);
	return 0;
}

/* ---- Shared receive queues ---- */

UR_EXPORT struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	struct ur_srq *srq;

	if (!ur_has_ours(pd->context))
		return UR_FORWARD(NULL, ibv_create_srq, pd, attr);
	srq = ur_srq_create((struct ur_pd *)pd, attr->srq_context, &attr->attr);
	return srq ? &srq->verbs : NULL;
}

static bool is_of(const struct ibv_context *context, const struct ibv_srq_init_attr_ex *attr)
{
	return attr->pd->context == context && attr->xrcd->context == context &&
	       attr->cq->context == context;
}

static struct ur_srq *create_xrc_srq(struct ibv_context *context,
				     const struct ibv_srq_init_attr_ex *attr)
{
	const uint32_t needed =
		IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;

	if ((attr->comp_mask & needed) != needed || !attr->pd || !attr->xrcd || !attr->cq ||
	    !is_of(context, attr)) {
		errno = EINVAL;
		return NULL;
	}
	return ur_srq_create_xrc((struct ur_pd *)attr->pd, (struct ur_xrcd *)attr->xrcd,
				 (struct ur_cq *)attr->cq, attr->srq_context, &attr->attr);
}

/* Verbs come here only for what ibv_create_srq cannot do. */
struct ibv_srq *ur_create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr)
{
	const uint32_t known = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			       IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
	bool has_type = attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE;
	struct ur_srq *srq;

	if (!(attr->comp_mask & ~known) && has_type && attr->srq_type == IBV_SRQT_XRC) {
		srq = create_xrc_srq(context, attr);
		return srq ? &srq->verbs : NULL;
	}
	if (!has_type || attr->srq_type == IBV_SRQT_BASIC)
		errno = attr->comp_mask & IBV_SRQ_INIT_ATTR_PD ? EOPNOTSUPP : EINVAL;
	else
		errno = EOPNOTSUPP;
	return NULL;
}

int ur_get_srq_num(struct ibv_srq *srq, uint32_t *number)
{
	*number = ((struct ur_srq *)srq)->number;
	return 0;
}

UR_EXPORT int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask)
{
	if (!ur_has_ours(srq->context))
		return UR_FORWARD(ENOSYS, ibv_modify_srq, srq, attr, mask);
	return ur_srq_modify((struct ur_srq *)srq, attr, mask);
}

UR_EXPORT int ibv_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr)
{
	if (!ur_has_ours(srq->context))
		return UR_FORWARD(ENOSYS, ibv_query_srq, srq, attr);
	return ur_srq_query((struct ur_srq *)srq, attr);
}

UR_EXPORT int ibv_destroy_srq(struct ibv_srq *srq)
{
	if (!ur_has_ours(srq->context))
		return UR_FORWARD(ENOSYS, ibv_destroy_srq, srq);
	return ur_srq_destroy((struct ur_srq *)srq);
}

/* ---- XRC domains ---- */

struct ibv_xrcd *ur_open_xrcd(struct ibv_context *context, struct ibv_xrcd_init_attr *attr)
{
	struct ur_xrcd *xrcd = ur_xrcd_open(ur_context_of(context), attr);

	return xrcd ? &xrcd->verbs : NULL;
}

int ur_close_xrcd(struct ibv_xrcd *xrcd)
{
	return ur_xrcd_close((struct ur_xrcd *)xrcd);
}
