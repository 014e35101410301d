#include "event_fd.h"

#include <stdint.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

int ur_event_fd_open(void)
{
	return eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
}

void ur_event_fd_add(int fd)
{
	eventfd_write(fd, 1);
}

int ur_event_fd_take(int fd)
{
	eventfd_t token;

	return eventfd_read(fd, &token);
}

void ur_event_fd_withdraw(int fd)
{
	uint64_t token;
	struct iovec iov = { .iov_base = &token, .iov_len = sizeof(token) };

	/* Nothing there: a thread that is about to look into the list has it. */
	if (preadv2(fd, &iov, 1, -1, RWF_NOWAIT) < 0)
		return;
}
