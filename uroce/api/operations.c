/*
 * The tables of a context. Verbs look whether operations are there, and fail with EOPNOTSUPP if not.
 */
#include "operations.h"

#include "../core/qp.h"
#include "query.h"

void ur_context_set_ops(struct verbs_context *verbs)
{
	verbs->query_port = ur_query_port;
	verbs->query_rt_values = ur_query_rt_values;
	verbs->create_cq_ex = ur_create_cq_ex;
	verbs->query_device_ex = ur_query_device_ex;
	verbs->create_qp_ex = ur_create_qp_ex;
	verbs->get_srq_num = ur_get_srq_num;
	verbs->create_srq_ex = ur_create_srq_ex;
	verbs->alloc_td = ur_alloc_td;
	verbs->dealloc_td = ur_dealloc_td;
	verbs->alloc_parent_domain = ur_alloc_parent_domain;
	verbs->open_xrcd = ur_open_xrcd;
	verbs->close_xrcd = ur_close_xrcd;

	verbs->context.ops._compat_query_device = ur_query_device;
	verbs->context.ops._compat_query_port = ur_query_old_port;
	verbs->context.ops.alloc_mw = ur_alloc_mw;
	verbs->context.ops.bind_mw = ur_bind_mw;
	verbs->context.ops.dealloc_mw = ur_dealloc_mw;
	verbs->context.ops.poll_cq = ur_cq_poll;
	verbs->context.ops.req_notify_cq = ur_cq_request_notification;
	verbs->context.ops.post_srq_recv = ur_srq_post;
	verbs->context.ops.post_send = ur_qp_post_send;
	verbs->context.ops.post_recv = ur_qp_post_recv;
}
