/*
 * For what is a context (rdma.c, tests): embed struct rs_ctx and give it these operations.
 */
#ifndef RS_CONTEXT_IMPL_H
#define RS_CONTEXT_IMPL_H

#include <stdbool.h>

#include "context.h"
#include "progress_engine.h"

struct rs_ctx_ops {
	/* Makes the resources, in Idle. On failure nothing is left. */
	enum rs_status (*start)(struct rs_ctx *ctx);
	/* In Starting: whether all that Running needs is there. */
	bool (*is_ready)(const struct rs_ctx *ctx);
	/* On entering Stopping: makes everything in flight come back. */
	void (*stop)(struct rs_ctx *ctx);
	/*
	 * In Stopping: takes back what the device will not return by itself; true once nothing is
	 * in flight.
	 */
	bool (*drain)(struct rs_ctx *ctx);
	/* On leaving Stopping: frees what start made. */
	void (*release)(struct rs_ctx *ctx);
	/* Not Idle: handles what has happened, returns how much. */
	size_t (*progress)(struct rs_ctx *ctx);
	/* Not Idle: asks for a signal on a descriptor that it watches. */
	void (*request_notification)(struct rs_ctx *ctx);
};

struct rs_ctx {
	const struct rs_ctx_ops *ops;
	struct rs_pe *pe;
	struct rs_ctx *next; /* in the engine */
	rs_ctx_state_changed_cb state_changed;
	void *user_data;
	size_t in_flight;
	enum rs_ctx_state state;
	enum rs_status error;
	bool start_requested;
	bool stop_requested;
};

/* Work, then the transitions that are due. Returns how many things were done. */
size_t rs_ctx_progress(struct rs_ctx *ctx);

/* Stops the context by itself, because of error; rs_ctx_error keeps the first one. */
void rs_ctx_fail(struct rs_ctx *ctx, enum rs_status error);

/* Whether it may be configured: Idle and not about to start. */
bool rs_ctx_is_configurable(const struct rs_ctx *ctx);

/*
 * For the destructors of contexts and engines. A context must not go while the engine is inside its
 * callbacks.
 */
bool rs_pe_is_in_callback(const struct rs_pe *pe);
void rs_pe_disconnect_ctx(struct rs_pe *pe, struct rs_ctx *ctx);

#endif
