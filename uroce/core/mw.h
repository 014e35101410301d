/*
 * Memory windows: access for peers to part of a memory region, given and taken back by work requests of
 * a send queue. Type 1 serves all queue pairs of its protection domain. Type 2 serves only the one that
 * it was bound through (2B of the specification), and a peer can give it back.
 *
 * InfiniBand specification volume 1, section 10.6.7.
 */
#ifndef UR_MW_H
#define UR_MW_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "key_table.h"

struct ur_device;
struct ur_pd;
struct ur_qp;
struct ur_send_wqe;

/* The rest is guarded by the device's lock, and set while it is bound. */
struct ur_mw {
	struct ibv_mw verbs; /* first; its rkey is the one that the program was told */
	struct ur_pd *pd;
	struct ur_mr *mr; /* NULL: not bound, and no key gives access */
	char *memory;
	uint64_t base; /* how peers address the first byte */
	uint64_t length;
	unsigned access;
	struct ur_qp *qp;          /* of type 2; NULL: of type 1 */
	struct ur_mw *next, *prev; /* among those of qp */
};

/* A bind as it was posted. What it names may be gone when its turn comes. */
struct ur_mw_bind {
	const struct ur_mw *mw; /* only to be compared */
	uint32_t index;         /* its place in the table of keys */
	uint8_t generation;     /* of the new key */
	uint32_t lkey;          /* of the region; 0: none */
	uint64_t addr;
	uint64_t length;
	unsigned access;
};

/* NULL and errno: EINVAL, ENOMEM. */
struct ur_mw *ur_mw_alloc(struct ur_pd *pd, enum ibv_mw_type type);
/* Takes back what access it gives. Returns 0. */
int ur_mw_dealloc(struct ur_mw *mw);

/*
 * Takes down a bind that a program posts. rkey: the new key, which differs from the window's only in the
 * lower 8 bits. Returns 0, or EINVAL: no window, another key, access that a window cannot give.
 */
int ur_mw_describe_bind(const struct ibv_mw *mw, uint32_t rkey, const struct ibv_mw_bind_info *info,
			struct ur_mw_bind *bind);

/* The key that a window of type 1 is bound with next. */
static inline uint32_t ur_mw_next_key(uint32_t key)
{
	return (key & ~UR_KEY_GENERATION_MASK) |
	       ur_key_next_generation(key & UR_KEY_GENERATION_MASK);
}

/* ---- Device's lock held ---- */

/*
 * Executes IBV_WR_BIND_MW and IBV_WR_LOCAL_INV, when the entry's turn in the send queue comes. Returns what
 * it completes with: IBV_WC_SUCCESS or IBV_WC_MW_BIND_ERR.
 */
enum ibv_wc_status ur_mw_execute(struct ur_qp *qp, const struct ur_send_wqe *wqe);

/* A peer gives a key back. Returns false if it is none that it may: only a window of type 2, bound
 * through this queue pair. */
bool ur_mw_invalidate_remotely(const struct ur_qp *qp, uint32_t key);

/* Those of type 2 that were bound through a queue pair, which goes. */
void ur_mw_unbind_all(struct ur_qp *qp);

/*
 * Where length bytes at address are that a peer accesses by a key, of a region or of a window; NULL: not
 * permitted (ur_mr_resolve). pd: that of the queue pair's target, when the request was executed. access: the remote flag wanted.
 */
void *ur_resolve_remote(const struct ur_qp *qp, const struct ur_pd *pd, uint32_t key,
			uint64_t address, uint64_t length, unsigned access);

#endif
