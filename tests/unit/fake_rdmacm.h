/*
 * A fake librdmacm for tests, linked in place of the real library: calls are recorded and can be
 * made to fail, and events come when a test says so. It enforces the kernel's order of calls, and
 * fails the running test where the real library would hang.
 */
#ifndef FAKE_RDMACM_H
#define FAKE_RDMACM_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

/* The calls that can be made to fail. */
enum fake_cm_call {
	FAKE_CM_CREATE_CHANNEL,
	FAKE_CM_CREATE_ID,
	FAKE_CM_BIND_ADDR,
	FAKE_CM_LISTEN,
	FAKE_CM_RESOLVE_ADDR,
	FAKE_CM_RESOLVE_ROUTE,
	FAKE_CM_INIT_QP_ATTR,
	FAKE_CM_CONNECT,
	FAKE_CM_ACCEPT,
	FAKE_CM_ESTABLISH,
	FAKE_CM_LAST_BUILDING_CALL = FAKE_CM_ESTABLISH,
	FAKE_CM_REJECT,
	FAKE_CM_NOTIFY,
	FAKE_CM_DISCONNECT,
	FAKE_CM_DESTROY_ID,
	FAKE_CM_CALL_COUNT
};

/* What init_qp_attr gives, but for the number of reads: that is what the event before said. */
#define FAKE_CM_PEER_QPN  0x222
#define FAKE_CM_PEER_PSN  0x333
#define FAKE_CM_OWN_PSN   0x444
#define FAKE_CM_MTU       IBV_MTU_2048
#define FAKE_CM_TIMEOUT   5
#define FAKE_CM_RETRIES   7
#define FAKE_CM_RNR_TIMER 1

/* Nothing there, no failures. Call it before each test. */
void fake_cm_reset(void);

/* The device through which all addresses are reached, and requests come. */
void fake_cm_set_device(struct ibv_device *device);

/* The call after skip more ones fails, once, with error. */
void fake_cm_fail_call(enum fake_cm_call call, unsigned skip, int error);
/* The same for building calls of whatever kind. */
void fake_cm_fail_any(unsigned skip, int error);

/* The calls since fake_cm_forget_calls, in their order: "create_channel create_id …". */
const char *fake_cm_calls(void);
void fake_cm_forget_calls(void);

/* Identifiers and channels that exist. */
unsigned fake_cm_live(void);

/* The identifier that was made last, by a call or a request. */
struct rdma_cm_id *fake_cm_last_id(void);

/* ---- What the calls were given last ---- */

/* connect or accept; the private data stay until the next of them. */
const struct rdma_conn_param *fake_cm_param(void);
/* reject, with a terminator. */
const char *fake_cm_reason(void);
/* bind_addr. */
uint16_t fake_cm_port(void);
/* notify; -1: there was none. */
int fake_cm_notified(void);

/* ---- Events ---- */

/* param: what it brings, as its receiver sees it; NULL: nothing. */
void fake_cm_push(struct rdma_cm_id *id, enum rdma_cm_event_type type, int status,
		  const struct rdma_conn_param *param);
/* A peer asks the listener. Returns the identifier that comes with the event. */
struct rdma_cm_id *fake_cm_request(struct rdma_cm_id *listener,
				   const struct rdma_conn_param *param);
/* Events that nobody has read. */
unsigned fake_cm_pending(void);

#endif
