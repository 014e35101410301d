#include "server.h"

#include "session.h"

static uint64_t at_most(uint64_t value, uint64_t limit)
{
	return value < limit ? value : limit;
}

static void prepare(struct session *session, const struct run *run)
{
	struct memory *memory = &session->memory;
	size_t size = operations[run->kind].size;

	switch (run->kind) {
	case OPERATION_PING_PONG:
	case OPERATION_SEND:
		memory_fill(memory, MEMORY_LOCAL, run->depth, size, run->seed);
		memory_clear(memory, MEMORY_RECEIVE, RECEIVES, size);
		return;
	case OPERATION_WRITE:
		memory_clear(memory, MEMORY_REMOTE, run->depth, size);
		return;
	default:
		memory_fill(memory, MEMORY_REMOTE, run->depth, size, run->seed);
	}
}

/* Whether all that was sent and written is there. */
static enum rs_status check(const struct session *session, const struct run *run)
{
	size_t size = operations[run->kind].size;

	switch (run->kind) {
	case OPERATION_PING_PONG:
	case OPERATION_SEND:
		return memory_check(&session->memory, MEMORY_RECEIVE, RECEIVES, size, run->seed,
				    at_most(run->count, RECEIVES));
	case OPERATION_WRITE:
		return memory_check(&session->memory, MEMORY_REMOTE, run->depth, size, run->seed,
				    at_most(run->count, run->depth));
	default:
		return RS_OK;
	}
}

/* Sleeps during writes and reads, so that it takes nothing from them. */
static enum rs_status take_part(struct session *session, const struct run *run,
				uint64_t *allocations)
{
	struct flow flow = flow_of_server(run->kind, run->count);
	enum rs_status status = RS_OK;
	char ready = 0;

	prepare(session, run);
	status = peer_send(&session->peer, &ready, sizeof(ready));
	if (status == RS_OK && is_of_messages(run->kind))
		status = session_run(session, run, &flow, allocations);
	return status;
}

static enum rs_status serve_run(struct session *session, const struct run *run)
{
	struct run_result result = { 0 };
	char finished;
	enum rs_status status = take_part(session, run, &result.allocations);

	if (status == RS_OK)
		status = peer_receive(&session->peer, &finished, sizeof(finished));
	if (status != RS_OK)
		return status;
	result.status = check(session, run);
	return peer_send(&session->peer, &result, sizeof(result));
}

static enum rs_status serve_runs(struct session *session)
{
	struct run run;
	enum rs_status status = RS_OK;

	while (status == RS_OK) {
		status = peer_receive(&session->peer, &run, sizeof(run));
		if (status == RS_OK && run.count == 0)
			return RS_OK;
		if (status == RS_OK)
			status = serve_run(session, &run);
	}
	return status;
}

enum rs_status serve(int fd, const struct arguments *arguments)
{
	struct session session;
	enum rs_status status = session_open(&session, fd, arguments);

	if (status == RS_OK)
		status = serve_runs(&session);
	session_close(&session);
	return status;
}
