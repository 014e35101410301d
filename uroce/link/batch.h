/*
 * Batch: the link's carrier. Gathers packets and hands many of them to the system at once: packets
 * of one size to one peer as one message (UDP GSO), and many messages with one call.
 *
 * Headers, ICRCs and small payloads are written into the batch's store, large payloads are sent
 * from where they are:
 *
 *   store   | headers | padding, ICRC, headers | padding, ICRC, headers | padding, ICRC |
 *   pieces       1                3                       5                    7
 *   payloads          2                       4                        6
 */
#ifndef UR_BATCH_H
#define UR_BATCH_H

#include "../core/counters.h"
#include "backlog.h"
#include "carrier.h"
#include "faults.h"
#include "pcap.h"
#include "socket.h"

#define UR_BATCH_PACKETS  128
#define UR_BATCH_MESSAGES 64
/* No more than the system takes for one message. */
#define UR_BATCH_PIECES 1024
/*
 * A payload up to that size is copied: it may change while it is being sent, for example the buffer
 * of an atomic, without spoiling the ICRC, and the copy is cheaper than further pieces.
 */
#define UR_BATCH_COPIED 512

#define UR_BATCH_SLOT (UR_MAX_HEADERS + UR_BATCH_COPIED + UR_ICRC_SIZE)

struct ur_batch_packet {
	void *owner;
	uint32_t psn;
	uint16_t size;
	uint8_t opcode;
};

/* For the segment size, the traffic class and the hop limit. */
union ur_batch_control {
	struct cmsghdr align;
	char bytes[CMSG_SPACE(sizeof(uint16_t)) + 2 * CMSG_SPACE(sizeof(int))];
};

/* Beside its struct mmsghdr. */
struct ur_batch_message {
	struct ur_socket *sock;
	struct ur_flow flow;
	uint8_t traffic_class;
	uint8_t hop_limit;
	bool ended; /* by a packet that was shorter than the first */
	unsigned packets;
	uint32_t segment; /* size of all packets but the last */
	uint32_t size;
	union ur_batch_control control;
};

struct ur_batch {
	struct ur_carrier carrier; /* first */
	struct ur_counters *counters;
	struct ur_pcap *pcap;     /* NULL: none */
	struct ur_faults *faults; /* NULL: none */
	/* By GID index; NULL: not an address of the link. */
	struct ur_socket *socks[UINT8_MAX + 1];
	bool gso;
	struct ur_socket *blocked; /* what the carrier waits for */
	struct ur_backlog backlog; /* of peers on this host */
	bool logged[256];          /* errors, by number */

	unsigned message_count;
	unsigned packet_count;
	unsigned piece_count;
	size_t store_used;
	struct mmsghdr headers[UR_BATCH_MESSAGES];
	struct ur_batch_message messages[UR_BATCH_MESSAGES];
	struct ur_batch_packet packets[UR_BATCH_PACKETS];
	struct iovec pieces[UR_BATCH_PIECES];
	uint8_t store[UR_BATCH_PACKETS * UR_BATCH_SLOT];
	struct ur_copy copy; /* of the packet that faults or the capture look at */
};

/* socks: count of them, each of another GID. pcap: NULL for none. */
void ur_batch_init(struct ur_batch *batch, struct ur_socket *socks, size_t count,
		   struct ur_counters *counters, struct ur_pcap *pcap);

/* Closes what it has opened itself. */
void ur_batch_close(struct ur_batch *batch);

/* Puts faults between the batch and the network; they call ur_batch_emit. */
void ur_batch_set_faults(struct ur_batch *batch, struct ur_faults *faults);
void ur_batch_emit(void *batch, const struct ur_copy *copy);

/* Whether the socket that was full has room again; clears the carrier's flag then. */
bool ur_batch_unblock(struct ur_batch *batch);

#endif
