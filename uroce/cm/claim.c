#include "claim.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "../core/log.h"

/* What others could keep the reader busy with. */
#define SKIPPED_AT_ONCE 8

_Static_assert(sizeof(struct ur_claimed) == 2 * sizeof(struct sockaddr_in6) + UR_MAD_SIZE,
	       "nothing of this process's memory goes along as padding");

/* For the sender's user. */
union control {
	struct cmsghdr align;
	char bytes[CMSG_SPACE(sizeof(struct ucred))];
};

static int open_socket(void)
{
	return socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

/* Returns the size. An abstract name begins with a zero, and ends with its size. */
static socklen_t make_name(uint64_t service_id, struct sockaddr_un *name)
{
	*name = (struct sockaddr_un){ .sun_family = AF_UNIX };
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
			   (size_t)snprintf(name->sun_path + 1, sizeof(name->sun_path) - 1,
					    "uroce/cm/%" PRIx64, service_id));
}

/* A socket that is connected to itself takes nothing from others. */
static int take_name(int fd, uint64_t service_id)
{
	struct sockaddr_un name;
	socklen_t size = make_name(service_id, &name);
	const int on = 1;

	if (setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) < 0 ||
	    bind(fd, (struct sockaddr *)&name, size) < 0 ||
	    connect(fd, (struct sockaddr *)&name, size) < 0)
		return errno;
	return 0;
}

int ur_claim_open(uint64_t service_id)
{
	int fd = open_socket();
	int error = fd < 0 ? errno : take_name(fd, service_id);

	if (!error)
		return fd;
	if (fd >= 0)
		close(fd);
	if (error != EADDRINUSE)
		ur_log(UR_LOG_ERROR, "cannot claim service 0x%" PRIx64 ": %s", service_id,
		       strerror(error));
	errno = error;
	return -1;
}

void ur_claim_listen(int fd)
{
	const struct sockaddr nobody = { .sa_family = AF_UNSPEC };

	if (connect(fd, &nobody, sizeof(nobody)) < 0)
		ur_log(UR_LOG_ERROR, "cannot listen for requests: %s", strerror(errno));
}

/* Nobody can send any more when what was sent is taken out. */
void ur_claim_ignore(int fd, uint64_t service_id)
{
	struct sockaddr_un name;
	socklen_t size = make_name(service_id, &name);
	char byte;

	if (connect(fd, (struct sockaddr *)&name, size) < 0)
		ur_log(UR_LOG_ERROR, "cannot stop to listen for requests: %s", strerror(errno));
	while (recv(fd, &byte, sizeof(byte), MSG_DONTWAIT) >= 0)
		;
}

static bool is_trusted(struct msghdr *header)
{
	struct cmsghdr *control = CMSG_FIRSTHDR(header);
	struct ucred sender;

	if (!control || control->cmsg_level != SOL_SOCKET || control->cmsg_type != SCM_CREDENTIALS)
		return false;
	memcpy(&sender, CMSG_DATA(control), sizeof(sender));
	/* The sender's is its real one. */
	return sender.uid == 0 || sender.uid == geteuid() || sender.uid == getuid();
}

static bool is_well_formed(const struct ur_claimed *request)
{
	sa_family_t family = request->from.any.sa_family;

	return (family == AF_INET || family == AF_INET6) && request->to.any.sa_family == family;
}

bool ur_claim_read(int fd, struct ur_claimed *request)
{
	for (unsigned skipped = 0; skipped < SKIPPED_AT_ONCE; skipped++) {
		union control control;
		struct iovec piece = { request, sizeof(*request) };
		struct msghdr header = { .msg_iov = &piece,
					 .msg_iovlen = 1,
					 .msg_control = &control,
					 .msg_controllen = sizeof(control) };
		ssize_t received = recvmsg(fd, &header, MSG_CMSG_CLOEXEC);

		if (received < 0)
			return false;
		if (received == sizeof(*request) && !(header.msg_flags & MSG_TRUNC) &&
		    is_trusted(&header) && is_well_formed(request))
			return true;
	}
	return false;
}

int ur_claim_pass(uint64_t service_id, const struct ur_claimed *request)
{
	struct sockaddr_un name;
	socklen_t size = make_name(service_id, &name);
	int fd = open_socket();
	int error = 0;

	if (fd < 0)
		return errno;
	if (sendto(fd, request, sizeof(*request), 0, (struct sockaddr *)&name, size) < 0)
		error = errno;
	close(fd);
	/* Claimed, but nobody listens: see take_name. */
	return error == EPERM ? ECONNREFUSED : error;
}
