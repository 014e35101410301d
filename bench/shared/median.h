/*
 * Median.
 */
#ifndef MEDIAN_H
#define MEDIAN_H

/* Sorts values; count is at least 1. */
double median(double *values, unsigned count);

#endif
