#include "support.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PEER_GID "::ffff:192.0.2.2"

/* Always the same, so that the lines are; in the future, so that they have no age. */
#define PEER_TIME UINT32_MAX

static char captured[65536];
static size_t captured_used;
static const char *awaited_part;
static void (*awaited_action)(void);

static void capture(enum rs_log_level level, const char *line, void *user_data)
{
	size_t length = strlen(line);

	(void)level;
	(void)user_data;
	if (captured_used + length + 2 > sizeof(captured))
		return;
	memcpy(captured + captured_used, line, length);
	captured_used += length;
	captured[captured_used++] = '\n';
	captured[captured_used] = '\0';
	if (awaited_part && strstr(line, awaited_part)) {
		awaited_part = NULL;
		awaited_action();
	}
}

void log_when(const char *part, void (*action)(void))
{
	awaited_part = part;
	awaited_action = action;
}

void log_forget(void)
{
	captured_used = 0;
	captured[0] = '\0';
}

void log_capture(void)
{
	log_forget();
	awaited_part = NULL;
	rs_log_set_level(RS_LOG_DEBUG);
	rs_log_set_sink(capture, NULL);
}

const char *log_text(void)
{
	return captured;
}

void assert_logged(const char *part)
{
	if (!strstr(captured, part))
		fail_msg("not logged: \"%s\"; but this was:\n%s", part, captured);
}

unsigned log_count(const char *part)
{
	unsigned count = 0;

	for (const char *at = captured; (at = strstr(at, part)) != NULL; at++)
		count++;
	return count;
}

static char folder[64];

const char *temp_create(void)
{
	strcpy(folder, "/tmp/rs-unit-XXXXXX");
	assert_non_null(mkdtemp(folder));
	return folder;
}

const char *temp_path(const char *name)
{
	static char paths[8][256];
	static unsigned next;
	char *path = paths[next++ % 8];

	snprintf(path, sizeof(paths[0]), "%s/%s", folder, name);
	return path;
}

static void remove_all(const char *path)
{
	DIR *dir = opendir(path);
	const struct dirent *entry;
	char inner[512];

	if (!dir)
		return;
	while ((entry = readdir(dir))) {
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		snprintf(inner, sizeof(inner), "%s/%s", path, entry->d_name);
		if (entry->d_type == DT_DIR)
			remove_all(inner);
		else
			unlink(inner);
	}
	closedir(dir);
	rmdir(path);
}

void temp_remove(void)
{
	remove_all(folder);
}

const char *peer_connection_line_of(const char *name, uint64_t id, uint32_t qpn)
{
	static char line[RS_DESCRIPTOR_LINE_SIZE];
	struct fake_port gids = { 0 };
	struct rs_descriptor descriptor = {
		.kind = RS_DESCRIPTOR_CONNECTION,
		.time = PEER_TIME,
		.connection = { .id = id,
				.transport = IBV_QPT_RC,
				.link_layer = IBV_LINK_LAYER_ETHERNET,
				.gid_type = IBV_GID_TYPE_ROCE_V2,
				.qpn = qpn,
				.psn = 0x777,
				.mtu = 4096,
				.reads = 8 },
	};

	fake_set_gid(&gids, 0, PEER_GID, IBV_GID_TYPE_ROCE_V2);
	descriptor.connection.gid = gids.gids[0].gid;
	assert_true(rs_descriptor_is_name(name));
	strcpy(descriptor.connection.name, name);
	rs_descriptor_format(&descriptor, line);
	return line;
}

const char *peer_connection_line(uint32_t qpn)
{
	return peer_connection_line_of(RS_DESCRIPTOR_NO_NAME, 0, qpn);
}

const char *peer_mmap_line(uint64_t address, uint64_t length, uint32_t rkey)
{
	static char line[RS_DESCRIPTOR_LINE_SIZE];
	struct rs_descriptor descriptor = {
		.kind = RS_DESCRIPTOR_MMAP,
		.time = PEER_TIME,
		.mmap = { .addr = address,
			  .len = length,
			  .rkey = rkey,
			  .access = RS_ACCESS_REMOTE_READ | RS_ACCESS_REMOTE_WRITE },
	};

	rs_descriptor_format(&descriptor, line);
	return line;
}

const char *peer_event_line(uint64_t address, uint32_t rkey)
{
	static char line[RS_DESCRIPTOR_LINE_SIZE];
	struct rs_descriptor descriptor = {
		.kind = RS_DESCRIPTOR_EVENT,
		.time = PEER_TIME,
		.event = { .addr = address, .rkey = rkey },
	};

	rs_descriptor_format(&descriptor, line);
	return line;
}

/* ---- A whole instance ---- */

static void record_end(struct rs_task *task, void *ctx_user_data, bool completed)
{
	struct fixture *fixture = ctx_user_data;
	struct end_record *end = rs_task_user_data(task);

	*(completed ? &fixture->completed : &fixture->failed) += 1;
	fixture->last_task = task;
	if (end) {
		*(completed ? &end->completed : &end->failed) += 1;
		end->status = rs_task_status(task);
	}
	if (fixture->on_end)
		fixture->on_end(fixture, task);
}

static void on_completed(struct rs_task *task, void *ctx_user_data)
{
	record_end(task, ctx_user_data, true);
}

static void on_failed(struct rs_task *task, void *ctx_user_data)
{
	record_end(task, ctx_user_data, false);
}

static void on_state_changed(struct rs_ctx *ctx, enum rs_ctx_state from, enum rs_ctx_state to,
			     void *user_data)
{
	struct fixture *fixture = user_data;
	size_t used = strlen(fixture->transitions);

	assert_int_equal(rs_ctx_state(ctx), to);
	snprintf(fixture->transitions + used, sizeof(fixture->transitions) - used, "%s>%s ",
		 rs_ctx_state_name(from), rs_ctx_state_name(to));
	if (fixture->on_state)
		fixture->on_state(fixture, to);
}

static void on_connection_failed(struct rs_connection *connection, enum rs_status reason,
				 void *ctx_user_data)
{
	struct fixture *fixture = ctx_user_data;

	fixture->failed_connections++;
	fixture->last_failed_connection = connection;
	fixture->failure_reason = reason;
}

int fixture_setup(void **state)
{
	struct fixture *fixture = calloc(1, sizeof(*fixture));

	assert_non_null(fixture);
	log_capture();
	fake_reset();
	fake_cm_reset();
	fixture->fake = fake_add_device("fake0");
	fake_cm_set_device(&fixture->fake->verbs);
	assert_ok(rs_device_open(NULL, 0, &fixture->device));
	assert_ok(rs_mmap_create(&fixture->mmap));
	assert_ok(rs_mmap_set_memrange(fixture->mmap, fixture->memory, sizeof(fixture->memory)));
	assert_ok(rs_mmap_set_permissions(fixture->mmap, RS_ACCESS_ALL));
	assert_ok(rs_mmap_add_device(fixture->mmap, fixture->device));
	assert_ok(rs_mmap_start(fixture->mmap));
	assert_ok(rs_mmap_create_from_export(peer_mmap_line(PEER_ADDRESS, PEER_LENGTH, PEER_RKEY),
					     &fixture->remote));
	assert_ok(rs_buf_inventory_create(FIXTURE_BUFS, &fixture->inventory));
	assert_ok(rs_buf_inventory_start(fixture->inventory));
	assert_ok(rs_pe_create(&fixture->pe));
	assert_ok(rs_rdma_create(fixture->device, &fixture->rdma));
	fixture->ctx = rs_rdma_as_ctx(fixture->rdma);
	rs_ctx_set_user_data(fixture->ctx, fixture);
	assert_ok(rs_ctx_set_state_changed_cb(fixture->ctx, on_state_changed));
	assert_ok(rs_rdma_set_connection_failed_cb(fixture->rdma, on_connection_failed));
	for (unsigned op = 0; op < RS_OP_COUNT; op++)
		assert_ok(rs_rdma_set_task_conf(fixture->rdma, (enum rs_op)op, on_completed,
						on_failed, FIXTURE_TASKS));
	assert_ok(rs_pe_connect_ctx(fixture->pe, fixture->ctx));
	fixture->live_before_start = fake_live();
	log_forget();
	*state = fixture;
	return 0;
}

int fixture_teardown(void **state)
{
	struct fixture *fixture = *state;

	fixture->on_end = NULL;
	fixture->on_state = NULL;
	if (rs_ctx_stop(fixture->ctx) == RS_IN_PROGRESS)
		fixture_progress_until(fixture, RS_CTX_IDLE);
	assert_int_equal(rs_ctx_in_flight(fixture->ctx), 0);
	assert_int_equal(rs_buf_inventory_available(fixture->inventory), FIXTURE_BUFS);
	assert_ok(rs_rdma_destroy(fixture->rdma));
	assert_ok(rs_pe_destroy(fixture->pe));
	assert_ok(rs_buf_inventory_destroy(fixture->inventory));
	assert_ok(rs_mmap_destroy(fixture->remote));
	assert_ok(rs_mmap_destroy(fixture->mmap));
	assert_ok(rs_device_close(fixture->device));
	assert_int_equal(fake_live(), 0);
	assert_int_equal(fake_cm_live(), 0);
	rs_log_set_sink(NULL, NULL);
	free(fixture);
	return 0;
}

void fixture_start(struct fixture *fixture)
{
	assert_ok(rs_ctx_start(fixture->ctx));
	rs_pe_progress(fixture->pe);
}

struct rs_connection *fixture_export(struct fixture *fixture)
{
	struct rs_connection *connection;
	const char *line;

	assert_ok(rs_rdma_export(fixture->rdma, &line, &connection));
	return connection;
}

struct rs_connection *fixture_connect(struct fixture *fixture, uint32_t peer_qpn)
{
	struct rs_connection *connection = fixture_export(fixture);

	assert_ok(rs_rdma_connect(fixture->rdma, peer_connection_line(peer_qpn), connection));
	return connection;
}

void fixture_run(struct fixture *fixture, unsigned count)
{
	assert_ok(rs_rdma_set_max_connections(fixture->rdma, count));
	assert_ok(rs_rdma_set_needed_connections(fixture->rdma, count));
	fixture_start(fixture);
	for (unsigned i = 0; i < count; i++)
		fixture->connections[i] = fixture_connect(fixture, 0x100 + i);
	rs_pe_progress(fixture->pe);
	assert_int_equal(rs_ctx_state(fixture->ctx), RS_CTX_RUNNING);
}

void fixture_progress_until(struct fixture *fixture, enum rs_ctx_state state)
{
	/* At least once: what is about to start is still Idle. */
	for (int i = 0; i == 0 || (i < 1000 && rs_ctx_state(fixture->ctx) != state); i++)
		rs_pe_progress(fixture->pe);
	assert_string_equal(rs_ctx_state_name(rs_ctx_state(fixture->ctx)),
			    rs_ctx_state_name(state));
}

void fixture_stop(struct fixture *fixture)
{
	assert_status(rs_ctx_stop(fixture->ctx), RS_IN_PROGRESS);
	fixture_progress_until(fixture, RS_CTX_IDLE);
}

struct ibv_qp *fixture_qp(const struct fixture *fixture, unsigned connection)
{
	return rs_connection_qp(fixture->connections[connection]);
}

static uint64_t address_of(const struct fixture *fixture, size_t offset)
{
	return (uintptr_t)fixture->memory + offset;
}

struct rs_buf *fixture_data(struct fixture *fixture, size_t offset, size_t length)
{
	struct rs_buf *buf;

	assert_ok(rs_buf_get_by_data(fixture->inventory, fixture->mmap, address_of(fixture, offset),
				     length, &buf));
	return buf;
}

struct rs_buf *fixture_room(struct fixture *fixture, size_t offset, size_t length)
{
	struct rs_buf *buf;

	assert_ok(rs_buf_get_by_address(fixture->inventory, fixture->mmap,
					address_of(fixture, offset), length, &buf));
	return buf;
}

struct rs_buf *fixture_peer_data(struct fixture *fixture, size_t offset, size_t length)
{
	struct rs_buf *buf;

	assert_ok(rs_buf_get_by_data(fixture->inventory, fixture->remote, PEER_ADDRESS + offset,
				     length, &buf));
	return buf;
}

struct rs_buf *fixture_peer_room(struct fixture *fixture, size_t offset, size_t length)
{
	struct rs_buf *buf;

	assert_ok(rs_buf_get_by_address(fixture->inventory, fixture->remote, PEER_ADDRESS + offset,
					length, &buf));
	return buf;
}

struct rs_task *fixture_submit_send(struct fixture *fixture, size_t length, struct end_record *end)
{
	struct rs_task *task;

	assert_ok(rs_task_alloc_send(fixture->rdma, fixture->connections[0],
				     fixture_data(fixture, 0, length), end, &task));
	assert_ok(rs_task_submit(task));
	return task;
}

struct rs_task *fixture_submit_receive(struct fixture *fixture, size_t offset, size_t length,
				       struct end_record *end)
{
	struct rs_task *task;

	assert_ok(rs_task_alloc_receive(fixture->rdma, fixture_room(fixture, offset, length), end,
					&task));
	assert_ok(rs_task_submit(task));
	return task;
}

void fixture_free_task(struct rs_task *task)
{
	struct rs_buf *source = rs_task_source(task);
	struct rs_buf *destination = rs_task_destination(task);

	assert_ok(rs_task_free(task));
	rs_buf_unref(source);
	rs_buf_unref(destination);
}
