/*
 * Event channel: where a program reads the events of its ids. Each event is of a source, an id,
 * which is on one channel at a time.
 *
 * One lock guards all channels, sources and events; under it nothing else is locked.
 */
#ifndef UR_EVENT_CHANNEL_H
#define UR_EVENT_CHANNEL_H

#include <rdma/rdma_cma.h>
#include <stdbool.h>

#include "../wire/cm_message.h"

struct ur_event_channel {
	struct rdma_event_channel
		verbs;    /* first; fd: an event descriptor, -1 once the program has closed it */
	unsigned holders; /* the program, or the source whose own it is, and the other sources */
	struct ur_event *first, *last; /* those that were not read yet */
};

/* What events are of. */
struct ur_event_source {
	struct ur_event_channel *channel;
	bool owns_channel; /* it is the source's own: the calls of a synchronous id wait there */
	unsigned unacknowledged; /* events that were read */
	unsigned process;        /* that it was made by, see channel.c */
};

struct ur_event {
	struct rdma_cm_event verbs; /* first; param's private data points to the copy */
	struct ur_event_source *source;
	struct ur_event *next;
	uint8_t private_data[UR_CM_MAX_PRIVATE];
};

/* ---- Channels ---- */

/* NULL and errno. */
struct ur_event_channel *ur_event_channel_open(void);
/* It ends with the last source on it; until then it takes no more events. */
void ur_event_channel_close(struct ur_event_channel *channel);

/* ---- Sources ---- */

/* channel NULL: one of its own. Returns 0 or an errno. */
int ur_event_source_init(struct ur_event_source *source, struct ur_event_channel *channel);
/* On the channel that another one is on. */
void ur_event_source_join(struct ur_event_source *source, const struct ur_event_source *other);
/* It has no events any more, read or unread. */
void ur_event_source_end(struct ur_event_source *source);

/*
 * Moves a source, and its events that were not read, to a channel (NULL: one of its own), and waits
 * until those that were read are acknowledged. Returns 0 or an errno.
 */
int ur_event_source_move(struct ur_event_source *source, struct ur_event_channel *channel);

/* Takes back an event that was not read; the caller frees it. NULL: there is none. */
struct ur_event *ur_event_withdraw(struct ur_event_source *source);

/*
 * Waits until the events that were read are acknowledged. In a child, for nothing that its parent
 * has read.
 */
void ur_event_wait_acknowledged(struct ur_event_source *source);

bool ur_event_is_waiting(const struct ur_event_source *source);

/* ---- Events ---- */

/* Zeros but for the type. NULL: no memory. */
struct ur_event *ur_event_create(enum rdma_cm_event_type type);

/*
 * The event is the channel's from now on. False: the program has closed it, and the event is the
 * caller's.
 */
bool ur_event_post(struct ur_event_source *source, struct ur_event *event);

/* Waits for an event unless the channel's descriptor is non-blocking. NULL and errno. */
struct ur_event *ur_event_read(struct ur_event_channel *channel);

/* Frees an event that was read. Its source may be gone when this returns. */
void ur_event_acknowledge(struct ur_event *event);

#endif
