#include "results.h"

#include <stdlib.h>
#include <string.h>

static int compare(const void *a, const void *b)
{
	double left = *(const double *)a, right = *(const double *)b;

	return (left > right) - (left < right);
}

/* Sorts values. */
static double median(double *values, unsigned count)
{
	qsort(values, count, sizeof(*values), compare);
	return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

struct figures results_figures(const struct results *results, enum row_id id)
{
	double values[MAX_ROUNDS];
	struct figures figures;

	memcpy(values, results->values[id], sizeof(values));
	figures.median = median(values, results->rounds);
	figures.min = values[0];
	figures.max = values[results->rounds - 1];
	return figures;
}

double results_ratio(const struct results *results, enum row_id id, enum row_id other)
{
	double ratios[MAX_ROUNDS];

	if (results->outcomes[id] != OUTCOME_MEASURED ||
	    results->outcomes[other] != OUTCOME_MEASURED)
		return 0;
	for (unsigned round = 0; round < results->rounds; round++)
		ratios[round] = results->values[id][round] / results->values[other][round];
	return median(ratios, results->rounds);
}
