#include "sample.h"

#include "rdma_receive_immediate_sample.h"

static const struct program program = {
	.name = "rdma_receive_immediate",
	.peer = "rdma_send_immediate",
	.stranger = "rdma_send",
	.summary = "Receives a text with an immediate value and prints both.",
	.groups = OPTION_EXCHANGE | OPTION_CM,
};

int main(int argc, char **argv)
{
	return sample_main(&program, rdma_receive_immediate, argc, argv);
}
