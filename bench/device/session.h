/*
 * What each of the two processes has, and its part of a run.
 */
#ifndef SESSION_H
#define SESSION_H

#include "arguments.h"
#include "endpoint.h"
#include "program.h"
#include "run.h"
#include "transfer.h"
#include "udp.h"

struct session {
	const struct arguments *arguments;
	bool is_client;
	struct peer peer;
	struct endpoint endpoint;
	struct udp udp;
	struct transfer transfer; /* of the run that is on */
};

/* Does the same in both processes. fd: of the socket to the other, the session's from now on. On
 * failure, too, the session must be closed. */
enum rs_status session_open(struct session *session, int fd, bool is_client,
			    const struct arguments *arguments);
void session_close(struct session *session);

/* A run of one of this program's own rows: before it is timed, while it is, and after it. */
enum rs_status session_prepare(struct session *session, const struct run *run);
enum rs_status session_run(struct session *session, const struct run *run);
enum rs_status session_check(struct session *session, const struct run *run);

/* What the server says when it is ready for a run. */
struct ready {
	enum outcome outcome; /* of starting the reference program */
	uint16_t port;        /* on which that one listens */
};

#endif
