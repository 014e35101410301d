#include "recv_queue.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int ur_recv_queue_init(struct ur_recv_queue *queue, struct ur_pd *pd, enum ur_block_use use,
		       uint32_t capacity, uint32_t max_sge)
{
	size_t ids = capacity * sizeof(*queue->wr_ids);
	size_t sges = (size_t)capacity * max_sge * sizeof(*queue->sges);
	char *memory;

	*queue = (struct ur_recv_queue){ .capacity = capacity, .max_sge = max_sge };
	if (ur_block_init(&queue->block, pd, use,
			  ids + sges + capacity * sizeof(*queue->sge_counts)) != 0)
		return ENOMEM;
	memory = queue->block.memory;
	queue->wr_ids = (uint64_t *)memory;
	queue->sges = (struct ibv_sge *)(memory + ids);
	queue->sge_counts = (unsigned *)(memory + ids + sges);
	return 0;
}

void ur_recv_queue_free(struct ur_recv_queue *queue)
{
	ur_block_free(&queue->block);
	*queue = (struct ur_recv_queue){ 0 };
}

/* Where the entry stands that is the nth from the oldest. */
static uint32_t place(const struct ur_recv_queue *queue, uint32_t n)
{
	uint32_t to_end = queue->capacity - queue->head;

	return n < to_end ? queue->head + n : n - to_end;
}

static void put(struct ur_recv_queue *queue, uint64_t wr_id, const struct ibv_sge *sges,
		unsigned sge_count)
{
	uint32_t at = place(queue, queue->count);

	queue->wr_ids[at] = wr_id;
	queue->sge_counts[at] = sge_count;
	if (sge_count > 0)
		memcpy(&queue->sges[(size_t)at * queue->max_sge], sges, sge_count * sizeof(*sges));
	queue->count++;
}

int ur_recv_queue_post(struct ur_recv_queue *queue, const struct ibv_recv_wr *wr)
{
	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > queue->max_sge)
		return EINVAL;
	if (queue->count == queue->capacity)
		return ENOMEM;
	put(queue, wr->wr_id, wr->sg_list, (unsigned)wr->num_sge);
	return 0;
}

bool ur_recv_queue_take(struct ur_recv_queue *queue, struct ur_recv_wqe *wqe)
{
	uint32_t at = queue->head;

	if (queue->count == 0)
		return false;
	wqe->wr_id = queue->wr_ids[at];
	wqe->sge_count = queue->sge_counts[at];
	memcpy(wqe->sges, &queue->sges[(size_t)at * queue->max_sge],
	       wqe->sge_count * sizeof(*wqe->sges));
	queue->head = place(queue, 1);
	queue->count--;
	return true;
}

int ur_recv_queue_move(struct ur_recv_queue *queue, struct ur_recv_queue *to)
{
	struct ur_recv_queue emptied = *queue;
	struct ur_recv_wqe wqe;

	if (to->capacity < queue->count)
		return EINVAL;
	while (ur_recv_queue_take(&emptied, &wqe))
		put(to, wqe.wr_id, wqe.sges, wqe.sge_count);
	*queue = *to;
	*to = emptied;
	return 0;
}
