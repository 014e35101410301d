/*
 * Responder of a reliable connection: executes the peer's requests in order, answers them, and answers
 * again those that come again. Pure in the same sense as the requester.
 *
 * InfiniBand specification volume 1, section 9.7.
 */
#ifndef UR_RESPONDER_H
#define UR_RESPONDER_H

#include <stdbool.h>
#include <stdint.h>

#include "../core/recv_queue.h"
#include "../link/carrier.h"

struct ur_pd;
struct ur_qp;

/* A read or atomic that was executed, kept to answer it again. */
struct ur_resource {
	bool is_atomic; /* and has one answer, with this opcode: that of a read if it was a write */
	uint8_t response;
	uint32_t psn;
	uint32_t packets;
	const struct ur_pd *pd; /* whose memory it reads; may be gone, and is only compared */
	uint64_t va;
	uint32_t rkey;
	uint32_t length;
	uint64_t original; /* what the atomic found */
};

/* Responses that are still to be sent. */
struct ur_response_job {
	bool is_atomic;
	uint8_t response;
	bool again; /* for a request that came again: can be dropped, the peer will ask once more */
	uint32_t psn;     /* of the next response */
	uint32_t packets; /* still to send */
	bool first;
	const struct ur_pd *pd; /* as above */
	uint64_t va;
	uint32_t rkey;
	uint32_t length;
	uint64_t original;
};

enum ur_message_kind { UR_NO_MESSAGE, UR_SEND_MESSAGE, UR_WRITE_MESSAGE };

struct ur_responder {
	uint32_t epsn; /* the sequence number that is to come next */
	uint32_t msn;  /* messages completed */
	bool nak_sent; /* for a gap, or a receive that was not ready: not again before it is closed */
	bool heard;    /* a request has come */

	/* A message of which not all packets have come. */
	enum ur_message_kind message;
	bool has_receive; /* the wqe, which was taken for a message and is not completed */
	struct ur_recv_wqe wqe;
	uint64_t received;
	uint64_t va;
	uint32_t rkey;
	uint32_t remaining; /* bytes of a write that are to come */
	uint32_t dma_length;

	/* An acknowledgement or NAK for the next flush, behind the jobs. */
	bool answer_pending;
	uint8_t syndrome;

	struct ur_resource *resources; /* ring of max_dest_rd_atomic */
	uint32_t resource_capacity;
	uint32_t resource_next;
	uint32_t resource_count;
	struct ur_response_job *jobs; /* ring of the same size, in the order of their numbers */
	uint32_t job_head;
	uint32_t job_count;
};

/* At the transition to ready to receive. Returns 0 or ENOMEM. */
int ur_responder_start(struct ur_qp *qp);
/* Frees what start took. */
void ur_responder_free(struct ur_qp *qp);

/* A request that has come. */
void ur_responder_receive(struct ur_qp *qp, const struct ur_packet *packet);

/*
 * Sends responses and the acknowledgement that are due, up to UR_RESPONSE_BURST packets. Returns whether
 * there is more.
 */
bool ur_responder_respond(struct ur_qp *qp);
#define UR_RESPONSE_BURST 64

/* ---- Shared with unreliable connections ---- */

/* What became of a request: executed, no receive was ready for it, or why it is refused. */
enum ur_outcome {
	UR_EXECUTED,
	UR_NOT_READY,
	UR_INVALID_REQUEST,
	UR_ACCESS_ERROR,
	UR_RECEIVE_TOO_SHORT, /* ends the receive, too */
	UR_RECEIVE_PROTECTED, /* the same */
};

/* A request has come: the first in the state RTR raises IBV_EVENT_COMM_EST. */
void ur_responder_note_request(struct ur_qp *qp);

/* Does what a packet asks for that is the next one. flags: of its opcode. */
enum ur_outcome ur_responder_execute(struct ur_qp *qp, const struct ur_packet *packet,
				     uint32_t flags);

/* Ends the message under way, and the receive that was taken for it with that status. */
void ur_responder_fail_receive(struct ur_qp *qp, enum ibv_wc_status status);

#endif
