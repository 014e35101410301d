/*
 * Two devices in one process, and a network between them that a test has in its hands: it decides the
 * fate of each packet, and time passes only when nothing else can happen. Takes the place of the
 * engine and the link.
 */
#ifndef SIMULATION_H
#define SIMULATION_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../../../uroce/core/qp.h"

enum fate { DELIVER, DROP, DUPLICATE, HOLD /* until the next packet has been delivered */ };

/* count: packets before this one, of both directions. */
typedef enum fate (*fate_fn)(const struct ur_packet *packet, unsigned count, void *user_data);

#define MEMORY_SIZE       (1 << 20)
#define SIMULATION_WINDOW (256 * 1024)
#define SIMULATION_QKEY   0x11111111

struct node {
	struct ur_device device;
	struct ur_context *context;
	struct ur_pd *pd;
	struct ur_cq *send_cq;
	struct ur_cq *recv_cq;
	struct ur_srq *srq;   /* NULL: none */
	struct ur_xrcd *xrcd; /* NULL: none */
	struct ur_mr *mr;     /* all accesses, of memory */
	uint8_t *memory;
	struct ur_qp *qp;
};

/* What queue pairs are made with; simulation_defaults, then changes. */
struct simulation_config {
	/* RC, UC, UD, or XRC_SEND: a has that, b XRC_RECV and a shared receive queue */
	enum ibv_qp_type type;
	uint64_t send_ops; /* of the extended interface; 0: without that */
	enum ibv_mtu mtu;
	unsigned rd_atomic;
	unsigned timeout;
	unsigned retry_cnt;
	unsigned rnr_retry;
	unsigned min_rnr_timer;
	unsigned access;
	bool srq;
	uint32_t psn; /* of both, so that wrapping can be tested */
	uint32_t max_wr;
};

extern const struct simulation_config simulation_defaults;

/* Makes both nodes and connects them. a asks, b answers, in most tests. */
void simulation_create(const struct simulation_config *config);
/* Resets both queue pairs and connects them anew, forgets what is on the way and what completed. */
void simulation_reconnect(const struct simulation_config *config);
/* Destroys all; fails the test if a packet or an object was lost. */
void simulation_destroy(void);

extern struct node a, b;

/* NULL: all are delivered. */
void simulation_set_fate(fate_fn fate, void *user_data);

/* Delivers what is on the way, and what that brings, without time passing. */
void simulation_settle(void);
/* The same, and lets time pass to the next timer, until no timer is left or max_ns have passed. */
void simulation_run(uint64_t max_ns);

uint64_t simulation_now(void);
/* Packets given to the network so far. */
unsigned simulation_packets(void);
/* Of the newest packet with that opcode; fails the test if there was none. */
const struct ur_packet *simulation_last(uint8_t opcode);
unsigned simulation_count(uint8_t opcode);
/* Where the newest packet went to. */
const struct ur_path *simulation_last_path(void);

/* Puts a packet on the way to b as if a had sent it. */
void simulation_inject(const struct ur_packet *packet, const void *payload);
/* Gives a node a packet at once, and lets it answer. */
void simulation_deliver(struct node *to, const struct ur_packet *packet);
/* Drops all that is on the way. */
void simulation_lose_all(void);

/* The carriers take nothing more, and say so of what they are given. */
void simulation_block(bool blocked);
/* The peers have no room for more, as far as that is asked. */
void simulation_fill(bool full);

/* ---- Work requests on a node's memory, signaled ---- */

/* rkey, remote memory and shared receive queue are the other node's. */
struct ibv_send_wr simulation_wr(enum ibv_wr_opcode opcode, struct ibv_sge *sge, uint64_t wr_id);
struct ibv_sge simulation_sge(const struct node *node, size_t offset, uint32_t length);
void simulation_post_send(struct node *node, struct ibv_send_wr *wr);
void simulation_post_recv(struct node *node, uint64_t wr_id, size_t offset, uint32_t length);

/* Takes the next completion, which must be there. */
struct ibv_wc simulation_completion(struct ur_cq *cq);
void assert_no_completion(struct ur_cq *cq);
/* Takes the next completion and checks its id and status. */
struct ibv_wc assert_completion(struct ur_cq *cq, uint64_t wr_id, enum ibv_wc_status status);
/* Takes the next asynchronous event of a node. */
void assert_event(struct node *node, enum ibv_event_type type);
void assert_no_event(struct node *node);

/* Fills length bytes with a pattern that has no period of a packet's size. */
void fill_pattern(uint8_t *bytes, size_t length, unsigned seed);
/* Checks that each of length bytes has that value. */
void assert_all_bytes(const uint8_t *bytes, size_t length, uint8_t value);

#endif
