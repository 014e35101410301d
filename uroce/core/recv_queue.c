#include "recv_queue.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int ur_recv_queue_init(struct ur_recv_queue *queue, uint32_t capacity, uint32_t max_sge)
{
	size_t sges = (size_t)capacity * max_sge;

	*queue = (struct ur_recv_queue){ .capacity = capacity, .max_sge = max_sge };
	/* One more, since an allocation of nothing may give NULL. */
	queue->wr_ids = calloc((size_t)capacity + 1, sizeof(*queue->wr_ids));
	queue->sge_counts = calloc((size_t)capacity + 1, sizeof(*queue->sge_counts));
	queue->sges = calloc(sges + 1, sizeof(*queue->sges));
	if (queue->wr_ids && queue->sge_counts && queue->sges)
		return 0;
	ur_recv_queue_free(queue);
	return ENOMEM;
}

void ur_recv_queue_free(struct ur_recv_queue *queue)
{
	free(queue->wr_ids);
	free(queue->sge_counts);
	free(queue->sges);
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

int ur_recv_queue_resize(struct ur_recv_queue *queue, uint32_t capacity)
{
	struct ur_recv_queue resized;
	struct ur_recv_wqe wqe;

	if (capacity < queue->count)
		return EINVAL;
	if (ur_recv_queue_init(&resized, capacity, queue->max_sge) != 0)
		return ENOMEM;
	while (ur_recv_queue_take(queue, &wqe))
		put(&resized, wqe.wr_id, wqe.sges, wqe.sge_count);
	ur_recv_queue_free(queue);
	*queue = resized;
	return 0;
}
