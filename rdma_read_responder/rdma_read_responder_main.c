#include "rdma_read_responder_sample.h"

static const struct program program = {
	.name = "rdma_read_responder",
	.peer = "rdma_read_requester",
	.resource_owner = "rdma_read_responder",
	.summary = "Lets the requester read a text in its memory by RDMA.",
	.groups = OPTION_EXCHANGE | OPTION_RESOURCE | OPTION_READ_STRING,
};

int main(int argc, char **argv)
{
	struct options options;
	int exit_status;

	if (!options_parse(&program, argc, argv, &options, &exit_status))
		return exit_status;
	return rdma_read_responder(&options);
}
