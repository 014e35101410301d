/*
 * One side of a connection whose peer sends anything at any time, while its program calls what it
 * likes: it never says what it may not, has few events, and ends when it is released.
 *
 * Input: steps of three bytes: what happens (a message, a call, time), and two of what is in it.
 */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../../uroce/cm/endpoint.h"
#include "../../uroce/core/clock.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define OWN_ID     0x01000001
#define PEER_ID    0x02000002
#define OWN_QPN    0x11
#define PEER_QPN   0x22
#define UROCE_GUID 0x7572000000
#define KINDS      (UR_CM_APR - UR_CM_REQ + 1)

/* Each at most once: replied or requested, established, two ends, and the last. */
#define MAX_EVENTS 6

/* Longer than all repetitions, and what a peer can make us wait with each. */
#define TO_THE_END_NS (UINT64_C(1000) * 1000 * UR_NS_PER_MS)

static unsigned events, sent;

static void on_send(struct ur_endpoint *endpoint, const struct ur_cm_message *message)
{
	uint8_t mad[UR_MAD_SIZE];

	(void)endpoint;
	ur_cm_encode(message, mad);
	sent++;
}

static void on_knock(struct ur_endpoint *endpoint)
{
	assert(endpoint->peer_is_uroce || endpoint->state == UR_ENDPOINT_REQ_SENT ||
	       endpoint->state == UR_ENDPOINT_SIDR_REQ_SENT);
}

static void on_event(struct ur_endpoint *endpoint, enum ur_cm_event_kind kind,
		     const struct ur_cm_message *message)
{
	(void)kind;
	(void)message;
	assert(!endpoint->released);
	events++;
	assert(events <= MAX_EVENTS);
}

/* The bits of what decide which fields are right. */
static struct ur_cm_message make_message(uint8_t kind, uint8_t what)
{
	struct ur_cm_message message = { .kind = (uint16_t)(UR_CM_REQ + kind % KINDS) };
	uint64_t guid = what & 8 ? UROCE_GUID : 0;

	message.local_id = what & 1 ? what : PEER_ID;
	message.remote_id = what & 2 ? 0 : OWN_ID;
	if (message.kind == UR_CM_SIDR_REP)
		message.local_id = OWN_ID;
	if (message.kind == UR_CM_REQ)
		message.req = (struct ur_cm_req){ .qpn = PEER_QPN, .ca_guid = guid };
	if (message.kind == UR_CM_REP)
		message.rep.ca_guid = guid;
	if (message.kind == UR_CM_APR)
		message.apr.status = what >> 2 & 3;
	if (message.kind == UR_CM_DREQ)
		message.dreq.remote_qpn = what & 4 ? what : OWN_QPN;
	if (message.kind == UR_CM_REJ)
		message.rej.reason = what >> 2;
	if (message.kind == UR_CM_MRA)
		message.mra = (struct ur_cm_mra){ what >> 2 & 3, what >> 3 };
	return message;
}

static void receive(struct ur_endpoint *endpoint, const struct ur_cm_message *message, uint64_t now)
{
	bool begins = message->kind == UR_CM_REQ || message->kind == UR_CM_SIDR_REQ;
	unsigned before = sent;

	if (endpoint->state == UR_ENDPOINT_IDLE && begins)
		ur_endpoint_begin(endpoint, message);
	else
		ur_endpoint_receive(endpoint, message, now);
	/* Nobody can use it to send more than he sends himself. */
	assert(sent <= before + 1);
}

static void call(struct ur_endpoint *endpoint, uint8_t kind, uint64_t now)
{
	struct ur_cm_message message = { .kind = (uint16_t)(UR_CM_REQ + kind % (KINDS + 3)) };

	if (message.kind == UR_CM_REQ)
		message.req.qpn = OWN_QPN;
	if (message.kind == UR_CM_REP)
		message.rep.qpn = OWN_QPN;
	if (message.kind <= UR_CM_APR)
		ur_endpoint_send(endpoint, &message, now);
	else if (message.kind == UR_CM_APR + 1)
		ur_endpoint_established(endpoint, now);
	else if (message.kind == UR_CM_APR + 2)
		ur_endpoint_hear_nobody(endpoint, now);
	else
		ur_endpoint_end_stale(endpoint, now);
}

static void run_to(struct ur_endpoint *endpoint, uint64_t end)
{
	while (endpoint->deadline <= end)
		ur_endpoint_run_timer(endpoint, endpoint->deadline);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct ur_endpoint_hooks hooks = { on_send, on_knock, on_event };
	struct ur_endpoint endpoint;
	uint64_t now = 0;

	events = sent = 0;
	ur_endpoint_init(&endpoint, &hooks, OWN_ID);
	for (; size >= 3; data += 3, size -= 3) {
		struct ur_cm_message message = make_message(data[1], data[2]);

		if (data[0] % 4 < 2)
			receive(&endpoint, &message, now);
		else if (data[0] % 4 == 2)
			call(&endpoint, data[1], now);
		else
			now += (uint64_t)data[1] * data[1] * UR_NS_PER_MS;
		run_to(&endpoint, now);
	}
	ur_endpoint_release(&endpoint, now);
	run_to(&endpoint, now + TO_THE_END_NS);
	assert(endpoint.state == UR_ENDPOINT_ENDED);
	return 0;
}
