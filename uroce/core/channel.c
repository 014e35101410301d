#include "channel.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "cq.h"
#include "engine.h"
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

static bool has_event(struct ur_channel *channel)
{
	bool found;

	pthread_mutex_lock(&channel->lock);
	found = channel->first;
	pthread_mutex_unlock(&channel->lock);
	return found;
}

static bool is_blocking(const struct ur_channel *channel)
{
	return !(fcntl(channel->verbs.fd, F_GETFL) & O_NONBLOCK);
}

/* Whether read goes on after whatever signal's handler, as poll never does. */
static bool all_handlers_restart(void)
{
	struct sigaction action;

	for (int i = 1; i < NSIG; i++)
		if (sigaction(i, NULL, &action) == 0 && action.sa_handler != SIG_DFL &&
		    action.sa_handler != SIG_IGN && !(action.sa_flags & SA_RESTART))
			return false;
	return true;
}

struct wait {
	struct ur_channel *channel;
	struct ur_device *device;
	bool taken; /* by ur_engine_begin_wait */
	int error;
};

/* Also when the thread is cancelled. */
static void end_wait(void *argument)
{
	const struct wait *wait = argument;

	ur_engine_end_wait(wait->device, wait->taken);
}

/* Once. Returns 0 or an errno. */
static int handle_what_arrives(const struct wait *wait)
{
	int error = ur_engine_wait(wait->device, wait->channel->verbs.fd);

	return error == EINTR && all_handlers_restart() ? 0 : error;
}

/*
 * Never blocks elsewhere, where nobody would handle what arrives: another thread may be faster. Returns 0
 * or an errno.
 */
static int handle_and_take(const struct wait *wait)
{
	int error = EAGAIN;

	while (error == EAGAIN) {
		error = handle_what_arrives(wait);
		if (!error && ur_event_fd_try(wait->channel->verbs.fd) != 0)
			error = errno;
	}
	return error;
}

static int take_waiting(struct ur_channel *channel)
{
	struct wait wait = { .channel = channel,
			     .device = ur_context_of(channel->verbs.context)->device };

	wait.taken = ur_engine_begin_wait(wait.device);
	pthread_cleanup_push(end_wait, &wait);
	if (wait.taken)
		wait.error = handle_and_take(&wait);
	else if (ur_event_fd_take(channel->verbs.fd) != 0)
		wait.error = errno;
	pthread_cleanup_pop(true);
	return wait.error;
}

static int wait_and_take(struct ur_channel *channel)
{
	errno = take_waiting(channel);
	/* Another thread polls, or this is a Linux before 5.8, where it cannot be taken so. */
	if (errno == ECANCELED || errno == EOPNOTSUPP)
		return ur_event_fd_take(channel->verbs.fd);
	return errno == 0 ? 0 : -1;
}

/* Returns 0, or -1 and errno. */
static int take_token(struct ur_channel *channel)
{
	return !has_event(channel) && is_blocking(channel) ? wait_and_take(channel)
							   : ur_event_fd_take(channel->verbs.fd);
}

int ur_channel_get(struct ur_channel *channel, struct ur_cq **cq)
{
	do {
		if (take_token(channel) != 0)
			return -1;
		*cq = take_event(channel);
	} while (!*cq);
	return 0;
}
