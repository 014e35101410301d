#define LOG_MODULE (sample->options->program->name)

#include "sample.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <jansson.h>

#include "clock.h"
#include "log.h"
#include "text.h"
#include "version.h"

/* After the signal that stops a sample, how much later one more ends it at once. */
#define IMPATIENCE_MS 1000

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
	if (sample->ctx)
		rs_ctx_stop(sample->ctx);
}

/* ---- Signals ---- */

static sigset_t ending_signals(void)
{
	struct sigaction hangup;
	sigset_t signals;

	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	/* nohup has it ignored, and so it stays. */
	if (sigaction(SIGHUP, NULL, &hangup) == 0 && hangup.sa_handler != SIG_IGN)
		sigaddset(&signals, SIGHUP);
	return signals;
}

static void catch_signals(struct sample *sample)
{
	sigset_t signals = ending_signals();

	signal(SIGPIPE, SIG_IGN); /* writing to a pipe without a reader fails, and says so */
	sigprocmask(SIG_BLOCK, &signals, &sample->signals_before);
	sample->signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
	if (sample->signal_fd < 0)
		sample_record(sample, LOG_FAILED_SYSTEM_CALL(errno, "signalfd()"));
}

/*
 * One more signal, from a user for whom stopping takes too long, ends the program as it would any
 * other. But several may come at once: a terminal that closes, or timeout(1), sends two.
 */
static void give_up_if_slow(struct sample *sample, int number)
{
	if (rs_clock_ms() - sample->signal_time < IMPATIENCE_MS)
		return;
	sigprocmask(SIG_SETMASK, &sample->signals_before, NULL);
	raise(number);
}

static void on_signal(int fd, void *sample_data)
{
	struct sample *sample = sample_data;
	struct signalfd_siginfo info;

	if (read(fd, &info, sizeof(info)) != sizeof(info))
		return;
	if (sample->signal) {
		give_up_if_slow(sample, (int)info.ssi_signo);
		return;
	}
	sample->signal = (int)info.ssi_signo;
	sample->signal_time = rs_clock_ms();
	LOG_INFO("stopping: %s", strsignal(sample->signal));
	sample_record(sample, RS_ERR_INTERRUPTED);
}

/* Those that came meanwhile would end the program now, in place of its exit status. */
static void release_signals(struct sample *sample)
{
	struct signalfd_siginfo info;

	if (sample->signal_fd >= 0) {
		while (read(sample->signal_fd, &info, sizeof(info)) == sizeof(info))
			;
		close(sample->signal_fd);
	}
	sigprocmask(SIG_SETMASK, &sample->signals_before, NULL);
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
	*sample = (struct sample){ .options = options, .signal_fd = -1 };
	rs_input_open(&sample->input, STDIN_FILENO);
	occupy_standard_descriptors();
	catch_signals(sample);
	if (sample_has_failed(sample))
		return;
	sample_record(sample, rs_exchange_create(options->program->peer, &sample->input,
						 options->json ? stderr : stdout, sample->signal_fd,
						 &sample->exchange));
}

void sample_open_device(struct sample *sample, uint32_t ops)
{
	if (sample_has_failed(sample))
		return;
	sample_record(sample, rs_device_open(sample->options->device, ops, &sample->device));
	if (sample_has_failed(sample))
		return;
	strcpy(sample->device_name, rs_device_info(sample->device)->name);
	LOG_INFO("device %s", sample->device_name);
}

void sample_create_mmap(struct sample *sample, size_t length, uint32_t access)
{
	enum rs_status status;

	if (sample_has_failed(sample))
		return;
	status = rs_mmap_create(&sample->mmap);
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

void sample_create_progress_engine(struct sample *sample)
{
	enum rs_status status;

	if (sample_has_failed(sample))
		return;
	status = rs_pe_create(&sample->pe);
	if (status == RS_OK)
		status = rs_pe_watch(sample->pe, sample->signal_fd, on_signal, sample);
	sample_record(sample, status);
}

void sample_create_rdma(struct sample *sample, uint32_t access)
{
	enum rs_status status;

	if (sample_has_failed(sample))
		return;
	status = rs_rdma_create(sample->device, &sample->rdma);
	if (status == RS_OK)
		status = rs_rdma_set_transport(sample->rdma, sample->options->transport);
	if (status == RS_OK)
		status = rs_rdma_set_gid_index(sample->rdma, sample->options->gid_index);
	if (status == RS_OK)
		status = rs_rdma_set_permissions(sample->rdma, access);
	if (status == RS_OK)
		status = rs_rdma_set_needed_connections(sample->rdma, 1);
	if (status == RS_OK)
		status = rs_pe_connect_ctx(sample->pe, rs_rdma_as_ctx(sample->rdma));
	sample_record(sample, status);
}

void sample_configure_task(struct sample *sample, enum rs_op op, rs_task_cb completed,
			   rs_task_cb failed, size_t count)
{
	if (sample_has_failed(sample))
		return;
	sample_record(sample, rs_rdma_set_task_conf(sample->rdma, op, completed, failed, count));
}

void sample_start(struct sample *sample, rs_ctx_state_changed_cb state_changed, size_t bufs)
{
	struct rs_ctx *ctx;
	enum rs_status status;

	if (sample_has_failed(sample))
		return;
	ctx = rs_rdma_as_ctx(sample->rdma);
	status = rs_ctx_set_state_changed_cb(ctx, state_changed);
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

void sample_log_state(struct sample *sample, enum rs_ctx_state from, enum rs_ctx_state to)
{
	LOG_INFO("%s -> %s", rs_ctx_state_name(from), rs_ctx_state_name(to));
	sample->deadline = 0;
	sample->awaited = "";
	if (to == RS_CTX_RUNNING && sample->options->timeout > 0)
		sample->deadline = rs_clock_ms() + (int64_t)sample->options->timeout * 1000;
}

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
	LOG_ERROR("waited %u s in vain for %s%s", sample->options->timeout,
		  sample->options->program->peer, sample->awaited);
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
}

/* ---- Connecting ---- */

void sample_export_mmap(struct sample *sample)
{
	if (sample_has_failed(sample))
		return;
	sample_record(sample, rs_mmap_export(sample->mmap, sample->device, &sample->mmap_line));
}

static void publish(struct sample *sample, const char *connection_line)
{
	const struct options *options = sample->options;
	char own_connection[1][RS_DESCRIPTOR_LINE_SIZE], own_mmap[1][RS_DESCRIPTOR_LINE_SIZE];
	struct rs_exchange_item items[] = {
		{ RS_DESCRIPTOR_CONNECTION, options->local_descriptor_path, false, 1,
		  own_connection },
		{ RS_DESCRIPTOR_MMAP, options->resource_descriptor_path, false, 1, own_mmap },
	};

	strcpy(own_connection[0], connection_line);
	if (sample->mmap_line)
		strcpy(own_mmap[0], sample->mmap_line);
	sample_record(sample,
		      rs_exchange_publish(sample->exchange, items, sample->mmap_line ? 2 : 1));
}

static void collect(struct sample *sample)
{
	const struct options *options = sample->options;
	const struct program *program = options->program;
	bool peer_has_resource =
		program->resource_owner && strcmp(program->resource_owner, program->peer) == 0;
	struct rs_exchange_item items[] = {
		{ RS_DESCRIPTOR_CONNECTION, options->remote_descriptor_path,
		  options->default_paths[OPTIONS_PATH_REMOTE], 1, sample->connection_line },
		{ RS_DESCRIPTOR_MMAP, options->resource_descriptor_path,
		  options->default_paths[OPTIONS_PATH_RESOURCE], 1, sample->resource_line },
	};
	enum rs_status status = rs_exchange_collect(sample->exchange, items,
						    peer_has_resource ? 2 : 1, options->timeout);

	if (status == RS_ERR_INTERRUPTED)
		on_signal(sample->signal_fd, sample);
	sample_record(sample, status);
}

void sample_export_and_connect(struct sample *sample)
{
	const char *line;

	if (sample_has_failed(sample))
		return;
	sample_record(sample, rs_rdma_export(sample->rdma, &line, &sample->connection));
	if (!sample_has_failed(sample))
		publish(sample, line);
	if (!sample_has_failed(sample))
		collect(sample);
	if (!sample_has_failed(sample))
		sample_record(sample, rs_rdma_connect(sample->rdma, sample->connection_line[0],
						      sample->connection));
}

void sample_import_mmap(struct sample *sample)
{
	if (sample_has_failed(sample))
		return;
	sample_record(sample,
		      rs_mmap_create_from_export(sample->resource_line[0], &sample->remote_mmap));
}

/* ---- Waiting for the user ---- */

static const char *how_to_answer(const struct rs_input *input, bool is_watched)
{
	if (!is_watched)
		return "end this program with Ctrl-C or SIGTERM";
	return input->kind == RS_INPUT_TERMINAL ? "press Enter"
						: "close standard input, or write a line to it,";
}

static void ask_user(const struct sample *sample, bool is_watched)
{
	LOG_INFO("%s when %s has finished", how_to_answer(&sample->input, is_watched),
		 sample->options->program->peer);
}

static void on_input(int fd, void *sample_data)
{
	struct sample *sample = sample_data;
	struct rs_input *input = &sample->input;
	char line[RS_INPUT_LINE_SIZE + 1];

	rs_input_fill(input);
	if (rs_input_is_open(input) && !rs_input_take_line(input, line))
		return;
	rs_pe_unwatch(sample->pe, fd);
	if (input->kind == RS_INPUT_TERMINAL || input->kind == RS_INPUT_STREAM)
		rs_ctx_stop(sample->ctx);
	else
		ask_user(sample, false);
}

void sample_wait_for_user(struct sample *sample)
{
	struct rs_input *input = &sample->input;
	char line[RS_INPUT_LINE_SIZE + 1];
	enum rs_status status = RS_ERR_NOT_SUPPORTED;

	if (sample_has_failed(sample))
		return;
	sample->awaited = ": nobody said that it has finished";
	rs_input_forget_typed(input);
	if (rs_input_take_line(input, line)) {
		rs_ctx_stop(sample->ctx);
		return;
	}
	/* An end that came before the question is no answer to it. */
	if (rs_input_is_open(input))
		status = rs_pe_watch(sample->pe, input->fd, on_input, sample);
	if (status != RS_ERR_NOT_SUPPORTED)
		sample_record(sample, status);
	ask_user(sample, status == RS_OK);
}

/* ---- Tasks and their buffers ---- */

typedef enum rs_status (*get_buf)(struct rs_buf_inventory *inventory, struct rs_mmap *mmap,
				  uint64_t address, size_t length, struct rs_buf **buf);

/* The first length bytes of the map, or all of it. */
static struct rs_buf *take_buf(struct sample *sample, struct rs_mmap *mmap, size_t length,
			       get_buf get)
{
	struct rs_buf *buf = NULL;
	uint64_t address;
	size_t map_length;
	enum rs_status status;

	if (sample_has_failed(sample))
		return NULL;
	status = rs_mmap_get_memrange(mmap, &address, &map_length);
	if (status == RS_OK)
		status = get(sample->inventory, mmap, address,
			     length < map_length ? length : map_length, &buf);
	sample_record(sample, status);
	return buf;
}

struct rs_buf *sample_local_data(struct sample *sample, size_t length)
{
	return take_buf(sample, sample->mmap, length, rs_buf_get_by_data);
}

struct rs_buf *sample_local_room(struct sample *sample)
{
	return take_buf(sample, sample->mmap, SIZE_MAX, rs_buf_get_by_address);
}

struct rs_buf *sample_remote_data(struct sample *sample)
{
	uint64_t address;
	size_t length;

	if (!sample_has_failed(sample) &&
	    rs_mmap_get_memrange(sample->remote_mmap, &address, &length) == RS_OK &&
	    length > SAMPLE_MEMORY_SIZE) {
		LOG_ERROR("the memory of %s has %zu bytes, but only %d fit here",
			  sample->options->program->peer, length, SAMPLE_MEMORY_SIZE);
		sample_record(sample, RS_ERR_TOO_BIG);
	}
	return take_buf(sample, sample->remote_mmap, SIZE_MAX, rs_buf_get_by_data);
}

struct rs_buf *sample_remote_room(struct sample *sample)
{
	return take_buf(sample, sample->remote_mmap, SIZE_MAX, rs_buf_get_by_address);
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
	enum rs_status status = sample_has_failed(sample) ? sample->first_error : allocated;

	if (status == RS_OK)
		status = rs_task_submit(task);
	if (status == RS_OK) {
		sample->remaining_tasks++;
		return;
	}
	if (!sample_has_failed(sample))
		LOG_ERROR("the task cannot be submitted: %s", rs_status_text(status));
	sample_record(sample, status);
	free_task(allocated == RS_OK ? task : NULL, source, destination);
}

/* The C library forgets a failure once it has reported it. */
static void flush_output(struct sample *sample)
{
	if (fflush(stdout) != 0 || ferror(stdout))
		sample_record(sample, LOG_FAILED_SYSTEM_CALL(errno, "printing the result"));
	clearerr(stdout);
}

void sample_print_received(struct sample *sample, const char *label, const struct rs_buf *buf)
{
	const char *text = rs_buf_data(buf);
	const char *end = memchr(text, '\0', rs_buf_data_length(buf));
	char printable[RS_TEXT_ESCAPED_SIZE(SAMPLE_MEMORY_SIZE)];

	if (!end) {
		LOG_ERROR("the peer's data is no text: it is not terminated within %zu bytes",
			  rs_buf_data_length(buf));
		sample_record(sample, RS_ERR_BAD_DATA);
		return;
	}
	if (!rs_text_escape(text, (size_t)(end - text), printable, sizeof(printable))) {
		LOG_ERROR("the peer's text is not valid UTF-8: \"%s\"", printable);
		sample_record(sample, RS_ERR_BAD_DATA);
		return;
	}
	memcpy(sample->result, text, (size_t)(end - text) + 1);
	sample->has_result = true;
	if (sample->options->json)
		return;
	printf("%s: %s\n", label, printable);
	flush_output(sample); /* at once, also through a pipe */
}

void sample_finish_task(struct sample *sample, struct rs_task *task)
{
	size_t *remaining_tasks = rs_task_user_data(task);

	free_task(task, rs_task_source(task), rs_task_destination(task));
	if (--*remaining_tasks == 0)
		rs_ctx_stop(sample->ctx);
}

void sample_fail_task(struct sample *sample, struct rs_task *task)
{
	sample_record(sample, rs_task_status(task));
	sample_finish_task(sample, task);
}

/* ---- End ---- */

static int exit_status(const struct sample *sample)
{
	if (sample->signal)
		return 128 + sample->signal;
	return sample_has_failed(sample) ? EXIT_STATUS_FAILURE : EXIT_STATUS_OK;
}

static void print_json(struct sample *sample)
{
	json_t *object =
		json_pack("{s:s, s:s, s:s?, s:s, s:s, s:i, s:s?}", "program",
			  sample->options->program->name, "version", RS_VERSION, "device",
			  sample->device_name[0] ? sample->device_name : NULL, "status",
			  rs_status_name(sample->first_error), "message",
			  rs_status_text(sample->first_error), "exit_status", exit_status(sample),
			  "text", sample->has_result ? sample->result : NULL);

	if (!object || json_dumpf(object, stdout, JSON_COMPACT) < 0 || printf("\n") < 0)
		sample_record(sample, LOG_FAILED_SYSTEM_CALL(errno, "printing the result"));
	json_decref(object);
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
	check(sample, "RDMA instance", rs_rdma_destroy(sample->rdma));
	check(sample, "memory map", rs_mmap_destroy(sample->mmap));
	check(sample, "progress engine", rs_pe_destroy(sample->pe));
	rs_exchange_destroy(sample->exchange);
	check(sample, "device", rs_device_close(sample->device));
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
		print_json(sample);
	flush_output(sample);
	log_end(sample);
	release_signals(sample);
	return exit_status(sample);
}
