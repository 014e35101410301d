#define LOG_MODULE "sync_event"

#include "sync_event.h"

#include <poll.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "access.h"
#include "backoff.h"
#include "clock.h"
#include "descriptor.h"
#include "log.h"

#define CACHE_LINE  64
#define NO_DEADLINE INT64_MAX

/*
 * The device changes the counter without the compiler and this program knowing of it, hence atomic
 * accesses, each of which really reads or writes. 8 aligned bytes are never torn by the CPU, nor
 * by any device that we know of. Whoever sees a value must see what was written before it: get acquires, so
 * that the data which the peer wrote ahead of the value is not read too early; set and add release.
 *
 * The counter has a cache line of its own: a look at it waits for no other data.
 */
struct rs_sync_event {
	alignas(CACHE_LINE) _Atomic uint64_t counter;
	alignas(CACHE_LINE) struct rs_device *device;
	struct ibv_mr *mr;
	char line[RS_DESCRIPTOR_LINE_SIZE];
};

struct rs_sync_event_remote {
	uint64_t address;
	uint32_t key;
};

static enum rs_status register_counter(struct rs_sync_event *event)
{
	const struct rs_device_info *info = rs_device_info(event->device);
	unsigned access =
		RS_ACCESS_LOCAL_READ_WRITE | RS_ACCESS_REMOTE_READ | RS_ACCESS_REMOTE_WRITE;

	if (rs_device_supports(info, RS_OP_FETCH_AND_ADD))
		access |= RS_ACCESS_REMOTE_ATOMIC;
	event->mr = ibv_reg_mr(rs_device_pd(event->device), &event->counter, sizeof(event->counter),
			       access);
	if (!event->mr)
		return LOG_FAILED_CALL(errno, NULL,
				       "ibv_reg_mr(%s, address %p, %zu bytes, access 0x%x)",
				       info->name, (void *)&event->counter, sizeof(event->counter),
				       access);
	return RS_OK;
}

static void export(struct rs_sync_event *event)
{
	struct rs_descriptor descriptor = {
		.kind = RS_DESCRIPTOR_EVENT,
		.time = rs_descriptor_now(),
		.event = { .addr = (uintptr_t)&event->counter, .rkey = event->mr->rkey },
	};

	rs_descriptor_format(&descriptor, event->line);
}

enum rs_status rs_sync_event_create(struct rs_device *device, struct rs_sync_event **event)
{
	struct rs_sync_event *created = aligned_alloc(CACHE_LINE, sizeof(*created));
	enum rs_status status;

	if (!created)
		return RS_ERR_NO_MEMORY;
	*created = (struct rs_sync_event){ .device = device };
	status = register_counter(created);
	if (status != RS_OK) {
		free(created);
		return status;
	}
	rs_device_hold(device);
	export(created);
	*event = created;
	return RS_OK;
}

enum rs_status rs_sync_event_destroy(struct rs_sync_event *event)
{
	enum rs_status status = RS_OK;
	int error;

	if (!event)
		return RS_OK;
	error = ibv_dereg_mr(event->mr);
	if (error)
		status = LOG_FAILED_CALL(error, NULL, "ibv_dereg_mr(%s)",
					 rs_device_info(event->device)->name);
	rs_device_release(event->device);
	free(event);
	return status;
}

const char *rs_sync_event_export(const struct rs_sync_event *event)
{
	return event->line;
}

void rs_sync_event_set(struct rs_sync_event *event, uint64_t value)
{
	atomic_store_explicit(&event->counter, value, memory_order_release);
}

uint64_t rs_sync_event_add(struct rs_sync_event *event, uint64_t increment)
{
	return atomic_fetch_add_explicit(&event->counter, increment, memory_order_acq_rel);
}

uint64_t rs_sync_event_get(const struct rs_sync_event *event)
{
	return atomic_load_explicit(&event->counter, memory_order_acquire);
}

/* Tells the processor that this is a loop of looks, so that its core's other thread gets on. */
static void spin(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

/*
 * RS_IN_PROGRESS: it is time for the next look. A cancelled wait says so even if the time is over,
 * too. No pause lasts beyond the deadline: if it is not over, a millisecond is left, and the longest
 * pause is one.
 */
static enum rs_status sleep_for(unsigned pause_us, int64_t deadline, int cancel_fd)
{
	struct pollfd cancel = { .fd = cancel_fd, .events = POLLIN };
	bool is_over = rs_clock_ms() >= deadline;
	struct timespec pause = { .tv_nsec = is_over ? 0 : (long)pause_us * 1000 };
	int ready = ppoll(&cancel, 1, &pause, NULL);

	if (ready > 0)
		return RS_ERR_INTERRUPTED;
	if (ready < 0 && errno != EINTR)
		return LOG_FAILED_SYSTEM_CALL(errno, "ppoll()");
	return is_over ? RS_ERR_TIMED_OUT : RS_IN_PROGRESS;
}

enum rs_status rs_sync_event_wait_gt(struct rs_sync_event *event, uint64_t threshold, uint64_t mask,
				     int timeout, int cancel_fd, uint64_t *value)
{
	int64_t deadline = timeout < 0 ? NO_DEADLINE : rs_clock_ms() + timeout;
	struct rs_backoff backoff = { 0 };
	enum rs_status status;
	uint64_t seen;

	do {
		unsigned pause = rs_backoff_next(&backoff);

		seen = rs_sync_event_get(event);
		if ((seen & mask) > threshold) {
			status = RS_OK;
		} else if (pause == 0 && timeout != 0) {
			spin();
			status = RS_IN_PROGRESS;
		} else {
			status = sleep_for(pause, deadline, cancel_fd);
		}
	} while (status == RS_IN_PROGRESS);
	if (value)
		*value = seen;
	return status;
}

enum rs_status rs_sync_event_remote_create_from_export(const char *line,
						       struct rs_sync_event_remote **event)
{
	struct rs_descriptor descriptor;
	enum rs_status status = rs_descriptor_read(line, RS_DESCRIPTOR_EVENT, &descriptor);

	if (status != RS_OK)
		return status;
	*event = malloc(sizeof(**event));
	if (!*event)
		return RS_ERR_NO_MEMORY;
	**event = (struct rs_sync_event_remote){ .address = descriptor.event.addr,
						 .key = (uint32_t)descriptor.event.rkey };
	return RS_OK;
}

void rs_sync_event_remote_destroy(struct rs_sync_event_remote *event)
{
	free(event);
}

uint64_t rs_sync_event_remote_address(const struct rs_sync_event_remote *event)
{
	return event->address;
}

uint32_t rs_sync_event_remote_key(const struct rs_sync_event_remote *event)
{
	return event->key;
}
