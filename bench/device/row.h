/*
 * The rows of the table: what is measured, of the device and of what it is compared with.
 */
#ifndef ROW_H
#define ROW_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>

enum row_id {
	ROW_SEND_LATENCY,
	ROW_WRITE_LATENCY,
	ROW_WRITE_64K,
	ROW_READ_64K,
	ROW_SEND_64K,
	ROW_WRITE_1M,
	ROW_READ_1M,
	ROW_SEND_1M,
	ROW_UDP_LATENCY,
	ROW_UDP_BANDWIDTH,
	ROW_IPERF3,
	ROW_UCX_TAG_LATENCY,
	ROW_UCX_TAG_BANDWIDTH,
	ROW_UCX_PUT_BANDWIDTH,
	ROW_COUNT
};

/* Who is measured. */
enum source { SOURCE_DEVICE, SOURCE_UDP, SOURCE_IPERF3, SOURCE_UCX };

/* The time of a message one way, in microseconds; or the data in GB (10^9 bytes) per second. */
enum unit { UNIT_LATENCY, UNIT_BANDWIDTH };

struct row {
	const char *name;
	enum source source;
	enum unit unit;
	size_t size;               /* of a message, or of what one call sends */
	unsigned depth;            /* messages in flight; a run has a multiple of it */
	enum ibv_wr_opcode opcode; /* SOURCE_DEVICE */
	const char *test;          /* SOURCE_UCX */
};

/* Messages in flight and their size, in one row, come to this at most. */
#define MAX_DEPTH    64
#define MAX_SPAN     (16 << 20)
#define LATENCY_SIZE 8

/* What one call sends through UDP: so many datagrams of a RoCE packet's size each. */
#define UDP_DATAGRAM_SIZE 4112
#define UDP_BATCH_SIZE    ((size_t)15 * UDP_DATAGRAM_SIZE)

extern const struct row rows[ROW_COUNT];

static inline bool is_of_device(enum row_id id)
{
	return rows[id].source == SOURCE_DEVICE;
}

/* Of both processes of this program, not of others that they start. */
static inline bool is_own(enum row_id id)
{
	return is_of_device(id) || rows[id].source == SOURCE_UDP;
}

/* A ping-pong of writes, each awaited by looking at the memory. */
static inline bool is_of_memory(enum row_id id)
{
	return id == ROW_WRITE_LATENCY;
}

#endif
