/*
 * Sample: what every program of the suite shares, so that its own text is only what it shows.
 *
 * The calls of a sample follow each other without checks in between: each does nothing once an
 * error has been recorded, and the first error decides what sample_end returns. A sample reads:
 *
 *   sample_begin -> sample_open_device -> sample_create_…_mmap or _event ->
 *   sample_create_progress_engine -> sample_create_rdma -> sample_configure_task … ->
 *   sample_start -> sample_run -> sample_end
 *
 * and its steps are called on the way: on_starting makes the connection, on_running submits tasks
 * or waits for the peer. After the last task the context stops.
 */
#ifndef RS_SAMPLE_H
#define RS_SAMPLE_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "address.h"
#include "backoff.h"
#include "buf.h"
#include "exchange.h"
#include "input.h"
#include "mmap.h"
#include "options.h"
#include "progress_engine.h"
#include "rdma.h"
#include "sync_event.h"

/* Room for any text of a sample, with its terminator. */
#define SAMPLE_TEXT_SIZE (OPTIONS_MAX_TEXT + 1)

struct sample;

/* Something that a sample does at its time. */
typedef void (*sample_step)(struct sample *sample);

struct sample {
	const struct options *options;
	enum rs_status first_error;

	struct rs_device *device;
	char *memory;
	struct rs_mmap *mmap;        /* over memory */
	struct rs_sync_event *event; /* where the sample has one in place of a map */
	struct rs_pe *pe;
	struct rs_rdma *rdma;
	struct rs_ctx *ctx; /* rdma's */
	struct rs_buf_inventory *inventory;
	struct rs_connection **connections; /* options->num_connections of them, once exported */
	struct rs_mmap *remote_mmap;        /* the peer's memory, where the sample uses it */
	struct rs_sync_event_remote *remote_event; /* or the peer's event */
	size_t remaining_tasks;
	bool receives; /* its tasks are receives */
	sample_step on_starting;
	sample_step on_running;

	struct rs_input input;
	struct rs_exchange *exchange;
	const char *resource_line;                      /* of mmap or event, once exported */
	char (*peer_lines)[RS_DESCRIPTOR_LINE_SIZE];    /* of its connections, by number */
	union rs_address server_address;                /* for a client */
	char peer_resource[1][RS_DESCRIPTOR_LINE_SIZE]; /* of its map or event */

	sigset_t signals_before;
	int signal_fd;
	int signal;            /* the one that asked the program to end, or 0 */
	int64_t signal_time;   /* when that came, milliseconds */
	int64_t deadline;      /* of the wait for the peer, milliseconds; 0: none */
	const char *complaint; /* when that has passed: what did not happen */
	sample_step on_answer; /* of the user */
	bool asks_for_signal;  /* and only a signal can be that answer */
	bool awaits_messages;  /* of each connection one */
	bool finishes;         /* only the peers' ends are waited for */
	size_t lost_messages;  /* that will not come any more */
	enum rs_status loss;   /* why something went wrong that did not stop the others */
	struct rs_backoff backoff;

	char device_name[IBV_SYSFS_NAME_MAX]; /* "": none was opened */
	json_t *result;                       /* what was printed, for --json; else NULL */
};

/* A program's main(): reads the command line, runs the sample, returns the exit status. */
int sample_main(const struct program *program, int (*run)(const struct options *options), int argc,
		char **argv);

/*
 * Sets up what does not depend on RDMA: signals (they end the program cleanly), standard input, the
 * exchange.
 */
void sample_begin(struct sample *sample, const struct options *options);

/* Opens the device that the user named, or the best one; it must support ops (set of RS_OP_BIT). */
void sample_open_device(struct sample *sample, uint32_t ops);

/*
 * Memory and its map. access: set of enum rs_access. The memory holds the text of the command line
 * with its terminator; or room for count texts, which nothing is in yet that could be taken for a
 * text; or count 64-bit words of value 0.
 */
void sample_create_text_mmap(struct sample *sample, uint32_t access);
void sample_create_room_mmap(struct sample *sample, size_t count, uint32_t access);
void sample_create_word_mmap(struct sample *sample, size_t count, uint32_t access);

/* A sync event of value 0. */
void sample_create_event(struct sample *sample);

void sample_create_progress_engine(struct sample *sample);

/*
 * An instance that lets the peer do access, waits for all connections (options->num_connections),
 * and is attached to the engine.
 */
void sample_create_rdma(struct sample *sample, uint32_t access);

/* count tasks of type op. */
void sample_configure_task(struct sample *sample, enum rs_op op, rs_task_cb completed,
			   rs_task_cb failed, size_t count);

/* No connection has more than count requests in flight: its send queue need not be longer. */
void sample_limit_sends(struct sample *sample, unsigned count);

/*
 * Sets the state-change callback (it logs, and calls on_starting in Starting, on_running in
 * Running) and the sample as user data, makes an inventory of bufs handles, starts the context.
 */
void sample_start(struct sample *sample, sample_step on_starting, sample_step on_running,
		  size_t bufs);

/* Progresses until the context is Idle again: all done, an error, or a signal. */
void sample_run(struct sample *sample);

/* Frees everything, prints the JSON object if asked for, and returns the program's exit status. */
int sample_end(struct sample *sample);

/* ---- In the steps and callbacks ---- */

/*
 * Records an error (the first one counts) and stops the context. RS_OK and RS_IN_PROGRESS do
 * nothing.
 */
void sample_record(struct sample *sample, enum rs_status status);

bool sample_has_failed(const struct sample *sample);

/* All is done: stops the context. */
void sample_stop(struct sample *sample);

/*
 * All is done here, by what the peer's device has sent: it may still wait for the last
 * acknowledgement. A connection by address is the peer's to end, then the context stops.
 */
void sample_finish(struct sample *sample);

/*
 * Starting, on the side whose memory or event the peer works on: its descriptor is to be published
 * too.
 */
void sample_export_mmap(struct sample *sample);
void sample_export_event(struct sample *sample);

/*
 * Starting: makes the connections, by descriptors (publishes what was exported, collects the peer's,
 * connects) or by address (listens, or connects with the server).
 */
void sample_connect(struct sample *sample);

/* Running: makes remote_mmap, or remote_event, of what the peer has published. */
void sample_import_mmap(struct sample *sample);
void sample_import_event(struct sample *sample);

/*
 * Running: waits until the user says that the peer has finished (Enter or the end of input, or the
 * signal that ends the program where there is no input), or until the peer has ended a connection
 * that was made by address; then calls on_answer.
 */
void sample_wait_for_user(struct sample *sample, sample_step on_answer);

/* Running: says that receives are waiting for their messages; they end by themselves. */
void sample_wait_for_message(struct sample *sample);

/*
 * Running: waits (here, not in sample_run) until the event is greater than threshold; prints what
 * it is then.
 */
void sample_wait_for_event(struct sample *sample, const char *label, uint64_t threshold);

/* A pause before looking once more at what the peer has: short at first, then longer. */
void sample_pause(struct sample *sample);

/* ---- Memory and buffers ---- */

/* The 64-bit word of the sample's memory, which a device may have written. */
uint64_t sample_word(const struct sample *sample, size_t index);
void sample_set_word(struct sample *sample, size_t index, uint64_t value);

/*
 * Buffers from the inventory: over the sample's text; over the index-th piece of length bytes of
 * the sample's map, as data or as room; over all of the peer's map. NULL when an error was or is
 * recorded. The task's end frees them.
 */
struct rs_buf *sample_text_data(struct sample *sample);
struct rs_buf *sample_local_data(struct sample *sample, size_t index, size_t length);
struct rs_buf *sample_local_room(struct sample *sample, size_t index, size_t length);
struct rs_buf *sample_remote_data(struct sample *sample);
struct rs_buf *sample_remote_room(struct sample *sample);

/* ---- Tasks ---- */

/*
 * Submits a task that was just allocated, and counts it in remaining_tasks. allocated: the status
 * of its allocation. On an error the task (if there is one) and the buffers are freed.
 */
void sample_submit(struct sample *sample, enum rs_status allocated, struct rs_task *task,
		   struct rs_buf *source, struct rs_buf *destination);

/*
 * A receive into the index-th piece of SAMPLE_TEXT_SIZE bytes of the sample's map. From Starting
 * on; before the peer can send, or its sends fail.
 */
void sample_submit_receive(struct sample *sample, size_t index);

/*
 * Submits a task that has come back; its destination is empty again. Does not count it. False: an
 * error was or is recorded, and the task did not go.
 */
bool sample_submit_again(struct sample *sample, struct rs_task *task);

/* The message of this connection has come. */
void sample_message_came(struct rs_connection *connection);

/* Frees a task and its buffers. */
void sample_free_task(struct rs_task *task);

/* One task less remains; after the last one the context is stopped. */
void sample_count_down(struct sample *sample);

/*
 * Task callbacks: the task has come back, well or badly: free it and count down the number that is
 * its user data.
 */
void sample_finish_task(struct rs_task *task, void *sample_data);
void sample_fail_task(struct rs_task *task, void *sample_data);

/* The same of one of several connections: the program fails, but goes on with the others. */
void sample_lose_task(struct rs_task *task, void *sample_data);

/* ---- Results, on standard output ---- */

/* Checks that a receive got what the sample expects. */
void sample_check_opcode(struct sample *sample, const struct rs_task *receive,
			 enum rs_receive_opcode expected);

/* The text that this program was given. */
void sample_print_own_text(struct sample *sample, const char *label);

/* Data of the peer: checks that it is a text, terminated and valid UTF-8. */
void sample_print_received(struct sample *sample, const char *label, const struct rs_buf *buf);

/* The same, of the first length bytes of the sample's memory, which the peer has written to. */
void sample_print_written(struct sample *sample, const char *label, size_t length);

/* The same for samples with several connections. */
void sample_print_own_text_on(struct sample *sample, const char *label,
			      const struct rs_connection *connection);
void sample_print_received_on(struct sample *sample, const char *label,
			      const struct rs_connection *connection, const struct rs_buf *buf);

void sample_print_immediate(struct sample *sample, uint32_t immediate);
void sample_print_value(struct sample *sample, const char *label, uint64_t value);

#endif
