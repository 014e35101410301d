#define LOG_MODULE "processor"

#include "processor.h"

#include <sched.h>

#include "log.h"

/* CPU_SETSIZE: there are not that many. */
static size_t find(const cpu_set_t *allowed, unsigned index)
{
	for (size_t processor = 0; processor < CPU_SETSIZE; processor++)
		if (CPU_ISSET(processor, allowed) && index-- == 0)
			return processor;
	return CPU_SETSIZE;
}

void processor_bind(unsigned index)
{
	cpu_set_t allowed, chosen;
	size_t processor;

	if (sched_getaffinity(0, sizeof(allowed), &allowed) < 0) {
		LOG_WARNING("sched_getaffinity() failed: the processes are not bound");
		return;
	}
	processor = find(&allowed, index);
	if (processor == CPU_SETSIZE) {
		LOG_WARNING(
			"both processes share one processor: figures of ping-pong and send are the scheduler's");
		return;
	}
	CPU_ZERO(&chosen);
	CPU_SET(processor, &chosen);
	if (sched_setaffinity(0, sizeof(chosen), &chosen) < 0)
		LOG_WARNING("sched_setaffinity(processor %zu) failed: the process is not bound",
			    processor);
}
