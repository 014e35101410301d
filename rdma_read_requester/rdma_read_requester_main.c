#include "sample.h"

#include "rdma_read_requester_sample.h"

static const struct program program = {
	.name = "rdma_read_requester",
	.peer = "rdma_read_responder",
	.resource_owner = "rdma_read_responder",
	.resource = RS_DESCRIPTOR_MMAP,
	.summary = "Reads the text in the responder's memory by RDMA and prints it.",
	.groups = OPTION_EXCHANGE | OPTION_CM | OPTION_RESOURCE,
};

int main(int argc, char **argv)
{
	return sample_main(&program, rdma_read_requester, argc, argv);
}
