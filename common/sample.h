/*
 * Sample: what every program of the suite shares, so that its own text is only what it shows.
 *
 * The calls of a sample follow each other without checks in between: each does nothing once an
 * error has been recorded, and the first error decides what sample_end returns. A sample reads:
 *
 *   sample_begin -> sample_open_device -> sample_create_mmap -> sample_create_progress_engine ->
 *   sample_create_rdma -> sample_configure_task … -> sample_start -> sample_run -> sample_end
 */
#ifndef RS_SAMPLE_H
#define RS_SAMPLE_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "buf.h"
#include "exchange.h"
#include "input.h"
#include "mmap.h"
#include "options.h"
#include "progress_engine.h"
#include "rdma.h"

/* Memory of a sample: its text with the terminator. */
#define SAMPLE_MEMORY_SIZE (OPTIONS_MAX_TEXT + 1)

struct sample {
	const struct options *options;
	enum rs_status first_error;

	struct rs_device *device;
	struct rs_mmap *mmap; /* over memory */
	struct rs_pe *pe;
	struct rs_rdma *rdma;
	struct rs_ctx *ctx; /* rdma's */
	struct rs_buf_inventory *inventory;
	struct rs_connection *connection;
	struct rs_mmap *remote_mmap; /* the peer's memory, where the sample uses it */
	size_t remaining_tasks;

	struct rs_input input;
	struct rs_exchange *exchange;
	const char *mmap_line;                            /* of mmap, once exported */
	char connection_line[1][RS_DESCRIPTOR_LINE_SIZE]; /* the peer's */
	char resource_line[1][RS_DESCRIPTOR_LINE_SIZE];   /* the peer's map */

	sigset_t signals_before;
	int signal_fd;
	int signal;          /* the one that asked the program to end, or 0 */
	int64_t signal_time; /* when that came, milliseconds */
	int64_t deadline;    /* of the wait for the peer, milliseconds; 0: none */
	const char *awaited; /* how that wait is described, after the peer's name */

	char device_name[IBV_SYSFS_NAME_MAX]; /* "": none was opened */
	bool has_result;
	char result[SAMPLE_MEMORY_SIZE]; /* the text for --json */
	char memory[SAMPLE_MEMORY_SIZE];
};

/*
 * Sets up what does not depend on RDMA: signals (they end the program cleanly), standard input, the
 * exchange.
 */
void sample_begin(struct sample *sample, const struct options *options);

/* Opens the device that the user named, or the best one; it must support ops (set of RS_OP_BIT). */
void sample_open_device(struct sample *sample, uint32_t ops);

/* Maps the first length bytes of the sample's memory. access: set of enum rs_access. */
void sample_create_mmap(struct sample *sample, size_t length, uint32_t access);

void sample_create_progress_engine(struct sample *sample);

/*
 * An instance that lets the peer do access, waits for one connection, and is attached to the
 * engine.
 */
void sample_create_rdma(struct sample *sample, uint32_t access);

/* count tasks of type op. */
void sample_configure_task(struct sample *sample, enum rs_op op, rs_task_cb completed,
			   rs_task_cb failed, size_t count);

/*
 * Sets the callback and the sample as user data, makes an inventory of bufs handles, starts the
 * context.
 */
void sample_start(struct sample *sample, rs_ctx_state_changed_cb state_changed, size_t bufs);

/* Progresses until the context is Idle again: all done, an error, or a signal. */
void sample_run(struct sample *sample);

/* Frees everything, prints the JSON object if asked for, and returns the program's exit status. */
int sample_end(struct sample *sample);

/* ---- In callbacks ---- */

/*
 * Records an error (the first one counts) and stops the context. RS_OK and RS_IN_PROGRESS do
 * nothing.
 */
void sample_record(struct sample *sample, enum rs_status status);

bool sample_has_failed(const struct sample *sample);

/* Logs the transition; in Running, the wait for the peer (--timeout) begins anew. */
void sample_log_state(struct sample *sample, enum rs_ctx_state from, enum rs_ctx_state to);

/*
 * Starting, on the side whose memory the peer works on: its map's descriptor is to be published
 * too.
 */
void sample_export_mmap(struct sample *sample);

/* Starting: makes the connection, publishes what was exported, collects the peer's, connects. */
void sample_export_and_connect(struct sample *sample);

/* Running: makes remote_mmap of the map that the peer has published. */
void sample_import_mmap(struct sample *sample);

/*
 * Running: waits until the user says that the peer has finished (Enter or the end of input), then
 * stops the context.
 */
void sample_wait_for_user(struct sample *sample);

/*
 * Buffers from the inventory over the sample's map: its first length bytes as data, or all of it as
 * room; and over the peer's map: all of it as data, or as room. NULL when an error was or is
 * recorded. The task's end frees them.
 */
struct rs_buf *sample_local_data(struct sample *sample, size_t length);
struct rs_buf *sample_local_room(struct sample *sample);
struct rs_buf *sample_remote_data(struct sample *sample);
struct rs_buf *sample_remote_room(struct sample *sample);

/*
 * Submits a task that was allocated with remaining_tasks as its user data, and counts it there.
 * allocated: the status of its allocation. On an error the task (if there is one) and the buffers
 * are freed.
 */
void sample_submit(struct sample *sample, enum rs_status allocated, struct rs_task *task,
		   struct rs_buf *source, struct rs_buf *destination);

/* Checks that the buffer's data is a text, terminated and valid UTF-8, and prints it after label.
 */
void sample_print_received(struct sample *sample, const char *label, const struct rs_buf *buf);

/*
 * The task has come back, well or badly: frees it and its buffers; after the last one the context
 * is stopped.
 */
void sample_finish_task(struct sample *sample, struct rs_task *task);
void sample_fail_task(struct sample *sample, struct rs_task *task);

#endif
