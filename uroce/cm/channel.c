#include "channel.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "../core/event_fd.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t acknowledged = PTHREAD_COND_INITIALIZER;
/* Counts forks: a source that was made by another process is not ours. */
static unsigned process;

/* ---- A process that is forked off ---- */

static void lock_all(void)
{
	pthread_mutex_lock(&lock);
}

static void unlock_all(void)
{
	pthread_mutex_unlock(&lock);
}

/* Of threads that wait, too, it has none. */
static void begin_as_child(void)
{
	process++;
	pthread_cond_init(&acknowledged, NULL);
	unlock_all();
}

/*
 * A child, which can begin ids of its own, must not find it locked by a thread that it does not
 * have.
 */
static void prepare_for_forks(void)
{
	pthread_atfork(lock_all, unlock_all, begin_as_child);
}

static bool is_mine(const struct ur_event_source *source)
{
	return source->process == process;
}

/* ---- Lists, the lock held ---- */

static void append(struct ur_event_channel *channel, struct ur_event *event)
{
	event->next = NULL;
	if (channel->last)
		channel->last->next = event;
	else
		channel->first = event;
	channel->last = event;
	ur_event_fd_add(channel->verbs.fd);
}

/* The first of a source, or (NULL) of all; NULL: none. */
static struct ur_event *take(struct ur_event_channel *channel, const struct ur_event_source *source)
{
	struct ur_event **link = &channel->first, *before = NULL, *event;

	for (; *link && source && (*link)->source != source; link = &(*link)->next)
		before = *link;
	event = *link;
	if (!event)
		return NULL;
	*link = event->next;
	if (channel->last == event)
		channel->last = before;
	return event;
}

static struct ur_event *withdraw(struct ur_event_channel *channel,
				 const struct ur_event_source *source)
{
	struct ur_event *event = take(channel, source);

	/* The descriptor is shared with the parent, whose event it still has. */
	if (event && channel->verbs.fd >= 0 && is_mine(source))
		ur_event_fd_withdraw(channel->verbs.fd);
	return event;
}

static void release(struct ur_event_channel *channel)
{
	if (--channel->holders == 0)
		free(channel);
}

/* The sources take back what was not read. */
static void close_channel(struct ur_event_channel *channel)
{
	close(channel->verbs.fd);
	channel->verbs.fd = -1;
	release(channel);
}

static void enter(struct ur_event_source *source, struct ur_event_channel *channel, bool own)
{
	if (!own)
		channel->holders++;
	source->channel = channel;
	source->owns_channel = own;
}

static void leave(struct ur_event_channel *channel, bool own)
{
	if (own)
		close_channel(channel);
	else
		release(channel);
}

static void move(struct ur_event_source *source, struct ur_event_channel *channel, bool own)
{
	struct ur_event_channel *old = source->channel;
	bool owned = source->owns_channel;
	struct ur_event *event;

	if (channel == old)
		return;
	enter(source, channel, own);
	for (event = withdraw(old, source); event; event = withdraw(old, source))
		append(channel, event);
	leave(old, owned);
}

/* What the parent has read, its threads acknowledge, which a child does not have. */
static void wait_acknowledged(struct ur_event_source *source)
{
	while (source->unacknowledged > 0 && is_mine(source))
		pthread_cond_wait(&acknowledged, &lock);
}

/* ---- Channels ---- */

struct ur_event_channel *ur_event_channel_open(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct ur_event_channel *channel = calloc(1, sizeof(*channel));

	if (!channel)
		return NULL;
	pthread_once(&once, prepare_for_forks);
	channel->verbs.fd = ur_event_fd_open();
	if (channel->verbs.fd < 0)
		goto err_channel;
	channel->holders = 1;
	return channel;

err_channel:
	free(channel);
	return NULL;
}

void ur_event_channel_close(struct ur_event_channel *channel)
{
	lock_all();
	close_channel(channel);
	unlock_all();
}

/* ---- Sources ---- */

int ur_event_source_init(struct ur_event_source *source, struct ur_event_channel *channel)
{
	bool own = !channel;

	if (own)
		channel = ur_event_channel_open();
	if (!channel)
		return errno;
	lock_all();
	source->process = process;
	enter(source, channel, own);
	unlock_all();
	return 0;
}

void ur_event_source_join(struct ur_event_source *source, const struct ur_event_source *other)
{
	lock_all();
	source->process = process;
	enter(source, other->channel, false);
	unlock_all();
}

void ur_event_source_end(struct ur_event_source *source)
{
	lock_all();
	leave(source->channel, source->owns_channel);
	unlock_all();
}

int ur_event_source_move(struct ur_event_source *source, struct ur_event_channel *channel)
{
	bool own = !channel;

	if (own)
		channel = ur_event_channel_open();
	if (!channel)
		return errno;
	lock_all();
	move(source, channel, own);
	wait_acknowledged(source);
	unlock_all();
	return 0;
}

struct ur_event *ur_event_withdraw(struct ur_event_source *source)
{
	struct ur_event *event;

	lock_all();
	event = withdraw(source->channel, source);
	unlock_all();
	return event;
}

void ur_event_wait_acknowledged(struct ur_event_source *source)
{
	lock_all();
	wait_acknowledged(source);
	unlock_all();
}

bool ur_event_is_waiting(const struct ur_event_source *source)
{
	const struct ur_event *event;

	lock_all();
	event = source->channel->first;
	while (event && event->source != source)
		event = event->next;
	unlock_all();
	return event;
}

/* ---- Events ---- */

struct ur_event *ur_event_create(enum rdma_cm_event_type type)
{
	struct ur_event *event = calloc(1, sizeof(*event));

	if (event)
		event->verbs.event = type;
	return event;
}

bool ur_event_post(struct ur_event_source *source, struct ur_event *event)
{
	bool open;

	event->source = source;
	lock_all();
	open = source->channel->verbs.fd >= 0;
	if (open)
		append(source->channel, event);
	unlock_all();
	return open;
}

static struct ur_event *take_first(struct ur_event_channel *channel)
{
	struct ur_event *event;

	lock_all();
	event = take(channel, NULL);
	if (event)
		event->source->unacknowledged++;
	unlock_all();
	return event;
}

static int hold(struct ur_event_channel *channel)
{
	int fd;

	lock_all();
	channel->holders++;
	fd = channel->verbs.fd;
	unlock_all();
	return fd;
}

static void let_go(struct ur_event_channel *channel)
{
	lock_all();
	release(channel);
	unlock_all();
}

/* Some programs, mckey among them, destroy a channel that a thread of theirs waits at. */
struct ur_event *ur_event_read(struct ur_event_channel *channel)
{
	int fd = hold(channel);
	struct ur_event *event = NULL;
	bool closed = false;

	while (!event && !closed) {
		closed = ur_event_fd_take(fd) != 0;
		if (!closed)
			event = take_first(channel);
	}
	let_go(channel);
	return event;
}

void ur_event_acknowledge(struct ur_event *event)
{
	lock_all();
	event->source->unacknowledged--;
	pthread_cond_broadcast(&acknowledged);
	unlock_all();
	free(event);
}
