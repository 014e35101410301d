/*
 * The client: measures and reports.
 */
#ifndef CLIENT_H
#define CLIENT_H

#include "arguments.h"
#include "status.h"

/* fd: of the socket to the server. */
enum rs_status measure(int fd, const struct arguments *arguments);

#endif
