/*
 * Progress engine: what drives contexts. Callbacks run inside its calls and nowhere else, in the
 * thread that calls.
 *
 * Three ways to use it:
 *   polling            while (…) rs_pe_progress(pe);
 *   sleeping           while (…) rs_pe_wait(pe, timeout);
 *   an outer loop      wait until rs_pe_fd(pe) is readable, then: rs_pe_clear_notification(pe);
 *                      do { while (rs_pe_progress(pe)); } while (rs_pe_request_notification(pe));
 *                      and this once as well after a call from outside the callbacks that has work
 *                      for the engine (rs_ctx_start, rs_ctx_stop, rs_rdma_connect): it gives no signal
 */
#ifndef RS_PROGRESS_ENGINE_H
#define RS_PROGRESS_ENGINE_H

#include <stddef.h>

#include "status.h"

struct rs_ctx;
struct rs_pe;

/* The caller destroys it. */
enum rs_status rs_pe_create(struct rs_pe **pe);

/*
 * RS_ERR_IN_USE while a context that is not Idle is attached; Idle ones are detached.
 * RS_ERR_BAD_STATE: in a callback. NULL is allowed.
 */
enum rs_status rs_pe_destroy(struct rs_pe *pe);

/*
 * Attaches a context; it must be Idle and attached to none (RS_ERR_BAD_STATE). It is detached when
 * either is destroyed.
 */
enum rs_status rs_pe_connect_ctx(struct rs_pe *pe, struct rs_ctx *ctx);

/*
 * Handles what has happened: completions, connection events, state transitions. Never blocks.
 * Returns how many things were handled; 0: there was nothing to do (also inside a callback: it does
 * not nest).
 */
size_t rs_pe_progress(struct rs_pe *pe);

/*
 * Sleeps until there is something to handle, and handles it. timeout: milliseconds; -1: for ever;
 * 0: not at all. RS_OK; RS_ERR_TIMED_OUT: nothing came; RS_ERR_INTERRUPTED: a signal handler ran;
 * RS_ERR_BAD_STATE: in a callback.
 */
enum rs_status rs_pe_wait(struct rs_pe *pe, int timeout);

/*
 * For an outer event loop: a descriptor that becomes readable after rs_pe_request_notification. It
 * stays the engine's.
 */
int rs_pe_fd(const struct rs_pe *pe);

/*
 * Asks the devices to signal rs_pe_fd for what happens from now on, then progresses once more,
 * since what happened before gives no signal. Returns what that handled: sleep only if it is 0.
 */
size_t rs_pe_request_notification(struct rs_pe *pe);

/*
 * Takes the signals back from rs_pe_fd, so that it is no longer readable. Handles watched
 * descriptors.
 */
void rs_pe_clear_notification(struct rs_pe *pe);

/*
 * Watches another descriptor (a signalfd, standard input, an event channel): while it is readable,
 * rs_pe_wait calls on_readable, and rs_pe_progress does every now and then. on_readable must read
 * it, or it is called again at once. RS_ERR_NOT_SUPPORTED: it is of a kind that cannot be waited
 * for (a regular file, /dev/null); RS_ERR_IN_USE: it is watched already.
 */
typedef void (*rs_pe_readable_cb)(int fd, void *user_data);
enum rs_status rs_pe_watch(struct rs_pe *pe, int fd, rs_pe_readable_cb on_readable,
			   void *user_data);

/*
 * Ends that; allowed in on_readable. Nothing happens if fd is not watched. Call it before the
 * descriptor is closed.
 */
void rs_pe_unwatch(struct rs_pe *pe, int fd);

#endif
