/*
 * What client and server do alike: a message, its memory and its two calls, and the end.
 *
 * Each call waits until it is done. Returns false: it was not; the log says why.
 */
#ifndef RDMA_CM_COMMON_H
#define RDMA_CM_COMMON_H

#include <stdbool.h>
#include <stddef.h>

#include <rdma/rdma_verbs.h>

#include "options.h"

/* A text that is sent, or room for one that comes. Its length travels as that of the message. */
struct rdma_cm_message {
	char text[OPTIONS_MAX_TEXT];
	size_t length;
	struct ibv_mr *mr;
};

/* A queue pair for one message each way at a time. */
extern const struct ibv_qp_init_attr rdma_cm_qp;

/* How the connection is to be. */
extern const struct rdma_conn_param rdma_cm_param;

/* Registers the message's memory with the protection domain of the endpoint. */
bool rdma_cm_register(struct rdma_cm_id *id, struct rdma_cm_message *message);

/* Before the endpoint is destroyed. Does nothing if the message was not registered. */
void rdma_cm_deregister(struct rdma_cm_message *message);

/* Before the connection is made, since the peer may send at once. */
bool rdma_cm_post_receive(struct rdma_cm_id *id, struct rdma_cm_message *message);

/* Waits until the receive that was posted has got its message. False, too: the peer has gone. */
bool rdma_cm_receive(struct rdma_cm_id *id, struct rdma_cm_message *message);

/* Sends the message, and waits until it has arrived in the peer's memory. */
bool rdma_cm_send(struct rdma_cm_id *id, const struct rdma_cm_message *message);

/* Ends the connection, or agrees to its end; whatever has happened on it. */
bool rdma_cm_disconnect(struct rdma_cm_id *id);

/* One line on standard output, made fit for a terminal. */
bool rdma_cm_print(const char *label, const struct rdma_cm_message *message);

#endif
