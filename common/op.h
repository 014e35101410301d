/*
 * The operations that a task can be, and sets of them.
 */
#ifndef RS_OP_H
#define RS_OP_H

#include <stdint.h>

enum rs_op {
	RS_OP_SEND,
	RS_OP_SEND_IMMEDIATE,
	RS_OP_RECEIVE,
	RS_OP_WRITE,
	RS_OP_WRITE_IMMEDIATE,
	RS_OP_READ,
	RS_OP_COMPARE_AND_SWAP,
	RS_OP_FETCH_AND_ADD,
	RS_OP_EVENT_GET, /* of a remote sync event (see sync_event.h): a read of 8 bytes */
	RS_OP_EVENT_SET, /* a write of 8 bytes */
	RS_OP_EVENT_ADD, /* a fetch-and-add */
	RS_OP_COUNT
};

/* A set of operations is the bitwise or of these. */
#define RS_OP_BIT(op) (1U << (op))

/* "send", "write with immediate", … Never NULL. */
const char *rs_op_name(enum rs_op op);

#endif
