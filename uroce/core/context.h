/*
 * Context: a device opened by a program, with its asynchronous events.
 */
#ifndef UR_CONTEXT_H
#define UR_CONTEXT_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "device.h"

/* An event that waits to be read. Stands in the object it is of, so that none can be lost. */
struct ur_async_event {
	struct ibv_async_event event;
	struct ur_async_event *next;
	bool queued;
	unsigned unacknowledged; /* how often it was read and not acknowledged yet */
};

struct ur_context {
	struct verbs_context verbs;
	struct ur_device *device;

	/* Guards the events and the counts of those that were acknowledged. */
	pthread_mutex_t lock;
	pthread_cond_t acknowledged;
	struct ur_async_event *first_event;
	struct ur_async_event *last_event;
	/* Objects that hold it: the context cannot be closed before them. */
	atomic_uint objects;
};

static inline struct ur_context *ur_context_of(const struct ibv_context *context)
{
	return (struct ur_context *)((char *)(uintptr_t)context -
				     offsetof(struct ur_context, verbs.context));
}

/* Fills in the operations that verbs call through the context's tables; in api/. */
void ur_context_set_ops(struct verbs_context *verbs);

/* NULL and errno on failure. */
struct ur_context *ur_context_open(struct ur_device *device);
/*
 * ibv_import_device: another context of the device that cmd_fd, a duplicate of an open context's, is of. It
 * owns the descriptor then. NULL and errno: EOPNOTSUPP (of another process), ENODEV (it is not open any
 * more), and as above.
 */
struct ur_context *ur_context_import(int cmd_fd);
/* Returns 0, or EBUSY while objects are left. */
int ur_context_close(struct ur_context *context);
/*
 * For a program that closes a context though objects are left, as verbs allow: its queue pairs are
 * reset, so that no peer reaches the memory any more. All else stays until the process ends.
 */
void ur_context_abandon(struct ur_context *context);

/*
 * Queues an event (of the object that embeds it) and makes async_fd readable. Does nothing if it is
 * queued already. Any thread, any lock held but the context's.
 */
void ur_async_raise(struct ur_context *context, struct ur_async_event *event);

/*
 * Takes back an event that the program has not read, and waits until it has acknowledged what it
 * read. Called before the object goes, without any lock.
 */
void ur_async_withdraw(struct ur_context *context, struct ur_async_event *event);

/* Reads one; waits for it unless async_fd is non-blocking. Returns 0, or -1 and errno. */
int ur_async_get(struct ur_context *context, struct ibv_async_event *event);

/* ibv_ack_async_event, for an event of an object of this context. */
void ur_async_acknowledge(struct ur_context *context, const struct ibv_async_event *event);

#endif
