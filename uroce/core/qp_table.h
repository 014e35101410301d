/*
 * Queue pair numbers. 0 and 1 are the management queue pairs, and 0xffff is not used, since with
 * 0xff in front it would be the number of multicast groups; the others are handed out in turn, so
 * that a number is not used again soon, from a random one on.
 */
#ifndef UR_QP_TABLE_H
#define UR_QP_TABLE_H

#include <stdint.h>

struct ur_qp;

/* Guarded by the device's lock. */
struct ur_qp_table {
	struct ur_qp *
		*entries; /* by the lower 16 bits of the number; NULL until the first is added */
	uint32_t count;
	uint16_t next;
};

/* Gives qp the lowest bits of a number; returns them, or 0: no memory, or all are in use. */
uint16_t ur_qp_table_add(struct ur_qp_table *table, struct ur_qp *qp);
void ur_qp_table_remove(struct ur_qp_table *table, uint16_t index);
/* NULL: none. */
struct ur_qp *ur_qp_table_find(const struct ur_qp_table *table, uint16_t index);
void ur_qp_table_free(struct ur_qp_table *table);

#endif
