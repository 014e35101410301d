#include "engine.h"

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "../cm/gsi.h"
#include "../link/address.h"
#include "../transport/datagram.h"
#include "../transport/sender.h"
#include "../transport/unreliable.h"
#include "device.h"
#include "log.h"
#include "qp.h"
#include "timed_lock.h"

/*
 * Empty polls in a row that make a program one that polls, and not one that looks once more. Some poll for
 * the completion of their own write, and then watch memory for the peer's: with a lease they would wait
 * for its end. So packets that are found waiting then make the engine very patient, for a while.
 */
#define LEAST_PATIENCE 8
#define MOST_PATIENCE  4096

/* Idle polls in a row after which the processor is offered to others, from then on after each few. */
#define POLLS_BEFORE_YIELD 16
#define POLLS_PER_YIELD    4

/* That the thread learns of when it wakes; it is told of others the next time. */
#define MOST_EVENTS 8

/* Batches that the thread handles before it lets others have the lock. */
#define BATCHES_AT_ONCE 8

/* Batches that an owner of port 4791 passes on before it ends; peers can send for ever. */
#define LAST_BATCHES 64

/*
 * While much data flows the thread looks for more for a while before it sleeps: to be woken takes longer
 * than the next batch, and costs the sender's time too. Short messages are not worth a processor. In
 * between it yields, as the sender may wait for this very processor.
 */
#define BULK_BYTES (16 * 1024)
#define BULK_NS    (200 * 1000)

/* Who holds the lock when the process ends may be what called exit. */
#define EXIT_PATIENCE_MS 20

struct ur_engine {
	pthread_t thread;
	int epoll_fd;
	int wake_fd;
	/* The program polls until then; 0: it does not. Set under the device's lock. */
	_Atomic uint64_t lease_end;
	atomic_uint empty_polls;
	atomic_uint idle_polls; /* since packets were found */

	/* Guarded by the device's lock. */
	bool stopping;
	unsigned patience;       /* empty polls before a lease */
	uint64_t sleeping_until; /* of the thread; 0: it is awake */
	uint64_t next_deadline;  /* no timer ends before */
	uint64_t next_owner_tick;
	uint64_t bulk_end; /* the thread does not sleep before */
	uint64_t now;      /* when the packets that are being handled were received */
	struct ur_qp *timed;
	struct ur_qp *scheduled_first;
	struct ur_qp *scheduled_last;
};

/* ---- Packets that arrive ---- */

/* A datagram's queue pair has none. */
static bool is_from_peer(const struct ur_qp *qp, const struct ur_path *from)
{
	return from->gid_index == qp->path.gid_index &&
	       ur_address_same_host(&from->remote, &qp->path.remote);
}

/* A device listens on the one port only, whatever its queue pair numbers are. */
static void learn_port(struct ur_qp *qp, const struct ur_path *from)
{
	if (ur_address_port(&from->remote) >= UR_FIRST_DEVICE_PORT)
		ur_address_set_port(&qp->path.remote, UR_UDP_PORT);
}

/* States in which requests are answered, and in which answers are waited for. */
static bool responds(enum ibv_qp_state state)
{
	return state >= IBV_QPS_RTR && state != IBV_QPS_ERR;
}

static bool requests(enum ibv_qp_state state)
{
	return state == IBV_QPS_RTS || state == IBV_QPS_SQD;
}

static struct ur_qp *find_qp(const struct ur_device *device, uint32_t qpn)
{
	if (qpn >> 16 != ur_link_number(device->link))
		return NULL;
	return ur_qp_table_find(&device->qps, (uint16_t)qpn);
}

/* group: NULL, or that the packet was sent to. */
static void receive_at(struct ur_qp *qp, const struct ur_packet *packet, const struct ur_path *from,
		       const struct ur_group *group)
{
	struct ur_device *device = qp->device;
	uint32_t flags = ur_opcode_flags(packet->opcode);

	if (!(flags & UR_IS_REQUEST ? responds : requests)(qp->attr.qp_state)) {
		device->counters.rx_wrong_state++;
	} else if (!ur_qp_takes(qp, flags)) {
		device->counters.rx_unexpected++;
	} else if (flags & UR_IS_UD) {
		ur_datagram_receive(qp, packet, from, group);
	} else if (!is_from_peer(qp, from)) {
		device->counters.rx_wrong_peer++;
	} else {
		learn_port(qp, from);
		if (flags & UR_IS_UC)
			ur_unreliable_receive(qp, packet);
		else if (flags & UR_IS_REQUEST)
			ur_responder_receive(qp, packet);
		else
			ur_requester_receive(qp, packet, device->engine->now);
	}
}

static void receive_at_group(const struct ur_group *group, const struct ur_packet *packet,
			     const struct ur_path *from)
{
	for (unsigned i = 0; i < group->qp_count; i++)
		if (ur_group_is_for(group->qps[i], packet, &from->remote))
			receive_at(group->qps[i], packet, from, group);
}

static void receive(void *user_data, const struct ur_packet *packet, const struct ur_path *from)
{
	struct ur_device *device = user_data;
	const struct ur_group *group = ur_link_group(device->link);
	struct ur_qp *qp = find_qp(device, packet->dest_qpn);

	if (group)
		receive_at_group(group, packet, from);
	else if (packet->dest_qpn == UR_GSI_QPN)
		ur_gsi_receive(device, packet, from);
	else if (qp)
		receive_at(qp, packet, from, NULL);
	else
		device->counters.rx_unknown_qp++;
}

/* The clock is read once for a batch: that takes as long as to handle a packet. */
static bool receive_batch(struct ur_device *device, uint64_t now)
{
	device->engine->now = now;
	return ur_link_receive(device->link, receive, device) > 0;
}

/* ---- What is due for an answer ---- */

void ur_engine_schedule(struct ur_device *device, struct ur_qp *qp)
{
	struct ur_engine *engine = device->engine;

	if (qp->scheduled)
		return;
	qp->scheduled = true;
	qp->scheduled_next = NULL;
	if (engine->scheduled_last)
		engine->scheduled_last->scheduled_next = qp;
	else
		engine->scheduled_first = qp;
	engine->scheduled_last = qp;
}

static void unschedule(struct ur_engine *engine, struct ur_qp *qp)
{
	struct ur_qp **link = &engine->scheduled_first, *last = NULL;

	if (!qp->scheduled)
		return;
	for (; *link != qp; link = &(*link)->scheduled_next)
		last = *link;
	*link = qp->scheduled_next;
	if (engine->scheduled_last == qp)
		engine->scheduled_last = last;
	qp->scheduled = false;
}

/*
 * An acknowledgement alone can wait for what the program sends in answer to the message, and go out with
 * it in one system call; all else is waited for by the peer.
 */
static bool can_wait(const struct ur_qp *qp)
{
	const struct ur_responder *r = &qp->responder;

	return ur_qp_is_reliable(qp) && r->job_count == 0 &&
	       (!r->answer_pending || (r->syndrome & UR_SYNDROME_KIND) == UR_SYNDROME_ACK);
}

/* Goes on with all; those that can wait only if they shall not. Returns whether there is more to send now. */
static bool respond(struct ur_device *device, bool acks_wait)
{
	struct ur_engine *engine = device->engine;
	struct ur_qp *qp = engine->scheduled_first;
	bool more = false;

	engine->scheduled_first = engine->scheduled_last = NULL;
	while (qp) {
		struct ur_qp *next = qp->scheduled_next;
		bool waits = acks_wait && can_wait(qp);
		bool unfinished;

		qp->scheduled = false;
		unfinished = !waits && ur_qp_go_on(qp);
		if (waits || unfinished)
			ur_engine_schedule(device, qp);
		more |= unfinished;
		qp = next;
	}
	return more && !ur_link_carrier(device->link)->blocked;
}

static void flush_carrier(struct ur_device *device)
{
	struct ur_carrier *carrier = ur_link_carrier(device->link);

	carrier->flush(carrier);
}

static void wake(struct ur_engine *engine)
{
	const uint64_t one = 1;

	engine->sleeping_until = 0;
	/* Fails only if it is readable already. */
	if (write(engine->wake_fd, &one, sizeof(one)) < 0)
		return;
}

/* Sends what is queued; wakes the thread if there is more, or if some of it has been put off by faults. */
static void flush_and_wake(struct ur_device *device, bool more)
{
	struct ur_engine *engine = device->engine;

	flush_carrier(device);
	if (engine->sleeping_until > (more ? 0 : ur_link_deadline(device->link)))
		wake(engine);
}

void ur_engine_flush(struct ur_device *device)
{
	flush_and_wake(device, respond(device, false));
}

/* ---- Timers ---- */

static void remove_timer(struct ur_engine *engine, struct ur_qp *qp)
{
	if (!qp->timed)
		return;
	qp->timed = false;
	if (qp->timer_prev)
		qp->timer_prev->timer_next = qp->timer_next;
	else
		engine->timed = qp->timer_next;
	if (qp->timer_next)
		qp->timer_next->timer_prev = qp->timer_prev;
}

static void add_timer(struct ur_engine *engine, struct ur_qp *qp)
{
	if (qp->timed)
		return;
	qp->timed = true;
	qp->timer_prev = NULL;
	qp->timer_next = engine->timed;
	if (engine->timed)
		engine->timed->timer_prev = qp;
	engine->timed = qp;
}

/* The thread is woken only if it would sleep too long; timers that end later than before cost nothing. */
void ur_engine_set_timer(struct ur_device *device, struct ur_qp *qp, uint64_t deadline)
{
	struct ur_engine *engine = device->engine;

	qp->deadline = deadline;
	if (deadline == UR_NEVER) {
		remove_timer(engine, qp);
		return;
	}
	add_timer(engine, qp);
	if (deadline < engine->next_deadline)
		engine->next_deadline = deadline;
	if (deadline < engine->sleeping_until)
		wake(engine);
}

static void run_qp_timers(struct ur_engine *engine, uint64_t now)
{
	struct ur_qp *next;

	if (now < engine->next_deadline)
		return;
	engine->next_deadline = UR_NEVER;
	for (struct ur_qp *qp = engine->timed; qp; qp = next) {
		next = qp->timer_next;
		if (now >= qp->deadline)
			ur_qp_run_timer(qp, now);
	}
	for (struct ur_qp *qp = engine->timed; qp; qp = qp->timer_next)
		if (qp->deadline < engine->next_deadline)
			engine->next_deadline = qp->deadline;
}

static void run_timers(struct ur_device *device, uint64_t now)
{
	struct ur_engine *engine = device->engine;

	run_qp_timers(engine, now);
	if (now >= ur_link_deadline(device->link))
		ur_link_run_timers(device->link, now);
	if (now >= engine->next_owner_tick && !ur_link_is_owner(device->link)) {
		ur_link_owner_tick(device->link);
		engine->next_owner_tick = now + UR_OWNER_TICK_MS * UR_NS_PER_MS;
	}
}

static uint64_t next_deadline(const struct ur_device *device)
{
	const struct ur_engine *engine = device->engine;
	uint64_t deadline = engine->next_deadline;

	if (ur_link_deadline(device->link) < deadline)
		deadline = ur_link_deadline(device->link);
	if (!ur_link_is_owner(device->link) && engine->next_owner_tick < deadline)
		deadline = engine->next_owner_tick;
	return deadline;
}

/* ---- The program's thread ---- */

static bool has_lease(const struct ur_engine *engine)
{
	return atomic_load_explicit(&engine->lease_end, memory_order_relaxed) != 0;
}

static void extend_lease(struct ur_device *device, uint64_t now)
{
	struct ur_engine *engine = device->engine;
	uint64_t end = now + UR_LEASE_NS;

	if (!has_lease(engine) &&
	    atomic_fetch_add_explicit(&engine->empty_polls, 1, memory_order_relaxed) + 1 <
		    engine->patience)
		return;
	if (!has_lease(engine))
		ur_link_watch(device->link, false);
	atomic_store_explicit(&engine->lease_end, end, memory_order_relaxed);
	/* It must look whether the lease has ended. */
	if (engine->sleeping_until > end)
		wake(engine);
}

static void end_lease(struct ur_device *device)
{
	struct ur_engine *engine = device->engine;

	atomic_store_explicit(&engine->empty_polls, 0, memory_order_relaxed);
	if (!has_lease(engine))
		return;
	atomic_store_explicit(&engine->lease_end, 0, memory_order_relaxed);
	ur_link_watch(device->link, true);
}

/* Polling was of use. Returns whether there is more to answer now. */
static bool answer_found(struct ur_device *device)
{
	struct ur_engine *engine = device->engine;

	atomic_store_explicit(&engine->empty_polls, 0, memory_order_relaxed);
	if (engine->patience > LEAST_PATIENCE)
		engine->patience--;
	/* Without a lease the thread may sleep on, and nobody would send what is put off. */
	return respond(device, has_lease(engine));
}

/* What the program's thread finds; nothing, if another thread is at it. */
static bool poll_link(struct ur_device *device)
{
	uint64_t now;
	bool found, more;

	if (pthread_mutex_trylock(&device->lock) != 0)
		return false;
	now = ur_clock_ns();
	/* What the last poll put off: the program has sent nothing that it could go out with. */
	more = respond(device, false);
	found = receive_batch(device, now);
	if (found)
		more = answer_found(device);
	run_timers(device, now);
	/* With a lease the next poll goes on. */
	flush_and_wake(device, more && !has_lease(device->engine));
	extend_lease(device, now);
	pthread_mutex_unlock(&device->lock);
	return found;
}

/*
 * What is waited for may come from a process that waits for this processor: without a yield it would
 * wait until this one's time is up, which is a thousand times longer.
 */
void ur_engine_poll(struct ur_device *device)
{
	atomic_uint *idle = &device->engine->idle_polls;
	unsigned before;

	if (poll_link(device)) {
		atomic_store_explicit(idle, 0, memory_order_relaxed);
		return;
	}
	before = atomic_fetch_add_explicit(idle, 1, memory_order_relaxed);
	if (before >= POLLS_BEFORE_YIELD && before % POLLS_PER_YIELD == 0)
		sched_yield();
}

void ur_engine_hand_over(struct ur_device *device)
{
	atomic_store_explicit(&device->engine->empty_polls, 0, memory_order_relaxed);
	if (!has_lease(device->engine))
		return;
	pthread_mutex_lock(&device->lock);
	end_lease(device);
	ur_engine_flush(device);
	pthread_mutex_unlock(&device->lock);
}

/*
 * What has come to port 4791 for other processes of this host would be lost with the socket: so the
 * last messages of a process to its neighbours.
 */
static void pass_on_rest(struct ur_device *device)
{
	if (!ur_link_is_owner(device->link))
		return;
	end_lease(device);
	for (unsigned i = 0; i < LAST_BATCHES && receive_batch(device, ur_clock_ns()); i++)
		ur_engine_flush(device);
}

void ur_engine_at_exit(struct ur_device *device)
{
	if (!ur_lock_for(&device->lock, EXIT_PATIENCE_MS))
		return;
	if (device->engine) {
		ur_engine_flush(device);
		pass_on_rest(device);
		ur_link_leave(device->link);
	}
	pthread_mutex_unlock(&device->lock);
}

void ur_engine_forget(struct ur_device *device, struct ur_qp *qp)
{
	ur_engine_flush(device);
	unschedule(device->engine, qp);
	remove_timer(device->engine, qp);
	qp->deadline = UR_NEVER;
	qp->blocked = false;
}

/* ---- The engine's own thread ---- */

static void go_on_sending(struct ur_device *device)
{
	uint64_t now = ur_clock_ns();

	for (unsigned i = 0; i <= UINT16_MAX; i++) {
		struct ur_qp *qp = ur_qp_table_find(&device->qps, (uint16_t)i);

		if (!qp || !qp->blocked)
			continue;
		qp->blocked = false;
		ur_qp_transmit(qp, now);
	}
}

static uint64_t bytes_moved(const struct ur_device *device)
{
	return device->counters.rx_bytes + device->counters.tx_bytes;
}

/*
 * Handles a batch of what has arrived, and what is due. Returns whether there may be more at once. After a
 * small batch mostly nothing follows, and if it does, epoll says so: to look costs as much as to ask that.
 */
static bool work_once(struct ur_device *device)
{
	uint64_t before = bytes_moved(device);
	bool found = receive_batch(device, ur_clock_ns());
	bool unfinished = respond(device, false);

	flush_carrier(device);
	return unfinished || (found && bytes_moved(device) - before >= BULK_BYTES);
}

static bool work(struct ur_device *device)
{
	bool more = true;

	for (unsigned i = 0; more && i < BATCHES_AT_ONCE; i++)
		more = work_once(device);
	return more;
}

static bool work_in_bulk(struct ur_device *device, uint64_t now)
{
	struct ur_engine *engine = device->engine;
	uint64_t before = bytes_moved(device);
	bool more = work(device);

	if (bytes_moved(device) - before >= BULK_BYTES)
		engine->bulk_end = ur_clock_ns() + BULK_NS;
	return more || now < engine->bulk_end;
}

/* The program has stopped polling. */
static void end_unused_lease(struct ur_device *device)
{
	end_lease(device);
	if (receive_batch(device, ur_clock_ns()))
		device->engine->patience = MOST_PATIENCE;
}

static uint64_t work_until(struct ur_device *device)
{
	struct ur_engine *engine = device->engine;
	uint64_t now = ur_clock_ns();
	uint64_t lease_end = atomic_load_explicit(&engine->lease_end, memory_order_relaxed);
	uint64_t deadline;
	bool more = false;

	if (lease_end > 0 && now >= lease_end) {
		end_unused_lease(device);
		lease_end = 0;
	}
	run_timers(device, now);
	if (ur_link_carrier(device->link)->blocked && ur_link_writable(device->link))
		go_on_sending(device);
	if (lease_end > 0)
		ur_engine_flush(device);
	else
		more = work_in_bulk(device, now);
	deadline = next_deadline(device);
	if (lease_end > 0 && lease_end < deadline)
		deadline = lease_end;
	return more ? 0 : deadline;
}

/* Linux before 5.11, and some containers, have only the call that counts milliseconds. */
static int wait_for_events(const struct ur_engine *engine, uint64_t ns, bool forever,
			   struct epoll_event events[MOST_EVENTS])
{
	const struct timespec timeout = { .tv_sec = (time_t)(ns / UINT64_C(1000000000)),
					  .tv_nsec = (long)(ns % UINT64_C(1000000000)) };
	uint64_t ms = ns / UR_NS_PER_MS + 1;
	int found = epoll_pwait2(engine->epoll_fd, events, MOST_EVENTS, forever ? NULL : &timeout,
				 NULL);

	if (found >= 0 || errno == EINTR)
		return found;
	return epoll_wait(engine->epoll_fd, events, MOST_EVENTS,
			  forever        ? -1
			  : ms < INT_MAX ? (int)ms
					 : INT_MAX);
}

static void forget_wake_up(const struct ur_engine *engine)
{
	uint64_t count;

	/* Fails only if it was forgotten already. */
	if (read(engine->wake_fd, &count, sizeof(count)) < 0)
		return;
}

/*
 * Waits for packets, a wake-up, or the deadline; forgets wake-ups. Returns what the link gave to epoll for
 * the only socket that has an event; NULL: none has, or several, of which the link knows whose turn it is.
 */
static void *sleep_until(const struct ur_engine *engine, uint64_t deadline)
{
	uint64_t now = ur_clock_ns();
	uint64_t wait = deadline > now ? deadline - now : 0;
	struct epoll_event events[MOST_EVENTS];
	int count = wait_for_events(engine, wait, deadline == UR_NEVER, events);
	int ready_count = 0;
	void *ready = NULL;

	for (int i = 0; i < count; i++) {
		if (events[i].data.ptr) {
			ready = events[i].data.ptr;
			ready_count++;
		} else {
			forget_wake_up(engine);
		}
	}
	return ready_count == 1 ? ready : NULL;
}

static void *run(void *argument)
{
	struct ur_device *device = argument;
	struct ur_engine *engine = device->engine;

	pthread_mutex_lock(&device->lock);
	while (!engine->stopping) {
		uint64_t deadline = work_until(device);
		void *ready = NULL;

		engine->sleeping_until = deadline;
		pthread_mutex_unlock(&device->lock);
		if (deadline > 0)
			ready = sleep_until(engine, deadline);
		else
			sched_yield();
		pthread_mutex_lock(&device->lock);
		engine->sleeping_until = 0;
		if (ready)
			ur_link_begin_with(device->link, ready);
	}
	pthread_mutex_unlock(&device->lock);
	return NULL;
}

/* ---- Life ---- */

/* Signals are for the program's threads. */
static int start_thread(struct ur_device *device)
{
	sigset_t all, before;
	int error;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(&device->engine->thread, NULL, run, device);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (!error)
		pthread_setname_np(device->engine->thread, "uroce");
	return error;
}

static int open_descriptors(struct ur_engine *engine)
{
	struct epoll_event event = { .events = EPOLLIN };

	engine->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	engine->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (engine->epoll_fd < 0 || engine->wake_fd < 0 ||
	    epoll_ctl(engine->epoll_fd, EPOLL_CTL_ADD, engine->wake_fd, &event) < 0)
		return errno;
	return 0;
}

static void close_descriptors(struct ur_engine *engine)
{
	if (engine->epoll_fd >= 0)
		close(engine->epoll_fd);
	if (engine->wake_fd >= 0)
		close(engine->wake_fd);
}

/*
 * Answers are not sent again unasked: the peer will ask. The connection manager's messages have no
 * owner: it repeats them by its own timers.
 */
static void unsent(void *owner, uint32_t psn, uint8_t opcode)
{
	uint32_t flags = ur_opcode_flags(opcode);

	if (!owner)
		return;
	if (flags & (UR_IS_UD | UR_IS_UC))
		ur_sender_unsent(owner, psn);
	else if (flags & UR_IS_REQUEST)
		ur_requester_unsent(owner, psn);
}

static int open_link(struct ur_device *device)
{
	struct ur_link_address addresses[UR_MAX_GIDS];
	size_t count = ur_device_addresses(device, addresses);
	int error = ur_link_open(device->verbs.name, addresses, count, device->engine->epoll_fd,
				 &device->counters, &device->link);

	if (!error)
		ur_link_carrier(device->link)->unsent = unsent;
	return error;
}

int ur_engine_start(struct ur_device *device)
{
	struct ur_engine *engine = calloc(1, sizeof(*engine));
	int error;

	if (!engine)
		return ENOMEM;
	engine->next_deadline = UR_NEVER;
	engine->patience = LEAST_PATIENCE;
	device->engine = engine;
	error = open_descriptors(engine);
	if (error) {
		ur_log(UR_LOG_ERROR, "%s: no descriptors for the engine: %s", device->verbs.name,
		       strerror(error));
		goto err_close;
	}
	error = open_link(device);
	if (error)
		goto err_close;
	error = start_thread(device);
	if (error) {
		ur_log(UR_LOG_ERROR, "%s: no thread for the engine: %s", device->verbs.name,
		       strerror(error));
		goto err_link;
	}
	return 0;

err_link:
	ur_link_close(device->link);
	device->link = NULL;
err_close:
	close_descriptors(engine);
	free(engine);
	device->engine = NULL;
	return error;
}

void ur_engine_stop(struct ur_device *device)
{
	struct ur_engine *engine = device->engine;

	pthread_mutex_lock(&device->lock);
	engine->stopping = true;
	wake(engine);
	ur_engine_flush(device);
	pass_on_rest(device);
	pthread_mutex_unlock(&device->lock);
	pthread_join(engine->thread, NULL);
	ur_link_close(device->link);
	close_descriptors(engine);
	free(engine);
	device->link = NULL;
	device->engine = NULL;
}
