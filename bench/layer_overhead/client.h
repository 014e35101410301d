/*
 * The first process: runs the operations, takes the times, prints the table.
 */
#ifndef CLIENT_H
#define CLIENT_H

#include "arguments.h"
#include "status.h"

/* fd: of the socket to the server; it is closed. */
enum rs_status measure(int fd, const struct arguments *arguments);

#endif
