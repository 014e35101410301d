/*
 * What was measured, and what it comes to.
 */
#ifndef RESULTS_H
#define RESULTS_H

#include "arguments.h"
#include "program.h"

struct results {
	unsigned rounds;
	/* By row; the first that is not OUTCOME_MEASURED stays. */
	enum outcome outcomes[ROW_COUNT];
	double values[ROW_COUNT][MAX_ROUNDS];
};

/* Median, smallest and largest round of a row, in its unit. */
struct figures {
	double median;
	double min;
	double max;
};

struct figures results_figures(const struct results *results, enum row_id id);

/*
 * The median of the rounds' own ratios: those of a round follow each other, so that what slows the
 * machine down for longer slows both. 0: one of the two was not measured.
 */
double results_ratio(const struct results *results, enum row_id id, enum row_id other);

#endif
