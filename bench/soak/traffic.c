#define LOG_MODULE "traffic"

#include "traffic.h"

#include <inttypes.h>
#include <stddef.h>

#include "log.h"

#define BATCH 16

enum request { WRITE, READ, ADD, SEND };

/* An odd factor: each round has another value, and all its bytes change. */
static uint64_t value_of(uint64_t round)
{
	return (round + 1) * UINT64_C(0x9e3779b97f4a7c15);
}

static enum rs_status expect(const char *what, uint64_t number, uint64_t expected, uint64_t actual)
{
	if (actual == expected)
		return RS_OK;
	LOG_ERROR("%s %" PRIu64 ": %#" PRIx64 " in place of %#" PRIx64, what, number, actual,
		  expected);
	return RS_ERR_BAD_DATA;
}

static enum rs_status check_completion(const struct ibv_wc *wc)
{
	if (wc->status == IBV_WC_SUCCESS)
		return RS_OK;
	LOG_ERROR("request %" PRIu64 " failed: %s", wc->wr_id, ibv_wc_status_str(wc->status));
	return rs_status_from_wc(wc->status);
}

/* *count: of completions, checked for success. */
static enum rs_status poll_queue(struct ibv_cq *cq, struct ibv_wc wcs[BATCH], size_t *count)
{
	int found = ibv_poll_cq(cq, BATCH, wcs);
	enum rs_status status = RS_OK;

	*count = 0;
	if (found < 0)
		return LOG_FAILED_CALL(-found, NULL, "ibv_poll_cq()");
	for (int i = 0; i < found && status == RS_OK; i++)
		status = check_completion(&wcs[i]);
	if (status == RS_OK)
		*count = (size_t)found;
	return status;
}

static enum rs_status post(struct connection *connection, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;
	int error = ibv_post_send(connection->id->qp, wr, &bad);

	return error ? LOG_FAILED_CALL(error, NULL, "ibv_post_send()") : RS_OK;
}

/* Client
 * -------------------------------------------------------------------------------------------------
 */

static enum rs_status post_round(struct traffic *traffic)
{
	struct connection *connection = traffic->connection;
	struct memory *memory = &connection->memory;
	uint64_t round = traffic->begun, slot = round % SLOTS;
	uint64_t target = connection->remote + offsetof(struct memory, target) +
			  slot * sizeof(memory->target[0]);
	uint64_t counter = connection->remote + offsetof(struct memory, counter);
	struct ibv_sge sent = { (uintptr_t)&memory->sent[slot], sizeof(uint64_t),
				connection->mr->lkey };
	struct ibv_sge read = { (uintptr_t)&memory->read[slot], sizeof(uint64_t),
				connection->mr->lkey };
	struct ibv_sge fetched = { (uintptr_t)&memory->fetched[slot], sizeof(uint64_t),
				   connection->mr->lkey };
	struct ibv_send_wr wrs[REQUESTS_PER_ROUND] = {
		[WRITE] = { .sg_list = &sent,
			    .opcode = IBV_WR_RDMA_WRITE,
			    .wr.rdma = { target, connection->rkey } },
		[READ] = { .sg_list = &read,
			   .opcode = IBV_WR_RDMA_READ,
			   .wr.rdma = { target, connection->rkey } },
		[ADD] = { .sg_list = &fetched,
			  .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
			  .wr.atomic = { .remote_addr = counter,
					 .compare_add = 1,
					 .rkey = connection->rkey } },
		[SEND] = { .sg_list = &sent, .opcode = IBV_WR_SEND },
	};

	memory->sent[slot] = value_of(round);
	for (unsigned i = 0; i < REQUESTS_PER_ROUND; i++) {
		wrs[i].wr_id = round * REQUESTS_PER_ROUND + i;
		wrs[i].num_sge = 1;
		wrs[i].next = i + 1 < REQUESTS_PER_ROUND ? &wrs[i + 1] : NULL;
	}
	traffic->begun++;
	return post(connection, wrs);
}

static bool may_begin(const struct traffic *traffic)
{
	return traffic->begun < traffic->rounds &&
	       traffic->begun - traffic->completed / REQUESTS_PER_ROUND < SLOTS &&
	       traffic->begun - traffic->answered < RECEIVES; /* the server has one for each */
}

static enum rs_status check_request(const struct traffic *traffic, uint64_t request)
{
	const struct memory *memory = &traffic->connection->memory;
	uint64_t round = request / REQUESTS_PER_ROUND, slot = round % SLOTS;

	switch ((enum request)(request % REQUESTS_PER_ROUND)) {
	case READ:
		return expect("what was read in round", round, value_of(round), memory->read[slot]);
	case ADD:
		return expect("the counter in round", round, round, memory->fetched[slot]);
	default:
		return RS_OK;
	}
}

static enum rs_status take_completion(struct traffic *traffic, uint64_t request, traffic_fn step,
				      void *data)
{
	enum rs_status status =
		expect("completion", traffic->completed, traffic->completed, request);

	if (status == RS_OK)
		status = check_request(traffic, request);
	traffic->completed++;
	if (status == RS_OK && traffic->completed % REQUESTS_PER_ROUND == 0)
		status = step(traffic, data);
	return status;
}

static enum rs_status take_answer(struct traffic *traffic, uint64_t place)
{
	enum rs_status status;

	traffic->answers++;
	traffic->answered = traffic->answers * ANSWER_EVERY;
	status = expect("answer", traffic->answers, value_of(traffic->answered),
			traffic->connection->memory.received[place]);
	return status == RS_OK ? connection_post_receive(traffic->connection, place) : status;
}

static enum rs_status take_answers(struct traffic *traffic)
{
	struct ibv_wc wcs[BATCH];
	size_t count;
	enum rs_status status = poll_queue(traffic->connection->id->recv_cq, wcs, &count);

	for (size_t i = 0; i < count && status == RS_OK; i++)
		status = take_answer(traffic, wcs[i].wr_id);
	return status;
}

static enum rs_status take_completions(struct traffic *traffic, traffic_fn step, void *data)
{
	struct ibv_wc wcs[BATCH];
	size_t count;
	enum rs_status status = poll_queue(traffic->connection->id->send_cq, wcs, &count);

	for (size_t i = 0; i < count && status == RS_OK; i++)
		status = take_completion(traffic, wcs[i].wr_id, step, data);
	return status == RS_OK ? peer_watch(traffic->peer, count) : status;
}

/* The empty message, until it is acknowledged. */
static enum rs_status say_the_end(struct traffic *traffic)
{
	struct ibv_send_wr wr = { .wr_id = traffic->completed, .opcode = IBV_WR_SEND };
	enum rs_status status = post(traffic->connection, &wr);
	struct ibv_wc wcs[BATCH];
	size_t count = 0;

	while (status == RS_OK && count == 0) {
		status = poll_queue(traffic->connection->id->send_cq, wcs, &count);
		if (status == RS_OK)
			status = peer_watch(traffic->peer, count);
	}
	traffic->is_over = status == RS_OK;
	return status;
}

enum rs_status traffic_client(struct traffic *traffic, traffic_fn step, void *data)
{
	enum rs_status status = RS_OK;

	while (status == RS_OK && traffic->completed < traffic->rounds * REQUESTS_PER_ROUND) {
		while (status == RS_OK && may_begin(traffic))
			status = post_round(traffic);
		if (status == RS_OK)
			status = take_completions(traffic, step, data);
		if (status == RS_OK && traffic->begun - traffic->answered >= RECEIVES / 2)
			status = take_answers(traffic);
	}
	return status == RS_OK ? say_the_end(traffic) : status;
}

/* Server
 * -------------------------------------------------------------------------------------------------
 */

static enum rs_status answer(struct traffic *traffic)
{
	struct connection *connection = traffic->connection;
	uint64_t *place = &connection->memory.sent[traffic->answers++ % SLOTS];
	struct ibv_sge sge = { (uintptr_t)place, sizeof(*place), connection->mr->lkey };
	struct ibv_send_wr wr = {
		.wr_id = traffic->answers, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND
	};

	*place = value_of(traffic->completed);
	return post(connection, &wr);
}

static enum rs_status take_message(struct traffic *traffic, const struct ibv_wc *wc,
				   traffic_fn step, void *data)
{
	struct connection *connection = traffic->connection;
	enum rs_status status;

	if (wc->byte_len == 0) {
		traffic->is_over = true;
		return RS_OK;
	}
	status = expect("message", traffic->completed, value_of(traffic->completed),
			connection->memory.received[wc->wr_id]);
	traffic->completed++;
	if (status == RS_OK)
		status = connection_post_receive(connection, wc->wr_id);
	if (status == RS_OK && traffic->completed % ANSWER_EVERY == 0)
		status = answer(traffic);
	return status == RS_OK ? step(traffic, data) : status;
}

static enum rs_status take_messages(struct traffic *traffic, traffic_fn step, void *data)
{
	struct ibv_wc wcs[BATCH];
	size_t count;
	enum rs_status status = poll_queue(traffic->connection->id->recv_cq, wcs, &count);

	for (size_t i = 0; i < count && status == RS_OK; i++)
		status = take_message(traffic, &wcs[i], step, data);
	return status == RS_OK ? peer_watch(traffic->peer, count) : status;
}

/* The answers that have been acknowledged. */
static enum rs_status forget_answers(struct traffic *traffic)
{
	struct ibv_wc wcs[BATCH];
	size_t count;
	enum rs_status status = poll_queue(traffic->connection->id->send_cq, wcs, &count);

	traffic->answered += count;
	return status;
}

static enum rs_status check_memory(const struct traffic *traffic)
{
	const struct memory *memory = &traffic->connection->memory;
	uint64_t rounds = traffic->completed;
	enum rs_status status = expect("the counter after round", rounds, rounds, memory->counter);

	for (uint64_t back = 1; back <= SLOTS && back <= rounds && status == RS_OK; back++)
		status = expect("what was written in round", rounds - back, value_of(rounds - back),
				memory->target[(rounds - back) % SLOTS]);
	return status;
}

enum rs_status traffic_server(struct traffic *traffic, traffic_fn step, void *data)
{
	enum rs_status status = RS_OK;

	while (status == RS_OK && !traffic->is_over) {
		status = take_messages(traffic, step, data);
		if (status == RS_OK && traffic->answered < traffic->answers)
			status = forget_answers(traffic);
	}
	return status == RS_OK ? check_memory(traffic) : status;
}
