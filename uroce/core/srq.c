#include "srq.h"

#include <errno.h>
#include <stdlib.h>

static atomic_uint next_number = 1;

uint32_t ur_srq_next_number(void)
{
	return atomic_fetch_add(&next_number, 1) & UR_24_BITS;
}

static void set_up(struct ur_srq *srq, struct ur_pd *pd, struct ur_xrcd *xrcd, struct ur_cq *cq,
		   void *srq_context)
{
	srq->verbs.context = pd->verbs.context;
	srq->verbs.srq_context = srq_context;
	srq->verbs.pd = &pd->verbs;
	pthread_mutex_init(&srq->verbs.mutex, NULL);
	pthread_cond_init(&srq->verbs.cond, NULL);

	srq->pd = ur_pd_protection(pd);
	srq->owner = ur_pd_owner(pd);
	srq->xrcd = xrcd;
	srq->cq = cq;
	srq->context = pd->context;
	srq->number = ur_srq_next_number();
	srq->limit_event.event.event_type = IBV_EVENT_SRQ_LIMIT_REACHED;
	srq->limit_event.event.element.srq = &srq->verbs;
}

static void join_domain(struct ur_srq *srq)
{
	struct ur_device *device = srq->context->device;

	pthread_mutex_lock(&device->lock);
	ur_xrcd_add(srq->xrcd, srq);
	pthread_mutex_unlock(&device->lock);
	atomic_fetch_add(&srq->xrcd->objects, 1);
	atomic_fetch_add(&srq->cq->objects, 1);
}

/* Returns 0 or EBUSY. */
static int leave_domain(struct ur_srq *srq)
{
	struct ur_device *device = srq->context->device;
	int error;

	pthread_mutex_lock(&device->lock);
	error = ur_xrcd_remove(srq->xrcd, srq);
	pthread_mutex_unlock(&device->lock);
	if (error)
		return error;
	atomic_fetch_sub(&srq->xrcd->objects, 1);
	atomic_fetch_sub(&srq->cq->objects, 1);
	return 0;
}

static struct ur_srq *create(struct ur_pd *pd, struct ur_xrcd *xrcd, struct ur_cq *cq,
			     void *srq_context, const struct ibv_srq_attr *attr)
{
	struct ur_srq *srq;
	int error = EINVAL;

	if (attr->max_wr == 0 || attr->max_wr > UR_MAX_WRS || attr->max_sge > UR_MAX_SGE)
		goto err_nothing;
	error = ENOMEM;
	srq = calloc(1, sizeof(*srq));
	if (!srq)
		goto err_nothing;
	if (ur_recv_queue_init(&srq->queue, ur_pd_owner(pd), UR_BLOCK_SRQ, attr->max_wr,
			       attr->max_sge) != 0)
		goto err_srq;
	set_up(srq, pd, xrcd, cq, srq_context);
	if (xrcd)
		join_domain(srq);
	srq->verbs.handle = srq->number;
	atomic_fetch_add(&srq->owner->objects, 1);
	atomic_fetch_add(&pd->context->objects, 1);
	return srq;

err_srq:
	free(srq);
err_nothing:
	errno = error;
	return NULL;
}

struct ur_srq *ur_srq_create(struct ur_pd *pd, void *srq_context, const struct ibv_srq_attr *attr)
{
	return create(pd, NULL, NULL, srq_context, attr);
}

struct ur_srq *ur_srq_create_xrc(struct ur_pd *pd, struct ur_xrcd *xrcd, struct ur_cq *cq,
				 void *srq_context, const struct ibv_srq_attr *attr)
{
	return create(pd, xrcd, cq, srq_context, attr);
}

static void check_limit(struct ur_srq *srq)
{
	if (srq->queue.count >= srq->limit)
		return;
	srq->limit = 0;
	ur_async_raise(srq->context, &srq->limit_event);
}

static int check(const struct ur_srq *srq, const struct ibv_srq_attr *attr, int mask)
{
	uint32_t max_wr = mask & IBV_SRQ_MAX_WR ? attr->max_wr : srq->queue.capacity;
	uint32_t limit = mask & IBV_SRQ_LIMIT ? attr->srq_limit : srq->limit;

	if (mask & ~(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT))
		return EINVAL;
	return max_wr > 0 && max_wr <= UR_MAX_WRS && limit <= max_wr ? 0 : EINVAL;
}

/* resized: an empty queue of the new size, if that is to change; the old one afterwards. */
static int modify(struct ur_srq *srq, const struct ibv_srq_attr *attr, int mask,
		  struct ur_recv_queue *resized)
{
	int error = check(srq, attr, mask);

	if (!error && mask & IBV_SRQ_MAX_WR)
		error = ur_recv_queue_move(&srq->queue, resized);
	if (error)
		return error;
	if (mask & IBV_SRQ_LIMIT)
		srq->limit = attr->srq_limit;
	check_limit(srq);
	return 0;
}

int ur_srq_modify(struct ur_srq *srq, const struct ibv_srq_attr *attr, int mask)
{
	struct ur_recv_queue resized = { 0 };
	int error = 0;

	if (mask & IBV_SRQ_MAX_WR && attr->max_wr <= UR_MAX_WRS)
		error = ur_recv_queue_init(&resized, srq->owner, UR_BLOCK_SRQ, attr->max_wr,
					   srq->queue.max_sge);
	if (error)
		return error;
	pthread_mutex_lock(&srq->context->device->lock);
	error = modify(srq, attr, mask, &resized);
	pthread_mutex_unlock(&srq->context->device->lock);
	ur_recv_queue_free(&resized);
	return error;
}

int ur_srq_query(struct ur_srq *srq, struct ibv_srq_attr *attr)
{
	pthread_mutex_lock(&srq->context->device->lock);
	attr->max_wr = srq->queue.capacity;
	attr->max_sge = srq->queue.max_sge;
	attr->srq_limit = srq->limit;
	pthread_mutex_unlock(&srq->context->device->lock);
	return 0;
}

int ur_srq_destroy(struct ur_srq *srq)
{
	if (atomic_load(&srq->objects) > 0 || (srq->xrcd && leave_domain(srq) != 0))
		return EBUSY;
	ur_async_withdraw(srq->context, &srq->limit_event);
	atomic_fetch_sub(&srq->context->objects, 1);
	ur_recv_queue_free(&srq->queue);
	atomic_fetch_sub(&srq->owner->objects, 1);
	pthread_cond_destroy(&srq->verbs.cond);
	pthread_mutex_destroy(&srq->verbs.mutex);
	free(srq);
	return 0;
}

int ur_srq_post(struct ibv_srq *verbs, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	struct ur_srq *srq = (struct ur_srq *)verbs;
	int error = 0;

	pthread_mutex_lock(&srq->context->device->lock);
	while (wr && !error) {
		error = ur_recv_queue_post(&srq->queue, wr);
		if (!error)
			wr = wr->next;
	}
	pthread_mutex_unlock(&srq->context->device->lock);
	if (error)
		*bad_wr = wr;
	return error;
}

bool ur_srq_take(struct ur_srq *srq, struct ur_recv_wqe *wqe)
{
	if (!ur_recv_queue_take(&srq->queue, wqe))
		return false;
	check_limit(srq);
	return true;
}
