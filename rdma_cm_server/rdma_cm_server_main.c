#include "rdma_cm_server_sample.h"

static const struct program program = {
	.name = "rdma_cm_server",
	.peer = "rdma_cm_client",
	.summary = "Waits for one client and sends its text back: librdmacm, synchronously.",
	.groups = OPTION_SYNC_SERVER,
};

int main(int argc, char **argv)
{
	struct options options;
	int exit_status;

	if (!options_parse(&program, argc, argv, &options, &exit_status))
		return exit_status;
	return rdma_cm_server(&options);
}
