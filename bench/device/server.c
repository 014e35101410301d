#include "server.h"

#include "reference.h"
#include "session.h"

static enum rs_status start_reference(const struct run *run, struct program *program,
				      struct ready *ready)
{
	struct command command;
	enum rs_status status = program_choose_port(&ready->port);

	if (status != RS_OK)
		return status;
	reference_of(run->row)->server_command(ready->port, &command);
	status = program_start(program, &command);
	if (status == RS_OK)
		ready->outcome = program_await_listening(program, ready->port);
	return status;
}

/* Until the client says that it has finished, whatever came out. */
static enum rs_status serve_reference(struct session *session, const struct run *run)
{
	struct program program = { .pid = 0 };
	struct ready ready = { .outcome = OUTCOME_FAILED };
	char finished;
	enum rs_status status = start_reference(run, &program, &ready);

	if (status == RS_OK)
		status = peer_send(&session->peer, &ready, sizeof(ready));
	if (status == RS_OK)
		status = peer_receive(&session->peer, &finished, sizeof(finished));
	program_end(&program);
	return status;
}

static enum rs_status serve_own(struct session *session, const struct run *run)
{
	struct ready ready = { .outcome = OUTCOME_MEASURED };
	char finished;
	enum rs_status status = session_prepare(session, run);

	if (status == RS_OK)
		status = peer_send(&session->peer, &ready, sizeof(ready));
	if (status == RS_OK)
		status = session_run(session, run);
	if (status == RS_OK)
		status = peer_receive(&session->peer, &finished, sizeof(finished));
	return status == RS_OK ? session_check(session, run) : status;
}

static enum rs_status serve_run(struct session *session, const struct run *run)
{
	enum rs_status status =
		is_own(run->row) ? serve_own(session, run) : serve_reference(session, run);

	return status == RS_OK ? peer_send(&session->peer, &status, sizeof(status)) : status;
}

static enum rs_status serve_runs(struct session *session)
{
	struct run run;
	enum rs_status status = RS_OK;

	while (status == RS_OK) {
		status = peer_receive(&session->peer, &run, sizeof(run));
		if (status == RS_OK && run.row == ROW_COUNT)
			return RS_OK;
		if (status == RS_OK)
			status = serve_run(session, &run);
	}
	return status;
}

enum rs_status serve(int fd, const struct arguments *arguments)
{
	struct session session;
	enum rs_status status = session_open(&session, fd, false, arguments);

	if (status == RS_OK)
		status = serve_runs(&session);
	session_close(&session);
	return status;
}
