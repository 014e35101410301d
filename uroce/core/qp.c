#include "qp.h"

#include <errno.h>
#include <stdlib.h>

#include "../transport/completion.h"
#include "../transport/datagram.h"
#include "../transport/sender.h"
#include "../transport/unreliable.h"
#include "clock.h"
#include "engine.h"
#include "qp_attr.h"

/* ---- Creation ---- */

/* The flags of all packets for a queue pair of that type; 0: there is none. */
static uint32_t service_of(enum ibv_qp_type type)
{
	switch (type) {
	case IBV_QPT_RC:
		return UR_IS_RC;
	case IBV_QPT_UC:
		return UR_IS_UC;
	case IBV_QPT_UD:
		return UR_IS_UD;
	case IBV_QPT_XRC_SEND:
		return UR_IS_XRC | UR_IS_RESPONSE;
	case IBV_QPT_XRC_RECV:
		return UR_IS_XRC | UR_IS_REQUEST;
	default:
		return 0;
	}
}

static bool are_objects_valid(const struct ibv_context *context,
			      const struct ibv_qp_init_attr_ex *attr)
{
	bool sends = attr->qp_type != IBV_QPT_XRC_RECV;
	bool receives = sends && attr->qp_type != IBV_QPT_XRC_SEND;

	if (!sends)
		return attr->xrcd && attr->xrcd->context == context;
	return attr->pd && attr->pd->context == context && attr->send_cq &&
	       attr->send_cq->context == context &&
	       (!receives || (attr->recv_cq && attr->recv_cq->context == context)) &&
	       (!attr->srq || attr->srq->context == context);
}

static bool is_cap_valid(const struct ibv_qp_cap *cap)
{
	return cap->max_send_wr <= UR_MAX_WRS && cap->max_recv_wr <= UR_MAX_WRS &&
	       cap->max_send_sge <= UR_MAX_SGE && cap->max_recv_sge <= UR_MAX_SGE &&
	       cap->max_inline_data <= UR_MAX_INLINE;
}

static void drop_sending(struct ibv_qp_init_attr_ex *attr)
{
	attr->pd = NULL;
	attr->send_cq = NULL;
	attr->cap.max_send_wr = 0;
	attr->cap.max_send_sge = 0;
	attr->cap.max_inline_data = 0;
}

static void drop_receives(struct ibv_qp_init_attr_ex *attr)
{
	attr->cap.max_recv_wr = 0;
	attr->cap.max_recv_sge = 0;
}

/*
 * Where a device keeps the pieces of an entry it can keep data. Programs count on that: rdma_xclient sends
 * 16 bytes inline that it has not asked for.
 */
static uint32_t least_inline(const struct ibv_qp_cap *cap)
{
	return cap->max_send_sge <= UR_MAX_SGE ? cap->max_send_sge * sizeof(struct ibv_sge) : 0;
}

/* What is given: no receives of its own beside shared ones, and nothing that the type has no use for. */
static struct ibv_qp_init_attr_ex granted(const struct ibv_qp_init_attr_ex *attr)
{
	struct ibv_qp_init_attr_ex given = *attr;
	bool only_receives = attr->qp_type == IBV_QPT_XRC_RECV;

	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD))
		given.pd = NULL;
	if (!only_receives || !(attr->comp_mask & IBV_QP_INIT_ATTR_XRCD))
		given.xrcd = NULL;
	if (only_receives)
		drop_sending(&given);
	if (only_receives || attr->qp_type == IBV_QPT_XRC_SEND) {
		given.recv_cq = NULL;
		given.srq = NULL;
		drop_receives(&given);
	}
	if (given.srq)
		drop_receives(&given);
	if (given.cap.max_inline_data < least_inline(&given.cap))
		given.cap.max_inline_data = least_inline(&given.cap);
	return given;
}

static uint32_t create_flags(const struct ibv_qp_init_attr_ex *attr)
{
	return attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS ? attr->create_flags : 0;
}

/* Only what is of datagrams can be of groups. */
static bool are_flags_supported(const struct ibv_qp_init_attr_ex *attr)
{
	uint32_t known = attr->qp_type == IBV_QPT_UD ? IBV_QP_CREATE_BLOCK_SELF_MCAST_LB : 0;

	return (create_flags(attr) & ~known) == 0;
}

static int check_init_attr(const struct ur_context *context, const struct ibv_qp_init_attr_ex *attr)
{
	const uint32_t known = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_XRCD |
			       IBV_QP_INIT_ATTR_SEND_OPS_FLAGS | IBV_QP_INIT_ATTR_CREATE_FLAGS;

	if (attr->comp_mask & ~known || !are_flags_supported(attr) || !service_of(attr->qp_type))
		return EOPNOTSUPP;
	return are_objects_valid(&context->verbs.context, attr) && is_cap_valid(&attr->cap)
		       ? 0
		       : EINVAL;
}

/* As nothing has been modified yet. */
static void set_initial_attr(struct ur_qp *qp)
{
	qp->attr = (struct ibv_qp_attr){ .cap = qp->cap, .path_mig_state = IBV_MIG_MIGRATED };
	ur_qp_set_state(qp, IBV_QPS_RESET);
}

static void set_up_event(struct ur_qp *qp, struct ur_async_event *event, enum ibv_event_type type)
{
	event->event.event_type = type;
	event->event.element.qp = &qp->verbs;
}

static void set_up(struct ur_qp *qp, struct ur_context *context,
		   const struct ibv_qp_init_attr_ex *attr)
{
	qp->verbs.context = &context->verbs.context;
	qp->verbs.qp_context = attr->qp_context;
	qp->verbs.pd = attr->pd;
	qp->verbs.send_cq = attr->send_cq;
	qp->verbs.recv_cq = attr->recv_cq;
	qp->verbs.srq = attr->srq;
	qp->verbs.qp_type = attr->qp_type;
	pthread_mutex_init(&qp->verbs.mutex, NULL);
	pthread_cond_init(&qp->verbs.cond, NULL);

	qp->context = context;
	qp->device = context->device;
	if (attr->pd) {
		qp->pd = ur_pd_protection((struct ur_pd *)attr->pd);
		qp->owner = ur_pd_owner((struct ur_pd *)attr->pd);
	}
	qp->send_cq = (struct ur_cq *)attr->send_cq;
	qp->recv_cq = (struct ur_cq *)attr->recv_cq;
	qp->srq = (struct ur_srq *)attr->srq;
	qp->xrcd = (struct ur_xrcd *)attr->xrcd;
	qp->target = (struct ur_target){ .pd = qp->pd, .srq = qp->srq, .cq = qp->recv_cq };
	qp->service = service_of(attr->qp_type);
	qp->first_opcode = ur_qp_is_extended(qp) ? UR_XRC_SEND_FIRST : UR_RC_SEND_FIRST;
	qp->cap = attr->cap;
	qp->signal_all = attr->sq_sig_all;
	qp->hears_itself = !(create_flags(attr) & IBV_QP_CREATE_BLOCK_SELF_MCAST_LB);
	qp->mtu = 128U << qp->device->mtu;
	qp->deadline = UR_NEVER;
	pthread_mutex_init(&qp->builder_lock, NULL);
	set_initial_attr(qp);

	set_up_event(qp, &qp->fatal_event, IBV_EVENT_QP_FATAL);
	set_up_event(qp, &qp->request_event, IBV_EVENT_QP_REQ_ERR);
	set_up_event(qp, &qp->access_event, IBV_EVENT_QP_ACCESS_ERR);
	set_up_event(qp, &qp->established_event, IBV_EVENT_COMM_EST);
	set_up_event(qp, &qp->last_wqe_event, IBV_EVENT_QP_LAST_WQE_REACHED);
	set_up_event(qp, &qp->drained_event, IBV_EVENT_SQ_DRAINED);
}

/* change: 1, or -1 when it goes. */
static void count_at_objects(struct ur_qp *qp, int change)
{
	atomic_fetch_add(&qp->context->objects, change);
	if (qp->owner)
		atomic_fetch_add(&qp->owner->objects, change);
	if (qp->send_cq)
		atomic_fetch_add(&qp->send_cq->objects, change);
	if (qp->recv_cq)
		atomic_fetch_add(&qp->recv_cq->objects, change);
	if (qp->srq)
		atomic_fetch_add(&qp->srq->objects, change);
	if (qp->xrcd)
		atomic_fetch_add(&qp->xrcd->objects, change);
}

static int choose_number(struct ur_qp *qp)
{
	struct ur_device *device = qp->device;
	uint16_t index;

	pthread_mutex_lock(&device->lock);
	index = ur_qp_table_add(&device->qps, qp);
	qp->verbs.qp_num = (uint32_t)ur_link_number(device->link) << 16 | index;
	pthread_mutex_unlock(&device->lock);
	qp->verbs.handle = qp->verbs.qp_num;
	return index ? 0 : ENOMEM;
}

static void free_queues(struct ur_qp *qp)
{
	ur_recv_queue_free(&qp->rq);
	ur_send_queue_free(&qp->sq);
}

static void free_qp(struct ur_qp *qp)
{
	pthread_mutex_destroy(&qp->builder_lock);
	pthread_cond_destroy(&qp->verbs.cond);
	pthread_mutex_destroy(&qp->verbs.mutex);
	free(qp);
}

struct ur_qp *ur_qp_create(struct ur_context *context, struct ibv_qp_init_attr_ex *attr)
{
	const struct ibv_qp_init_attr_ex given = granted(attr);
	struct ur_qp *qp;
	int error = check_init_attr(context, &given);

	if (error)
		goto err_nothing;
	error = ENOMEM;
	qp = calloc(1, sizeof(*qp));
	if (!qp)
		goto err_nothing;
	set_up(qp, context, &given);
	error = ur_send_queue_init(&qp->sq, qp->owner, &qp->cap);
	if (!error)
		error = ur_recv_queue_init(&qp->rq, qp->owner, UR_BLOCK_RECV_QUEUE,
					   qp->cap.max_recv_wr, qp->cap.max_recv_sge);
	if (!error && given.comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)
		error = ur_qp_set_wr_ops(qp, given.send_ops_flags);
	if (!error)
		error = choose_number(qp);
	if (error)
		goto err_qp;
	count_at_objects(qp, 1);
	attr->cap = qp->cap;
	return qp;

err_qp:
	free_queues(qp);
	free_qp(qp);
err_nothing:
	errno = error;
	return NULL;
}

/* ---- Modification ---- */

static void clear_queues(struct ur_qp *qp)
{
	struct ur_recv_wqe wqe;

	ur_send_queue_clear(&qp->sq);
	while (ur_recv_queue_take(&qp->rq, &wqe))
		continue;
}

/* Takes it from the engine and from its peer. */
static void disconnect(struct ur_qp *qp)
{
	ur_engine_forget(qp->device, qp);
	ur_responder_free(qp);
}

static void reset(struct ur_qp *qp)
{
	disconnect(qp);
	clear_queues(qp);
	/* Receives of an XRC domain's shared queues were never its own: those have completed. */
	if (qp->send_cq)
		ur_cq_forget(qp->send_cq, qp->verbs.qp_num);
	if (qp->recv_cq)
		ur_cq_forget(qp->recv_cq, qp->verbs.qp_num);
	set_initial_attr(qp);
}

static int start_receiving(struct ur_qp *qp)
{
	qp->carrier = ur_link_carrier(qp->device->link);
	if (!ur_qp_is_datagram(qp))
		qp->mtu = 128U << qp->attr.path_mtu;
	if (ur_responder_start(qp) != 0)
		return ENOMEM;
	ur_qp_set_state(qp, IBV_QPS_RTR);
	return 0;
}

static void start_sending(struct ur_qp *qp)
{
	if (qp->attr.qp_state == IBV_QPS_RTR)
		ur_requester_start(qp);
	qp->attr.en_sqd_async_notify = 0;
	ur_qp_set_state(qp, IBV_QPS_RTS);
	ur_qp_transmit(qp, ur_clock_ns());
}

/* The requester finishes what it has begun, and begins no more. */
static bool is_draining(const struct ur_qp *qp)
{
	return qp->attr.qp_state == IBV_QPS_SQD && qp->sq.head != qp->sq.next;
}

void ur_qp_check_drained(struct ur_qp *qp)
{
	if (!qp->attr.en_sqd_async_notify || is_draining(qp))
		return;
	qp->attr.en_sqd_async_notify = 0;
	ur_async_raise(qp->context, &qp->drained_event);
}

static void drain(struct ur_qp *qp)
{
	ur_qp_set_state(qp, IBV_QPS_SQD);
	ur_qp_check_drained(qp);
}

static int enter(struct ur_qp *qp, enum ibv_qp_state state)
{
	switch (state) {
	case IBV_QPS_RESET:
		reset(qp);
		return 0;
	case IBV_QPS_RTR:
		return start_receiving(qp);
	case IBV_QPS_RTS:
		start_sending(qp);
		return 0;
	case IBV_QPS_SQD:
		drain(qp);
		return 0;
	case IBV_QPS_ERR:
		ur_qp_to_error(qp);
		return 0;
	default:
		ur_qp_set_state(qp, state);
		return 0;
	}
}

static int check(const struct ur_qp *qp, enum ibv_qp_state to, const struct ibv_qp_attr *attr,
		 int mask)
{
	enum ibv_qp_state from = qp->attr.qp_state;

	if (mask & IBV_QP_CUR_STATE && attr->cur_qp_state != from)
		return EINVAL;
	if (ur_qp_attr_check_mask(qp->verbs.qp_type, from, to, mask) != 0)
		return EINVAL;
	/* What the responder has taken when it was started stays as it is. */
	if (from == IBV_QPS_SQD && mask & IBV_QP_MAX_DEST_RD_ATOMIC &&
	    attr->max_dest_rd_atomic != qp->attr.max_dest_rd_atomic)
		return EOPNOTSUPP;
	return ur_qp_attr_check_values(attr, mask, qp->device->mtu);
}

/* Where the peer is looked for first. Another one is tried only if that can be seen to be wrong. */
static uint16_t first_port(const struct ur_qp *qp, const struct ibv_qp_attr *attr)
{
	if (ur_qp_is_reliable(qp) || ur_device_gid_index(qp->device, &attr->ah_attr.grh.dgid) >= 0)
		return ur_link_port_of(attr->dest_qp_num);
	return UR_UDP_PORT;
}

static int find_path(struct ur_qp *qp, const struct ibv_qp_attr *attr, struct ur_path *path)
{
	return ur_device_path(qp->device, &attr->ah_attr, first_port(qp, attr), path);
}

/* Either all of it happens, or nothing. */
static int change(struct ur_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	const struct ibv_qp_attr before = qp->attr;
	enum ibv_qp_state to = mask & IBV_QP_STATE ? attr->qp_state : before.qp_state;
	struct ibv_qp_attr after = before;
	struct ur_path path = qp->path;
	int error = check(qp, to, attr, mask);

	if (error)
		return error;
	ur_qp_attr_copy(&after, attr, mask);
	if (mask & IBV_QP_AV)
		error = find_path(qp, &after, &path);
	if (error)
		return error;
	qp->attr = after;
	qp->path = path;
	error = enter(qp, to);
	if (error)
		qp->attr = before;
	return error;
}

int ur_qp_modify(struct ur_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	int error;

	pthread_mutex_lock(&qp->device->lock);
	error = change(qp, attr, mask);
	ur_engine_flush(qp->device);
	pthread_mutex_unlock(&qp->device->lock);
	return error;
}

int ur_qp_query(struct ur_qp *qp, struct ibv_qp_attr *attr, int mask,
		struct ibv_qp_init_attr *init_attr)
{
	(void)mask; /* names what must be there; the rest may be */
	pthread_mutex_lock(&qp->device->lock);
	*attr = qp->attr;
	attr->cur_qp_state = qp->attr.qp_state;
	attr->sq_draining = is_draining(qp);
	pthread_mutex_unlock(&qp->device->lock);
	*init_attr = (struct ibv_qp_init_attr){
		.qp_context = qp->verbs.qp_context,
		.send_cq = qp->verbs.send_cq,
		.recv_cq = qp->verbs.recv_cq,
		.srq = qp->verbs.srq,
		.cap = qp->cap,
		.qp_type = qp->verbs.qp_type,
		.sq_sig_all = qp->signal_all,
	};
	return 0;
}

/* ---- Posting ---- */

bool ur_qp_takes_sends(const struct ur_qp *qp)
{
	return qp->send_cq && qp->attr.qp_state >= IBV_QPS_RTS;
}

void ur_qp_transmit(struct ur_qp *qp, uint64_t now)
{
	if (ur_qp_is_reliable(qp))
		ur_requester_transmit(qp, now);
	else
		ur_sender_transmit(qp, now);
}

void ur_qp_run_timer(struct ur_qp *qp, uint64_t now)
{
	if (ur_qp_is_reliable(qp))
		ur_requester_run_timer(qp, now);
	else
		ur_sender_run_timer(qp, now);
}

bool ur_qp_go_on(struct ur_qp *qp)
{
	return ur_qp_is_reliable(qp) ? ur_responder_respond(qp)
				     : ur_sender_transmit(qp, ur_clock_ns());
}

void ur_qp_add_sends(struct ur_qp *qp, uint32_t count)
{
	qp->sq.tail += count;
	if (qp->attr.qp_state >= IBV_QPS_SQE) {
		ur_qp_flush(qp);
		return;
	}
	ur_qp_transmit(qp, ur_clock_ns());
	ur_engine_flush(qp->device);
}

/* What is sent names a shared receive queue of the peer. */
static bool has_target(const struct ur_send_wqe *wqe)
{
	return ur_send_wqe_is_local(wqe) || wqe->srqn <= UR_24_BITS;
}

int ur_qp_check_send(const struct ur_qp *qp, const struct ur_send_wqe *wqe)
{
	if (ur_qp_is_extended(qp) && !has_target(wqe))
		return EINVAL;
	if (ur_qp_is_reliable(qp))
		return ur_send_wqe_check(wqe);
	return ur_qp_is_datagram(qp) ? ur_datagram_check(qp, wqe) : ur_unreliable_check(wqe);
}

static int fill(struct ur_qp *qp, uint32_t ahead, const struct ibv_send_wr *wr)
{
	struct ur_send_wqe *wqe = ur_send_queue_at(&qp->sq, qp->sq.tail + ahead);
	int error = ur_send_queue_fill(&qp->sq, ahead, wr, qp->signal_all);

	if (error || qp->verbs.qp_type == IBV_QPT_RC)
		return error;
	wqe->srqn = wr->qp_type.xrc.remote_srqn;
	if (ur_qp_is_datagram(qp))
		error = ur_datagram_set_address(qp, wqe, wr->wr.ud.ah, wr->wr.ud.remote_qpn,
						wr->wr.ud.remote_qkey);
	return error ? error : ur_qp_check_send(qp, wqe);
}

static int post_sends(struct ur_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr)
{
	uint32_t count = 0;
	int error = ur_qp_takes_sends(qp) ? 0 : EINVAL;

	while (wr && !error) {
		error = fill(qp, count, wr);
		if (!error) {
			wr = wr->next;
			count++;
		}
	}
	if (error)
		*bad_wr = wr;
	if (count > 0)
		ur_qp_add_sends(qp, count);
	return error;
}

int ur_qp_post_send(struct ibv_qp *verbs, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr)
{
	struct ur_qp *qp = (struct ur_qp *)verbs;
	int error;

	if (qp->extended)
		pthread_mutex_lock(&qp->builder_lock);
	pthread_mutex_lock(&qp->device->lock);
	error = post_sends(qp, wr, bad_wr);
	pthread_mutex_unlock(&qp->device->lock);
	if (qp->extended)
		pthread_mutex_unlock(&qp->builder_lock);
	return error;
}

static int post_recvs(struct ur_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	bool takes_receives = qp->recv_cq && !qp->srq && qp->attr.qp_state != IBV_QPS_RESET;
	int error = takes_receives ? 0 : EINVAL;

	while (wr && !error) {
		error = ur_recv_queue_post(&qp->rq, wr);
		if (!error)
			wr = wr->next;
	}
	if (error)
		*bad_wr = wr;
	if (qp->attr.qp_state == IBV_QPS_ERR)
		ur_qp_flush(qp);
	return error;
}

int ur_qp_post_recv(struct ibv_qp *verbs, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	struct ur_qp *qp = (struct ur_qp *)verbs;
	int error;

	pthread_mutex_lock(&qp->device->lock);
	error = post_recvs(qp, wr, bad_wr);
	pthread_mutex_unlock(&qp->device->lock);
	return error;
}

/* ---- End ---- */

static void withdraw_events(struct ur_qp *qp)
{
	ur_async_withdraw(qp->context, &qp->fatal_event);
	ur_async_withdraw(qp->context, &qp->request_event);
	ur_async_withdraw(qp->context, &qp->access_event);
	ur_async_withdraw(qp->context, &qp->established_event);
	ur_async_withdraw(qp->context, &qp->last_wqe_event);
	ur_async_withdraw(qp->context, &qp->drained_event);
}

/* Nothing comes to it any more; false: it is attached to a group. */
static bool leave_device(struct ur_qp *qp)
{
	struct ur_device *device = qp->device;
	bool leaves;

	pthread_mutex_lock(&device->lock);
	leaves = qp->group_count == 0;
	if (leaves) {
		disconnect(qp);
		ur_mw_unbind_all(qp);
		ur_qp_table_remove(&device->qps, (uint16_t)qp->verbs.qp_num);
	}
	pthread_mutex_unlock(&device->lock);
	return leaves;
}

int ur_qp_destroy(struct ur_qp *qp)
{
	if (!leave_device(qp))
		return EBUSY;
	withdraw_events(qp);
	free_queues(qp);
	count_at_objects(qp, -1);
	free_qp(qp);
	return 0;
}
