#include "sample_impl.h"

#include <inttypes.h>
#include <unistd.h>

#include "clock.h"
#include "log.h"

/* A peer that has died ends nothing. */
#define FINISH_MS 10000

static const char *how_to_answer(const struct sample *sample)
{
	if (sample->asks_for_signal)
		return "end this program with Ctrl-C or SIGTERM";
	return sample->input.kind == RS_INPUT_TERMINAL
		       ? "press Enter"
		       : "close standard input, or write a line to it,";
}

static void ask_user(struct sample *sample, bool is_watched)
{
	sample->asks_for_signal = !is_watched;
	LOG_INFO("%s when %s has finished", how_to_answer(sample), sample->options->program->peer);
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
		sample->on_answer(sample);
	else
		ask_user(sample, false);
}

void sample_wait_for_user(struct sample *sample, sample_step on_answer)
{
	struct rs_input *input = &sample->input;
	char line[RS_INPUT_LINE_SIZE + 1];
	enum rs_status status = RS_ERR_NOT_SUPPORTED;

	if (sample_has_failed(sample))
		return;
	sample->complaint = sample->options->use_rdma_cm ? "it has not ended the connection"
							 : "nobody said that it has finished";
	sample->on_answer = on_answer;
	if (sample->options->use_rdma_cm) {
		LOG_INFO("waiting for %s to end the connection", sample->options->program->peer);
		return;
	}
	rs_input_forget_typed(input);
	if (rs_input_take_line(input, line)) {
		on_answer(sample);
		return;
	}
	/* An end that came before the question is no answer to it. */
	if (rs_input_is_open(input))
		status = rs_pe_watch(sample->pe, input->fd, on_input, sample);
	if (status != RS_ERR_NOT_SUPPORTED)
		sample_record(sample, status);
	ask_user(sample, status == RS_OK);
}

static bool is_alone(const struct sample *sample)
{
	for (unsigned i = 0; i < sample->options->num_connections; i++)
		if (sample->connections[i] &&
		    rs_connection_state(sample->connections[i]) == RS_CONNECTION_CONNECTED)
			return false;
	return true;
}

static void stop_if_alone(struct sample *sample)
{
	if (is_alone(sample))
		sample_stop(sample);
}

void sample_finish(struct sample *sample)
{
	sample->finishes = true;
	sample->on_answer = stop_if_alone;
	sample->deadline = rs_clock_ms() + FINISH_MS;
	if (!sample->options->use_rdma_cm)
		sample_stop(sample);
	else if (rs_ctx_state(sample->ctx) == RS_CTX_RUNNING)
		stop_if_alone(sample);
}

void sample_wait_for_message(struct sample *sample)
{
	unsigned count = sample->options->num_connections;

	if (sample_has_failed(sample))
		return;
	/* They came before Running. */
	if (sample->finishes) {
		sample_finish(sample);
		return;
	}
	sample->awaits_messages = true;
	sample->complaint = "not all of its messages came";
	if (count == 1)
		sample->complaint = "no message came";
	LOG_INFO("waiting for %u message%s of %s", count, count == 1 ? "" : "s",
		 sample->options->program->peer);
}

void sample_wait_for_event(struct sample *sample, const char *label, uint64_t threshold)
{
	const struct options *options = sample->options;
	int timeout = options->timeout > 0 ? (int)options->timeout * 1000 : -1;
	enum rs_status status;
	uint64_t value;

	if (sample_has_failed(sample))
		return;
	LOG_INFO("waiting for %s to make the event greater than %" PRIu64, options->program->peer,
		 threshold);
	status = rs_sync_event_wait_gt(sample->event, threshold, UINT64_MAX, timeout,
				       sample->signal_fd, &value);
	if (status == RS_ERR_INTERRUPTED)
		sample_on_signal(sample->signal_fd, sample);
	if (status == RS_ERR_TIMED_OUT)
		LOG_ERROR("waited %u s in vain for %s: the event is %" PRIu64
			  ", not greater than %" PRIu64,
			  options->timeout, options->program->peer, value, threshold);
	sample_record(sample, status);
	sample_print_value(sample, label, value);
}

void sample_pause(struct sample *sample)
{
	usleep(rs_backoff_next(&sample->backoff));
}
