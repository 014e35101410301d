#include "sample.h"

#include "rdma_write_requester_sample.h"

static const struct program program = {
	.name = "rdma_write_requester",
	.peer = "rdma_write_responder",
	.resource_owner = "rdma_write_responder",
	.resource = RS_DESCRIPTOR_MMAP,
	.summary = "Writes a text into the responder's memory by RDMA.",
	.groups = OPTION_EXCHANGE | OPTION_CM | OPTION_RESOURCE | OPTION_WRITE_STRING,
};

int main(int argc, char **argv)
{
	return sample_main(&program, rdma_write_requester, argc, argv);
}
