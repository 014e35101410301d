#include "sample.h"

#include "rdma_atomic_requester_sample.h"

static const struct program program = {
	.name = "rdma_atomic_requester",
	.peer = "rdma_atomic_responder",
	.resource_owner = "rdma_atomic_responder",
	.resource = RS_DESCRIPTOR_MMAP,
	.summary = "Changes the responder's counter by fetch-and-add and compare-and-swap.",
	.groups = OPTION_EXCHANGE | OPTION_CM | OPTION_RESOURCE,
};

int main(int argc, char **argv)
{
	return sample_main(&program, rdma_atomic_requester, argc, argv);
}
