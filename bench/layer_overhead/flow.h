/*
 * When a request may be posted, and when a run is over: the same for both ways of doing it, so that
 * they differ in nothing but the calls that they measure. Inline, as it stands in the measured
 * loops.
 *
 * Ping-pong: the client sends, the server answers each message with one.
 * Sends: the client may have sent RECEIVES messages that the server has not answered; the server
 * answers MESSAGES_PER_REPLY messages with one, after it has posted their receives again. So a
 * receive is always there, however slow the server is.
 * Writes and reads: the server takes no part.
 */
#ifndef FLOW_H
#define FLOW_H

#include <stdbool.h>
#include <stdint.h>

#include "operation.h"

struct flow {
	uint64_t to_send; /* requests that wait for a credit and a slot */
	uint64_t credits; /* requests that may be sent before the peer answers */
	uint64_t sends_left;
	uint64_t receives_left;
	unsigned credits_per_receive;
	unsigned receives_per_reply; /* 0: receives are not answered */
	unsigned receives_to_reply;
};

static inline unsigned flow_messages_per_reply(enum operation_kind kind)
{
	return kind == OPERATION_PING_PONG ? 1 : MESSAGES_PER_REPLY;
}

static inline struct flow flow_of_client(enum operation_kind kind, uint64_t count)
{
	unsigned per_reply = flow_messages_per_reply(kind);
	struct flow flow = { .to_send = count, .credits = count, .sends_left = count };

	if (is_of_messages(kind)) {
		flow.credits = kind == OPERATION_PING_PONG ? 1 : RECEIVES;
		flow.credits_per_receive = per_reply;
		flow.receives_left = count / per_reply;
	}
	return flow;
}

/* Of the server of messages. */
static inline struct flow flow_of_server(enum operation_kind kind, uint64_t count)
{
	unsigned per_reply = flow_messages_per_reply(kind);

	return (struct flow){ .credits = count,
			      .sends_left = count / per_reply,
			      .receives_left = count,
			      .receives_per_reply = per_reply,
			      .receives_to_reply = per_reply };
}

static inline bool flow_is_over(const struct flow *flow)
{
	return (flow->sends_left | flow->receives_left) == 0;
}

/* Takes the right to post a request, for which there is a slot. */
static inline bool flow_take(struct flow *flow)
{
	if (flow->to_send == 0 || flow->credits == 0)
		return false;
	flow->to_send--;
	flow->credits--;
	return true;
}

static inline void flow_sent(struct flow *flow)
{
	flow->sends_left--;
}

/* A message has come, and its receive is posted again. */
static inline void flow_received(struct flow *flow)
{
	flow->receives_left--;
	flow->credits += flow->credits_per_receive;
	if (flow->receives_per_reply > 0 && --flow->receives_to_reply == 0) {
		flow->receives_to_reply = flow->receives_per_reply;
		flow->to_send++;
	}
}

#endif
