/*
 * Packet sequence numbers: 24 bits, in a circle.
 */
#ifndef UR_PSN_H
#define UR_PSN_H

#include <stdint.h>

#include "../wire/packet.h"

static inline uint32_t ur_psn_add(uint32_t psn, uint32_t count)
{
	return (psn + count) & UR_24_BITS;
}

/* How far one is ahead of the other; negative: behind. */
static inline int32_t ur_psn_diff(uint32_t ahead, uint32_t behind)
{
	return (int32_t)((ahead - behind) << 8) >> 8;
}

#endif
