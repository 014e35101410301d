#define LOG_MODULE "monitor"

#include "monitor.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "log.h"
#include "peer.h"

#define NS_PER_SECOND INT64_C(1000000000)
#define KIB           1024

static enum rs_status print_line(struct monitor *monitor, uint64_t units, const struct gauge *gauge)
{
	int64_t now = now_ns();
	int64_t ns = now - monitor->line_ns;

	printf("%s %8.1f s %12" PRIu64
	       " %s %9.0f /s; KiB: %zu resident, %zu data, %zu heap; %zu descriptors, %zu sockets, %zu threads\n",
	       monitor->name, (double)(now - monitor->start_ns) / (double)NS_PER_SECOND, units,
	       monitor->units,
	       ns > 0 ? (double)(units - monitor->line_units) * (double)NS_PER_SECOND / (double)ns
		      : 0,
	       gauge->resident / KIB, gauge->data / KIB, gauge->heap / KIB, gauge->descriptors,
	       gauge->sockets, gauge->threads);
	monitor->line_ns = now;
	monitor->line_units = units;
	return fflush(stdout) == 0 ? RS_OK : LOG_FAILED_SYSTEM_CALL(errno, "printing a line");
}

static enum rs_status look(struct monitor *monitor, uint64_t units)
{
	struct gauge gauge;
	enum rs_status status = gauge_read(&gauge);

	return status == RS_OK ? print_line(monitor, units, &gauge) : status;
}

enum rs_status monitor_start(struct monitor *monitor, const char *name, const char *units,
			     uint64_t warm_up, unsigned period_seconds)
{
	*monitor = (struct monitor){ .name = name,
				     .units = units,
				     .warm_up = warm_up,
				     .period_ns = (int64_t)period_seconds * NS_PER_SECOND,
				     .start_ns = now_ns() };
	monitor->line_ns = monitor->start_ns;
	return look(monitor, 0);
}

enum rs_status monitor_look(struct monitor *monitor, uint64_t units)
{
	if (!monitor->is_warm && units >= monitor->warm_up) {
		monitor->is_warm = true;
		return gauge_settle(&monitor->warm);
	}
	return now_ns() - monitor->line_ns >= monitor->period_ns ? look(monitor, units) : RS_OK;
}

enum rs_status monitor_finish(struct monitor *monitor, uint64_t units)
{
	const char *growth = "there was no warm-up";
	struct gauge settled;
	enum rs_status status = look(monitor, units);

	if (status == RS_OK)
		status = gauge_settle(&settled);
	if (status == RS_OK)
		status = print_line(monitor, units, &settled);
	if (status == RS_OK && monitor->is_warm)
		growth = gauge_growth(&monitor->warm, &settled);
	if (status != RS_OK || !growth)
		return status;
	LOG_ERROR("%s: not flat since %" PRIu64 " %s: %s", monitor->name, monitor->warm_up,
		  monitor->units, growth);
	return RS_ERR_FULL;
}
