/*
 * Passing on: the owner of port 4791 sends a packet that is for another process's queue pair on to
 * that process, on the same address, in an envelope that names the sender. The owner has checked
 * its ICRC.
 *
 * An envelope is taken only from port 4791 of the address that it comes to, and what is in it is
 * never passed on again. It begins with an opcode that no packet has (of reliable datagrams,
 * reserved):
 *
 *   | 'U' 'R' 'F' 'W' | family 4 or 6 | 0 | port | address, 16 bytes | packet with its ICRC |
 */
#ifndef UR_FORWARD_H
#define UR_FORWARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "socket.h"

#define UR_ENVELOPE_SIZE 24

/* Sends a packet on to the process with that number. Returns 0 or an errno. */
int ur_forward(const struct ur_socket *sock, uint8_t number, const union ur_sockaddr *sender,
	       const void *data, size_t length);

/* Whether a process has that number: that is, whether its port is taken. */
bool ur_forward_is_there(const struct ur_socket *sock, uint8_t number);

/* Whether a datagram from that address to sock is an envelope. */
bool ur_is_envelope(const struct ur_socket *sock, const union ur_sockaddr *from,
		    const uint8_t *data, size_t length);

/* The sender that an envelope names; false: none that makes sense. */
bool ur_envelope_sender(const struct ur_socket *sock, const uint8_t *data,
			union ur_sockaddr *sender);

#endif
