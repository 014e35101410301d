#include "receiver.h"

#include <netinet/udp.h>
#include <string.h>

#include "../core/log.h"
#include "forward.h"

#define PKEY_MASK 0x7fff

/* What the datagrams of one message have in common. */
struct ur_delivery {
	struct ur_receiver *receiver;
	const struct ur_socket *sock;
	struct ur_flow flow;
	struct ur_path from;
	bool any_id;
	struct timespec time;
	ur_receive_fn receive;
	void *user_data;
	/* The packet that is being handled; NULL: it came in an envelope. */
	const uint8_t *data;
	size_t length;
};

static void capture(const struct ur_delivery *delivery, const struct ur_flow *flow, uint16_t ip_id,
		    const uint8_t *data, size_t length)
{
	if (delivery->receiver->pcap)
		ur_pcap_record(delivery->receiver->pcap, delivery->time, flow, ip_id, data, length);
}

/* ---- One packet ---- */

/* The management queue pairs have the same numbers in all processes, and groups have one number. */
static bool is_ours(const struct ur_delivery *delivery, uint32_t qpn)
{
	if (delivery->sock->group)
		return qpn == UR_MULTICAST_QPN;
	return qpn <= 1 || qpn >> 16 == delivery->receiver->number;
}

static bool has_right_pkey(const struct ur_packet *packet)
{
	return (packet->pkey & PKEY_MASK) == (UR_DEFAULT_PKEY & PKEY_MASK);
}

/* Whether the packet is well-formed and of our partition. */
static bool take_apart(struct ur_receiver *receiver, const uint8_t *data, size_t length,
		       struct ur_packet *packet)
{
	if (ur_packet_decode(data, length, packet) != UR_DECODED) {
		receiver->counters->rx_malformed++;
		return false;
	}
	if (!has_right_pkey(packet)) {
		receiver->counters->rx_bad_pkey++;
		return false;
	}
	return true;
}

/*
 * Only what came to port 4791 of a local address, and not in an envelope. Number 0 is none of the
 * processes that something is passed on to: it has 4791 itself while it lives.
 */
static bool can_pass_on(const struct ur_delivery *delivery, uint8_t number)
{
	return delivery->data && number > 0 && !delivery->sock->group &&
	       ur_address_port(&delivery->sock->address) == UR_UDP_PORT;
}

static void pass_on(const struct ur_delivery *delivery, uint8_t number)
{
	struct ur_counters *counters = delivery->receiver->counters;

	if (ur_forward(delivery->sock, number, &delivery->flow.source, delivery->data,
		       delivery->length) == 0)
		counters->rx_forwarded++;
	else
		counters->tx_failed++;
}

bool ur_receiver_pass_on(const struct ur_receiver *receiver, uint8_t number, bool if_there)
{
	const struct ur_delivery *delivery = receiver->delivery;

	if (!can_pass_on(delivery, number) ||
	    (if_there && !ur_forward_is_there(delivery->sock, number)))
		return false;
	pass_on(delivery, number);
	return true;
}

const struct ur_group *ur_receiver_group(const struct ur_receiver *receiver)
{
	return receiver->delivery->sock->group;
}

static bool has_right_icrc(struct ur_delivery *delivery, const uint8_t *data, size_t length,
			   uint16_t *ip_id)
{
	if (ur_icrc_check(&delivery->flow, data, length, delivery->any_id, ip_id))
		return true;
	delivery->receiver->counters->rx_bad_icrc++;
	return false;
}

/* Behind the capture: on the wire it was. */
static bool is_lost(const struct ur_receiver *receiver)
{
	return receiver->faults && ur_faults_lose(receiver->faults);
}

/* ip_id: in, the one to expect; out, the one it had. */
static void handle_packet(struct ur_delivery *delivery, const uint8_t *data, size_t length,
			  uint16_t *ip_id)
{
	struct ur_packet packet;
	bool valid = has_right_icrc(delivery, data, length, ip_id);

	capture(delivery, &delivery->flow, *ip_id, data, length);
	delivery->data = data;
	delivery->length = length;
	if (!valid || is_lost(delivery->receiver) ||
	    !take_apart(delivery->receiver, data, length, &packet))
		return;
	if (is_ours(delivery, packet.dest_qpn))
		delivery->receive(delivery->user_data, &packet, &delivery->from);
	else if (packet.dest_qpn == UR_MULTICAST_QPN ||
		 !ur_receiver_pass_on(delivery->receiver, (uint8_t)(packet.dest_qpn >> 16), false))
		delivery->receiver->counters->rx_unknown_qp++;
}

/* The packet in an envelope: the owner of 4791 has seen it before. */
static void handle_envelope(struct ur_delivery *delivery, const uint8_t *data, size_t length)
{
	struct ur_flow flow = delivery->flow;
	struct ur_path from = delivery->from;
	struct ur_packet packet;

	if (!ur_envelope_sender(delivery->sock, data, &from.remote)) {
		delivery->receiver->counters->rx_malformed++;
		return;
	}
	data += UR_ENVELOPE_SIZE;
	length -= UR_ENVELOPE_SIZE;
	flow.source = from.remote;
	ur_address_set_port(&flow.dest, UR_UDP_PORT);
	capture(delivery, &flow, 0, data, length);
	delivery->data = NULL;
	if (!take_apart(delivery->receiver, data, length, &packet))
		return;
	if (is_ours(delivery, packet.dest_qpn))
		delivery->receive(delivery->user_data, &packet, &from);
	else
		delivery->receiver->counters->rx_unknown_qp++;
}

static void handle_datagram(struct ur_delivery *delivery, const uint8_t *data, size_t length,
			    uint16_t *ip_id)
{
	struct ur_counters *counters = delivery->receiver->counters;

	counters->rx_packets++;
	counters->rx_bytes += length;
	if (ur_is_envelope(delivery->sock, &delivery->flow.source, data, length)) {
		handle_envelope(delivery, data, length);
	} else if (length < UR_BTH_SIZE + UR_ICRC_SIZE) {
		capture(delivery, &delivery->flow, *ip_id, data, length);
		counters->rx_malformed++;
	} else {
		handle_packet(delivery, data, length, ip_id);
	}
}

/* ---- Many packets ---- */

/* Size of the datagrams that a message consists of; only the last may be shorter. */
static size_t segment_size(struct msghdr *header, size_t length)
{
	int size = 0;

	for (struct cmsghdr *control = CMSG_FIRSTHDR(header); control;
	     control = CMSG_NXTHDR(header, control)) {
		if (control->cmsg_level == SOL_UDP && control->cmsg_type == UDP_GRO)
			memcpy(&size, CMSG_DATA(control), sizeof(size));
	}
	return size > 0 ? (size_t)size : length;
}

/*
 * Packets of a message have consecutive identifications. A message begins with 0, as its sender
 * sent it, or goes on where the last one ended, if the network or the device took that apart.
 */
static void handle_message(struct ur_delivery *delivery, const uint8_t *data, size_t length,
			   size_t segment)
{
	struct ur_receiver *receiver = delivery->receiver;
	uint16_t ip_id = receiver->expected_id, first_id = 0;
	size_t offset = 0;

	do {
		size_t left = length - offset;

		handle_datagram(delivery, data + offset, left < segment ? left : segment, &ip_id);
		if (offset == 0)
			first_id = ip_id;
		ip_id++;
		offset += segment;
	} while (offset < length);
	receiver->expected_id = first_id == 0 ? 0 : ip_id;
}

static void handle(struct ur_delivery *delivery, unsigned index)
{
	struct ur_receiver *receiver = delivery->receiver;
	struct mmsghdr *header = &receiver->headers[index];

	receiver->counters->rx_batches++;
	delivery->flow.source = receiver->senders[index];
	delivery->from.remote = receiver->senders[index];
	delivery->any_id = ur_address_port(&receiver->senders[index]) >= UR_FIRST_DEVICE_PORT;
	handle_message(delivery, receiver->buffers[index], header->msg_len,
		       segment_size(&header->msg_hdr, header->msg_len));
}

static void prepare(struct ur_receiver *receiver, unsigned index)
{
	receiver->headers[index].msg_hdr = (struct msghdr){
		.msg_name = &receiver->senders[index],
		.msg_namelen = sizeof(receiver->senders[index]),
		.msg_iov = &receiver->pieces[index],
		.msg_iovlen = 1,
		.msg_control = &receiver->controls[index],
		.msg_controllen = sizeof(receiver->controls[index]),
	};
}

/* Offers as many buffers as are likely to be filled: the system looks once more than it finds. */
static unsigned next_wanted(unsigned wanted, unsigned received)
{
	if (received < wanted)
		return received > 1 ? received : 1;
	return wanted < UR_RECEIVER_BUFFERS ? wanted + 1 : wanted;
}

void ur_receiver_init(struct ur_receiver *receiver, uint8_t number, struct ur_counters *counters,
		      struct ur_pcap *pcap)
{
	receiver->counters = counters;
	receiver->pcap = pcap;
	receiver->faults = NULL;
	receiver->number = number;
	receiver->expected_id = 0;
	receiver->wanted = 1;
	for (unsigned i = 0; i < UR_RECEIVER_BUFFERS; i++) {
		receiver->pieces[i] =
			(struct iovec){ receiver->buffers[i], sizeof(receiver->buffers[i]) };
		prepare(receiver, i);
	}
}

int ur_receiver_receive(struct ur_receiver *receiver, const struct ur_socket *sock,
			ur_receive_fn receive, void *user_data)
{
	int received = recvmmsg(sock->fd, receiver->headers, receiver->wanted, 0, NULL);
	struct ur_delivery delivery;

	if (received <= 0)
		return 0;
	receiver->wanted = next_wanted(receiver->wanted, (unsigned)received);
	delivery = (struct ur_delivery){
		.receiver = receiver,
		.sock = sock,
		.flow.dest = sock->address,
		.from.gid_index = sock->gid_index,
		.time = receiver->pcap ? ur_pcap_now() : (struct timespec){ 0 },
		.receive = receive,
		.user_data = user_data,
	};
	receiver->delivery = &delivery;
	for (unsigned i = 0; i < (unsigned)received; i++) {
		handle(&delivery, i);
		prepare(receiver, i);
	}
	receiver->delivery = NULL;
	return received;
}
