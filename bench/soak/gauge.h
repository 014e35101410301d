/*
 * Gauge: what this process holds at a moment, so that a leak shows as a difference.
 */
#ifndef GAUGE_H
#define GAUGE_H

#include <stddef.h>

#include "status.h"

struct gauge {
	size_t resident; /* bytes of memory; it grows when something is used for the first time */
	size_t data;     /* bytes mapped that can be written to and are no file's */
	size_t heap;     /* of these, what malloc has given out */
	size_t descriptors; /* open ones, but for the one that counts them */
	size_t sockets;     /* of these; uroce holds each port by one */
	size_t threads;
};

/* Source: man proc (status, fd, task), man mallinfo2. The log says why it failed. */
enum rs_status gauge_read(struct gauge *gauge);

/*
 * Reads until the heap has not become smaller for a second: a connection that has ended is
 * remembered for a moment, in case that a packet comes. *gauge: the least of each, since uroce opens a
 * socket for a moment now and then, to see whether UDP port 4791 is free.
 */
enum rs_status gauge_settle(struct gauge *gauge);

/*
 * What has grown from before to after: its name, or NULL. Heap and mapped memory may be a few
 * pages more; the numbers of descriptors, sockets and threads not one.
 */
const char *gauge_growth(const struct gauge *before, const struct gauge *after);

#endif
