#include "send_queue.h"

#include <errno.h>
#include <string.h>

#define ATOMIC_SIZE 8

static uint32_t power_of_two(uint32_t least)
{
	uint32_t power = 1;

	while (power < least)
		power *= 2;
	return power;
}

int ur_send_queue_init(struct ur_send_queue *queue, struct ur_pd *pd, const struct ibv_qp_cap *cap)
{
	uint32_t capacity = power_of_two(cap->max_send_wr);
	size_t wqes = capacity * sizeof(*queue->wqes);
	size_t sges = cap->max_send_sge * sizeof(struct ibv_sge);
	size_t inline_room =
		cap->max_inline_data > ATOMIC_SIZE ? cap->max_inline_data : ATOMIC_SIZE;
	char *memory;

	*queue = (struct ur_send_queue){ .capacity = capacity,
					 .max_wr = cap->max_send_wr,
					 .max_sge = cap->max_send_sge,
					 .max_inline = cap->max_inline_data };
	if (ur_block_init(&queue->block, pd, UR_BLOCK_SEND_QUEUE,
			  wqes + capacity * (sges + inline_room)) != 0)
		return ENOMEM;
	memory = queue->block.memory;
	queue->wqes = (struct ur_send_wqe *)memory;
	for (size_t i = 0; i < capacity; i++) {
		queue->wqes[i].sges = (struct ibv_sge *)(memory + wqes + i * sges);
		queue->wqes[i].inline_data =
			(uint8_t *)memory + wqes + capacity * sges + i * inline_room;
	}
	return 0;
}

void ur_send_queue_free(struct ur_send_queue *queue)
{
	ur_block_free(&queue->block);
	*queue = (struct ur_send_queue){ 0 };
}

/* The tail stays, so that entries that are just being filled behind it keep their place. */
void ur_send_queue_clear(struct ur_send_queue *queue)
{
	queue->head = queue->tail;
	queue->next = queue->tail;
}

static bool is_atomic(enum ibv_wr_opcode opcode)
{
	return opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ||
	       opcode == IBV_WR_ATOMIC_WRITE;
}

/* Only what is sent can stand in the entry; what comes back needs a place in memory. */
static bool takes_inline(enum ibv_wr_opcode opcode)
{
	switch (opcode) {
	case IBV_WR_SEND:
	case IBV_WR_SEND_WITH_IMM:
	case IBV_WR_SEND_WITH_INV:
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
	case IBV_WR_ATOMIC_WRITE:
		return true;
	default:
		return false;
	}
}

static int set_operation(struct ur_send_wqe *wqe, const struct ibv_send_wr *wr)
{
	switch (wr->opcode) {
	case IBV_WR_SEND:
		return 0;
	case IBV_WR_SEND_WITH_IMM:
		wqe->imm = wr->imm_data;
		return 0;
	case IBV_WR_SEND_WITH_INV:
	case IBV_WR_LOCAL_INV:
		wqe->invalidate_rkey = wr->invalidate_rkey;
		return 0;
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		wqe->imm = wr->imm_data;
		__attribute__((fallthrough));
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_READ:
	case IBV_WR_ATOMIC_WRITE:
		wqe->remote_addr = wr->wr.rdma.remote_addr;
		wqe->rkey = wr->wr.rdma.rkey;
		return 0;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		wqe->remote_addr = wr->wr.atomic.remote_addr;
		wqe->rkey = wr->wr.atomic.rkey;
		wqe->compare_or_add = wr->wr.atomic.compare_add;
		wqe->swap = wr->wr.atomic.swap;
		return 0;
	case IBV_WR_BIND_MW:
		return ur_mw_describe_bind(wr->bind_mw.mw, wr->bind_mw.rkey, &wr->bind_mw.bind_info,
					   &wqe->bind);
	default:
		return EINVAL;
	}
}

int ur_send_queue_describe(struct ur_send_queue *queue, uint32_t ahead,
			   const struct ibv_send_wr *wr, bool signal_all)
{
	struct ur_send_wqe *wqe = ur_send_queue_at(queue, queue->tail + ahead);

	wqe->wr_id = wr->wr_id;
	wqe->opcode = wr->opcode;
	wqe->signaled = signal_all || wr->send_flags & IBV_SEND_SIGNALED;
	wqe->fence = wr->send_flags & IBV_SEND_FENCE;
	wqe->solicited = wr->send_flags & IBV_SEND_SOLICITED;
	wqe->length = 0;
	wqe->sge_count = 0;
	wqe->is_inline = false;
	return set_operation(wqe, wr);
}

int ur_send_queue_set_sges(const struct ur_send_queue *queue, struct ur_send_wqe *wqe,
			   const struct ibv_sge *sges, size_t count)
{
	if (count > queue->max_sge)
		return EINVAL;
	wqe->length = 0;
	wqe->sge_count = (unsigned)count;
	wqe->is_inline = false;
	for (size_t i = 0; i < count; i++) {
		wqe->sges[i] = sges[i];
		wqe->length += sges[i].length;
	}
	return 0;
}

int ur_send_queue_add_inline(const struct ur_send_queue *queue, struct ur_send_wqe *wqe,
			     const void *data, size_t length)
{
	uint64_t before = wqe->is_inline ? wqe->length : 0;

	if (!takes_inline(wqe->opcode) || length > queue->max_inline - before)
		return EINVAL;
	if (length > 0)
		memcpy(wqe->inline_data + before, data, length);
	wqe->length = before + length;
	wqe->is_inline = true;
	return 0;
}

void ur_send_wqe_set_value(struct ur_send_wqe *wqe, const void *value)
{
	memcpy(wqe->inline_data, value, ATOMIC_SIZE);
	wqe->length = ATOMIC_SIZE;
	wqe->is_inline = true;
}

int ur_send_wqe_check(const struct ur_send_wqe *wqe)
{
	return is_atomic(wqe->opcode) && wqe->length != ATOMIC_SIZE ? EINVAL : 0;
}

static int copy_inline(const struct ur_send_queue *queue, struct ur_send_wqe *wqe,
		       const struct ibv_sge *sges, unsigned count)
{
	int error = takes_inline(wqe->opcode) ? 0 : EINVAL;

	for (unsigned i = 0; i < count && !error; i++) {
		const void *data = (const void *)(uintptr_t)sges[i].addr;

		error = ur_send_queue_add_inline(queue, wqe, data, sges[i].length);
	}
	return error;
}

int ur_send_queue_fill(struct ur_send_queue *queue, uint32_t ahead, const struct ibv_send_wr *wr,
		       bool signal_all)
{
	struct ur_send_wqe *wqe = ur_send_queue_at(queue, queue->tail + ahead);
	unsigned count = (unsigned)wr->num_sge;
	int error;

	if (ahead >= ur_send_queue_room(queue))
		return ENOMEM;
	/* Also of inline data: the limit that was agreed on at creation. */
	if (count > queue->max_sge)
		return EINVAL;
	error = ur_send_queue_describe(queue, ahead, wr, signal_all);
	if (error)
		return error;
	error = wr->send_flags & IBV_SEND_INLINE
			? copy_inline(queue, wqe, wr->sg_list, count)
			: ur_send_queue_set_sges(queue, wqe, wr->sg_list, count);
	return error ? error : ur_send_wqe_check(wqe);
}
