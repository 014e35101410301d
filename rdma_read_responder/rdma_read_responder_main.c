#include "sample.h"

#include "rdma_read_responder_sample.h"

static const struct program program = {
	.name = "rdma_read_responder",
	.peer = "rdma_read_requester",
	.resource_owner = "rdma_read_responder",
	.resource = RS_DESCRIPTOR_MMAP,
	.summary = "Lets the requester read a text in its memory by RDMA.",
	.groups = OPTION_EXCHANGE | OPTION_CM | OPTION_RESOURCE | OPTION_READ_STRING,
};

int main(int argc, char **argv)
{
	return sample_main(&program, rdma_read_responder, argc, argv);
}
