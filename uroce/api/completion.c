/*
 * Completion queues, their channels, and asynchronous events.
 */
#include "../core/cq.h"
#include "api.h"
#include "operations.h"

/* ---- Channels ---- */

UR_EXPORT struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
	struct ur_channel *channel;

	if (!ur_has_ours(context))
		return UR_FORWARD(NULL, ibv_create_comp_channel, context);
	channel = ur_channel_create(ur_context_of(context));
	return channel ? &channel->verbs : NULL;
}

UR_EXPORT int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	if (!ur_has_ours(channel->context))
		return UR_FORWARD(ENOSYS, ibv_destroy_comp_channel, channel);
	return ur_channel_destroy((struct ur_channel *)channel);
}

UR_EXPORT int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq,
			       void **cq_context)
{
	struct ur_cq *found;

	if (!ur_has_ours(channel->context))
		return UR_FORWARD(-1, ibv_get_cq_event, channel, cq, cq_context);
	if (ur_channel_get((struct ur_channel *)channel, &found) != 0)
		return -1;
	*cq = &found->verbs;
	*cq_context = found->verbs.cq_context;
	return 0;
}

UR_EXPORT void ibv_ack_cq_events(struct ibv_cq *cq, unsigned count)
{
	if (!ur_has_ours(cq->context))
		UR_FORWARD_VOID(ibv_ack_cq_events, cq, count);
	else
		ur_cq_acknowledge((struct ur_cq *)cq, count);
}

/* ---- Completion queues ---- */

UR_EXPORT struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
				       struct ibv_comp_channel *channel, int comp_vector)
{
	struct ur_cq *cq;

	if (!ur_has_ours(context))
		return UR_FORWARD(NULL, ibv_create_cq, context, cqe, cq_context, channel,
				  comp_vector);
	cq = ur_cq_create(ur_context_of(context), cqe, cq_context, (struct ur_channel *)channel,
			  comp_vector, NULL);
	return cq ? &cq->verbs : NULL;
}

struct ibv_cq_ex *ur_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr)
{
	struct ur_cq *cq =
		ur_cq_create(ur_context_of(context), (int)attr->cqe, attr->cq_context,
			     (struct ur_channel *)attr->channel, (int)attr->comp_vector, attr);

	return cq ? &cq->verbs_ex : NULL;
}

UR_EXPORT int ibv_resize_cq(struct ibv_cq *cq, int cqe)
{
	if (!ur_has_ours(cq->context))
		return UR_FORWARD(ENOSYS, ibv_resize_cq, cq, cqe);
	return ur_cq_resize((struct ur_cq *)cq, cqe);
}

UR_EXPORT int ibv_destroy_cq(struct ibv_cq *cq)
{
	if (!ur_has_ours(cq->context))
		return UR_FORWARD(ENOSYS, ibv_destroy_cq, cq);
	return ur_cq_destroy((struct ur_cq *)cq);
}

/* ---- Asynchronous events ---- */

UR_EXPORT int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	if (!ur_has_ours(context))
		return UR_FORWARD(-1, ibv_get_async_event, context, event);
	return ur_async_get(ur_context_of(context), event);
}

/* Of the object that an event is about; NULL: it is about a port or the device. */
static struct ibv_context *context_of(const struct ibv_async_event *event)
{
	switch (event->event_type) {
	case IBV_EVENT_CQ_ERR:
		return event->element.cq->context;
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		return event->element.srq->context;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		return event->element.qp->context;
	default:
		return NULL;
	}
}

UR_EXPORT void ibv_ack_async_event(struct ibv_async_event *event)
{
	struct ibv_context *context = context_of(event);

	if (context && ur_has_ours(context))
		ur_async_acknowledge(ur_context_of(context), event);
	else
		UR_FORWARD_VOID(ibv_ack_async_event, event);
}
