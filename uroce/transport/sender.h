/*
 * Sender of what is not acknowledged: datagrams, and the messages of an unreliable connection. An entry is
 * done when the system has its packets; what the system has no room for waits, in its order. Pure in the
 * same sense as the requester, whose place in the send queue and sequence number it uses.
 */
#ifndef UR_SENDER_H
#define UR_SENDER_H

#include <stdbool.h>
#include <stdint.h>

struct ur_qp;

/*
 * A connection's peer that has no room for more, as far as the carrier knows, is asked again at this
 * interval. In the end it is sent to nevertheless: what it cannot take is lost.
 */
#define UR_ROOM_INTERVAL (100 * UINT64_C(1000))
#define UR_ROOM_PATIENCE (100 * UINT64_C(1000000))

/*
 * Sends what is posted, as far as the carrier takes it, and completes it; no more at a time than the
 * carrier's window, so that others, the peer among them, get their turn. Returns whether there is more,
 * which is scheduled with the engine. A piece of memory that may not be read ends the send queue (state
 * SQE), not the receiving.
 */
bool ur_sender_transmit(struct ur_qp *qp, uint64_t now);

/* The queue pair's deadline has come. */
void ur_sender_run_timer(struct ur_qp *qp, uint64_t now);

/* The packet with that number was not sent, since the carrier was blocked: it is to be sent again. */
void ur_sender_unsent(struct ur_qp *qp, uint32_t psn);

#endif
