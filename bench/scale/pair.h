/*
 * Two queue pairs of one process, connected to each other.
 */
#ifndef PAIR_H
#define PAIR_H

#include <infiniband/verbs.h>
#include <stdint.h>

#include "device.h"
#include "status.h"

/* What all pairs share. */
struct pair_parts {
	struct rs_device *device;
	struct ibv_gid_entry gid;
	struct ibv_cq *cq;
};

#define PAIR_DEPTH 32 /* requests in flight */

struct pair {
	struct ibv_qp *requester;
	struct ibv_qp *responder;
};

enum rs_status pair_open(struct pair *pair, const struct pair_parts *parts);
void pair_close(struct pair *pair);

/*
 * Writes to the region, iterations times length bytes, PAIR_DEPTH at a time. *rate: writes per second.
 */
enum rs_status pair_measure(const struct pair *pair, const struct pair_parts *parts,
			    const struct ibv_mr *mr, uint32_t length, uint64_t iterations,
			    double *rate);

#endif
