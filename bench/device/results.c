#include "results.h"

#include <string.h>

#include "median.h"

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
