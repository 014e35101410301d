#define LOG_MODULE "memory"

#include "memory.h"

#include <stdlib.h>
#include <string.h>

#include "log.h"

#define PAGE_SIZE 4096

/* Of a slot in the parts for writes and reads, the largest. */
#define LARGEST_SIZE 65536

#define PART_LENGTH ((size_t)MAX_DEPTH * LARGEST_SIZE)

/* Any odd numbers without regularity will do. */
#define SEED_FACTOR 0x9e3779b97f4a7c15
#define WORD_FACTOR 0xc2b2ae3d27d4eb4f

enum rs_status memory_create(struct memory *memory)
{
	size_t receive_length = RECEIVES * operations[OPERATION_SEND].size;
	size_t length = 2 * PART_LENGTH + receive_length;
	void *base;

	length = (length + PAGE_SIZE - 1) / PAGE_SIZE * PAGE_SIZE;
	base = aligned_alloc(PAGE_SIZE, length);
	if (!base)
		return RS_ERR_NO_MEMORY;
	memset(base, 0, length);
	*memory = (struct memory){ .base = base, .length = length };
	return RS_OK;
}

void memory_destroy(struct memory *memory)
{
	free(memory->base);
	memory->base = NULL;
}

size_t memory_offset(enum memory_part part, unsigned slot, size_t size)
{
	return (size_t)part * PART_LENGTH + slot * size;
}

static uint64_t word_of(uint64_t seed, size_t index)
{
	return (seed + 1) * SEED_FACTOR + index * WORD_FACTOR;
}

void memory_fill(struct memory *memory, enum memory_part part, unsigned slots, size_t size,
		 uint64_t seed)
{
	for (unsigned slot = 0; slot < slots; slot++) {
		char *at = memory->base + memory_offset(part, slot, size);

		for (size_t i = 0; i < size / sizeof(uint64_t); i++) {
			uint64_t word = word_of(seed, i);

			memcpy(at + i * sizeof(word), &word, sizeof(word));
		}
	}
}

void memory_clear(struct memory *memory, enum memory_part part, unsigned slots, size_t size)
{
	memset(memory->base + memory_offset(part, 0, size), 0, slots * size);
}

static bool holds_pattern(const char *at, size_t size, uint64_t seed)
{
	for (size_t i = 0; i < size / sizeof(uint64_t); i++) {
		uint64_t word = word_of(seed, i);

		if (memcmp(at + i * sizeof(word), &word, sizeof(word)) != 0)
			return false;
	}
	return true;
}

static bool is_clear(const char *at, size_t size)
{
	for (size_t i = 0; i < size; i++)
		if (at[i] != 0)
			return false;
	return true;
}

enum rs_status memory_check(const struct memory *memory, enum memory_part part, unsigned slots,
			    size_t size, uint64_t seed, uint64_t expected)
{
	uint64_t found = 0;

	for (unsigned slot = 0; slot < slots; slot++) {
		const char *at = memory->base + memory_offset(part, slot, size);

		if (holds_pattern(at, size, seed)) {
			found++;
		} else if (!is_clear(at, size)) {
			LOG_ERROR("slot %u of %zu bytes holds wrong data", slot, size);
			return RS_ERR_BAD_DATA;
		}
	}
	if (found != expected) {
		LOG_ERROR("data arrived in %llu slots in place of %llu", (unsigned long long)found,
			  (unsigned long long)expected);
		return RS_ERR_BAD_DATA;
	}
	return RS_OK;
}
