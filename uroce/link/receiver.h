/*
 * Receiver: takes datagrams from a socket, many at once (UDP GRO), checks them, and passes on what
 * is for another process.
 */
#ifndef UR_RECEIVER_H
#define UR_RECEIVER_H

#include <stdint.h>

#include "../core/counters.h"
#include "faults.h"
#include "link.h"
#include "pcap.h"
#include "socket.h"

/* Each has room for what GRO puts together at most. */
#define UR_RECEIVER_BUFFERS     4
#define UR_RECEIVER_BUFFER_SIZE (64 * 1024)

/* For the segment size. */
union ur_receiver_control {
	struct cmsghdr align;
	char bytes[CMSG_SPACE(sizeof(int))];
};

struct ur_delivery;

struct ur_receiver {
	struct ur_counters *counters;
	struct ur_pcap *pcap;     /* NULL: none */
	struct ur_faults *faults; /* NULL: none */
	uint8_t number;           /* of this process */
	uint16_t expected_id;     /* identification of the next datagram's first packet */
	unsigned wanted;          /* buffers to offer to the system */
	/* What receive is being called for. */
	const struct ur_delivery *delivery;

	struct mmsghdr headers[UR_RECEIVER_BUFFERS];
	struct iovec pieces[UR_RECEIVER_BUFFERS];
	union ur_sockaddr senders[UR_RECEIVER_BUFFERS];
	union ur_receiver_control controls[UR_RECEIVER_BUFFERS];
	uint8_t buffers[UR_RECEIVER_BUFFERS][UR_RECEIVER_BUFFER_SIZE];
};

/* pcap: NULL for none. */
void ur_receiver_init(struct ur_receiver *receiver, uint8_t number, struct ur_counters *counters,
		      struct ur_pcap *pcap);

/* Receives what the socket has, one system call's worth. Returns how many datagrams that were. */
int ur_receiver_receive(struct ur_receiver *receiver, const struct ur_socket *sock,
			ur_receive_fn receive, void *user_data);

/* See ur_link_pass_on. */
bool ur_receiver_pass_on(const struct ur_receiver *receiver, uint8_t number, bool if_there);

/* See ur_link_group. */
const struct ur_group *ur_receiver_group(const struct ur_receiver *receiver);

#endif
