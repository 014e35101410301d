#define LOG_MODULE "progress_engine"

#include "progress_engine.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "context_impl.h"
#include "log.h"
#include "slow_path.h"

/* A polling program pays for a look at the watched descriptors only once in so many rounds. */
#define ROUNDS_PER_LOOK 1024

#define EVENTS_PER_LOOK 16

struct watch {
	int fd;
	rs_pe_readable_cb on_readable;
	void *user_data;
	struct watch *next;
};

struct rs_pe {
	int epoll_fd;
	struct rs_ctx *contexts;
	struct watch *watches;
	unsigned rounds;
	bool in_callbacks;
};

enum rs_status rs_pe_create(struct rs_pe **pe)
{
	struct rs_pe *created = calloc(1, sizeof(*created));

	if (!created)
		return RS_ERR_NO_MEMORY;
	created->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (created->epoll_fd < 0) {
		free(created);
		return LOG_FAILED_SYSTEM_CALL(errno, "epoll_create1()");
	}
	*pe = created;
	return RS_OK;
}

enum rs_status rs_pe_destroy(struct rs_pe *pe)
{
	if (!pe)
		return RS_OK;
	if (pe->in_callbacks)
		return RS_ERR_BAD_STATE;
	for (const struct rs_ctx *ctx = pe->contexts; ctx; ctx = ctx->next)
		if (!rs_ctx_is_configurable(ctx))
			return RS_ERR_IN_USE;
	while (pe->contexts)
		rs_pe_disconnect_ctx(pe, pe->contexts);
	while (pe->watches)
		rs_pe_unwatch(pe, pe->watches->fd);
	close(pe->epoll_fd);
	free(pe);
	return RS_OK;
}

enum rs_status rs_pe_connect_ctx(struct rs_pe *pe, struct rs_ctx *ctx)
{
	if (ctx->pe || !rs_ctx_is_configurable(ctx))
		return RS_ERR_BAD_STATE;
	ctx->pe = pe;
	ctx->next = pe->contexts;
	pe->contexts = ctx;
	return RS_OK;
}

void rs_pe_disconnect_ctx(struct rs_pe *pe, struct rs_ctx *ctx)
{
	struct rs_ctx **link = &pe->contexts;

	while (*link != ctx)
		link = &(*link)->next;
	*link = ctx->next;
	ctx->next = NULL;
	ctx->pe = NULL;
}

static struct watch **find_watch(struct rs_pe *pe, int fd)
{
	struct watch **link = &pe->watches;

	while (*link && (*link)->fd != fd)
		link = &(*link)->next;
	return link;
}

enum rs_status rs_pe_watch(struct rs_pe *pe, int fd, rs_pe_readable_cb on_readable, void *user_data)
{
	struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };
	struct watch *watch;

	if (*find_watch(pe, fd))
		return RS_ERR_IN_USE;
	watch = malloc(sizeof(*watch));
	if (!watch)
		return RS_ERR_NO_MEMORY;
	if (epoll_ctl(pe->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0) {
		free(watch);
		/*
		 * The answer for files that are always ready; whether that matters is the caller's
		 * to say.
		 */
		if (errno == EPERM)
			return RS_ERR_NOT_SUPPORTED;
		return LOG_FAILED_SYSTEM_CALL(errno, "epoll_ctl(EPOLL_CTL_ADD, descriptor %d)", fd);
	}
	*watch = (struct watch){ fd, on_readable, user_data, pe->watches };
	pe->watches = watch;
	return RS_OK;
}

void rs_pe_unwatch(struct rs_pe *pe, int fd)
{
	struct watch **link = find_watch(pe, fd);
	struct watch *watch = *link;

	if (!watch)
		return;
	epoll_ctl(pe->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
	*link = watch->next;
	free(watch);
}

/*
 * Waits for watched descriptors and handles those that are readable. Returns how many, or -1 with
 * errno.
 */
static int handle_watches(struct rs_pe *pe, int timeout)
{
	struct epoll_event events[EVENTS_PER_LOOK];
	int count = epoll_wait(pe->epoll_fd, events, EVENTS_PER_LOOK, timeout);

	for (int i = 0; i < count; i++) {
		/* Looked up again: the callback before may have ended this watch. */
		struct watch *watch = *find_watch(pe, events[i].data.fd);

		if (watch)
			watch->on_readable(watch->fd, watch->user_data);
	}
	return count;
}

static RS_SLOW_PATH size_t look_at_watches(struct rs_pe *pe)
{
	int count = handle_watches(pe, 0);

	return count > 0 ? (size_t)count : 0;
}

static size_t progress_contexts(struct rs_pe *pe)
{
	size_t handled = 0;

	for (struct rs_ctx *ctx = pe->contexts; ctx; ctx = ctx->next)
		handled += rs_ctx_progress(ctx);
	return handled;
}

size_t rs_pe_progress(struct rs_pe *pe)
{
	size_t handled;

	if (pe->in_callbacks)
		return 0;
	pe->in_callbacks = true;
	handled = progress_contexts(pe);
	if (++pe->rounds % ROUNDS_PER_LOOK == 0)
		handled += look_at_watches(pe);
	pe->in_callbacks = false;
	return handled;
}

bool rs_pe_is_in_callback(const struct rs_pe *pe)
{
	return pe->in_callbacks;
}

int rs_pe_fd(const struct rs_pe *pe)
{
	return pe->epoll_fd;
}

size_t rs_pe_request_notification(struct rs_pe *pe)
{
	for (struct rs_ctx *ctx = pe->contexts; ctx; ctx = ctx->next)
		if (ctx->state != RS_CTX_IDLE)
			ctx->ops->request_notification(ctx);
	return rs_pe_progress(pe);
}

void rs_pe_clear_notification(struct rs_pe *pe)
{
	if (pe->in_callbacks)
		return;
	pe->in_callbacks = true;
	handle_watches(pe, 0);
	pe->in_callbacks = false;
}

static enum rs_status sleep_and_handle(struct rs_pe *pe, int timeout)
{
	enum rs_status status;
	int count;

	pe->in_callbacks = true;
	count = handle_watches(pe, timeout);
	if (count >= 0)
		status = count > 0 ? RS_OK : RS_ERR_TIMED_OUT;
	else if (errno == EINTR)
		status = RS_ERR_INTERRUPTED;
	else
		status = LOG_FAILED_SYSTEM_CALL(errno, "epoll_wait()");
	if (progress_contexts(pe) > 0)
		status = RS_OK;
	pe->in_callbacks = false;
	return status;
}

enum rs_status rs_pe_wait(struct rs_pe *pe, int timeout)
{
	if (pe->in_callbacks)
		return RS_ERR_BAD_STATE;
	if (rs_pe_progress(pe) > 0 || rs_pe_request_notification(pe) > 0)
		return RS_OK;
	return sleep_and_handle(pe, timeout);
}
