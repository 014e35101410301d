#include "sender.h"

#include "../core/engine.h"
#include "../core/qp.h"
#include "completion.h"
#include "datagram.h"
#include "psn.h"
#include "scatter.h"
#include "segment.h"
#include "unreliable.h"

static struct ur_send_wqe *current_of(const struct ur_qp *qp)
{
	return ur_send_queue_at(&qp->sq, qp->requester.current);
}

static bool is_fresh(const struct ur_qp *qp)
{
	return qp->requester.current == qp->sq.next;
}

static void begin_local(struct ur_qp *qp, struct ur_send_wqe *wqe)
{
	wqe->status = ur_mw_execute(qp, wqe);
	wqe->packets = 0;
}

static void begin_message(const struct ur_qp *qp, struct ur_send_wqe *wqe)
{
	wqe->status = wqe->length > UR_MAX_MESSAGE ? IBV_WC_LOC_LEN_ERR : IBV_WC_SUCCESS;
	wqe->packets = ur_segment_count(wqe->length, qp->mtu);
}

/* Gives the current entry its numbers, and executes it if that needs no packets. */
static void begin(struct ur_qp *qp, struct ur_send_wqe *wqe)
{
	wqe->first_psn = qp->requester.next_psn;
	if (ur_send_wqe_is_local(wqe))
		begin_local(qp, wqe);
	else
		begin_message(qp, wqe);
	qp->sq.next++;
}

static void advance(struct ur_qp *qp, const struct ur_send_wqe *wqe)
{
	struct ur_requester *r = &qp->requester;

	r->in_flight += (uint32_t)(ur_bytes_before(wqe, qp->mtu, r->offset + 1) -
				   ur_bytes_before(wqe, qp->mtu, r->offset)) +
			UR_PACKET_OVERHEAD;
	r->next_psn = ur_psn_add(r->next_psn, 1);
	if (++r->offset < wqe->packets)
		return;
	r->offset = 0;
	r->current++;
}

static struct ur_packet next_packet(const struct ur_qp *qp, const struct ur_send_wqe *wqe)
{
	struct ur_packet packet = ur_qp_is_datagram(qp)
					  ? ur_datagram_packet(qp, wqe)
					  : ur_unreliable_packet(qp, wqe, qp->requester.offset);

	packet.psn = qp->requester.next_psn;
	return packet;
}

/* Gives the current entry's next packet to the carrier. */
static void send_packet(struct ur_qp *qp, struct ur_send_wqe *wqe)
{
	const struct ur_path *path = ur_qp_is_datagram(qp) ? &wqe->path : &qp->path;
	struct ur_packet packet = next_packet(qp, wqe);
	struct iovec parts[UR_MAX_SGE];
	int count = ur_gather_entry(qp->device, qp->pd, wqe,
				    ur_bytes_before(wqe, qp->mtu, qp->requester.offset),
				    packet.payload_length, parts);
	struct ur_tx tx = { .packet = &packet, .payload = parts, .owner = qp };

	if (count < 0) {
		wqe->status = IBV_WC_LOC_PROT_ERR;
		return;
	}
	tx.payload_count = (unsigned)count;
	/* Before the packet is handed over, which may say that it, or one before it, was not sent. */
	advance(qp, wqe);
	qp->carrier->send(qp->carrier, path, &tx);
}

/* Returns false if the current entry cannot be sent. */
static bool send_next(struct ur_qp *qp)
{
	struct ur_send_wqe *wqe = current_of(qp);

	if (is_fresh(qp))
		begin(qp, wqe);
	if (wqe->status != IBV_WC_SUCCESS)
		return false;
	if (wqe->packets > 0)
		send_packet(qp, wqe);
	else
		qp->requester.current++;
	return wqe->status == IBV_WC_SUCCESS;
}

static bool can_send_in_state(const struct ur_qp *qp)
{
	return qp->attr.qp_state == IBV_QPS_RTS || qp->attr.qp_state == IBV_QPS_SQD;
}

/* What has been begun is finished also when the send queue is drained. */
static bool has_more(const struct ur_qp *qp)
{
	return can_send_in_state(qp) && qp->requester.current != qp->sq.tail &&
	       (qp->attr.qp_state == IBV_QPS_RTS || !is_fresh(qp));
}

static bool may_send(struct ur_qp *qp)
{
	if (!has_more(qp))
		return false;
	if (qp->carrier->blocked)
		qp->blocked = true;
	return !qp->carrier->blocked;
}

/* The oldest ends with an error, and with it all that was to be sent. */
static void fail_head(struct ur_qp *qp)
{
	ur_complete_send(qp, current_of(qp)->status);
	/* Its completion may not have found room, which is the end of all. */
	if (qp->attr.qp_state == IBV_QPS_ERR)
		return;
	qp->requester.patience_end = 0;
	ur_qp_set_state(qp, IBV_QPS_SQE);
	ur_qp_flush(qp);
}

static void complete_sent(struct ur_qp *qp)
{
	while (qp->sq.head != qp->requester.current)
		ur_complete_send(qp, IBV_WC_SUCCESS);
	if (qp->attr.qp_state == IBV_QPS_SQD)
		ur_qp_check_drained(qp);
}

/* Datagrams do not wait for it: those behind may go to another peer. */
static bool has_room(struct ur_qp *qp)
{
	return ur_qp_is_datagram(qp) || qp->carrier->has_room(qp->carrier, &qp->path);
}

/* Sets a timer to look again; false: it has been waited long enough. */
static bool wait_for_room(struct ur_qp *qp, uint64_t now)
{
	struct ur_requester *r = &qp->requester;

	if (r->patience_end == 0)
		r->patience_end = now + UR_ROOM_PATIENCE;
	if (now >= r->patience_end)
		return false;
	ur_engine_set_timer(qp->device, qp, now + UR_ROOM_INTERVAL);
	return true;
}

/* Whether more may be sent, or a burst has ended and the peer has to take it first. */
static bool may_go_on(struct ur_qp *qp, uint64_t now)
{
	struct ur_requester *r = &qp->requester;

	if (r->in_flight < qp->carrier->window)
		return true;
	if (qp->deadline != UR_NEVER && now < qp->deadline)
		return false;
	if (!has_room(qp) && wait_for_room(qp, now))
		return false;
	r->patience_end = 0;
	r->in_flight = 0;
	return true;
}

/*
 * An entry is complete when the system has its data, so the batch is not left to the flush at the end of
 * the call. What was not sent is not behind the current packet any more by then.
 */
bool ur_sender_transmit(struct ur_qp *qp, uint64_t now)
{
	const uint32_t window = qp->carrier->window;
	bool can_be_sent = true, more;
	uint32_t failed;

	if (!may_send(qp) || !may_go_on(qp, now))
		return false;
	while (can_be_sent && qp->requester.in_flight < window && may_send(qp))
		can_be_sent = send_next(qp);
	failed = qp->requester.current;
	qp->carrier->flush(qp->carrier);
	complete_sent(qp);
	/* Not while others before it wait. */
	if (!can_be_sent && qp->sq.head == failed)
		fail_head(qp);
	more = may_send(qp);
	if (more)
		ur_engine_schedule(qp->device, qp);
	return more;
}

void ur_sender_run_timer(struct ur_qp *qp, uint64_t now)
{
	ur_engine_set_timer(qp->device, qp, UR_NEVER);
	ur_sender_transmit(qp, now);
}

void ur_sender_unsent(struct ur_qp *qp, uint32_t psn)
{
	struct ur_requester *r = &qp->requester;

	qp->blocked = true;
	/* Those behind one that is to be sent again have gone back with it. */
	if (ur_psn_diff(r->next_psn, psn) <= 0)
		return;
	for (uint32_t i = qp->sq.head; i != qp->sq.next; i++) {
		const struct ur_send_wqe *wqe = ur_send_queue_at(&qp->sq, i);
		uint32_t offset = (psn - wqe->first_psn) & UR_24_BITS;

		if (offset >= wqe->packets)
			continue;
		r->current = i;
		r->offset = offset;
		r->next_psn = psn;
		return;
	}
}
