#include "sample_impl.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "log.h"

/* ---- The first error ---- */

static bool is_error(enum rs_status status)
{
	return status != RS_OK && status != RS_IN_PROGRESS;
}

bool sample_has_failed(const struct sample *sample)
{
	return sample->first_error != RS_OK;
}

void sample_record(struct sample *sample, enum rs_status status)
{
	if (!is_error(status))
		return;
	if (!sample_has_failed(sample))
		sample->first_error = status;
	sample_stop(sample);
}

void sample_stop(struct sample *sample)
{
	if (sample->ctx)
		rs_ctx_stop(sample->ctx);
}

/* ---- Set-up ---- */

/*
 * Where one is closed, the next file opened would take its place and get our output, or give us
 * input.
 */
static void occupy_standard_descriptors(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR);
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		close(fd);
}

void sample_begin(struct sample *sample, const struct options *options)
{
	const struct rs_exchange_peer peer = { options->program->peer, options->program->stranger };

	*sample = (struct sample){ .options = options, .signal_fd = -1 };
	rs_input_open(&sample->input, STDIN_FILENO);
	occupy_standard_descriptors();
	sample_catch_signals(sample);
	if (options->json && !(sample->result = json_object()))
		sample_record(sample, RS_ERR_NO_MEMORY);
	if (sample_has_failed(sample))
		return;
	sample_record(sample,
		      rs_exchange_create(&peer, &sample->input, options->json ? stderr : stdout,
					 sample->signal_fd, &sample->exchange));
}

void sample_open_device(struct sample *sample, uint32_t ops)
{
	char name[IBV_SYSFS_NAME_MAX];
	const char *wanted;

	if (sample_has_failed(sample))
		return;
	wanted = sample_find_device(sample, name);
	if (sample_has_failed(sample))
		return;
	sample_record(sample, rs_device_open(wanted, ops, &sample->device));
	if (sample_has_failed(sample))
		return;
	strcpy(sample->device_name, rs_device_info(sample->device)->name);
	LOG_INFO("device %s", sample->device_name);
}

static void create_mmap(struct sample *sample, size_t length, uint32_t access)
{
	enum rs_status status;

	if (sample_has_failed(sample))
		return;
	sample->memory = calloc(1, length);
	status = sample->memory ? rs_mmap_create(&sample->mmap) : RS_ERR_NO_MEMORY;
	if (status == RS_OK)
		status = rs_mmap_set_memrange(sample->mmap, sample->memory, length);
	if (status == RS_OK)
		status = rs_mmap_set_permissions(sample->mmap, access);
	if (status == RS_OK)
		status = rs_mmap_add_device(sample->mmap, sample->device);
	if (status == RS_OK)
		status = rs_mmap_start(sample->mmap);
	sample_record(sample, status);
}

void sample_create_text_mmap(struct sample *sample, uint32_t access)
{
	const char *text = sample->options->text;

	create_mmap(sample, strlen(text) + 1, access);
	if (!sample_has_failed(sample))
		strcpy(sample->memory, text);
}

void sample_create_room_mmap(struct sample *sample, size_t count, uint32_t access)
{
	create_mmap(sample, count * SAMPLE_TEXT_SIZE, access);
	if (!sample_has_failed(sample))
		memset(sample->memory, SAMPLE_UNWRITTEN, count * SAMPLE_TEXT_SIZE);
}

void sample_create_word_mmap(struct sample *sample, size_t count, uint32_t access)
{
	create_mmap(sample, count * sizeof(uint64_t), access);
}

void sample_create_event(struct sample *sample)
{
	if (sample_has_failed(sample))
		return;
	sample_record(sample, rs_sync_event_create(sample->device, &sample->event));
}

void sample_create_progress_engine(struct sample *sample)
{
	enum rs_status status;

	if (sample_has_failed(sample))
		return;
	status = rs_pe_create(&sample->pe);
	if (status == RS_OK)
		status = rs_pe_watch(sample->pe, sample->signal_fd, sample_on_signal, sample);
	sample_record(sample, status);
}

void sample_create_rdma(struct sample *sample, uint32_t access)
{
	const struct options *options = sample->options;
	unsigned count = options->num_connections;
	enum rs_status status;

	if (sample_has_failed(sample))
		return;
	sample->connections = calloc(count, sizeof(sample->connections[0]));
	status = sample->connections ? rs_rdma_create(sample->device, &sample->rdma)
				     : RS_ERR_NO_MEMORY;
	if (status == RS_OK)
		status = rs_rdma_set_name(sample->rdma, options->program->name);
	if (status == RS_OK)
		status = rs_rdma_set_transport(sample->rdma, options->transport);
	if (status == RS_OK)
		status = rs_rdma_set_gid_index(sample->rdma, options->gid_index);
	if (status == RS_OK)
		status = rs_rdma_set_permissions(sample->rdma, access);
	if (status == RS_OK)
		status = rs_rdma_set_max_connections(sample->rdma, count);
	if (status == RS_OK)
		status = rs_rdma_set_needed_connections(sample->rdma, count);
	if (status == RS_OK && options->use_rdma_cm)
		status = rs_rdma_set_connection_callbacks(sample->rdma,
							  &sample_connection_callbacks);
	if (status == RS_OK)
		status =
			rs_rdma_set_connection_failed_cb(sample->rdma, sample_on_connection_failed);
	if (status == RS_OK)
		status = rs_pe_connect_ctx(sample->pe, rs_rdma_as_ctx(sample->rdma));
	sample_record(sample, status);
}

void sample_configure_task(struct sample *sample, enum rs_op op, rs_task_cb completed,
			   rs_task_cb failed, size_t count)
{
	if (sample_has_failed(sample))
		return;
	sample->receives = op == RS_OP_RECEIVE;
	sample_record(sample, rs_rdma_set_task_conf(sample->rdma, op, completed, failed, count));
}

void sample_limit_sends(struct sample *sample, unsigned count)
{
	if (sample_has_failed(sample))
		return;
	sample_record(sample, rs_rdma_set_max_sends(sample->rdma, count));
}

/* By descriptors, connecting has its own wait, in Starting. */
static bool is_wait(const struct sample *sample, enum rs_ctx_state state)
{
	return state == RS_CTX_RUNNING ||
	       (state == RS_CTX_STARTING && sample->options->use_rdma_cm);
}

/* In Running, the wait for the peer (--timeout) begins anew. */
static void begin_wait(struct sample *sample, enum rs_ctx_state state)
{
	sample->deadline = 0;
	sample->complaint = state == RS_CTX_STARTING ? "it has not connected" : "it did not answer";
	if (is_wait(sample, state) && sample->options->timeout > 0)
		sample->deadline = rs_clock_ms() + (int64_t)sample->options->timeout * 1000;
}

static void on_state_changed(struct rs_ctx *ctx, enum rs_ctx_state from, enum rs_ctx_state to,
			     void *sample_data)
{
	struct sample *sample = sample_data;

	(void)ctx;
	LOG_INFO("%s -> %s", rs_ctx_state_name(from), rs_ctx_state_name(to));
	begin_wait(sample, to);
	switch (to) {
	case RS_CTX_STARTING:
		sample->on_starting(sample);
		break;
	case RS_CTX_RUNNING:
		sample->on_running(sample);
		break;
	case RS_CTX_STOPPING: /* what is in flight comes back as failed */
	case RS_CTX_IDLE:     /* ends sample_run */
		break;
	}
}

void sample_start(struct sample *sample, sample_step on_starting, sample_step on_running,
		  size_t bufs)
{
	struct rs_ctx *ctx;
	enum rs_status status;

	if (sample_has_failed(sample))
		return;
	sample->on_starting = on_starting;
	sample->on_running = on_running;
	ctx = rs_rdma_as_ctx(sample->rdma);
	status = rs_ctx_set_state_changed_cb(ctx, on_state_changed);
	rs_ctx_set_user_data(ctx, sample);
	if (status == RS_OK)
		status = rs_buf_inventory_create(bufs, &sample->inventory);
	if (status == RS_OK)
		status = rs_buf_inventory_start(sample->inventory);
	if (status == RS_OK)
		status = rs_ctx_start(ctx);
	if (status == RS_OK)
		sample->ctx = ctx;
	sample_record(sample, status);
}

/* ---- Main loop ---- */

static int time_left(const struct sample *sample)
{
	int64_t left;

	if (sample->deadline == 0)
		return -1;
	left = sample->deadline - rs_clock_ms();
	return left > 0 ? (int)left : 0;
}

static void check_deadline(struct sample *sample)
{
	if (time_left(sample) != 0)
		return;
	if (sample->finishes) {
		sample_stop(sample);
		return;
	}
	LOG_ERROR("waited %u s in vain for %s: %s", sample->options->timeout,
		  sample->options->program->peer, sample->complaint);
	sample->deadline = 0;
	sample_record(sample, RS_ERR_TIMED_OUT);
}

void sample_run(struct sample *sample)
{
	if (sample_has_failed(sample))
		return;
	do {
		enum rs_status status = rs_pe_wait(sample->pe, time_left(sample));

		if (status != RS_ERR_TIMED_OUT && status != RS_ERR_INTERRUPTED)
			sample_record(sample, status);
		check_deadline(sample);
	} while (rs_ctx_state(sample->ctx) != RS_CTX_IDLE);
	sample_record(sample, rs_ctx_error(sample->ctx));
	sample_record(sample, sample->loss);
}

/* ---- End ---- */

static int exit_status(const struct sample *sample)
{
	if (sample->signal)
		return 128 + sample->signal;
	return sample_has_failed(sample) ? EXIT_STATUS_FAILURE : EXIT_STATUS_OK;
}

static void check(struct sample *sample, const char *what, enum rs_status status)
{
	if (!is_error(status))
		return;
	LOG_ERROR("freeing the %s: %s", what, rs_status_text(status));
	sample_record(sample, status);
}

static void free_all(struct sample *sample)
{
	sample->ctx = NULL;
	check(sample, "inventory", rs_buf_inventory_destroy(sample->inventory));
	check(sample, "remote map", rs_mmap_destroy(sample->remote_mmap));
	rs_sync_event_remote_destroy(sample->remote_event);
	check(sample, "RDMA instance", rs_rdma_destroy(sample->rdma));
	check(sample, "memory map", rs_mmap_destroy(sample->mmap));
	check(sample, "event", rs_sync_event_destroy(sample->event));
	check(sample, "progress engine", rs_pe_destroy(sample->pe));
	rs_exchange_destroy(sample->exchange);
	check(sample, "device", rs_device_close(sample->device));
	free(sample->connections);
	free(sample->peer_lines);
	free(sample->memory);
}

/*
 * Each error was logged where it was met; those of this program's own making have their line here.
 */
static void log_end(const struct sample *sample)
{
	if (!sample_has_failed(sample) || sample->signal)
		return;
	rs_log(rs_log_error_count() == 0 ? RS_LOG_ERROR : RS_LOG_INFO, LOG_MODULE,
	       "ended with %s: %s", rs_status_name(sample->first_error),
	       rs_status_text(sample->first_error));
}

int sample_end(struct sample *sample)
{
	free_all(sample);
	if (sample->options->json)
		sample_print_json(sample, exit_status(sample));
	json_decref(sample->result);
	sample_flush_output(sample);
	log_end(sample);
	sample_release_signals(sample);
	return exit_status(sample);
}

int sample_main(const struct program *program, int (*run)(const struct options *options), int argc,
		char **argv)
{
	struct options options;
	int exit_status;

	if (!options_parse(program, argc, argv, &options, &exit_status))
		return exit_status;
	return run(&options);
}
