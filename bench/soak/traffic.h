/*
 * Traffic: what goes through a connection, and is checked there.
 *
 * A round is a write of 8 bytes, a read of what it wrote, a fetch-and-add and a send, posted at
 * once. The value of round n is told by n, the counter's by the rounds before, and completions come
 * in the order of the requests. The server checks each message; it answers one in ANSWER_EVERY, so
 * that the client is never ahead of its receives. An empty message ends it.
 */
#ifndef TRAFFIC_H
#define TRAFFIC_H

#include "connection.h"
#include "monitor.h"
#include "peer.h"

#define ANSWER_EVERY 64

struct traffic {
	struct connection *connection;
	struct peer *peer;
	uint64_t rounds;    /* that the client is to do; a step may set it to those begun */
	uint64_t begun;     /* rounds that it has posted */
	uint64_t completed; /* requests of the client, messages at the server */
	uint64_t answered;  /* rounds that the server has said it got */
	uint64_t answers;   /* messages that said so */
	bool is_over;       /* the empty message came, or was sent */
};

/* Called after each completed round, or received message; an error ends the traffic. */
typedef enum rs_status (*traffic_fn)(struct traffic *traffic, void *data);

/*
 * The client's rounds; all of them are checked.
 * RS_ERR_BAD_DATA: something is not as it must be; the log says what.
 */
enum rs_status traffic_client(struct traffic *traffic, traffic_fn step, void *data);

/* The server's part, until the empty message; then its memory is checked. */
enum rs_status traffic_server(struct traffic *traffic, traffic_fn step, void *data);

/* Rounds that are done: the client's begun ones, the server's messages. */
static inline uint64_t traffic_rounds(const struct traffic *traffic)
{
	return traffic->begun > 0 ? traffic->begun : traffic->completed;
}

#endif
