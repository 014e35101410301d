#include "sample.h"

#include "rdma_send_sample.h"

static const struct program program = {
	.name = "rdma_send",
	.peer = "rdma_receive",
	.stranger = "rdma_receive_immediate",
	.summary = "Sends a text.",
	.groups = OPTION_EXCHANGE | OPTION_CM | OPTION_SEND_STRING,
};

int main(int argc, char **argv)
{
	return sample_main(&program, rdma_send, argc, argv);
}
