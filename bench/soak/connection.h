/*
 * Connection: a reliable connection made by librdmacm's synchronous calls, with its memory, and with
 * all its receives posted.
 */
#ifndef CONNECTION_H
#define CONNECTION_H

#include <rdma/rdma_cma.h>
#include <stdint.h>

#include "status.h"

#define SLOTS    16  /* rounds in flight */
#define RECEIVES 256 /* that a side keeps posted */

/* Requests of a round: a write, a read, a fetch-and-add and a send. */
#define REQUESTS_PER_ROUND 4

/* Registered as a whole, on both sides. */
struct memory {
	uint64_t counter;            /* the peer adds to it */
	uint64_t target[SLOTS];      /* the peer writes and reads it */
	uint64_t received[RECEIVES]; /* what the peer sent */
	uint64_t sent[SLOTS];        /* what this side writes and sends */
	uint64_t read[SLOTS];        /* what it has read */
	uint64_t fetched[SLOTS];     /* the values that its fetch-and-adds found */
};

struct connection {
	struct rdma_cm_id *id;
	struct ibv_mr *mr;
	struct memory memory;
	uint64_t remote; /* address of the peer's memory; only the client knows it */
	uint32_t rkey;
};

/* Listens at the address, at a port that is free, which it writes to *port. NULL: the log says why. */
struct rdma_cm_id *listener_open(const char *address, uint16_t *port);

/* *connection is zeroed memory. On failure, too, it must be closed. */
enum rs_status connection_accept(struct connection *connection, struct rdma_cm_id *listener);
enum rs_status connection_connect(struct connection *connection, const char *address,
				  uint16_t port);

/* Agrees with the peer that the connection ends. */
enum rs_status connection_disconnect(struct connection *connection);
void connection_close(struct connection *connection);

enum rs_status connection_post_receive(struct connection *connection, uint64_t index);

#endif
