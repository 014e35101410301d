/*
 * Command line.
 */
#ifndef ARGUMENTS_H
#define ARGUMENTS_H

#include <stdbool.h>
#include <stdint.h>

struct arguments {
	const char *address;  /* of the device */
	uint64_t operations;  /* at least so many, on one connection; 0: until the time is over */
	uint64_t seconds;     /* 0: no limit */
	uint64_t connections; /* so many, one after the other; 0: one */
	unsigned period;      /* seconds between two lines */
};

/* False: the program ends with *exit_status. */
bool arguments_parse(int argc, char **argv, struct arguments *arguments, int *exit_status);

#endif
