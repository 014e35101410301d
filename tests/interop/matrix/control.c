#include "control.h"

#include <err.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

/* For all that the other may be doing meanwhile. */
#define PATIENCE_S 60

static int set_up(int fd)
{
	const struct timeval patience = { .tv_sec = PATIENCE_S };
	int on = 1;

	if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) != 0)
		err(EXIT_FAILURE, "control: setsockopt");
	return fd;
}

int control_accept(uint16_t port)
{
	const struct sockaddr_in6 any = { .sin6_family = AF_INET6, .sin6_port = htons(port) };
	int listener = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1, fd;

	if (listener < 0 || setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
	    bind(listener, (const struct sockaddr *)&any, sizeof(any)) != 0 ||
	    listen(listener, 1) != 0)
		err(EXIT_FAILURE, "control: cannot listen at port %u", port);
	fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	if (fd < 0)
		err(EXIT_FAILURE, "control: accept");
	close(listener);
	return set_up(fd);
}

int control_connect(const char *address, uint16_t port)
{
	const struct addrinfo hints = { .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
					.ai_socktype = SOCK_STREAM };
	struct addrinfo *found;
	char service[8];
	int error, fd;

	snprintf(service, sizeof(service), "%u", port);
	error = getaddrinfo(address, service, &hints, &found);
	if (error)
		errx(EXIT_FAILURE, "control: %s: %s", address, gai_strerror(error));
	fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, found->ai_addr, found->ai_addrlen) != 0)
		err(EXIT_FAILURE, "control: cannot connect to %s, port %u", address, port);
	freeaddrinfo(found);
	return set_up(fd);
}

void control_exchange(int control, const void *ours, void *theirs, size_t size)
{
	ssize_t received;

	if (send(control, ours, size, MSG_NOSIGNAL) != (ssize_t)size)
		err(EXIT_FAILURE, "control: send");
	received = recv(control, theirs, size, MSG_WAITALL);
	if (received < 0)
		err(EXIT_FAILURE, "control: recv");
	if (received != (ssize_t)size)
		errx(EXIT_FAILURE, "control: the other process has ended");
}
