/*
 * Receive queue: what receives of a queue pair, or of many that share one, wait in.
 */
#ifndef UR_RECV_QUEUE_H
#define UR_RECV_QUEUE_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "../link/carrier.h"
#include "block.h"

struct ur_recv_wqe {
	uint64_t wr_id;
	unsigned sge_count;
	struct ibv_sge sges[UR_MAX_SGE];
};

struct ur_recv_queue {
	uint32_t capacity;
	uint32_t max_sge;
	uint32_t head;
	uint32_t count;
	struct ur_block block; /* of the following */
	uint64_t *wr_ids;
	unsigned *sge_counts;
	struct ibv_sge *sges; /* capacity * max_sge */
};

/* capacity may be 0. pd, use: as ur_block_init. Returns 0 or ENOMEM. */
int ur_recv_queue_init(struct ur_recv_queue *queue, struct ur_pd *pd, enum ur_block_use use,
		       uint32_t capacity, uint32_t max_sge);
void ur_recv_queue_free(struct ur_recv_queue *queue);
/* Returns 0, EINVAL (too many pieces) or ENOMEM (full). */
int ur_recv_queue_post(struct ur_recv_queue *queue, const struct ibv_recv_wr *wr);
/* Takes the oldest; false: there is none. */
bool ur_recv_queue_take(struct ur_recv_queue *queue, struct ur_recv_wqe *wqe);
/*
 * Moves the entries into an empty queue of another capacity, and exchanges the two. Returns 0, or EINVAL:
 * there are more than it has room for.
 */
int ur_recv_queue_move(struct ur_recv_queue *queue, struct ur_recv_queue *to);

#endif
