#include "knocker.h"

#include <endian.h>
#include <errno.h>
#include <linux/errqueue.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../link/address.h"
#include "../link/socket.h"
#include "gsi.h"

#define ABOUT_OTHER 2

#define PACKET_SIZE (UR_MAX_HEADERS + UR_MAD_SIZE + UR_ICRC_SIZE)

/* What others could keep it busy with. */
#define REPORTS_AT_ONCE 64

/* For the error, and who reports it. */
union control {
	struct cmsghdr align;
	char bytes[CMSG_SPACE(sizeof(struct sock_extended_err) + sizeof(struct sockaddr_in6))];
};

static int ask_for_reports(int fd, const union ur_sockaddr *source)
{
	const int on = 1;

	if (ur_address_is_ipv4(source))
		return setsockopt(fd, IPPROTO_IP, IP_RECVERR, &on, sizeof(on));
	return setsockopt(fd, IPPROTO_IPV6, IPV6_RECVERR, &on, sizeof(on));
}

static int open_socket(struct ur_knocker *knocker)
{
	socklen_t size = sizeof(knocker->source);
	struct ur_socket sock;
	int error;

	ur_address_set_port(&knocker->source, 0);
	error = ur_socket_open(&sock, &knocker->source, 0);
	if (error)
		return error;
	knocker->fd = sock.fd;
	if (ask_for_reports(sock.fd, &knocker->source) == 0 &&
	    getsockname(sock.fd, &knocker->source.any, &size) == 0)
		return 0;
	error = errno;
	close(sock.fd);
	return error;
}

struct ur_knocker *ur_knocker_open(const union ur_sockaddr *source)
{
	struct ur_knocker *knocker = calloc(1, sizeof(*knocker));
	int error;

	if (!knocker)
		return NULL;
	knocker->source = *source;
	error = open_socket(knocker);
	if (!error)
		return knocker;
	free(knocker);
	errno = error;
	return NULL;
}

void ur_knocker_close(struct ur_knocker *knocker)
{
	if (!knocker)
		return;
	close(knocker->fd);
	free(knocker);
}

/* ---- Sending ---- */

static size_t put_packet(const struct ur_flow *flow, const struct ur_cm_message *message,
			 uint8_t bytes[PACKET_SIZE])
{
	const struct ur_packet packet = ur_gsi_packet(0);
	size_t size = ur_packet_encode(&packet, bytes);
	uint32_t icrc;

	ur_cm_encode(message, bytes + size);
	size += UR_MAD_SIZE;
	icrc = htole32(ur_icrc(flow, 0, &(struct iovec){ bytes, size }, 1));
	memcpy(bytes + size, &icrc, sizeof(icrc));
	return size + sizeof(icrc);
}

void ur_knocker_send(const struct ur_knocker *knocker, const union ur_sockaddr *dest,
		     uint32_t local_id, uint32_t remote_id)
{
	const struct ur_cm_message mra = { .kind = UR_CM_MRA,
					   .local_id = local_id,
					   .remote_id = remote_id,
					   .mra.message = ABOUT_OTHER };
	const struct ur_flow flow = { knocker->source, *dest };
	uint8_t bytes[PACKET_SIZE];
	size_t size;
	ssize_t sent;

	size = put_packet(&flow, &mra, bytes);
	sent = sendto(knocker->fd, bytes, size, 0, &dest->any, ur_address_size(dest));
	/* Instead of sending, it may say that there is something to hear. */
	if (sent < 0 && errno == ECONNREFUSED)
		sendto(knocker->fd, bytes, size, 0, &dest->any, ur_address_size(dest));
}

/* ---- Hearing ---- */

/* Whether the peer's system itself says so: others on the way know nothing of its ports. */
static bool is_of_host(struct cmsghdr *control, const union ur_sockaddr *dest)
{
	bool is_ipv4 = ur_address_is_ipv4(dest);
	union ur_sockaddr offender;
	struct sock_extended_err error;

	if (!control || control->cmsg_len < CMSG_LEN(sizeof(error) + ur_address_size(dest)) ||
	    control->cmsg_level != (is_ipv4 ? IPPROTO_IP : IPPROTO_IPV6) ||
	    control->cmsg_type != (is_ipv4 ? IP_RECVERR : IPV6_RECVERR))
		return false;
	memcpy(&error, CMSG_DATA(control), sizeof(error));
	memcpy(&offender, CMSG_DATA(control) + sizeof(error), ur_address_size(dest));
	return error.ee_errno == ECONNREFUSED && ur_address_same_host(&offender, dest);
}

static bool is_message(const uint8_t *bytes, size_t size, struct ur_cm_message *message)
{
	struct ur_packet packet;

	return ur_packet_decode(bytes, size, &packet) == UR_DECODED &&
	       ur_cm_decode(packet.payload, packet.payload_length, message) == UR_CM_DECODED;
}

/* Strangers' datagrams, which would take the room of reports; and an error that is without one. */
static void drop_input(const struct ur_knocker *knocker)
{
	char byte;

	for (unsigned i = 0; i < REPORTS_AT_ONCE; i++)
		if (recv(knocker->fd, &byte, sizeof(byte), MSG_DONTWAIT) < 0)
			return;
}

bool ur_knocker_hear(const struct ur_knocker *knocker, union ur_sockaddr *dest,
		     struct ur_cm_message *message)
{
	for (unsigned i = 0; i < REPORTS_AT_ONCE; i++) {
		uint8_t bytes[PACKET_SIZE];
		union control control;
		struct iovec piece = { bytes, sizeof(bytes) };
		struct msghdr header = { .msg_name = dest,
					 .msg_namelen = sizeof(*dest),
					 .msg_iov = &piece,
					 .msg_iovlen = 1,
					 .msg_control = &control,
					 .msg_controllen = sizeof(control) };
		ssize_t size = recvmsg(knocker->fd, &header, MSG_ERRQUEUE | MSG_DONTWAIT);

		if (size < 0)
			break;
		if (is_of_host(CMSG_FIRSTHDR(&header), dest) &&
		    is_message(bytes, (size_t)size, message))
			return true;
	}
	drop_input(knocker);
	return false;
}
