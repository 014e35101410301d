/*
 * Segments: the packets that a message is sent in, each with as much of it as the path takes. Opcodes are
 * those of a reliable connection, and only their operation counts for another service.
 */
#ifndef UR_SEGMENT_H
#define UR_SEGMENT_H

#include "../core/send_queue.h"

static inline bool ur_is_write(const struct ur_send_wqe *wqe)
{
	return wqe->opcode == IBV_WR_RDMA_WRITE || wqe->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

/* A message without data is a packet, too. */
static inline uint32_t ur_segment_count(uint64_t length, uint32_t mtu)
{
	return length == 0 ? 1 : (uint32_t)((length + mtu - 1) / mtu);
}

/* Bytes of payload before packet number index, which may be the one behind the last. */
static inline uint64_t ur_bytes_before(const struct ur_send_wqe *wqe, uint32_t mtu, uint32_t index)
{
	uint64_t bytes = (uint64_t)index * mtu;

	return bytes < wqe->length ? bytes : wqe->length;
}

static inline uint8_t ur_send_opcode(const struct ur_send_wqe *wqe, bool first, bool last)
{
	if (!last)
		return first ? UR_RC_SEND_FIRST : UR_RC_SEND_MIDDLE;
	switch (wqe->opcode) {
	case IBV_WR_SEND_WITH_IMM:
		return first ? UR_RC_SEND_ONLY_IMM : UR_RC_SEND_LAST_IMM;
	case IBV_WR_SEND_WITH_INV:
		return first ? UR_RC_SEND_ONLY_INV : UR_RC_SEND_LAST_INV;
	default:
		return first ? UR_RC_SEND_ONLY : UR_RC_SEND_LAST;
	}
}

static inline uint8_t ur_write_opcode(const struct ur_send_wqe *wqe, bool first, bool last)
{
	if (!last)
		return first ? UR_RC_WRITE_FIRST : UR_RC_WRITE_MIDDLE;
	if (wqe->opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
		return first ? UR_RC_WRITE_ONLY_IMM : UR_RC_WRITE_LAST_IMM;
	return first ? UR_RC_WRITE_ONLY : UR_RC_WRITE_LAST;
}

#endif
