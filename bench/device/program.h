/*
 * Another program, run as a process of its own: a peer that the device is compared with.
 */
#ifndef PROGRAM_H
#define PROGRAM_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "status.h"

#define PROGRAM_OUTPUT_SIZE 65536

/* A command line: words that are ended by zeros, and a last NULL. */
struct command {
	char text[512];
	char *words[32];
};

/* What each begins with: what was preloaded into this process is not for others. */
#define COMMAND_PREFIX "env -u LD_PRELOAD "

/* Makes it of a text in which single spaces stand between the words. */
void command_format(struct command *command, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

enum outcome {
	OUTCOME_MEASURED,
	OUTCOME_NOT_WANTED,
	OUTCOME_NOT_INSTALLED,
	OUTCOME_FAILED,
	OUTCOME_TOO_SLOW
};

struct program {
	pid_t pid; /* 0: none */
	int output;
};

/*
 * Starts it, on the processors of this process. Its standard output is to be read; what it says of
 * errors is lost. RS_ERR_…: no process could be made.
 */
enum rs_status program_start(struct program *program, const struct command *command);

/* A TCP port of loopback that nobody uses. */
enum rs_status program_choose_port(uint16_t *port);

/* Waits until it listens on that TCP port; OUTCOME_MEASURED: it does. */
enum outcome program_await_listening(struct program *program, uint16_t port);

/* Reads what it prints, until it ends; output is terminated. Ends it if that takes too long. */
enum outcome program_read(struct program *program, char output[PROGRAM_OUTPUT_SIZE],
			  double seconds);

/* Ends it if it runs. */
void program_end(struct program *program);

#endif
