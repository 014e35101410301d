/*
 * What each of the two processes has: memory, and a connection to the other one of each kind.
 */
#ifndef SESSION_H
#define SESSION_H

#include "arguments.h"
#include "bare.h"
#include "layer.h"
#include "memory.h"
#include "peer.h"

struct session {
	struct peer peer;
	struct memory memory;
	struct layer *layer;
	struct bare *bare;
};

/* A run, as the client asks the server to take part in it. */
struct run {
	enum side side;
	enum operation_kind kind;
	unsigned depth;
	uint64_t count; /* 0: there are no more runs */
	uint64_t seed;  /* of the data */
};

/* What the server says of a run. */
struct run_result {
	enum rs_status status;
	uint64_t allocations;
};

/* Does the same in both processes. fd: of the socket to the other, the session's from now on. On
 * failure, too, the session must be closed. */
enum rs_status session_open(struct session *session, int fd, const struct arguments *arguments);
void session_close(struct session *session);

/* Does this process's part of a run. allocations: made meanwhile. */
enum rs_status session_run(struct session *session, const struct run *run, struct flow *flow,
			   uint64_t *allocations);

#endif
