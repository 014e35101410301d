/*
 * What the program prints: a table, or one JSON object.
 */
#ifndef REPORT_H
#define REPORT_H

#include "endpoint.h"
#include "results.h"

/* endpoint: of the device, if it was measured. */
enum rs_status report(const struct endpoint *endpoint, const struct arguments *arguments,
		      const struct results *results);

#endif
