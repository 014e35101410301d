/*
 * Table of keys, of memory regions and memory windows: the upper 24 bits of a key are its place in the
 * table, the lower 8 change each time the place is used (and each time a window is bound).
 */
#ifndef UR_KEY_TABLE_H
#define UR_KEY_TABLE_H

#include <stddef.h>
#include <stdint.h>

struct ur_mr;
struct ur_mw;

#define UR_KEY_GENERATION_BITS 8
#define UR_KEY_GENERATION_MASK UINT32_C(0xff)

/* One of mr and mw; neither: it is free. */
struct ur_key_place {
	struct ur_mr *mr;
	struct ur_mw *mw;
	uint32_t next_free;
	uint8_t generation; /* the lower 8 bits of its key; not 0 when it is taken, so that no key is */
};

/* Guarded by the device's lock. */
struct ur_key_table {
	struct ur_key_place *places;
	uint32_t capacity;
	uint32_t used;
	/* Free places, in the order they became free: the first is used next. */
	uint32_t first_free;
	uint32_t last_free;
};

/* Takes a free place, for one of mr and mw. Returns 0 or ENOMEM. */
int ur_key_table_add(struct ur_key_table *table, struct ur_mr *mr, struct ur_mw *mw,
		     uint32_t *index);
void ur_key_table_remove(struct ur_key_table *table, uint32_t index);
void ur_key_table_free(struct ur_key_table *table);

/* The key of a place that is taken. */
static inline uint32_t ur_key_table_key(const struct ur_key_table *table, uint32_t index)
{
	return index << UR_KEY_GENERATION_BITS | table->places[index].generation;
}

/* The place of which that is the key now; NULL: none. */
static inline const struct ur_key_place *ur_key_table_find(const struct ur_key_table *table,
							   uint32_t key)
{
	uint32_t index = key >> UR_KEY_GENERATION_BITS;

	return index < table->capacity && ur_key_table_key(table, index) == key
		       ? &table->places[index]
		       : NULL;
}

/* The generation that follows another: not 0. */
static inline uint8_t ur_key_next_generation(uint32_t generation)
{
	return (uint8_t)(generation % UR_KEY_GENERATION_MASK + 1);
}

#endif
