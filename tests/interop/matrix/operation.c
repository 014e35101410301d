#include "operation.h"

const struct operation operations[] = {
	{ .name = "send",
	  .opcode = IBV_WR_SEND,
	  .sent = IBV_WC_SEND,
	  .is_send = true,
	  .takes_receive = true,
	  .received = IBV_WC_RECV },
	{ .name = "send_imm",
	  .opcode = IBV_WR_SEND_WITH_IMM,
	  .sent = IBV_WC_SEND,
	  .is_send = true,
	  .takes_receive = true,
	  .received = IBV_WC_RECV,
	  .has_imm = true },
	{ .name = "write", .opcode = IBV_WR_RDMA_WRITE, .sent = IBV_WC_RDMA_WRITE },
	{ .name = "write_imm",
	  .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
	  .sent = IBV_WC_RDMA_WRITE,
	  .takes_receive = true,
	  .received = IBV_WC_RECV_RDMA_WITH_IMM,
	  .has_imm = true },
	{ .name = "read", .opcode = IBV_WR_RDMA_READ, .sent = IBV_WC_RDMA_READ },
};

const size_t operation_count = sizeof(operations) / sizeof(operations[0]);
