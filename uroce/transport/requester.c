#include "requester.h"

#include <string.h>

#include "../core/engine.h"
#include "../core/qp.h"
#include "../link/address.h"
#include "completion.h"
#include "credits.h"
#include "psn.h"
#include "scatter.h"
#include "segment.h"

/*
 * How soon at least to ask for an answer again, well before the acknowledgement timeout: long enough for a
 * peer that has to be scheduled, short beside the timeouts that programs set. Longer where answers take
 * longer: what comes again keeps a slow peer from what it has still to do. Doubles each time.
 */
#define PROBE_INTERVAL (4 * UR_NS_PER_MS)
/* What loss makes of the time that answers take must not put the probes off for good. */
#define MOST_PROBE_INTERVAL (64 * UR_NS_PER_MS)

/* Packets after which an acknowledgement is asked for within a message. */
#define MAX_UNREQUESTED 16

#define RETRY_FOREVER 7 /* of the RNR retry count */

/* The RNR timers of the AETH, in units of 10 us (table 45). */
static const uint32_t rnr_timers[32] = {
	65536, 1,    2,    3,    4,    6,     8,     12,    16,    24,    32,
	48,    64,   96,   128,  192,  256,   384,   512,   768,   1024,  1536,
	2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
};

static struct ur_send_wqe *head_of(const struct ur_qp *qp)
{
	return ur_send_queue_at(&qp->sq, qp->sq.head);
}

/* What brings back what it found. */
static bool is_atomic(const struct ur_send_wqe *wqe)
{
	return wqe->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
	       wqe->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

/*
 * What completes with its response, not with an acknowledgement. An atomic write's is that of a read of
 * nothing.
 */
static bool is_read_like(const struct ur_send_wqe *wqe)
{
	return wqe->opcode == IBV_WR_RDMA_READ || wqe->opcode == IBV_WR_ATOMIC_WRITE ||
	       is_atomic(wqe);
}

/* Whether the message uses up a receive of the peer. */
static bool takes_receive(const struct ur_send_wqe *wqe)
{
	return !is_read_like(wqe) && wqe->opcode != IBV_WR_RDMA_WRITE && !ur_send_wqe_is_local(wqe);
}

/* ---- Packets of an entry ---- */

static uint32_t packets_of(const struct ur_qp *qp, const struct ur_send_wqe *wqe)
{
	if (ur_send_wqe_is_local(wqe))
		return 0;
	return is_atomic(wqe) ? 1 : ur_segment_count(wqe->length, qp->mtu);
}

static uint64_t bytes_before(const struct ur_qp *qp, const struct ur_send_wqe *wqe, uint32_t index)
{
	return ur_bytes_before(wqe, qp->mtu, index);
}

/* What packets from..to count in the window. */
static uint32_t cost(const struct ur_qp *qp, const struct ur_send_wqe *wqe, uint32_t from,
		     uint32_t to)
{
	uint64_t bytes = bytes_before(qp, wqe, to) - bytes_before(qp, wqe, from);

	return (uint32_t)bytes + (to - from) * UR_PACKET_OVERHEAD;
}

static uint32_t chunk_packets(const struct ur_qp *qp)
{
	return UR_READ_CHUNK / qp->mtu;
}

/* The packet behind the read request that covers packet number index. */
static uint32_t chunk_end(const struct ur_qp *qp, const struct ur_send_wqe *wqe, uint32_t index)
{
	uint32_t end = (index / chunk_packets(qp) + 1) * chunk_packets(qp);

	return end < wqe->packets ? end : wqe->packets;
}

/* How many sequence numbers what is sent next takes. */
static uint32_t next_step(const struct ur_qp *qp, const struct ur_send_wqe *wqe, uint32_t index)
{
	return wqe->opcode == IBV_WR_RDMA_READ ? chunk_end(qp, wqe, index) - index : 1;
}

/* ---- Timers ---- */

static uint64_t earliest(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static void set_timer(struct ur_qp *qp)
{
	const struct ur_requester *r = &qp->requester;
	uint64_t deadline = earliest(r->rnr_deadline, earliest(r->ack_deadline, r->probe_deadline));

	if (deadline != qp->deadline)
		ur_engine_set_timer(qp->device, qp, deadline);
}

static uint64_t ack_timeout(const struct ur_qp *qp)
{
	return qp->attr.timeout ? UINT64_C(4096) << qp->attr.timeout : UR_NEVER;
}

static void stop_timers(struct ur_qp *qp)
{
	qp->requester.ack_deadline = UR_NEVER;
	qp->requester.probe_deadline = UR_NEVER;
}

static uint64_t first_probe_interval(const struct ur_qp *qp)
{
	uint64_t usual = 2 * qp->requester.round_trip;
	uint64_t timeout = ack_timeout(qp);
	uint64_t most = timeout / 4 < MOST_PROBE_INTERVAL ? timeout / 4 : MOST_PROBE_INTERVAL;

	if (usual > most)
		usual = most;
	return usual > PROBE_INTERVAL ? usual : PROBE_INTERVAL;
}

/* Probes only make sense when they are much earlier than the timeout. */
static void start_probe_timer(struct ur_qp *qp, uint64_t now)
{
	struct ur_requester *r = &qp->requester;
	uint64_t timeout = ack_timeout(qp);

	r->probe_deadline = timeout == UR_NEVER || r->probe_interval < timeout / 2
				    ? now + r->probe_interval
				    : UR_NEVER;
}

static void start_timers(struct ur_qp *qp, uint64_t now)
{
	uint64_t timeout = ack_timeout(qp);

	qp->requester.ack_deadline = timeout == UR_NEVER ? UR_NEVER : now + timeout;
	start_probe_timer(qp, now);
}

/* ---- Where the next packet comes from ---- */

/* Counts anew what is in flight, from una_psn to next_psn. */
static void recount(struct ur_qp *qp)
{
	struct ur_requester *r = &qp->requester;
	uint32_t begun = qp->sq.head;

	r->in_flight = 0;
	r->reads = 0;
	for (; begun != qp->sq.next; begun++) {
		const struct ur_send_wqe *wqe = ur_send_queue_at(&qp->sq, begun);
		int32_t from = ur_psn_diff(r->una_psn, wqe->first_psn);
		int32_t to = ur_psn_diff(r->next_psn, wqe->first_psn);

		from = from < 0 ? 0 : from;
		to = to > (int32_t)wqe->packets ? (int32_t)wqe->packets : to;
		if (to <= from)
			continue;
		r->in_flight += cost(qp, wqe, (uint32_t)from, (uint32_t)to);
		if (is_atomic(wqe))
			r->reads++;
		else if (is_read_like(wqe))
			r->reads += ((uint32_t)to - 1) / chunk_packets(qp) -
				    (uint32_t)from / chunk_packets(qp) + 1;
	}
}

/* The next packet to send becomes the one with that number, of those that were sent. */
static void go_to(struct ur_qp *qp, uint32_t psn)
{
	struct ur_requester *r = &qp->requester;

	r->next_psn = psn;
	r->unrequested = 0;
	r->current = qp->sq.head;
	for (; r->current != qp->sq.next; r->current++) {
		const struct ur_send_wqe *wqe = ur_send_queue_at(&qp->sq, r->current);

		r->offset = (psn - wqe->first_psn) & UR_24_BITS;
		if (r->offset < wqe->packets)
			break;
	}
	if (r->current == qp->sq.next)
		r->offset = 0;
	r->failed = false;
	recount(qp);
}

/* Sends again from the oldest packet that is not acknowledged. */
static void go_back(struct ur_qp *qp)
{
	go_to(qp, qp->requester.una_psn);
}

/* Packets were lost: sends less at a time for a while. An answer that comes now says nothing of the way. */
static void shrink_window(struct ur_qp *qp)
{
	struct ur_requester *r = &qp->requester;
	uint32_t least = 2 * (qp->mtu + UR_PACKET_OVERHEAD);

	r->timed_at = UR_NEVER;
	r->window = r->window / 2 > least ? r->window / 2 : least;
}

static void grow_window(struct ur_qp *qp, uint32_t acknowledged)
{
	struct ur_requester *r = &qp->requester;

	r->window += (uint32_t)((uint64_t)acknowledged * qp->mtu / r->window);
	if (r->window > qp->carrier->window)
		r->window = qp->carrier->window;
}

/* ---- How long answers take ---- */

/* Times the newest packet, if those from psn on were sent for the first time. */
static void start_timing(struct ur_qp *qp, uint32_t psn, uint64_t now)
{
	struct ur_requester *r = &qp->requester;

	if (r->timed_at != UR_NEVER || r->next_psn == psn || r->next_psn != r->max_psn)
		return;
	r->timed_at = now;
	r->timed_psn = ur_psn_add(r->next_psn, UR_24_BITS);
}

/* Believes at once that they take longer now, and by and by that they take less. */
static void stop_timing(struct ur_qp *qp, uint64_t now)
{
	struct ur_requester *r = &qp->requester;
	uint64_t taken;

	if (r->timed_at == UR_NEVER || ur_psn_diff(r->una_psn, r->timed_psn) <= 0)
		return;
	/* now was read before the answer was looked for, and may be older than what was sent since. */
	taken = now > r->timed_at ? now - r->timed_at : 0;
	r->timed_at = UR_NEVER;
	r->round_trip = taken > r->round_trip ? taken : r->round_trip - (r->round_trip - taken) / 4;
}

/* ---- Ends of entries ---- */

/* The oldest entry ends with an error, and with it the queue pair. */
static void fail_head(struct ur_qp *qp, enum ibv_wc_status status)
{
	ur_complete_send(qp, status);
	ur_qp_to_error(qp);
}

/* Completes the oldest entries as far as all their packets are acknowledged. */
static void complete_finished(struct ur_qp *qp)
{
	const struct ur_requester *r = &qp->requester;

	while (qp->sq.head != qp->sq.next) {
		const struct ur_send_wqe *wqe = head_of(qp);

		if (r->failed && qp->sq.head == r->current) {
			fail_head(qp, wqe->status);
			return;
		}
		if (qp->sq.head == r->current && wqe->packets == 0)
			return;
		if (ur_psn_diff(r->una_psn, wqe->first_psn) < (int32_t)wqe->packets)
			return;
		ur_complete_send(qp, IBV_WC_SUCCESS);
	}
	if (qp->attr.qp_state == IBV_QPS_SQD)
		ur_qp_check_drained(qp);
}

/* The current entry cannot be sent. It ends with that status once those before it are done. */
static void fail_current(struct ur_qp *qp, enum ibv_wc_status status)
{
	ur_send_queue_at(&qp->sq, qp->requester.current)->status = status;
	qp->requester.failed = true;
	complete_finished(qp);
}

/* ---- Sending ---- */

static uint8_t request_opcode(const struct ur_send_wqe *wqe, bool first, bool last)
{
	if (wqe->opcode == IBV_WR_RDMA_READ)
		return UR_RC_READ_REQUEST;
	if (wqe->opcode == IBV_WR_ATOMIC_CMP_AND_SWP)
		return UR_RC_COMPARE_SWAP;
	if (wqe->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		return UR_RC_FETCH_ADD;
	if (wqe->opcode == IBV_WR_ATOMIC_WRITE)
		return UR_RC_ATOMIC_WRITE;
	return ur_is_write(wqe) ? ur_write_opcode(wqe, first, last)
				: ur_send_opcode(wqe, first, last);
}

/* The headers of packet number index, but for its sequence number. */
static void fill_request(const struct ur_qp *qp, const struct ur_send_wqe *wqe, uint32_t index,
			 struct ur_packet *packet)
{
	bool last = index + next_step(qp, wqe, index) == wqe->packets;
	uint64_t start = bytes_before(qp, wqe, index);

	memset(packet, 0, sizeof(*packet));
	packet->opcode = qp->first_opcode | request_opcode(wqe, index == 0, last);
	packet->solicited = last && wqe->solicited;
	packet->migrated = true;
	packet->pkey = UR_DEFAULT_PKEY;
	packet->dest_qpn = qp->attr.dest_qp_num;
	packet->srqn = wqe->srqn;
	packet->ack_request = last;
	packet->rkey = wqe->rkey;
	packet->va = wqe->remote_addr;
	packet->imm = wqe->imm;
	packet->invalidate_rkey = wqe->invalidate_rkey;
	if (wqe->opcode == IBV_WR_RDMA_READ) {
		uint32_t end = chunk_end(qp, wqe, index);

		packet->va += start;
		packet->dma_length = (uint32_t)(bytes_before(qp, wqe, end) - start);
	} else if (wqe->opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
		packet->swap_or_add = wqe->swap;
		packet->compare = wqe->compare_or_add;
	} else if (wqe->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		packet->swap_or_add = wqe->compare_or_add;
	} else {
		packet->dma_length = (uint32_t)wqe->length;
		packet->payload_length = (size_t)(bytes_before(qp, wqe, index + 1) - start);
	}
}

static void carry(struct ur_qp *qp, const struct ur_packet *packet, const struct iovec *parts,
		  int count)
{
	const struct ur_tx tx = {
		.packet = packet,
		.payload = parts,
		.payload_count = (unsigned)count,
		.owner = qp,
	};

	qp->carrier->send(qp->carrier, &qp->path, &tx);
}

/* Counts the current entry's next packets as sent, and moves on. */
static void advance(struct ur_qp *qp, const struct ur_send_wqe *wqe, uint32_t step)
{
	struct ur_requester *r = &qp->requester;

	r->in_flight += cost(qp, wqe, r->offset, r->offset + step);
	r->reads += is_read_like(wqe);
	if (ur_psn_diff(r->max_psn, r->next_psn) > 0)
		qp->device->counters.retransmitted++;
	r->next_psn = ur_psn_add(r->next_psn, step);
	if (ur_psn_diff(r->next_psn, r->max_psn) > 0)
		r->max_psn = r->next_psn;
	r->offset += step;
	if (r->offset == wqe->packets) {
		r->offset = 0;
		r->current++;
	}
}

static bool fits_window(const struct ur_qp *qp, const struct ur_send_wqe *wqe, uint32_t index)
{
	const struct ur_requester *r = &qp->requester;
	uint32_t step = next_step(qp, wqe, index);

	return r->in_flight == 0 || r->in_flight + cost(qp, wqe, index, index + step) <= r->window;
}

/* Asks for an acknowledgement often enough, and when nothing more can be sent without one. */
static bool needs_answer(struct ur_qp *qp, const struct ur_send_wqe *wqe)
{
	struct ur_requester *r = &qp->requester;

	if (++r->unrequested < MAX_UNREQUESTED && r->offset > 0 && fits_window(qp, wqe, r->offset))
		return false;
	r->unrequested = 0;
	return true;
}

static void send_packet(struct ur_qp *qp, struct ur_send_wqe *wqe)
{
	struct ur_requester *r = &qp->requester;
	uint32_t index = r->offset;
	struct iovec parts[UR_MAX_SGE];
	struct ur_packet packet;
	int count;

	fill_request(qp, wqe, index, &packet);
	count = ur_gather_entry(qp->device, qp->pd, wqe, bytes_before(qp, wqe, index),
				packet.payload_length, parts);
	if (count < 0) {
		fail_current(qp, IBV_WC_LOC_PROT_ERR);
		return;
	}
	packet.psn = r->next_psn;
	/* Before the packet is handed over, which may say that it, or one before it, was not sent. */
	advance(qp, wqe, next_step(qp, wqe, index));
	packet.ack_request = needs_answer(qp, wqe) || packet.ack_request;
	carry(qp, &packet, parts, count);
}

/* A local operation was executed when it was begun, once; it is passed again when sending goes back. */
static void pass_local(struct ur_qp *qp)
{
	qp->requester.current++;
	complete_finished(qp);
}

/* What makes an entry impossible before any packet of it is sent. */
static enum ibv_wc_status check_entry(const struct ur_qp *qp, const struct ur_send_wqe *wqe)
{
	if (wqe->length > UR_MAX_MESSAGE)
		return IBV_WC_LOC_LEN_ERR;
	if (is_read_like(wqe) && qp->attr.max_rd_atomic == 0)
		return IBV_WC_LOC_QP_OP_ERR;
	return IBV_WC_SUCCESS;
}

static uint32_t requests_of(const struct ur_qp *qp, const struct ur_send_wqe *wqe)
{
	if (wqe->opcode == IBV_WR_RDMA_READ)
		return (wqe->packets + chunk_packets(qp) - 1) / chunk_packets(qp);
	return wqe->packets > 0 ? 1 : 0;
}

/* Gives the current entry its numbers, and executes it if that needs no packets. */
static void begin(struct ur_qp *qp, struct ur_send_wqe *wqe)
{
	struct ur_requester *r = &qp->requester;

	wqe->first_psn = r->next_psn;
	wqe->status = ur_send_wqe_is_local(wqe) ? ur_mw_execute(qp, wqe) : check_entry(qp, wqe);
	/* One that fails is not sent: it takes a number only so that it does not count as done. */
	wqe->packets = wqe->status == IBV_WC_SUCCESS ? packets_of(qp, wqe) : 1;
	/* The peer counts each request for a part of a read as a message. */
	r->ssn = (r->ssn + requests_of(qp, wqe)) & UR_24_BITS;
	wqe->ssn = r->ssn;
	qp->sq.next++;
}

static bool is_fresh(const struct ur_qp *qp)
{
	return qp->requester.current == qp->sq.next;
}

/*
 * Without credits for it a message may be sent only when it is the oldest: its answer brings new ones
 * (section 9.7.7.2.5).
 */
static bool has_credit(const struct ur_qp *qp, const struct ur_send_wqe *wqe)
{
	const struct ur_requester *r = &qp->requester;
	uint32_t ssn = is_fresh(qp) ? (r->ssn + 1) & UR_24_BITS : wqe->ssn;

	return !r->limited || !takes_receive(wqe) || r->current == qp->sq.head ||
	       ur_psn_diff(ssn, r->limit_ssn) <= 0;
}

static bool may_begin(const struct ur_qp *qp, const struct ur_send_wqe *wqe)
{
	return qp->attr.qp_state == IBV_QPS_RTS && !(wqe->fence && qp->requester.reads > 0);
}

static bool may_send(const struct ur_qp *qp)
{
	const struct ur_requester *r = &qp->requester;
	const struct ur_send_wqe *wqe = ur_send_queue_at(&qp->sq, r->current);

	if (r->current == qp->sq.tail || r->failed || r->rnr_deadline != UR_NEVER)
		return false;
	if (is_fresh(qp) && !may_begin(qp, wqe))
		return false;
	if (is_read_like(wqe) && r->reads >= qp->attr.max_rd_atomic && r->reads > 0)
		return false;
	if (!has_credit(qp, wqe))
		return false;
	return is_fresh(qp) ? r->in_flight == 0 ||
				      r->in_flight + qp->mtu + UR_PACKET_OVERHEAD <= r->window
			    : fits_window(qp, wqe, r->offset);
}

static void send_next(struct ur_qp *qp)
{
	struct ur_send_wqe *wqe = ur_send_queue_at(&qp->sq, qp->requester.current);

	if (is_fresh(qp))
		begin(qp, wqe);
	if (wqe->status != IBV_WC_SUCCESS)
		fail_current(qp, wqe->status);
	else if (wqe->packets == 0)
		pass_local(qp);
	else
		send_packet(qp, wqe);
}

static bool can_send_in_state(const struct ur_qp *qp)
{
	return qp->attr.qp_state == IBV_QPS_RTS || qp->attr.qp_state == IBV_QPS_SQD;
}

void ur_requester_transmit(struct ur_qp *qp, uint64_t now)
{
	struct ur_requester *r = &qp->requester;
	uint32_t first = r->next_psn;

	while (can_send_in_state(qp) && may_send(qp)) {
		if (qp->carrier->blocked) {
			qp->blocked = true;
			break;
		}
		send_next(qp);
	}
	if (!can_send_in_state(qp))
		return;
	start_timing(qp, first, now);
	if (r->in_flight > 0 && r->ack_deadline == UR_NEVER && r->probe_deadline == UR_NEVER &&
	    r->rnr_deadline == UR_NEVER)
		start_timers(qp, now);
	set_timer(qp);
}

void ur_requester_unsent(struct ur_qp *qp, uint32_t psn)
{
	const struct ur_requester *r = &qp->requester;

	qp->blocked = true;
	if (can_send_in_state(qp) && ur_psn_diff(psn, r->una_psn) >= 0 &&
	    ur_psn_diff(psn, r->next_psn) < 0)
		go_to(qp, psn);
}

/* ---- Answers ---- */

/* The peer has moved on: all patience begins anew. */
static void note_progress(struct ur_qp *qp, uint32_t acknowledged, uint64_t now)
{
	struct ur_requester *r = &qp->requester;

	r->retries_left = qp->attr.retry_cnt;
	r->rnr_retries_left = qp->attr.rnr_retry;
	stop_timing(qp, now);
	r->probe_interval = first_probe_interval(qp);
	r->probed = false;
	r->recovering = false;
	r->rnr_deadline = UR_NEVER;
	grow_window(qp, acknowledged);
	if (r->in_flight > 0)
		start_timers(qp, now);
	else
		stop_timers(qp);
}

/*
 * Packets of the head up to number end are answered; returns what they counted in the window. Numbers
 * that were to be sent again but are answered now are not in flight.
 */
static uint32_t acknowledge_packets(struct ur_qp *qp, const struct ur_send_wqe *wqe, uint32_t end)
{
	struct ur_requester *r = &qp->requester;
	uint32_t from = (uint32_t)ur_psn_diff(r->una_psn, wqe->first_psn);
	uint32_t bytes = cost(qp, wqe, from, end);

	r->una_psn = ur_psn_add(wqe->first_psn, end);
	r->in_flight -= bytes < r->in_flight ? bytes : r->in_flight;
	return bytes;
}

/*
 * All below psn has been executed by the peer. Stops at a read or atomic whose responses are missing:
 * they were lost, and false is returned.
 */
static bool acknowledge(struct ur_qp *qp, uint32_t psn, uint64_t now)
{
	struct ur_requester *r = &qp->requester;
	uint32_t acknowledged = 0;
	bool complete = true;

	while (qp->sq.head != qp->sq.next && complete) {
		const struct ur_send_wqe *wqe = head_of(qp);
		int32_t done = ur_psn_diff(r->una_psn, wqe->first_psn);
		int32_t end = ur_psn_diff(psn, wqe->first_psn);

		if (end <= done)
			break;
		complete = !is_read_like(wqe);
		if (!complete)
			break;
		end = end < (int32_t)wqe->packets ? end : (int32_t)wqe->packets;
		acknowledged += acknowledge_packets(qp, wqe, (uint32_t)end);
		complete_finished(qp);
		if (end < (int32_t)wqe->packets)
			break;
	}
	if (ur_psn_diff(r->una_psn, r->next_psn) > 0)
		go_back(qp);
	if (acknowledged > 0)
		note_progress(qp, acknowledged, now);
	return complete;
}

/* Responses were lost: asks for them again, once. */
static void recover(struct ur_qp *qp)
{
	if (qp->requester.recovering)
		return;
	qp->requester.recovering = true;
	shrink_window(qp);
	go_back(qp);
}

/* The credits that come with an acknowledgement, coded as in table 46. */
static void take_credits(struct ur_qp *qp, const struct ur_packet *packet)
{
	struct ur_requester *r = &qp->requester;
	uint32_t code = packet->syndrome & UR_SYNDROME_VALUE;

	r->limited = code != UR_CREDITS_UNLIMITED;
	if (r->limited)
		r->limit_ssn = (packet->msn + ur_credits_decode(code)) & UR_24_BITS;
}

static void receive_ack(struct ur_qp *qp, const struct ur_packet *packet, uint64_t now)
{
	take_credits(qp, packet);
	if (!acknowledge(qp, ur_psn_add(packet->psn, 1), now))
		recover(qp);
}

/*
 * Whether the packet with that number is the oldest unanswered one, and was sent. None is once the queue
 * pair has come to its end, as completing what is before it can bring that about.
 */
static bool is_oldest(const struct ur_qp *qp, uint32_t psn)
{
	const struct ur_requester *r = &qp->requester;

	return can_send_in_state(qp) && psn == r->una_psn && ur_psn_diff(r->max_psn, psn) > 0;
}

static void receive_rnr_nak(struct ur_qp *qp, const struct ur_packet *packet, uint64_t now)
{
	struct ur_requester *r = &qp->requester;

	qp->device->counters.rnr_naks_received++;
	if (!acknowledge(qp, packet->psn, now)) {
		recover(qp);
		return;
	}
	if (!is_oldest(qp, packet->psn) || r->rnr_deadline != UR_NEVER)
		return;
	if (r->rnr_retries_left == 0) {
		fail_head(qp, IBV_WC_RNR_RETRY_EXC_ERR);
		return;
	}
	if (qp->attr.rnr_retry != RETRY_FOREVER)
		r->rnr_retries_left--;
	stop_timers(qp);
	/* How long the peer takes to post a receive says nothing of how long it takes to answer. */
	r->timed_at = UR_NEVER;
	r->rnr_deadline = now + rnr_timers[packet->syndrome & UR_SYNDROME_VALUE] * UINT64_C(10000);
	go_back(qp);
}

static enum ibv_wc_status nak_status(unsigned code)
{
	switch (code) {
	case UR_NAK_INVALID_REQUEST:
		return IBV_WC_REM_INV_REQ_ERR;
	case UR_NAK_REMOTE_ACCESS:
		return IBV_WC_REM_ACCESS_ERR;
	case UR_NAK_REMOTE_OPERATION:
		return IBV_WC_REM_OP_ERR;
	case UR_NAK_INVALID_RD_REQUEST:
		return IBV_WC_REM_INV_RD_REQ_ERR;
	default:
		return IBV_WC_BAD_RESP_ERR;
	}
}

/* Sends again after a loss that the peer has seen; false: it has been tried often enough. */
static bool take_retry(struct ur_qp *qp)
{
	struct ur_requester *r = &qp->requester;

	if (r->retries_left == 0) {
		fail_head(qp, IBV_WC_RETRY_EXC_ERR);
		return false;
	}
	r->retries_left--;
	return true;
}

static void receive_nak(struct ur_qp *qp, const struct ur_packet *packet, uint64_t now)
{
	unsigned code = packet->syndrome & UR_SYNDROME_VALUE;

	qp->device->counters.naks_received++;
	if (!acknowledge(qp, packet->psn, now)) {
		recover(qp);
		return;
	}
	if (!is_oldest(qp, packet->psn))
		return;
	if (code != UR_NAK_SEQUENCE) {
		fail_head(qp, nak_status(code));
		return;
	}
	if (!take_retry(qp))
		return;
	shrink_window(qp);
	go_back(qp);
	start_timers(qp, now);
}

static uint64_t response_length(const struct ur_qp *qp, const struct ur_send_wqe *wqe,
				uint32_t index)
{
	if (wqe->opcode == IBV_WR_ATOMIC_WRITE)
		return 0;
	return bytes_before(qp, wqe, index + 1) - bytes_before(qp, wqe, index);
}

/* Puts a response's data in its place. */
static enum ibv_wc_status take_response(struct ur_qp *qp, const struct ur_send_wqe *wqe,
					const struct ur_packet *packet, uint32_t index)
{
	uint64_t start = bytes_before(qp, wqe, index);
	uint64_t length = response_length(qp, wqe, index);

	if ((ur_operation(packet->opcode) == UR_RC_ATOMIC_ACKNOWLEDGE) != is_atomic(wqe))
		return IBV_WC_BAD_RESP_ERR;
	if (is_atomic(wqe))
		return ur_scatter(qp->device, qp->pd, wqe->sges, wqe->sge_count, 0,
				  &packet->atomic_original, sizeof(packet->atomic_original));
	if (packet->payload_length != length)
		return IBV_WC_BAD_RESP_ERR;
	return ur_scatter(qp->device, qp->pd, wqe->sges, wqe->sge_count, start, packet->payload,
			  length);
}

/* A read response or an atomic's; it acknowledges all before it too. */
static void receive_response(struct ur_qp *qp, const struct ur_packet *packet, uint64_t now)
{
	struct ur_requester *r = &qp->requester;
	const struct ur_send_wqe *wqe;
	enum ibv_wc_status status;
	uint32_t index, bytes;

	if (ur_opcode_flags(packet->opcode) & UR_HAS_AETH)
		take_credits(qp, packet);
	if (!acknowledge(qp, packet->psn, now)) {
		recover(qp);
		return;
	}
	wqe = head_of(qp);
	if (!is_oldest(qp, packet->psn) || !is_read_like(wqe)) {
		qp->device->counters.rx_unexpected++;
		return;
	}
	index = (uint32_t)ur_psn_diff(packet->psn, wqe->first_psn);
	status = take_response(qp, wqe, packet, index);
	if (status != IBV_WC_SUCCESS) {
		fail_head(qp, status);
		return;
	}
	bytes = acknowledge_packets(qp, wqe, index + 1);
	if (index + 1 == chunk_end(qp, wqe, index) && r->reads > 0)
		r->reads--;
	if (ur_psn_diff(r->una_psn, r->next_psn) > 0)
		go_back(qp);
	note_progress(qp, bytes, now);
	complete_finished(qp);
}

/* Whether the number can be an answer's: from the newest that was acknowledged to the newest sent. */
static bool is_answer(const struct ur_qp *qp, const struct ur_packet *packet)
{
	const struct ur_requester *r = &qp->requester;

	return ur_psn_diff(packet->psn, ur_psn_add(r->una_psn, UR_24_BITS)) >= 0 &&
	       ur_psn_diff(packet->psn, r->max_psn) < 0;
}

void ur_requester_receive(struct ur_qp *qp, const struct ur_packet *packet, uint64_t now)
{
	unsigned kind = packet->syndrome & UR_SYNDROME_KIND;

	qp->requester.answered = true;
	if (!is_answer(qp, packet)) {
		qp->device->counters.rx_unexpected++;
		return;
	}
	if (ur_operation(packet->opcode) != UR_RC_ACKNOWLEDGE)
		receive_response(qp, packet, now);
	else if (kind == UR_SYNDROME_ACK)
		receive_ack(qp, packet, now);
	else if (kind == UR_SYNDROME_RNR_NAK)
		receive_rnr_nak(qp, packet, now);
	else if (kind == UR_SYNDROME_NAK)
		receive_nak(qp, packet, now);
	else
		qp->device->counters.rx_unexpected++;
	ur_requester_transmit(qp, now);
}

/* ---- Timers that end ---- */

/* Half of the retries brought no answer: it may be a device, which only listens on the one port. */
static void try_standard_port(struct ur_qp *qp)
{
	const struct ur_requester *r = &qp->requester;

	if (!r->answered && r->retries_left <= qp->attr.retry_cnt / 2U)
		ur_address_set_port(&qp->path.remote, UR_UDP_PORT);
}

static void on_ack_timeout(struct ur_qp *qp, uint64_t now)
{
	struct ur_requester *r = &qp->requester;

	qp->device->counters.timeouts++;
	if (!take_retry(qp))
		return;
	try_standard_port(qp);
	shrink_window(qp);
	go_back(qp);
	r->recovering = false;
	start_timers(qp, now);
}

/*
 * Goes back by one packet, if all have been sent and the last is not of a read: that would be asked for in
 * part.
 */
static bool go_to_last(struct ur_qp *qp)
{
	struct ur_requester *r = &qp->requester;

	if (r->next_psn != r->max_psn || r->next_psn == r->una_psn)
		return false;
	go_to(qp, ur_psn_add(r->next_psn, UR_24_BITS));
	return !is_read_like(ur_send_queue_at(&qp->sq, r->current));
}

/*
 * Asks for an answer before the timeout, without taking it for a retry: at first with the last packet,
 * which shows the peer a gap or makes it repeat its acknowledgement; then with all of them.
 */
static void probe(struct ur_qp *qp, uint64_t now)
{
	struct ur_requester *r = &qp->requester;

	qp->device->counters.probes++;
	if (r->probed || is_read_like(head_of(qp)) || !go_to_last(qp)) {
		go_back(qp);
		r->recovering = false;
	}
	r->probed = true;
	r->probe_interval *= 2;
	start_probe_timer(qp, now);
}

void ur_requester_run_timer(struct ur_qp *qp, uint64_t now)
{
	struct ur_requester *r = &qp->requester;

	if (!can_send_in_state(qp))
		return;
	if (now >= r->rnr_deadline)
		r->rnr_deadline = UR_NEVER;
	if (now >= r->ack_deadline)
		on_ack_timeout(qp, now);
	else if (now >= r->probe_deadline)
		probe(qp, now);
	ur_requester_transmit(qp, now);
}

void ur_requester_start(struct ur_qp *qp)
{
	struct ur_requester *r = &qp->requester;

	*r = (struct ur_requester){
		.current = qp->sq.head,
		.next_psn = qp->attr.sq_psn,
		.una_psn = qp->attr.sq_psn,
		.max_psn = qp->attr.sq_psn,
		.window = qp->carrier->window,
		.retries_left = qp->attr.retry_cnt,
		.rnr_retries_left = qp->attr.rnr_retry,
		.ack_deadline = UR_NEVER,
		.probe_deadline = UR_NEVER,
		.probe_interval = PROBE_INTERVAL,
		.timed_at = UR_NEVER,
		.rnr_deadline = UR_NEVER,
	};
}
