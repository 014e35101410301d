#define LOG_MODULE "program"

#include "program.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "log.h"
#include "peer.h"

/* As shells have it. */
#define STATUS_NOT_FOUND 127

#define LISTEN_SECONDS 10
#define LISTEN_POLL_MS 5

#define NS_PER_SECOND 1e9

void command_format(struct command *command, const char *format, ...)
{
	va_list arguments;
	size_t count = 0;
	char *rest;

	va_start(arguments, format);
	vsnprintf(command->text, sizeof(command->text), format, arguments);
	va_end(arguments);
	command->words[0] = strtok_r(command->text, " ", &rest);
	while (command->words[count] && count + 1 < sizeof(command->words) / sizeof(char *))
		command->words[++count] = strtok_r(NULL, " ", &rest);
	command->words[count] = NULL;
}

static _Noreturn void run_child(const struct command *command, int output)
{
	int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	dup2(nothing, STDIN_FILENO);
	dup2(output, STDOUT_FILENO);
	dup2(nothing, STDERR_FILENO);
	execvp(command->words[0], command->words);
	_exit(STATUS_NOT_FOUND);
}

enum rs_status program_start(struct program *program, const struct command *command)
{
	int fds[2];

	*program = (struct program){ .pid = 0 };
	if (pipe2(fds, O_CLOEXEC) < 0)
		return LOG_FAILED_SYSTEM_CALL(errno, "pipe2()");
	/* No copy of memory that a device may be working on. */
	program->pid = vfork();
	if (program->pid == 0)
		run_child(command, fds[1]);
	close(fds[1]);
	if (program->pid < 0) {
		program->pid = 0;
		close(fds[0]);
		return LOG_FAILED_SYSTEM_CALL(errno, "vfork()");
	}
	program->output = fds[0];
	return RS_OK;
}

enum rs_status program_choose_port(uint16_t *port)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_addr = { htonl(INADDR_LOOPBACK) } };
	socklen_t length = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	enum rs_status status = RS_OK;

	if (fd < 0)
		return LOG_FAILED_SYSTEM_CALL(errno, "socket()");
	if (bind(fd, (struct sockaddr *)&address, length) < 0 ||
	    getsockname(fd, (struct sockaddr *)&address, &length) < 0)
		status = LOG_FAILED_SYSTEM_CALL(errno, "bind(127.0.0.1)");
	close(fd);
	*port = ntohs(address.sin_port);
	return status;
}

/* Looks it up with the kernel, as a connection would be taken for the client's. */
static bool is_listening(uint16_t port)
{
	FILE *file = fopen("/proc/net/tcp", "re");
	bool found = false;
	char line[256];

	while (file && !found && fgets(line, sizeof(line), file)) {
		unsigned local_port, state;

		found = sscanf(line, " %*d: %*x:%x %*x:%*x %x", &local_port, &state) == 2 &&
			local_port == port && state == 0x0a;
	}
	if (file)
		fclose(file);
	return found;
}

static enum outcome outcome_of(int status)
{
	if (!WIFEXITED(status))
		return OUTCOME_FAILED;
	if (WEXITSTATUS(status) == STATUS_NOT_FOUND)
		return OUTCOME_NOT_INSTALLED;
	return WEXITSTATUS(status) == 0 ? OUTCOME_MEASURED : OUTCOME_FAILED;
}

static bool has_ended(struct program *program, int *status)
{
	if (waitpid(program->pid, status, WNOHANG) != program->pid)
		return false;
	close(program->output);
	program->pid = 0;
	return true;
}

enum outcome program_await_listening(struct program *program, uint16_t port)
{
	int64_t deadline = now_ns() + (int64_t)(LISTEN_SECONDS * NS_PER_SECOND);
	int status;

	while (!is_listening(port)) {
		if (has_ended(program, &status))
			return outcome_of(status) == OUTCOME_NOT_INSTALLED ? OUTCOME_NOT_INSTALLED
									   : OUTCOME_FAILED;
		if (now_ns() > deadline)
			return OUTCOME_FAILED;
		poll(NULL, 0, LISTEN_POLL_MS);
	}
	return OUTCOME_MEASURED;
}

/* False: it is over, well or not. */
static bool read_more(struct program *program, char *output, size_t *used, int64_t deadline)
{
	struct pollfd pollfd = { .fd = program->output, .events = POLLIN };
	int64_t left_ms = (deadline - now_ns()) / 1000000;
	ssize_t count;

	if (left_ms <= 0 || *used + 1 == PROGRAM_OUTPUT_SIZE || poll(&pollfd, 1, (int)left_ms) <= 0)
		return false;
	count = read(program->output, output + *used, PROGRAM_OUTPUT_SIZE - 1 - *used);
	if (count <= 0)
		return false;
	*used += (size_t)count;
	return true;
}

enum outcome program_read(struct program *program, char output[PROGRAM_OUTPUT_SIZE], double seconds)
{
	int64_t deadline = now_ns() + (int64_t)(seconds * NS_PER_SECOND);
	size_t used = 0;
	int status;

	while (read_more(program, output, &used, deadline))
		continue;
	output[used] = '\0';
	while (!has_ended(program, &status)) {
		if (now_ns() > deadline) {
			program_end(program);
			return OUTCOME_TOO_SLOW;
		}
		poll(NULL, 0, LISTEN_POLL_MS);
	}
	return outcome_of(status);
}

void program_end(struct program *program)
{
	if (program->pid == 0)
		return;
	kill(program->pid, SIGKILL);
	waitpid(program->pid, NULL, 0);
	close(program->output);
	program->pid = 0;
}
