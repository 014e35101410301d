/*
 * This process: its objects on one device, what it knows of the other process, and the cell that both
 * are at. A cell is one line of the matrix; both processes go through the same cells in the same order.
 */
#ifndef SIDE_H
#define SIDE_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "layout.h"

/* Memory: what messages come from, and as much behind it that they go to. */
#define REGION_SIZE (UINT32_C(1) << 20)

#define MAX_WRS       256
#define MAX_RD_ATOMIC 16
#define MAX_INLINE    64
#define ALL_ACCESS                                                                   \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
	 IBV_ACCESS_REMOTE_ATOMIC)
#define QKEY UINT32_C(0x11223344)

/* An address family's GID. */
enum family { IPV4, IPV6, FAMILIES };

/* How the processes' queue pairs are connected. */
struct options {
	enum ibv_qp_type type;
	enum family family;
	enum ibv_mtu mtu;
	uint32_t psn; /* that both start with */
	bool has_srq;
	int access; /* of the responder */
	uint8_t max_dest_rd_atomic;
	uint8_t rnr_retry;
	uint8_t timeout;
	uint8_t retry_cnt;
};

/* What the processes tell each other of themselves. */
struct card {
	union ibv_gid gid;
	uint64_t memory;     /* its address */
	uint32_t rkey;       /* of all memory, all access */
	uint32_t local_rkey; /* the same memory without remote access */
	uint32_t other_rkey; /* the same, in another protection domain */
	uint32_t qpn;
	bool is_rxe;
	uint8_t mtu; /* enum ibv_mtu */
};

struct side {
	int control;
	bool is_first;   /* of the two processes */
	uint8_t timeout; /* for answers, as of verbs */
	bool requests;   /* is the requester in this direction */
	struct ibv_context *context;
	struct ibv_pd *pd, *other_pd;
	struct ibv_cq *send_cq, *recv_cq;
	struct ibv_srq *srq;
	uint8_t *memory;
	struct ibv_mr *mr, *local_mr, *other_mr;
	struct card ours, theirs;

	struct ibv_qp *qp; /* NULL: not connected */
	struct ibv_ah *ah; /* to the other process, for datagrams */
	struct options options;

	char cell[160];
	char failure[200]; /* "": none */
	char refusal[80];  /* of the device: why the cell is skipped */
	bool go_on;        /* neither side has failed or been refused */
	unsigned seed;     /* of the cell's data */
	unsigned passed, failed, skipped;
};

/* Opens the device and makes what all cells need; ends the process if that fails. */
void side_open(struct side *side, const char *device);
void side_close(struct side *side);

/* Chooses the GID of a family; both processes call it. */
void side_choose_family(struct side *side, enum family family);

uint8_t *side_source(const struct side *side);
uint8_t *side_target(const struct side *side);

/* ---- Cells ---- */

/* Begins a cell; the name is behind the direction's. */
__attribute__((format(printf, 2, 3))) void cell_begin(struct side *side, const char *format, ...);
/* The cell is wrong; the first reason counts. */
__attribute__((format(printf, 2, 3))) void cell_fail(struct side *side, const char *format, ...);
/* A call failed with that errno: the cell is skipped if the device has no such thing, else wrong. */
void cell_call_failed(struct side *side, const char *call, int error);
/* Waits for the other side; returns whether both can go on. */
bool cell_meet(struct side *side);
/* Ends a cell: prints what became of it. */
void cell_end(struct side *side);

/* ---- Queue pairs ---- */

/* The usual options of a service. */
struct options options_for(const struct side *side, enum ibv_qp_type type, enum family family,
			   enum ibv_mtu mtu);

/* Connects queue pairs, if none are connected. Returns whether the cell can go on. */
bool side_connect(struct side *side, const struct options *options);
/* The next cell gets queue pairs of its own. */
void side_disconnect(struct side *side);
enum ibv_qp_state side_state(struct side *side);

#endif
