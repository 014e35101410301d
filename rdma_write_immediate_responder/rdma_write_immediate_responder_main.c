#include "sample.h"

#include "rdma_write_immediate_responder_sample.h"

static const struct program program = {
	.name = "rdma_write_immediate_responder",
	.peer = "rdma_write_immediate_requester",
	.resource_owner = "rdma_write_immediate_responder",
	.resource = RS_DESCRIPTOR_MMAP,
	.summary = "Waits for the requester's write and its immediate value and prints both.",
	.groups = OPTION_EXCHANGE | OPTION_CM | OPTION_RESOURCE,
};

int main(int argc, char **argv)
{
	return sample_main(&program, rdma_write_immediate_responder, argc, argv);
}
