#include "endpoint.h"

#include <errno.h>
#include <string.h>

#include "../core/clock.h"
#include "../core/guid.h"

/* What a REJ or an MRA answers. */
enum { ABOUT_REQ, ABOUT_REP, ABOUT_OTHER };

/* Status of a SIDR_REP. */
enum { SIDR_UNSUPPORTED = 1, SIDR_REJECTED };

/* ---- Saying and waiting ---- */

static void say_event(struct ur_endpoint *endpoint, enum ur_cm_event_kind kind,
		      const struct ur_cm_message *message)
{
	if (!endpoint->released)
		endpoint->hooks->event(endpoint, kind, message);
}

static void set_ids(const struct ur_endpoint *endpoint, struct ur_cm_message *message)
{
	message->transaction_id = endpoint->transaction_id;
	message->local_id = endpoint->local_id;
	message->remote_id = endpoint->remote_id;
	/* Those have one id, which is the asker's. */
	if (message->kind == UR_CM_SIDR_REP) {
		message->local_id = endpoint->remote_id;
		message->remote_id = 0;
	}
}

/* Keeps the message. */
static void say(struct ur_endpoint *endpoint, const struct ur_cm_message *message)
{
	if (message != &endpoint->sent)
		endpoint->sent = *message;
	set_ids(endpoint, &endpoint->sent);
	endpoint->hooks->send(endpoint, &endpoint->sent);
}

static void say_again(struct ur_endpoint *endpoint)
{
	endpoint->hooks->send(endpoint, &endpoint->sent);
}

/* Is not kept. */
static void say_aside(struct ur_endpoint *endpoint, struct ur_cm_message *message)
{
	set_ids(endpoint, message);
	endpoint->hooks->send(endpoint, message);
}

static void enter(struct ur_endpoint *endpoint, enum ur_endpoint_state state)
{
	endpoint->state = state;
	endpoint->deadline = UR_NEVER;
}

static void enter_for(struct ur_endpoint *endpoint, enum ur_endpoint_state state, uint64_t now,
		      uint64_t ms)
{
	endpoint->state = state;
	endpoint->deadline = now + ms * UR_NS_PER_MS;
	endpoint->patience = endpoint->deadline;
}

/* When to ask whether the peer is there. */
static uint64_t next_probe(const struct ur_endpoint *endpoint, uint64_t now)
{
	const uint64_t step = UR_CM_PROBE_STEP_MS * UR_NS_PER_MS;
	uint64_t ms = UR_CM_PROBE_FACTOR * endpoint->first_interval_ms;

	if (endpoint->sent.kind != UR_CM_REP)
		ms += UR_CM_PROBE_DELAY_MS;
	return (now + ms * UR_NS_PER_MS + step - 1) / step * step;
}

/* Where there is nothing to wait for but the program, and the peer's end. */
static void rest(struct ur_endpoint *endpoint, enum ur_endpoint_state state, uint64_t now)
{
	enter(endpoint, state);
	if (endpoint->peer_is_uroce)
		endpoint->deadline = next_probe(endpoint, now);
}

static bool is_at_rest(const struct ur_endpoint *endpoint)
{
	return endpoint->state == UR_ENDPOINT_REP_RCVD ||
	       endpoint->state == UR_ENDPOINT_ESTABLISHED;
}

/* The message is repeated while the state lasts. */
static void ask(struct ur_endpoint *endpoint, enum ur_endpoint_state state,
		const struct ur_cm_message *message, uint64_t now)
{
	enter_for(endpoint, state, now, endpoint->first_interval_ms);
	endpoint->interval = endpoint->first_interval_ms * UR_NS_PER_MS;
	endpoint->retries_left = UR_CM_RETRIES;
	endpoint->prolonged = false;
	say(endpoint, message);
}

static void enter_timewait(struct ur_endpoint *endpoint, uint64_t now)
{
	enter_for(endpoint, UR_ENDPOINT_TIMEWAIT, now, UR_CM_TIMEWAIT_MS);
}

/* The last word of one that has no connection. */
static void say_finally(struct ur_endpoint *endpoint, const struct ur_cm_message *message,
			uint64_t now)
{
	enter_for(endpoint, UR_ENDPOINT_LINGER, now, UR_CM_LINGER_MS);
	say(endpoint, message);
}

/* ---- Messages ---- */

/*
 * What the peer's REJ means, that it may not know our identifier yet: see Linux's
 * cm_acquire_rejected_id.
 */
static void set_guid(struct ur_cm_rej *rej, uint64_t guid)
{
	rej->info_length = sizeof(guid);
	for (size_t i = 0; i < sizeof(guid); i++)
		rej->info[i] = (uint8_t)(guid >> (56 - 8 * i));
}

/* Nobody waits for an answer to what was sent any more. */
static void say_timeout(struct ur_endpoint *endpoint, uint64_t now)
{
	struct ur_cm_message rej = {
		.kind = UR_CM_REJ,
		.rej = { .message = ABOUT_OTHER, .reason = UR_CM_TIMEOUT },
	};

	set_guid(&rej.rej, endpoint->sent.kind == UR_CM_REQ ? endpoint->sent.req.ca_guid
							    : endpoint->sent.rep.ca_guid);
	say_finally(endpoint, &rej, now);
}

static void ask_to_disconnect(struct ur_endpoint *endpoint, const struct ur_cm_message *message,
			      uint64_t now)
{
	struct ur_cm_message dreq = *message;

	dreq.dreq.remote_qpn = endpoint->remote_qpn;
	endpoint->transaction_id = (uint64_t)endpoint->local_id << 32 | UR_CM_DREQ;
	ask(endpoint, UR_ENDPOINT_DREQ_SENT, &dreq, now);
}

/* message: with the program's private data. */
static void agree_to_disconnect(struct ur_endpoint *endpoint, const struct ur_cm_message *message,
				uint64_t now)
{
	struct ur_cm_message drep = *message;

	drep.kind = UR_CM_DREP;
	enter_timewait(endpoint, now);
	say(endpoint, &drep);
}

/* Is not kept: whoever asks again is answered again. */
static void say_drep(struct ur_endpoint *endpoint, const struct ur_cm_message *dreq)
{
	struct ur_cm_message drep = { .kind = UR_CM_DREP };

	set_ids(endpoint, &drep);
	drep.transaction_id = dreq->transaction_id;
	endpoint->hooks->send(endpoint, &drep);
}

/* The program has not decided yet: the peer need not ask again so soon. */
static void say_mra(struct ur_endpoint *endpoint, uint8_t about)
{
	struct ur_cm_message mra = {
		.kind = UR_CM_MRA,
		.mra = { .message = about, .service_timeout = UR_CM_SERVICE_TIMEOUT },
	};

	say_aside(endpoint, &mra);
}

/* Whoever asks for an alternate path learns that the connection is there. */
static void say_apr(struct ur_endpoint *endpoint, const struct ur_cm_message *lap)
{
	struct ur_cm_message apr = { .kind = UR_CM_APR, .apr.status = UR_CM_PATH_UNSUPPORTED };

	set_ids(endpoint, &apr);
	apr.transaction_id = lap->transaction_id;
	endpoint->hooks->send(endpoint, &apr);
}

static void say_lap(struct ur_endpoint *endpoint)
{
	struct ur_cm_message lap = { .kind = UR_CM_LAP, .lap.remote_qpn = endpoint->remote_qpn };

	say_aside(endpoint, &lap);
}

/* ---- What the program says ---- */

static int say_request(struct ur_endpoint *endpoint, const struct ur_cm_message *message,
		       enum ur_endpoint_state state, uint64_t now)
{
	if (endpoint->state != UR_ENDPOINT_IDLE)
		return EINVAL;
	endpoint->transaction_id = (uint64_t)endpoint->local_id << 32 | message->kind;
	if (message->kind == UR_CM_REQ)
		endpoint->local_qpn = message->req.qpn;
	ask(endpoint, state, message, now);
	return 0;
}

static int say_reply(struct ur_endpoint *endpoint, const struct ur_cm_message *message,
		     uint64_t now)
{
	if (endpoint->state != UR_ENDPOINT_REQ_RCVD)
		return EINVAL;
	endpoint->local_qpn = ur_cm_rep_qpn(&message->rep);
	ask(endpoint, UR_ENDPOINT_REP_SENT, message, now);
	return 0;
}

static int say_ready(struct ur_endpoint *endpoint, const struct ur_cm_message *message,
		     uint64_t now)
{
	if (endpoint->state != UR_ENDPOINT_REP_RCVD)
		return EINVAL;
	rest(endpoint, UR_ENDPOINT_ESTABLISHED, now);
	say(endpoint, message);
	say_event(endpoint, UR_CM_EVENT_ESTABLISHED, NULL);
	return 0;
}

static int say_no(struct ur_endpoint *endpoint, const struct ur_cm_message *message, uint64_t now)
{
	struct ur_cm_message rej = *message;

	switch (endpoint->state) {
	case UR_ENDPOINT_REQ_RCVD:
		rej.rej.message = ABOUT_REQ;
		break;
	case UR_ENDPOINT_REP_RCVD:
		rej.rej.message = ABOUT_REP;
		break;
	case UR_ENDPOINT_REQ_SENT:
	case UR_ENDPOINT_REP_SENT:
		rej.rej.message = ABOUT_OTHER;
		break;
	default:
		return EINVAL;
	}
	say_finally(endpoint, &rej, now);
	return 0;
}

static int say_answer(struct ur_endpoint *endpoint, const struct ur_cm_message *message,
		      uint64_t now)
{
	if (endpoint->state != UR_ENDPOINT_SIDR_REQ_RCVD)
		return EINVAL;
	say_finally(endpoint, message, now);
	return 0;
}

static int say_disconnect(struct ur_endpoint *endpoint, const struct ur_cm_message *message,
			  uint64_t now)
{
	if (endpoint->state == UR_ENDPOINT_ESTABLISHED)
		ask_to_disconnect(endpoint, message, now);
	else if (endpoint->state == UR_ENDPOINT_DREQ_RCVD)
		agree_to_disconnect(endpoint, message, now);
	else
		return EINVAL;
	return 0;
}

int ur_endpoint_send(struct ur_endpoint *endpoint, const struct ur_cm_message *message,
		     uint64_t now)
{
	switch (message->kind) {
	case UR_CM_REQ:
		return say_request(endpoint, message, UR_ENDPOINT_REQ_SENT, now);
	case UR_CM_SIDR_REQ:
		return say_request(endpoint, message, UR_ENDPOINT_SIDR_REQ_SENT, now);
	case UR_CM_REP:
		return say_reply(endpoint, message, now);
	case UR_CM_RTU:
		return say_ready(endpoint, message, now);
	case UR_CM_REJ:
		return say_no(endpoint, message, now);
	case UR_CM_SIDR_REP:
		return say_answer(endpoint, message, now);
	case UR_CM_DREQ:
		return say_disconnect(endpoint, message, now);
	default:
		return EINVAL;
	}
}

int ur_endpoint_established(struct ur_endpoint *endpoint, uint64_t now)
{
	if (endpoint->state != UR_ENDPOINT_REP_SENT)
		return EINVAL;
	rest(endpoint, UR_ENDPOINT_ESTABLISHED, now);
	say_event(endpoint, UR_CM_EVENT_ESTABLISHED, NULL);
	return 0;
}

/* ---- What the peer says ---- */

static bool is_request(const struct ur_cm_message *message)
{
	return message->kind == UR_CM_REQ || message->kind == UR_CM_SIDR_REQ;
}

/*
 * The peer's identifier is not known before its REP; and a REJ may come of one that does not know
 * ours.
 */
static bool is_from_peer(const struct ur_endpoint *endpoint, const struct ur_cm_message *message)
{
	bool knows_us = message->remote_id == endpoint->local_id;

	if (message->kind == UR_CM_SIDR_REP)
		return message->local_id == endpoint->local_id;
	if (is_request(message) || (message->kind == UR_CM_REJ && message->remote_id == 0))
		return endpoint->remote_id != 0 && message->local_id == endpoint->remote_id;
	return knows_us && (endpoint->remote_id == 0 || message->local_id == endpoint->remote_id);
}

static bool has_refused(const struct ur_endpoint *endpoint)
{
	return endpoint->state == UR_ENDPOINT_LINGER && endpoint->sent.kind == UR_CM_REJ;
}

static void take_req(struct ur_endpoint *endpoint)
{
	if (endpoint->state == UR_ENDPOINT_REQ_RCVD)
		say_mra(endpoint, ABOUT_REQ);
	else if (endpoint->state == UR_ENDPOINT_REP_SENT || has_refused(endpoint))
		say_again(endpoint);
}

static void take_sidr_req(struct ur_endpoint *endpoint)
{
	if (endpoint->state == UR_ENDPOINT_LINGER && endpoint->sent.kind == UR_CM_SIDR_REP)
		say_again(endpoint);
}

/*
 * What kind the peer is is not known before its REP; to repeat a REQ is every active side's
 * right.
 */
static void wait_on(struct ur_endpoint *endpoint, uint64_t now)
{
	uint64_t probe = UR_NEVER;

	if (endpoint->peer_is_uroce || endpoint->state == UR_ENDPOINT_REQ_SENT)
		probe = next_probe(endpoint, now);
	endpoint->deadline = probe < endpoint->patience ? probe : endpoint->patience;
}

/*
 * Capped, once for each time that we ask, and it gives no further retries, so the peer cannot make
 * us wait for ever.
 */
static void take_mra(struct ur_endpoint *endpoint, const struct ur_cm_message *message,
		     uint64_t now)
{
	const struct ur_cm_mra *mra = &message->mra;
	unsigned exponent = mra->service_timeout < UR_CM_MAX_SERVICE_TIMEOUT
				    ? mra->service_timeout
				    : UR_CM_MAX_SERVICE_TIMEOUT;
	uint64_t patience = now + (UINT64_C(4096) << exponent);
	bool about_this = (endpoint->state == UR_ENDPOINT_REQ_SENT && mra->message == ABOUT_REQ) ||
			  (endpoint->state == UR_ENDPOINT_REP_SENT && mra->message == ABOUT_REP);

	if (!about_this || endpoint->prolonged || patience <= endpoint->patience)
		return;
	endpoint->patience = patience;
	endpoint->prolonged = true;
	wait_on(endpoint, now);
}

static void take_first_rep(struct ur_endpoint *endpoint, const struct ur_cm_message *message,
			   uint64_t now)
{
	endpoint->remote_id = message->local_id;
	endpoint->remote_qpn = ur_cm_rep_qpn(&message->rep);
	endpoint->peer_is_uroce = ur_guid_is_uroce(message->rep.ca_guid);
	rest(endpoint, UR_ENDPOINT_REP_RCVD, now);
	say_event(endpoint, UR_CM_EVENT_REPLIED, message);
}

/* It comes to one that has given up its request: now the peer's identifier is known. */
static void refuse_rep(struct ur_endpoint *endpoint, const struct ur_cm_message *message)
{
	endpoint->remote_id = message->local_id;
	say(endpoint, &endpoint->sent);
}

static void take_rep(struct ur_endpoint *endpoint, const struct ur_cm_message *message,
		     uint64_t now)
{
	if (endpoint->state == UR_ENDPOINT_REQ_SENT)
		take_first_rep(endpoint, message, now);
	else if (endpoint->state == UR_ENDPOINT_REP_RCVD)
		say_mra(endpoint, ABOUT_REP);
	else if (endpoint->state == UR_ENDPOINT_ESTABLISHED && endpoint->sent.kind == UR_CM_RTU)
		say_again(endpoint);
	else if (has_refused(endpoint))
		refuse_rep(endpoint, message);
}

static void take_rtu(struct ur_endpoint *endpoint, uint64_t now)
{
	if (endpoint->state != UR_ENDPOINT_REP_SENT)
		return;
	rest(endpoint, UR_ENDPOINT_ESTABLISHED, now);
	say_event(endpoint, UR_CM_EVENT_ESTABLISHED, NULL);
}

static void take_lap(struct ur_endpoint *endpoint, const struct ur_cm_message *message)
{
	if (endpoint->state >= UR_ENDPOINT_REP_SENT && endpoint->state <= UR_ENDPOINT_DREQ_RCVD)
		say_apr(endpoint, message);
}

static void take_rej(struct ur_endpoint *endpoint, const struct ur_cm_message *message,
		     uint64_t now)
{
	switch (endpoint->state) {
	case UR_ENDPOINT_REQ_SENT:
	case UR_ENDPOINT_REQ_RCVD:
	case UR_ENDPOINT_REP_SENT:
		if (message->rej.reason == UR_CM_STALE_CONNECTION)
			enter_timewait(endpoint, now);
		else
			enter(endpoint, UR_ENDPOINT_ENDED);
		say_event(endpoint, UR_CM_EVENT_REJECTED, message);
		break;
	case UR_ENDPOINT_REP_RCVD:
		enter_timewait(endpoint, now);
		say_event(endpoint, UR_CM_EVENT_REJECTED, message);
		break;
	case UR_ENDPOINT_ESTABLISHED:
	case UR_ENDPOINT_DREQ_SENT:
		enter_timewait(endpoint, now);
		say_event(endpoint, UR_CM_EVENT_DISCONNECTED, message);
		break;
	default:
		break;
	}
}

static void take_dreq(struct ur_endpoint *endpoint, const struct ur_cm_message *message,
		      uint64_t now)
{
	if (message->dreq.remote_qpn != endpoint->local_qpn)
		return;
	switch (endpoint->state) {
	case UR_ENDPOINT_REP_SENT:
	case UR_ENDPOINT_ESTABLISHED:
		endpoint->transaction_id = message->transaction_id;
		enter(endpoint, UR_ENDPOINT_DREQ_RCVD);
		say_event(endpoint, UR_CM_EVENT_DISCONNECTED, NULL);
		break;
	case UR_ENDPOINT_DREQ_SENT:
		/* Both have asked at once: the program has said what there is to say. */
		say_drep(endpoint, message);
		enter_timewait(endpoint, now);
		say_event(endpoint, UR_CM_EVENT_DISCONNECTED, NULL);
		break;
	case UR_ENDPOINT_TIMEWAIT:
	case UR_ENDPOINT_LINGER:
		say_drep(endpoint, message);
		break;
	default:
		break;
	}
}

static void take_drep(struct ur_endpoint *endpoint, uint64_t now)
{
	if (endpoint->state != UR_ENDPOINT_DREQ_SENT)
		return;
	enter_timewait(endpoint, now);
	say_event(endpoint, UR_CM_EVENT_DISCONNECTED, NULL);
}

static void take_sidr_rep(struct ur_endpoint *endpoint, const struct ur_cm_message *message)
{
	if (endpoint->state != UR_ENDPOINT_SIDR_REQ_SENT)
		return;
	enter(endpoint, UR_ENDPOINT_ENDED);
	say_event(endpoint, UR_CM_EVENT_LOOKED_UP, message);
}

static bool says_nobody_listens(const struct ur_endpoint *endpoint,
				const struct ur_cm_message *message)
{
	return (endpoint->state == UR_ENDPOINT_REQ_SENT && message->kind == UR_CM_REJ &&
		message->rej.reason == UR_CM_INVALID_SERVICE_ID) ||
	       (endpoint->state == UR_ENDPOINT_SIDR_REQ_SENT && message->kind == UR_CM_SIDR_REP &&
		message->sidr_rep.status == SIDR_UNSUPPORTED);
}

/* Who is told so asks again for a while before it is believed. */
static bool is_premature(struct ur_endpoint *endpoint, const struct ur_cm_message *message,
			 uint64_t now)
{
	if (!says_nobody_listens(endpoint, message))
		return false;
	if (endpoint->refused_at == 0)
		endpoint->refused_at = now;
	if (now - endpoint->refused_at >= UR_CM_REFUSAL_MS * UR_NS_PER_MS)
		return false;
	endpoint->deadline = now + UR_CM_REFUSAL_STEP_MS * UR_NS_PER_MS;
	return true;
}

static void take(struct ur_endpoint *endpoint, const struct ur_cm_message *message, uint64_t now)
{
	switch (message->kind) {
	case UR_CM_REQ:
		take_req(endpoint);
		break;
	case UR_CM_MRA:
		take_mra(endpoint, message, now);
		break;
	case UR_CM_REJ:
		take_rej(endpoint, message, now);
		break;
	case UR_CM_REP:
		take_rep(endpoint, message, now);
		break;
	case UR_CM_RTU:
		take_rtu(endpoint, now);
		break;
	case UR_CM_DREQ:
		take_dreq(endpoint, message, now);
		break;
	case UR_CM_DREP:
		take_drep(endpoint, now);
		break;
	case UR_CM_SIDR_REQ:
		take_sidr_req(endpoint);
		break;
	case UR_CM_SIDR_REP:
		take_sidr_rep(endpoint, message);
		break;
	case UR_CM_LAP:
		take_lap(endpoint, message);
		break;
	default: /* an APR is only a sign of life, or of the contrary */
		break;
	}
}

/* ---- Whether the peer is there ---- */

/* Someone at the peer's address does not know the connection that it had. */
static bool is_denied(const struct ur_endpoint *endpoint, const struct ur_cm_message *message)
{
	bool is_denial = message->kind == UR_CM_REJ
				 ? endpoint->state == UR_ENDPOINT_ESTABLISHED &&
					   message->rej.reason == UR_CM_INVALID_COMM_ID
				 : message->kind == UR_CM_APR &&
					   message->apr.status == UR_CM_PATH_INVALID_COMM_ID;

	return is_denial && endpoint->peer_is_uroce && is_at_rest(endpoint);
}

static void note_life(struct ur_endpoint *endpoint, uint64_t now)
{
	endpoint->missed_at = 0;
	endpoint->peer_is_silent = false;
	if (is_at_rest(endpoint) && endpoint->peer_is_uroce)
		endpoint->deadline = next_probe(endpoint, now);
}

/* True: it has been said before, and not just now. */
static bool is_confirmed(struct ur_endpoint *endpoint, uint64_t now)
{
	uint64_t since = now - endpoint->missed_at;

	if (endpoint->missed_at != 0 && since <= UR_CM_MISSED_MS * UR_NS_PER_MS)
		return since >= UR_CM_TAKEOVER_MS * UR_NS_PER_MS;
	endpoint->missed_at = now;
	return false;
}

static bool is_asking(const struct ur_endpoint *endpoint)
{
	return endpoint->state == UR_ENDPOINT_REQ_SENT || endpoint->state == UR_ENDPOINT_REP_SENT ||
	       endpoint->state == UR_ENDPOINT_DREQ_SENT ||
	       endpoint->state == UR_ENDPOINT_SIDR_REQ_SENT;
}

static void ask_soon(struct ur_endpoint *endpoint)
{
	uint64_t soon = endpoint->missed_at + UR_CM_TAKEOVER_MS * UR_NS_PER_MS;

	if ((is_at_rest(endpoint) || is_asking(endpoint)) && soon < endpoint->deadline)
		endpoint->deadline = soon;
}

/* What the peer, or its host, would have said. */
static void end_without_peer(struct ur_endpoint *endpoint, uint64_t now)
{
	const struct ur_cm_message sidr_rep = { .kind = UR_CM_SIDR_REP,
						.sidr_rep.status = SIDR_UNSUPPORTED };
	const struct ur_cm_message rej = { .kind = UR_CM_REJ,
					   .rej.reason = endpoint->state == UR_ENDPOINT_REQ_SENT
								 ? UR_CM_INVALID_SERVICE_ID
								 : UR_CM_INVALID_COMM_ID };

	if (endpoint->state == UR_ENDPOINT_SIDR_REQ_SENT)
		take_sidr_rep(endpoint, &sidr_rep);
	else
		take_rej(endpoint, &rej, now);
}

static void miss(struct ur_endpoint *endpoint, uint64_t now)
{
	if (is_confirmed(endpoint, now))
		end_without_peer(endpoint, now);
	else
		ask_soon(endpoint);
}

/* Who does not know the peer yet asks whoever has the port. */
static bool can_be_missed(const struct ur_endpoint *endpoint)
{
	bool asks_anybody = endpoint->state == UR_ENDPOINT_REQ_SENT ||
			    endpoint->state == UR_ENDPOINT_SIDR_REQ_SENT;

	/* Of the other states none asks, so that nothing the peer could say would be heard. */
	return asks_anybody ||
	       (endpoint->peer_is_uroce && (is_at_rest(endpoint) || is_asking(endpoint)));
}

void ur_endpoint_hear_nobody(struct ur_endpoint *endpoint, uint64_t now)
{
	if (can_be_missed(endpoint))
		miss(endpoint, now);
}

static void knock(struct ur_endpoint *endpoint)
{
	if (can_be_missed(endpoint))
		endpoint->hooks->knock(endpoint);
}

static void probe(struct ur_endpoint *endpoint, uint64_t now)
{
	if (endpoint->peer_is_silent || endpoint->missed_at != 0)
		knock(endpoint);
	endpoint->peer_is_silent = true;
	if (is_at_rest(endpoint) && endpoint->sent.kind != UR_CM_REP)
		say_lap(endpoint);
	else
		say_again(endpoint);
	if (is_at_rest(endpoint))
		endpoint->deadline = next_probe(endpoint, now);
	else
		wait_on(endpoint, now);
}

/* ---- Input ---- */

void ur_endpoint_receive(struct ur_endpoint *endpoint, const struct ur_cm_message *message,
			 uint64_t now)
{
	if (!is_from_peer(endpoint, message))
		return;
	if (is_denied(endpoint, message)) {
		miss(endpoint, now);
		return;
	}
	note_life(endpoint, now);
	if (!is_premature(endpoint, message, now))
		take(endpoint, message, now);
}

/* ---- Beginning and end ---- */

void ur_endpoint_init(struct ur_endpoint *endpoint, const struct ur_endpoint_hooks *hooks,
		      uint32_t local_id)
{
	memset(endpoint, 0, sizeof(*endpoint));
	endpoint->hooks = hooks;
	endpoint->local_id = local_id;
	endpoint->first_interval_ms = UR_CM_FIRST_INTERVAL_MS;
	enter(endpoint, UR_ENDPOINT_IDLE);
}

void ur_endpoint_begin(struct ur_endpoint *endpoint, const struct ur_cm_message *request)
{
	bool is_connection = request->kind == UR_CM_REQ;

	endpoint->transaction_id = request->transaction_id;
	endpoint->remote_id = request->local_id;
	if (is_connection) {
		endpoint->remote_qpn = request->req.qpn;
		endpoint->peer_is_uroce = ur_guid_is_uroce(request->req.ca_guid);
	}
	enter(endpoint, is_connection ? UR_ENDPOINT_REQ_RCVD : UR_ENDPOINT_SIDR_REQ_RCVD);
	say_event(endpoint, is_connection ? UR_CM_EVENT_REQUESTED : UR_CM_EVENT_LOOK_UP, request);
}

bool ur_endpoint_is_live(const struct ur_endpoint *endpoint)
{
	return endpoint->state >= UR_ENDPOINT_REQ_RCVD &&
	       endpoint->state <= UR_ENDPOINT_ESTABLISHED;
}

void ur_endpoint_end_stale(struct ur_endpoint *endpoint, uint64_t now)
{
	const struct ur_cm_message dreq = { .kind = UR_CM_DREQ };

	if (endpoint->state != UR_ENDPOINT_ESTABLISHED)
		return;
	/* As Linux, but without waiting for an answer: the one that would give it is gone. */
	ask_to_disconnect(endpoint, &dreq, now);
	enter_timewait(endpoint, now);
	say_event(endpoint, UR_CM_EVENT_DISCONNECTED, NULL);
}

void ur_endpoint_release(struct ur_endpoint *endpoint, uint64_t now)
{
	const struct ur_cm_message rej = { .kind = UR_CM_REJ, .rej.reason = UR_CM_CONSUMER };
	const struct ur_cm_message dreq = { .kind = UR_CM_DREQ };
	const struct ur_cm_message sidr_rep = { .kind = UR_CM_SIDR_REP,
						.sidr_rep.status = SIDR_REJECTED };

	endpoint->released = true;
	switch (endpoint->state) {
	case UR_ENDPOINT_IDLE:
	case UR_ENDPOINT_SIDR_REQ_SENT:
		enter(endpoint, UR_ENDPOINT_ENDED);
		break;
	case UR_ENDPOINT_REQ_SENT:
		say_timeout(endpoint, now);
		break;
	case UR_ENDPOINT_REQ_RCVD:
	case UR_ENDPOINT_REP_SENT:
	case UR_ENDPOINT_REP_RCVD:
		say_no(endpoint, &rej, now);
		break;
	case UR_ENDPOINT_SIDR_REQ_RCVD:
		say_answer(endpoint, &sidr_rep, now);
		break;
	case UR_ENDPOINT_ESTABLISHED:
	case UR_ENDPOINT_DREQ_RCVD:
		say_disconnect(endpoint, &dreq, now);
		break;
	case UR_ENDPOINT_DREQ_SENT:
	case UR_ENDPOINT_TIMEWAIT:
	case UR_ENDPOINT_LINGER:
	case UR_ENDPOINT_ENDED:
		break;
	}
}

/* ---- Time ---- */

static void ask_again(struct ur_endpoint *endpoint, uint64_t now)
{
	endpoint->retries_left--;
	endpoint->prolonged = false;
	endpoint->interval *= 2;
	endpoint->deadline = now + endpoint->interval;
	endpoint->patience = endpoint->deadline;
	/* First, as a system says only now and then that nobody has a port. */
	knock(endpoint);
	say_again(endpoint);
}

static void give_up(struct ur_endpoint *endpoint, uint64_t now)
{
	switch (endpoint->state) {
	case UR_ENDPOINT_REQ_SENT:
	case UR_ENDPOINT_REP_SENT:
		say_timeout(endpoint, now);
		say_event(endpoint, UR_CM_EVENT_UNREACHABLE, NULL);
		break;
	case UR_ENDPOINT_SIDR_REQ_SENT:
		enter(endpoint, UR_ENDPOINT_ENDED);
		say_event(endpoint, UR_CM_EVENT_UNREACHABLE, NULL);
		break;
	default: /* DREQ_SENT */
		enter_timewait(endpoint, now);
		say_event(endpoint, UR_CM_EVENT_DISCONNECTED, NULL);
		break;
	}
}

static void end(struct ur_endpoint *endpoint)
{
	bool was_connected = endpoint->state == UR_ENDPOINT_TIMEWAIT;

	enter(endpoint, UR_ENDPOINT_ENDED);
	if (was_connected)
		say_event(endpoint, UR_CM_EVENT_TIMEWAIT_EXIT, NULL);
}

void ur_endpoint_run_timer(struct ur_endpoint *endpoint, uint64_t now)
{
	if (now < endpoint->deadline)
		return;
	if (endpoint->state == UR_ENDPOINT_TIMEWAIT || endpoint->state == UR_ENDPOINT_LINGER)
		end(endpoint);
	else if (is_at_rest(endpoint) || now < endpoint->patience)
		probe(endpoint, now);
	else if (endpoint->retries_left > 0)
		ask_again(endpoint, now);
	else
		give_up(endpoint, now);
}
