#include "qp_surroundings.h"

#include <errno.h>
#include <string.h>

#include "../../../uroce/core/engine.h"
#include "../../../uroce/transport/completion.h"
#include "../../../uroce/transport/datagram.h"
#include "../../../uroce/transport/sender.h"
#include "../../../uroce/transport/unreliable.h"

struct surroundings around;

static struct ur_carrier carrier;

static bool is_locked(pthread_mutex_t *mutex)
{
	if (pthread_mutex_trylock(mutex) != 0)
		return true;
	pthread_mutex_unlock(mutex);
	return false;
}

static void assert_device_locked(void)
{
	assert_true(is_locked(&around.device.lock));
}

/* ---- Link and device ---- */

struct ur_carrier *ur_link_carrier(struct ur_link *link)
{
	(void)link;
	return &carrier;
}

uint8_t ur_link_number(const struct ur_link *link)
{
	(void)link;
	return LINK_NUMBER;
}

uint16_t ur_link_port_of(uint32_t qpn)
{
	return (uint16_t)(UR_UDP_PORT + (qpn >> 16));
}

int ur_device_gid_index(const struct ur_device *device, const union ibv_gid *gid)
{
	(void)device;
	return gid->raw[0] == 0xff ? -1 : 0;
}

int ur_device_path(const struct ur_device *device, const struct ibv_ah_attr *attr, uint16_t port,
		   struct ur_path *path)
{
	(void)device;
	assert_device_locked();
	if (around.path_error)
		return around.path_error;
	*path = (struct ur_path){ .gid_index = attr->grh.sgid_index };
	around.path_port = port;
	return 0;
}

/* ---- Engine ---- */

void ur_engine_flush(struct ur_device *device)
{
	(void)device;
	assert_device_locked();
	around.calls.flush++;
}

void ur_engine_forget(struct ur_device *device, struct ur_qp *qp)
{
	(void)device;
	assert_device_locked();
	qp->deadline = UINT64_MAX;
	around.calls.forget++;
}

/* ---- Events ---- */

void ur_async_raise(struct ur_context *context, struct ur_async_event *event)
{
	assert_ptr_equal(context, &around.context);
	around.raised++;
	around.last_raised = event->event.event_type;
}

void ur_async_withdraw(struct ur_context *context, struct ur_async_event *event)
{
	assert_ptr_equal(context, &around.context);
	around.withdrawn++;
	if (event->event.event_type == around.last_raised)
		around.is_last_raised_withdrawn = true;
}

/* ---- Completions ---- */

void ur_cq_forget(struct ur_cq *cq, uint32_t qp_num)
{
	assert_true(cq == &around.send_cq || cq == &around.recv_cq);
	assert_int_equal(qp_num >> 16, LINK_NUMBER);
	assert_device_locked();
	around.calls.cq_forget++;
}

/* ---- Transport ---- */

int ur_responder_start(struct ur_qp *qp)
{
	assert_device_locked();
	around.calls.responder_start++;
	around.responder_epsn = qp->attr.rq_psn;
	return around.responder_error;
}

void ur_responder_free(struct ur_qp *qp)
{
	(void)qp;
	assert_device_locked();
	around.calls.responder_free++;
}

void ur_requester_start(struct ur_qp *qp)
{
	assert_device_locked();
	around.calls.requester_start++;
	around.requester_psn = qp->attr.sq_psn;
}

void ur_requester_transmit(struct ur_qp *qp, uint64_t now)
{
	assert_device_locked();
	assert_true(now > 0);
	around.builder_locked = is_locked(&qp->builder_lock);
	around.calls.transmit++;
}

int ur_datagram_set_address(const struct ur_qp *qp, struct ur_send_wqe *wqe,
			    const struct ibv_ah *ah, uint32_t qpn, uint32_t qkey)
{
	(void)qp;
	(void)ah;
	(void)qkey;
	wqe->remote_qpn = qpn;
	return 0;
}

int ur_datagram_check(const struct ur_qp *qp, const struct ur_send_wqe *wqe)
{
	(void)qp;
	return wqe->remote_qpn == PEER_QPN ? 0 : EINVAL;
}

int ur_unreliable_check(const struct ur_send_wqe *wqe)
{
	return wqe->opcode == IBV_WR_RDMA_READ ? EINVAL : 0;
}

bool ur_sender_transmit(struct ur_qp *qp, uint64_t now)
{
	(void)qp;
	assert_true(now > 0);
	assert_device_locked();
	around.calls.sender_transmit++;
	return false;
}

void ur_sender_run_timer(struct ur_qp *qp, uint64_t now)
{
	(void)qp;
	(void)now;
}

void ur_requester_run_timer(struct ur_qp *qp, uint64_t now)
{
	(void)qp;
	(void)now;
}

bool ur_responder_respond(struct ur_qp *qp)
{
	(void)qp;
	return false;
}

void ur_qp_to_error(struct ur_qp *qp)
{
	assert_device_locked();
	if (qp->attr.qp_state == IBV_QPS_ERR)
		return;
	around.calls.to_error++;
	qp->attr.qp_state = IBV_QPS_ERR;
	qp->verbs.state = IBV_QPS_ERR;
}

void ur_qp_flush(struct ur_qp *qp)
{
	struct ur_recv_wqe wqe;

	assert_device_locked();
	around.calls.qp_flush++;
	qp->sq.head = qp->sq.next = qp->sq.tail;
	while (ur_recv_queue_take(&qp->rq, &wqe))
		continue;
}

/* ---- Objects ---- */

const struct ibv_qp_attr surroundings_attr = {
	.path_mtu = IBV_MTU_1024,
	.rq_psn = 0x01123456,
	.sq_psn = 0x02654321,
	.dest_qp_num = PEER_QPN,
	.qp_access_flags = IBV_ACCESS_REMOTE_READ,
	.ah_attr = { .is_global = 1, .port_num = 1, .grh.sgid_index = 3 },
	.max_rd_atomic = 7,
	.max_dest_rd_atomic = 9,
	.min_rnr_timer = 12,
	.port_num = 1,
	.timeout = 14,
	.retry_cnt = 6,
	.rnr_retry = 5,
};

int surroundings_set_up(void **state)
{
	struct ibv_context *context = &around.context.verbs.context;

	(void)state;
	memset(&around, 0, sizeof(around));
	pthread_mutex_init(&around.device.lock, NULL);
	around.device.mtu = IBV_MTU_4096;
	around.context.device = &around.device;
	around.pd.verbs.context = context;
	around.send_cq.verbs.context = context;
	around.recv_cq.verbs.context = context;
	around.srq.verbs.context = context;
	return 0;
}

int surroundings_tear_down(void **state)
{
	(void)state;
	ur_qp_table_free(&around.device.qps);
	return pthread_mutex_destroy(&around.device.lock);
}

struct ibv_qp_init_attr_ex surroundings_init_attr(void)
{
	return (struct ibv_qp_init_attr_ex){
		.qp_context = &around,
		.send_cq = &around.send_cq.verbs,
		.recv_cq = &around.recv_cq.verbs,
		.cap = { .max_send_wr = 4,
			 .max_recv_wr = 4,
			 .max_send_sge = 2,
			 .max_recv_sge = 2,
			 .max_inline_data = 32 },
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = &around.pd.verbs,
	};
}

struct ur_qp *surroundings_create_qp(void)
{
	struct ibv_qp_init_attr_ex attr = surroundings_init_attr();
	struct ur_qp *qp = ur_qp_create(&around.context, &attr);

	assert_non_null(qp);
	return qp;
}

int surroundings_modify(struct ur_qp *qp, enum ibv_qp_state state, int mask)
{
	struct ibv_qp_attr attr = surroundings_attr;

	attr.qp_state = state;
	return ur_qp_modify(qp, &attr, mask);
}

void surroundings_bring_to(struct ur_qp *qp, enum ibv_qp_state state)
{
	static const struct {
		enum ibv_qp_state state;
		int mask;
	} steps[] = {
		{ IBV_QPS_INIT, INIT_MASK },   { IBV_QPS_RTR, RTR_MASK },
		{ IBV_QPS_RTS, RTS_MASK },     { IBV_QPS_SQD, IBV_QP_STATE },
		{ IBV_QPS_ERR, IBV_QP_STATE },
	};

	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]) && qp->attr.qp_state != state; i++)
		assert_int_equal(surroundings_modify(qp, steps[i].state, steps[i].mask), 0);
	assert_int_equal(qp->attr.qp_state, state);
}
