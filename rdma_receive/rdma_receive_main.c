#include "sample.h"

#include "rdma_receive_sample.h"

static const struct program program = {
	.name = "rdma_receive",
	.peer = "rdma_send",
	.stranger = "rdma_send_immediate",
	.summary = "Receives a text and prints it.",
	.groups = OPTION_EXCHANGE | OPTION_CM,
};

int main(int argc, char **argv)
{
	return sample_main(&program, rdma_receive, argc, argv);
}
