#include "core_surroundings.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../../../uroce/core/engine.h"

struct fake_engine engine;
struct core core;

/* ---- The engine ---- */

int ur_engine_start(struct ur_device *device)
{
	(void)device;
	engine.starts++;
	return engine.start_error;
}

void ur_engine_stop(struct ur_device *device)
{
	(void)device;
	engine.stops++;
}

void ur_engine_poll(struct ur_device *device)
{
	/* It can take the lock. */
	assert_int_equal(pthread_mutex_lock(&device->lock), 0);
	pthread_mutex_unlock(&device->lock);
	engine.polls++;
	if (engine.on_poll)
		engine.on_poll();
}

void ur_engine_hand_over(struct ur_device *device)
{
	assert_int_equal(pthread_mutex_lock(&device->lock), 0);
	pthread_mutex_unlock(&device->lock);
	engine.hand_overs++;
}

void ur_engine_at_exit(struct ur_device *device)
{
	(void)device;
	engine.exits++;
}

void ur_engine_flush(struct ur_device *device)
{
	(void)device;
}

void ur_engine_set_timer(struct ur_device *device, struct ur_qp *qp, uint64_t deadline)
{
	(void)device;
	(void)qp;
	(void)deadline;
}

void ur_engine_schedule(struct ur_device *device, struct ur_qp *qp)
{
	(void)device;
	(void)qp;
}

void ur_engine_forget(struct ur_device *device, struct ur_qp *qp)
{
	(void)device;
	(void)qp;
}

/* Tests call the objects' functions, not the exported ones. */
void ur_context_set_ops(struct verbs_context *verbs)
{
	(void)verbs;
}

/* ---- Objects ---- */

int core_set_up(void **state)
{
	(void)state;
	memset(&engine, 0, sizeof(engine));
	memset(&core, 0, sizeof(core));
	strcpy(core.device.verbs.name, "uroce_test");
	core.device.gid_count = 1;
	pthread_mutex_init(&core.device.lock, NULL);
	core.context = ur_context_open(&core.device);
	core.pd = core.context ? ur_pd_alloc(core.context) : NULL;
	return core.pd ? 0 : -1;
}

int core_tear_down(void **state)
{
	(void)state;
	return ur_pd_dealloc(core.pd) == 0 && ur_context_close(core.context) == 0 &&
			       pthread_mutex_destroy(&core.device.lock) == 0
		       ? 0
		       : -1;
}

void set_non_blocking(int fd)
{
	assert_int_equal(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK), 0);
}

void assert_readable(int fd, bool readable)
{
	struct pollfd poll_fd = { .fd = fd, .events = POLLIN };

	assert_int_equal(poll(&poll_fd, 1, 0), readable);
}

void assert_event(enum ibv_event_type type, const void *element)
{
	struct ibv_async_event event;

	assert_readable(core.context->verbs.context.async_fd, true);
	assert_int_equal(ur_async_get(core.context, &event), 0);
	assert_int_equal(event.event_type, type);
	assert_ptr_equal(event.element.cq, element);
	ur_async_acknowledge(core.context, &event);
}

void assert_no_event(void)
{
	assert_readable(core.context->verbs.context.async_fd, false);
}

/* ---- Threads ---- */

static void *run(void *argument)
{
	struct sleeper *sleeper = argument;

	sleeper->id = gettid();
	sleeper->work();
	sleeper->finished = true;
	return NULL;
}

void sleeper_start(struct sleeper *sleeper, void (*work)(void))
{
	*sleeper = (struct sleeper){ .work = work };
	assert_int_equal(pthread_create(&sleeper->thread, NULL, run, sleeper), 0);
}

/* One letter behind the name in parentheses: R, S, …. */
static char state_of(int id)
{
	char path[64], line[256];
	const char *end;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", id);
	file = fopen(path, "r");
	if (!file)
		return '?';
	assert_non_null(fgets(line, sizeof(line), file));
	fclose(file);
	end = strrchr(line, ')');
	assert_non_null(end);
	return end[2];
}

void assert_sleeps(const struct sleeper *sleeper)
{
	while (sleeper->id == 0 || state_of(sleeper->id) != 'S') {
		assert_false(sleeper->finished);
		sched_yield();
	}
}

void sleeper_join(struct sleeper *sleeper)
{
	assert_int_equal(pthread_join(sleeper->thread, NULL), 0);
}
