#include "op.h"

static const char *const names[RS_OP_COUNT] = {
	[RS_OP_SEND] = "send",
	[RS_OP_SEND_IMMEDIATE] = "send with immediate",
	[RS_OP_RECEIVE] = "receive",
	[RS_OP_WRITE] = "write",
	[RS_OP_WRITE_IMMEDIATE] = "write with immediate",
	[RS_OP_READ] = "read",
	[RS_OP_COMPARE_AND_SWAP] = "compare-and-swap",
	[RS_OP_FETCH_AND_ADD] = "fetch-and-add",
	[RS_OP_EVENT_GET] = "remote event get",
	[RS_OP_EVENT_SET] = "remote event set",
	[RS_OP_EVENT_ADD] = "remote event add",
};

const char *rs_op_name(enum rs_op op)
{
	return (unsigned)op < RS_OP_COUNT ? names[op] : "unknown operation";
}
