/*
 * What is measured: operations of one size each, with one or many in flight.
 */
#ifndef OPERATION_H
#define OPERATION_H

#include <stdbool.h>
#include <stddef.h>

#include <infiniband/verbs.h>

#include "op.h"

/* Slots for requests, and so the most that are in flight. */
#define MAX_DEPTH 64

/* Receives that each side keeps posted: twice what can be in flight, so that none is ever missing.
 */
#define RECEIVES (2 * MAX_DEPTH)

/* Sends that the receiver answers with one message. */
#define MESSAGES_PER_REPLY 16

enum operation_kind {
	OPERATION_PING_PONG,
	OPERATION_SEND,
	OPERATION_WRITE,
	OPERATION_READ,
	OPERATION_COUNT
};

struct operation {
	const char *name;
	size_t size;
	const char *size_text;
	enum rs_op op;
	enum ibv_wr_opcode opcode;
	enum operation_kind requests; /* whose requests it uses */
};

extern const struct operation operations[OPERATION_COUNT];

static inline bool is_of_messages(enum operation_kind kind)
{
	return operations[kind].op == RS_OP_SEND;
}

/* The two ways in which each is done. */
enum side { SIDE_BARE, SIDE_LAYER, SIDE_COUNT };

extern const char *const side_names[SIDE_COUNT];

#endif
