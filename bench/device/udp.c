#define LOG_MODULE "udp"

#include "udp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "log.h"

#define BUFFER_SIZE 65536

/* A window of so many batches has the greatest rate; the receiver acknowledges half a window. */
#define MAX_WINDOW 8
#define MIN_WINDOW 2

/* What a batch takes up of a receive buffer, as the kernel counts. */
#define BATCH_COST ((int)UDP_BATCH_SIZE * 5 / 4)

/* For the default limit (net.core.rmem_max) is less than the window needs. */
#define RECEIVE_BUFFER (2 * MAX_WINDOW * BATCH_COST)

/* Whoever waits longer has lost what it waits for. */
#define LOSS_SECONDS 30

static enum rs_status set_option(int fd, int level, int name, const char *text, int value)
{
	if (setsockopt(fd, level, name, &value, sizeof(value)) < 0)
		return LOG_FAILED_SYSTEM_CALL(errno, "setsockopt(%s, %d)", text, value);
	return RS_OK;
}

/* Gets as much as the system allows, and a window that fits it. */
static enum rs_status set_window(struct udp *udp)
{
	socklen_t length = sizeof(int);
	int size = RECEIVE_BUFFER;

	if (setsockopt(udp->fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)) < 0)
		setsockopt(udp->fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	if (getsockopt(udp->fd, SOL_SOCKET, SO_RCVBUF, &size, &length) < 0)
		return LOG_FAILED_SYSTEM_CALL(errno, "getsockopt(SO_RCVBUF)");
	udp->window = (unsigned)(size / BATCH_COST);
	if (udp->window > MAX_WINDOW)
		udp->window = MAX_WINDOW;
	if (udp->window < MIN_WINDOW)
		udp->window = MIN_WINDOW;
	return RS_OK;
}

static enum rs_status set_options(struct udp *udp)
{
	struct timeval timeout = { .tv_sec = LOSS_SECONDS };
	enum rs_status status = set_window(udp);

	if (status == RS_OK && udp->is_client)
		status =
			set_option(udp->fd, SOL_UDP, UDP_SEGMENT, "UDP_SEGMENT", UDP_DATAGRAM_SIZE);
	if (status == RS_OK && !udp->is_client)
		status = set_option(udp->fd, SOL_UDP, UDP_GRO, "UDP_GRO", 1);
	if (status == RS_OK &&
	    setsockopt(udp->fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)) < 0)
		status = LOG_FAILED_SYSTEM_CALL(errno, "setsockopt(SO_RCVTIMEO)");
	return status;
}

/* What both sides say to each other. */
struct greeting {
	struct sockaddr_in address;
	unsigned window;
};

static enum rs_status connect_sockets(struct udp *udp, struct peer *peer)
{
	struct greeting mine = { .address = { .sin_family = AF_INET,
					      .sin_addr = { htonl(INADDR_LOOPBACK) } },
				 .window = udp->window },
			theirs;
	socklen_t length = sizeof(mine.address);
	enum rs_status status;

	if (bind(udp->fd, (struct sockaddr *)&mine.address, length) < 0 ||
	    getsockname(udp->fd, (struct sockaddr *)&mine.address, &length) < 0)
		return LOG_FAILED_SYSTEM_CALL(errno, "bind(127.0.0.1)");
	status = peer_exchange(peer, &mine, &theirs, sizeof(mine));
	if (status != RS_OK)
		return status;
	udp->window = mine.window < theirs.window ? mine.window : theirs.window;
	if (connect(udp->fd, (struct sockaddr *)&theirs.address, sizeof(theirs.address)) < 0)
		return LOG_FAILED_SYSTEM_CALL(errno, "connect(127.0.0.1)");
	return RS_OK;
}

enum rs_status udp_open(struct udp *udp, bool is_client, struct peer *peer)
{
	enum rs_status status;

	*udp = (struct udp){ .is_client = is_client,
			     .watched = peer,
			     .buffer = calloc(1, BUFFER_SIZE) };
	udp->fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (udp->fd < 0)
		return LOG_FAILED_SYSTEM_CALL(errno, "socket()");
	if (!udp->buffer)
		return LOG_FAILED_SYSTEM_CALL(ENOMEM, "calloc()");
	status = set_options(udp);
	return status == RS_OK ? connect_sockets(udp, peer) : status;
}

void udp_close(struct udp *udp)
{
	if (udp->fd >= 0)
		close(udp->fd);
	free(udp->buffer);
}

static enum rs_status send_bytes(struct udp *udp, const void *bytes, size_t size)
{
	if (send(udp->fd, bytes, size, 0) != (ssize_t)size)
		return LOG_FAILED_SYSTEM_CALL(errno, "send(%zu bytes)", size);
	return RS_OK;
}

/* Waits asleep. */
static enum rs_status receive(struct udp *udp, void *bytes, size_t size, size_t *received)
{
	ssize_t result = recv(udp->fd, bytes, size, 0);

	if (result < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
		LOG_ERROR("datagrams were lost on loopback: nothing came for %d seconds",
			  LOSS_SECONDS);
		return RS_ERR_TIMED_OUT;
	}
	if (result < 0)
		return LOG_FAILED_SYSTEM_CALL(errno, "recv()");
	*received = (size_t)result;
	return RS_OK;
}

/* Waits awake. */
static enum rs_status spin_receive(struct udp *udp, size_t size)
{
	enum rs_status status = RS_OK;
	ssize_t result;

	do {
		result = recv(udp->fd, udp->buffer, size, MSG_DONTWAIT);
		if (result < 0 && errno != EAGAIN && errno != EWOULDBLOCK)
			return LOG_FAILED_SYSTEM_CALL(errno, "recv()");
		status = peer_watch(udp->watched, result > 0);
	} while (status == RS_OK && result < 0);
	return status;
}

static enum rs_status ping_pong(struct udp *udp, const struct run *run)
{
	size_t size = rows[run->row].size;
	enum rs_status status = RS_OK;

	for (uint64_t i = 0; i < run->count && status == RS_OK; i++) {
		if (!udp->is_client)
			status = spin_receive(udp, size);
		if (status == RS_OK)
			status = send_bytes(udp, udp->buffer, size);
		if (status == RS_OK && udp->is_client)
			status = spin_receive(udp, size);
	}
	return status;
}

/* Waits for what tells how many batches have arrived in all. */
static enum rs_status await_acknowledgement(struct udp *udp, uint64_t *acknowledged)
{
	size_t received;

	return receive(udp, acknowledged, sizeof(*acknowledged), &received);
}

static enum rs_status send_batches(struct udp *udp, uint64_t count)
{
	uint64_t acknowledged = 0;
	enum rs_status status = RS_OK;

	for (uint64_t sent = 0; sent < count && status == RS_OK; sent++) {
		while (status == RS_OK && sent - acknowledged >= udp->window)
			status = await_acknowledgement(udp, &acknowledged);
		if (status == RS_OK)
			status = send_bytes(udp, udp->buffer, UDP_BATCH_SIZE);
	}
	while (status == RS_OK && acknowledged < count)
		status = await_acknowledgement(udp, &acknowledged);
	return status;
}

static enum rs_status receive_batches(struct udp *udp, uint64_t count)
{
	uint64_t bytes = 0, acknowledged = 0;
	enum rs_status status = RS_OK;

	while (status == RS_OK && acknowledged < count) {
		size_t received = 0;
		uint64_t batches;

		status = receive(udp, udp->buffer, BUFFER_SIZE, &received);
		bytes += received;
		batches = bytes / UDP_BATCH_SIZE;
		if (status == RS_OK &&
		    (batches == count || batches - acknowledged >= udp->window / 2)) {
			acknowledged = batches;
			status = send_bytes(udp, &acknowledged, sizeof(acknowledged));
		}
	}
	return status;
}

enum rs_status udp_run(struct udp *udp, const struct run *run)
{
	if (run->row == ROW_UDP_LATENCY)
		return ping_pong(udp, run);
	return udp->is_client ? send_batches(udp, run->count) : receive_batches(udp, run->count);
}
