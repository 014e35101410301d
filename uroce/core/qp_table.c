#include "qp_table.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/random.h>

#include "device.h"

#define FIRST_QP 2
#define LAST_QP  (UINT16_MAX - 1)
#define PLACES   (UINT16_MAX + 1)

static uint16_t after(uint16_t index)
{
	return index == LAST_QP ? FIRST_QP : (uint16_t)(index + 1);
}

/* At a random number: peers may still know those of a process that had this one's place before. */
static bool begin(struct ur_qp_table *table)
{
	if (table->entries)
		return true;
	table->entries = calloc(PLACES, sizeof(*table->entries));
	/* Without random numbers it begins where it happens to. */
	if (getrandom(&table->next, sizeof(table->next), GRND_NONBLOCK) < 0 ||
	    table->next < FIRST_QP || table->next > LAST_QP)
		table->next = FIRST_QP;
	return table->entries;
}

uint16_t ur_qp_table_add(struct ur_qp_table *table, struct ur_qp *qp)
{
	uint16_t index;

	if (!begin(table) || table->count == UR_MAX_QPS)
		return 0;
	index = table->next;
	while (table->entries[index])
		index = after(index);
	table->entries[index] = qp;
	table->count++;
	table->next = after(index);
	return index;
}

void ur_qp_table_remove(struct ur_qp_table *table, uint16_t index)
{
	table->entries[index] = NULL;
	table->count--;
}

struct ur_qp *ur_qp_table_find(const struct ur_qp_table *table, uint16_t index)
{
	return table->entries ? table->entries[index] : NULL;
}

void ur_qp_table_free(struct ur_qp_table *table)
{
	free(table->entries);
	*table = (struct ur_qp_table){ 0 };
}
