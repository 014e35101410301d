/*
 * Task: one operation, from a pool of fixed size that its RDMA instance was configured with.
 *
 * Life: allocate -> submit -> (in flight) -> completion callback or failure callback, exactly once
 * -> submit again, or free. A task in flight can be neither changed nor freed. Buffers stay the
 * caller's: free the task, then the buffers; an instance keeps references of its own to those of a
 * task in flight.
 *
 * Sources are read from their data, destinations are filled behind their data (see buf.h). The
 * peer's memory is a buffer over a remote map.
 */
#ifndef RS_TASK_H
#define RS_TASK_H

#include <stdint.h>

#include "buf.h"
#include "op.h"
#include "status.h"

struct rs_connection;
struct rs_rdma;
struct rs_sync_event_remote;
struct rs_task;

/*
 * Called inside rs_pe_progress when a task has come back. ctx_user_data: the user data of the
 * instance's context.
 */
typedef void (*rs_task_cb)(struct rs_task *task, void *ctx_user_data);

/* What a receive task got. */
enum rs_receive_opcode {
	RS_RECEIVED_SEND,
	RS_RECEIVED_SEND_IMMEDIATE,
	RS_RECEIVED_WRITE_IMMEDIATE, /* the data went to the peer's destination, not to the task's
					buffer */
};

/* "send", "send with immediate", "write with immediate". Never NULL. */
const char *rs_receive_opcode_name(enum rs_receive_opcode opcode);

/*
 * The allocators: take a task of the type from its pool. The instance must be Starting or Running
 * (RS_ERR_BAD_STATE). RS_ERR_FULL: all tasks of the type are in use; RS_ERR_INVALID_VALUE: the type
 * was not configured, the connection is another instance's, or a buffer is local where a remote one
 * is needed, or the other way round. user_data: returned by rs_task_user_data.
 */

/* source: local, or NULL for a message without data. */
enum rs_status rs_task_alloc_send(struct rs_rdma *rdma, struct rs_connection *connection,
				  struct rs_buf *source, void *user_data, struct rs_task **task);

/* immediate: 32 bits that the receiver gets with the completion, in host byte order on both sides.
 */
enum rs_status rs_task_alloc_send_immediate(struct rs_rdma *rdma, struct rs_connection *connection,
					    struct rs_buf *source, uint32_t immediate,
					    void *user_data, struct rs_task **task);

/*
 * destination: local, or NULL to receive an immediate value only. From whatever connection a
 * message comes first.
 */
enum rs_status rs_task_alloc_receive(struct rs_rdma *rdma, struct rs_buf *destination,
				     void *user_data, struct rs_task **task);

/* source: local; destination: remote, with at least as much room. */
enum rs_status rs_task_alloc_write(struct rs_rdma *rdma, struct rs_connection *connection,
				   struct rs_buf *source, struct rs_buf *destination,
				   void *user_data, struct rs_task **task);
enum rs_status rs_task_alloc_write_immediate(struct rs_rdma *rdma, struct rs_connection *connection,
					     struct rs_buf *source, struct rs_buf *destination,
					     uint32_t immediate, void *user_data,
					     struct rs_task **task);

/* source: remote; destination: local, with at least as much room; its data grows by the source's.
 */
enum rs_status rs_task_alloc_read(struct rs_rdma *rdma, struct rs_connection *connection,
				  struct rs_buf *source, struct rs_buf *destination,
				  void *user_data, struct rs_task **task);

/*
 * Atomics on 8 bytes: target: remote data, its address a multiple of 8; destination: local, gets
 * the value from before. If the target equals compare, it becomes swap.
 */
enum rs_status rs_task_alloc_compare_and_swap(struct rs_rdma *rdma,
					      struct rs_connection *connection,
					      struct rs_buf *target, struct rs_buf *destination,
					      uint64_t compare, uint64_t swap, void *user_data,
					      struct rs_task **task);
enum rs_status rs_task_alloc_fetch_and_add(struct rs_rdma *rdma, struct rs_connection *connection,
					   struct rs_buf *target, struct rs_buf *destination,
					   uint64_t add, void *user_data, struct rs_task **task);

/*
 * On a remote sync event, which must outlive the task. destination: local, with room for the 8
 * bytes of the value (get), or of the value from before (add). source: local, its data is the value
 * of 8 bytes (set). Values are in host byte order.
 */
enum rs_status rs_task_alloc_event_get(struct rs_rdma *rdma, struct rs_connection *connection,
				       struct rs_sync_event_remote *event,
				       struct rs_buf *destination, void *user_data,
				       struct rs_task **task);
enum rs_status rs_task_alloc_event_set(struct rs_rdma *rdma, struct rs_connection *connection,
				       struct rs_sync_event_remote *event, struct rs_buf *source,
				       void *user_data, struct rs_task **task);
enum rs_status rs_task_alloc_event_add(struct rs_rdma *rdma, struct rs_connection *connection,
				       struct rs_sync_event_remote *event,
				       struct rs_buf *destination, uint64_t add, void *user_data,
				       struct rs_task **task);

/*
 * Hands the task to the device. Allowed in Running; a receive also in Starting, so that it is there
 * before the peer can send. A completed task may be submitted again. RS_ERR_BAD_STATE: the
 * context's or the task's state forbids it, or the connection is not connected; RS_ERR_TOO_BIG:
 * more buffers in a chain than the instance was configured for, or less room than data;
 * RS_ERR_FULL: the send queue has no place left. On any error no callback will come.
 */
enum rs_status rs_task_submit(struct rs_task *task);

/* Gives it back to its pool. RS_ERR_BAD_STATE: in flight. NULL is allowed. */
enum rs_status rs_task_free(struct rs_task *task);

/* What it ended with: RS_OK, or the reason of the failure; RS_IN_PROGRESS while in flight. */
enum rs_status rs_task_status(const struct rs_task *task);

enum rs_op rs_task_op(const struct rs_task *task);

void *rs_task_user_data(const struct rs_task *task);

/* NULL where the operation has none. An atomic's target is its source. */
struct rs_connection *rs_task_connection(const struct rs_task *task);
struct rs_buf *rs_task_source(const struct rs_task *task);
struct rs_buf *rs_task_destination(const struct rs_task *task);

/* Setters for the next submission, with the allocators' rules. RS_ERR_BAD_STATE: in flight. */
enum rs_status rs_task_set_source(struct rs_task *task, struct rs_buf *source);
enum rs_status rs_task_set_destination(struct rs_task *task, struct rs_buf *destination);
enum rs_status rs_task_set_user_data(struct rs_task *task, void *user_data);
enum rs_status rs_task_set_immediate(struct rs_task *task, uint32_t immediate);
enum rs_status rs_task_set_atomic(struct rs_task *task, uint64_t compare, uint64_t swap_or_add);

/*
 * Bytes that the operation moved, 0 if it failed; for a receive of a write with immediate: bytes
 * that the peer wrote.
 */
size_t rs_task_result_length(const struct rs_task *task);

/* A completed receive: what it got, its immediate value (0 without one), and from which connection.
 */
enum rs_receive_opcode rs_task_result_opcode(const struct rs_task *task);
uint32_t rs_task_result_immediate(const struct rs_task *task);
struct rs_connection *rs_task_result_connection(const struct rs_task *task);

#endif
