/*
 * A benchmark's two processes, each bound to a processor of its own, and a socket between them.
 */
#ifndef TWO_PROCESSES_H
#define TWO_PROCESSES_H

#include "status.h"

/* Of the benchmark that uses this. */
struct arguments;

/* What one of the processes does; fd: its end of the socket, which it closes. */
typedef enum rs_status (*process_fn)(int fd, const struct arguments *arguments);

/* Runs serve in a child and measure in this process, to the end of both. Returns the exit status. */
int two_processes_run(process_fn serve, process_fn measure, const struct arguments *arguments);

#endif
