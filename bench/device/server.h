/*
 * The server: takes part in the runs that the client asks for.
 */
#ifndef SERVER_H
#define SERVER_H

#include "arguments.h"
#include "status.h"

/* fd: of the socket to the client. */
enum rs_status serve(int fd, const struct arguments *arguments);

#endif
