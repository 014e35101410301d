/*
 * Completion channel: its file descriptor (an eventfd that counts) is readable while there are
 * events.
 */
#ifndef UR_CHANNEL_H
#define UR_CHANNEL_H

#include "context.h"

struct ur_cq;

struct ur_channel {
	struct ibv_comp_channel verbs; /* first */
	pthread_mutex_t lock;
	struct ur_cq *first; /* with events that were not read yet, oldest first */
	struct ur_cq *last;
	atomic_uint queues; /* completion queues on it */
};

struct ur_channel *ur_channel_create(struct ur_context *context);
/* Returns 0, or EBUSY while completion queues are on it. */
int ur_channel_destroy(struct ur_channel *channel);

/* Adds an event of a queue; the queue's lock held. */
void ur_channel_signal(struct ur_channel *channel, struct ur_cq *cq);
/* Takes back a queue's events that were not read. */
void ur_channel_withdraw(struct ur_channel *channel, struct ur_cq *cq);
/*
 * Reads one event; waits for it unless the descriptor is non-blocking. Returns 0, or -1 and errno.
 */
int ur_channel_get(struct ur_channel *channel, struct ur_cq **cq);

#endif
