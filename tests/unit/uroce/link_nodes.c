#include "link_nodes.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <endian.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "network.h"

#define WAIT_SECONDS 10

const struct ur_link_address *node_addresses(void)
{
	static struct ur_link_address addresses[NODE_ADDRESSES];

	addresses[0] =
		(struct ur_link_address){ network_address("127.0.0.1", 0), IPV4_GID, LOOPBACK };
	addresses[1] = (struct ur_link_address){ network_address("::1", 0), IPV6_GID, LOOPBACK };
	return addresses;
}

static void note_unsent(void *owner, uint32_t psn, uint8_t opcode)
{
	struct node *node = owner;

	assert_true(node->unsent_count < MAX_ARRIVALS);
	node->unsent[node->unsent_count++] = (struct unsent){ owner, psn, opcode };
}

static void free_node(struct node *node)
{
	close(node->epoll_fd);
	free(node->arrivals);
	free(node);
}

int node_try_open(struct node **node)
{
	struct node *opened = calloc(1, sizeof(*opened));
	int error;

	assert_non_null(opened);
	opened->arrivals = calloc(MAX_ARRIVALS, sizeof(*opened->arrivals));
	opened->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	assert_non_null(opened->arrivals);
	assert_true(opened->epoll_fd >= 0);
	error = ur_link_open("uroce_lo", node_addresses(), NODE_ADDRESSES, opened->epoll_fd,
			     &opened->counters, &opened->link);
	if (error) {
		free_node(opened);
		*node = NULL;
		return error;
	}
	opened->carrier = ur_link_carrier(opened->link);
	opened->carrier->unsent = note_unsent;
	*node = opened;
	return 0;
}

struct node *node_open(void)
{
	struct node *node;

	assert_int_equal(node_try_open(&node), 0);
	return node;
}

void node_close(struct node *node)
{
	ur_link_close(node->link);
	free_node(node);
}

struct ur_path path_to(const struct node *node, uint8_t gid_index)
{
	struct ur_path path = { .remote = node_addresses()[gid_index].address,
				.gid_index = gid_index };

	ur_address_set_port(&path.remote, (uint16_t)(UR_UDP_PORT + ur_link_number(node->link)));
	return path;
}

uint32_t qpn_of(const struct node *node, uint16_t index)
{
	return (uint32_t)ur_link_number(node->link) << 16 | index;
}

/* A window on one text for all, so that a payload stays valid. */
const uint8_t *payload_of(uint32_t psn, size_t length)
{
	static uint8_t text[2 * MAX_PAYLOAD + MAX_ARRIVALS];

	assert_true(psn <= MAX_ARRIVALS && length <= MAX_PAYLOAD);
	for (size_t i = 0; text[1] == 0 && i < sizeof(text); i++)
		text[i] = (uint8_t)(i * 167 + i / 251);
	return text + psn;
}

void node_send(struct node *node, const struct ur_path *path, uint32_t qpn, uint32_t psn,
	       size_t length)
{
	struct ur_packet packet = { .opcode = UR_RC_SEND_ONLY,
				    .pkey = UR_DEFAULT_PKEY,
				    .dest_qpn = qpn,
				    .psn = psn,
				    .payload_length = length };
	struct iovec payload = { (void *)(uintptr_t)payload_of(psn, length), length };
	struct ur_tx tx = {
		.packet = &packet, .payload = &payload, .payload_count = 1, .owner = node
	};

	node->carrier->send(node->carrier, path, &tx);
}

void node_flush(struct node *node)
{
	node->carrier->flush(node->carrier);
}

static void keep(void *user_data, const struct ur_packet *packet, const struct ur_path *from)
{
	struct node *node = user_data;
	struct arrival *arrival = &node->arrivals[node->count++];

	assert_true(node->count <= MAX_ARRIVALS);
	assert_true(packet->payload_length <= MAX_PAYLOAD);
	arrival->packet = *packet;
	arrival->from = *from;
	memcpy(arrival->payload, packet->payload, packet->payload_length);
	arrival->packet.payload = arrival->payload;
}

void node_receive(struct node *node)
{
	while (ur_link_receive(node->link, keep, node) > 0)
		;
}

void node_wait(struct node *node, size_t count)
{
	time_t deadline = time(NULL) + WAIT_SECONDS;
	struct epoll_event event;

	for (;;) {
		node_receive(node);
		if (node->count >= count)
			return;
		assert_true(time(NULL) < deadline);
		epoll_wait(node->epoll_fd, &event, 1, 100);
	}
}

bool node_is_reported(const struct node *node, uint32_t event)
{
	struct epoll_event events[16];
	int count = epoll_wait(node->epoll_fd, events, 16, 0);

	for (int i = 0; i < count; i++) {
		assert_non_null(events[i].data.ptr);
		if (events[i].events & event)
			return true;
	}
	return false;
}

void assert_arrived(const struct node *node, size_t index, uint32_t qpn, uint32_t psn,
		    size_t length)
{
	const struct ur_packet *packet = &node->arrivals[index].packet;

	assert_true(index < node->count);
	assert_int_equal(packet->opcode, UR_RC_SEND_ONLY);
	assert_int_equal(packet->dest_qpn, qpn);
	assert_int_equal(packet->psn, psn);
	assert_int_equal(packet->payload_length, length);
	assert_memory_equal(packet->payload, payload_of(psn, length), length);
}

size_t build_datagram(const struct ur_packet *packet, const struct ur_flow *flow, uint16_t ip_id,
		      const uint8_t *payload, uint8_t *out)
{
	size_t length = ur_packet_encode(packet, out);
	struct iovec part;
	uint32_t icrc;

	if (packet->payload_length > 0)
		memcpy(out + length, payload, packet->payload_length);
	length += packet->payload_length;
	memset(out + length, 0, ur_padding(packet->payload_length));
	length += ur_padding(packet->payload_length);
	part = (struct iovec){ out, length };
	icrc = htole32(ur_icrc(flow, ip_id, &part, 1));
	memcpy(out + length, &icrc, sizeof(icrc));
	return length + sizeof(icrc);
}
