#include "qp_table.h"

#include <stddef.h>
#include <stdlib.h>

#include "device.h"

#define PLACES   (UINT16_MAX + 1)
#define FIRST_QP 2

static uint16_t after(uint16_t index)
{
	return index == UINT16_MAX ? FIRST_QP : (uint16_t)(index + 1);
}

uint16_t ur_qp_table_add(struct ur_qp_table *table, struct ur_qp *qp)
{
	uint16_t index = table->next < FIRST_QP ? FIRST_QP : table->next;

	if (!table->entries)
		table->entries = calloc(PLACES, sizeof(*table->entries));
	if (!table->entries || table->count == UR_MAX_QPS)
		return 0;
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
