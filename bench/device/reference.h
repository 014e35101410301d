/*
 * A program that measures something itself, to compare the device with: the command lines of its
 * two sides, and its output.
 */
#ifndef REFERENCE_H
#define REFERENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "program.h"
#include "row.h"

struct reference {
	/* Whether it is told how many messages to send, or for how long. */
	bool counts;
	void (*server_command)(uint16_t port, struct command *command);
	void (*client_command)(const struct row *row, uint16_t port, uint64_t count, double seconds,
			       struct command *command);
	/* What the client's output says, in the row's unit. False: it says nothing. */
	bool (*parse)(const struct row *row, const char *output, double *value);
};

extern const struct reference iperf3_reference;
extern const struct reference ucx_reference;

/* Of a row that is not this program's own. */
static inline const struct reference *reference_of(enum row_id id)
{
	return rows[id].source == SOURCE_IPERF3 ? &iperf3_reference : &ucx_reference;
}

#endif
