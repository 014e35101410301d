#include "sample.h"

#include "rdma_write_immediate_requester_sample.h"

static const struct program program = {
	.name = "rdma_write_immediate_requester",
	.peer = "rdma_write_immediate_responder",
	.resource_owner = "rdma_write_immediate_responder",
	.resource = RS_DESCRIPTOR_MMAP,
	.summary =
		"Writes a text into the responder's memory and tells it so by an immediate value.",
	.groups = OPTION_EXCHANGE | OPTION_CM | OPTION_RESOURCE | OPTION_WRITE_STRING |
		  OPTION_IMMEDIATE,
};

int main(int argc, char **argv)
{
	return sample_main(&program, rdma_write_immediate_requester, argc, argv);
}
