/*
 * A run through the device, one side's part of it.
 *
 * Sends: the client may have as many messages that are not answered as the server has receives
 * posted, and the server answers several with one, after it has posted their receives again; so a
 * receive is always there, and no figure contains an RNR timer.
 * Writes and reads: the server takes no part, except in the ping-pong.
 */
#ifndef TRANSFER_H
#define TRANSFER_H

#include "endpoint.h"
#include "run.h"

struct transfer {
	const struct endpoint *endpoint;
	struct peer *watched;
	struct run run;
	bool is_client;

	struct ibv_send_wr request;
	struct ibv_sge request_piece;
	struct ibv_recv_wr receive;
	struct ibv_sge receive_piece;

	uint64_t sends; /* or writes, or reads: all of this side, those that may be sent, … */
	uint64_t allowed;
	uint64_t sent;
	uint64_t completed;
	unsigned queue; /* in flight at most */
	unsigned signal_interval;

	uint64_t receives;
	uint64_t posted;
	uint64_t received;
	unsigned receives_per_grant; /* so many allow … */
	unsigned grant;              /* … so many more sends */
};

/* Puts the data in place and posts the first receives. watched: the other process, in the loops. */
enum rs_status transfer_prepare(struct transfer *transfer, const struct endpoint *endpoint,
				const struct run *run, bool is_client, struct peer *watched);

enum rs_status transfer_run(struct transfer *transfer);

/* Whether the data has arrived. */
enum rs_status transfer_check(const struct transfer *transfer);

#endif
