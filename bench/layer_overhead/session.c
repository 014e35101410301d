#define LOG_MODULE "session"

#include "session.h"

#include <unistd.h>

#include "allocations.h"
#include "log.h"

static enum rs_status connect_layer(struct session *session)
{
	struct layer_address mine, theirs;
	enum rs_status status = layer_describe(session->layer, &mine);

	if (status == RS_OK)
		status = peer_exchange(&session->peer, &mine, &theirs, sizeof(mine));
	if (status == RS_OK)
		status = layer_connect(session->layer, &theirs);
	return status;
}

static enum rs_status connect_bare(struct session *session)
{
	struct bare_address mine, theirs;
	enum rs_status status;

	bare_describe(session->bare, &mine);
	status = peer_exchange(&session->peer, &mine, &theirs, sizeof(mine));
	return status == RS_OK ? bare_connect(session->bare, &theirs) : status;
}

/* Until the peer has got here too. */
static enum rs_status await_peer(struct session *session)
{
	char mine = 0, theirs;

	return peer_exchange(&session->peer, &mine, &theirs, sizeof(mine));
}

enum rs_status session_open(struct session *session, int fd, const struct arguments *arguments)
{
	enum rs_status status;

	*session = (struct session){ .peer = { .fd = fd } };
	status = memory_create(&session->memory);
	if (status == RS_OK)
		status = layer_create(arguments->device, arguments->gid_index, &session->memory,
				      &session->layer);
	if (status == RS_OK)
		status = connect_layer(session);
	if (status == RS_OK)
		status = bare_create(layer_qp(session->layer), &session->memory, &session->bare);
	if (status == RS_OK)
		status = connect_bare(session);
	return status == RS_OK ? await_peer(session) : status;
}

void session_close(struct session *session)
{
	bare_destroy(session->bare);
	layer_destroy(session->layer);
	memory_destroy(&session->memory);
	close(session->peer.fd);
}

enum rs_status session_run(struct session *session, const struct run *run, struct flow *flow,
			   uint64_t *allocations)
{
	uint64_t before = allocations_count();
	enum rs_status status;

	if (run->side == SIDE_BARE)
		status = bare_run(session->bare, run->kind, run->depth, flow, &session->peer);
	else
		status = layer_run(session->layer, run->kind, run->depth, flow, &session->peer);
	*allocations = allocations_count() - before;
	return status;
}
