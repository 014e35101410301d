#include "command_fd.h"

#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#define MAGIC "uroce command descriptor"

struct content {
	char magic[sizeof(MAGIC)];
	pid_t process;
	char if_name[IFNAMSIZ];
};

int ur_command_fd_open(const char *if_name)
{
	struct content content = { .magic = MAGIC, .process = getpid() };
	int fd = memfd_create("uroce", MFD_CLOEXEC);
	int error;

	if (fd < 0)
		return -1;
	snprintf(content.if_name, sizeof(content.if_name), "%s", if_name);
	if (write(fd, &content, sizeof(content)) == (ssize_t)sizeof(content))
		return fd;
	error = errno;
	close(fd);
	errno = error;
	return -1;
}

/* Regular files only: to read from anything else could wait, or take something away. */
static bool read_content(int fd, struct content *content)
{
	struct stat status;

	return fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
	       pread(fd, content, sizeof(*content), 0) == (ssize_t)sizeof(*content) &&
	       memcmp(content->magic, MAGIC, sizeof(MAGIC)) == 0;
}

bool ur_command_fd_is_ours(int fd)
{
	struct content content;

	return read_content(fd, &content);
}

int ur_command_fd_read(int fd, char *if_name, size_t size)
{
	struct content content;

	if (!read_content(fd, &content) || content.process != getpid())
		return EOPNOTSUPP;
	snprintf(if_name, size, "%.*s", IFNAMSIZ - 1, content.if_name);
	return 0;
}
