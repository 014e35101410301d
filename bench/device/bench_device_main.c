/* Measures an RDMA device, and what to compare it with: see bench/README.md. */

#include "arguments.h"
#include "client.h"
#include "server.h"
#include "two_processes.h"

int main(int argc, char **argv)
{
	struct arguments arguments;
	int exit_status;

	if (!arguments_parse(argc, argv, &arguments, &exit_status))
		return exit_status;
	return two_processes_run(serve, measure, &arguments);
}
