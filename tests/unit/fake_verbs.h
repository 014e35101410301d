/*
 * A fake libibverbs for tests: it counts what lives, fails calls on demand, and completes work
 * when a test says so.
 *
 * Tests link it in place of the real library. It enforces what the kernel enforces (queue pair
 * transitions, attribute masks, queue sizes) and fails the running test where a real device would
 * misbehave or hang.
 */
#ifndef FAKE_VERBS_H
#define FAKE_VERBS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

/* The calls that can be made to fail. */
enum fake_call {
	FAKE_GET_DEVICE_LIST,
	FAKE_OPEN_DEVICE,
	FAKE_QUERY_DEVICE,
	FAKE_QUERY_PORT,
	FAKE_QUERY_GID,
	FAKE_ALLOC_PD,
	FAKE_REG_MR,
	FAKE_CREATE_COMP_CHANNEL,
	FAKE_CREATE_CQ,
	FAKE_CREATE_SRQ,
	FAKE_CREATE_QP,
	FAKE_MODIFY_QP,
	FAKE_POST_SEND,
	FAKE_POST_SRQ_RECV,
	FAKE_LAST_BUILDING_CALL = FAKE_POST_SRQ_RECV,
	FAKE_POLL_CQ,
	FAKE_REQ_NOTIFY_CQ,
	FAKE_CLOSE_DEVICE,
	FAKE_DEALLOC_PD,
	FAKE_DEREG_MR,
	FAKE_DESTROY_QP,
	FAKE_CALL_COUNT
};

#define FAKE_MAX_PORTS 2
#define FAKE_MAX_GIDS  8
#define FAKE_MAX_SGE   16

struct fake_port {
	enum ibv_port_state state;
	uint8_t link_layer;
	uint16_t lid;
	int gid_count;                            /* of the table */
	struct ibv_gid_entry gids[FAKE_MAX_GIDS]; /* all zero: an empty entry */
};

struct fake_device {
	struct ibv_device verbs; /* a test may set name, transport_type, ibdev_path */
	bool legacy;             /* has no extended queries */
	enum ibv_atomic_cap atomic_cap;
	int max_srq;
	int max_qp;
	int max_sge;
	uint8_t port_count;
	struct fake_port ports[FAKE_MAX_PORTS];
};

/* A send that a test has not completed yet. */
struct fake_send {
	struct ibv_send_wr wr; /* its sg_list is not valid: use sges */
	struct ibv_sge sges[FAKE_MAX_SGE];
	struct fake_send *next;
};

/* No devices, no failures, all counts 0. Call it before each test. */
void fake_reset(void);

/* A device with one active Ethernet port, a RoCE v2 IPv4 GID at index 1, and all capabilities. */
struct fake_device *fake_add_device(const char *name);

/* Sets an entry of a port's GID table; address in IPv6 notation. */
void fake_set_gid(struct fake_port *port, int index, const char *address, enum ibv_gid_type type);

/* The call after skip more ones fails, once, with error. */
void fake_fail_call(enum fake_call call, unsigned skip, int error);

/* The same for building calls of whatever kind: those up to FAKE_LAST_BUILDING_CALL. */
void fake_fail_any(unsigned skip, int error);

/* All of these calls fail from now on; error 0 ends that. */
void fake_fail_always(enum fake_call call, int error);

/* Whether the failure that was asked for last has happened. */
bool fake_has_failed(void);

unsigned fake_calls(enum fake_call call);

/* Verbs objects and opened devices that exist, device lists included. */
unsigned fake_live(void);

/* Called just before a completion queue is armed; for completions that come in between. */
void fake_before_notify(void (*hook)(void *data), void *data);

/* Called on each ibv_destroy_qp, before the queue pair goes. */
void fake_before_destroy_qp(void (*hook)(void *data), void *data);

/* The last mask-checked attributes that a queue pair was moved with, to this state. */
const struct ibv_qp_attr *fake_qp_attr(const struct ibv_qp *qp, enum ibv_qp_state state);

const struct ibv_qp_init_attr *fake_qp_init_attr(const struct ibv_qp *qp);
unsigned fake_mr_access(const struct ibv_mr *mr);

/* ---- Work ---- */

size_t fake_send_count(const struct ibv_qp *qp);
/* The oldest send that is not completed, or NULL. */
const struct fake_send *fake_oldest_send(const struct ibv_qp *qp);

/*
 * Completes the oldest send. With an error the queue pair goes to error and flushes the others, as
 * devices do.
 */
void fake_complete_send(struct ibv_qp *qp, enum ibv_wc_status status);

/*
 * From now on queue pairs in error keep their sends until fake_flush, as devices that take their
 * time.
 */
void fake_hold_flushes(void);
void fake_flush(struct ibv_qp *qp);

size_t fake_receive_count(const struct ibv_srq *srq);

/* A message from qp's peer takes the oldest receive of its shared queue. */
void fake_deliver_send(struct ibv_qp *qp, const void *data, size_t length);
void fake_deliver_send_immediate(struct ibv_qp *qp, const void *data, size_t length, uint32_t imm);
/* The data of a write is not the fake's business, only its length. */
void fake_deliver_write_immediate(struct ibv_qp *qp, size_t length, uint32_t imm);
/* The oldest receive comes back with an error, and the queue pair goes to error. */
void fake_fail_receive(struct ibv_qp *qp, enum ibv_wc_status status);

/*
 * Asynchronous events. object: the queue pair, completion queue or shared receive queue; NULL: the
 * device.
 */
void fake_push_event(struct ibv_context *context, enum ibv_event_type type, void *object);

#endif
