#include "client.h"

#include <math.h>
#include <stdlib.h>

#include "allocations.h"
#include "report.h"
#include "session.h"

/* A count for calibration is long enough when it takes this part of a round. */
#define CALIBRATION_PART 4

#define CALIBRATION_GROWTH 4

struct client {
	struct session session;
	const struct arguments *arguments;
	uint64_t seed; /* of the next run */
	struct totals totals;
};

static void prepare(struct client *client, const struct run *run)
{
	struct memory *memory = &client->session.memory;
	size_t size = operations[run->kind].size;

	if (run->kind == OPERATION_READ)
		memory_clear(memory, MEMORY_LOCAL, run->depth, size);
	else
		memory_fill(memory, MEMORY_LOCAL, run->depth, size, run->seed);
	if (is_of_messages(run->kind))
		memory_clear(memory, MEMORY_RECEIVE, RECEIVES, size);
}

/* Whether all that was read, and all replies to what was sent, are there. */
static enum rs_status check(const struct client *client, const struct run *run)
{
	const struct memory *memory = &client->session.memory;
	size_t size = operations[run->kind].size;
	uint64_t replies = run->count / flow_messages_per_reply(run->kind);

	switch (run->kind) {
	case OPERATION_PING_PONG:
	case OPERATION_SEND:
		return memory_check(memory, MEMORY_RECEIVE, RECEIVES, size, run->seed,
				    replies < RECEIVES ? replies : RECEIVES);
	case OPERATION_READ:
		return memory_check(memory, MEMORY_LOCAL, run->depth, size, run->seed,
				    run->count < run->depth ? run->count : run->depth);
	default:
		return RS_OK;
	}
}

/* Asks the server to take part, and waits until it is ready. */
static enum rs_status begin(struct client *client, const struct run *run)
{
	char ready;
	enum rs_status status = peer_send(&client->session.peer, run, sizeof(*run));

	prepare(client, run);
	return status == RS_OK ? peer_receive(&client->session.peer, &ready, sizeof(ready))
			       : status;
}

static enum rs_status finish(struct client *client, const struct run *run,
			     struct run_result *result)
{
	char finished = 0;
	enum rs_status status = peer_send(&client->session.peer, &finished, sizeof(finished));

	if (status == RS_OK)
		status = peer_receive(&client->session.peer, result, sizeof(*result));
	if (status == RS_OK)
		status = result->status;
	return status == RS_OK ? check(client, run) : status;
}

static enum rs_status run_once(struct client *client, struct run run, double *seconds)
{
	struct flow flow = flow_of_client(run.kind, run.count);
	struct run_result result;
	uint64_t allocations;
	int64_t start;
	enum rs_status status;

	run.seed = client->seed++;
	status = begin(client, &run);
	if (status != RS_OK)
		return status;
	start = now_ns();
	status = session_run(&client->session, &run, &flow, &allocations);
	*seconds = (double)(now_ns() - start) / 1e9;
	if (status == RS_OK)
		status = finish(client, &run, &result);
	if (status != RS_OK)
		return status;
	client->totals.operations[run.side] += run.count;
	client->totals.allocations[run.side] += allocations + result.allocations;
	return RS_OK;
}

/* Enough to fill the queue, and a multiple of what the server answers at a time. */
static uint64_t round_up(uint64_t count, const struct run *run)
{
	uint64_t unit = run->kind == OPERATION_SEND ? MAX_DEPTH : run->depth;

	return (count + unit - 1) / unit * unit;
}

/* Finds the count that takes as long as a round is to take. */
static enum rs_status calibrate(struct client *client, struct run *run)
{
	double wanted = client->arguments->seconds, seconds;
	enum rs_status status;

	for (run->count = round_up(1, run);; run->count *= CALIBRATION_GROWTH) {
		status = run_once(client, *run, &seconds);
		if (status != RS_OK)
			return status;
		if (seconds >= wanted / CALIBRATION_PART)
			break;
	}
	run->count = round_up((uint64_t)ceil((double)run->count * wanted / seconds), run);
	return RS_OK;
}

static enum rs_status choose_count(struct client *client, struct run *run)
{
	run->side = client->arguments->sides[SIDE_BARE] ? SIDE_BARE : SIDE_LAYER;
	if (client->arguments->iterations == 0)
		return calibrate(client, run);
	run->count = round_up(client->arguments->iterations, run);
	return RS_OK;
}

/* One round of each kind. They take turns in being the first. */
static enum rs_status run_round(struct client *client, struct run run, unsigned round,
				double seconds[SIDE_COUNT])
{
	for (unsigned i = 0; i < SIDE_COUNT; i++) {
		enum rs_status status;

		run.side = (enum side)((i + round) % SIDE_COUNT);
		if (!client->arguments->sides[run.side])
			continue;
		status = run_once(client, run, &seconds[run.side]);
		if (status != RS_OK)
			return status;
	}
	return RS_OK;
}

static enum rs_status measure_row(struct client *client, struct row *row)
{
	struct run run = { .kind = row->kind, .depth = row->depth };
	double unused[SIDE_COUNT];
	enum rs_status status = choose_count(client, &run);

	/* The first round warms up caches, and does not count. */
	if (status == RS_OK)
		status = run_round(client, run, 0, unused);
	for (unsigned round = 0; round < client->arguments->rounds && status == RS_OK; round++)
		status = run_round(client, run, round, row->seconds[round]);
	row->count = run.count;
	return status;
}

static enum rs_status measure_rows(struct client *client, struct row *row)
{
	static const struct {
		enum operation_kind kind;
		unsigned depth;
	} rows[] = { { OPERATION_PING_PONG, 1 },     { OPERATION_SEND, 1 },
		     { OPERATION_SEND, MAX_DEPTH },  { OPERATION_WRITE, 1 },
		     { OPERATION_WRITE, MAX_DEPTH }, { OPERATION_READ, 1 },
		     { OPERATION_READ, MAX_DEPTH } };

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		enum rs_status status;

		if (!client->arguments->kinds[rows[i].kind])
			continue;
		row->kind = rows[i].kind;
		row->depth = rows[i].depth;
		status = measure_row(client, row);
		if (status != RS_OK)
			return status;
		report_row(row, client->arguments, &client->totals);
	}
	return RS_OK;
}

static enum rs_status end_server(struct client *client)
{
	struct run none = { 0 };

	return peer_send(&client->session.peer, &none, sizeof(none));
}

static enum rs_status measure_all(struct client *client)
{
	struct row *row;
	enum rs_status status;

	row = calloc(1, sizeof(*row));
	if (!row)
		return RS_ERR_NO_MEMORY;
	report_head(client->session.layer, bare_parameters(client->session.bare),
		    client->arguments);
	status = measure_rows(client, row);
	free(row);
	if (status != RS_OK)
		return status;
	report_end(&client->totals, client->arguments);
	return end_server(client);
}

enum rs_status measure(int fd, const struct arguments *arguments)
{
	struct client client = { .arguments = arguments };
	enum rs_status status = session_open(&client.session, fd, arguments);

	client.totals.setup_allocations = allocations_count();
	if (status == RS_OK)
		status = measure_all(&client);
	session_close(&client.session);
	return status;
}
