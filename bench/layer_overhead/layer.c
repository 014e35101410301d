#define LOG_MODULE "layer"

#include "layer.h"

#include <stdio.h>
#include <stdlib.h>

#include "log.h"
#include "progress_engine.h"
#include "rdma.h"

#define OPS                                                                          \
	(RS_OP_BIT(RS_OP_SEND) | RS_OP_BIT(RS_OP_RECEIVE) | RS_OP_BIT(RS_OP_WRITE) | \
	 RS_OP_BIT(RS_OP_READ))

/* A send has one buffer, a write and a read two. */
#define BUFS (5 * MAX_DEPTH + RECEIVES)

struct layer {
	enum rs_status error; /* the first one */
	const struct memory *memory;
	struct rs_device *device;
	struct rs_mmap *mmap;
	struct rs_mmap *remote_mmap;
	struct rs_pe *pe;
	struct rs_rdma *rdma;
	struct rs_ctx *ctx;
	struct rs_connection *connection;
	const char *connection_line;
	struct rs_buf_inventory *inventory;

	/* Made once, submitted again and again */
	struct rs_task *tasks[OPERATION_COUNT][MAX_DEPTH];
	struct rs_task *receives[RECEIVES];

	/* The run that is on */
	struct flow *flow;
	struct rs_task *idle[MAX_DEPTH]; /* tasks that are not in flight */
	unsigned idle_count;
};

static void record(struct layer *layer, enum rs_status status)
{
	if (layer->error == RS_OK)
		layer->error = status;
}

/* The measured callbacks
 * -------------------------------------------------------------------------------------------------
 */

static void submit(struct layer *layer, struct rs_task *task)
{
	enum rs_status status = rs_task_submit(task);

	if (status != RS_OK)
		record(layer, status);
}

static void submit_idle(struct layer *layer)
{
	while (layer->idle_count > 0 && flow_take(layer->flow))
		submit(layer, layer->idle[--layer->idle_count]);
}

/* A send or a write: its buffers are as they were. */
static void on_sent(struct rs_task *task, void *user_data)
{
	struct layer *layer = user_data;

	flow_sent(layer->flow);
	if (flow_take(layer->flow))
		submit(layer, task);
	else
		layer->idle[layer->idle_count++] = task;
}

static void on_read(struct rs_task *task, void *user_data)
{
	rs_buf_reset_data_length(rs_task_destination(task));
	on_sent(task, user_data);
}

static void on_received(struct rs_task *task, void *user_data)
{
	struct layer *layer = user_data;

	rs_buf_reset_data_length(rs_task_destination(task));
	submit(layer, task);
	flow_received(layer->flow);
	submit_idle(layer);
}

static void on_failed(struct rs_task *task, void *user_data)
{
	struct layer *layer = user_data;

	/* So the receives end when the context is stopped. */
	if (rs_task_status(task) == RS_ERR_FLUSHED && rs_ctx_state(layer->ctx) == RS_CTX_STOPPING)
		return;
	record(layer, rs_task_status(task));
}

enum rs_status layer_run(struct layer *layer, enum operation_kind kind, unsigned depth,
			 struct flow *flow, struct peer *peer)
{
	struct rs_task **tasks = layer->tasks[operations[kind].requests];

	layer->flow = flow;
	layer->idle_count = 0;
	for (unsigned slot = 0; slot < depth; slot++)
		layer->idle[layer->idle_count++] = tasks[slot];
	submit_idle(layer);
	while (layer->error == RS_OK && !flow_is_over(flow)) {
		enum rs_status status = peer_watch(peer, rs_pe_progress(layer->pe));

		if (status != RS_OK)
			record(layer, status);
	}
	return layer->error;
}

/* Creation
 * -------------------------------------------------------------------------------------------------
 */

static enum rs_status map_memory(struct layer *layer)
{
	enum rs_status status = rs_mmap_create(&layer->mmap);

	if (status == RS_OK)
		status = rs_mmap_set_memrange(layer->mmap, layer->memory->base,
					      layer->memory->length);
	if (status == RS_OK)
		status = rs_mmap_set_permissions(layer->mmap, RS_ACCESS_LOCAL_READ_WRITE |
								      RS_ACCESS_REMOTE_WRITE |
								      RS_ACCESS_REMOTE_READ);
	if (status == RS_OK)
		status = rs_mmap_add_device(layer->mmap, layer->device);
	if (status == RS_OK)
		status = rs_mmap_start(layer->mmap);
	return status;
}

static enum rs_status configure_tasks(struct layer *layer)
{
	enum rs_status status =
		rs_rdma_set_task_conf(layer->rdma, RS_OP_SEND, on_sent, on_failed, MAX_DEPTH);

	if (status == RS_OK)
		status = rs_rdma_set_task_conf(layer->rdma, RS_OP_WRITE, on_sent, on_failed,
					       MAX_DEPTH);
	if (status == RS_OK)
		status = rs_rdma_set_task_conf(layer->rdma, RS_OP_READ, on_read, on_failed,
					       MAX_DEPTH);
	if (status == RS_OK)
		status = rs_rdma_set_task_conf(layer->rdma, RS_OP_RECEIVE, on_received, on_failed,
					       RECEIVES);
	return status;
}

static enum rs_status create_rdma(struct layer *layer, int gid_index)
{
	enum rs_status status = rs_rdma_create(layer->device, &layer->rdma);

	if (status != RS_OK)
		return status;
	layer->ctx = rs_rdma_as_ctx(layer->rdma);
	rs_ctx_set_user_data(layer->ctx, layer);
	status = rs_rdma_set_permissions(layer->rdma,
					 RS_ACCESS_REMOTE_WRITE | RS_ACCESS_REMOTE_READ);
	if (status == RS_OK)
		status = rs_rdma_set_gid_index(layer->rdma, gid_index);
	if (status == RS_OK)
		status = rs_rdma_set_needed_connections(layer->rdma, 1);
	if (status == RS_OK)
		status = configure_tasks(layer);
	return status;
}

/* Progresses until the context is in the state, or has failed. */
static enum rs_status await_state(struct layer *layer, enum rs_ctx_state state)
{
	while (rs_ctx_state(layer->ctx) != state && rs_ctx_error(layer->ctx) == RS_OK)
		rs_pe_progress(layer->pe);
	return rs_ctx_error(layer->ctx);
}

static enum rs_status start(struct layer *layer)
{
	enum rs_status status = rs_pe_create(&layer->pe);

	if (status == RS_OK)
		status = rs_pe_connect_ctx(layer->pe, layer->ctx);
	if (status == RS_OK)
		status = rs_ctx_start(layer->ctx);
	if (status == RS_OK)
		status = await_state(layer, RS_CTX_STARTING);
	if (status == RS_OK)
		status = rs_rdma_export(layer->rdma, &layer->connection_line, &layer->connection);
	return status;
}

static enum rs_status create_all(struct layer *layer, const char *device, int gid_index)
{
	enum rs_status status = rs_device_open(device, OPS, &layer->device);

	if (status == RS_OK)
		status = map_memory(layer);
	if (status == RS_OK)
		status = rs_buf_inventory_create(BUFS, &layer->inventory);
	if (status == RS_OK)
		status = rs_buf_inventory_start(layer->inventory);
	if (status == RS_OK)
		status = create_rdma(layer, gid_index);
	if (status == RS_OK)
		status = start(layer);
	return status;
}

enum rs_status layer_create(const char *device, int gid_index, const struct memory *memory,
			    struct layer **layer)
{
	struct layer *created = calloc(1, sizeof(*created));
	enum rs_status status;

	if (!created)
		return RS_ERR_NO_MEMORY;
	created->memory = memory;
	status = create_all(created, device, gid_index);
	if (status != RS_OK) {
		layer_destroy(created);
		return status;
	}
	*layer = created;
	return RS_OK;
}

static void stop(struct layer *layer)
{
	if (!layer->ctx || rs_ctx_stop(layer->ctx) != RS_IN_PROGRESS)
		return;
	while (rs_ctx_state(layer->ctx) != RS_CTX_IDLE)
		rs_pe_progress(layer->pe);
}

/* With its buffers. */
static void free_task(struct rs_task *task)
{
	struct rs_buf *source, *destination;

	if (!task)
		return;
	source = rs_task_source(task);
	destination = rs_task_destination(task);
	rs_task_free(task);
	rs_buf_unref(source);
	rs_buf_unref(destination);
}

static void free_tasks(struct layer *layer)
{
	for (unsigned kind = 0; kind < OPERATION_COUNT; kind++)
		for (unsigned slot = 0; slot < MAX_DEPTH; slot++)
			free_task(layer->tasks[kind][slot]);
	for (unsigned slot = 0; slot < RECEIVES; slot++)
		free_task(layer->receives[slot]);
}

static void log_failed_destroy(enum rs_status status, const char *what)
{
	if (status != RS_OK)
		LOG_ERROR("cannot free the %s: %s", what, rs_status_text(status));
}

void layer_destroy(struct layer *layer)
{
	if (!layer)
		return;
	stop(layer);
	free_tasks(layer);
	log_failed_destroy(rs_buf_inventory_destroy(layer->inventory), "buffers");
	log_failed_destroy(rs_mmap_destroy(layer->remote_mmap), "remote map");
	log_failed_destroy(rs_rdma_destroy(layer->rdma), "RDMA instance");
	log_failed_destroy(rs_pe_destroy(layer->pe), "progress engine");
	log_failed_destroy(rs_mmap_destroy(layer->mmap), "map");
	log_failed_destroy(rs_device_close(layer->device), "device");
	free(layer);
}

enum rs_status layer_describe(const struct layer *layer, struct layer_address *address)
{
	const char *mmap_line;
	enum rs_status status = rs_mmap_export(layer->mmap, layer->device, &mmap_line);

	if (status != RS_OK)
		return status;
	*address = (struct layer_address){ .base = (uintptr_t)layer->memory->base };
	snprintf(address->connection, sizeof(address->connection), "%s", layer->connection_line);
	snprintf(address->mmap, sizeof(address->mmap), "%s", mmap_line);
	return RS_OK;
}

/* Tasks
 * -------------------------------------------------------------------------------------------------
 */

static enum rs_status get_buf(struct layer *layer, enum memory_part part, unsigned slot,
			      size_t size, struct rs_buf **buf)
{
	uint64_t base = (uintptr_t)layer->memory->base;

	return rs_buf_get_by_address(layer->inventory, layer->mmap,
				     base + memory_offset(part, slot, size), size, buf);
}

static enum rs_status get_remote_buf(struct layer *layer, uint64_t base, unsigned slot, size_t size,
				     struct rs_buf **buf)
{
	return rs_buf_get_by_address(layer->inventory, layer->remote_mmap,
				     base + memory_offset(MEMORY_REMOTE, slot, size), size, buf);
}

static enum rs_status fill_buf(struct rs_buf *buf)
{
	return rs_buf_set_data(buf, rs_buf_address(buf), rs_buf_length(buf));
}

/* Takes the buffers over, also when it fails. */
static enum rs_status alloc_task(struct layer *layer, enum operation_kind kind,
				 struct rs_buf *local, struct rs_buf *remote, struct rs_task **task)
{
	struct rs_connection *connection = layer->connection;
	enum rs_status status = fill_buf(kind == OPERATION_READ ? remote : local);

	if (status == RS_OK && kind == OPERATION_SEND)
		status = rs_task_alloc_send(layer->rdma, connection, local, NULL, task);
	else if (status == RS_OK && kind == OPERATION_WRITE)
		status = rs_task_alloc_write(layer->rdma, connection, local, remote, NULL, task);
	else if (status == RS_OK)
		status = rs_task_alloc_read(layer->rdma, connection, remote, local, NULL, task);
	if (status != RS_OK) {
		rs_buf_unref(local);
		rs_buf_unref(remote);
	}
	return status;
}

static enum rs_status make_task(struct layer *layer, enum operation_kind kind, unsigned slot,
				uint64_t peer_base)
{
	size_t size = operations[kind].size;
	struct rs_buf *local, *remote = NULL;
	enum rs_status status = get_buf(layer, MEMORY_LOCAL, slot, size, &local);

	if (status != RS_OK)
		return status;
	if (kind != OPERATION_SEND)
		status = get_remote_buf(layer, peer_base, slot, size, &remote);
	if (status != RS_OK) {
		rs_buf_unref(local);
		return status;
	}
	return alloc_task(layer, kind, local, remote, &layer->tasks[kind][slot]);
}

static enum rs_status make_receive(struct layer *layer, unsigned slot)
{
	struct rs_buf *buf;
	enum rs_status status =
		get_buf(layer, MEMORY_RECEIVE, slot, operations[OPERATION_SEND].size, &buf);

	if (status != RS_OK)
		return status;
	status = rs_task_alloc_receive(layer->rdma, buf, NULL, &layer->receives[slot]);
	if (status != RS_OK) {
		rs_buf_unref(buf);
		return status;
	}
	return rs_task_submit(layer->receives[slot]);
}

static enum rs_status make_tasks(struct layer *layer, uint64_t peer_base)
{
	enum rs_status status = RS_OK;

	for (unsigned kind = 0; kind < OPERATION_COUNT; kind++)
		for (unsigned slot = 0; slot < MAX_DEPTH && status == RS_OK; slot++)
			if (operations[kind].requests == kind)
				status = make_task(layer, (enum operation_kind)kind, slot,
						   peer_base);
	for (unsigned slot = 0; slot < RECEIVES && status == RS_OK; slot++)
		status = make_receive(layer, slot);
	return status;
}

enum rs_status layer_connect(struct layer *layer, const struct layer_address *peer_address)
{
	enum rs_status status =
		rs_rdma_connect(layer->rdma, peer_address->connection, layer->connection);

	if (status == RS_OK)
		status = await_state(layer, RS_CTX_RUNNING);
	if (status == RS_OK)
		status = rs_mmap_create_from_export(peer_address->mmap, &layer->remote_mmap);
	if (status == RS_OK)
		status = make_tasks(layer, peer_address->base);
	return status;
}

struct ibv_qp *layer_qp(const struct layer *layer)
{
	return rs_connection_qp(layer->connection);
}

const struct rs_device *layer_device(const struct layer *layer)
{
	return layer->device;
}

void layer_get_gid(const struct layer *layer, struct ibv_gid_entry *gid)
{
	*gid = (struct ibv_gid_entry){ 0 };
	rs_rdma_get_gid(layer->rdma, gid);
}
