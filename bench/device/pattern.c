#include "pattern.h"

/* Any odd numbers without regularity will do. */
#define SEED_FACTOR 0x9e3779b97f4a7c15
#define WORD_FACTOR 0xc2b2ae3d27d4eb4f

static uint64_t word_of(uint64_t seed, size_t index)
{
	return (seed + 1) * SEED_FACTOR + index * WORD_FACTOR;
}

void pattern_fill(void *memory, size_t size, uint64_t seed)
{
	uint64_t *words = memory;

	for (size_t i = 0; i < size / sizeof(*words); i++)
		words[i] = word_of(seed, i);
}

bool pattern_is(const void *memory, size_t size, uint64_t seed)
{
	const uint64_t *words = memory;

	for (size_t i = 0; i < size / sizeof(*words); i++)
		if (words[i] != word_of(seed, i))
			return false;
	return true;
}
