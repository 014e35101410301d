/*
 * Queue pairs and shared receive queues of ids.
 */
#include <string.h>

#include "../cm/multicast.h"
#include "../cm/shared_context.h"
#include "../core/qp.h"
#include "cm.h"
#include "operations.h"

/* The extended attributes begin with all of the plain ones. */
_Static_assert(offsetof(struct ibv_qp_init_attr_ex, sq_sig_all) ==
		       offsetof(struct ibv_qp_init_attr, sq_sig_all),
	       "struct ibv_qp_init_attr");

/* ---- States ---- */

/* Before there is a connection, and of datagrams always: that much is known of all. */
static int give_own_attr(const struct ur_cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
	if (!id->verbs.verbs)
		return EINVAL;
	*mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
	attr->pkey_index = 0;
	attr->port_num = id->verbs.port_num;
	if (ur_id_is_datagram(id)) {
		attr->qkey = RDMA_UDP_QKEY;
		*mask |= IBV_QP_QKEY;
	} else {
		attr->qp_access_flags = 0;
		*mask |= IBV_QP_ACCESS_FLAGS;
	}
	return 0;
}

/* What the half of an extended connection has no use for. */
static int useless(const struct ur_cm_id *id)
{
	if (ur_id_only_sends(id))
		return IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	if (ur_id_only_receives(id))
		return IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	return 0;
}

int ur_cm_id_qp_attr(struct ur_cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
	int error;

	if (!id->connection || ur_id_is_datagram(id))
		return give_own_attr(id, attr, mask);
	error = ur_cm_qp_attr(id->connection, attr, mask);
	if (error)
		return error;
	*mask &= ~useless(id);
	if (*mask & IBV_QP_AV)
		attr->ah_attr.grh.traffic_class = id->traffic_class;
	if ((*mask & IBV_QP_TIMEOUT) && id->has_ack_timeout)
		attr->timeout = id->ack_timeout;
	return 0;
}

UR_EXPORT int rdma_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *qp_attr,
				int *qp_attr_mask)
{
	if (!ur_cm_is_ours())
		return UR_FORWARD(-1, rdma_init_qp_attr, id, qp_attr, qp_attr_mask);
	if (!id || !qp_attr || !qp_attr_mask)
		return ur_cm_result(EINVAL);
	return ur_cm_result(ur_cm_id_qp_attr(ur_id_of(id), qp_attr, qp_attr_mask));
}

static int bring_to(struct ur_cm_id *id, enum ibv_qp_state state, bool with_limits)
{
	struct ibv_qp_attr attr = { .qp_state = state };
	int mask, error = ur_cm_id_qp_attr(id, &attr, &mask);

	if (error)
		return error;
	if (with_limits) {
		attr.max_dest_rd_atomic = id->responder_resources;
		attr.max_rd_atomic = id->initiator_depth;
	}
	return ur_qp_modify((struct ur_qp *)id->verbs.qp, &attr, mask);
}

int ur_cm_make_ready(struct ur_cm_id *id, bool with_limits)
{
	int error;

	if (!id->verbs.qp)
		return 0;
	/* Again: only now is it known which access the peer needs. */
	error = bring_to(id, IBV_QPS_INIT, false);
	if (!error)
		error = bring_to(id, IBV_QPS_RTR, with_limits);
	if (!error)
		error = bring_to(id, IBV_QPS_RTS, with_limits);
	return error;
}

int ur_cm_make_erroneous(struct ur_cm_id *id)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	return id->verbs.qp ? ur_qp_modify((struct ur_qp *)id->verbs.qp, &attr, IBV_QP_STATE) : 0;
}

static int make_datagrams_ready(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR };
	int error = ur_qp_modify((struct ur_qp *)qp, &attr, IBV_QP_STATE);

	if (error)
		return error;
	attr.qp_state = IBV_QPS_RTS;
	return ur_qp_modify((struct ur_qp *)qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN);
}

static int make_initial(struct ur_cm_id *id, struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT };
	int mask, error = ur_cm_id_qp_attr(id, &attr, &mask);

	if (!error)
		error = ur_qp_modify((struct ur_qp *)qp, &attr, mask);
	if (!error && ur_id_is_datagram(id))
		error = make_datagrams_ready(qp);
	return error;
}

/* ---- Completion queues that the program has not made ---- */

static void destroy_queue(struct ibv_cq **cq, struct ibv_comp_channel **channel)
{
	if (*cq)
		ur_cq_destroy((struct ur_cq *)*cq);
	if (*channel)
		ur_channel_destroy((struct ur_channel *)*channel);
	*cq = NULL;
	*channel = NULL;
}

/* Those of an extended connection are the shared receive queue's, too. */
static void destroy_queues(struct rdma_cm_id *id)
{
	if (ur_id_only_receives(ur_id_of(id)) && (id->srq || id->qp))
		return;
	destroy_queue(&id->recv_cq, &id->recv_cq_channel);
	destroy_queue(&id->send_cq, &id->send_cq_channel);
}

/* Entries 0: none is needed. */
static int create_queue(struct rdma_cm_id *id, uint32_t entries, struct ibv_cq **cq,
			struct ibv_comp_channel **channel)
{
	struct ur_context *context = ur_context_of(id->verbs);
	struct ur_channel *created_channel;
	struct ur_cq *created;

	if (entries == 0)
		return 0;
	created_channel = ur_channel_create(context);
	if (!created_channel)
		return errno;
	*channel = &created_channel->verbs;
	created = ur_cq_create(context, (int)entries, id, created_channel, 0, NULL);
	if (!created)
		return errno;
	*cq = &created->verbs;
	return 0;
}

static int create_queues(struct rdma_cm_id *id, const struct ibv_qp_init_attr_ex *attr)
{
	bool has_send = attr->send_cq || id->send_cq, has_recv = attr->recv_cq || id->recv_cq;
	int error = create_queue(id, has_recv ? 0 : attr->cap.max_recv_wr, &id->recv_cq,
				 &id->recv_cq_channel);

	if (!error)
		error = create_queue(id, has_send ? 0 : attr->cap.max_send_wr, &id->send_cq,
				     &id->send_cq_channel);
	return error;
}

/* ---- Queue pairs ---- */

static bool differ(const struct ibv_cq *own, const struct ibv_cq *wanted)
{
	return own && wanted && own != wanted;
}

static bool fits(const struct rdma_cm_id *id, const struct ibv_qp_init_attr_ex *attr)
{
	return id && attr && id->verbs && !id->qp && !differ(id->send_cq, attr->send_cq) &&
	       !differ(id->recv_cq, attr->recv_cq);
}

static void complete_attr(const struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *attr)
{
	if (!attr->send_cq)
		attr->send_cq = id->send_cq;
	if (!attr->recv_cq)
		attr->recv_cq = id->recv_cq;
	if (!attr->srq)
		attr->srq = id->srq;
}

/* The XRC domain that ids have in common, unless the program names one. Returns 0 or an errno. */
static int choose_domain(const struct rdma_cm_id *id, bool is_named, struct ibv_xrcd **xrcd)
{
	const struct ur_shared_context *shared;
	int error;

	if (is_named && *xrcd)
		return 0;
	error = ur_shared_context_get(ur_device_behind(id->verbs), &shared);
	if (!error)
		*xrcd = &shared->xrcd->verbs;
	return error;
}

static int complete_extended(const struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *attr)
{
	int error = choose_domain(id, attr->comp_mask & IBV_QP_INIT_ATTR_XRCD, &attr->xrcd);

	attr->comp_mask |= IBV_QP_INIT_ATTR_XRCD;
	return error;
}

static int create_initial(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *attr)
{
	struct ibv_qp *qp = ur_create_qp_ex(id->verbs, attr);
	int error;

	if (!qp)
		return errno;
	error = make_initial(ur_id_of(id), qp);
	if (error) {
		ur_qp_destroy((struct ur_qp *)qp);
		return error;
	}
	id->qp = qp;
	id->pd = attr->pd;
	return 0;
}

static int create_qp(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *attr)
{
	int error;

	if (!fits(id, attr))
		return EINVAL;
	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD) || !attr->pd)
		attr->pd = id->pd;
	attr->comp_mask |= IBV_QP_INIT_ATTR_PD;
	if (attr->pd->context != id->verbs)
		return EINVAL;
	error = create_queues(id, attr);
	if (!error && ur_id_only_receives(ur_id_of(id)))
		error = complete_extended(id, attr);
	if (!error) {
		complete_attr(id, attr);
		error = create_initial(id, attr);
	}
	if (error)
		destroy_queues(id);
	return error;
}

UR_EXPORT int rdma_create_qp_ex(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *qp_init_attr)
{
	if (!ur_cm_is_ours())
		return UR_FORWARD(-1, rdma_create_qp_ex, id, qp_init_attr);
	return ur_cm_result(create_qp(id, qp_init_attr));
}

UR_EXPORT int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd,
			     struct ibv_qp_init_attr *qp_init_attr)
{
	struct ibv_qp_init_attr_ex attr = { 0 };
	int error;

	if (!ur_cm_is_ours())
		return UR_FORWARD(-1, rdma_create_qp, id, pd, qp_init_attr);
	if (!qp_init_attr)
		return ur_cm_result(EINVAL);
	memcpy(&attr, qp_init_attr, sizeof(*qp_init_attr));
	attr.comp_mask = IBV_QP_INIT_ATTR_PD;
	attr.pd = pd;
	error = create_qp(id, &attr);
	memcpy(qp_init_attr, &attr, sizeof(*qp_init_attr));
	return ur_cm_result(error);
}

UR_EXPORT void rdma_destroy_qp(struct rdma_cm_id *id)
{
	if (!ur_cm_is_ours()) {
		UR_FORWARD_VOID(rdma_destroy_qp, id);
		return;
	}
	if (!id || !id->qp)
		return;
	ur_id_detach_all(ur_id_of(id));
	ur_qp_destroy((struct ur_qp *)id->qp);
	id->qp = NULL;
	destroy_queues(id);
}

/* ---- Shared receive queues ---- */

static int complete_extended_srq(struct rdma_cm_id *id, struct ibv_srq_init_attr_ex *attr)
{
	bool has_cq = attr->comp_mask & IBV_SRQ_INIT_ATTR_CQ && attr->cq;
	int error = choose_domain(id, attr->comp_mask & IBV_SRQ_INIT_ATTR_XRCD, &attr->xrcd);

	if (!error && !has_cq && !id->recv_cq)
		error = create_queue(id, attr->attr.max_wr, &id->recv_cq, &id->recv_cq_channel);
	if (!has_cq)
		attr->cq = id->recv_cq;
	attr->comp_mask |= IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
	return error;
}

static int create_srq(struct rdma_cm_id *id, struct ibv_srq_init_attr_ex *attr)
{
	int error = 0;

	if (!id || !attr || !id->verbs || id->srq || !(attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE))
		return EINVAL;
	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) || !attr->pd)
		attr->pd = id->pd;
	attr->comp_mask |= IBV_SRQ_INIT_ATTR_PD;
	if (attr->srq_type == IBV_SRQT_XRC)
		error = complete_extended_srq(id, attr);
	if (error)
		return error;
	id->srq = ibv_create_srq_ex(id->verbs, attr);
	return id->srq ? 0 : errno;
}

UR_EXPORT int rdma_create_srq_ex(struct rdma_cm_id *id, struct ibv_srq_init_attr_ex *attr)
{
	if (!ur_cm_is_ours())
		return UR_FORWARD(-1, rdma_create_srq_ex, id, attr);
	return ur_cm_result(create_srq(id, attr));
}

UR_EXPORT int rdma_create_srq(struct rdma_cm_id *id, struct ibv_pd *pd,
			      struct ibv_srq_init_attr *attr)
{
	struct ibv_srq_init_attr_ex extended = { .comp_mask = IBV_SRQ_INIT_ATTR_TYPE |
							      IBV_SRQ_INIT_ATTR_PD,
						 .srq_type = IBV_SRQT_BASIC,
						 .pd = pd };
	int error;

	if (!ur_cm_is_ours())
		return UR_FORWARD(-1, rdma_create_srq, id, pd, attr);
	if (!id || !attr)
		return ur_cm_result(EINVAL);
	if (ur_id_only_receives(ur_id_of(id)))
		extended.srq_type = IBV_SRQT_XRC;
	extended.srq_context = attr->srq_context;
	extended.attr = attr->attr;
	error = create_srq(id, &extended);
	attr->attr = extended.attr;
	return ur_cm_result(error);
}

UR_EXPORT void rdma_destroy_srq(struct rdma_cm_id *id)
{
	if (!ur_cm_is_ours()) {
		UR_FORWARD_VOID(rdma_destroy_srq, id);
		return;
	}
	if (!id || !id->srq)
		return;
	ibv_destroy_srq(id->srq);
	id->srq = NULL;
	destroy_queues(id);
}
