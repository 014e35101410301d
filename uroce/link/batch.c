#include "batch.h"

#include <endian.h>
#include <errno.h>
#include <netinet/udp.h>
#include <string.h>
#include <sys/epoll.h>

#include "../core/clock.h"
#include "../core/log.h"

/* Of a message's UDP payload; the system takes no more than 65507 bytes with IPv4. */
#define MAX_MESSAGE_SIZE 65000

/* More does not make it faster, but what is on the way would leave the processor's cache. */
#define MAX_WINDOW (512 * 1024)

static struct ur_batch *batch_of(struct ur_carrier *carrier)
{
	return (struct ur_batch *)carrier;
}

static void give_back(struct ur_batch *batch, void *owner, uint32_t psn, uint8_t opcode)
{
	batch->counters->tx_blocked++;
	batch->carrier.unsent(owner, psn, opcode);
}

/* ---- Putting together ---- */

/* Whether a packet can go into the last message. */
static bool can_join(const struct ur_batch *batch, const struct ur_path *path, size_t size)
{
	const struct ur_batch_message *message;

	if (batch->message_count == 0)
		return false;
	message = &batch->messages[batch->message_count - 1];
	return batch->gso && !message->ended && size <= message->segment &&
	       message->packets < UR_MAX_BATCH && message->size + size <= MAX_MESSAGE_SIZE &&
	       message->sock == batch->socks[path->gid_index] &&
	       message->traffic_class == path->traffic_class &&
	       message->hop_limit == path->hop_limit &&
	       ur_address_equal(&message->flow.dest, &path->remote);
}

static struct ur_batch_message *start_message(struct ur_batch *batch, const struct ur_path *path,
					      size_t size)
{
	struct ur_batch_message *message = &batch->messages[batch->message_count];
	struct ur_socket *sock = batch->socks[path->gid_index];

	message->sock = sock;
	message->flow.source = sock->address;
	message->flow.dest = path->remote;
	message->traffic_class = path->traffic_class;
	message->hop_limit = path->hop_limit;
	message->ended = false;
	message->packets = 0;
	message->segment = (uint32_t)size;
	message->size = 0;
	batch->headers[batch->message_count++].msg_hdr = (struct msghdr){
		.msg_name = &message->flow.dest,
		.msg_namelen = ur_address_size(&message->flow.dest),
		.msg_iov = &batch->pieces[batch->piece_count],
	};
	return message;
}

/* The message that a packet goes into. */
static struct ur_batch_message *message_for(struct ur_batch *batch, const struct ur_path *path,
					    size_t size)
{
	if (can_join(batch, path, size))
		return &batch->messages[batch->message_count - 1];
	return start_message(batch, path, size);
}

/* Adds bytes to the last message; those behind its last piece make that longer. */
static void add_piece(struct ur_batch *batch, void *bytes, size_t size)
{
	struct msghdr *header = &batch->headers[batch->message_count - 1].msg_hdr;
	struct iovec *next = &batch->pieces[batch->piece_count];

	if (header->msg_iovlen > 0 && (char *)next[-1].iov_base + next[-1].iov_len == bytes) {
		next[-1].iov_len += size;
		return;
	}
	*next = (struct iovec){ bytes, size };
	batch->piece_count++;
	header->msg_iovlen++;
}

/* Returns the end of what is written. */
static uint8_t *put_padding(uint8_t *at, size_t payload_length)
{
	size_t padding = ur_padding(payload_length);

	memset(at, 0, padding);
	return at + padding;
}

static uint8_t *put_icrc(uint8_t *at, uint32_t icrc)
{
	icrc = htole32(icrc);
	memcpy(at, &icrc, sizeof(icrc));
	return at + sizeof(icrc);
}

static uint8_t *put_payload(uint8_t *at, const struct ur_tx *tx)
{
	for (unsigned i = 0; i < tx->payload_count; i++) {
		memcpy(at, tx->payload[i].iov_base, tx->payload[i].iov_len);
		at += tx->payload[i].iov_len;
	}
	return at;
}

/* Writes a whole packet at start. Returns its end. */
static uint8_t *put_packet(struct ur_batch_message *message, const struct ur_tx *tx, uint8_t *start)
{
	uint8_t *end = start + ur_packet_encode(tx->packet, start);
	struct iovec part;

	end = put_payload(end, tx);
	end = put_padding(end, tx->packet->payload_length);
	part = (struct iovec){ start, (size_t)(end - start) };
	return put_icrc(end, ur_icrc(&message->flow, (uint16_t)message->packets, &part, 1));
}

static uint8_t *add_copied(struct ur_batch *batch, struct ur_batch_message *message,
			   const struct ur_tx *tx, uint8_t *start)
{
	uint8_t *end = put_packet(message, tx, start);

	add_piece(batch, start, (size_t)(end - start));
	return end;
}

/* Writes headers and trailer at start, the payload stays where it is. Returns the trailer's end. */
static uint8_t *add_gathered(struct ur_batch *batch, struct ur_batch_message *message,
			     const struct ur_tx *tx, uint8_t *start)
{
	uint8_t *trailer = start + ur_packet_encode(tx->packet, start);
	uint8_t *icrc = put_padding(trailer, tx->packet->payload_length), *end;
	struct iovec parts[1 + UR_MAX_SGE + 1];
	unsigned count = 0;

	parts[count++] = (struct iovec){ start, (size_t)(trailer - start) };
	for (unsigned i = 0; i < tx->payload_count; i++)
		parts[count++] = tx->payload[i];
	parts[count++] = (struct iovec){ trailer, (size_t)(icrc - trailer) };
	end = put_icrc(icrc, ur_icrc(&message->flow, (uint16_t)message->packets, parts, count));

	parts[count - 1].iov_len = (size_t)(end - trailer);
	for (unsigned i = 0; i < count; i++)
		add_piece(batch, parts[i].iov_base, parts[i].iov_len);
	return end;
}

static void add_packet(struct ur_batch *batch, struct ur_batch_message *message,
		       const struct ur_tx *tx, size_t size)
{
	uint8_t *start = batch->store + batch->store_used;
	uint8_t *end = tx->packet->payload_length <= UR_BATCH_COPIED
			       ? add_copied(batch, message, tx, start)
			       : add_gathered(batch, message, tx, start);

	batch->store_used = (size_t)(end - batch->store);
	batch->packets[batch->packet_count++] = (struct ur_batch_packet){
		.owner = tx->owner,
		.psn = tx->packet->psn,
		.size = (uint16_t)size,
		.opcode = tx->packet->opcode,
	};
	message->packets++;
	message->size += (uint32_t)size;
	message->ended = size < message->segment;
}

/* ---- Handing to the system ---- */

static size_t put_control(struct msghdr *header, size_t used, int level, int type,
			  const void *value, size_t size)
{
	struct cmsghdr *control = (struct cmsghdr *)((char *)header->msg_control + used);

	control->cmsg_level = level;
	control->cmsg_type = type;
	control->cmsg_len = CMSG_LEN(size);
	memcpy(CMSG_DATA(control), value, size);
	return used + CMSG_SPACE(size);
}

/* segment: 0 for a single packet; traffic_class and hop_limit: 0 for the system's default. */
static void add_control(struct msghdr *header, union ur_batch_control *control, uint16_t segment,
			int traffic_class, int hop_limit)
{
	const union ur_sockaddr *dest = header->msg_name;
	bool is_ipv4 = ur_address_is_ipv4(dest);
	int level = is_ipv4 ? IPPROTO_IP : IPPROTO_IPV6;
	size_t used = 0;

	header->msg_control = control;
	if (segment > 0)
		used = put_control(header, used, SOL_UDP, UDP_SEGMENT, &segment, sizeof(segment));
	if (traffic_class > 0)
		used = put_control(header, used, level, is_ipv4 ? IP_TOS : IPV6_TCLASS,
				   &traffic_class, sizeof(traffic_class));
	if (hop_limit > 0)
		used = put_control(header, used, level, is_ipv4 ? IP_TTL : IPV6_HOPLIMIT,
				   &hop_limit, sizeof(hop_limit));
	header->msg_controllen = used;
}

static void add_controls(struct ur_batch *batch)
{
	for (unsigned i = 0; i < batch->message_count; i++) {
		struct ur_batch_message *message = &batch->messages[i];

		add_control(&batch->headers[i].msg_hdr, &message->control,
			    message->packets > 1 ? (uint16_t)message->segment : 0,
			    message->traffic_class, message->hop_limit);
	}
}

/* Goes through the packets of a message piece by piece, as they are on the wire. */
struct cursor {
	const struct iovec *piece;
	size_t offset;
};

static void copy_next(struct cursor *cursor, struct ur_copy *copy, size_t size)
{
	copy->size = (uint16_t)size;
	for (uint8_t *at = copy->data; size > 0;) {
		size_t left = cursor->piece->iov_len - cursor->offset;
		size_t part = left < size ? left : size;

		memcpy(at, (char *)cursor->piece->iov_base + cursor->offset, part);
		at += part;
		size -= part;
		cursor->offset += part;
		if (cursor->offset == cursor->piece->iov_len)
			*cursor = (struct cursor){ .piece = cursor->piece + 1 };
	}
}

static void record(struct ur_batch *batch, unsigned index, const struct ur_batch_packet *packets,
		   struct timespec time)
{
	const struct ur_batch_message *message = &batch->messages[index];
	struct cursor cursor = { .piece = batch->headers[index].msg_hdr.msg_iov };

	for (unsigned i = 0; i < message->packets; i++) {
		copy_next(&cursor, &batch->copy, packets[i].size);
		ur_pcap_record(batch->pcap, time, &message->flow, (uint16_t)i, batch->copy.data,
			       batch->copy.size);
	}
}

static void count_sent(struct ur_batch *batch, unsigned packets, size_t size)
{
	batch->counters->tx_batches++;
	batch->counters->tx_packets += packets;
	batch->counters->tx_bytes += size;
}

/* Packets that the system does not take are lost on the way, as on any network. */
static void count_failed(struct ur_batch *batch, const struct ur_flow *flow, unsigned packets,
			 int error)
{
	bool *logged = &batch->logged[(unsigned)error % sizeof(batch->logged)];
	char text[UR_ADDRESS_TEXT_SIZE];

	batch->counters->tx_failed += packets;
	if (!*logged)
		ur_log(UR_LOG_WARNING,
		       "sending to %s failed, packets are lost (further errors of that kind are only counted): %s",
		       ur_address_text(&flow->dest, text), strerror(error));
	*logged = true;
}

static bool means_full(int error)
{
	return error == EAGAIN || error == ENOBUFS;
}

/* The socket is full: nothing of the rest goes out. */
static void block(struct ur_batch *batch, unsigned next_message, unsigned next_packet)
{
	batch->blocked = batch->messages[next_message].sock;
	ur_socket_set_event(batch->blocked, EPOLLOUT, true);
	batch->carrier.blocked = true;
	for (unsigned i = next_packet; i < batch->packet_count; i++)
		give_back(batch, batch->packets[i].owner, batch->packets[i].psn,
			  batch->packets[i].opcode);
}

/* Messages from first on that go through the same socket. */
static unsigned count_alike(const struct ur_batch *batch, unsigned first)
{
	unsigned end = first + 1;

	while (end < batch->message_count &&
	       batch->messages[end].sock == batch->messages[first].sock)
		end++;
	return end - first;
}

/* Returns how many of the messages from first on the system has taken; 0 and errno: none. */
static unsigned send_messages(struct ur_batch *batch, unsigned first)
{
	int fd = batch->messages[first].sock->fd;
	unsigned count = count_alike(batch, first);
	int sent = sendmmsg(fd, &batch->headers[first], count, 0);

	/* An error of an earlier packet, reported by the peer; it does not concern this one. */
	if (sent < 0 && errno == ECONNREFUSED)
		sent = sendmmsg(fd, &batch->headers[first], count, 0);
	return sent < 0 ? 0 : (unsigned)sent;
}

/*
 * A message that the system refused. EIO: the interface cannot take apart a message of several
 * packets. These are lost, as their ICRCs are right for one message only; the next will go one by
 * one.
 */
static void skip_message(struct ur_batch *batch, const struct ur_batch_message *message, int error)
{
	if (error == EIO && message->packets > 1)
		batch->gso = false;
	count_failed(batch, &message->flow, message->packets, error);
}

static void transmit(struct ur_batch *batch)
{
	unsigned message = 0, packet = 0;

	add_controls(batch);
	while (message < batch->message_count) {
		struct timespec time = batch->pcap ? ur_pcap_now() : (struct timespec){ 0 };
		unsigned sent = send_messages(batch, message);

		if (sent == 0 && means_full(errno)) {
			block(batch, message, packet);
			return;
		}
		if (sent == 0) {
			skip_message(batch, &batch->messages[message], errno);
			packet += batch->messages[message++].packets;
		}
		for (; sent > 0; sent--) {
			const struct ur_batch_message *m = &batch->messages[message];

			count_sent(batch, m->packets, m->size);
			if (batch->pcap)
				record(batch, message, &batch->packets[packet], time);
			packet += m->packets;
			message++;
		}
	}
}

/* Faults take copies of the packets, each of which is a message of its own. */
static void copy_to_faults(struct ur_batch *batch)
{
	struct ur_copy *copy = &batch->copy;
	uint64_t now = ur_clock_ns();

	for (unsigned i = 0; i < batch->message_count; i++) {
		const struct ur_batch_message *message = &batch->messages[i];
		struct cursor cursor = { .piece = batch->headers[i].msg_hdr.msg_iov };

		copy->sock = message->sock;
		copy->flow = message->flow;
		copy->traffic_class = message->traffic_class;
		copy->hop_limit = message->hop_limit;
		copy_next(&cursor, copy, message->size);
		ur_faults_take(batch->faults, copy, now);
	}
}

void ur_batch_emit(void *user_data, const struct ur_copy *copy)
{
	struct ur_batch *batch = user_data;
	struct timespec time = batch->pcap ? ur_pcap_now() : (struct timespec){ 0 };
	struct ur_flow flow = copy->flow;
	struct iovec piece = { (void *)(uintptr_t)copy->data, copy->size };
	struct msghdr header = {
		.msg_name = &flow.dest,
		.msg_namelen = ur_address_size(&flow.dest),
		.msg_iov = &piece,
		.msg_iovlen = 1,
	};
	union ur_batch_control control;

	add_control(&header, &control, 0, copy->traffic_class, copy->hop_limit);
	if (sendmsg(copy->sock->fd, &header, 0) < 0) {
		count_failed(batch, &flow, 1, errno);
		return;
	}
	count_sent(batch, 1, copy->size);
	if (batch->pcap)
		ur_pcap_record(batch->pcap, time, &flow, 0, copy->data, copy->size);
}

static void flush(struct ur_carrier *carrier)
{
	struct ur_batch *batch = batch_of(carrier);

	if (batch->message_count == 0)
		return;
	if (batch->faults)
		copy_to_faults(batch);
	else
		transmit(batch);
	batch->message_count = 0;
	batch->packet_count = 0;
	batch->piece_count = 0;
	batch->store_used = 0;
}

/* For one more packet, whether it starts a message or not. */
static bool has_room(const struct ur_batch *batch, const struct ur_tx *tx)
{
	return batch->message_count < UR_BATCH_MESSAGES && batch->packet_count < UR_BATCH_PACKETS &&
	       batch->piece_count + 1 + tx->payload_count + 1 <= UR_BATCH_PIECES;
}

static void send_packet(struct ur_carrier *carrier, const struct ur_path *path,
			const struct ur_tx *tx)
{
	struct ur_batch *batch = batch_of(carrier);
	size_t size = ur_packet_size(tx->packet);

	if (!batch->socks[path->gid_index] || size > UR_MAX_DATAGRAM) {
		batch->counters->tx_failed++;
		return;
	}
	if (!has_room(batch, tx))
		flush(carrier);
	if (carrier->blocked) {
		give_back(batch, tx->owner, tx->packet->psn, tx->packet->opcode);
		return;
	}
	add_packet(batch, message_for(batch, path, size), tx, size);
}

/* Whether it is one of the device's. */
static bool is_own(const struct ur_batch *batch, const union ur_sockaddr *address)
{
	for (unsigned i = 0; i <= UINT8_MAX; i++)
		if (batch->socks[i] && ur_address_same_host(&batch->socks[i]->address, address))
			return true;
	return false;
}

/* Only of the device's own addresses it is asked, and what waits for the next flush is not yet there. */
static bool has_room_at(struct ur_carrier *carrier, const struct ur_path *path)
{
	struct ur_batch *batch = batch_of(carrier);
	const struct ur_socket *sock = batch->socks[path->gid_index];
	struct ur_flow flow = { .dest = path->remote };

	if (!sock || !is_own(batch, &path->remote))
		return true;
	flow.source = sock->address;
	return ur_backlog_has_room(&batch->backlog, &flow, carrier->window);
}

/*
 * A peer's buffer is taken to be like the own one. The system counts a packet there as what it occupies,
 * up to a quarter more than its size.
 */
static uint32_t window_for(uint32_t receive_buffer)
{
	uint32_t window = receive_buffer / 8 * 5;

	return window < MAX_WINDOW ? window : MAX_WINDOW;
}

void ur_batch_init(struct ur_batch *batch, struct ur_socket *socks, size_t count,
		   struct ur_counters *counters, struct ur_pcap *pcap)
{
	batch->carrier = (struct ur_carrier){
		.send = send_packet,
		.flush = flush,
		.has_room = has_room_at,
		.window = window_for(ur_socket_receive_buffer(&socks[0])),
	};
	batch->counters = counters;
	batch->pcap = pcap;
	batch->gso = ur_socket_has_gso(&socks[0]);
	for (size_t i = 0; i < count; i++)
		batch->socks[socks[i].gid_index] = &socks[i];
}

void ur_batch_close(struct ur_batch *batch)
{
	ur_backlog_close(&batch->backlog);
}

void ur_batch_set_faults(struct ur_batch *batch, struct ur_faults *faults)
{
	batch->faults = faults;
	batch->gso = false;
}

bool ur_batch_unblock(struct ur_batch *batch)
{
	if (!batch->carrier.blocked)
		return true;
	if (!ur_socket_is_writable(batch->blocked))
		return false;
	ur_socket_set_event(batch->blocked, EPOLLOUT, false);
	batch->carrier.blocked = false;
	return true;
}
