#define LOG_MODULE "peer"

#include "peer.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <time.h>

#include "log.h"

/* Longer than a device tries to send a request with the layer's parameters. */
#define STALL_SECONDS 60

#define NS_PER_SECOND 1000000000

int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * (int64_t)NS_PER_SECOND + now.tv_nsec;
}

static enum rs_status peer_has_gone(void)
{
	LOG_ERROR("the other process has ended");
	return RS_ERR_DISCONNECTED;
}

enum rs_status peer_send(struct peer *peer, const void *message, size_t size)
{
	const char *at = message;

	while (size > 0) {
		ssize_t sent = send(peer->fd, at, size, MSG_NOSIGNAL);

		if (sent < 0 && errno == EINTR)
			continue;
		if (sent < 0 && (errno == EPIPE || errno == ECONNRESET))
			return peer_has_gone();
		if (sent < 0)
			return LOG_FAILED_CALL(errno, NULL, "send(%zu bytes)", size);
		at += sent;
		size -= (size_t)sent;
	}
	return RS_OK;
}

enum rs_status peer_receive(struct peer *peer, void *message, size_t size)
{
	char *at = message;

	while (size > 0) {
		ssize_t received = recv(peer->fd, at, size, 0);

		if (received < 0 && errno == EINTR)
			continue;
		if (received == 0 || (received < 0 && errno == ECONNRESET))
			return peer_has_gone();
		if (received < 0)
			return LOG_FAILED_CALL(errno, NULL, "recv(%zu bytes)", size);
		at += received;
		size -= (size_t)received;
	}
	return RS_OK;
}

enum rs_status peer_exchange(struct peer *peer, const void *mine, void *theirs, size_t size)
{
	enum rs_status status = peer_send(peer, mine, size);

	return status == RS_OK ? peer_receive(peer, theirs, size) : status;
}

enum rs_status peer_look(struct peer *peer)
{
	struct pollfd pollfd = { .fd = peer->fd, .events = 0 };

	if (poll(&pollfd, 1, 0) > 0)
		return peer_has_gone();
	if (peer->empty_polls == POLLS_PER_LOOK)
		peer->waiting_since = now_ns();
	if (now_ns() - peer->waiting_since > (int64_t)STALL_SECONDS * NS_PER_SECOND) {
		LOG_ERROR("no completion came for %d seconds", STALL_SECONDS);
		return RS_ERR_TIMED_OUT;
	}
	return RS_OK;
}
