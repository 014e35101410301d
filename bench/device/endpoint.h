/*
 * One side's end of the connection through the device: verbs objects, and memory in two parts.
 */
#ifndef ENDPOINT_H
#define ENDPOINT_H

#include <infiniband/verbs.h>
#include <stdint.h>

#include "device.h"
#include "peer.h"
#include "row.h"
#include "status.h"

struct arguments;

/* What the peer must know. */
struct endpoint_address {
	union ibv_gid gid;
	uint64_t target;
	uint32_t rkey;
	uint32_t qpn;
	uint32_t psn;
	uint16_t lid;
};

struct endpoint {
	struct rs_device *device;
	struct ibv_gid_entry gid;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	uint32_t max_inline;
	uint32_t psn;
	struct ibv_mr *mr;
	/* MAX_SPAN bytes each: what this side sends, writes or has read; where the peer's arrives. */
	char *local;
	char *target;
	struct endpoint_address peer;
};

/* Requests that can be posted at a time, of either kind. */
#define QUEUE_DEPTH MAX_DEPTH

/* Opens the device and connects to the other process, which does the same. On failure, too, it must
 * be closed. */
enum rs_status endpoint_open(struct endpoint *endpoint, const struct arguments *arguments,
			     struct peer *peer);
void endpoint_close(struct endpoint *endpoint);

#endif
