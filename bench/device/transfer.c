#define LOG_MODULE "transfer"

#include "transfer.h"

#include "log.h"
#include "pattern.h"

#define POLL_BATCH 16

/* Requests posted at most, so that a ping-pong need not wait for a completion of each. */
#define MIN_QUEUE 16

#define SIGNALS_PER_QUEUE 4
#define GRANTS_PER_DEPTH  4

/* In a work request's number: it is a receive. */
#define RECEIVE_FLAG ((uint64_t)1 << 63)

static const struct row *row_of(const struct transfer *transfer)
{
	return &rows[transfer->run.row];
}

static unsigned at_least_1(unsigned value)
{
	return value > 0 ? value : 1;
}

/* Preparation
 * -------------------------------------------------------------------------------------------------
 */

static enum rs_status post_receive(struct transfer *transfer)
{
	struct ibv_recv_wr *bad_wr;
	int error;

	transfer->receive_piece.addr =
		(uintptr_t)transfer->endpoint->target +
		transfer->posted % row_of(transfer)->depth * transfer->receive_piece.length;
	error = ibv_post_recv(transfer->endpoint->qp, &transfer->receive, &bad_wr);
	if (error)
		return LOG_FAILED_CALL(error, NULL, "ibv_post_recv()");
	transfer->posted++;
	return RS_OK;
}

static enum rs_status post_first_receives(struct transfer *transfer)
{
	enum rs_status status = RS_OK;

	while (status == RS_OK && transfer->posted < row_of(transfer)->depth &&
	       transfer->posted < transfer->receives)
		status = post_receive(transfer);
	return status;
}

static void plan_messages(struct transfer *transfer)
{
	const struct row *row = row_of(transfer);
	unsigned messages_per_reply = at_least_1(row->depth / GRANTS_PER_DEPTH);
	uint64_t messages = transfer->run.count, replies = messages / messages_per_reply;

	transfer->sends = transfer->is_client ? messages : replies;
	transfer->allowed = transfer->is_client ? row->depth : 0;
	transfer->receives = transfer->is_client ? replies : messages;
	transfer->receives_per_grant = transfer->is_client ? 1 : messages_per_reply;
	transfer->grant = transfer->is_client ? messages_per_reply : 1;
	transfer->request_piece.length = transfer->is_client ? (uint32_t)row->size : LATENCY_SIZE;
	transfer->receive_piece.length = transfer->is_client ? LATENCY_SIZE : (uint32_t)row->size;
}

static void plan_one_sided(struct transfer *transfer)
{
	bool takes_part = transfer->is_client || is_of_memory(transfer->run.row);

	transfer->sends = takes_part ? transfer->run.count : 0;
	transfer->allowed = transfer->sends;
	transfer->request_piece.length = (uint32_t)row_of(transfer)->size;
	transfer->request.wr.rdma.rkey = transfer->endpoint->peer.rkey;
}

static void plan(struct transfer *transfer)
{
	unsigned depth = row_of(transfer)->depth;

	transfer->queue = depth > MIN_QUEUE ? depth : MIN_QUEUE;
	transfer->signal_interval = transfer->queue / SIGNALS_PER_QUEUE;
	transfer->request = (struct ibv_send_wr){ .sg_list = &transfer->request_piece,
						  .num_sge = 1,
						  .opcode = row_of(transfer)->opcode };
	transfer->request_piece.lkey = transfer->endpoint->mr->lkey;
	transfer->receive = (struct ibv_recv_wr){ .wr_id = RECEIVE_FLAG,
						  .sg_list = &transfer->receive_piece,
						  .num_sge = 1 };
	transfer->receive_piece.lkey = transfer->endpoint->mr->lkey;
	if (row_of(transfer)->opcode == IBV_WR_SEND)
		plan_messages(transfer);
	else
		plan_one_sided(transfer);
}

/* Where this side's data goes out, or where the peer's arrives. */
static char *data_of(const struct transfer *transfer, bool is_source)
{
	bool is_read = row_of(transfer)->opcode == IBV_WR_RDMA_READ;

	return is_source == is_read ? transfer->endpoint->target : transfer->endpoint->local;
}

static bool is_source(const struct transfer *transfer)
{
	return transfer->is_client == (row_of(transfer)->opcode != IBV_WR_RDMA_READ);
}

static void place_data(const struct transfer *transfer)
{
	const struct row *row = row_of(transfer);
	char *data = data_of(transfer, is_source(transfer));

	for (unsigned slot = 0; slot < row->depth; slot++) {
		/* What must arrive, or what no run brings. */
		uint64_t seed = is_source(transfer) ? transfer->run.seed : 0;

		pattern_fill(data + slot * row->size, row->size, seed);
	}
}

enum rs_status transfer_prepare(struct transfer *transfer, const struct endpoint *endpoint,
				const struct run *run, bool is_client, struct peer *watched)
{
	*transfer = (struct transfer){
		.endpoint = endpoint, .watched = watched, .run = *run, .is_client = is_client
	};
	plan(transfer);
	if (is_of_memory(run->row))
		*(uint64_t *)(void *)endpoint->target = 0;
	else
		place_data(transfer);
	return post_first_receives(transfer);
}

/* The measured loops
 * -------------------------------------------------------------------------------------------------
 */

static enum rs_status post_send(struct transfer *transfer)
{
	uint64_t offset = transfer->sent % row_of(transfer)->depth * transfer->request_piece.length;
	bool is_last = transfer->sent + 1 == transfer->sends;
	struct ibv_send_wr *request = &transfer->request, *bad_wr;
	int error;

	transfer->request_piece.addr = (uintptr_t)transfer->endpoint->local + offset;
	if (request->opcode != IBV_WR_SEND)
		request->wr.rdma.remote_addr = transfer->endpoint->peer.target + offset;
	transfer->sent++;
	request->wr_id = transfer->sent;
	request->send_flags = 0;
	if (is_last || transfer->sent % transfer->signal_interval == 0)
		request->send_flags |= IBV_SEND_SIGNALED;
	if (transfer->request_piece.length <= transfer->endpoint->max_inline)
		request->send_flags |= IBV_SEND_INLINE;
	error = ibv_post_send(transfer->endpoint->qp, request, &bad_wr);
	return error ? LOG_FAILED_CALL(error, NULL, "ibv_post_send()") : RS_OK;
}

static enum rs_status post_sends(struct transfer *transfer)
{
	enum rs_status status = RS_OK;

	while (status == RS_OK && transfer->sent < transfer->sends &&
	       transfer->sent < transfer->allowed &&
	       transfer->sent - transfer->completed < transfer->queue)
		status = post_send(transfer);
	return status;
}

static enum rs_status on_received(struct transfer *transfer)
{
	enum rs_status status = RS_OK;

	if (transfer->posted < transfer->receives)
		status = post_receive(transfer);
	transfer->received++;
	if (transfer->received % transfer->receives_per_grant == 0)
		transfer->allowed += transfer->grant;
	return status;
}

static enum rs_status complete(struct transfer *transfer, const struct ibv_wc *wc)
{
	if (wc->status != IBV_WC_SUCCESS) {
		LOG_ERROR("a request failed: %s", ibv_wc_status_str(wc->status));
		return rs_status_from_wc(wc->status);
	}
	if (wc->wr_id == RECEIVE_FLAG)
		return on_received(transfer);
	transfer->completed = wc->wr_id;
	return RS_OK;
}

static enum rs_status poll_once(struct transfer *transfer)
{
	struct ibv_wc wcs[POLL_BATCH];
	int count = ibv_poll_cq(transfer->endpoint->cq, POLL_BATCH, wcs);
	enum rs_status status = RS_OK;

	if (count < 0) {
		LOG_ERROR("ibv_poll_cq() failed");
		return RS_ERR_DEVICE_FATAL;
	}
	for (int i = 0; i < count && status == RS_OK; i++)
		status = complete(transfer, &wcs[i]);
	return status == RS_OK ? peer_watch(transfer->watched, (size_t)count) : status;
}

static bool is_over(const struct transfer *transfer)
{
	return transfer->completed == transfer->sends && transfer->received == transfer->receives;
}

static enum rs_status run_stream(struct transfer *transfer)
{
	enum rs_status status = post_sends(transfer);

	while (status == RS_OK && !is_over(transfer)) {
		status = poll_once(transfer);
		if (status == RS_OK)
			status = post_sends(transfer);
	}
	return status;
}

/* Looks at the memory alone, as programs do that know no completions of what is written to them. */
static enum rs_status await_value(struct transfer *transfer, uint64_t value)
{
	const uint64_t *memory = (const uint64_t *)(const void *)transfer->endpoint->target;
	enum rs_status status = RS_OK;

	while (status == RS_OK && __atomic_load_n(memory, __ATOMIC_ACQUIRE) != value)
		status = peer_watch(transfer->watched, 0);
	transfer->watched->empty_polls = 0;
	return status;
}

static enum rs_status write_value(struct transfer *transfer, uint64_t value)
{
	enum rs_status status = RS_OK;

	while (status == RS_OK && transfer->sent - transfer->completed == transfer->queue)
		status = poll_once(transfer);
	*(uint64_t *)(void *)transfer->endpoint->local = value;
	return status == RS_OK ? post_send(transfer) : status;
}

static enum rs_status run_memory_ping_pong(struct transfer *transfer)
{
	enum rs_status status = RS_OK;

	for (uint64_t value = 1; value <= transfer->run.count && status == RS_OK; value++) {
		if (!transfer->is_client)
			status = await_value(transfer, value);
		if (status == RS_OK)
			status = write_value(transfer, value);
		if (status == RS_OK && transfer->is_client)
			status = await_value(transfer, value);
	}
	while (status == RS_OK && !is_over(transfer))
		status = poll_once(transfer);
	return status;
}

enum rs_status transfer_run(struct transfer *transfer)
{
	return is_of_memory(transfer->run.row) ? run_memory_ping_pong(transfer)
					       : run_stream(transfer);
}

enum rs_status transfer_check(const struct transfer *transfer)
{
	const struct row *row = row_of(transfer);
	const char *data = data_of(transfer, false);

	if (is_source(transfer) || is_of_memory(transfer->run.row))
		return RS_OK;
	for (unsigned slot = 0; slot < row->depth; slot++) {
		if (pattern_is(data + slot * row->size, row->size, transfer->run.seed))
			continue;
		LOG_ERROR("%s: message %u of the last %u did not arrive as it was sent", row->name,
			  slot, row->depth);
		return RS_ERR_BAD_DATA;
	}
	return RS_OK;
}
