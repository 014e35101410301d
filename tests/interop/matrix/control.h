/*
 * The two processes' TCP connection. What one of them cannot go on without ends it with a message:
 * the other then ends, too.
 */
#ifndef CONTROL_H
#define CONTROL_H

#include <stddef.h>
#include <stdint.h>

/* Waits at a port of all addresses for the other process. Returns a socket. */
int control_accept(uint16_t port);
/* Connects to the process that waits there; address: IPv4 or IPv6, as numbers. */
int control_connect(const char *address, uint16_t port);

/* Both call it, with the same size; each gets what the other has. */
void control_exchange(int control, const void *ours, void *theirs, size_t size);

#endif
