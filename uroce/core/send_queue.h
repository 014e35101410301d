/*
 * Send queue: the work requests of a queue pair, from posting until they complete. Entries are numbered
 * by counters that run freely; a counter modulo the capacity is the place.
 *
 *   head   the oldest that has not completed
 *   next   the oldest that the requester has not begun (it gives it its packet sequence numbers)
 *   tail   behind the newest
 */
#ifndef UR_SEND_QUEUE_H
#define UR_SEND_QUEUE_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../link/carrier.h"
#include "block.h"
#include "mw.h"

struct ur_send_wqe {
	uint64_t wr_id;
	enum ibv_wr_opcode opcode;
	bool signaled;
	bool fence;
	bool solicited;
	uint32_t imm;             /* network order */
	uint32_t invalidate_rkey; /* of a remote invalidate, or a local one */
	uint64_t remote_addr;
	uint32_t rkey;
	uint64_t compare_or_add;
	uint64_t swap;
	struct ur_mw_bind bind;
	uint64_t length; /* sum of the pieces */
	unsigned sge_count;
	struct ibv_sge *sges;
	uint8_t *inline_data; /* holds the data if is_inline */
	bool is_inline;

	/* Of the requester, once begun. */
	uint32_t first_psn;
	uint32_t packets; /* sequence numbers that it takes; 0: a local operation */
	uint32_t ssn;
	enum ibv_wc_status status; /* what it will complete with */

	/* Of a datagram. */
	struct ur_path path;
	uint32_t remote_qpn; /* 0: it has no address yet */
	uint32_t remote_qkey;

	uint32_t srqn; /* of an extended connection: what it is for; UR_NO_SRQ: that is to come */
};

#define UR_NO_SRQ UINT32_MAX

struct ur_send_queue {
	uint32_t capacity; /* a power of two */
	uint32_t max_wr;   /* entries that may be used */
	uint32_t max_sge;
	uint32_t max_inline;
	uint32_t head;
	uint32_t next;
	uint32_t tail;
	struct ur_block block; /* of the entries, their pieces and their inline data */
	struct ur_send_wqe *wqes;
};

/* pd: as ur_block_init. Returns 0 or ENOMEM. */
int ur_send_queue_init(struct ur_send_queue *queue, struct ur_pd *pd, const struct ibv_qp_cap *cap);
void ur_send_queue_free(struct ur_send_queue *queue);
/* Forgets all entries. */
void ur_send_queue_clear(struct ur_send_queue *queue);

static inline struct ur_send_wqe *ur_send_queue_at(const struct ur_send_queue *queue,
						   uint32_t index)
{
	return &queue->wqes[index & (queue->capacity - 1)];
}

/* How many more entries there can be. */
static inline uint32_t ur_send_queue_room(const struct ur_send_queue *queue)
{
	return queue->max_wr - (queue->tail - queue->head);
}

/*
 * Fills the entry at tail + ahead from a work request, without moving tail. Returns 0, ENOMEM (full), or
 * EINVAL (too many pieces, too much inline data or for an operation that takes none, an opcode that a
 * reliable connection does not have, an atomic that is not of 8 bytes, a bind that cannot be right).
 */
int ur_send_queue_fill(struct ur_send_queue *queue, uint32_t ahead, const struct ibv_send_wr *wr,
		       bool signal_all);

/*
 * The steps of filling, for work requests that come in parts. The first takes all but the data from a
 * work request, for an entry that there is room for; then comes the data, in one of the two forms; the
 * last says whether the entry is right as a whole. Each returns 0 or EINVAL.
 */
int ur_send_queue_describe(struct ur_send_queue *queue, uint32_t ahead,
			   const struct ibv_send_wr *wr, bool signal_all);
/* Replaces the pieces. */
int ur_send_queue_set_sges(const struct ur_send_queue *queue, struct ur_send_wqe *wqe,
			   const struct ibv_sge *sges, size_t count);
/* Copies data behind the inline data that the entry has. */
int ur_send_queue_add_inline(const struct ur_send_queue *queue, struct ur_send_wqe *wqe,
			     const void *data, size_t length);
/* What an atomic write writes: 8 bytes, for which each entry has room. */
void ur_send_wqe_set_value(struct ur_send_wqe *wqe, const void *value);
int ur_send_wqe_check(const struct ur_send_wqe *wqe);

/* What is done here, and sends nothing. */
static inline bool ur_send_wqe_is_local(const struct ur_send_wqe *wqe)
{
	return wqe->opcode == IBV_WR_LOCAL_INV || wqe->opcode == IBV_WR_BIND_MW;
}

#endif
