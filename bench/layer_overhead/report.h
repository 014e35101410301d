/*
 * What the program prints.
 */
#ifndef REPORT_H
#define REPORT_H

#include "arguments.h"
#include "bare.h"
#include "layer.h"

/* A row of the table: an operation with some number of requests in flight. */
struct row {
	enum operation_kind kind;
	unsigned depth;
	uint64_t count; /* of a round */
	double seconds[MAX_ROUNDS][SIDE_COUNT];
};

struct totals {
	uint64_t operations[SIDE_COUNT];
	uint64_t allocations[SIDE_COUNT];
	uint64_t setup_allocations; /* of the client, before the first run */
	unsigned rows;
	unsigned rows_met; /* that meet the goal */
};

void report_head(const struct layer *layer, const struct parameters *parameters,
		 const struct arguments *arguments);

/* Prints the row and counts it. */
void report_row(const struct row *row, const struct arguments *arguments, struct totals *totals);

void report_end(const struct totals *totals, const struct arguments *arguments);

#endif
