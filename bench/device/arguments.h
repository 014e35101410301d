/*
 * The command line.
 */
#ifndef ARGUMENTS_H
#define ARGUMENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "row.h"

/* The most rounds that can be asked for. */
#define MAX_ROUNDS 99

struct arguments {
	const char *device; /* NULL: the best one */
	int gid_index;      /* -1: the best one */
	unsigned rounds;
	double seconds;      /* of each row in each round */
	uint64_t iterations; /* 0: as many as fill the seconds */
	bool with_device;
	bool with_peers;
	bool json;
};

/* Whether the row is to be measured. */
static inline bool is_wanted(const struct arguments *arguments, enum row_id id)
{
	return is_of_device(id) ? arguments->with_device : arguments->with_peers;
}

/* False: end with *exit_status; --help is answered, or a message says what is wrong. */
bool arguments_parse(int argc, char **argv, struct arguments *arguments, int *exit_status);

#endif
