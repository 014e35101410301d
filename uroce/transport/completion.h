/*
 * Completions of a queue pair, and its end by an error.
 */
#ifndef UR_COMPLETION_H
#define UR_COMPLETION_H

#include <infiniband/verbs.h>
#include <stdbool.h>

struct ur_qp;
struct ur_send_wqe;
struct ur_recv_wqe;

/* Completes the oldest entry of the send queue; one that succeeded without being signaled, silently. */
void ur_complete_send(struct ur_qp *qp, enum ibv_wc_status status);

/* Takes the oldest receive, of the queue pair or of the shared queue; false: there is none. */
bool ur_take_recv(struct ur_qp *qp, struct ur_recv_wqe *wqe);

/*
 * Completes a receive. wc: opcode, byte_len, imm_data or invalidated_rkey, wc_flags; src_qp if it is
 * not the connection's peer.
 */
void ur_complete_recv(struct ur_qp *qp, const struct ur_recv_wqe *wqe, struct ibv_wc *wc,
		      bool solicited);

/* The flush of what waits: the transition to the error state, from wherever it comes. */
void ur_qp_to_error(struct ur_qp *qp);

/* Completes what was posted to a queue pair in an error state; in SQE that is only what it sends. */
void ur_qp_flush(struct ur_qp *qp);

#endif
