/*
 * Context: the life of something that works in the background, driven by a progress engine.
 *
 *          rs_ctx_start            all connections up
 *   IDLE ---------------> STARTING -------------------> RUNNING
 *    ^                        | rs_ctx_stop or error        | rs_ctx_stop or fatal error
 *    |  nothing in flight     v                             v
 *    +-------------------  STOPPING <-----------------------+
 *
 * Transitions happen inside rs_pe_progress, in order, and the callback hears of each.
 */
#ifndef RS_CONTEXT_H
#define RS_CONTEXT_H

#include <stddef.h>

#include "status.h"

enum rs_ctx_state { RS_CTX_IDLE, RS_CTX_STARTING, RS_CTX_RUNNING, RS_CTX_STOPPING };

struct rs_ctx;

/*
 * Called after each transition, with the context's user data. It may call anything but
 * rs_pe_progress and rs_pe_wait.
 */
typedef void (*rs_ctx_state_changed_cb)(struct rs_ctx *ctx, enum rs_ctx_state from,
					enum rs_ctx_state to, void *user_data);

/* "Idle", "Starting", … Never NULL. */
const char *rs_ctx_state_name(enum rs_ctx_state state);

/* RS_ERR_BAD_STATE: not Idle, or about to start. */
enum rs_status rs_ctx_set_state_changed_cb(struct rs_ctx *ctx, rs_ctx_state_changed_cb callback);

/* Handed to every callback of the context. Allowed in any state. */
void rs_ctx_set_user_data(struct rs_ctx *ctx, void *user_data);
void *rs_ctx_user_data(const struct rs_ctx *ctx);

/*
 * Makes what the context needs and begins the way to Running; the next rs_pe_progress makes the
 * first transition. RS_ERR_BAD_STATE: not Idle, or attached to no engine. On any error nothing is
 * left behind.
 */
enum rs_status rs_ctx_start(struct rs_ctx *ctx);

/*
 * Begins the way to Idle: connections go to error, each task in flight comes back through its
 * failure callback with RS_ERR_FLUSHED (unless it completes first), then the context's resources
 * are freed. Then it can start again. Always RS_IN_PROGRESS (also when it is Stopping already):
 * progress until Idle. RS_ERR_BAD_STATE: it is Idle.
 */
enum rs_status rs_ctx_stop(struct rs_ctx *ctx);

enum rs_ctx_state rs_ctx_state(const struct rs_ctx *ctx);

/* Tasks submitted that have not come back. */
size_t rs_ctx_in_flight(const struct rs_ctx *ctx);

/*
 * Why the context stopped by itself (all connections lost, device failed), or RS_OK. Kept until the
 * next start.
 */
enum rs_status rs_ctx_error(const struct rs_ctx *ctx);

#endif
