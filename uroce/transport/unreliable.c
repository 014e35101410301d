#include "unreliable.h"

#include <errno.h>

#include "../core/qp.h"
#include "completion.h"
#include "psn.h"
#include "segment.h"

/* ---- Sending ---- */

int ur_unreliable_check(const struct ur_send_wqe *wqe)
{
	bool is_send = wqe->opcode == IBV_WR_SEND || wqe->opcode == IBV_WR_SEND_WITH_IMM;

	return is_send || ur_is_write(wqe) || ur_send_wqe_is_local(wqe) ? 0 : EINVAL;
}

struct ur_packet ur_unreliable_packet(const struct ur_qp *qp, const struct ur_send_wqe *wqe,
				      uint32_t index)
{
	bool first = index == 0, last = index + 1 == wqe->packets;
	uint8_t operation = ur_is_write(wqe) ? ur_write_opcode(wqe, first, last)
					     : ur_send_opcode(wqe, first, last);

	return (struct ur_packet){
		.opcode = UR_UC_SEND_FIRST | operation,
		.solicited = last && wqe->solicited,
		.migrated = true,
		.pkey = UR_DEFAULT_PKEY,
		.dest_qpn = qp->attr.dest_qp_num,
		.va = wqe->remote_addr,
		.rkey = wqe->rkey,
		.dma_length = (uint32_t)wqe->length,
		.imm = wqe->imm,
		.payload_length = (size_t)(ur_bytes_before(wqe, qp->mtu, index + 1) -
					   ur_bytes_before(wqe, qp->mtu, index)),
	};
}

/* ---- Receiving ---- */

static void execute(struct ur_qp *qp, const struct ur_packet *packet, uint32_t flags)
{
	struct ur_responder *r = &qp->responder;
	struct ur_counters *counters = &qp->device->counters;

	switch (ur_responder_execute(qp, packet, flags)) {
	case UR_EXECUTED:
		break;
	case UR_NOT_READY:
		counters->rx_no_receive++;
		r->message = UR_NO_MESSAGE;
		break;
	case UR_INVALID_REQUEST:
	case UR_ACCESS_ERROR:
		counters->rx_refused++;
		r->message = UR_NO_MESSAGE;
		break;
	case UR_RECEIVE_TOO_SHORT:
		ur_responder_fail_receive(qp, IBV_WC_LOC_LEN_ERR);
		break;
	case UR_RECEIVE_PROTECTED:
		ur_responder_fail_receive(qp, IBV_WC_LOC_PROT_ERR);
		ur_qp_to_error(qp);
		break;
	}
}

void ur_unreliable_receive(struct ur_qp *qp, const struct ur_packet *packet)
{
	struct ur_responder *r = &qp->responder;
	uint32_t flags = ur_opcode_flags(packet->opcode);
	bool is_next = packet->psn == r->epsn;

	ur_responder_note_request(qp);
	r->epsn = ur_psn_add(packet->psn, 1);
	if (!is_next)
		qp->device->counters.rx_out_of_sequence++;
	/* The message under way does not come to its end. */
	if (!is_next || flags & UR_IS_FIRST)
		r->message = UR_NO_MESSAGE;
	if (r->message == UR_NO_MESSAGE && !(flags & UR_IS_FIRST))
		qp->device->counters.rx_incomplete++;
	else
		execute(qp, packet, flags);
}
