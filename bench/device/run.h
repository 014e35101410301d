/*
 * A run: one row, measured once.
 */
#ifndef RUN_H
#define RUN_H

#include <stdint.h>

#include "row.h"

struct run {
	enum row_id row; /* ROW_COUNT: there are no more runs */
	uint64_t count;  /* messages, ping-pongs, or calls; 0 where only the time counts */
	uint64_t seed;   /* of the data */
};

#endif
