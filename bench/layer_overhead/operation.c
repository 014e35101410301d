#include "operation.h"

const struct operation operations[OPERATION_COUNT] = {
	[OPERATION_PING_PONG] = { "ping-pong", 64, "64 B", RS_OP_SEND, IBV_WR_SEND,
				  OPERATION_SEND },
	[OPERATION_SEND] = { "send", 64, "64 B", RS_OP_SEND, IBV_WR_SEND, OPERATION_SEND },
	[OPERATION_WRITE] = { "write", 65536, "64 KiB", RS_OP_WRITE, IBV_WR_RDMA_WRITE,
			      OPERATION_WRITE },
	[OPERATION_READ] = { "read", 65536, "64 KiB", RS_OP_READ, IBV_WR_RDMA_READ,
			     OPERATION_READ },
};

const char *const side_names[SIDE_COUNT] = { [SIDE_BARE] = "bare", [SIDE_LAYER] = "layer" };
