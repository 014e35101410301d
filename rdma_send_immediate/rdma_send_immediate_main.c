#include "sample.h"

#include "rdma_send_immediate_sample.h"

static const struct program program = {
	.name = "rdma_send_immediate",
	.peer = "rdma_receive_immediate",
	.stranger = "rdma_receive",
	.summary = "Sends a text with an immediate value.",
	.groups = OPTION_EXCHANGE | OPTION_CM | OPTION_SEND_STRING | OPTION_IMMEDIATE,
};

int main(int argc, char **argv)
{
	return sample_main(&program, rdma_send_immediate, argc, argv);
}
