#include "datagram.h"

#include <errno.h>
#include <netinet/udp.h>
#include <string.h>

#include "../core/ah.h"
#include "../core/qp.h"
#include "../link/address.h"
#include "../wire/ip.h"
#include "completion.h"
#include "psn.h"
#include "scatter.h"

#define OWN_QKEY (UINT32_C(1) << 31)

/* ---- Posting ---- */

/* Any other host's port is the standard one, where its processes find what is theirs. */
static uint16_t port_for(const struct ur_ah *ah, uint32_t qpn)
{
	return ah->is_own ? ur_link_port_of(qpn) : UR_UDP_PORT;
}

int ur_datagram_set_address(const struct ur_qp *qp, struct ur_send_wqe *wqe,
			    const struct ibv_ah *verbs, uint32_t qpn, uint32_t qkey)
{
	const struct ur_ah *ah = (const struct ur_ah *)verbs;

	/* First of all, since those of other devices are no struct ur_ah. */
	if (!verbs || verbs->pd != &qp->pd->verbs || qpn == 0 || qpn > UR_24_BITS)
		return EINVAL;
	wqe->path = ah->path;
	ur_address_set_port(&wqe->path.remote, port_for(ah, qpn));
	wqe->remote_qpn = qpn;
	wqe->remote_qkey = qkey;
	return 0;
}

int ur_datagram_check(const struct ur_qp *qp, const struct ur_send_wqe *wqe)
{
	bool is_send = wqe->opcode == IBV_WR_SEND || wqe->opcode == IBV_WR_SEND_WITH_IMM;

	return is_send && wqe->length <= qp->mtu && wqe->remote_qpn != 0 ? 0 : EINVAL;
}

int ur_datagram_describe(const struct ur_qp *qp, struct ur_send_wqe *wqe,
			 const struct ibv_send_wr *wr)
{
	int error = ur_datagram_set_address(qp, wqe, wr->wr.ud.ah, wr->wr.ud.remote_qpn,
					    wr->wr.ud.remote_qkey);

	return error ? error : ur_datagram_check(qp, wqe);
}

/* ---- Sending ---- */

static struct ur_packet new_packet(const struct ur_qp *qp, const struct ur_send_wqe *wqe)
{
	return (struct ur_packet){
		.opcode = wqe->opcode == IBV_WR_SEND ? UR_UD_SEND_ONLY : UR_UD_SEND_ONLY_IMM,
		.solicited = wqe->solicited,
		.migrated = true,
		.pkey = UR_DEFAULT_PKEY,
		.dest_qpn = wqe->remote_qpn,
		.psn = wqe->first_psn,
		.imm = wqe->imm,
		.qkey = wqe->remote_qkey & OWN_QKEY ? qp->attr.qkey : wqe->remote_qkey,
		.src_qpn = qp->verbs.qp_num,
		.payload_length = (size_t)wqe->length,
	};
}

/* Gives the next one to the carrier. Returns false if its memory may not be read. */
static bool send_next(struct ur_qp *qp)
{
	struct ur_send_wqe *wqe = ur_send_queue_at(&qp->sq, qp->sq.next);
	struct iovec parts[UR_MAX_SGE];
	int count = ur_gather_entry(qp->device, qp->pd, wqe, 0, (size_t)wqe->length, parts);
	struct ur_packet packet;
	struct ur_tx tx = { .packet = &packet, .payload = parts, .owner = qp };

	if (count < 0)
		return false;
	wqe->first_psn = qp->requester.next_psn;
	packet = new_packet(qp, wqe);
	tx.payload_count = (unsigned)count;
	/* Before the packet is handed over, which may say that it, or one before it, was not sent. */
	qp->requester.next_psn = ur_psn_add(wqe->first_psn, 1);
	qp->sq.next++;
	qp->carrier->send(qp->carrier, &wqe->path, &tx);
	return true;
}

static bool may_send(struct ur_qp *qp)
{
	if (qp->attr.qp_state != IBV_QPS_RTS || qp->sq.next == qp->sq.tail)
		return false;
	if (qp->carrier->blocked)
		qp->blocked = true;
	return !qp->carrier->blocked;
}

/* The oldest ends with an error, and with it all that was to be sent. */
static void fail_head(struct ur_qp *qp, enum ibv_wc_status status)
{
	qp->sq.next++;
	ur_complete_send(qp, status);
	/* Its completion may not have found room, which is the end of all. */
	if (qp->attr.qp_state == IBV_QPS_ERR)
		return;
	ur_qp_set_state(qp, IBV_QPS_SQE);
	ur_qp_flush(qp);
}

/*
 * An entry is complete when the system has its data, so the batch is not left to the flush at the end of
 * the call. What was not sent is not begun any more by then.
 */
void ur_datagram_transmit(struct ur_qp *qp)
{
	bool readable = true;
	uint32_t stopped_at;

	while (readable && may_send(qp))
		readable = send_next(qp);
	stopped_at = qp->sq.next;
	qp->carrier->flush(qp->carrier);
	while (qp->sq.head != qp->sq.next)
		ur_complete_send(qp, IBV_WC_SUCCESS);
	/* Not while others before it wait. */
	if (!readable && qp->sq.head == stopped_at)
		fail_head(qp, IBV_WC_LOC_PROT_ERR);
}

void ur_datagram_unsent(struct ur_qp *qp, uint32_t psn)
{
	uint32_t behind = (uint32_t)ur_psn_diff(qp->requester.next_psn, psn);

	qp->blocked = true;
	/* Those behind one that is to be sent again have gone back with it. */
	if (behind == 0 || behind > qp->sq.next - qp->sq.head)
		return;
	qp->sq.next -= behind;
	qp->requester.next_psn = psn;
}

/* ---- Receiving ---- */

static void make_header(const struct ur_qp *qp, const struct ur_packet *packet,
			const struct ur_path *from, uint8_t header[UR_GRH_SIZE])
{
	size_t udp_length = sizeof(struct udphdr) + ur_packet_size(packet);
	struct ur_flow flow = { .source = from->remote };
	bool is_ipv4 = ur_address_is_ipv4(&from->remote);

	ur_device_address(qp->device, from->gid_index, &flow.dest);
	memset(header, 0, UR_GRH_SIZE - UR_IPV4_HEADER_SIZE);
	ur_ip_header(&flow, 0, udp_length,
		     header + (is_ipv4 ? UR_GRH_SIZE - UR_IPV4_HEADER_SIZE : 0));
}

/* The data first: if that has room, the header in front of it has it, too. */
static enum ibv_wc_status write_message(const struct ur_qp *qp, const struct ur_recv_wqe *wqe,
					const struct ur_packet *packet, const struct ur_path *from)
{
	const struct ur_pd *pd = qp->srq ? qp->srq->pd : qp->pd;
	uint8_t header[UR_GRH_SIZE];
	enum ibv_wc_status status =
		ur_scatter(qp->device, pd, wqe->sges, wqe->sge_count, UR_GRH_SIZE, packet->payload,
			   packet->payload_length);

	if (status != IBV_WC_SUCCESS)
		return status;
	make_header(qp, packet, from, header);
	return ur_scatter(qp->device, pd, wqe->sges, wqe->sge_count, 0, header, UR_GRH_SIZE);
}

static void complete(struct ur_qp *qp, const struct ur_recv_wqe *wqe,
		     const struct ur_packet *packet)
{
	struct ibv_wc wc = {
		.status = IBV_WC_SUCCESS,
		.opcode = IBV_WC_RECV,
		.byte_len = (uint32_t)(UR_GRH_SIZE + packet->payload_length),
		.src_qp = packet->src_qpn,
		.wc_flags = IBV_WC_GRH,
	};

	if (packet->opcode == UR_UD_SEND_ONLY_IMM) {
		wc.wc_flags |= IBV_WC_WITH_IMM;
		wc.imm_data = packet->imm;
	}
	ur_complete_recv(qp, wqe, &wc, packet->solicited);
}

static void deliver(struct ur_qp *qp, const struct ur_recv_wqe *wqe, const struct ur_packet *packet,
		    const struct ur_path *from)
{
	struct ibv_wc wc = { .status = write_message(qp, wqe, packet, from),
			     .opcode = IBV_WC_RECV };

	if (wc.status == IBV_WC_SUCCESS) {
		complete(qp, wqe, packet);
		return;
	}
	ur_complete_recv(qp, wqe, &wc, false);
	if (wc.status != IBV_WC_LOC_LEN_ERR)
		ur_qp_to_error(qp);
}

void ur_datagram_receive(struct ur_qp *qp, const struct ur_packet *packet,
			 const struct ur_path *from)
{
	struct ur_counters *counters = &qp->device->counters;
	struct ur_recv_wqe wqe;

	if (!ur_qp_is_datagram(qp))
		counters->rx_unexpected++;
	else if (packet->qkey != qp->attr.qkey)
		counters->rx_bad_qkey++;
	else if (!ur_take_recv(qp, &wqe))
		counters->rx_no_receive++;
	else
		deliver(qp, &wqe, packet, from);
}
