/*
 * What objects of the core stand in: a device whose engine only notes what it is asked for, a
 * context and a protection domain; and threads that a test can see sleep.
 */
#ifndef CORE_SURROUNDINGS_H
#define CORE_SURROUNDINGS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../../../uroce/core/pd.h"

struct fake_engine {
	int start_error;
	unsigned starts;
	unsigned stops;
	unsigned polls;
	unsigned hand_overs;
	unsigned exits;
	/* Called, if set, when the engine is polled. */
	void (*on_poll)(void);
};

/* Zeros at the start of each test. */
extern struct fake_engine engine;

struct core {
	struct ur_device device;
	struct ur_context *context;
	struct ur_pd *pd;
};

extern struct core core;

/* Setup and teardown of a test; the latter fails if an object is left. */
int core_set_up(void **state);
int core_tear_down(void **state);

/* Takes the next asynchronous event, which must be there, and acknowledges it. */
void assert_event(enum ibv_event_type type, const void *element);
void assert_no_event(void);

/* Makes a descriptor non-blocking. */
void set_non_blocking(int fd);
void assert_readable(int fd, bool readable);

/* ---- Threads ---- */

struct sleeper {
	pthread_t thread;
	void (*work)(void);
	_Atomic int id;
	_Atomic bool finished;
};

void sleeper_start(struct sleeper *sleeper, void (*work)(void));
/* Waits until it sleeps in a system call; fails the test if it ends instead. */
void assert_sleeps(const struct sleeper *sleeper);
void sleeper_join(struct sleeper *sleeper);

#endif
