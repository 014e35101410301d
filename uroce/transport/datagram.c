#include "datagram.h"

#include <errno.h>
#include <netinet/udp.h>
#include <string.h>

#include "../core/ah.h"
#include "../core/qp.h"
#include "../link/address.h"
#include "../wire/ip.h"
#include "completion.h"
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

	/* The context first of all, since those of other devices are no struct ur_ah. */
	if (!verbs || verbs->context != qp->verbs.context || ah->pd != qp->pd || qpn == 0 ||
	    qpn > UR_24_BITS || ah->is_group != (qpn == UR_MULTICAST_QPN))
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

/* ---- Sending ---- */

struct ur_packet ur_datagram_packet(const struct ur_qp *qp, const struct ur_send_wqe *wqe)
{
	return (struct ur_packet){
		.opcode = wqe->opcode == IBV_WR_SEND ? UR_UD_SEND_ONLY : UR_UD_SEND_ONLY_IMM,
		.solicited = wqe->solicited,
		.migrated = true,
		.pkey = UR_DEFAULT_PKEY,
		.dest_qpn = wqe->remote_qpn,
		.imm = wqe->imm,
		.qkey = wqe->remote_qkey & OWN_QKEY ? qp->attr.qkey : wqe->remote_qkey,
		.src_qpn = qp->verbs.qp_num,
		.payload_length = (size_t)wqe->length,
	};
}

/* ---- Receiving ---- */

static void make_header(const struct ur_qp *qp, const struct ur_packet *packet,
			const struct ur_path *from, const struct ur_group *group,
			uint8_t header[UR_GRH_SIZE])
{
	size_t udp_length = sizeof(struct udphdr) + ur_packet_size(packet);
	struct ur_flow flow = { .source = from->remote };
	bool is_ipv4 = ur_address_is_ipv4(&from->remote);

	if (group)
		ur_device_gid_address(qp->device, &group->gid, &flow.dest);
	else
		ur_device_address(qp->device, from->gid_index, &flow.dest);
	memset(header, 0, UR_GRH_SIZE - UR_IPV4_HEADER_SIZE);
	ur_ip_header(&flow, 0, udp_length,
		     header + (is_ipv4 ? UR_GRH_SIZE - UR_IPV4_HEADER_SIZE : 0));
}

/* The data first: if that has room, the header in front of it has it, too. */
static enum ibv_wc_status write_message(const struct ur_qp *qp, const struct ur_recv_wqe *wqe,
					const struct ur_packet *packet, const struct ur_path *from,
					const struct ur_group *group)
{
	const struct ur_pd *pd = qp->srq ? qp->srq->pd : qp->pd;
	uint8_t header[UR_GRH_SIZE];
	enum ibv_wc_status status =
		ur_scatter(qp->device, pd, wqe->sges, wqe->sge_count, UR_GRH_SIZE, packet->payload,
			   packet->payload_length);

	if (status != IBV_WC_SUCCESS)
		return status;
	make_header(qp, packet, from, group, header);
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
		    const struct ur_path *from, const struct ur_group *group)
{
	struct ibv_wc wc = { .status = write_message(qp, wqe, packet, from, group),
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
			 const struct ur_path *from, const struct ur_group *group)
{
	struct ur_counters *counters = &qp->device->counters;
	struct ur_recv_wqe wqe;

	if (packet->qkey != qp->attr.qkey)
		counters->rx_bad_qkey++;
	else if (!ur_take_recv(qp, &wqe))
		counters->rx_no_receive++;
	else
		deliver(qp, &wqe, packet, from, group);
}
