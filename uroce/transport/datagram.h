/*
 * Datagrams: both halves of an unreliable datagram queue pair. A message is one packet with an address
 * of its own, to and from any peer; nothing is acknowledged. It is sent by the sender. Pure in the same
 * sense as the requester.
 *
 * InfiniBand specification volume 1, section 9.8.3; RoCE v2 is its annex A17.
 */
#ifndef UR_DATAGRAM_H
#define UR_DATAGRAM_H

#include <infiniband/verbs.h>
#include <stdint.h>

#include "../link/carrier.h"

struct ur_group;
struct ur_qp;
struct ur_send_wqe;

/*
 * What stands in front of the data of each receive: an IPv6 header, or an IPv4 header behind 20 zero
 * bytes. Of its fields the addresses are known, and the length; traffic class and hop limit are not.
 */
#define UR_GRH_SIZE 40

/* ---- Posting ---- */

/*
 * Sets where an entry of the send queue goes to; the address handle may go after that. qkey: with its
 * upper bit set it stands for the queue pair's own. Returns 0, or EINVAL: no address handle of the queue
 * pair's protection domain, or no number that a queue pair can have, or UR_MULTICAST_QPN and not a
 * group's address, or the other way round. Needs no lock.
 */
int ur_datagram_set_address(const struct ur_qp *qp, struct ur_send_wqe *wqe,
			    const struct ibv_ah *ah, uint32_t qpn, uint32_t qkey);

/*
 * Whether an entry is right as a whole. Returns 0, or EINVAL: another operation than a send, longer
 * than the port's MTU, or without an address.
 */
int ur_datagram_check(const struct ur_qp *qp, const struct ur_send_wqe *wqe);

/* ---- Device's lock held ---- */

/* The packet that an entry is, but for its sequence number. */
struct ur_packet ur_datagram_packet(const struct ur_qp *qp, const struct ur_send_wqe *wqe);

/*
 * A datagram that has come; group: that it was sent to, NULL: to the queue pair alone. One that finds no
 * receive is dropped, as one without the queue pair's Q_Key. One that the receive is too small for ends
 * that with IBV_WC_LOC_LEN_ERR, and the queue pair goes on: what anybody can send must not be its end (of an
 * unreliable service's length errors the specification says the same: section 9.9.3, classes D and E). A
 * receive whose memory may not be written is the program's own mistake, and the end (class A).
 */
void ur_datagram_receive(struct ur_qp *qp, const struct ur_packet *packet,
			 const struct ur_path *from, const struct ur_group *group);

#endif
