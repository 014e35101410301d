#define LOG_MODULE "context"

#include "context.h"

#include "context_impl.h"
#include "log.h"
#include "slow_path.h"

const char *rs_ctx_state_name(enum rs_ctx_state state)
{
	static const char *const names[] = {
		[RS_CTX_IDLE] = "Idle",
		[RS_CTX_STARTING] = "Starting",
		[RS_CTX_RUNNING] = "Running",
		[RS_CTX_STOPPING] = "Stopping",
	};

	return (unsigned)state < sizeof(names) / sizeof(names[0]) ? names[state] : "unknown state";
}

bool rs_ctx_is_configurable(const struct rs_ctx *ctx)
{
	return ctx->state == RS_CTX_IDLE && !ctx->start_requested;
}

enum rs_status rs_ctx_set_state_changed_cb(struct rs_ctx *ctx, rs_ctx_state_changed_cb callback)
{
	if (!rs_ctx_is_configurable(ctx))
		return RS_ERR_BAD_STATE;
	ctx->state_changed = callback;
	return RS_OK;
}

void rs_ctx_set_user_data(struct rs_ctx *ctx, void *user_data)
{
	ctx->user_data = user_data;
}

void *rs_ctx_user_data(const struct rs_ctx *ctx)
{
	return ctx->user_data;
}

enum rs_status rs_ctx_start(struct rs_ctx *ctx)
{
	enum rs_status status;

	if (!rs_ctx_is_configurable(ctx) || !ctx->pe)
		return RS_ERR_BAD_STATE;
	status = ctx->ops->start(ctx);
	if (status != RS_OK)
		return status;
	ctx->error = RS_OK;
	ctx->start_requested = true;
	return RS_OK;
}

enum rs_status rs_ctx_stop(struct rs_ctx *ctx)
{
	if (rs_ctx_is_configurable(ctx))
		return RS_ERR_BAD_STATE;
	ctx->stop_requested = true;
	return RS_IN_PROGRESS;
}

void rs_ctx_fail(struct rs_ctx *ctx, enum rs_status error)
{
	if (rs_ctx_stop(ctx) == RS_IN_PROGRESS && ctx->error == RS_OK)
		ctx->error = error;
}

enum rs_ctx_state rs_ctx_state(const struct rs_ctx *ctx)
{
	return ctx->state;
}

size_t rs_ctx_in_flight(const struct rs_ctx *ctx)
{
	return ctx->in_flight;
}

enum rs_status rs_ctx_error(const struct rs_ctx *ctx)
{
	return ctx->error;
}

/*
 * The state machine's table: the state that is due, or the present one. Draining may take several
 * looks.
 */
static enum rs_ctx_state next_state(struct rs_ctx *ctx)
{
	switch (ctx->state) {
	case RS_CTX_IDLE:
		return ctx->start_requested ? RS_CTX_STARTING : RS_CTX_IDLE;
	case RS_CTX_STARTING:
		if (ctx->stop_requested)
			return RS_CTX_STOPPING;
		return ctx->ops->is_ready(ctx) ? RS_CTX_RUNNING : RS_CTX_STARTING;
	case RS_CTX_RUNNING:
		return ctx->stop_requested ? RS_CTX_STOPPING : RS_CTX_RUNNING;
	case RS_CTX_STOPPING:
		return ctx->ops->drain(ctx) ? RS_CTX_IDLE : RS_CTX_STOPPING;
	}
	return ctx->state;
}

static void enter(struct rs_ctx *ctx, enum rs_ctx_state to)
{
	enum rs_ctx_state from = ctx->state;

	ctx->state = to;
	if (to == RS_CTX_STARTING)
		ctx->start_requested = false;
	if (to == RS_CTX_STOPPING)
		ctx->ops->stop(ctx);
	if (to == RS_CTX_IDLE) {
		ctx->ops->release(ctx);
		ctx->stop_requested = false;
	}
	LOG_DEBUG("%s -> %s", rs_ctx_state_name(from), rs_ctx_state_name(to));
	if (ctx->state_changed)
		ctx->state_changed(ctx, from, to, ctx->user_data);
}

/* All transitions that are due. Returns how many there were. */
static RS_SLOW_PATH size_t make_transitions(struct rs_ctx *ctx)
{
	enum rs_ctx_state to;
	size_t count = 0;

	for (; (to = next_state(ctx)) != ctx->state; count++)
		enter(ctx, to);
	return count;
}

size_t rs_ctx_progress(struct rs_ctx *ctx)
{
	size_t handled = ctx->state == RS_CTX_IDLE ? 0 : ctx->ops->progress(ctx);

	/* Nearly always. */
	if (ctx->state == RS_CTX_RUNNING && !ctx->stop_requested)
		return handled;
	return handled + make_transitions(ctx);
}
