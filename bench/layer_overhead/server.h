/*
 * The second process: the other end of the first one's operations.
 */
#ifndef SERVER_H
#define SERVER_H

#include "arguments.h"
#include "status.h"

/* Takes part in runs until there are no more. fd: of the socket to the client; it is closed. */
enum rs_status serve(int fd, const struct arguments *arguments);

#endif
