#define LOG_MODULE "main"

#include "two_processes.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "log.h"
#include "processor.h"

static int exit_status_of(enum rs_status status)
{
	return status == RS_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* Whether the server ended well. */
static enum rs_status await_server(pid_t server)
{
	int status;

	while (waitpid(server, &status, 0) < 0)
		if (errno != EINTR)
			return LOG_FAILED_SYSTEM_CALL(errno, "waitpid()");
	return WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS ? RS_OK : RS_ERR_UNKNOWN;
}

int two_processes_run(process_fn serve, process_fn measure, const struct arguments *arguments)
{
	enum rs_status status, server_status;
	pid_t server;
	int fds[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
		return exit_status_of(LOG_FAILED_SYSTEM_CALL(errno, "socketpair()"));
	server = fork();
	if (server < 0)
		return exit_status_of(LOG_FAILED_SYSTEM_CALL(errno, "fork()"));
	close(fds[server == 0 ? 0 : 1]);
	processor_bind(server == 0 ? 1 : 0);
	if (server == 0)
		return exit_status_of(serve(fds[1], arguments));
	status = measure(fds[0], arguments);
	server_status = await_server(server);
	if (status == RS_OK && server_status != RS_OK)
		LOG_ERROR("the server process failed after the measurement");
	return exit_status_of(status == RS_OK ? server_status : status);
}
