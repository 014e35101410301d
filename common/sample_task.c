#include "sample_impl.h"

#include <string.h>

#include "log.h"

/* ---- Buffers ---- */

typedef enum rs_status (*get_buf)(struct rs_buf_inventory *inventory, struct rs_mmap *mmap,
				  uint64_t address, size_t length, struct rs_buf **buf);

static struct rs_buf *take_buf(struct sample *sample, struct rs_mmap *mmap, size_t offset,
			       size_t length, get_buf get)
{
	struct rs_buf *buf = NULL;
	uint64_t address;
	size_t map_length;
	enum rs_status status = rs_mmap_get_memrange(mmap, &address, &map_length);

	if (status == RS_OK)
		status = get(sample->inventory, mmap, address + offset, length, &buf);
	sample_record(sample, status);
	return buf;
}

static size_t length_of(const struct rs_mmap *mmap)
{
	uint64_t address;
	size_t length = 0;

	rs_mmap_get_memrange(mmap, &address, &length);
	return length;
}

struct rs_buf *sample_text_data(struct sample *sample)
{
	return sample_local_data(sample, 0, strlen(sample->options->text) + 1);
}

struct rs_buf *sample_local_data(struct sample *sample, size_t index, size_t length)
{
	if (sample_has_failed(sample))
		return NULL;
	return take_buf(sample, sample->mmap, index * length, length, rs_buf_get_by_data);
}

struct rs_buf *sample_local_room(struct sample *sample, size_t index, size_t length)
{
	if (sample_has_failed(sample))
		return NULL;
	return take_buf(sample, sample->mmap, index * length, length, rs_buf_get_by_address);
}

struct rs_buf *sample_remote_data(struct sample *sample)
{
	size_t length, room;

	if (sample_has_failed(sample))
		return NULL;
	length = length_of(sample->remote_mmap);
	room = length_of(sample->mmap);
	if (length > room) {
		LOG_ERROR("the memory of %s has %zu bytes, but only %zu fit here",
			  sample->options->program->peer, length, room);
		sample_record(sample, RS_ERR_TOO_BIG);
		return NULL;
	}
	return take_buf(sample, sample->remote_mmap, 0, length, rs_buf_get_by_data);
}

struct rs_buf *sample_remote_room(struct sample *sample)
{
	if (sample_has_failed(sample))
		return NULL;
	return take_buf(sample, sample->remote_mmap, 0, length_of(sample->remote_mmap),
			rs_buf_get_by_address);
}

uint64_t sample_word(const struct sample *sample, size_t index)
{
	const uint64_t *words = (const uint64_t *)(const void *)sample->memory;

	return __atomic_load_n(&words[index], __ATOMIC_ACQUIRE);
}

void sample_set_word(struct sample *sample, size_t index, uint64_t value)
{
	uint64_t *words = (uint64_t *)(void *)sample->memory;

	if (!sample_has_failed(sample))
		__atomic_store_n(&words[index], value, __ATOMIC_RELEASE);
}

/* ---- Tasks ---- */

static enum rs_status submit(struct sample *sample, struct rs_task *task)
{
	enum rs_status status = rs_task_submit(task);

	if (status != RS_OK)
		LOG_ERROR("%s cannot be submitted: %s", rs_op_name(rs_task_op(task)),
			  rs_status_text(status));
	sample_record(sample, status);
	return status;
}

static void free_task(struct rs_task *task, struct rs_buf *source, struct rs_buf *destination)
{
	rs_task_free(task);
	rs_buf_unref(source);
	rs_buf_unref(destination);
}

void sample_submit(struct sample *sample, enum rs_status allocated, struct rs_task *task,
		   struct rs_buf *source, struct rs_buf *destination)
{
	if (allocated == RS_OK && !sample_has_failed(sample) && submit(sample, task) == RS_OK) {
		sample->remaining_tasks++;
		return;
	}
	if (!sample_has_failed(sample))
		LOG_ERROR("a task cannot be made: %s", rs_status_text(allocated));
	sample_record(sample, allocated);
	free_task(allocated == RS_OK ? task : NULL, source, destination);
}

void sample_submit_receive(struct sample *sample, size_t index)
{
	struct rs_buf *destination = sample_local_room(sample, index, SAMPLE_TEXT_SIZE);
	struct rs_task *task;
	enum rs_status status;

	status = rs_task_alloc_receive(sample->rdma, destination, &sample->remaining_tasks, &task);
	sample_submit(sample, status, task, NULL, destination);
}

bool sample_submit_again(struct sample *sample, struct rs_task *task)
{
	struct rs_buf *destination = rs_task_destination(task);

	if (sample_has_failed(sample))
		return false;
	if (destination)
		rs_buf_reset_data_length(destination);
	return submit(sample, task) == RS_OK;
}

void sample_free_task(struct rs_task *task)
{
	free_task(task, rs_task_source(task), rs_task_destination(task));
}

/* Receives for messages that will not come are left. */
static void stop_if_done(struct sample *sample, size_t remaining_tasks)
{
	if (remaining_tasks != sample->lost_messages)
		return;
	if (sample->receives)
		sample_finish(sample);
	else
		sample_stop(sample);
}

static void count_down(struct sample *sample, size_t *remaining_tasks)
{
	stop_if_done(sample, --*remaining_tasks);
}

void sample_count_down(struct sample *sample)
{
	count_down(sample, &sample->remaining_tasks);
}

void sample_finish_task(struct rs_task *task, void *sample_data)
{
	size_t *remaining_tasks = rs_task_user_data(task);

	sample_free_task(task);
	count_down(sample_data, remaining_tasks);
}

/* One that came back flushed does not say what ended the connection; the context may know. */
static enum rs_status reason_of_failure(const struct sample *sample, const struct rs_task *task)
{
	enum rs_status error = rs_ctx_error(sample->ctx);

	return rs_task_status(task) == RS_ERR_FLUSHED && error != RS_OK ? error
									: rs_task_status(task);
}

void sample_fail_task(struct rs_task *task, void *sample_data)
{
	sample_record(sample_data, reason_of_failure(sample_data, task));
	sample_finish_task(task, sample_data);
}

static bool is_left_over(const struct sample *sample, const struct rs_task *task)
{
	return sample->lost_messages > 0 && rs_task_op(task) == RS_OP_RECEIVE &&
	       rs_task_status(task) == RS_ERR_FLUSHED;
}

void sample_lose_task(struct rs_task *task, void *sample_data)
{
	struct sample *sample = sample_data;

	if (rs_ctx_state(sample->ctx) == RS_CTX_RUNNING) {
		sample->loss = rs_task_status(task);
		/* The connection's message was given up, and its receive has come back all the same. */
		if (sample->lost_messages > 0 && rs_task_op(task) == RS_OP_RECEIVE)
			sample->lost_messages--;
	} else if (!is_left_over(sample, task)) {
		sample_record(sample, reason_of_failure(sample, task));
	}
	sample_finish_task(task, sample_data);
}

void sample_message_came(struct rs_connection *connection)
{
	rs_connection_set_complete(connection);
}

void sample_lose_messages(struct sample *sample, struct rs_connection *connection)
{
	if (!sample->awaits_messages || rs_connection_is_complete(connection))
		return;
	LOG_ERROR("connection %u has ended without its message", rs_connection_id(connection));
	sample->loss = RS_ERR_DISCONNECTED;
	sample->lost_messages++;
	stop_if_done(sample, sample->remaining_tasks);
}
