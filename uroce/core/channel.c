#include "channel.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "cq.h"
#include "event_fd.h"

struct ur_channel *ur_channel_create(struct ur_context *context)
{
	struct ur_channel *channel = calloc(1, sizeof(*channel));

	if (!channel)
		return NULL;
	channel->verbs.fd = ur_event_fd_open();
	if (channel->verbs.fd < 0)
		goto err_channel;
	channel->verbs.context = &context->verbs.context;
	pthread_mutex_init(&channel->lock, NULL);
	atomic_fetch_add(&context->objects, 1);
	return channel;

err_channel:
	free(channel);
	return NULL;
}

int ur_channel_destroy(struct ur_channel *channel)
{
	if (atomic_load(&channel->queues) > 0)
		return EBUSY;
	atomic_fetch_sub(&ur_context_of(channel->verbs.context)->objects, 1);
	close(channel->verbs.fd);
	pthread_mutex_destroy(&channel->lock);
	free(channel);
	return 0;
}

static void append(struct ur_channel *channel, struct ur_cq *cq)
{
	cq->next = NULL;
	if (channel->last)
		channel->last->next = cq;
	else
		channel->first = cq;
	channel->last = cq;
	cq->in_channel = true;
}

static void unlink_queue(struct ur_channel *channel, struct ur_cq *cq)
{
	struct ur_cq **link = &channel->first, *before = NULL;

	for (; *link != cq; link = &(*link)->next)
		before = *link;
	*link = cq->next;
	if (channel->last == cq)
		channel->last = before;
	cq->in_channel = false;
}

void ur_channel_signal(struct ur_channel *channel, struct ur_cq *cq)
{
	pthread_mutex_lock(&channel->lock);
	cq->pending_events++;
	if (!cq->in_channel)
		append(channel, cq);
	pthread_mutex_unlock(&channel->lock);
	ur_event_fd_add(channel->verbs.fd);
}

void ur_channel_withdraw(struct ur_channel *channel, struct ur_cq *cq)
{
	unsigned withdrawn;

	pthread_mutex_lock(&channel->lock);
	withdrawn = cq->pending_events;
	cq->pending_events = 0;
	if (cq->in_channel)
		unlink_queue(channel, cq);
	pthread_mutex_unlock(&channel->lock);
	while (withdrawn-- > 0)
		ur_event_fd_withdraw(channel->verbs.fd);
}

/* The queue whose event is the oldest, with one less; NULL: none, its event was withdrawn. */
static struct ur_cq *take_event(struct ur_channel *channel)
{
	struct ur_cq *cq;

	pthread_mutex_lock(&channel->lock);
	cq = channel->first;
	if (cq) {
		unlink_queue(channel, cq);
		cq->events_read++;
		if (--cq->pending_events > 0)
			append(channel, cq);
	}
	pthread_mutex_unlock(&channel->lock);
	return cq;
}

int ur_channel_get(struct ur_channel *channel, struct ur_cq **cq)
{
	do {
		if (ur_event_fd_take(channel->verbs.fd) != 0)
			return -1;
		*cq = take_event(channel);
	} while (!*cq);
	return 0;
}
