#include "rdma_read_requester_sample.h"

static const struct program program = {
	.name = "rdma_read_requester",
	.peer = "rdma_read_responder",
	.resource_owner = "rdma_read_responder",
	.summary = "Reads the text in the responder's memory by RDMA and prints it.",
	.groups = OPTION_EXCHANGE | OPTION_RESOURCE,
};

int main(int argc, char **argv)
{
	struct options options;
	int exit_status;

	if (!options_parse(&program, argc, argv, &options, &exit_status))
		return exit_status;
	return rdma_read_requester(&options);
}
