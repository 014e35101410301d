#include "client.h"

#include <math.h>

#include "reference.h"
#include "report.h"
#include "results.h"
#include "session.h"

/* A count for calibration is long enough when it takes this part of a round. */
#define CALIBRATION_PART   4
#define CALIBRATION_GROWTH 4

/* Messages of another program. */
#define REFERENCE_CALIBRATION 500

/* What another program may take beyond what it is to measure for. */
#define REFERENCE_SLACK_SECONDS 20

/* Rows of the device and those that they are compared with follow each other. */
static const enum row_id order[ROW_COUNT] = {
	ROW_SEND_LATENCY, ROW_UCX_TAG_LATENCY,   ROW_WRITE_LATENCY, ROW_UDP_LATENCY,
	ROW_WRITE_64K,    ROW_UDP_BANDWIDTH,     ROW_READ_64K,      ROW_IPERF3,
	ROW_SEND_64K,     ROW_UCX_TAG_BANDWIDTH, ROW_WRITE_1M,      ROW_UCX_PUT_BANDWIDTH,
	ROW_READ_1M,      ROW_SEND_1M,
};

struct client {
	struct session session;
	const struct arguments *arguments;
	uint64_t seed;              /* of the last run */
	uint64_t counts[ROW_COUNT]; /* of own rows; 0: not chosen yet */
	struct results results;
};

static enum rs_status begin(struct client *client, const struct run *run, struct ready *ready)
{
	enum rs_status status = peer_send(&client->session.peer, run, sizeof(*run));

	return status == RS_OK ? peer_receive(&client->session.peer, ready, sizeof(*ready))
			       : status;
}

static enum rs_status finish(struct client *client)
{
	enum rs_status result, status;
	char finished = 0;

	status = peer_send(&client->session.peer, &finished, sizeof(finished));
	if (status == RS_OK)
		status = peer_receive(&client->session.peer, &result, sizeof(result));
	return status == RS_OK ? result : status;
}

static enum rs_status run_own(struct client *client, enum row_id id, uint64_t count,
			      double *seconds)
{
	struct run run = { .row = id, .count = count, .seed = ++client->seed };
	enum rs_status status = session_prepare(&client->session, &run);
	struct ready ready;
	int64_t start;

	if (status == RS_OK)
		status = begin(client, &run, &ready);
	if (status != RS_OK)
		return status;
	start = now_ns();
	status = session_run(&client->session, &run);
	*seconds = (double)(now_ns() - start) / 1e9;
	if (status == RS_OK)
		status = finish(client);
	return status == RS_OK ? session_check(&client->session, &run) : status;
}

static uint64_t round_up(uint64_t count, enum row_id id)
{
	unsigned depth = rows[id].depth;

	return (count + depth - 1) / depth * depth;
}

/* Finds the count that takes as long as wanted. It warms up as well. */
static enum rs_status calibrate(struct client *client, enum row_id id)
{
	double wanted = client->arguments->seconds, seconds;
	uint64_t count = rows[id].depth;
	enum rs_status status = run_own(client, id, count, &seconds);

	while (status == RS_OK && seconds < wanted / CALIBRATION_PART) {
		count *= CALIBRATION_GROWTH;
		status = run_own(client, id, count, &seconds);
	}
	if (status == RS_OK)
		client->counts[id] = round_up((uint64_t)ceil((double)count * wanted / seconds), id);
	return status;
}

/* seconds: of one message, in a ping-pong of two. */
static double value_of(enum row_id id, double seconds)
{
	return rows[id].unit == UNIT_LATENCY ? seconds / 2 * 1e6
					     : (double)rows[id].size / seconds / 1e9;
}

static double seconds_of(enum row_id id, double value)
{
	return rows[id].unit == UNIT_LATENCY ? 2 * value / 1e6
					     : (double)rows[id].size / value / 1e9;
}

static enum rs_status run_client(const struct run *run, double seconds, uint16_t port,
				 enum outcome *outcome, double *value)
{
	static char output[PROGRAM_OUTPUT_SIZE];
	const struct reference *reference = reference_of(run->row);
	struct program program;
	struct command command;
	enum rs_status status;

	reference->client_command(&rows[run->row], port, run->count, seconds, &command);
	status = program_start(&program, &command);
	if (status != RS_OK)
		return status;
	*outcome = program_read(&program, output, seconds + REFERENCE_SLACK_SECONDS);
	if (*outcome == OUTCOME_MEASURED && !reference->parse(&rows[run->row], output, value))
		*outcome = OUTCOME_FAILED;
	return RS_OK;
}

static enum rs_status run_reference(struct client *client, enum row_id id, uint64_t count,
				    double *value)
{
	enum outcome *outcome = &client->results.outcomes[id];
	struct run run = { .row = id, .count = count };
	struct ready ready;
	enum rs_status status = begin(client, &run, &ready);

	if (status != RS_OK)
		return status;
	*outcome = ready.outcome;
	if (ready.outcome == OUTCOME_MEASURED)
		status = run_client(&run, client->arguments->seconds, ready.port, outcome, value);
	return status == RS_OK ? finish(client) : status;
}

/* Has it send a few messages, to find the count that takes as long as wanted. */
static enum rs_status calibrate_reference(struct client *client, enum row_id id)
{
	double value;
	enum rs_status status = run_reference(client, id, REFERENCE_CALIBRATION, &value);

	if (status == RS_OK && client->results.outcomes[id] == OUTCOME_MEASURED)
		client->counts[id] =
			1 + (uint64_t)(client->arguments->seconds / seconds_of(id, value));
	return status;
}

static enum rs_status choose_count(struct client *client, enum row_id id)
{
	if (client->counts[id] > 0)
		return RS_OK;
	if (client->arguments->iterations == 0)
		return is_own(id) ? calibrate(client, id) : calibrate_reference(client, id);
	client->counts[id] = round_up(client->arguments->iterations, id);
	return RS_OK;
}

static enum rs_status measure_own(struct client *client, enum row_id id, double *value)
{
	double seconds;
	enum rs_status status = choose_count(client, id);

	if (status == RS_OK)
		status = run_own(client, id, client->counts[id], &seconds);
	if (status != RS_OK)
		return status;
	*value = value_of(id, seconds / (double)client->counts[id]);
	return RS_OK;
}

static enum rs_status measure_reference(struct client *client, enum row_id id, double *value)
{
	enum outcome *outcome = &client->results.outcomes[id];
	enum rs_status status = RS_OK;

	if (*outcome == OUTCOME_MEASURED && reference_of(id)->counts)
		status = choose_count(client, id);
	/* If it failed, it would not do better the next time. */
	if (status == RS_OK && *outcome == OUTCOME_MEASURED)
		status = run_reference(client, id, client->counts[id], value);
	return status;
}

static enum rs_status measure_round(struct client *client, unsigned round)
{
	enum rs_status status = RS_OK;

	for (unsigned i = 0; i < ROW_COUNT && status == RS_OK; i++) {
		enum row_id id = order[i];
		double *value = &client->results.values[id][round];

		if (!is_wanted(client->arguments, id))
			client->results.outcomes[id] = OUTCOME_NOT_WANTED;
		else if (is_own(id))
			status = measure_own(client, id, value);
		else
			status = measure_reference(client, id, value);
	}
	return status;
}

static enum rs_status end_server(struct client *client)
{
	struct run none = { .row = ROW_COUNT };

	return peer_send(&client->session.peer, &none, sizeof(none));
}

static enum rs_status measure_all(struct client *client)
{
	enum rs_status status = RS_OK;

	client->results.rounds = client->arguments->rounds;
	for (unsigned round = 0; round < client->results.rounds && status == RS_OK; round++)
		status = measure_round(client, round);
	if (status != RS_OK)
		return status;
	status = report(&client->session.endpoint, client->arguments, &client->results);
	return status == RS_OK ? end_server(client) : status;
}

enum rs_status measure(int fd, const struct arguments *arguments)
{
	static struct client client;
	enum rs_status status;

	client.arguments = arguments;
	status = session_open(&client.session, fd, true, arguments);
	if (status == RS_OK)
		status = measure_all(&client);
	session_close(&client.session);
	return status;
}
