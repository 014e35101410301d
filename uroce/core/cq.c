#include "cq.h"

#include <errno.h>
#include <stdlib.h>

#include "clock.h"
#include "engine.h"
#include "pd.h"

/* What it really gets: a power of two. */
static uint32_t round_up(int cqe)
{
	uint32_t capacity = 1;

	while (capacity < (uint32_t)cqe)
		capacity *= 2;
	return capacity;
}

static bool is_size_valid(int cqe)
{
	return cqe >= 1 && cqe <= UR_MAX_CQE;
}

static struct ur_cqe *entry(const struct ur_cq *cq, uint32_t n)
{
	return &cq->ring[(cq->head + n) & (cq->capacity - 1)];
}

static void set_up(struct ur_cq *cq, struct ur_context *context, void *cq_context,
		   struct ur_channel *channel)
{
	cq->verbs.context = &context->verbs.context;
	cq->verbs.channel = channel ? &channel->verbs : NULL;
	cq->verbs.cq_context = cq_context;
	cq->verbs.cqe = (int)cq->capacity;
	pthread_mutex_init(&cq->verbs.mutex, NULL);
	pthread_cond_init(&cq->verbs.cond, NULL);

	cq->context = context;
	cq->channel = channel;
	pthread_mutex_init(&cq->lock, NULL);
	pthread_mutex_init(&cq->poll_lock, NULL);
	cq->error_event.event.event_type = IBV_EVENT_CQ_ERR;
	cq->error_event.event.element.cq = &cq->verbs;
}

static void free_cq(struct ur_cq *cq)
{
	pthread_mutex_destroy(&cq->poll_lock);
	pthread_mutex_destroy(&cq->lock);
	pthread_cond_destroy(&cq->verbs.cond);
	pthread_mutex_destroy(&cq->verbs.mutex);
	ur_block_free(&cq->block);
	free(cq);
}

static int allocate_ring(const struct ur_cq *cq, uint32_t capacity, struct ur_block *block)
{
	return ur_block_init(block, cq->owner, UR_BLOCK_CQ, capacity * sizeof(*cq->ring));
}

struct ur_cq *ur_cq_create(struct ur_context *context, int cqe, void *cq_context,
			   struct ur_channel *channel, int comp_vector,
			   const struct ibv_cq_init_attr_ex *extended)
{
	struct ur_cq *cq;
	int error = EINVAL;

	if (!is_size_valid(cqe) || comp_vector < 0 ||
	    comp_vector >= context->verbs.context.num_comp_vectors ||
	    (channel && channel->verbs.context != &context->verbs.context))
		goto err_nothing;
	error = ENOMEM;
	cq = calloc(1, sizeof(*cq));
	if (!cq)
		goto err_nothing;
	cq->capacity = round_up(cqe);
	set_up(cq, context, cq_context, channel);
	error = extended ? ur_cq_extend(cq, extended) : 0;
	if (!error)
		error = allocate_ring(cq, cq->capacity, &cq->block);
	if (error)
		goto err_cq;
	cq->ring = cq->block.memory;
	if (cq->owner)
		atomic_fetch_add(&cq->owner->objects, 1);
	atomic_fetch_add(&context->objects, 1);
	if (channel)
		atomic_fetch_add(&channel->queues, 1);
	return cq;

err_cq:
	free_cq(cq);
err_nothing:
	errno = error;
	return NULL;
}

static void wait_for_acknowledgements(struct ur_cq *cq)
{
	pthread_mutex_lock(&cq->verbs.mutex);
	while ((int32_t)(cq->events_read - cq->verbs.comp_events_completed) > 0)
		pthread_cond_wait(&cq->verbs.cond, &cq->verbs.mutex);
	pthread_mutex_unlock(&cq->verbs.mutex);
}

int ur_cq_destroy(struct ur_cq *cq)
{
	struct ur_pd *owner;

	if (atomic_load(&cq->objects) > 0)
		return EBUSY;
	if (cq->channel) {
		ur_channel_withdraw(cq->channel, cq);
		wait_for_acknowledgements(cq);
		atomic_fetch_sub(&cq->channel->queues, 1);
	}
	ur_async_withdraw(cq->context, &cq->error_event);
	atomic_fetch_sub(&cq->context->objects, 1);
	owner = cq->owner;
	free_cq(cq);
	if (owner)
		atomic_fetch_sub(&owner->objects, 1);
	return 0;
}

void ur_cq_acknowledge(struct ur_cq *cq, unsigned events)
{
	pthread_mutex_lock(&cq->verbs.mutex);
	cq->verbs.comp_events_completed += events;
	pthread_cond_signal(&cq->verbs.cond);
	pthread_mutex_unlock(&cq->verbs.mutex);
}

/* Lock held. Moves what is there into a block that has room for it, and exchanges the two. */
static void change_ring(struct ur_cq *cq, struct ur_block *block, uint32_t capacity)
{
	struct ur_block old = cq->block;
	struct ur_cqe *ring = block->memory;

	for (uint32_t i = 0; i < cq->count; i++)
		ring[i] = *entry(cq, i);
	cq->block = *block;
	*block = old;
	cq->ring = ring;
	cq->capacity = capacity;
	cq->head = 0;
	cq->verbs.cqe = (int)capacity;
}

int ur_cq_resize(struct ur_cq *cq, int cqe)
{
	struct ur_block block;
	uint32_t capacity;
	int error = 0;

	if (!is_size_valid(cqe))
		return EINVAL;
	capacity = round_up(cqe);
	if (allocate_ring(cq, capacity, &block) != 0)
		return ENOMEM;
	pthread_mutex_lock(&cq->lock);
	if ((uint32_t)cqe < cq->count)
		error = EINVAL;
	else
		change_ring(cq, &block, capacity);
	pthread_mutex_unlock(&cq->lock);
	ur_block_free(&block);
	return error;
}

static void put_down_time(struct ur_cqe *cqe)
{
	struct timespec now;

	cqe->timestamp = ur_clock_ns();
	clock_gettime(CLOCK_REALTIME, &now);
	cqe->wallclock = (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static void overrun(struct ur_cq *cq)
{
	if (cq->overrun)
		return;
	cq->overrun = true;
	ur_async_raise(cq->context, &cq->error_event);
}

static void append(struct ur_cq *cq, const struct ibv_wc *wc)
{
	struct ur_cqe *cqe = entry(cq, cq->count);

	cqe->wc = *wc;
	if (cq->timestamps)
		put_down_time(cqe);
	cq->count++;
}

/* Once for each request to be notified. */
static void notify(struct ur_cq *cq, bool solicited)
{
	if (cq->arm == UR_CQ_NOT_ARMED || (cq->arm == UR_CQ_ARMED_SOLICITED && !solicited))
		return;
	cq->arm = UR_CQ_NOT_ARMED;
	if (cq->channel)
		ur_channel_signal(cq->channel, cq);
}

void ur_cq_push(struct ur_cq *cq, const struct ibv_wc *wc, bool solicited)
{
	pthread_mutex_lock(&cq->lock);
	if (cq->count == cq->capacity)
		overrun(cq);
	else
		append(cq, wc);
	notify(cq, solicited || wc->status != IBV_WC_SUCCESS);
	pthread_mutex_unlock(&cq->lock);
}

void ur_cq_forget(struct ur_cq *cq, uint32_t qp_num)
{
	uint32_t kept = 0;

	pthread_mutex_lock(&cq->lock);
	for (uint32_t i = 0; i < cq->count; i++)
		if (entry(cq, i)->wc.qp_num != qp_num)
			*entry(cq, kept++) = *entry(cq, i);
	cq->count = kept;
	pthread_mutex_unlock(&cq->lock);
}

/* Lock held, and the queue is not empty. */
static const struct ur_cqe *take(struct ur_cq *cq)
{
	const struct ur_cqe *cqe = entry(cq, 0);

	cq->head++;
	cq->count--;
	return cqe;
}

bool ur_cq_take(struct ur_cq *cq, struct ur_cqe *cqe)
{
	bool found;

	pthread_mutex_lock(&cq->lock);
	found = cq->count > 0;
	if (found)
		*cqe = *take(cq);
	pthread_mutex_unlock(&cq->lock);
	return found;
}

static int take_many(struct ur_cq *cq, int count, struct ibv_wc *wc)
{
	int taken = 0;

	pthread_mutex_lock(&cq->lock);
	while (taken < count && cq->count > 0)
		wc[taken++] = take(cq)->wc;
	pthread_mutex_unlock(&cq->lock);
	return taken;
}

int ur_cq_poll(struct ibv_cq *verbs, int count, struct ibv_wc *wc)
{
	struct ur_cq *cq = (struct ur_cq *)verbs;
	int taken = take_many(cq, count, wc);

	if (taken > 0)
		return taken;
	ur_engine_poll(cq->context->device);
	return take_many(cq, count, wc);
}

int ur_cq_request_notification(struct ibv_cq *verbs, int solicited_only)
{
	struct ur_cq *cq = (struct ur_cq *)verbs;
	enum ur_cq_arm arm = solicited_only ? UR_CQ_ARMED_SOLICITED : UR_CQ_ARMED;

	pthread_mutex_lock(&cq->lock);
	if (arm > cq->arm)
		cq->arm = arm;
	pthread_mutex_unlock(&cq->lock);
	ur_engine_hand_over(cq->context->device);
	return 0;
}
