/*
 * Credits: how many receives a responder has ready, coded in five bits of its acknowledgements
 * (InfiniBand specification volume 1, table 46): 0, 1, 2, 3, 4, 6, 8, 12, … 32768.
 */
#ifndef UR_CREDITS_H
#define UR_CREDITS_H

#include <stdint.h>

#include "../wire/packet.h"

#define UR_MAX_CREDIT_CODE 0x1e

static inline uint32_t ur_credits_decode(uint32_t code)
{
	if (code < 2)
		return code;
	return (code & 1 ? 3U : 2U) << (code / 2 - 1);
}

/* The largest code that promises no more than there is. */
static inline uint32_t ur_credits_encode(uint32_t receives)
{
	uint32_t code = 0;

	while (code < UR_MAX_CREDIT_CODE && ur_credits_decode(code + 1) <= receives)
		code++;
	return code;
}

#endif
