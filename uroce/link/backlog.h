/*
 * Backlog: how much waits in the receive buffer of another socket of this host. A process that sends faster
 * than the other can take it would overrun that buffer, and nobody else would tell. The system does, to
 * everybody, but it takes a few microseconds.
 *
 * man sock_diag.
 */
#ifndef UR_BACKLOG_H
#define UR_BACKLOG_H

#include <stdbool.h>
#include <stdint.h>

#include "../wire/icrc.h"

/* Zeros at first. */
struct ur_backlog {
	enum { UR_BACKLOG_CLOSED, UR_BACKLOG_OPEN, UR_BACKLOG_UNAVAILABLE } state;
	int fd; /* netlink */
};

void ur_backlog_close(struct ur_backlog *backlog);

/*
 * Whether size bytes more fit into the buffer of the socket that flow.dest leads to. True also if that is
 * not known. Opens what it needs when it is first called.
 */
bool ur_backlog_has_room(struct ur_backlog *backlog, const struct ur_flow *flow, uint32_t size);

#endif
