#include "timed_lock.h"

#include <time.h>

#include "clock.h"

#define NS_PER_S 1000000000L

bool ur_lock_for(pthread_mutex_t *lock, unsigned ms)
{
	struct timespec end;

	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += ms / 1000;
	end.tv_nsec += (long)(ms % 1000 * UR_NS_PER_MS);
	end.tv_sec += end.tv_nsec / NS_PER_S;
	end.tv_nsec %= NS_PER_S;
	return pthread_mutex_timedlock(lock, &end) == 0;
}
