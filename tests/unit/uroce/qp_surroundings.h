/*
 * What a queue pair stands in: a context with a device, its objects, and a transport, a link and an
 * engine that only note what they are asked for.
 */
#ifndef QP_SURROUNDINGS_H
#define QP_SURROUNDINGS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../../../uroce/core/qp.h"

#define LINK_NUMBER 5
#define PEER_QPN    0x030042
#define PEER_PORT   4794

/* How often each was called. */
struct calls {
	unsigned responder_start;
	unsigned responder_free;
	unsigned requester_start;
	unsigned transmit;
	unsigned sender_transmit;
	unsigned flush; /* of what is to be sent */
	unsigned forget;
	unsigned to_error;
	unsigned cq_forget;
	unsigned qp_flush; /* of what was posted in the error state */
};

struct surroundings {
	struct ur_device device;
	struct ur_context context;
	struct ur_context other_context;
	struct ur_pd pd;
	struct ur_cq send_cq;
	struct ur_cq recv_cq;
	struct ur_srq srq;

	struct calls calls;
	int responder_error; /* what its start returns */
	int path_error;
	uint32_t responder_epsn; /* when it was started */
	uint32_t requester_psn;
	uint16_t path_port;
	bool builder_locked; /* when it transmitted */
	unsigned raised;     /* events */
	enum ibv_event_type last_raised;
	unsigned withdrawn;
	bool is_last_raised_withdrawn;
};

extern struct surroundings around;

/* Setup and teardown of a test. */
int surroundings_set_up(void **state);
int surroundings_tear_down(void **state);

/* Of a reliable connection with 4 entries, 2 pieces, 16 bytes inline (of which there will be 32). */
struct ibv_qp_init_attr_ex surroundings_init_attr(void);
struct ur_qp *surroundings_create_qp(void);

/* Attributes with which each transition up to RTS is possible, and their masks. */
extern const struct ibv_qp_attr surroundings_attr;
#define INIT_MASK (IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)
#define RTR_MASK                                                                        \
	(IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | \
	 IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)
#define RTS_MASK                                                                               \
	(IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | \
	 IBV_QP_MAX_QP_RD_ATOMIC)

int surroundings_modify(struct ur_qp *qp, enum ibv_qp_state state, int mask);
/* From reset to that state. */
void surroundings_bring_to(struct ur_qp *qp, enum ibv_qp_state state);

#endif
