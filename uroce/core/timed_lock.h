/*
 * To lock without waiting for ever: for the end of a process, where who holds the lock may be what
 * called exit.
 */
#ifndef UR_TIMED_LOCK_H
#define UR_TIMED_LOCK_H

#include <pthread.h>
#include <stdbool.h>

/* False: somebody has held it for so long. ms 0: does not wait. */
bool ur_lock_for(pthread_mutex_t *lock, unsigned ms);

#endif
