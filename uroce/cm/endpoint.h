/*
 * Endpoint: one side of a connection in the making, in use and in its end, as a state machine.
 * Pure: messages and the program's calls come in, with the time (CLOCK_MONOTONIC in ns); messages
 * to send and events go out by its hooks; who owns it runs its timer.
 *
 * InfiniBand specification volume 1, section 12.9, as Linux reads it
 * (drivers/infiniband/core/cm.c).
 *
 * Whether the peer is still there: of a process that is killed the kernel says so if the device is its
 * (DREQ, REJ); if it is uroce's (see guid.h), nobody. So a side that waits for nothing else asks such a peer
 * now and then what one that lives answers at once:
 *
 *   passive side, established      REP again -> RTU;  not known: REJ
 *   active side, replied or later  LAP       -> APR (has no alternate paths);  not known: APR
 *
 * All that comes of the peer puts that off, so mostly only one side asks: the passive one, which is
 * sooner. A side that was told to wait by an MRA repeats its message at the same intervals. Where no
 * process has the peer's port at all, it is the system that says so (see knocker.h).
 *
 * It may be said of a peer that lives, while another process takes over the port of its host. So it
 * is believed when it is said twice, some time apart, and nothing came of the peer in between. Then
 * the peer has ended the connection, or rejected it. Silence is no end of what is established: as
 * with a kernel's device, the network may come back.
 */
#ifndef UR_ENDPOINT_H
#define UR_ENDPOINT_H

#include "../wire/cm_message.h"

/* Between repetitions: 100, 200, … 12800 ms, so 25.5 s in all. */
#define UR_CM_FIRST_INTERVAL_MS 100
#define UR_CM_RETRIES           7

/*
 * For how long the last word of one that has no connection (REJ, SIDR_REP) is kept for duplicates
 * of what it answers: longer than a peer waits that was told to wait (UR_CM_SERVICE_TIMEOUT).
 */
#define UR_CM_LINGER_MS 20000

/*
 * Packets of the old connection that are still on their way must not reach a queue pair's next
 * one. In a local network that is over long before; it also answers a DREQ that comes again soon
 * (a later one is a stranger's).
 */
#define UR_CM_TIMEWAIT_MS 200

/*
 * What an MRA tells the peer to wait, an exponent of 4.096 us: 17 s. Beyond the greatest that is
 * believed (69 s, which Linux says) a peer could make us wait for hours.
 */
#define UR_CM_SERVICE_TIMEOUT     22
#define UR_CM_MAX_SERVICE_TIMEOUT 24

/*
 * How often it asks whether the peer is there: on the passive side 10 first_interval_ms, on the
 * active one longer by UR_CM_PROBE_DELAY_MS; so 0.5 to 1 s, and 1 to 1.5 s. In steps of
 * UR_CM_PROBE_STEP_MS, so that many connections do not wake their thread one by one.
 */
#define UR_CM_PROBE_FACTOR   10
#define UR_CM_PROBE_DELAY_MS 500
#define UR_CM_PROBE_STEP_MS  50

/*
 * How far it must be between two times when it is said that nobody knows the connection: far longer
 * than a process needs to take over a port (UR_OWNER_TICK_MS). And how far it may be.
 */
#define UR_CM_TAKEOVER_MS 300
#define UR_CM_MISSED_MS   30000

/*
 * That nobody listens is believed when it is still said after UR_CM_REFUSAL_MS; the request is repeated
 * at UR_CM_REFUSAL_STEP_MS until then. A server may be about to listen: perftest -R asks its server to, over
 * another connection, and connects at once. Over a kernel's device that takes longer than to listen.
 */
#define UR_CM_REFUSAL_MS      100
#define UR_CM_REFUSAL_STEP_MS 20

enum ur_endpoint_state {
	UR_ENDPOINT_IDLE,
	UR_ENDPOINT_REQ_SENT,
	UR_ENDPOINT_REQ_RCVD,
	UR_ENDPOINT_REP_SENT,
	UR_ENDPOINT_REP_RCVD,
	UR_ENDPOINT_ESTABLISHED,
	UR_ENDPOINT_DREQ_SENT,
	UR_ENDPOINT_DREQ_RCVD,
	UR_ENDPOINT_TIMEWAIT,
	UR_ENDPOINT_SIDR_REQ_SENT,
	UR_ENDPOINT_SIDR_REQ_RCVD,
	UR_ENDPOINT_LINGER, /* over, but for duplicates */
	UR_ENDPOINT_ENDED,
};

enum ur_cm_event_kind {
	/* A REQ: message has it; the connection is new, and the receiver's to release. */
	UR_CM_EVENT_REQUESTED,
	UR_CM_EVENT_REPLIED, /* a REP: message has it */
	/* RTU, or ur_cm_established was called; on the active side by ready. */
	UR_CM_EVENT_ESTABLISHED,
	UR_CM_EVENT_REJECTED,    /* a REJ: message has it */
	UR_CM_EVENT_UNREACHABLE, /* no answer to REQ, REP or SIDR_REQ */
	/* DREQ; DREP or no answer to ours; or once established REJ, or a stale connection. */
	UR_CM_EVENT_DISCONNECTED,
	UR_CM_EVENT_TIMEWAIT_EXIT,
	UR_CM_EVENT_LOOK_UP,   /* a SIDR_REQ: as with REQUESTED */
	UR_CM_EVENT_LOOKED_UP, /* a SIDR_REP: message has it */
};

struct ur_endpoint;

struct ur_endpoint_hooks {
	void (*send)(struct ur_endpoint *endpoint, const struct ur_cm_message *message);
	/* The peer has been silent: to ask the system there whether anybody has its port. */
	void (*knock)(struct ur_endpoint *endpoint);
	/*
	 * message: NULL where none came. Not after ur_endpoint_release. Must not call the
	 * endpoint.
	 */
	void (*event)(struct ur_endpoint *endpoint, enum ur_cm_event_kind kind,
		      const struct ur_cm_message *message);
};

struct ur_endpoint {
	const struct ur_endpoint_hooks *hooks;
	enum ur_endpoint_state state;
	bool released;
	uint32_t local_id;
	uint32_t remote_id; /* 0: not known */
	uint32_t local_qpn, remote_qpn;
	uint64_t transaction_id;

	/* What was sent last: is repeated, or kept for duplicates of what it answered. */
	struct ur_cm_message sent;
	uint64_t deadline;          /* when there is something to do; UR_NEVER: never */
	uint64_t patience;          /* how long the answer to what was sent may take */
	uint32_t first_interval_ms; /* UR_CM_FIRST_INTERVAL_MS, or a little less */
	uint64_t interval;
	unsigned retries_left;
	bool prolonged;      /* by an MRA, since it was sent */
	uint64_t refused_at; /* when it was first said that nobody listens; 0: never */

	bool peer_is_uroce;
	bool peer_is_silent; /* since it was last asked whether it is there */
	uint64_t missed_at;  /* when somebody first did not know it; 0: since then it was heard */
};

/* IDLE. local_id: not 0. */
void ur_endpoint_init(struct ur_endpoint *endpoint, const struct ur_endpoint_hooks *hooks,
		      uint32_t local_id);

/* A peer's REQ or SIDR_REQ that begins a connection (event REQUESTED or LOOK_UP); IDLE before. */
void ur_endpoint_begin(struct ur_endpoint *endpoint, const struct ur_cm_message *request);

/*
 * What the program says, of kind REQ, SIDR_REQ, REP, RTU, REJ (reason and info), SIDR_REP or DREQ
 * (which becomes a DREP when the peer has asked), with its private data. Identifiers are set here,
 * and in a DREQ the queue pair. Returns 0, or EINVAL: not in this state.
 */
int ur_endpoint_send(struct ur_endpoint *endpoint, const struct ur_cm_message *message,
		     uint64_t now);

/*
 * The queue pair received something before the RTU came. Returns 0, or EINVAL: not in this state.
 */
int ur_endpoint_established(struct ur_endpoint *endpoint, uint64_t now);

/* A message of the peer. What does not fit the identifiers or the state changes nothing. */
void ur_endpoint_receive(struct ur_endpoint *endpoint, const struct ur_cm_message *message,
			 uint64_t now);

/* The system at the peer's address says that nobody has the port that its messages go to. */
void ur_endpoint_hear_nobody(struct ur_endpoint *endpoint, uint64_t now);

/*
 * Whether the peer's queue pair is in use here, so that a request for another connection of it is
 * wrong.
 */
bool ur_endpoint_is_live(const struct ur_endpoint *endpoint);

/* The peer has made its queue pair anew: an established connection is over. */
void ur_endpoint_end_stale(struct ur_endpoint *endpoint, uint64_t now);

/* No more events. What is due is sent, and the endpoint ends with its timer. */
void ur_endpoint_release(struct ur_endpoint *endpoint, uint64_t now);

/* Does nothing before the deadline. */
void ur_endpoint_run_timer(struct ur_endpoint *endpoint, uint64_t now);

#endif
