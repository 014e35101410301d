/*
 * Requester of a reliable connection: sends the requests of the send queue, within a window; takes
 * acknowledgements and responses; sends again what was lost. Pure: packets go to the queue pair's
 * carrier, time comes as an argument (CLOCK_MONOTONIC in ns), timers are set with the engine.
 *
 * InfiniBand specification volume 1, section 9.7.
 */
#ifndef UR_REQUESTER_H
#define UR_REQUESTER_H

#include <stdbool.h>
#include <stdint.h>

#include "../link/carrier.h"

struct ur_qp;

/* A longer read is sent as several requests, so that its responses fit the window. */
#define UR_READ_CHUNK (64 * 1024)

struct ur_requester {
	/* The next packet to send: entry of the send queue, and packet in it. */
	uint32_t current;
	uint32_t offset;
	uint32_t next_psn; /* its sequence number */
	uint32_t una_psn;  /* the oldest that is not acknowledged */
	uint32_t max_psn;  /* behind the newest that was ever sent */
	uint32_t ssn;      /* messages begun */

	uint32_t in_flight;   /* bytes, of una_psn to next_psn; of the sender: of the burst */
	uint32_t window;      /* bytes; shrinks when packets are lost */
	uint32_t reads;       /* requests for reads and atomics in flight */
	uint32_t unrequested; /* packets since an acknowledgement was asked for */
	bool limited;         /* by the peer's credits */
	uint32_t limit_ssn;   /* the last message that they cover */

	unsigned retries_left;
	unsigned rnr_retries_left;
	bool answered; /* the peer has been heard of */
	uint64_t ack_deadline;
	uint64_t probe_deadline;
	uint64_t probe_interval;
	uint64_t round_trip; /* how long answers took, of late; ns */
	uint64_t timed_at;   /* when the packet timed_psn was sent; UR_NEVER: none is being timed */
	uint32_t timed_psn;
	uint64_t rnr_deadline; /* nothing is sent before */
	uint64_t patience_end; /* of the sender, until when it waits for room; 0: there was */
	bool recovering; /* went back for a gap in the responses; not again before it moves on */
	bool probed;     /* one packet was sent again already; the next probe goes back */
	bool failed;     /* the current entry cannot be sent; waits for those before it */
};

/* At the transition to ready to send, from the queue pair's attributes. */
void ur_requester_start(struct ur_qp *qp);

/* Sends what the window allows. After posting, and after anything that may have opened it. */
void ur_requester_transmit(struct ur_qp *qp, uint64_t now);

/* An acknowledgement or response that has come. */
void ur_requester_receive(struct ur_qp *qp, const struct ur_packet *packet, uint64_t now);

/* The queue pair's deadline has come. */
void ur_requester_run_timer(struct ur_qp *qp, uint64_t now);

/* A request with that number was not sent, since the carrier was blocked: it is to be sent again. */
void ur_requester_unsent(struct ur_qp *qp, uint32_t psn);

#endif
