/*
 * A packet that was copied, to be sent by itself: later, twice, or altered.
 */
#ifndef UR_COPY_H
#define UR_COPY_H

#include "../wire/packet.h"
#include "socket.h"

#define UR_MAX_PAYLOAD  4096
#define UR_MAX_DATAGRAM (UR_MAX_HEADERS + UR_MAX_PAYLOAD + UR_ICRC_SIZE)

struct ur_copy {
	const struct ur_socket *sock;
	struct ur_flow flow;
	uint8_t traffic_class;
	uint8_t hop_limit;
	uint16_t size;
	uint8_t data[UR_MAX_DATAGRAM];
};

#endif
