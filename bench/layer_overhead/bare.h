/*
 * The operations on verbs alone, as a program is written that knows nothing else: the measure for
 * the layer.
 */
#ifndef BARE_H
#define BARE_H

#include <stdint.h>

#include "flow.h"
#include "memory.h"
#include "peer.h"
#include "status.h"

struct bare;

/* What the peer must know of it. */
struct bare_address {
	uint64_t base;
	uint32_t rkey;
	uint32_t qpn;
	uint32_t psn;
};

/*
 * Opens model's device anew and makes a queue pair there, with its queues, like model, which is
 * connected to the peer of this one's process: so parameters cannot differ. The caller destroys it.
 */
enum rs_status bare_create(struct ibv_qp *model, const struct memory *memory, struct bare **bare);
void bare_destroy(struct bare *bare);

void bare_describe(const struct bare *bare, struct bare_address *address);

/* Connects and posts the receives. */
enum rs_status bare_connect(struct bare *bare, const struct bare_address *peer_address);

/* Does what flow says, with at most depth requests in flight. */
enum rs_status bare_run(struct bare *bare, enum operation_kind kind, unsigned depth,
			struct flow *flow, struct peer *peer);

/* The parameters of a queue pair, for comparison and for the report. */
struct parameters {
	struct ibv_qp_attr qp;
	struct ibv_qp_init_attr init;
	struct ibv_srq_attr srq;
	int cq_entries;
};

enum rs_status parameters_query(struct ibv_qp *qp, struct parameters *parameters);

/* Those that bare_create and bare_connect took over. */
const struct parameters *bare_parameters(const struct bare *bare);

#endif
