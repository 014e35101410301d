#include "key_table.h"

#include <errno.h>
#include <stdlib.h>

#include "device.h"

#define FIRST_CAPACITY 64

/* Behind the other free places, so that a key is valid again as late as can be. */
void ur_key_table_remove(struct ur_key_table *table, uint32_t index)
{
	struct ur_key_place *place = &table->places[index];

	place->mr = NULL;
	place->mw = NULL;
	place->generation = ur_key_next_generation(place->generation);
	if (table->used == table->capacity)
		table->first_free = index;
	else
		table->places[table->last_free].next_free = index;
	table->last_free = index;
	table->used--;
}

/* Only when no place is free. */
static int grow(struct ur_key_table *table)
{
	uint32_t old = table->capacity;
	uint32_t capacity = old ? 2 * old : FIRST_CAPACITY;
	struct ur_key_place *places;

	if (capacity > UR_MAX_KEYS)
		return ENOMEM;
	places = realloc(table->places, capacity * sizeof(*places));
	if (!places)
		return ENOMEM;
	table->places = places;
	table->capacity = capacity;
	table->used = capacity;
	for (uint32_t i = old; i < capacity; i++) {
		places[i].generation = 0;
		ur_key_table_remove(table, i);
	}
	return 0;
}

int ur_key_table_add(struct ur_key_table *table, struct ur_mr *mr, struct ur_mw *mw,
		     uint32_t *index)
{
	struct ur_key_place *place;

	if (table->used == table->capacity && grow(table) != 0)
		return ENOMEM;
	*index = table->first_free;
	place = &table->places[*index];
	table->first_free = place->next_free;
	table->used++;
	place->mr = mr;
	place->mw = mw;
	return 0;
}

void ur_key_table_free(struct ur_key_table *table)
{
	free(table->places);
	*table = (struct ur_key_table){ 0 };
}
