/*
 * Monitor: follows one process through the soak. It prints a line now and then, keeps what the
 * process held when it was warm, and compares that with what it holds at the end.
 */
#ifndef MONITOR_H
#define MONITOR_H

#include <stdbool.h>
#include <stdint.h>

#include "gauge.h"
#include "status.h"

struct monitor {
	const char *name;  /* of the process */
	const char *units; /* what is counted */
	uint64_t warm_up;  /* units after which nothing may grow any more */
	int64_t period_ns; /* between two lines */
	int64_t start_ns;
	int64_t line_ns; /* of the last line */
	uint64_t line_units;
	bool is_warm;
	struct gauge warm;
};

/* Begins, and prints the first line. name and units stay the caller's. */
enum rs_status monitor_start(struct monitor *monitor, const char *name, const char *units,
			     uint64_t warm_up, unsigned period_seconds);

/* So many units are done, in all; called again and again while nothing is half done. */
enum rs_status monitor_look(struct monitor *monitor, uint64_t units);

/*
 * Compares what is held when all has settled with what was when it was warm; prints a line before and after that.
 * RS_ERR_FULL: something grew, or it was never warm.
 */
enum rs_status monitor_finish(struct monitor *monitor, uint64_t units);

#endif
