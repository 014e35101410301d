/*
 * RDMA instance: a context (see context.h) that owns a completion queue, a shared receive queue,
 * connections and pools of tasks, on one device.
 *
 * create -> configure (setters, tasks) -> attach its context to an engine -> start -> export and
 * connect -> tasks -> stop -> Idle -> start again, or destroy.
 */
#ifndef RS_RDMA_H
#define RS_RDMA_H

#include <stddef.h>
#include <stdint.h>

#include "access.h"
#include "connection.h"
#include "context.h"
#include "device.h"
#include "status.h"
#include "task.h"

/* The longest chain of buffers that a task can be configured for. */
#define RS_RDMA_MAX_CHAIN 16

struct rs_rdma;

enum rs_transport { RS_TRANSPORT_RC, RS_TRANSPORT_DC };

/*
 * Called inside rs_pe_progress when a connection has ended by an error (not by
 * rs_connection_disconnect or a stop).
 */
typedef void (*rs_connection_failed_cb)(struct rs_connection *connection, enum rs_status reason,
					void *ctx_user_data);

/* The device is held until the instance is destroyed. The caller destroys it. */
enum rs_status rs_rdma_create(struct rs_device *device, struct rs_rdma **rdma);

/* RS_ERR_BAD_STATE: its context is not Idle, or this is a callback. NULL is allowed. */
enum rs_status rs_rdma_destroy(struct rs_rdma *rdma);

/* Its context. It stays the instance's. */
struct rs_ctx *rs_rdma_as_ctx(struct rs_rdma *rdma);

/* ---- The setters are for a context that is Idle (RS_ERR_BAD_STATE). ---- */

/*
 * What this program calls itself in the descriptors that it exports, so that the peer can tell
 * whether they belong together: see rs_descriptor_is_name, else RS_ERR_INVALID_VALUE. Default:
 * RS_DESCRIPTOR_NO_NAME.
 */
enum rs_status rs_rdma_set_name(struct rs_rdma *rdma, const char *name);

/* What the peers may do with maps through this instance (set of enum rs_access). Default: nothing.
 */
enum rs_status rs_rdma_set_permissions(struct rs_rdma *rdma, uint32_t access);

/* Default -1: the best one, see rs_device_choose_gid. Checked at start. */
enum rs_status rs_rdma_set_gid_index(struct rs_rdma *rdma, int index);

/* Connections that can exist. Default 1; 1 to the device's number of queue pairs. */
enum rs_status rs_rdma_set_max_connections(struct rs_rdma *rdma, unsigned count);

/*
 * Connections that Running waits for, at most the maximum (checked at start). Default 0: Running
 * follows Starting at once, and connections are made in it.
 */
enum rs_status rs_rdma_set_needed_connections(struct rs_rdma *rdma, unsigned count);

/*
 * RS_ERR_NOT_SUPPORTED: DC (dynamically connected) is no part of verbs and no device here offers
 * it.
 */
enum rs_status rs_rdma_set_transport(struct rs_rdma *rdma, enum rs_transport transport);

/*
 * Buffers that the chains of tasks may have. Default 1; 1 to RS_RDMA_MAX_CHAIN and the device's
 * limit.
 */
enum rs_status rs_rdma_set_max_chain(struct rs_rdma *rdma, unsigned count);

/*
 * Tasks other than receives that a connection can have in flight: the length of its send queue,
 * which is memory per connection. Default 0: all that are configured. RS_ERR_FULL comes from
 * submitting more.
 */
enum rs_status rs_rdma_set_max_sends(struct rs_rdma *rdma, unsigned count);

/*
 * How long a request waits for the peer's acknowledgement before it is sent again: 4.096 µs ×
 * 2^exponent, 1 to 31; and how often it is sent again, 0 to 6. Default 18 (1.07 s) and 6: a peer
 * has 7.5 seconds to connect. Devices may wait up to four times as long.
 * Source: man ibv_modify_qp (timeout, retry_cnt).
 */
enum rs_status rs_rdma_set_ack_timeout(struct rs_rdma *rdma, unsigned exponent, unsigned retries);

/*
 * count tasks of type op can be allocated; completed and failed hear of their ends.
 * RS_ERR_NOT_SUPPORTED: the device cannot do op. RS_ERR_IN_USE: tasks of the type are allocated.
 * Whether the device's queues can be so long is checked at start.
 */
enum rs_status rs_rdma_set_task_conf(struct rs_rdma *rdma, enum rs_op op, rs_task_cb completed,
				     rs_task_cb failed, size_t count);

/*
 * Default: none. A context stops by itself when Running waited for connections and the last one has
 * failed, or when so many have failed that Running cannot be reached.
 */
enum rs_status rs_rdma_set_connection_failed_cb(struct rs_rdma *rdma,
						rs_connection_failed_cb callback);

/* ---- In use ---- */

/* The GID in use. RS_ERR_BAD_STATE: Idle. */
enum rs_status rs_rdma_get_gid(const struct rs_rdma *rdma, struct ibv_gid_entry *entry);

#endif
