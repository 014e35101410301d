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

struct ur_qp;

/* A read or atomic that was executed, kept to answer it again. */
struct ur_resource {
	bool is_atomic;
	uint32_t psn;
	uint32_t packets;
	uint64_t va;
	uint32_t rkey;
	uint32_t length;
	uint64_t original; /* what the atomic found */
};

/* Responses that are still to be sent. */
struct ur_response_job {
	bool is_atomic;
	bool again; /* for a request that came again: can be dropped, the peer will ask once more */
	uint32_t psn;     /* of the next response */
	uint32_t packets; /* still to send */
	bool first;
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

#endif
