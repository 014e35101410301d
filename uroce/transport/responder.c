#include "responder.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../core/engine.h"
#include "../core/qp.h"
#include "completion.h"
#include "credits.h"
#include "psn.h"
#include "scatter.h"
#include "segment.h"

/* ---- Answers ---- */

static void schedule_answer(struct ur_qp *qp, uint8_t syndrome)
{
	qp->responder.answer_pending = true;
	qp->responder.syndrome = syndrome;
	ur_engine_schedule(qp->device, qp);
}

static void schedule_ack(struct ur_qp *qp)
{
	schedule_answer(qp, UR_SYNDROME_ACK);
}

/* Receives in a shared queue belong to no connection, so nothing is promised. */
static uint8_t ack_syndrome(const struct ur_qp *qp)
{
	uint32_t code =
		ur_qp_shares_receives(qp) ? UR_CREDITS_UNLIMITED : ur_credits_encode(qp->rq.count);

	return (uint8_t)(UR_SYNDROME_ACK | code);
}

static void carry(struct ur_qp *qp, const struct ur_packet *packet, const struct iovec *payload)
{
	const struct ur_tx tx = {
		.packet = packet,
		.payload = payload,
		.payload_count = packet->payload_length > 0,
		.owner = qp,
	};

	qp->carrier->send(qp->carrier, &qp->path, &tx);
}

static struct ur_packet new_response(const struct ur_qp *qp, uint8_t operation, uint32_t psn)
{
	return (struct ur_packet){
		.opcode = qp->first_opcode | operation,
		.migrated = true,
		.pkey = UR_DEFAULT_PKEY,
		.dest_qpn = qp->attr.dest_qp_num,
		.psn = psn,
		.syndrome = ack_syndrome(qp),
		.msn = qp->responder.msn,
	};
}

static void count_answer(struct ur_qp *qp, uint8_t syndrome)
{
	struct ur_counters *counters = &qp->device->counters;

	switch (syndrome & UR_SYNDROME_KIND) {
	case UR_SYNDROME_NAK:
		counters->naks_sent++;
		break;
	case UR_SYNDROME_RNR_NAK:
		counters->rnr_naks_sent++;
		break;
	default:
		counters->acks_sent++;
	}
}

/* An acknowledgement names the newest that was executed, a NAK the one that was not. */
static void send_answer(struct ur_qp *qp)
{
	struct ur_responder *r = &qp->responder;
	bool is_ack = (r->syndrome & UR_SYNDROME_KIND) == UR_SYNDROME_ACK;
	uint32_t psn = is_ack ? ur_psn_add(r->epsn, UR_24_BITS) : r->epsn;
	struct ur_packet packet = new_response(qp, UR_RC_ACKNOWLEDGE, psn);

	if (!is_ack)
		packet.syndrome = r->syndrome;
	r->answer_pending = false;
	count_answer(qp, packet.syndrome);
	carry(qp, &packet, NULL);
}

/* ---- Responses of reads and atomics ---- */

static struct ur_response_job *job_at(const struct ur_responder *r, uint32_t index)
{
	return &r->jobs[(r->job_head + index) % r->resource_capacity];
}

/*
 * In the order of the sequence numbers, which is that in which the peer waits for them: what it asks for
 * again comes before what is still to come. There is room.
 */
static void add_job(struct ur_qp *qp, struct ur_response_job job)
{
	struct ur_responder *r = &qp->responder;
	uint32_t place = r->job_count++;

	for (; place > 0 && ur_psn_diff(job_at(r, place - 1)->psn, job.psn) > 0; place--)
		*job_at(r, place) = *job_at(r, place - 1);
	*job_at(r, place) = job;
	ur_engine_schedule(qp->device, qp);
}

static uint8_t read_response_opcode(const struct ur_response_job *job)
{
	if (job->first)
		return job->packets == 1 ? UR_RC_READ_RESPONSE_ONLY : UR_RC_READ_RESPONSE_FIRST;
	return job->packets == 1 ? UR_RC_READ_RESPONSE_LAST : UR_RC_READ_RESPONSE_MIDDLE;
}

/* Returns false if the memory may no longer be read. */
static bool send_read_response(struct ur_qp *qp, struct ur_response_job *job)
{
	struct ur_packet packet = new_response(qp, read_response_opcode(job), job->psn);
	uint32_t length = job->length < qp->mtu ? job->length : qp->mtu;
	struct iovec payload = { NULL, length };

	if (length > 0) {
		payload.iov_base = ur_resolve_remote(qp, job->pd, job->rkey, job->va, length,
						     IBV_ACCESS_REMOTE_READ);
		if (!payload.iov_base)
			return false;
	}
	packet.payload_length = length;
	job->first = false;
	job->packets--;
	job->psn = ur_psn_add(job->psn, 1);
	job->va += length;
	job->length -= length;
	carry(qp, &packet, &payload);
	return true;
}

static void send_atomic_response(struct ur_qp *qp, struct ur_response_job *job)
{
	struct ur_packet packet = new_response(qp, job->response, job->psn);

	packet.atomic_original = job->original;
	job->packets--;
	carry(qp, &packet, NULL);
}

static void fail(struct ur_qp *qp, enum ur_nak_code code, enum ibv_event_type event);

/* Sends one packet of the oldest job. */
static void run_job(struct ur_qp *qp)
{
	struct ur_responder *r = &qp->responder;
	struct ur_response_job *job = job_at(r, 0);

	if (job->is_atomic) {
		send_atomic_response(qp, job);
	} else if (!send_read_response(qp, job)) {
		/* The NAK is for this response. */
		r->epsn = job->psn;
		r->job_count = 0;
		fail(qp, UR_NAK_REMOTE_ACCESS, IBV_EVENT_QP_ACCESS_ERR);
		return;
	}
	if (job->packets == 0) {
		r->job_head = (r->job_head + 1) % r->resource_capacity;
		r->job_count--;
	}
}

bool ur_responder_respond(struct ur_qp *qp)
{
	struct ur_responder *r = &qp->responder;

	for (unsigned sent = 0; r->job_count > 0 && sent < UR_RESPONSE_BURST; sent++) {
		if (qp->carrier->blocked)
			return true;
		run_job(qp);
	}
	if (r->job_count > 0)
		return true;
	if (r->answer_pending && qp->carrier->blocked)
		return true;
	if (r->answer_pending)
		send_answer(qp);
	return false;
}

/* ---- Ends ---- */

static void raise_event(struct ur_qp *qp, enum ibv_event_type event)
{
	ur_async_raise(qp->context,
		       event == IBV_EVENT_QP_ACCESS_ERR ? &qp->access_event : &qp->request_event);
}

/*
 * Answers with a NAK, which is the last that the peer hears. What was executed is answered before it, but
 * no more than a burst of that: the peer has broken the rules. Returns false if an answer was what could
 * not be given, which was the end already.
 */
static bool send_last_nak(struct ur_qp *qp, enum ur_nak_code code)
{
	struct ur_responder *r = &qp->responder;

	for (unsigned sent = 0; r->job_count > 0 && sent < UR_RESPONSE_BURST; sent++)
		run_job(qp);
	if (qp->attr.qp_state == IBV_QPS_ERR)
		return false;
	r->job_count = 0;
	r->answer_pending = true;
	r->syndrome = (uint8_t)(UR_SYNDROME_NAK | code);
	send_answer(qp);
	return true;
}

static void fail(struct ur_qp *qp, enum ur_nak_code code, enum ibv_event_type event)
{
	if (!send_last_nak(qp, code))
		return;
	raise_event(qp, event);
	ur_qp_to_error(qp);
}

void ur_responder_fail_receive(struct ur_qp *qp, enum ibv_wc_status status)
{
	struct ibv_wc wc = { .status = status, .opcode = IBV_WC_RECV };

	qp->responder.message = UR_NO_MESSAGE;
	qp->responder.has_receive = false;
	ur_complete_recv(qp, &qp->responder.wqe, &wc, false);
}

/* The receive that the message was to go to ends with the queue pair. */
static void fail_receive(struct ur_qp *qp, enum ur_nak_code code, enum ibv_wc_status status)
{
	if (!send_last_nak(qp, code))
		return;
	ur_responder_fail_receive(qp, status);
	ur_qp_to_error(qp);
}

/* ---- Execution ---- */

/* Whether the queue pair is there for such requests. Others are as unknown to it as a reserved opcode. */
static bool permits(const struct ur_qp *qp, int access)
{
	return (qp->attr.qp_access_flags & (unsigned)access) == (unsigned)access;
}

/* Whether length bytes at the request's address may be accessed so. Without bytes there is no check. */
static bool may_access(const struct ur_qp *qp, const struct ur_packet *packet, uint32_t length,
		       int access)
{
	return length == 0 || ur_resolve_remote(qp, qp->target.pd, packet->rkey, packet->va, length,
						(unsigned)access);
}

/* One that was taken for a message that did not come to its end is there for the next. */
static bool take_receive(struct ur_qp *qp)
{
	struct ur_responder *r = &qp->responder;

	r->has_receive = r->has_receive || ur_take_recv(qp, &r->wqe);
	return r->has_receive;
}

static void complete_message(struct ur_qp *qp, const struct ur_packet *packet, uint32_t flags,
			     enum ibv_wc_opcode opcode, uint32_t length)
{
	struct ibv_wc wc = { .status = IBV_WC_SUCCESS, .opcode = opcode, .byte_len = length };

	if (flags & UR_HAS_IMM) {
		wc.wc_flags |= IBV_WC_WITH_IMM;
		wc.imm_data = packet->imm;
	}
	if (flags & UR_HAS_IETH) {
		wc.wc_flags |= IBV_WC_WITH_INV;
		wc.invalidated_rkey = packet->invalidate_rkey;
	}
	qp->responder.has_receive = false;
	ur_complete_recv(qp, &qp->responder.wqe, &wc, packet->solicited);
}

static enum ur_outcome execute_send(struct ur_qp *qp, const struct ur_packet *packet,
				    uint32_t flags)
{
	const struct ur_target *target = &qp->target;
	struct ur_responder *r = &qp->responder;
	enum ibv_wc_status status;

	if (flags & UR_IS_FIRST) {
		if (!take_receive(qp))
			return UR_NOT_READY;
		r->message = UR_SEND_MESSAGE;
		r->received = 0;
	}
	status = ur_scatter(qp->device, target->srq ? target->srq->pd : target->pd, r->wqe.sges,
			    r->wqe.sge_count, r->received, packet->payload, packet->payload_length);
	if (status != IBV_WC_SUCCESS)
		return status == IBV_WC_LOC_LEN_ERR ? UR_RECEIVE_TOO_SHORT : UR_RECEIVE_PROTECTED;
	r->received += packet->payload_length;
	if (!(flags & UR_IS_LAST))
		return UR_EXECUTED;
	if ((flags & UR_HAS_IETH) && !ur_mw_invalidate_remotely(qp, packet->invalidate_rkey))
		return UR_ACCESS_ERROR;
	r->message = UR_NO_MESSAGE;
	complete_message(qp, packet, flags, IBV_WC_RECV, (uint32_t)r->received);
	return UR_EXECUTED;
}

static enum ur_outcome begin_write(struct ur_qp *qp, const struct ur_packet *packet)
{
	struct ur_responder *r = &qp->responder;

	if (packet->dma_length > UR_MAX_MESSAGE || !permits(qp, IBV_ACCESS_REMOTE_WRITE))
		return UR_INVALID_REQUEST;
	if (!may_access(qp, packet, packet->dma_length, IBV_ACCESS_REMOTE_WRITE))
		return UR_ACCESS_ERROR;
	r->va = packet->va;
	r->rkey = packet->rkey;
	r->dma_length = packet->dma_length;
	r->remaining = packet->dma_length;
	return UR_EXECUTED;
}

/*
 * Where the packet's payload goes, NULL if that is not permitted. The region is looked for at each packet:
 * it may be gone since the first, and a window bound anew.
 */
static void *find_target(const struct ur_qp *qp, const struct ur_packet *packet)
{
	return ur_resolve_remote(qp, qp->target.pd, qp->responder.rkey, qp->responder.va,
				 packet->payload_length, IBV_ACCESS_REMOTE_WRITE);
}

static void write_payload(struct ur_responder *r, const struct ur_packet *packet, void *target)
{
	memcpy(target, packet->payload, packet->payload_length);
	r->va += packet->payload_length;
	r->remaining -= (uint32_t)packet->payload_length;
}

static enum ur_outcome execute_write(struct ur_qp *qp, const struct ur_packet *packet,
				     uint32_t flags)
{
	struct ur_responder *r = &qp->responder;
	bool has_data = packet->payload_length > 0;
	enum ur_outcome outcome;
	void *target;

	if (flags & UR_IS_FIRST) {
		outcome = begin_write(qp, packet);
		if (outcome != UR_EXECUTED)
			return outcome;
	}
	if (packet->payload_length > r->remaining ||
	    ((flags & UR_IS_LAST) && packet->payload_length < r->remaining))
		return UR_INVALID_REQUEST;
	target = has_data ? find_target(qp, packet) : NULL;
	if (has_data && !target)
		return UR_ACCESS_ERROR;
	if ((flags & UR_HAS_IMM) && !take_receive(qp))
		return UR_NOT_READY;
	if (has_data)
		write_payload(r, packet, target);
	r->message = flags & UR_IS_LAST ? UR_NO_MESSAGE : UR_WRITE_MESSAGE;
	if (flags & UR_HAS_IMM)
		complete_message(qp, packet, flags, IBV_WC_RECV_RDMA_WITH_IMM, r->dma_length);
	return UR_EXECUTED;
}

static bool has_room(const struct ur_responder *r)
{
	return r->job_count < r->resource_capacity;
}

/* Answers that are given again make room: the peer has gone on, so it hardly waits for them. */
static void drop_repeated(struct ur_responder *r)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < r->job_count; i++)
		if (!job_at(r, i)->again)
			*job_at(r, kept++) = *job_at(r, i);
	r->job_count = kept;
}

/* A peer with more reads and atomics in flight than was agreed asks for what is not kept. */
static bool make_room(struct ur_responder *r)
{
	if (!has_room(r))
		drop_repeated(r);
	return has_room(r);
}

static void keep_resource(struct ur_responder *r, const struct ur_resource *resource)
{
	r->resources[r->resource_next] = *resource;
	r->resource_next = (r->resource_next + 1) % r->resource_capacity;
	if (r->resource_count < r->resource_capacity)
		r->resource_count++;
}

static struct ur_response_job read_job(const struct ur_qp *qp, const struct ur_packet *packet,
				       const struct ur_pd *pd)
{
	return (struct ur_response_job){
		.psn = packet->psn,
		.packets = ur_segment_count(packet->dma_length, qp->mtu),
		.first = true,
		.pd = pd,
		.va = packet->va,
		.rkey = packet->rkey,
		.length = packet->dma_length,
	};
}

static struct ur_response_job atomic_job(const struct ur_resource *resource)
{
	return (struct ur_response_job){
		.is_atomic = true,
		.response = resource->response,
		.psn = resource->psn,
		.packets = 1,
		.original = resource->original,
	};
}

static enum ur_outcome execute_read(struct ur_qp *qp, const struct ur_packet *packet)
{
	struct ur_responder *r = &qp->responder;

	if (packet->dma_length > UR_MAX_MESSAGE || !permits(qp, IBV_ACCESS_REMOTE_READ) ||
	    !make_room(r))
		return UR_INVALID_REQUEST;
	if (!may_access(qp, packet, packet->dma_length, IBV_ACCESS_REMOTE_READ))
		return UR_ACCESS_ERROR;
	keep_resource(r, &(struct ur_resource){
				 .psn = packet->psn,
				 .packets = ur_segment_count(packet->dma_length, qp->mtu),
				 .pd = qp->target.pd,
				 .va = packet->va,
				 .rkey = packet->rkey,
				 .length = packet->dma_length,
			 });
	add_job(qp, read_job(qp, packet, qp->target.pd));
	return UR_EXECUTED;
}

/* On the memory itself, so that it is atomic also towards this machine's processors. */
static uint64_t execute_on(uint64_t *target, const struct ur_packet *packet)
{
	uint64_t original = packet->compare;

	if (ur_operation(packet->opcode) == UR_RC_FETCH_ADD)
		return __atomic_fetch_add(target, packet->swap_or_add, __ATOMIC_SEQ_CST);
	__atomic_compare_exchange_n(target, &original, packet->swap_or_add, false, __ATOMIC_SEQ_CST,
				    __ATOMIC_SEQ_CST);
	return original;
}

/* Where 8 bytes are that an atomic operation accesses. */
static enum ur_outcome find_word(struct ur_qp *qp, const struct ur_packet *packet, int access,
				 uint64_t **word)
{
	if (packet->va % sizeof(**word) != 0 || !permits(qp, access) || !make_room(&qp->responder))
		return UR_INVALID_REQUEST;
	*word = ur_resolve_remote(qp, qp->target.pd, packet->rkey, packet->va, sizeof(**word),
				  (unsigned)access);
	if (!*word)
		return UR_ACCESS_ERROR;
	/* The region's addresses for peers may be aligned where its memory is not. */
	return (uintptr_t)*word % sizeof(**word) == 0 ? UR_EXECUTED : UR_INVALID_REQUEST;
}

static void answer_atomic(struct ur_qp *qp, const struct ur_packet *packet, uint8_t response,
			  uint64_t original)
{
	const struct ur_resource resource = { .is_atomic = true,
					      .response = response,
					      .psn = packet->psn,
					      .packets = 1,
					      .original = original };

	keep_resource(&qp->responder, &resource);
	add_job(qp, atomic_job(&resource));
}

static enum ur_outcome execute_atomic(struct ur_qp *qp, const struct ur_packet *packet)
{
	uint64_t *word;
	enum ur_outcome outcome = find_word(qp, packet, IBV_ACCESS_REMOTE_ATOMIC, &word);

	if (outcome == UR_EXECUTED)
		answer_atomic(qp, packet, UR_RC_ATOMIC_ACKNOWLEDGE, execute_on(word, packet));
	return outcome;
}

/* In one piece, behind all that was written before. */
static enum ur_outcome execute_atomic_write(struct ur_qp *qp, const struct ur_packet *packet)
{
	uint64_t value, *word;
	enum ur_outcome outcome;

	if (packet->payload_length != sizeof(value) || packet->dma_length != sizeof(value))
		return UR_INVALID_REQUEST;
	outcome = find_word(qp, packet, IBV_ACCESS_REMOTE_WRITE, &word);
	if (outcome != UR_EXECUTED)
		return outcome;
	memcpy(&value, packet->payload, sizeof(value));
	__atomic_store_n(word, value, __ATOMIC_SEQ_CST);
	answer_atomic(qp, packet, UR_RC_READ_RESPONSE_ONLY, 0);
	return UR_EXECUTED;
}

/* Whether the packet can follow those before it, and has the length that its place asks for. */
static bool is_well_formed(const struct ur_qp *qp, const struct ur_packet *packet, uint32_t flags)
{
	enum ur_message_kind begun = qp->responder.message;

	if (flags & UR_IS_FIRST
		    ? begun != UR_NO_MESSAGE
		    : begun != (flags & UR_IS_SEND ? UR_SEND_MESSAGE : UR_WRITE_MESSAGE))
		return false;
	if (!(flags & UR_HAS_PAYLOAD))
		return true;
	if (!(flags & UR_IS_LAST))
		return packet->payload_length == qp->mtu;
	return packet->payload_length <= qp->mtu &&
	       (packet->payload_length > 0 || (flags & UR_IS_FIRST));
}

enum ur_outcome ur_responder_execute(struct ur_qp *qp, const struct ur_packet *packet,
				     uint32_t flags)
{
	if (!is_well_formed(qp, packet, flags))
		return UR_INVALID_REQUEST;
	if (flags & UR_IS_SEND)
		return execute_send(qp, packet, flags);
	if (flags & UR_IS_WRITE)
		return execute_write(qp, packet, flags);
	if (ur_operation(packet->opcode) == UR_RC_READ_REQUEST)
		return execute_read(qp, packet);
	if (ur_operation(packet->opcode) == UR_RC_ATOMIC_WRITE)
		return execute_atomic_write(qp, packet);
	return execute_atomic(qp, packet);
}

static void move_on(struct ur_qp *qp, const struct ur_packet *packet, uint32_t flags)
{
	struct ur_responder *r = &qp->responder;
	bool is_read = ur_operation(packet->opcode) == UR_RC_READ_REQUEST;

	r->epsn = ur_psn_add(r->epsn, is_read ? ur_segment_count(packet->dma_length, qp->mtu) : 1);
	r->nak_sent = false;
	if (flags & UR_IS_LAST)
		r->msn = (r->msn + 1) & UR_24_BITS;
	/* Reads and atomics are acknowledged by their responses. */
	if (packet->ack_request && (flags & (UR_IS_SEND | UR_IS_WRITE)))
		schedule_ack(qp);
	else
		r->syndrome =
			UR_SYNDROME_ACK; /* a NAK that is still to be sent has been overtaken */
}

static void refuse_for_now(struct ur_qp *qp)
{
	qp->responder.nak_sent = true;
	schedule_answer(qp, (uint8_t)(UR_SYNDROME_RNR_NAK | qp->attr.min_rnr_timer));
}

/* A request of an extended connection says itself what it has to do with. */
static enum ur_outcome execute(struct ur_qp *qp, const struct ur_packet *packet, uint32_t flags)
{
	if (flags & UR_HAS_XRCETH && !ur_xrcd_aim(qp, packet->srqn))
		return UR_INVALID_REQUEST;
	return ur_responder_execute(qp, packet, flags);
}

static void receive_expected(struct ur_qp *qp, const struct ur_packet *packet, uint32_t flags)
{
	switch (execute(qp, packet, flags)) {
	case UR_EXECUTED:
		move_on(qp, packet, flags);
		break;
	case UR_NOT_READY:
		refuse_for_now(qp);
		break;
	case UR_INVALID_REQUEST:
		fail(qp, UR_NAK_INVALID_REQUEST, IBV_EVENT_QP_REQ_ERR);
		break;
	case UR_ACCESS_ERROR:
		fail(qp, UR_NAK_REMOTE_ACCESS, IBV_EVENT_QP_ACCESS_ERR);
		break;
	case UR_RECEIVE_TOO_SHORT:
		fail_receive(qp, UR_NAK_INVALID_REQUEST, IBV_WC_LOC_LEN_ERR);
		break;
	case UR_RECEIVE_PROTECTED:
		fail_receive(qp, UR_NAK_REMOTE_OPERATION, IBV_WC_LOC_PROT_ERR);
		break;
	}
}

/* ---- Requests that come again, or too early ---- */

static struct ur_resource *find_resource(struct ur_responder *r, uint32_t psn)
{
	for (uint32_t i = 0; i < r->resource_count; i++) {
		int32_t offset = ur_psn_diff(psn, r->resources[i].psn);

		if (offset >= 0 && offset < (int32_t)r->resources[i].packets)
			return &r->resources[i];
	}
	return NULL;
}

/* The job that sends the responses of a resource; NULL: all of them were sent. */
static struct ur_response_job *find_job(const struct ur_responder *r,
					const struct ur_resource *resource)
{
	for (uint32_t i = 0; i < r->job_count; i++) {
		struct ur_response_job *job = job_at(r, i);
		int32_t offset = ur_psn_diff(job->psn, resource->psn);

		if (offset >= 0 && offset < (int32_t)resource->packets)
			return job;
	}
	return NULL;
}

static struct ur_response_job repeated(struct ur_response_job job)
{
	job.again = true;
	return job;
}

/* Whether it asks for the end of what was asked for before: the rest of it, or all. */
static bool is_part_of(const struct ur_qp *qp, const struct ur_packet *packet,
		       const struct ur_resource *resource)
{
	uint64_t skipped = (uint64_t)(uint32_t)ur_psn_diff(packet->psn, resource->psn) * qp->mtu;

	return !resource->is_atomic && packet->rkey == resource->rkey &&
	       packet->va == resource->va + skipped && skipped <= resource->length &&
	       packet->dma_length <= resource->length - skipped;
}

static void repeat_read(struct ur_qp *qp, const struct ur_packet *packet)
{
	struct ur_responder *r = &qp->responder;
	const struct ur_resource *resource = find_resource(r, packet->psn);
	struct ur_response_job *job;

	if (!resource || !is_part_of(qp, packet, resource)) {
		qp->device->counters.rx_unexpected++;
		return;
	}
	job = find_job(r, resource);
	if (job) {
		/* What it has sent already is asked for again; the rest is on its way. */
		if (ur_psn_diff(packet->psn, job->psn) < 0)
			*job = read_job(qp, packet, resource->pd);
	} else if (has_room(r)) {
		add_job(qp, repeated(read_job(qp, packet, resource->pd)));
	}
}

static void repeat_atomic(struct ur_qp *qp, const struct ur_packet *packet)
{
	struct ur_responder *r = &qp->responder;
	const struct ur_resource *resource = find_resource(r, packet->psn);

	if (resource && resource->is_atomic && !find_job(r, resource) && has_room(r))
		add_job(qp, repeated(atomic_job(resource)));
}

static void receive_duplicate(struct ur_qp *qp, const struct ur_packet *packet, uint32_t flags)
{
	qp->device->counters.rx_duplicate++;
	if (ur_operation(packet->opcode) == UR_RC_READ_REQUEST)
		repeat_read(qp, packet);
	else if (!(flags & (UR_IS_SEND | UR_IS_WRITE)))
		repeat_atomic(qp, packet);
	else if (!qp->responder.answer_pending)
		schedule_ack(qp);
}

static void receive_early(struct ur_qp *qp)
{
	qp->device->counters.rx_out_of_sequence++;
	if (qp->responder.nak_sent)
		return;
	qp->responder.nak_sent = true;
	schedule_answer(qp, UR_SYNDROME_NAK | UR_NAK_SEQUENCE);
}

void ur_responder_note_request(struct ur_qp *qp)
{
	if (qp->responder.heard)
		return;
	qp->responder.heard = true;
	if (qp->attr.qp_state == IBV_QPS_RTR)
		ur_async_raise(qp->context, &qp->established_event);
}

void ur_responder_receive(struct ur_qp *qp, const struct ur_packet *packet)
{
	int32_t ahead = ur_psn_diff(packet->psn, qp->responder.epsn);
	uint32_t flags = ur_opcode_flags(packet->opcode);

	ur_responder_note_request(qp);
	if (ahead == 0)
		receive_expected(qp, packet, flags);
	else if (ahead < 0)
		receive_duplicate(qp, packet, flags);
	else
		receive_early(qp);
}

/* ---- Life ---- */

int ur_responder_start(struct ur_qp *qp)
{
	struct ur_responder *r = &qp->responder;
	uint32_t capacity = qp->attr.max_dest_rd_atomic;

	*r = (struct ur_responder){ .epsn = qp->attr.rq_psn, .resource_capacity = capacity };
	if (capacity == 0)
		return 0;
	r->resources = calloc(capacity, sizeof(*r->resources));
	r->jobs = calloc(capacity, sizeof(*r->jobs));
	if (r->resources && r->jobs)
		return 0;
	ur_responder_free(qp);
	return ENOMEM;
}

void ur_responder_free(struct ur_qp *qp)
{
	free(qp->responder.resources);
	free(qp->responder.jobs);
	qp->responder = (struct ur_responder){ 0 };
}
