#include "rdma_cm_client_sample.h"

static const struct program program = {
	.name = "rdma_cm_client",
	.peer = "rdma_cm_server",
	.summary = "Connects by address, sends a text and gets it back: librdmacm, synchronously.",
	.groups = OPTION_SYNC_CLIENT | OPTION_SEND_STRING,
};

int main(int argc, char **argv)
{
	struct options options;
	int exit_status;

	if (!options_parse(&program, argc, argv, &options, &exit_status))
		return exit_status;
	return rdma_cm_client(&options);
}
