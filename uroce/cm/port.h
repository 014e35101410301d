/*
 * Ports of the port spaces, of which each has one owner among all processes (see claim.h). All
 * functions may be called from any thread. A child after fork has none of its parent's ports.
 */
#ifndef UR_PORT_H
#define UR_PORT_H

#include <stdbool.h>
#include <stdint.h>

/* A service id is a port space (enum rdma_port_space: TCP 0x106, UDP 0x111, …) and a port. */
#define UR_CM_SERVICE_ID(port_space, port) ((uint64_t)(port_space) << 16 | (uint16_t)(port))

/*
 * Takes a port; *port 0: one that is free, of 32768 to 60999. Returns 0; EADDRINUSE; EADDRNOTAVAIL:
 * none is free; or another errno. This process may take a port more than once only if shared is set
 * each time. Each call is undone by ur_cm_give_port.
 */
int ur_cm_take_port(uint16_t port_space, uint16_t *port, bool shared);
void ur_cm_give_port(uint16_t port_space, uint16_t port);

/*
 * Another number in a child after fork than in its parent: a child has none of its parent's ports, and
 * must not give back one that it has taken itself since.
 */
unsigned ur_cm_port_process(void);

/*
 * The claim's descriptor (see claim.h) of a port that was taken; it stays the port's. From now on
 * requests for the port are passed on to this process: before, they are refused. -1: not taken.
 * Each call is undone by ur_cm_port_end_fd (-1: that does nothing); after the last one they are
 * refused again.
 */
int ur_cm_port_fd(uint16_t port_space, uint16_t port);
void ur_cm_port_end_fd(uint16_t port_space, uint16_t port);

#endif
