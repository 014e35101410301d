#include "sample.h"

#include "rdma_write_responder_sample.h"

static const struct program program = {
	.name = "rdma_write_responder",
	.peer = "rdma_write_requester",
	.resource_owner = "rdma_write_responder",
	.resource = RS_DESCRIPTOR_MMAP,
	.summary = "Lets the requester write into its memory by RDMA and prints what it wrote.",
	.groups = OPTION_EXCHANGE | OPTION_CM | OPTION_RESOURCE,
};

int main(int argc, char **argv)
{
	return sample_main(&program, rdma_write_responder, argc, argv);
}
