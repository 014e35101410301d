/*
 * Sends many messages of the connection manager, as a stranger who means no good, to 127.0.0.1:
 *
 *   cm_flood PORT COUNT KIND SEED
 *
 * requests: for the service at PORT, each for another connection of another queue pair.
 * answers:  of all kinds, to ids that are made up.
 * versions: requests that are right but for the version, class or method.
 * garbage:  whatever comes: random bytes as packet, as message, or as the message's fields.
 *
 * ICRCs are right. It waits for the receiver, so that all arrive. SEED: a number from 1; another one
 * makes others.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <endian.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../../uroce/cm/port.h"
#include "../../uroce/wire/cm_message.h"
#include "../unit/uroce/link_nodes.h"
#include "../unit/uroce/network.h"

#define ADDRESS "127.0.0.1"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Of ids and queue pairs: no process has that number. */
#define NOBODY 0xffU

/*
 * With more bytes in the receiver's queue it waits, after each batch. The queue has 208 KiB at least;
 * a datagram takes one, or two.
 */
#define BATCH     64
#define QUEUE_MAX (64 << 10)
#define PAUSE_NS  200000

#define MAX_LENGTH  1024
#define FIRST_BYTES 4 /* of a message: versions, class, method */

struct flood {
	uint16_t port;
	uint64_t state;  /* of the random numbers */
	uint32_t number; /* of the next message; those of other seeds are others */
	int fd;
	struct ur_flow flow;
};

/* ---- Random numbers ---- */

/* Marsaglia's xorshift. */
static uint32_t random_number(struct flood *flood)
{
	flood->state ^= flood->state << 13;
	flood->state ^= flood->state >> 7;
	flood->state ^= flood->state << 17;
	return (uint32_t)(flood->state >> 16);
}

static void fill(struct flood *flood, void *data, size_t size)
{
	for (size_t i = 0; i < size; i++)
		((uint8_t *)data)[i] = (uint8_t)random_number(flood);
}

/* ---- Packets: each writes a datagram, and returns its length ---- */

static size_t build_with(const struct flood *flood, const uint8_t *payload, size_t length,
			 uint8_t *data)
{
	const struct ur_packet packet = { .opcode = UR_UD_SEND_ONLY,
					  .pkey = UR_DEFAULT_PKEY,
					  .dest_qpn = UR_GSI_QPN,
					  .qkey = UR_GSI_QKEY,
					  .src_qpn = UR_GSI_QPN,
					  .payload_length = length };

	return build_datagram(&packet, &flood->flow, 0, payload, data);
}

static void make_request(const struct flood *flood, uint8_t mad[UR_MAD_SIZE])
{
	uint32_t number = flood->number;
	const struct ur_cm_ip_header header = { .ip_version = 4,
						.source_port = (uint16_t)number,
						.source = { [12] = 127, [15] = 1 },
						.dest = { [12] = 127, [15] = 1 } };
	struct ur_cm_message request = {
		.kind = UR_CM_REQ,
		.transaction_id = number,
		.local_id = NOBODY << 24 | (number & UR_24_BITS),
		.req = { .service_id = UR_CM_SERVICE_ID(RDMA_PS_TCP, flood->port),
			 .qpn = NOBODY << 16 | (number & UINT16_MAX),
			 .path_mtu = IBV_MTU_1024,
			 .pkey = UR_DEFAULT_PKEY },
		.private_length = UR_CM_IP_HEADER_SIZE,
	};

	ur_cm_ip_header_encode(&header, request.private_data);
	ur_cm_encode(&request, mad);
}

static size_t build_request(struct flood *flood, uint8_t *data)
{
	uint8_t mad[UR_MAD_SIZE];

	make_request(flood, mad);
	return build_with(flood, mad, sizeof(mad), data);
}

static size_t build_of_kind(struct flood *flood, uint16_t kind, uint8_t *data)
{
	struct ur_cm_message message;
	uint8_t mad[UR_MAD_SIZE];

	fill(flood, &message, sizeof(message));
	message.kind = kind;
	message.private_length = ur_cm_private_room(kind);
	ur_cm_encode(&message, mad);
	return build_with(flood, mad, sizeof(mad), data);
}

static size_t build_answer(struct flood *flood, uint8_t *data)
{
	static const uint16_t answers[] = { UR_CM_MRA, UR_CM_REJ,      UR_CM_REP,
					    UR_CM_RTU, UR_CM_DREQ,     UR_CM_DREP,
					    UR_CM_LAP, UR_CM_SIDR_REP, UR_CM_APR };

	return build_of_kind(flood, answers[random_number(flood) % COUNT(answers)], data);
}

static size_t build_version(struct flood *flood, uint8_t *data)
{
	uint8_t mad[UR_MAD_SIZE], *spoilt = &mad[random_number(flood) % FIRST_BYTES];

	make_request(flood, mad);
	*spoilt = (uint8_t)(*spoilt + 1 + random_number(flood) % UINT8_MAX);
	return build_with(flood, mad, sizeof(mad), data);
}

static size_t build_random_packet(struct flood *flood, uint8_t *data)
{
	struct iovec part = { data, UR_BTH_SIZE + random_number(flood) % MAX_LENGTH };
	uint32_t icrc;

	fill(flood, data, part.iov_len);
	icrc = htole32(ur_icrc(&flood->flow, 0, &part, 1));
	memcpy(data + part.iov_len, &icrc, sizeof(icrc));
	return part.iov_len + sizeof(icrc);
}

static size_t build_random_payload(struct flood *flood, uint8_t *data)
{
	uint8_t payload[MAX_LENGTH];
	size_t length = random_number(flood) % sizeof(payload);

	fill(flood, payload, length);
	return build_with(flood, payload, length, data);
}

/* A third are messages of the kinds that there are. */
static size_t build_garbage(struct flood *flood, uint8_t *data)
{
	unsigned choice = random_number(flood) % (UR_CM_APR + 3);

	if (choice >= UR_CM_REQ && choice <= UR_CM_APR)
		return build_of_kind(flood, (uint16_t)choice, data);
	return choice % 2 == 0 ? build_random_packet(flood, data)
			       : build_random_payload(flood, data);
}

static const struct kind {
	const char *name;
	size_t (*build)(struct flood *flood, uint8_t *data);
} kinds[] = {
	{ "requests", build_request },
	{ "answers", build_answer },
	{ "versions", build_version },
	{ "garbage", build_garbage },
};

static const struct kind *find_kind(const char *name)
{
	for (size_t i = 0; i < COUNT(kinds); i++)
		if (strcmp(kinds[i].name, name) == 0)
			return &kinds[i];
	return NULL;
}

/* ---- The receiver's queue ---- */

/* Of a line of /proc/net/udp, whose numbers are hexadecimal. */
static bool is_of_receiver(const struct flood *flood, const char *line, unsigned *queued)
{
	unsigned address, port;

	return sscanf(line, "%*d: %x:%x %*x:%*x %*x %*x:%x", &address, &port, queued) == 3 &&
	       address == flood->flow.dest.v4.sin_addr.s_addr && port == UR_UDP_PORT;
}

/* In bytes, with the system's own. False: there is no receiver. */
static bool look_at_queue(const struct flood *flood, unsigned *queued)
{
	FILE *file = fopen("/proc/net/udp", "re");
	char line[256];
	bool found = false;

	while (file && !found && fgets(line, sizeof(line), file))
		found = is_of_receiver(flood, line, queued);
	if (file)
		fclose(file);
	return found;
}

static bool wait_for_receiver(const struct flood *flood, unsigned most)
{
	const struct timespec pause = { .tv_nsec = PAUSE_NS };
	unsigned queued = 0;

	while (look_at_queue(flood, &queued)) {
		if (queued <= most)
			return true;
		nanosleep(&pause, NULL);
	}
	fprintf(stderr, "nobody has port %d\n", UR_UDP_PORT);
	return false;
}

/* ---- Sending ---- */

static void open_flood(struct flood *flood)
{
	socklen_t size = sizeof(flood->flow.source);

	flood->fd = network_socket(ADDRESS, 0);
	assert_int_equal(getsockname(flood->fd, &flood->flow.source.any, &size), 0);
	flood->flow.dest = network_address(ADDRESS, UR_UDP_PORT);
}

static void send_one(struct flood *flood, const struct kind *kind)
{
	uint8_t data[UR_MAX_HEADERS + MAX_LENGTH + UR_ICRC_SIZE];
	size_t length = kind->build(flood, data);

	assert_int_equal(sendto(flood->fd, data, length, 0, &flood->flow.dest.any,
				sizeof(flood->flow.dest.v4)),
			 length);
	flood->number++;
}

static bool send_all(struct flood *flood, const struct kind *kind, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		if (i % BATCH == 0 && !wait_for_receiver(flood, QUEUE_MAX))
			return false;
		send_one(flood, kind);
	}
	return wait_for_receiver(flood, 0);
}

int main(int argc, char **argv)
{
	const struct kind *kind = argc == 5 ? find_kind(argv[3]) : NULL;
	struct flood flood;
	unsigned count;

	if (!kind) {
		fprintf(stderr, "usage: cm_flood PORT COUNT KIND SEED\n");
		return 2;
	}
	count = (unsigned)atoi(argv[2]);
	flood = (struct flood){ .port = (uint16_t)atoi(argv[1]),
				.state = (uint64_t)atoi(argv[4]),
				.number = count * (unsigned)atoi(argv[4]) };
	open_flood(&flood);
	return send_all(&flood, kind, count) ? 0 : 1;
}
