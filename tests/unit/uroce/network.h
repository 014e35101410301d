/*
 * A network namespace of its own for a test program, so that its ports are nobody else's, and plain
 * UDP sockets that stand for strangers there.
 */
#ifndef NETWORK_H
#define NETWORK_H

#include <stdbool.h>
#include <stdint.h>

#include "../../../uroce/wire/icrc.h"

/*
 * Called first in main: from then on the program has an empty network namespace, with 127.0.0.1 and
 * ::1. False: not permitted; a line on standard error says so.
 */
bool network_enter(void);

/* "127.0.0.1", "::1". port: host order. */
union ur_sockaddr network_address(const char *text, uint16_t port);

/* A bound, blocking UDP socket, whose packets have the identification 0. The caller closes it. */
int network_socket(const char *address, uint16_t port);

#endif
