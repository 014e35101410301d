/*
 * Clock: nanoseconds of CLOCK_MONOTONIC.
 */
#ifndef UR_CLOCK_H
#define UR_CLOCK_H

#include <stdint.h>
#include <time.h>

#define UR_NEVER     UINT64_MAX
#define UR_NS_PER_MS UINT64_C(1000000)

static inline uint64_t ur_clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

#endif
