/*
 * The socket between the two processes: it carries what they must know of each other, and tells
 * when one of them has gone.
 */
#ifndef PEER_H
#define PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "status.h"

/* A polling loop looks after the peer once in so many polls that found nothing. */
#define POLLS_PER_LOOK 65536

struct peer {
	int fd;
	unsigned empty_polls; /* since something was found */
	int64_t waiting_since;
};

/* Whole messages of size bytes. RS_ERR_DISCONNECTED: the peer has gone. */
enum rs_status peer_send(struct peer *peer, const void *message, size_t size);
enum rs_status peer_receive(struct peer *peer, void *message, size_t size);

/* The same message from each side to the other. */
enum rs_status peer_exchange(struct peer *peer, const void *mine, void *theirs, size_t size);

/* RS_ERR_DISCONNECTED: the peer has gone; RS_ERR_TIMED_OUT: nothing was found for too long. */
enum rs_status peer_look(struct peer *peer);

/* For each poll in a loop that waits for completions. */
static inline enum rs_status peer_watch(struct peer *peer, size_t found)
{
	if (found > 0) {
		peer->empty_polls = 0;
		return RS_OK;
	}
	return ++peer->empty_polls % POLLS_PER_LOOK == 0 ? peer_look(peer) : RS_OK;
}

/* Nanoseconds of a clock that only goes forward. */
int64_t now_ns(void);

#endif
