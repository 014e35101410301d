/*
 * Sync event: a 64-bit counter that programs on both sides of a connection set, add to, read and
 * wait for.
 *
 * The local event is where the counter lies: memory registered with one device, so that the peer
 * can work on it without this side's CPU. The remote event is made from the line that the peer
 * exported; the tasks on it are in task.h (rs_task_alloc_event_get, _set, _add).
 *
 * A change by the peer's device and one by this side's CPU at the same time: sets win in some
 * order. Adds are counted both only if the device's atomics are atomic for the CPU, too
 * (IBV_ATOMIC_GLOB); with IBV_ATOMIC_HCA let only one of the two sides add.
 */
#ifndef RS_SYNC_EVENT_H
#define RS_SYNC_EVENT_H

#include <stdint.h>

#include "device.h"
#include "status.h"

struct rs_sync_event;
struct rs_sync_event_remote;

/*
 * A local event of value 0, registered with device for remote read, write and, where the device has
 * them, atomics. The device is held until the event is destroyed. The caller destroys it.
 */
enum rs_status rs_sync_event_create(struct rs_device *device, struct rs_sync_event **event);

/* NULL is allowed. */
enum rs_status rs_sync_event_destroy(struct rs_sync_event *event);

/*
 * The descriptor line (see descriptor.h) with which the peer reaches the event. It stays the
 * event's, valid until that is destroyed.
 */
const char *rs_sync_event_export(const struct rs_sync_event *event);

/* From any thread. What was written before set or add is seen by whoever sees the new value. */
void rs_sync_event_set(struct rs_sync_event *event, uint64_t value);

/* Returns the value from before. It wraps around. */
uint64_t rs_sync_event_add(struct rs_sync_event *event, uint64_t increment);

uint64_t rs_sync_event_get(const struct rs_sync_event *event);

/*
 * Waits until (value & mask) > threshold: spins briefly, then sleeps between looks, since a device
 * that writes to memory wakes nobody. value: the one that was seen last, also when it fails; NULL
 * is allowed. timeout: milliseconds; -1: none; 0: one look. cancel_fd: the wait ends when it
 * becomes readable (it is not read); -1: never.
 * RS_ERR_TIMED_OUT, RS_ERR_INTERRUPTED (cancel_fd), RS_ERR_IO.
 */
enum rs_status rs_sync_event_wait_gt(struct rs_sync_event *event, uint64_t threshold, uint64_t mask,
				     int timeout, int cancel_fd, uint64_t *value);

/*
 * A remote event from the line that the peer exported; the caller destroys it when no task refers
 * to it. RS_ERR_BAD_DESCRIPTOR: damaged, or not an event's; the log has the reason.
 */
enum rs_status rs_sync_event_remote_create_from_export(const char *line,
						       struct rs_sync_event_remote **event);

/* NULL is allowed. */
void rs_sync_event_remote_destroy(struct rs_sync_event_remote *event);

/* For tasks: where it is, and the key to it. */
uint64_t rs_sync_event_remote_address(const struct rs_sync_event_remote *event);
uint32_t rs_sync_event_remote_key(const struct rs_sync_event_remote *event);

#endif
