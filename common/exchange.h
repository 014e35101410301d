/*
 * Exchange: publishes this side's descriptor lines and collects the peer's.
 *
 * Publishing prints the lines, for a person to copy, and writes them to files. Collecting takes
 * whichever comes first: lines on standard input, in any order, or the files appearing. The files
 * are removed when the exchange is destroyed.
 */
#ifndef RS_EXCHANGE_H
#define RS_EXCHANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "descriptor.h"
#include "input.h"
#include "status.h"

struct rs_exchange;

/*
 * The programs whose connection descriptors are taken; one without a name
 * (RS_DESCRIPTOR_NO_NAME) is taken, too.
 */
struct rs_exchange_peer {
	const char *name; /* the one that this program works with; for the prompts, too */
	/*
	 * One that belongs to another pair but can be connected with; it is taken with a warning.
	 * NULL: none.
	 */
	const char *stranger;
};

/* What is said of that one, whose name it takes. */
#define RS_EXCHANGE_STRANGER_WARNING                                                           \
	"the peer is %s, which belongs to another pair than this program: connecting all the " \
	"same, but what arrives will not be what is expected"

/* Lines of one kind, and the file that they stand in. */
struct rs_exchange_item {
	enum rs_descriptor_kind kind;
	const char *path;
	/*
	 * Collecting: the file counts only while its writer runs (it holds a lock on it), and only
	 * if it is this user's. For paths that nobody named: there a file of an earlier run, or a
	 * stranger's, may lie.
	 */
	bool only_live;
	size_t count; /* lines */
	/*
	 * count of them: to publish, or collected. Those of connections are in the order of their
	 * numbers, whatever order they came in.
	 */
	char (*lines)[RS_DESCRIPTOR_LINE_SIZE];
};

/*
 * out: where lines are printed. cancel_fd: collecting ends when it becomes readable (it is not
 * read); -1: never. peer's texts, input, out, cancel_fd stay the caller's. The caller destroys the
 * exchange.
 */
enum rs_status rs_exchange_create(const struct rs_exchange_peer *peer, struct rs_input *input,
				  FILE *out, int cancel_fd, struct rs_exchange **exchange);

/* Removes the files that it wrote, if they are still those. NULL is allowed. */
void rs_exchange_destroy(struct rs_exchange *exchange);

/*
 * Prints and writes the items' lines. A file has mode 0600, is written aside and renamed, and never
 * follows a symbolic link. Each item has a file of its own. Failures are logged with the path and
 * what to do.
 */
enum rs_status rs_exchange_publish(struct rs_exchange *exchange,
				   const struct rs_exchange_item *items, size_t count);

/*
 * Waits until all lines of the items are there; of connections those with the numbers 0 to count
 * - 1. timeout: seconds, 0: none. A bad line that a person pasted is reported and asked for again;
 * anywhere else it ends the collecting. A file that is bad gets a second to be finished, and is
 * bad, too, if it goes away meanwhile. RS_ERR_TIMED_OUT (the log says what is missing),
 * RS_ERR_INTERRUPTED (cancel_fd), RS_ERR_BAD_DESCRIPTOR, RS_ERR_IO, RS_ERR_NOT_PERMITTED.
 */
enum rs_status rs_exchange_collect(struct rs_exchange *exchange, struct rs_exchange_item *items,
				   size_t count, unsigned timeout);

#endif
