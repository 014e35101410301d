/*
 * Carrier: what brings packets of a queue pair to its peer. The transport knows only this, so that
 * tests carry packets by hand, and other ways between processes can be added per connection.
 */
#ifndef UR_CARRIER_H
#define UR_CARRIER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "../wire/icrc.h"
#include "../wire/packet.h"

/* Where packets go: a peer's address, and which of the device's own they come from. */
struct ur_path {
	union ur_sockaddr remote; /* with the peer's UDP port, and its scope if link-local */
	uint8_t gid_index;
	uint8_t traffic_class;
	uint8_t hop_limit; /* 0: the system's default */
};

#define UR_MAX_SGE 16

/* A packet to send. */
struct ur_tx {
	const struct ur_packet *packet;
	/* packet->payload_length bytes in up to UR_MAX_SGE pieces; stays valid until the flush. */
	const struct iovec *payload;
	unsigned payload_count;
	/* Given back by unsent. */
	void *owner;
};

#define UR_PACKET_OVERHEAD 512

struct ur_carrier {
	/* Takes a packet into the batch that flush sends; sends when the batch is full. */
	void (*send)(struct ur_carrier *carrier, const struct ur_path *path,
		     const struct ur_tx *tx);
	/* Sends what is there, without waiting. */
	void (*flush)(struct ur_carrier *carrier);
	/*
	 * Whether as much as the window can be sent to a peer that does not acknowledge it: false only
	 * if it is known that the peer has not taken what it was sent before.
	 */
	bool (*has_room)(struct ur_carrier *carrier, const struct ur_path *path);
	/*
	 * What may be on the way to a peer of the same kind, so that its buffer does not overflow:
	 * bytes, each packet counting UR_PACKET_OVERHEAD more than its payload. Set once.
	 */
	uint32_t window;
	/* Set by send and flush: no more can be sent just now. The engine clears it. */
	bool blocked;
	/* Called by send and flush for each packet that could not be sent because of that. */
	void (*unsent)(void *owner, uint32_t psn, uint8_t opcode);
};

#endif
