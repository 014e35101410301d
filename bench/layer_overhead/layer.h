/*
 * The operations through the object model of common/, as its users write them: tasks made once,
 * whose callbacks submit them again.
 */
#ifndef LAYER_H
#define LAYER_H

#include "descriptor.h"
#include "device.h"
#include "flow.h"
#include "memory.h"
#include "peer.h"
#include "status.h"

struct layer;

/* What the peer must know of it. */
struct layer_address {
	uint64_t base;
	char connection[RS_DESCRIPTOR_LINE_SIZE];
	char mmap[RS_DESCRIPTOR_LINE_SIZE];
};

/* device NULL, gid_index -1: the best one. The caller destroys it. */
enum rs_status layer_create(const char *device, int gid_index, const struct memory *memory,
			    struct layer **layer);

/* Stops it, and waits until it has stopped. NULL is allowed. */
void layer_destroy(struct layer *layer);

enum rs_status layer_describe(const struct layer *layer, struct layer_address *address);

/* Connects, makes the tasks, and submits the receives. */
enum rs_status layer_connect(struct layer *layer, const struct layer_address *peer_address);

/* Does what flow says, with at most depth requests in flight. */
enum rs_status layer_run(struct layer *layer, enum operation_kind kind, unsigned depth,
			 struct flow *flow, struct peer *peer);

/* They stay the layer's. */
struct ibv_qp *layer_qp(const struct layer *layer);
const struct rs_device *layer_device(const struct layer *layer);
void layer_get_gid(const struct layer *layer, struct ibv_gid_entry *gid);

#endif
