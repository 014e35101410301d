#include "sample.h"

#include "rdma_atomic_responder_sample.h"

static const struct program program = {
	.name = "rdma_atomic_responder",
	.peer = "rdma_atomic_requester",
	.resource_owner = "rdma_atomic_responder",
	.resource = RS_DESCRIPTOR_MMAP,
	.summary =
		"Lets the requester change its counter by RDMA atomics and prints the final value.",
	.groups = OPTION_EXCHANGE | OPTION_CM | OPTION_RESOURCE,
};

int main(int argc, char **argv)
{
	return sample_main(&program, rdma_atomic_responder, argc, argv);
}
