/*
 * The operations that carry bytes, and what is to be seen of them.
 */
#ifndef OPERATION_H
#define OPERATION_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>

struct operation {
	const char *name;
	enum ibv_wr_opcode opcode;
	enum ibv_wc_opcode sent; /* of the requester's completion */
	bool is_send;            /* the peer's receive says where the bytes go */
	bool takes_receive;
	enum ibv_wc_opcode received; /* of the responder's */
	bool has_imm;
};

extern const struct operation operations[];
extern const size_t operation_count;

#endif
