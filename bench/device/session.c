#include "session.h"

#include <unistd.h>

/* Until the other process has got here too. */
static enum rs_status await_peer(struct session *session)
{
	char mine = 0, theirs;

	return peer_exchange(&session->peer, &mine, &theirs, sizeof(mine));
}

enum rs_status session_open(struct session *session, int fd, bool is_client,
			    const struct arguments *arguments)
{
	enum rs_status status = RS_OK;

	*session = (struct session){ .arguments = arguments,
				     .is_client = is_client,
				     .peer = { .fd = fd },
				     .udp = { .fd = -1 } };
	if (arguments->with_peers)
		status = udp_open(&session->udp, is_client, &session->peer);
	if (status == RS_OK && arguments->with_device)
		status = endpoint_open(&session->endpoint, arguments, &session->peer);
	return status == RS_OK ? await_peer(session) : status;
}

void session_close(struct session *session)
{
	endpoint_close(&session->endpoint);
	udp_close(&session->udp);
	close(session->peer.fd);
}

enum rs_status session_prepare(struct session *session, const struct run *run)
{
	if (!is_of_device(run->row))
		return RS_OK;
	return transfer_prepare(&session->transfer, &session->endpoint, run, session->is_client,
				&session->peer);
}

enum rs_status session_run(struct session *session, const struct run *run)
{
	return is_of_device(run->row) ? transfer_run(&session->transfer)
				      : udp_run(&session->udp, run);
}

enum rs_status session_check(struct session *session, const struct run *run)
{
	return is_of_device(run->row) ? transfer_check(&session->transfer) : RS_OK;
}
