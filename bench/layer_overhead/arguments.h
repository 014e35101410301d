/*
 * The command line.
 */
#ifndef ARGUMENTS_H
#define ARGUMENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "operation.h"

struct arguments {
	const char *device; /* NULL: the best one */
	int gid_index;      /* -1: the best one */
	unsigned rounds;
	double seconds;      /* of a round */
	uint64_t iterations; /* of a round; 0: as many as fill the seconds */
	bool sides[SIDE_COUNT];
	bool kinds[OPERATION_COUNT];
};

/* The most rounds that can be asked for. */
#define MAX_ROUNDS 999

/* False: end with *exit_status; --help is answered, or a message says what is wrong. */
bool arguments_parse(int argc, char **argv, struct arguments *arguments, int *exit_status);

#endif
