/*
 * Nodes: links as processes of one host have them, for tests, and what they receive.
 */
#ifndef LINK_NODES_H
#define LINK_NODES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../../../uroce/core/counters.h"
#include "../../../uroce/link/address.h"
#include "../../../uroce/link/link.h"

#define MAX_ARRIVALS   2048
#define MAX_PAYLOAD    4096
#define IPV4_GID       0
#define IPV6_GID       1
#define NODE_ADDRESSES 2
#define LOOPBACK       1 /* the interface of that number is lo in every network namespace */

struct arrival {
	struct ur_packet packet; /* its payload points to the next */
	uint8_t payload[MAX_PAYLOAD];
	struct ur_path from;
};

struct node {
	struct ur_link *link;
	struct ur_carrier *carrier;
	int epoll_fd;
	struct ur_counters counters;
	struct arrival *arrivals;
	size_t count;
	/* Packets that the carrier gave back. */
	struct unsent {
		void *owner;
		uint32_t psn;
		uint8_t opcode;
	} unsent[MAX_ARRIVALS];
	size_t unsent_count;
};

/* The NODE_ADDRESSES of all nodes: 127.0.0.1 and ::1. */
const struct ur_link_address *node_addresses(void);

/* Fails the test if that is not possible. The caller closes it. */
struct node *node_open(void);
void node_close(struct node *node);
/* Returns what ur_link_open returned; *node: NULL then. */
int node_try_open(struct node **node);

/* To the own port of a node, over one address. */
struct ur_path path_to(const struct node *node, uint8_t gid_index);
/* A queue pair number of the node. */
uint32_t qpn_of(const struct node *node, uint16_t index);

/* The payload that packets with that number have, here and there; valid until the next call. */
const uint8_t *payload_of(uint32_t psn, size_t length);

/*
 * A send to the queue pair, its payload (up to 4096 bytes) that of its number, in one piece; it
 * stays valid. psn: at most MAX_ARRIVALS.
 */
void node_send(struct node *node, const struct ur_path *path, uint32_t qpn, uint32_t psn,
	       size_t length);
void node_flush(struct node *node);

/* Receives until count packets have arrived since the node was opened; fails after 10 s. */
void node_wait(struct node *node, size_t count);
/* Receives what the link finds at once. */
void node_receive(struct node *node);
/* Whether epoll reports an event of the link now. */
bool node_is_reported(const struct node *node, uint32_t event);

/* Fails unless the arrival is a packet that node_send sent. */
void assert_arrived(const struct node *node, size_t index, uint32_t qpn, uint32_t psn,
		    size_t length);

/* Writes a whole datagram, ICRC included; returns its length. */
size_t build_datagram(const struct ur_packet *packet, const struct ur_flow *flow, uint16_t ip_id,
		      const uint8_t *payload, uint8_t *out);

#endif
