/*
 * The endpoints of a connection, on a network that loses, doubles and delays what a test tells it
 * to, with a clock that moves as fast as nothing happens.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../../../uroce/cm/endpoint.h"
#include "../../../uroce/core/clock.h"

#define MS          UR_NS_PER_MS
#define MAX_EVENTS  16
#define MAX_FLYING  4096
#define LATENCY     (1 * MS)
#define ACTIVE_ID   0x01000017
#define PASSIVE_ID  0x02000029
#define ACTIVE_QPN  0x111
#define PASSIVE_QPN 0x222

#define KERNEL_GUID 0x505400fffe123456
#define UROCE_GUID  0x5054007572123456

/* The status of a SIDR_REP of a host where nobody listens. */
#define SIDR_UNSUPPORTED 1

/* All repetitions of one message. */
#define GIVE_UP_NS (25500 * MS)

struct side {
	struct ur_endpoint endpoint; /* first */
	enum ur_cm_event_kind events[MAX_EVENTS];
	unsigned event_count, handled;
	struct ur_cm_message last; /* that came with an event */
	bool stays_silent;         /* the program does not react to events */
	bool port_is_closed;       /* no process has its port: the system says so to who knocks */
	unsigned knocks;           /* of this side */
	bool has_knocked_in_vain;
};

struct flying {
	struct side *to;
	struct ur_cm_message message;
	uint64_t due;
};

static struct side active, passive;
static struct flying flying[MAX_FLYING];
static unsigned flying_count;
static unsigned sent_count[UR_CM_APR + 1];
static uint64_t now;
static uint64_t guid; /* of both devices */

/*
 * What happens to messages of a kind: how many of the next are lost, how often others come, how
 * late.
 */
static struct {
	unsigned lose[UR_CM_APR + 1];
	unsigned copies;
	bool reorder;
	unsigned percent_lost;
	unsigned seed;
} network;

/* ---- The network ---- */

static unsigned random_below(unsigned limit)
{
	return (unsigned)rand_r(&network.seed) % limit;
}

static void put_in_air(struct side *to, const struct ur_cm_message *message)
{
	uint64_t delay = LATENCY + (network.reorder ? random_below(400) * MS : 0);

	assert_true(flying_count < MAX_FLYING);
	flying[flying_count++] = (struct flying){ to, *message, now + delay };
}

static bool is_lost(uint16_t kind)
{
	if (network.lose[kind] > 0) {
		network.lose[kind]--;
		return true;
	}
	return random_below(100) < network.percent_lost;
}

/* As it comes out on the other side: private data has all its room. */
static void on_send(struct ur_endpoint *endpoint, const struct ur_cm_message *message)
{
	struct side *to = endpoint == &active.endpoint ? &passive : &active;
	struct ur_cm_message received;
	uint8_t mad[UR_MAD_SIZE];

	ur_cm_encode(message, mad);
	assert_int_equal(ur_cm_decode(mad, sizeof(mad), &received), UR_CM_DECODED);
	sent_count[message->kind]++;
	for (unsigned i = 0; i < network.copies; i++)
		if (!is_lost(message->kind))
			put_in_air(to, &received);
}

static void on_event(struct ur_endpoint *endpoint, enum ur_cm_event_kind kind,
		     const struct ur_cm_message *message)
{
	struct side *side = (struct side *)endpoint;

	assert_true(side->event_count < MAX_EVENTS);
	assert_false(endpoint->released);
	side->events[side->event_count++] = kind;
	if (message)
		side->last = *message;
}

static void on_knock(struct ur_endpoint *endpoint)
{
	struct side *side = (struct side *)endpoint;
	const struct side *other = side == &active ? &passive : &active;

	side->knocks++;
	side->has_knocked_in_vain = other->port_is_closed;
}

static const struct ur_endpoint_hooks hooks = { on_send, on_knock, on_event };

/* ---- The programs ---- */

static struct ur_cm_message message_of(uint16_t kind)
{
	struct ur_cm_message message = { .kind = kind };

	switch (kind) {
	case UR_CM_REQ:
		message.req.qpn = ACTIVE_QPN;
		message.req.ca_guid = guid;
		message.req.path_mtu = 3;
		break;
	case UR_CM_REP:
		message.rep.qpn = PASSIVE_QPN;
		message.rep.ca_guid = guid;
		break;
	case UR_CM_REJ:
		message.rej.reason = UR_CM_CONSUMER;
		break;
	default:
		break;
	}
	return message;
}

static int say(struct side *side, uint16_t kind)
{
	const struct ur_cm_message message = message_of(kind);

	return ur_endpoint_send(&side->endpoint, &message, now);
}

static void assert_says(struct side *side, uint16_t kind)
{
	assert_int_equal(say(side, kind), 0);
}

/* As programs do that want to be connected, and agree when the peer does not. */
static void react(struct side *side, enum ur_cm_event_kind kind)
{
	if (side->stays_silent)
		return;
	if (kind == UR_CM_EVENT_REQUESTED)
		say(side, UR_CM_REP);
	else if (kind == UR_CM_EVENT_REPLIED)
		say(side, UR_CM_RTU);
	else if (kind == UR_CM_EVENT_DISCONNECTED)
		say(side, UR_CM_DREQ);
	else if (kind == UR_CM_EVENT_LOOK_UP)
		say(side, UR_CM_SIDR_REP);
}

static void react_to_all(struct side *side)
{
	while (side->handled < side->event_count)
		react(side, side->events[side->handled++]);
}

/* ---- Time ---- */

/* As the manager does with messages for those that have ended. */
static void answer_as_stranger(struct side *to, const struct ur_cm_message *message)
{
	struct ur_cm_message answer = { .local_id = message->remote_id,
					.remote_id = message->local_id };

	switch (message->kind) {
	case UR_CM_DREQ:
		answer.kind = UR_CM_DREP;
		break;
	case UR_CM_REQ:
		answer.kind = UR_CM_REJ;
		answer.rej.reason = UR_CM_INVALID_SERVICE_ID;
		break;
	case UR_CM_SIDR_REQ:
		answer.kind = UR_CM_SIDR_REP;
		answer.local_id = message->local_id;
		answer.remote_id = 0;
		answer.sidr_rep.status = SIDR_UNSUPPORTED;
		break;
	case UR_CM_REP:
		answer.kind = UR_CM_REJ;
		answer.rej.reason = UR_CM_INVALID_COMM_ID;
		break;
	case UR_CM_LAP:
		answer.kind = UR_CM_APR;
		answer.apr.status = UR_CM_PATH_INVALID_COMM_ID;
		break;
	default:
		return;
	}
	on_send(&to->endpoint, &answer);
}

static void give(struct side *to, const struct ur_cm_message *message)
{
	bool begins = message->kind == UR_CM_REQ || message->kind == UR_CM_SIDR_REQ;

	if (to->port_is_closed)
		return;
	if (to->endpoint.state == UR_ENDPOINT_IDLE && begins)
		ur_endpoint_begin(&to->endpoint, message);
	else if (to->endpoint.state == UR_ENDPOINT_ENDED)
		answer_as_stranger(to, message);
	else
		ur_endpoint_receive(&to->endpoint, message, now);
	react_to_all(&active);
	react_to_all(&passive);
}

static struct flying *next_flying(void)
{
	struct flying *next = NULL;

	for (unsigned i = 0; i < flying_count; i++)
		if (!next || flying[i].due < next->due)
			next = &flying[i];
	return next;
}

static void land(struct flying *landing)
{
	struct flying landed = *landing;

	memmove(landing, landing + 1,
		(size_t)((char *)(flying + --flying_count) - (char *)landing));
	give(landed.to, &landed.message);
}

static uint64_t earliest(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t next_timer(void)
{
	return earliest(active.endpoint.deadline, passive.endpoint.deadline);
}

static void run_timer(struct side *side)
{
	ur_endpoint_run_timer(&side->endpoint, now);
	if (side->has_knocked_in_vain)
		ur_endpoint_hear_nobody(&side->endpoint, now);
	side->has_knocked_in_vain = false;
}

static void run_timers(void)
{
	run_timer(&active);
	run_timer(&passive);
	react_to_all(&active);
	react_to_all(&passive);
}

/* All that happens up to that time. */
static void run_until(uint64_t end)
{
	for (;;) {
		struct flying *next = next_flying();
		uint64_t due = earliest(next ? next->due : UR_NEVER, next_timer());

		if (due == UR_NEVER || due > end)
			break;
		now = due > now ? due : now;
		if (next && next->due <= next_timer())
			land(next);
		else
			run_timers();
	}
	if (end != UR_NEVER)
		now = end;
}

/* As long as something is on its way. */
static void settle(void)
{
	while (next_flying())
		run_until(next_flying()->due);
}

static void run_for(uint64_t ns)
{
	run_until(now + ns);
}

/* ---- What tests begin with ---- */

static void start_over(void)
{
	memset(&active, 0, sizeof(active));
	memset(&passive, 0, sizeof(passive));
	memset(&network, 0, sizeof(network));
	memset(sent_count, 0, sizeof(sent_count));
	network.copies = 1;
	network.seed = 1;
	flying_count = 0;
	now = 1000 * MS;
	guid = KERNEL_GUID;
	ur_endpoint_init(&active.endpoint, &hooks, ACTIVE_ID);
	ur_endpoint_init(&passive.endpoint, &hooks, PASSIVE_ID);
}

static int set_up(void **state)
{
	(void)state;
	start_over();
	return 0;
}

static void connect_both(void)
{
	assert_says(&active, UR_CM_REQ);
	settle();
	assert_int_equal(active.endpoint.state, UR_ENDPOINT_ESTABLISHED);
	assert_int_equal(passive.endpoint.state, UR_ENDPOINT_ESTABLISHED);
}

#define ASSERT_EVENTS(side, ...)                                                              \
	do {                                                                                  \
		const enum ur_cm_event_kind expected[] = { __VA_ARGS__ };                     \
		assert_int_equal((side).event_count, sizeof(expected) / sizeof(expected[0])); \
		assert_memory_equal((side).events, expected, sizeof(expected));               \
	} while (0)

#define ASSERT_STATES(a, p)                                                \
	do {                                                               \
		assert_int_equal(active.endpoint.state, UR_ENDPOINT_##a);  \
		assert_int_equal(passive.endpoint.state, UR_ENDPOINT_##p); \
	} while (0)

#define REQUESTED     UR_CM_EVENT_REQUESTED
#define REPLIED       UR_CM_EVENT_REPLIED
#define ESTABLISHED   UR_CM_EVENT_ESTABLISHED
#define REJECTED      UR_CM_EVENT_REJECTED
#define UNREACHABLE   UR_CM_EVENT_UNREACHABLE
#define DISCONNECTED  UR_CM_EVENT_DISCONNECTED
#define TIMEWAIT_EXIT UR_CM_EVENT_TIMEWAIT_EXIT
#define LOOK_UP       UR_CM_EVENT_LOOK_UP
#define LOOKED_UP     UR_CM_EVENT_LOOKED_UP

/* ---- All goes well ---- */

static void it_comes_up_and_ends_by_the_active_side(void **state)
{
	(void)state;
	connect_both();
	assert_int_equal(active.endpoint.remote_qpn, PASSIVE_QPN);
	assert_int_equal(passive.endpoint.remote_qpn, ACTIVE_QPN);
	assert_int_equal(active.endpoint.remote_id, PASSIVE_ID);
	assert_int_equal(active.endpoint.deadline, UR_NEVER);
	assert_int_equal(passive.endpoint.deadline, UR_NEVER);
	assert_says(&active, UR_CM_DREQ);
	settle();
	ASSERT_STATES(TIMEWAIT, TIMEWAIT);
	run_for(UR_CM_TIMEWAIT_MS * MS);
	ASSERT_STATES(ENDED, ENDED);
	ASSERT_EVENTS(active, REPLIED, ESTABLISHED, DISCONNECTED, TIMEWAIT_EXIT);
	ASSERT_EVENTS(passive, REQUESTED, ESTABLISHED, DISCONNECTED, TIMEWAIT_EXIT);
	for (uint16_t kind = UR_CM_REQ; kind <= UR_CM_DREP; kind++)
		assert_int_equal(sent_count[kind], kind != UR_CM_MRA && kind != UR_CM_REJ);
}

static void it_ends_by_the_passive_side(void **state)
{
	(void)state;
	connect_both();
	assert_says(&passive, UR_CM_DREQ);
	run_for(1000 * MS);
	ASSERT_STATES(ENDED, ENDED);
	ASSERT_EVENTS(active, REPLIED, ESTABLISHED, DISCONNECTED, TIMEWAIT_EXIT);
	ASSERT_EVENTS(passive, REQUESTED, ESTABLISHED, DISCONNECTED, TIMEWAIT_EXIT);
	assert_int_equal(sent_count[UR_CM_DREQ], 1);
	assert_int_equal(sent_count[UR_CM_DREP], 1);
}

static void both_sides_disconnect_at_once(void **state)
{
	(void)state;
	connect_both();
	assert_says(&active, UR_CM_DREQ);
	assert_says(&passive, UR_CM_DREQ);
	run_for(1000 * MS);
	ASSERT_STATES(ENDED, ENDED);
	ASSERT_EVENTS(active, REPLIED, ESTABLISHED, DISCONNECTED, TIMEWAIT_EXIT);
	ASSERT_EVENTS(passive, REQUESTED, ESTABLISHED, DISCONNECTED, TIMEWAIT_EXIT);
}

static void a_reject_brings_its_data(void **state)
{
	struct ur_cm_message rej = message_of(UR_CM_REJ);

	(void)state;
	passive.stays_silent = true;
	assert_says(&active, UR_CM_REQ);
	settle();
	rej.private_length = 3;
	memcpy(rej.private_data, "no!", 3);
	assert_int_equal(ur_endpoint_send(&passive.endpoint, &rej, now), 0);
	settle();
	ASSERT_STATES(ENDED, LINGER);
	ASSERT_EVENTS(active, REJECTED);
	ASSERT_EVENTS(passive, REQUESTED);
	assert_int_equal(active.last.rej.reason, UR_CM_CONSUMER);
	assert_int_equal(active.last.rej.message, 0);
	assert_memory_equal(active.last.private_data, "no!", 4);
	run_for(UR_CM_LINGER_MS * MS);
	ASSERT_STATES(ENDED, ENDED);
	ASSERT_EVENTS(passive, REQUESTED);
}

static void the_active_side_rejects_a_reply(void **state)
{
	(void)state;
	active.stays_silent = true;
	assert_says(&active, UR_CM_REQ);
	settle();
	assert_says(&active, UR_CM_REJ);
	settle();
	ASSERT_STATES(LINGER, ENDED);
	ASSERT_EVENTS(passive, REQUESTED, REJECTED);
	assert_int_equal(passive.last.rej.message, 1);
}

static void a_queue_pair_for_datagrams_is_looked_up(void **state)
{
	(void)state;
	assert_says(&active, UR_CM_SIDR_REQ);
	settle();
	ASSERT_STATES(ENDED, LINGER);
	ASSERT_EVENTS(active, LOOKED_UP);
	ASSERT_EVENTS(passive, LOOK_UP);
	assert_int_equal(active.last.local_id, ACTIVE_ID);
}

/* ---- The network is bad ---- */

static void connect_and_disconnect(void)
{
	assert_says(&active, UR_CM_REQ);
	run_for(2 * GIVE_UP_NS);
	ASSERT_STATES(ESTABLISHED, ESTABLISHED);
	assert_says(&active, UR_CM_DREQ);
	run_for(2 * GIVE_UP_NS);
	ASSERT_STATES(ENDED, ENDED);
	ASSERT_EVENTS(active, REPLIED, ESTABLISHED, DISCONNECTED, TIMEWAIT_EXIT);
	ASSERT_EVENTS(passive, REQUESTED, ESTABLISHED, DISCONNECTED, TIMEWAIT_EXIT);
}

static void each_message_may_be_lost_again_and_again(void **state)
{
	static const uint16_t kinds[] = { UR_CM_REQ, UR_CM_REP, UR_CM_RTU, UR_CM_DREQ, UR_CM_DREP };

	(void)state;
	for (unsigned i = 0; i < 5; i++) {
		for (unsigned times = 1; times <= UR_CM_RETRIES; times++) {
			start_over();
			network.lose[kinds[i]] = times;
			connect_and_disconnect();
		}
	}
}

static void each_message_may_be_doubled(void **state)
{
	(void)state;
	network.copies = 3;
	connect_and_disconnect();
}

static void messages_may_overtake_each_other(void **state)
{
	(void)state;
	for (unsigned seed = 1; seed <= 200; seed++) {
		start_over();
		network.copies = 2;
		network.reorder = true;
		network.seed = seed;
		connect_and_disconnect();
	}
}

static void intervals_double(void **state)
{
	(void)state;
	network.lose[UR_CM_REQ] = UINT32_MAX;
	assert_says(&active, UR_CM_REQ);
	for (unsigned i = 0; i <= UR_CM_RETRIES; i++) {
		assert_int_equal(sent_count[UR_CM_REQ], i + 1);
		run_for((UR_CM_FIRST_INTERVAL_MS << i) * MS - 1);
		assert_int_equal(sent_count[UR_CM_REQ], i + 1);
		assert_int_equal(active.event_count, 0);
		run_for(1);
	}
	ASSERT_EVENTS(active, UNREACHABLE);
	assert_int_equal(sent_count[UR_CM_REQ], UR_CM_RETRIES + 1);
	assert_int_equal(now, 1000 * MS + GIVE_UP_NS);
}

static void without_an_answer_to_the_look_up_it_is_unreachable(void **state)
{
	(void)state;
	network.lose[UR_CM_SIDR_REQ] = UINT32_MAX;
	assert_says(&active, UR_CM_SIDR_REQ);
	run_for(GIVE_UP_NS);
	ASSERT_EVENTS(active, UNREACHABLE);
	assert_int_equal(active.endpoint.state, UR_ENDPOINT_ENDED);
}

static void a_lost_answer_to_a_look_up_is_given_again(void **state)
{
	(void)state;
	network.lose[UR_CM_SIDR_REP] = 3;
	assert_says(&active, UR_CM_SIDR_REQ);
	run_for(2000 * MS);
	ASSERT_EVENTS(active, LOOKED_UP);
	ASSERT_EVENTS(passive, LOOK_UP);
}

static void a_lost_reject_is_given_again(void **state)
{
	(void)state;
	passive.stays_silent = true;
	network.lose[UR_CM_REJ] = 3;
	assert_says(&active, UR_CM_REQ);
	run_until(now + LATENCY);
	assert_says(&passive, UR_CM_REJ);
	run_for(2000 * MS);
	ASSERT_EVENTS(active, REJECTED);
	ASSERT_EVENTS(passive, REQUESTED);
}

static void without_any_reply_both_sides_learn_of_the_end(void **state)
{
	(void)state;
	network.lose[UR_CM_REP] = UINT32_MAX;
	assert_says(&active, UR_CM_REQ);
	run_for(GIVE_UP_NS + 10 * MS);
	ASSERT_EVENTS(active, UNREACHABLE);
	assert_int_equal(passive.event_count, 2);
	assert_true(passive.events[1] == REJECTED || passive.events[1] == UNREACHABLE);
}

static void without_any_ready_both_sides_learn_of_the_end(void **state)
{
	(void)state;
	network.lose[UR_CM_RTU] = UINT32_MAX;
	assert_says(&active, UR_CM_REQ);
	run_for(GIVE_UP_NS + 1000 * MS);
	ASSERT_EVENTS(passive, REQUESTED, UNREACHABLE);
	ASSERT_EVENTS(active, REPLIED, ESTABLISHED, DISCONNECTED, TIMEWAIT_EXIT);
}

static void the_queue_pair_can_tell_that_it_is_established(void **state)
{
	(void)state;
	network.lose[UR_CM_RTU] = UINT32_MAX;
	assert_int_equal(ur_endpoint_established(&passive.endpoint, now), EINVAL);
	assert_says(&active, UR_CM_REQ);
	settle();
	ASSERT_STATES(ESTABLISHED, REP_SENT);
	assert_int_equal(ur_endpoint_established(&passive.endpoint, now), 0);
	ASSERT_EVENTS(passive, REQUESTED, ESTABLISHED);
	run_for(2 * GIVE_UP_NS);
	ASSERT_STATES(ESTABLISHED, ESTABLISHED);
	assert_int_equal(ur_endpoint_established(&passive.endpoint, now), EINVAL);
}

static void a_disconnect_before_the_ready_has_come(void **state)
{
	(void)state;
	network.lose[UR_CM_RTU] = UINT32_MAX;
	assert_says(&active, UR_CM_REQ);
	settle();
	assert_says(&active, UR_CM_DREQ);
	run_for(1000 * MS);
	ASSERT_STATES(ENDED, ENDED);
	ASSERT_EVENTS(passive, REQUESTED, DISCONNECTED, TIMEWAIT_EXIT);
}

static void a_peer_that_is_gone_ends_a_disconnect_in_time(void **state)
{
	(void)state;
	connect_both();
	network.percent_lost = 100;
	assert_says(&active, UR_CM_DREQ);
	run_for(GIVE_UP_NS - 1);
	assert_int_equal(active.endpoint.state, UR_ENDPOINT_DREQ_SENT);
	run_for(1 + UR_CM_TIMEWAIT_MS * MS);
	ASSERT_EVENTS(active, REPLIED, ESTABLISHED, DISCONNECTED, TIMEWAIT_EXIT);
}

static bool has_failed(const struct side *side)
{
	enum ur_cm_event_kind kind = side->events[side->event_count - 1];

	return kind == UNREACHABLE || kind == REJECTED || kind == DISCONNECTED ||
	       kind == TIMEWAIT_EXIT;
}

static void assert_both_agree(void)
{
	bool up = active.endpoint.state == UR_ENDPOINT_ESTABLISHED;

	assert_int_equal(passive.endpoint.state == UR_ENDPOINT_ESTABLISHED, up);
	if (up)
		return;
	assert_true(has_failed(&active));
	assert_true(passive.event_count == 0 || has_failed(&passive));
}

static unsigned count_that_come_up(unsigned percent_lost)
{
	unsigned up = 0;

	for (unsigned seed = 1; seed <= 200; seed++) {
		start_over();
		network.seed = seed;
		network.percent_lost = percent_lost;
		assert_says(&active, UR_CM_REQ);
		run_for(3 * GIVE_UP_NS);
		assert_both_agree();
		up += active.endpoint.state == UR_ENDPOINT_ESTABLISHED;
	}
	return up;
}

static void it_comes_up_though_a_fifth_is_lost(void **state)
{
	(void)state;
	assert_true(count_that_come_up(20) >= 198);
}

/* ---- Programs that take their time ---- */

static void a_peer_that_takes_its_time_says_so(void **state)
{
	const uint64_t service_time = UINT64_C(4096) << UR_CM_SERVICE_TIMEOUT;

	(void)state;
	passive.stays_silent = true;
	assert_says(&active, UR_CM_REQ);
	run_for(service_time);
	/* It only asks whether the peer is still there, which is not a repetition. */
	assert_int_equal(active.endpoint.retries_left, UR_CM_RETRIES - 1);
	assert_in_range(sent_count[UR_CM_REQ], 10, 14);
	assert_int_equal(sent_count[UR_CM_MRA], sent_count[UR_CM_REQ] - 1);
	run_for(service_time);
	assert_int_equal(active.endpoint.retries_left, UR_CM_RETRIES - 2);
	ASSERT_STATES(REQ_SENT, REQ_RCVD);
	assert_says(&passive, UR_CM_REP);
	settle();
	ASSERT_STATES(ESTABLISHED, ESTABLISHED);
	ASSERT_EVENTS(passive, REQUESTED, ESTABLISHED);
}

static void an_active_side_that_takes_its_time_says_so(void **state)
{
	(void)state;
	active.stays_silent = true;
	assert_says(&active, UR_CM_REQ);
	run_for(10000 * MS);
	assert_int_equal(sent_count[UR_CM_REP], 2);
	assert_int_equal(sent_count[UR_CM_MRA], 1);
	assert_says(&active, UR_CM_RTU);
	settle();
	ASSERT_STATES(ESTABLISHED, ESTABLISHED);
	ASSERT_EVENTS(active, REPLIED, ESTABLISHED);
}

static void a_peer_cannot_make_us_wait_for_ever(void **state)
{
	const struct ur_cm_message mra = {
		.kind = UR_CM_MRA, .local_id = PASSIVE_ID, .remote_id = ACTIVE_ID, .mra = { 0, 31 }
	};

	(void)state;
	network.percent_lost = 100;
	assert_says(&active, UR_CM_REQ);
	/* Of two for what was sent once, the second does not count. */
	for (unsigned i = 0; i < 2 * (UR_CM_RETRIES + 1); i++) {
		give(&active, &mra);
		run_for(UINT64_C(4096) << (UR_CM_MAX_SERVICE_TIMEOUT - 1));
	}
	ASSERT_EVENTS(active, UNREACHABLE);
}

/* ---- Release ---- */

/* Brings both to where they are before one is released. */
static void go_to_req_sent(void)
{
	network.lose[UR_CM_REQ] = 1;
	assert_says(&active, UR_CM_REQ);
}

static void go_to_req_rcvd(void)
{
	passive.stays_silent = true;
	assert_says(&active, UR_CM_REQ);
	settle();
	ASSERT_STATES(REQ_SENT, REQ_RCVD);
}

static void go_to_rep_rcvd(void)
{
	active.stays_silent = true;
	assert_says(&active, UR_CM_REQ);
	settle();
	ASSERT_STATES(REP_RCVD, REP_SENT);
}

static void go_to_dreq_rcvd(void)
{
	passive.stays_silent = true;
	passive.endpoint.state = UR_ENDPOINT_IDLE;
	assert_says(&active, UR_CM_REQ);
	settle();
	assert_says(&passive, UR_CM_REP);
	settle();
	assert_says(&active, UR_CM_DREQ);
	settle();
	ASSERT_STATES(DREQ_SENT, DREQ_RCVD);
}

static void go_to_timewait(void)
{
	connect_both();
	assert_says(&active, UR_CM_DREQ);
	settle();
	ASSERT_STATES(TIMEWAIT, TIMEWAIT);
}

static void go_to_sidr_req_rcvd(void)
{
	passive.stays_silent = true;
	assert_says(&active, UR_CM_SIDR_REQ);
	settle();
	ASSERT_STATES(SIDR_REQ_SENT, SIDR_REQ_RCVD);
}

static void go_nowhere(void)
{
}

static void (*const ways[])(void) = { go_nowhere,     go_to_req_sent,     go_to_req_rcvd,
				      go_to_rep_rcvd, connect_both,       go_to_dreq_rcvd,
				      go_to_timewait, go_to_sidr_req_rcvd };
#define WAYS (sizeof(ways) / sizeof(ways[0]))

/* Its program has still to answer. */
static bool waits_for_program(const struct side *side)
{
	return side->endpoint.state == UR_ENDPOINT_SIDR_REQ_RCVD ||
	       side->endpoint.state == UR_ENDPOINT_DREQ_RCVD;
}

/* On the released side all ends in silence; on the other so that its program learns of it. */
static void assert_ends_after_release(struct side *released, const struct side *other)
{
	unsigned events = released->event_count;
	bool was_idle = other->endpoint.state == UR_ENDPOINT_IDLE;

	ur_endpoint_release(&released->endpoint, now);
	run_for(5 * GIVE_UP_NS);
	assert_int_equal(released->event_count, events);
	assert_int_equal(released->endpoint.state, UR_ENDPOINT_ENDED);
	assert_true(was_idle || other->endpoint.state == UR_ENDPOINT_ENDED ||
		    waits_for_program(other));
}

static void a_release_in_each_state_ends_both(void **state)
{
	(void)state;
	for (unsigned i = 0; i < WAYS; i++) {
		start_over();
		ways[i]();
		assert_ends_after_release(&active, &passive);
		start_over();
		ways[i]();
		assert_ends_after_release(&passive, &active);
	}
}

static void a_release_is_heard_of_though_its_message_is_lost(void **state)
{
	(void)state;
	connect_both();
	network.lose[UR_CM_DREQ] = 3;
	assert_ends_after_release(&active, &passive);
	ASSERT_EVENTS(passive, REQUESTED, ESTABLISHED, DISCONNECTED, TIMEWAIT_EXIT);
}

static void a_reply_to_a_released_request_is_refused(void **state)
{
	(void)state;
	go_to_req_rcvd();
	network.lose[UR_CM_REJ] = 1;
	ur_endpoint_release(&active.endpoint, now);
	assert_says(&passive, UR_CM_REP);
	settle();
	ASSERT_EVENTS(passive, REQUESTED, REJECTED);
	assert_int_equal(passive.last.rej.reason, UR_CM_TIMEOUT);
	assert_int_equal(passive.last.rej.info_length, 8);
	assert_int_equal(passive.last.rej.info[7], KERNEL_GUID & 0xff);
	assert_int_equal(passive.last.remote_id, PASSIVE_ID);
}

/* ---- Stale connections ---- */

static void a_stale_connection_ends_at_once(void **state)
{
	(void)state;
	connect_both();
	network.percent_lost = 100;
	ur_endpoint_end_stale(&passive.endpoint, now);
	assert_int_equal(sent_count[UR_CM_DREQ], 1);
	run_for(1000 * MS);
	ASSERT_EVENTS(passive, REQUESTED, ESTABLISHED, DISCONNECTED, TIMEWAIT_EXIT);
}

static void one_that_is_not_established_is_not_ended_as_stale(void **state)
{
	(void)state;
	go_to_req_rcvd();
	ur_endpoint_end_stale(&passive.endpoint, now);
	ASSERT_STATES(REQ_SENT, REQ_RCVD);
	ASSERT_EVENTS(passive, REQUESTED);
}

static void a_request_that_is_refused_as_stale_waits_before_it_ends(void **state)
{
	struct ur_cm_message rej = { .kind = UR_CM_REJ,
				     .remote_id = ACTIVE_ID,
				     .rej.reason = UR_CM_STALE_CONNECTION };

	(void)state;
	go_to_req_sent();
	give(&active, &rej);
	assert_int_equal(active.endpoint.state, UR_ENDPOINT_TIMEWAIT);
	run_for(UR_CM_TIMEWAIT_MS * MS);
	ASSERT_EVENTS(active, REJECTED, TIMEWAIT_EXIT);
}

/* ---- Peers that are killed ---- */

/* From asking to hearing it for the second time. */
#define NOTICED_NS                                                              \
	((UR_CM_PROBE_FACTOR * UR_CM_FIRST_INTERVAL_MS + UR_CM_PROBE_DELAY_MS + \
	  UR_CM_TAKEOVER_MS + 4 * UR_CM_PROBE_STEP_MS) *                        \
	 MS)

/* Another process has its port, or takes it over. */
static void kill_side(struct side *side)
{
	side->endpoint.state = UR_ENDPOINT_ENDED;
	side->endpoint.deadline = UR_NEVER;
}

/* No process has its port. */
static void kill_all_at(struct side *side)
{
	kill_side(side);
	side->port_is_closed = true;
}

static void connect_uroce(void)
{
	guid = UROCE_GUID;
	connect_both();
}

static void peers_that_live_stay_connected(void **state)
{
	(void)state;
	connect_uroce();
	run_for(60000 * MS);
	ASSERT_STATES(ESTABLISHED, ESTABLISHED);
	ASSERT_EVENTS(active, REPLIED, ESTABLISHED);
	ASSERT_EVENTS(passive, REQUESTED, ESTABLISHED);
	/* One side asks, once a second, and that is all. */
	assert_in_range(sent_count[UR_CM_REP], 55, 62);
	assert_int_equal(sent_count[UR_CM_RTU], sent_count[UR_CM_REP]);
	assert_int_equal(sent_count[UR_CM_LAP], 0);
	assert_int_equal(active.knocks + passive.knocks, 0);
}

static void the_active_side_asks_when_the_passive_one_is_not_heard(void **state)
{
	(void)state;
	connect_uroce();
	network.lose[UR_CM_REP] = 100;
	run_for(10000 * MS);
	ASSERT_STATES(ESTABLISHED, ESTABLISHED);
	assert_in_range(sent_count[UR_CM_LAP], 5, 7);
	assert_int_equal(sent_count[UR_CM_APR], sent_count[UR_CM_LAP]);
	assert_int_equal(active.knocks, 0);
}

static void a_peer_with_a_kernels_device_is_never_asked(void **state)
{
	(void)state;
	connect_both();
	run_for(3600 * 1000 * MS);
	ASSERT_STATES(ESTABLISHED, ESTABLISHED);
	assert_int_equal(active.endpoint.deadline, UR_NEVER);
	assert_int_equal(passive.endpoint.deadline, UR_NEVER);
	assert_int_equal(sent_count[UR_CM_REP], 1);
	assert_int_equal(sent_count[UR_CM_LAP], 0);
	ur_endpoint_hear_nobody(&active.endpoint, now);
	run_for(1000 * MS);
	ur_endpoint_hear_nobody(&active.endpoint, now);
	ASSERT_STATES(ESTABLISHED, ESTABLISHED);
	assert_int_equal(active.knocks + passive.knocks, 0);
}

static void who_asks_nothing_is_not_ended_by_what_others_hear(void **state)
{
	(void)state;
	guid = UROCE_GUID;
	go_to_req_rcvd();
	for (unsigned i = 0; i < 3; i++) {
		ur_endpoint_hear_nobody(&passive.endpoint, now);
		run_for(1000 * MS);
	}
	ASSERT_STATES(REQ_SENT, REQ_RCVD);
	ASSERT_EVENTS(passive, REQUESTED);
}

static void its_request_for_an_alternate_path_is_answered(void **state)
{
	struct ur_cm_message lap = { .kind = UR_CM_LAP,
				     .transaction_id = 77,
				     .local_id = ACTIVE_ID,
				     .remote_id = PASSIVE_ID };

	(void)state;
	connect_both();
	give(&passive, &lap);
	assert_int_equal(sent_count[UR_CM_APR], 1);
	assert_int_equal(next_flying()->message.apr.status, UR_CM_PATH_UNSUPPORTED);
	assert_int_equal(next_flying()->message.transaction_id, 77);
	lap.remote_id++;
	give(&passive, &lap);
	assert_int_equal(sent_count[UR_CM_APR], 1);
	settle();
	ASSERT_STATES(ESTABLISHED, ESTABLISHED);
}

static void a_peer_that_was_killed_has_disconnected(void **state)
{
	(void)state;
	connect_uroce();
	kill_side(&active);
	run_for(NOTICED_NS);
	ASSERT_EVENTS(passive, REQUESTED, ESTABLISHED, DISCONNECTED, TIMEWAIT_EXIT);

	start_over();
	connect_uroce();
	kill_side(&passive);
	run_for(NOTICED_NS + UR_CM_TIMEWAIT_MS * MS);
	ASSERT_EVENTS(active, REPLIED, ESTABLISHED, DISCONNECTED, TIMEWAIT_EXIT);
	assert_int_equal(sent_count[UR_CM_LAP], 2);
}

/* The first question is silence, only then it knocks. */
static void a_peer_whose_port_nobody_has_has_disconnected(void **state)
{
	(void)state;
	connect_uroce();
	kill_all_at(&active);
	run_for(2 * NOTICED_NS);
	ASSERT_EVENTS(passive, REQUESTED, ESTABLISHED, DISCONNECTED, TIMEWAIT_EXIT);
	assert_int_equal(passive.knocks, 2);

	start_over();
	connect_uroce();
	kill_all_at(&passive);
	run_for(2 * NOTICED_NS);
	ASSERT_EVENTS(active, REPLIED, ESTABLISHED, DISCONNECTED, TIMEWAIT_EXIT);
}

static void silence_is_no_end(void **state)
{
	(void)state;
	connect_uroce();
	network.percent_lost = 100;
	run_for(3600 * 1000 * MS);
	ASSERT_STATES(ESTABLISHED, ESTABLISHED);
	network.percent_lost = 0;
	run_for(2000 * MS);
	ASSERT_STATES(ESTABLISHED, ESTABLISHED);
	assert_false(passive.endpoint.peer_is_silent);
}

/* That the passive side is not known to who has its port. */
static void deny(unsigned remote_id)
{
	const struct ur_cm_message apr = { .kind = UR_CM_APR,
					   .local_id = PASSIVE_ID,
					   .remote_id = remote_id,
					   .apr.status = UR_CM_PATH_INVALID_COMM_ID };

	give(&active, &apr);
}

static void while_a_port_is_taken_over_nothing_ends(void **state)
{
	(void)state;
	connect_uroce();
	for (unsigned i = 0; i < 10; i++) {
		deny(ACTIVE_ID);
		ur_endpoint_hear_nobody(&active.endpoint, now);
		run_for((UR_CM_TAKEOVER_MS - 1) * MS);
		deny(ACTIVE_ID);
		/* It asks now, and the peer answers. */
		run_for(10 * MS);
		ASSERT_STATES(ESTABLISHED, ESTABLISHED);
	}
	assert_int_equal(sent_count[UR_CM_APR], 10);
	ASSERT_EVENTS(active, REPLIED, ESTABLISHED);
}

static void what_was_said_long_ago_does_not_count(void **state)
{
	(void)state;
	connect_uroce();
	network.percent_lost = 100;
	deny(ACTIVE_ID);
	run_for((UR_CM_MISSED_MS + 1) * MS);
	deny(ACTIVE_ID);
	ASSERT_STATES(ESTABLISHED, ESTABLISHED);
	run_for(UR_CM_MISSED_MS * MS);
	deny(ACTIVE_ID);
	assert_int_equal(active.endpoint.state, UR_ENDPOINT_TIMEWAIT);
}

static void who_does_not_know_the_ids_ends_nothing(void **state)
{
	struct ur_cm_message rej = { .kind = UR_CM_REJ,
				     .local_id = PASSIVE_ID + 1,
				     .remote_id = ACTIVE_ID,
				     .rej.reason = UR_CM_INVALID_COMM_ID };

	(void)state;
	connect_uroce();
	network.percent_lost = 100;
	for (unsigned i = 0; i < 10; i++) {
		deny(ACTIVE_ID + 1);
		give(&active, &rej);
		run_for(UR_CM_TAKEOVER_MS * MS);
	}
	assert_int_equal(active.endpoint.state, UR_ENDPOINT_ESTABLISHED);
	assert_int_equal(active.endpoint.missed_at, 0);
}

static void a_server_that_is_killed_rejects(void **state)
{
	(void)state;
	guid = UROCE_GUID;
	passive.stays_silent = true;
	assert_says(&active, UR_CM_REQ);
	run_for(300 * MS);
	/* It has told us to wait. */
	assert_true(active.endpoint.prolonged);
	kill_side(&passive);
	run_for(NOTICED_NS);
	ASSERT_EVENTS(active, REJECTED);
	assert_int_equal(active.last.rej.reason, UR_CM_INVALID_SERVICE_ID);

	start_over();
	guid = UROCE_GUID;
	active.stays_silent = true;
	assert_says(&active, UR_CM_REQ);
	settle();
	assert_int_equal(active.endpoint.state, UR_ENDPOINT_REP_RCVD);
	kill_side(&passive);
	run_for(NOTICED_NS + UR_CM_TIMEWAIT_MS * MS);
	ASSERT_EVENTS(active, REPLIED, REJECTED, TIMEWAIT_EXIT);
}

static void a_client_that_is_killed_rejects(void **state)
{
	(void)state;
	guid = UROCE_GUID;
	active.stays_silent = true;
	assert_says(&active, UR_CM_REQ);
	run_for(300 * MS);
	assert_true(passive.endpoint.prolonged);
	kill_side(&active);
	run_for(NOTICED_NS);
	ASSERT_EVENTS(passive, REQUESTED, REJECTED);
}

static void start_listening(void)
{
	ur_endpoint_init(&passive.endpoint, &hooks, PASSIVE_ID);
}

static void a_server_that_listens_a_little_later_is_asked_again(void **state)
{
	(void)state;
	kill_side(&passive);
	assert_says(&active, UR_CM_REQ);
	run_for(UR_CM_REFUSAL_MS / 2 * MS);
	assert_int_equal(active.event_count, 0);
	start_listening();
	run_for(UR_CM_REFUSAL_MS / 2 * MS);
	ASSERT_STATES(ESTABLISHED, ESTABLISHED);
	ASSERT_EVENTS(active, REPLIED, ESTABLISHED);

	start_over();
	kill_side(&passive);
	assert_says(&active, UR_CM_SIDR_REQ);
	run_for(UR_CM_REFUSAL_MS / 2 * MS);
	assert_int_equal(active.event_count, 0);
	start_listening();
	run_for(UR_CM_REFUSAL_MS / 2 * MS);
	ASSERT_EVENTS(active, LOOKED_UP);
	assert_int_equal(active.last.sidr_rep.status, 0);
}

static void that_nobody_listens_is_believed_in_the_end(void **state)
{
	const uint64_t longest = (UR_CM_REFUSAL_MS + 2 * UR_CM_REFUSAL_STEP_MS) * MS;
	const unsigned most = UR_CM_REFUSAL_MS / UR_CM_REFUSAL_STEP_MS + 2;

	(void)state;
	kill_side(&passive);
	assert_says(&active, UR_CM_REQ);
	run_for(longest);
	ASSERT_EVENTS(active, REJECTED);
	assert_int_equal(active.endpoint.state, UR_ENDPOINT_ENDED);
	assert_int_equal(active.last.rej.reason, UR_CM_INVALID_SERVICE_ID);
	assert_in_range(sent_count[UR_CM_REQ], 2, most);

	start_over();
	kill_side(&passive);
	assert_says(&active, UR_CM_SIDR_REQ);
	run_for(longest);
	ASSERT_EVENTS(active, LOOKED_UP);
	assert_int_equal(active.last.sidr_rep.status, SIDR_UNSUPPORTED);
	assert_in_range(sent_count[UR_CM_SIDR_REQ], 2, most);
}

/* As if somebody were there who does not know the service. */
static void where_nobody_has_the_port_a_request_is_rejected(void **state)
{
	(void)state;
	passive.port_is_closed = true;
	assert_says(&active, UR_CM_REQ);
	run_for(1000 * MS);
	ASSERT_EVENTS(active, REJECTED);
	assert_int_equal(active.last.rej.reason, UR_CM_INVALID_SERVICE_ID);

	start_over();
	passive.port_is_closed = true;
	assert_says(&active, UR_CM_SIDR_REQ);
	run_for(1000 * MS);
	ASSERT_EVENTS(active, LOOKED_UP);
	assert_int_equal(active.last.sidr_rep.status, 1);
}

static void a_port_that_is_opened_in_time_is_enough(void **state)
{
	(void)state;
	passive.port_is_closed = true;
	assert_says(&active, UR_CM_REQ);
	run_for(UR_CM_TAKEOVER_MS * MS);
	passive.port_is_closed = false;
	run_for(1000 * MS);
	ASSERT_STATES(ESTABLISHED, ESTABLISHED);
}

/* ---- Wrong calls, wrong peers ---- */

static void what_a_state_does_not_allow_changes_nothing(void **state)
{
	static const uint16_t kinds[] = { UR_CM_REQ,  UR_CM_REP,      UR_CM_RTU,     UR_CM_REJ,
					  UR_CM_DREQ, UR_CM_SIDR_REQ, UR_CM_SIDR_REP };
	/* For the active side, in the order of ways. */
	static const unsigned allowed[WAYS] = { 1 | 32, 8, 8, 4 | 8, 16, 0, 0, 0 };

	(void)state;
	for (unsigned way = 0; way < WAYS; way++) {
		for (unsigned i = 0; i < 7; i++) {
			struct ur_endpoint before;

			start_over();
			ways[way]();
			before = active.endpoint;
			if (allowed[way] & 1U << i) {
				assert_int_equal(say(&active, kinds[i]), 0);
				continue;
			}
			assert_int_equal(say(&active, kinds[i]), EINVAL);
			assert_memory_equal(&active.endpoint, &before, sizeof(before));
		}
	}
}

static void messages_with_other_ids_are_ignored(void **state)
{
	struct ur_cm_message dreq = { .kind = UR_CM_DREQ,
				      .local_id = ACTIVE_ID,
				      .remote_id = PASSIVE_ID,
				      .dreq.remote_qpn = PASSIVE_QPN };

	(void)state;
	connect_both();
	dreq.local_id++;
	give(&passive, &dreq);
	dreq.local_id--;
	dreq.remote_id++;
	give(&passive, &dreq);
	dreq.remote_id--;
	dreq.dreq.remote_qpn++;
	give(&passive, &dreq);
	ASSERT_STATES(ESTABLISHED, ESTABLISHED);
	dreq.dreq.remote_qpn--;
	give(&passive, &dreq);
	assert_int_equal(passive.endpoint.state, UR_ENDPOINT_TIMEWAIT);
}

/* Mostly with ids that fit. */
static struct ur_cm_message any_message(void)
{
	struct ur_cm_message message = { .kind = (uint16_t)(UR_CM_REQ + random_below(11)) };

	message.local_id = random_below(8) ? PASSIVE_ID : random_below(1000);
	message.remote_id = random_below(8) ? ACTIVE_ID : 0;
	if (message.kind == UR_CM_SIDR_REP)
		message.local_id = ACTIVE_ID;
	if (message.kind == UR_CM_DREQ)
		message.dreq.remote_qpn = random_below(2) ? ACTIVE_QPN : random_below(1000);
	if (message.kind == UR_CM_REJ)
		message.rej.reason = (uint16_t)random_below(40);
	if (message.kind == UR_CM_APR)
		message.apr.status = (uint8_t)random_below(3);
	if (message.kind == UR_CM_MRA)
		message.mra =
			(struct ur_cm_mra){ (uint8_t)random_below(3), (uint8_t)random_below(32) };
	return message;
}

/*
 * Whatever comes, it does not say more than once for each, has its few events, and ends when
 * released.
 */
static void assert_withstands(unsigned seed)
{
	network.seed = seed;
	network.copies = 0;
	for (unsigned i = 0; i < 50; i++) {
		const struct ur_cm_message message = any_message();
		unsigned before = active.event_count;

		give(&active, &message);
		assert_true(active.event_count <= before + 2);
		run_for(random_below(300) * MS);
	}
	ur_endpoint_release(&active.endpoint, now);
	run_for(10 * GIVE_UP_NS);
	assert_int_equal(active.endpoint.state, UR_ENDPOINT_ENDED);
}

static void hostile_messages_break_nothing_in_any_state(void **state)
{
	(void)state;
	for (unsigned way = 1; way < WAYS; way++) {
		for (unsigned seed = 1; seed <= 100; seed++) {
			start_over();
			guid = seed % 2 ? UROCE_GUID : KERNEL_GUID;
			ways[way]();
			assert_withstands(seed);
		}
	}
}

#define TEST(name) cmocka_unit_test_setup(name, set_up)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(it_comes_up_and_ends_by_the_active_side),
		TEST(it_ends_by_the_passive_side),
		TEST(both_sides_disconnect_at_once),
		TEST(a_reject_brings_its_data),
		TEST(the_active_side_rejects_a_reply),
		TEST(a_queue_pair_for_datagrams_is_looked_up),
		TEST(each_message_may_be_lost_again_and_again),
		TEST(each_message_may_be_doubled),
		TEST(messages_may_overtake_each_other),
		TEST(intervals_double),
		TEST(without_an_answer_to_the_look_up_it_is_unreachable),
		TEST(a_lost_answer_to_a_look_up_is_given_again),
		TEST(a_lost_reject_is_given_again),
		TEST(without_any_reply_both_sides_learn_of_the_end),
		TEST(without_any_ready_both_sides_learn_of_the_end),
		TEST(the_queue_pair_can_tell_that_it_is_established),
		TEST(a_disconnect_before_the_ready_has_come),
		TEST(a_peer_that_is_gone_ends_a_disconnect_in_time),
		TEST(it_comes_up_though_a_fifth_is_lost),
		TEST(a_peer_that_takes_its_time_says_so),
		TEST(an_active_side_that_takes_its_time_says_so),
		TEST(a_peer_cannot_make_us_wait_for_ever),
		TEST(a_release_in_each_state_ends_both),
		TEST(a_release_is_heard_of_though_its_message_is_lost),
		TEST(a_reply_to_a_released_request_is_refused),
		TEST(a_stale_connection_ends_at_once),
		TEST(one_that_is_not_established_is_not_ended_as_stale),
		TEST(a_request_that_is_refused_as_stale_waits_before_it_ends),
		TEST(peers_that_live_stay_connected),
		TEST(the_active_side_asks_when_the_passive_one_is_not_heard),
		TEST(a_peer_with_a_kernels_device_is_never_asked),
		TEST(who_asks_nothing_is_not_ended_by_what_others_hear),
		TEST(its_request_for_an_alternate_path_is_answered),
		TEST(a_peer_that_was_killed_has_disconnected),
		TEST(a_peer_whose_port_nobody_has_has_disconnected),
		TEST(silence_is_no_end),
		TEST(while_a_port_is_taken_over_nothing_ends),
		TEST(what_was_said_long_ago_does_not_count),
		TEST(who_does_not_know_the_ids_ends_nothing),
		TEST(a_server_that_is_killed_rejects),
		TEST(a_client_that_is_killed_rejects),
		TEST(a_server_that_listens_a_little_later_is_asked_again),
		TEST(that_nobody_listens_is_believed_in_the_end),
		TEST(where_nobody_has_the_port_a_request_is_rejected),
		TEST(a_port_that_is_opened_in_time_is_enough),
		TEST(what_a_state_does_not_allow_changes_nothing),
		TEST(messages_with_other_ids_are_ignored),
		TEST(hostile_messages_break_nothing_in_any_state),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
