/*
 * What many tests share: captured log lines, a temporary folder, descriptors of a peer, and a
 * whole instance.
 */
#ifndef SUPPORT_H
#define SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "buf.h"
#include "descriptor.h"
#include "fake_rdmacm.h"
#include "fake_verbs.h"
#include "log.h"
#include "mmap.h"
#include "progress_engine.h"
#include "rdma.h"

#define assert_status(call, expected) \
	assert_string_equal(rs_status_name(call), rs_status_name(expected))
#define assert_ok(call) assert_status(call, RS_OK)

/* Captures the log from now on, all levels; forgets what was captured. */
void log_capture(void);
/* All lines since then, each with a newline, up to a limit. */
const char *log_text(void);
void log_forget(void);
void assert_logged(const char *part);
/* Calls action once, when a line that contains part is logged. */
void log_when(const char *part, void (*action)(void));
/* Lines that contain part. */
unsigned log_count(const char *part);

/* Makes a temporary folder, removed with all files in it by temp_remove. */
const char *temp_create(void);
void temp_remove(void);
/* folder/name; up to 8 of these are valid at a time. */
const char *temp_path(const char *name);

/*
 * Lines as a peer would export them. The returned text is valid until the next call for a line of
 * the same kind.
 */
const char *peer_connection_line_of(const char *name, uint64_t id, uint32_t qpn);
/* Of a program that gave no name, with the number 0. */
const char *peer_connection_line(uint32_t qpn);
const char *peer_mmap_line(uint64_t address, uint64_t length, uint32_t rkey);
const char *peer_event_line(uint64_t address, uint32_t rkey);

/* ---- A whole instance ---- */

#define FIXTURE_MEMORY 4096
#define FIXTURE_BUFS   32
#define FIXTURE_TASKS  4

#define PEER_ADDRESS UINT64_C(0x7f0000001000)
#define PEER_LENGTH  4096
#define PEER_RKEY    0x1234

/* How often a task came back, and what it ended with the last time. */
struct end_record {
	unsigned completed;
	unsigned failed;
	enum rs_status status;
};

struct fixture {
	struct fake_device *fake;
	struct rs_device *device;
	struct rs_mmap *mmap;
	struct rs_mmap *remote;
	struct rs_buf_inventory *inventory;
	struct rs_pe *pe;
	struct rs_rdma *rdma;
	struct rs_ctx *ctx;
	struct rs_connection *connections[4];
	unsigned live_before_start;

	/* What happened. A task whose user data is set has its struct end_record there. */
	unsigned completed;
	unsigned failed;
	struct rs_task *last_task;
	char transitions[256]; /* "Idle>Starting Starting>Running " … */
	unsigned failed_connections;
	struct rs_connection *last_failed_connection;
	enum rs_status failure_reason;

	/* Called, if set, by the task callbacks and at each transition. */
	void (*on_end)(struct fixture *fixture, struct rs_task *task);
	void (*on_state)(struct fixture *fixture, enum rs_ctx_state to);

	char memory[FIXTURE_MEMORY];
};

/*
 * cmocka setup and teardown: an instance with FIXTURE_TASKS tasks of each type, attached, not
 * started; state: fixture.
 */
int fixture_setup(void **state);
/* Stops what runs, destroys all, and fails the test if an object of a fake is left. */
int fixture_teardown(void **state);

void fixture_start(struct fixture *fixture);
/* Starts, needing count connections, and connects them: Running. */
void fixture_run(struct fixture *fixture, unsigned count);
struct rs_connection *fixture_export(struct fixture *fixture);
struct rs_connection *fixture_connect(struct fixture *fixture, uint32_t peer_qpn);
/* Stops and progresses until Idle, or fails the test. */
void fixture_stop(struct fixture *fixture);
void fixture_progress_until(struct fixture *fixture, enum rs_ctx_state state);

struct ibv_qp *fixture_qp(const struct fixture *fixture, unsigned connection);

/* Buffers over the fixture's memory or the peer's, by offset. The test gives them back. */
struct rs_buf *fixture_data(struct fixture *fixture, size_t offset, size_t length);
struct rs_buf *fixture_room(struct fixture *fixture, size_t offset, size_t length);
struct rs_buf *fixture_peer_data(struct fixture *fixture, size_t offset, size_t length);
struct rs_buf *fixture_peer_room(struct fixture *fixture, size_t offset, size_t length);

/*
 * A send on connection 0 or a receive, of length bytes at offset, in flight. fixture_free_task
 * undoes it.
 */
struct rs_task *fixture_submit_send(struct fixture *fixture, size_t length, struct end_record *end);
struct rs_task *fixture_submit_receive(struct fixture *fixture, size_t offset, size_t length,
				       struct end_record *end);

/* Frees the task and gives back its buffers. */
void fixture_free_task(struct rs_task *task);

#endif
