/*
 * Unreliable connection: messages of any length to and from one peer, without acknowledgements. A packet
 * that is lost loses its message, and nothing else. Its packets are sent by the sender.
 *
 * InfiniBand specification volume 1, section 9.8.2.
 */
#ifndef UR_UNRELIABLE_H
#define UR_UNRELIABLE_H

#include <stdint.h>

#include "../link/carrier.h"

struct ur_qp;
struct ur_send_wqe;

/* Whether such a connection has the operation of an entry of the send queue. Returns 0 or EINVAL. */
int ur_unreliable_check(const struct ur_send_wqe *wqe);

/* ---- Device's lock held ---- */

/* Packet number index of an entry, but for its sequence number. */
struct ur_packet ur_unreliable_packet(const struct ur_qp *qp, const struct ur_send_wqe *wqe,
				      uint32_t index);

/*
 * A packet of the peer. One that is not the next means that others were lost: the message under way is
 * dropped, and all up to the next first packet of one; the receive that was taken for it is there for the
 * next. A message without a receive, or that may not write where it wants to, is dropped as well. One that
 * its receive is too small for ends that with IBV_WC_LOC_LEN_ERR, and the queue pair goes on, as with
 * datagrams; a receive whose memory may not be written is the end of the queue pair.
 */
void ur_unreliable_receive(struct ur_qp *qp, const struct ur_packet *packet);

#endif
