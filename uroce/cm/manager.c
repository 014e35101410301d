#include "manager.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "../core/clock.h"
#include "../core/log.h"
#include "../core/timed_lock.h"
#include "../link/address.h"
#include "claim.h"
#include "connection.h"
#include "gsi.h"
#include "inbox.h"
#include "knocker.h"
#include "listener.h"
#include "terms.h"

/* Connections that nobody needs but for duplicates; further ones end at once. */
#define MAX_LINGERING 4096

/* What is taken from the inbox, or from a claim, before others have their turn. */
#define MESSAGES_AT_ONCE 64

#define EVENTS_AT_ONCE 16

#define NUMBER_SHIFT 24

#define EXIT_PATIENCE_MS        50
#define EXIT_DEVICE_PATIENCE_MS 20

/* For the answers to the last DREQs; how often it looks. */
#define EXIT_WAIT_MS 400
#define EXIT_LOOK_MS 2

#define SIDR_REJECTED 2 /* status of a SIDR_REP */

/* A device that is held open, and how often. */
struct used_device {
	struct used_device *next;
	struct ur_device *device;
	unsigned users;
};

static struct {
	pthread_mutex_t lock;
	pthread_cond_t delivered; /* a callback has returned */
	/* Counts forks: what was made by another process is not ours. */
	unsigned process;
	bool running;
	bool quiet; /* the process ends: the program hears of nothing more */
	/* For a device's lock, then. */
	unsigned patience_ms;
	bool exiting; /* and the thread, too */
	pthread_t thread;
	int epoll_fd, wake_fd;
	uint64_t sleeping_until; /* of the thread; 0: it is awake */
	uint64_t next_deadline;  /* no timer ends before */

	struct ur_connection_table table;
	unsigned lingering;
	struct ur_cm_connection *timed;
	struct ur_cm_connection *ready_first, *ready_last;
	struct ur_knocker *knockers; /* for each address that one was needed of */
	/* Whose callback runs. */
	struct ur_cm_connection *current;
	struct ur_cm_listener *current_listener;

	/* Guards the following; what is written with both locks held may be read with either. */
	pthread_mutex_t input_lock;
	struct ur_inbox inbox;
	struct ur_cm_listener *listeners; /* written with both */
	struct used_device *used;         /* written with both */
} manager = { .lock = PTHREAD_MUTEX_INITIALIZER,
	      .delivered = PTHREAD_COND_INITIALIZER,
	      .input_lock = PTHREAD_MUTEX_INITIALIZER };

static void lock(void)
{
	pthread_mutex_lock(&manager.lock);
}

static void unlock(void)
{
	pthread_mutex_unlock(&manager.lock);
}

static void lock_input(void)
{
	pthread_mutex_lock(&manager.input_lock);
}

static void unlock_input(void)
{
	pthread_mutex_unlock(&manager.input_lock);
}

static bool in_thread(void)
{
	return manager.running && pthread_equal(pthread_self(), manager.thread);
}

static void wake(void)
{
	const uint64_t one = 1;

	/* Fails only if it is readable already. */
	if (write(manager.wake_fd, &one, sizeof(one)) < 0)
		return;
}

/* Manager's lock held. */
static void wake_before(uint64_t deadline)
{
	if (manager.sleeping_until <= deadline)
		return;
	manager.sleeping_until = 0;
	wake();
}

static int watch(int fd)
{
	struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };

	if (epoll_ctl(manager.epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0 && errno != EEXIST)
		return errno;
	return 0;
}

/* ---- Devices in use ---- */

static struct used_device *find_used(const struct ur_device *device)
{
	struct used_device *used = manager.used;

	while (used && used->device != device)
		used = used->next;
	return used;
}

static int begin_use(struct ur_device *device)
{
	struct used_device *used = calloc(1, sizeof(*used));
	int error;

	if (!used)
		return ENOMEM;
	error = ur_device_get(device);
	if (error) {
		free(used);
		return error;
	}
	*used = (struct used_device){ manager.used, device, 1 };
	lock_input();
	manager.used = used;
	unlock_input();
	return 0;
}

static int use_device(struct ur_device *device)
{
	struct used_device *used = find_used(device);

	if (!used)
		return begin_use(device);
	used->users++;
	return 0;
}

static void end_use(struct used_device *used)
{
	struct used_device **link = &manager.used;

	while (*link != used)
		link = &(*link)->next;
	lock_input();
	*link = used->next;
	unlock_input();
	/* Waits for the engine's thread, which takes the input lock. */
	ur_device_put(used->device);
	free(used);
}

static void unuse_device(struct ur_device *device)
{
	struct used_device *used = find_used(device);

	if (--used->users == 0)
		end_use(used);
}

/* ---- Listeners ---- */

bool ur_cm_serves(uint64_t service_id, const union ur_sockaddr *local)
{
	bool found;

	lock_input();
	found = ur_listener_find(manager.listeners, service_id, local);
	unlock_input();
	return found;
}

static bool has_room(const struct ur_cm_listener *listener)
{
	return listener->unread < listener->backlog && listener->unanswered < UR_CM_MAX_BACKLOG;
}

static void leave_backlog(struct ur_cm_connection *connection)
{
	if (!connection->unread)
		return;
	connection->unread = false;
	connection->listener->unread--;
}

/* The request is answered, or does not need to be any more. */
static void leave_listener(struct ur_cm_connection *connection)
{
	if (!connection->listener)
		return;
	leave_backlog(connection);
	connection->listener->unanswered--;
	connection->listener = NULL;
}

/* ---- Timers ---- */

static void remove_timer(struct ur_cm_connection *connection)
{
	if (!connection->timed)
		return;
	connection->timed = false;
	if (connection->timer_prev)
		connection->timer_prev->timer_next = connection->timer_next;
	else
		manager.timed = connection->timer_next;
	if (connection->timer_next)
		connection->timer_next->timer_prev = connection->timer_prev;
}

static void add_timer(struct ur_cm_connection *connection)
{
	if (connection->timed)
		return;
	connection->timed = true;
	connection->timer_prev = NULL;
	connection->timer_next = manager.timed;
	if (manager.timed)
		manager.timed->timer_prev = connection;
	manager.timed = connection;
}

static void set_timer(struct ur_cm_connection *connection)
{
	uint64_t deadline = connection->endpoint.deadline;

	if (deadline == UR_NEVER) {
		remove_timer(connection);
		return;
	}
	add_timer(connection);
	if (deadline < manager.next_deadline)
		manager.next_deadline = deadline;
	wake_before(deadline);
}

/* ---- Life of a connection ---- */

static void remove_ready(struct ur_cm_connection *connection)
{
	struct ur_cm_connection **link = &manager.ready_first, *last = NULL;

	if (!connection->ready)
		return;
	for (; *link != connection; link = &(*link)->next_ready)
		last = *link;
	*link = connection->next_ready;
	if (manager.ready_last == connection)
		manager.ready_last = last;
	connection->ready = false;
}

static void destroy(struct ur_cm_connection *connection)
{
	remove_timer(connection);
	remove_ready(connection);
	ur_connection_remove(&manager.table, connection);
	ur_connection_drop_events(connection);
	if (connection->lingers)
		manager.lingering--;
	unuse_device(connection->route.device);
	free(connection);
}

static bool is_needed(const struct ur_cm_connection *connection)
{
	return !connection->endpoint.released || connection->held || connection == manager.current;
}

/* Counts those that linger. False: there are too many. */
static bool may_stay(struct ur_cm_connection *connection)
{
	if (connection->lingers || connection->endpoint.state != UR_ENDPOINT_LINGER)
		return connection->endpoint.state != UR_ENDPOINT_ENDED;
	if (manager.lingering == MAX_LINGERING)
		return false;
	connection->lingers = true;
	manager.lingering++;
	return true;
}

/* After all that may have changed the endpoint: the connection may be gone. */
static void settle(struct ur_cm_connection *connection)
{
	if (is_needed(connection) || may_stay(connection))
		set_timer(connection);
	else
		destroy(connection);
}

/* Those for the listener have one, those for nobody yet wait. */
static bool can_deliver(const struct ur_cm_connection *connection)
{
	return connection->first_event && !connection->closing &&
	       (!connection->delivered || connection->event);
}

static void make_ready(struct ur_cm_connection *connection)
{
	if (connection->ready || !can_deliver(connection))
		return;
	connection->ready = true;
	connection->next_ready = NULL;
	if (manager.ready_last)
		manager.ready_last->next_ready = connection;
	else
		manager.ready_first = connection;
	manager.ready_last = connection;
	wake_before(0);
}

static void send_message(struct ur_device *device, const struct ur_path *path,
			 const struct ur_cm_message *message)
{
	if (!manager.quiet)
		ur_gsi_send(device, path, message);
	/* Who called exit may hold the device's lock: that is not waited for again. */
	else if (!ur_gsi_try_send(device, path, message, manager.patience_ms))
		manager.patience_ms = 0;
}

/* Of who asked, and may be gone, the owner of port 4791 says so at once, in the peer's stead. */
static void send_of_endpoint(struct ur_endpoint *endpoint, const struct ur_cm_message *message)
{
	const struct ur_cm_route *route = &((struct ur_cm_connection *)endpoint)->route;
	struct ur_path path = route->path;

	if (endpoint->state == UR_ENDPOINT_REP_SENT)
		ur_address_set_port(&path.remote, UR_UDP_PORT);
	send_message(route->device, &path, message);
}

/* NULL: it cannot be. */
static struct ur_knocker *open_knocker(const union ur_sockaddr *source)
{
	struct ur_knocker *knocker = ur_knocker_open(source);

	if (!knocker || watch(knocker->fd) != 0) {
		ur_knocker_close(knocker);
		return NULL;
	}
	knocker->next = manager.knockers;
	manager.knockers = knocker;
	return knocker;
}

static struct ur_knocker *knocker_of(const union ur_sockaddr *source)
{
	struct ur_knocker *knocker = manager.knockers;

	while (knocker && !ur_address_same_host(&knocker->source, source))
		knocker = knocker->next;
	return knocker ? knocker : open_knocker(source);
}

static void knock_for_endpoint(struct ur_endpoint *endpoint)
{
	const struct ur_cm_route *route = &((struct ur_cm_connection *)endpoint)->route;
	const struct ur_knocker *knocker = knocker_of(&route->source);

	if (knocker)
		ur_knocker_send(knocker, &route->path.remote, endpoint->local_id,
				endpoint->remote_id);
}

/* From now on requests of the same queue pair are wrong. */
static void learn_from_rep(struct ur_cm_connection *connection, const struct ur_cm_rep *rep)
{
	ur_terms_take_rep(connection, rep);
	ur_connection_add(&manager.table, connection, UR_BY_QPN);
}

static void event_of_endpoint(struct ur_endpoint *endpoint, enum ur_cm_event_kind kind,
			      const struct ur_cm_message *message)
{
	struct ur_cm_connection *connection = (struct ur_cm_connection *)endpoint;

	if (kind == UR_CM_EVENT_REPLIED)
		learn_from_rep(connection, &message->rep);
	if (kind == UR_CM_EVENT_LOOKED_UP)
		connection->attr.qkey = message->sidr_rep.qkey;
	if (ur_connection_put_event(connection, kind, message) != 0)
		ur_log(UR_LOG_ERROR, "%s: no memory for an event of a connection",
		       connection->route.device->verbs.name);
	make_ready(connection);
}

static uint32_t new_id(struct ur_device *device)
{
	uint32_t number, id;

	pthread_mutex_lock(&device->lock);
	number = ur_link_number(device->link);
	pthread_mutex_unlock(&device->lock);
	do {
		id = number << NUMBER_SHIFT | ur_terms_random();
	} while (ur_connection_find(&manager.table, id));
	return id;
}

static int create(const struct ur_cm_route *route, bool is_datagram,
		  struct ur_cm_connection **connection)
{
	static const struct ur_endpoint_hooks hooks = { send_of_endpoint, knock_for_endpoint,
							event_of_endpoint };
	struct ur_cm_connection *created = calloc(1, sizeof(*created));
	int error;

	if (!created)
		return ENOMEM;
	error = use_device(route->device);
	if (error) {
		free(created);
		return error;
	}
	created->route = *route;
	created->process = manager.process;
	created->is_datagram = is_datagram;
	ur_terms_begin(created);
	ur_endpoint_init(&created->endpoint, &hooks, new_id(route->device));
	/* Many that begin at once, and of which some are not heard, are not to be so once more. */
	created->endpoint.first_interval_ms -= ur_terms_random() % (UR_CM_FIRST_INTERVAL_MS / 2);
	ur_connection_add(&manager.table, created, UR_BY_ID);
	*connection = created;
	return 0;
}

/* ---- What is agreed for the queue pair ---- */

int ur_cm_qp_attr(struct ur_cm_connection *connection, struct ibv_qp_attr *attr, int *mask)
{
	int error;

	lock();
	error = ur_terms_attr(connection, attr, mask);
	unlock();
	return error;
}

/* ---- Requests that arrive ---- */

static bool is_request(const struct ur_cm_message *message)
{
	return message->kind == UR_CM_REQ || message->kind == UR_CM_SIDR_REQ;
}

static uint64_t service_of(const struct ur_cm_message *request)
{
	return request->kind == UR_CM_REQ ? request->req.service_id : request->sidr_req.service_id;
}

static void refuse(const struct ur_cm_message *message, const struct ur_cm_route *route,
		   uint16_t reason)
{
	struct ur_cm_message refusal;

	if (!ur_gsi_refusal(message, &refusal))
		return;
	if (message->kind == UR_CM_REQ)
		refusal.rej.reason = reason;
	if (message->kind == UR_CM_SIDR_REQ && reason != UR_CM_INVALID_SERVICE_ID)
		refusal.sidr_rep.status = SIDR_REJECTED;
	send_message(route->device, &route->path, &refusal);
}

static bool has_transport(const struct ur_cm_req *req)
{
	return req->transport == UR_CM_RC ||
	       (req->transport == UR_CM_EXTENDED && req->extended_transport == UR_CM_XRC);
}

/* The reason to refuse a request; 0: none. */
static uint16_t find_fault(const struct ur_cm_message *request,
			   const struct ur_cm_ip_header *header, bool has_header,
			   const struct ur_cm_route *route)
{
	if (request->kind == UR_CM_REQ && !has_transport(&request->req))
		return UR_CM_INVALID_TRANSPORT;
	if (!has_header || !ur_terms_is_right(header, route))
		return UR_CM_UNSUPPORTED;
	return 0;
}

/*
 * The peer has made its queue pair anew, but does not know that of the old connection something is
 * left here.
 */
static bool end_stale(const struct ur_cm_message *request, const struct ur_cm_route *route,
		      uint64_t now)
{
	struct ur_cm_connection *old;

	if (request->kind != UR_CM_REQ)
		return false;
	old = ur_connection_find_live(&manager.table, &route->dest, request->req.qpn);
	if (!old)
		return false;
	refuse(request, route, UR_CM_STALE_CONNECTION);
	ur_endpoint_end_stale(&old->endpoint, now);
	settle(old);
	return true;
}

/* Of what nobody has heard of, nobody will. */
static void refuse_undelivered(struct ur_cm_connection *connection)
{
	connection->closing = true;
	leave_listener(connection);
	ur_connection_drop_events(connection);
	ur_endpoint_release(&connection->endpoint, ur_clock_ns());
	settle(connection);
}

static void begin(struct ur_cm_listener *listener, const struct ur_cm_message *request,
		  const struct ur_cm_route *route)
{
	struct ur_cm_connection *connection;

	if (create(route, request->kind == UR_CM_SIDR_REQ, &connection) != 0)
		return;
	connection->listener = listener;
	connection->service_id = listener->service_id;
	connection->unread = true;
	listener->unread++;
	listener->unanswered++;
	ur_endpoint_begin(&connection->endpoint, request);
	ur_connection_add(&manager.table, connection, UR_BY_REQUEST);
	if (request->kind == UR_CM_REQ) {
		ur_terms_take_req(connection, &request->req);
		ur_connection_add(&manager.table, connection, UR_BY_QPN);
	}
	if (!connection->first_event)
		refuse_undelivered(connection);
}

/* A listener whose backlog is full says nothing: the peer asks again. */
static void take_request(const struct ur_cm_message *request, struct ur_cm_route *route,
			 uint64_t now)
{
	struct ur_cm_listener *listener =
		ur_listener_find(manager.listeners, service_of(request), &route->source);
	struct ur_cm_ip_header header;
	bool has_header = ur_cm_ip_header_decode(request->private_data, &header);
	uint16_t fault = find_fault(request, &header, has_header, route);

	if (!listener || fault != 0) {
		refuse(request, route, listener ? fault : UR_CM_INVALID_SERVICE_ID);
		return;
	}
	if (end_stale(request, route, now) || !has_room(listener))
		return;
	ur_address_set_port(&route->dest, header.source_port);
	begin(listener, request, route);
}

/* ---- Messages that arrive ---- */

static struct ur_cm_connection *find(const struct ur_cm_message *message,
				     const struct ur_cm_route *route)
{
	bool by_request =
		is_request(message) || (message->kind == UR_CM_REJ && message->remote_id == 0);
	struct ur_cm_connection *found;

	if (by_request)
		return ur_connection_find_request(&manager.table, &route->dest, message->local_id,
						  message->kind == UR_CM_SIDR_REQ);
	found = ur_connection_find(&manager.table, message->kind == UR_CM_SIDR_REP
							   ? message->local_id
							   : message->remote_id);
	if (!found || found->route.device != route->device ||
	    !ur_address_same_host(&found->route.dest, &route->dest))
		return NULL;
	return found;
}

/*
 * A peer that replies is from then on spoken to where it is answered: in another process of this
 * host, that is at its own port.
 */
static void learn_way(struct ur_cm_connection *connection, const struct ur_cm_message *message,
		      const struct ur_cm_route *back)
{
	if (message->kind == UR_CM_REP && connection->endpoint.state == UR_ENDPOINT_REQ_SENT)
		connection->route.path.remote = back->path.remote;
}

static void take_message(const struct ur_cm_message *message, struct ur_cm_route *route,
			 uint64_t now)
{
	struct ur_cm_connection *connection = find(message, route);

	if (connection &&
	    (is_request(message) || connection->endpoint.state != UR_ENDPOINT_ENDED)) {
		learn_way(connection, message, route);
		ur_endpoint_receive(&connection->endpoint, message, now);
		settle(connection);
	} else if (is_request(message)) {
		take_request(message, route, now);
	} else {
		refuse(message, route, UR_CM_INVALID_COMM_ID);
	}
}

/* The device may have been closed since the message was taken in. */
static void take_entry(const struct ur_inbox_entry *entry, uint64_t now)
{
	const struct ur_cm_message *message = &entry->message;
	uint16_t port = is_request(message) ? (uint16_t)service_of(message) : 0;
	struct ur_cm_route route;

	if (find_used(entry->device) &&
	    ur_cm_route_back(entry->device, &entry->from, port, 0, &route) == 0)
		take_message(message, &route, now);
}

static bool take_input(uint64_t now)
{
	struct ur_inbox_entry entry;
	bool found;

	lock_input();
	found = ur_inbox_take(&manager.inbox, &entry);
	unlock_input();
	if (found)
		take_entry(&entry, now);
	return found;
}

bool ur_cm_input(struct ur_device *device, const struct ur_path *from,
		 const struct ur_cm_message *message)
{
	const struct ur_inbox_entry entry = { device, *from, *message };
	bool used, full, was_empty;

	lock_input();
	used = find_used(device);
	was_empty = manager.inbox.count == 0;
	full = used && !ur_inbox_put(&manager.inbox, &entry);
	unlock_input();
	/* Else the thread is at it: it does not sleep before the inbox is empty. */
	if (used && was_empty)
		wake();
	if (full)
		device->counters.cm_dropped++;
	return used;
}

/* ---- Requests through claims ---- */

static int add_device(struct ur_cm_listener *listener, struct ur_device *device)
{
	struct ur_device **devices =
		reallocarray(listener->devices, listener->device_count + 1, sizeof(*devices));
	int error;

	if (!devices)
		return ENOMEM;
	listener->devices = devices;
	error = use_device(device);
	if (!error)
		devices[listener->device_count++] = device;
	return error;
}

/* It must be open for the answer also if nobody listens there: who asks is refused at once. */
static void take_on_device(const struct ur_inbox_entry *entry, uint64_t now)
{
	if (use_device(entry->device) != 0)
		return;
	take_entry(entry, now);
	unuse_device(entry->device);
}

/* One that listens to any address uses also the devices that came up later. */
static void take_claimed(const struct ur_claimed *claimed, uint64_t now)
{
	struct ur_inbox_entry entry = { .device = ur_cm_device_of(&claimed->to),
					.from = { .remote = claimed->from } };
	struct ur_cm_listener *listener;
	int gid_index;

	if (!entry.device || ur_cm_decode(claimed->mad, sizeof(claimed->mad), &entry.message) ||
	    !is_request(&entry.message))
		return;
	gid_index = ur_cm_gid_index(entry.device, &claimed->to);
	if (gid_index < 0)
		return;
	entry.from.gid_index = (uint8_t)gid_index;
	listener = ur_listener_find(manager.listeners, service_of(&entry.message), &claimed->to);
	if (listener && !find_used(entry.device) && add_device(listener, entry.device) != 0)
		return;
	take_on_device(&entry, now);
}

/* ---- Ports that nobody has ---- */

static bool goes_to(const struct ur_cm_connection *connection, const union ur_sockaddr *address)
{
	const union ur_sockaddr *remote = &connection->route.path.remote;

	return ur_address_same_host(remote, address) &&
	       ur_address_port(remote) == ur_address_port(address);
}

/* What is true of the port concerns all connections that go there. */
static void note_nobody(const struct ur_device *device, const union ur_sockaddr *address,
			uint64_t now)
{
	struct ur_cm_connection *connection = ur_connection_next(&manager.table, NULL);

	while (connection) {
		struct ur_cm_connection *next = ur_connection_next(&manager.table, connection);

		if (connection->route.device == device && goes_to(connection, address)) {
			ur_endpoint_hear_nobody(&connection->endpoint, now);
			settle(connection);
		}
		connection = next;
	}
}

/* Believed if it names a connection by both its ids. */
static void take_report(const struct ur_cm_message *knock, const union ur_sockaddr *address,
			uint64_t now)
{
	struct ur_cm_connection *connection = ur_connection_find(&manager.table, knock->local_id);

	if (connection && connection->endpoint.remote_id == knock->remote_id &&
	    goes_to(connection, address))
		note_nobody(connection->route.device, address, now);
}

static const struct ur_knocker *find_knocker(int fd)
{
	const struct ur_knocker *knocker = manager.knockers;

	while (knocker && knocker->fd != fd)
		knocker = knocker->next;
	return knocker;
}

static void read_knocker(const struct ur_knocker *knocker)
{
	union ur_sockaddr address;
	struct ur_cm_message knock;

	for (unsigned i = 0; i < MESSAGES_AT_ONCE && ur_knocker_hear(knocker, &address, &knock);
	     i++)
		take_report(&knock, &address, ur_clock_ns());
}

/* ---- Events ---- */

static struct ur_cm_connection *take_ready(void)
{
	struct ur_cm_connection *connection = manager.ready_first;

	if (!connection)
		return NULL;
	manager.ready_first = connection->next_ready;
	if (!manager.ready_first)
		manager.ready_last = NULL;
	connection->ready = false;
	return connection;
}

static bool begins(const struct ur_pending_event *event)
{
	return event->kind == UR_CM_EVENT_REQUESTED || event->kind == UR_CM_EVENT_LOOK_UP;
}

/* Manager's lock held, but not during the callback. */
static void call(struct ur_cm_connection *connection, const struct ur_pending_event *pending)
{
	const struct ur_cm_event event = { pending->kind, connection,
					   pending->has_message ? &pending->message : NULL };
	ur_cm_event_fn function = connection->event;
	void *user_data = connection->user_data;

	manager.current = connection;
	if (begins(pending)) {
		connection->delivered = true;
		manager.current_listener = connection->listener;
		function = connection->listener->event;
		user_data = connection->listener->user_data;
	}
	unlock();
	function(user_data, &event);
	lock();
	manager.current = NULL;
	manager.current_listener = NULL;
	pthread_cond_broadcast(&manager.delivered);
}

static void deliver(struct ur_cm_connection *connection)
{
	struct ur_pending_event *pending;

	if (!can_deliver(connection))
		return;
	pending = ur_connection_take_event(connection);
	call(connection, pending);
	free(pending);
	make_ready(connection);
	settle(connection);
}

static void deliver_all(void)
{
	struct ur_cm_connection *connection;

	while (!manager.quiet && (connection = take_ready()))
		deliver(connection);
}

/* ---- The thread ---- */

static void run_timers(uint64_t now)
{
	struct ur_cm_connection *next;

	if (now < manager.next_deadline)
		return;
	manager.next_deadline = UR_NEVER;
	for (struct ur_cm_connection *c = manager.timed; c; c = next) {
		next = c->timer_next;
		ur_endpoint_run_timer(&c->endpoint, now);
		settle(c);
	}
}

/* Without waiting for more; the claim is asked again if there is some left. */
static void read_claim(int fd)
{
	struct ur_claimed claimed;

	/*
	 * It may have been given back since the wait ended, and the number be another
	 * descriptor's.
	 */
	for (unsigned i = 0; i < MESSAGES_AT_ONCE && ur_listener_find_fd(manager.listeners, fd);
	     i++) {
		if (!ur_claim_read(fd, &claimed))
			return;
		take_claimed(&claimed, ur_clock_ns());
		deliver_all();
	}
}

static void read_wake_fd(void)
{
	uint64_t count;

	if (read(manager.wake_fd, &count, sizeof(count)) < 0)
		return;
}

/*
 * The events of each message are delivered before the next one: it may find the backlog empty
 * again. Returns whether there may be more.
 */
static bool read_inbox(void)
{
	for (unsigned i = 0; i < MESSAGES_AT_ONCE; i++) {
		if (manager.exiting || !take_input(ur_clock_ns()))
			return false;
		deliver_all();
	}
	return true;
}

/* Returns whether there is more to do at once. */
static bool work(const struct epoll_event *events, int count)
{
	bool more;

	for (int i = 0; i < count; i++) {
		const struct ur_knocker *knocker = find_knocker(events[i].data.fd);

		if (events[i].data.fd == manager.wake_fd)
			read_wake_fd();
		else if (knocker)
			read_knocker(knocker);
		else
			read_claim(events[i].data.fd);
	}
	deliver_all();
	more = read_inbox();
	run_timers(ur_clock_ns());
	deliver_all();
	return more;
}

static int time_to_sleep(uint64_t deadline)
{
	uint64_t now = ur_clock_ns();
	uint64_t ms = deadline > now ? (deadline - now) / UR_NS_PER_MS + 1 : 0;

	if (deadline == UR_NEVER)
		return -1;
	return ms < INT_MAX ? (int)ms : INT_MAX;
}

static void *run(void *argument)
{
	struct epoll_event events[EVENTS_AT_ONCE];
	int count = 0;

	(void)argument;
	lock();
	while (!manager.exiting) {
		uint64_t deadline = work(events, count) ? 0 : manager.next_deadline;

		manager.sleeping_until = deadline;
		unlock();
		count = epoll_wait(manager.epoll_fd, events, EVENTS_AT_ONCE,
				   time_to_sleep(deadline));
		lock();
		manager.sleeping_until = 0;
	}
	unlock();
	return NULL;
}

/* ---- Beginning and end ---- */

static void close_knockers(void)
{
	while (manager.knockers) {
		struct ur_knocker *knocker = manager.knockers;

		manager.knockers = knocker->next;
		ur_knocker_close(knocker);
	}
}

/*
 * Of its parent's connections a child has nothing: neither the thread nor the devices' links. The
 * program may still point to them, so they stay where they are.
 */
static void disown(void)
{
	unsigned process = manager.process + 1;

	if (manager.running) {
		close(manager.epoll_fd);
		close(manager.wake_fd);
	}
	close_knockers();
	free(manager.inbox.entries);
	memset(&manager, 0, sizeof(manager));
	manager.process = process;
	pthread_mutex_init(&manager.lock, NULL);
	pthread_mutex_init(&manager.input_lock, NULL);
	pthread_cond_init(&manager.delivered, NULL);
}

static void prepare_for_forks(void)
{
	pthread_atfork(NULL, NULL, disown);
}

static int open_descriptors(void)
{
	manager.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (manager.epoll_fd < 0)
		return errno;
	manager.wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	return manager.wake_fd < 0 ? errno : watch(manager.wake_fd);
}

static void close_descriptors(void)
{
	close(manager.epoll_fd);
	if (manager.wake_fd >= 0)
		close(manager.wake_fd);
}

/* Signals are for the program's threads. Nobody waits for its end, which is the process's. */
static int start_thread(void)
{
	sigset_t all, before;
	int error;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(&manager.thread, NULL, run, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (error)
		return error;
	pthread_setname_np(manager.thread, "uroce_cm");
	pthread_detach(manager.thread);
	return 0;
}

static int start(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	int error = 0;

	if (!manager.inbox.entries)
		error = ur_inbox_create(&manager.inbox);
	if (error)
		return error;
	manager.next_deadline = UR_NEVER;
	manager.wake_fd = -1;
	error = open_descriptors();
	if (!error)
		error = start_thread();
	if (error)
		close_descriptors();
	manager.running = !error;
	pthread_once(&once, prepare_for_forks);
	return error;
}

/* Manager's lock held. Returns 0 or an errno, and logs why. */
static int ensure_running(void)
{
	int error = manager.running ? 0 : start();

	if (error)
		ur_log(UR_LOG_ERROR, "cannot start the connection manager: %s", strerror(error));
	return error;
}

static bool waits_for_last_answers(void)
{
	struct ur_cm_connection *connection = NULL;

	while ((connection = ur_connection_next(&manager.table, connection)))
		if (connection->endpoint.state == UR_ENDPOINT_DREQ_SENT)
			return true;
	return false;
}

/* A lost DREQ would not be repeated by anybody, and the peer wait for ever. */
static bool wait_for_last_answers(void)
{
	const struct timespec pause = { .tv_nsec = EXIT_LOOK_MS * UR_NS_PER_MS };

	for (unsigned ms = 0; ms < EXIT_WAIT_MS && waits_for_last_answers(); ms += EXIT_LOOK_MS) {
		unlock();
		nanosleep(&pause, NULL);
		if (!ur_lock_for(&manager.lock, EXIT_PATIENCE_MS))
			return false;
	}
	return true;
}

void ur_cm_at_exit(void)
{
	struct ur_cm_connection *connection = NULL;
	uint64_t now = ur_clock_ns();

	/* The manager's thread soon gives it back; but who holds it may be what called exit. */
	if (!ur_lock_for(&manager.lock, EXIT_PATIENCE_MS))
		return;
	manager.quiet = true;
	manager.patience_ms = EXIT_DEVICE_PATIENCE_MS;
	while ((connection = ur_connection_next(&manager.table, connection))) {
		if (connection->endpoint.released)
			continue;
		ur_endpoint_release(&connection->endpoint, now);
		set_timer(connection);
	}
	if (!manager.exiting && manager.running && !wait_for_last_answers())
		return;
	manager.exiting = true;
	unlock();
}

/* ---- Calls of the program: listeners ---- */

static bool is_taken(const struct ur_cm_listener *wanted)
{
	const struct ur_cm_listener *other =
		ur_listener_find(manager.listeners, wanted->service_id, &wanted->address);

	return other && ur_address_equal(&other->address, &wanted->address);
}

static void unuse_devices(struct ur_cm_listener *listener)
{
	for (unsigned i = 0; i < listener->device_count; i++)
		unuse_device(listener->devices[i]);
	free(listener->devices);
}

/* Those that cannot be opened are left out. */
static int use_all_devices(struct ur_cm_listener *listener)
{
	unsigned count = 0, used = 0;
	int error = ur_devices_scan(&listener->devices, &count);

	for (unsigned i = 0; i < count && !error; i++)
		if (use_device(listener->devices[i]) == 0)
			listener->devices[used++] = listener->devices[i];
	listener->device_count = used;
	return error || used > 0 ? error : ENODEV;
}

static int use_device_of_address(struct ur_cm_listener *listener)
{
	struct ur_device *device = ur_cm_device_of(&listener->address);

	return device ? add_device(listener, device) : ENODEV;
}

static int open_listener(struct ur_cm_listener *listener)
{
	int error = ensure_running();

	if (!error && is_taken(listener))
		error = EADDRINUSE;
	if (!error)
		error = ur_address_is_any(&listener->address) ? use_all_devices(listener)
							      : use_device_of_address(listener);
	if (!error && listener->fd < 0)
		error = EINVAL;
	if (!error)
		error = watch(listener->fd);
	return error;
}

static void link_listener(struct ur_cm_listener *listener)
{
	lock_input();
	listener->next = manager.listeners;
	manager.listeners = listener;
	unlock_input();
}

int ur_cm_listen(uint16_t port_space, const union ur_sockaddr *address, int backlog,
		 ur_cm_event_fn event, void *user_data, struct ur_cm_listener **listener)
{
	struct ur_cm_listener *created = calloc(1, sizeof(*created));
	uint16_t port = ur_address_port(address);
	int error;

	if (!created)
		return ENOMEM;
	created->service_id = UR_CM_SERVICE_ID(port_space, port);
	created->address = *address;
	created->backlog = ur_listener_limit(backlog);
	created->event = event;
	created->user_data = user_data;
	created->fd = ur_cm_port_fd(port_space, port);
	lock();
	created->process = manager.process;
	error = open_listener(created);
	if (!error) {
		link_listener(created);
		*listener = created;
	} else {
		unuse_devices(created);
		ur_cm_port_end_fd(port_space, port);
		free(created);
	}
	unlock();
	return error;
}

static void unlink_listener(struct ur_cm_listener *listener)
{
	struct ur_cm_listener **link = &manager.listeners;

	while (*link != listener)
		link = &(*link)->next;
	lock_input();
	*link = listener->next;
	unlock_input();
	if (!ur_listener_find_fd(manager.listeners, listener->fd))
		epoll_ctl(manager.epoll_fd, EPOLL_CTL_DEL, listener->fd, NULL);
}

static void forget_listener(const struct ur_cm_listener *listener)
{
	struct ur_cm_connection *connection = ur_connection_next(&manager.table, NULL);

	while (connection) {
		struct ur_cm_connection *next = ur_connection_next(&manager.table, connection);

		if (connection->listener == listener && connection->delivered)
			leave_listener(connection);
		else if (connection->listener == listener)
			refuse_undelivered(connection);
		connection = next;
	}
}

void ur_cm_unlisten(struct ur_cm_listener *listener)
{
	lock();
	if (listener->process == manager.process) {
		unlink_listener(listener);
		forget_listener(listener);
		while (manager.current_listener == listener && !in_thread())
			pthread_cond_wait(&manager.delivered, &manager.lock);
		unuse_devices(listener);
		ur_cm_port_end_fd((uint16_t)(listener->service_id >> 16),
				  (uint16_t)listener->service_id);
		free(listener);
	}
	unlock();
}

/* ---- Calls of the program: messages ---- */

static int create_active(const struct ur_cm_route *route, bool is_datagram, ur_cm_event_fn event,
			 void *user_data, struct ur_cm_connection **connection)
{
	int error = ensure_running();

	if (!error)
		error = create(route, is_datagram, connection);
	if (error)
		return error;
	(*connection)->event = event;
	(*connection)->user_data = user_data;
	(*connection)->delivered = true; /* no listener has it */
	return 0;
}

static int say(struct ur_cm_connection *connection, const struct ur_cm_message *message)
{
	int error = ur_endpoint_send(&connection->endpoint, message, ur_clock_ns());

	set_timer(connection);
	return error;
}

int ur_cm_request(uint16_t port_space, const struct ur_cm_route *route,
		  const struct ur_cm_params *params, ur_cm_event_fn event, void *user_data,
		  struct ur_cm_connection **connection)
{
	uint64_t service_id = UR_CM_SERVICE_ID(port_space, ur_address_port(&route->dest));
	struct ur_cm_message message = { .kind = UR_CM_REQ };
	int error = ur_terms_add_request_data(&message, route, params->private_data,
					      params->private_length);

	if (error)
		return error;
	lock();
	error = create_active(route, false, event, user_data, connection);
	if (!error) {
		ur_terms_take_params(*connection, params);
		(*connection)->attr.retry_cnt = params->retry_count;
		ur_terms_make_req(*connection, service_id, params, &message.req);
		error = say(*connection, &message);
	}
	unlock();
	return error;
}

int ur_cm_look_up(uint16_t port_space, const struct ur_cm_route *route, const void *private_data,
		  size_t private_length, ur_cm_event_fn event, void *user_data,
		  struct ur_cm_connection **connection)
{
	struct ur_cm_message message = {
		.kind = UR_CM_SIDR_REQ,
		.sidr_req = { .pkey = UR_DEFAULT_PKEY,
			      .service_id =
				      UR_CM_SERVICE_ID(port_space, ur_address_port(&route->dest)) },
	};
	int error = ur_terms_add_request_data(&message, route, private_data, private_length);

	if (error)
		return error;
	lock();
	error = create_active(route, true, event, user_data, connection);
	if (!error)
		error = say(*connection, &message);
	unlock();
	return error;
}

/* What it is of another process's is not touched; see disown(). */
static bool is_mine(const struct ur_cm_connection *connection)
{
	return connection->process == manager.process;
}

/* Says what answers a request, which is then no longer in the backlog. */
static int say_locked(struct ur_cm_connection *connection, const struct ur_cm_message *message)
{
	int error;

	lock();
	error = is_mine(connection) ? say(connection, message) : EINVAL;
	if (!error)
		leave_listener(connection);
	unlock();
	return error;
}

int ur_cm_reply(struct ur_cm_connection *connection, const struct ur_cm_params *params)
{
	struct ur_cm_message message = { .kind = UR_CM_REP };
	int error = ur_terms_add_data(&message, params->private_data, params->private_length);

	if (error)
		return error;
	lock();
	error = EINVAL;
	if (is_mine(connection) && connection->endpoint.state == UR_ENDPOINT_REQ_RCVD) {
		ur_terms_take_params(connection, params);
		ur_terms_make_rep(connection, params, &message.rep);
		error = say(connection, &message);
		leave_listener(connection);
	}
	unlock();
	return error;
}

int ur_cm_ready(struct ur_cm_connection *connection, const void *private_data,
		size_t private_length)
{
	struct ur_cm_message message = { .kind = UR_CM_RTU };
	int error = ur_terms_add_data(&message, private_data, private_length);

	return error ? error : say_locked(connection, &message);
}

int ur_cm_reject(struct ur_cm_connection *connection, uint16_t reason, const void *private_data,
		 size_t private_length)
{
	struct ur_cm_message message = { .kind = UR_CM_REJ, .rej.reason = reason };
	int error = ur_terms_add_data(&message, private_data, private_length);

	return error ? error : say_locked(connection, &message);
}

int ur_cm_answer(struct ur_cm_connection *connection, uint8_t status,
		 const struct ur_cm_params *params)
{
	struct ur_cm_message message = {
		.kind = UR_CM_SIDR_REP,
		.sidr_rep = { .status = status,
			      .qpn = params->qpn,
			      .qkey = params->qkey,
			      .service_id = connection->service_id },
	};
	int error = ur_terms_add_data(&message, params->private_data, params->private_length);

	return error ? error : say_locked(connection, &message);
}

int ur_cm_disconnect(struct ur_cm_connection *connection)
{
	const struct ur_cm_message message = { .kind = UR_CM_DREQ };

	return say_locked(connection, &message);
}

int ur_cm_established(struct ur_cm_connection *connection)
{
	int error = EINVAL;

	lock();
	if (is_mine(connection)) {
		error = ur_endpoint_established(&connection->endpoint, ur_clock_ns());
		set_timer(connection);
	}
	unlock();
	return error;
}

void ur_cm_note_read(struct ur_cm_connection *connection)
{
	lock();
	if (is_mine(connection))
		leave_backlog(connection);
	unlock();
}

const struct ur_cm_route *ur_cm_route_of(const struct ur_cm_connection *connection)
{
	return &connection->route;
}

void ur_cm_adopt(struct ur_cm_connection *connection, ur_cm_event_fn event, void *user_data)
{
	lock();
	if (is_mine(connection)) {
		connection->event = event;
		connection->user_data = user_data;
		make_ready(connection);
	}
	unlock();
}

static void end(struct ur_cm_connection *connection)
{
	connection->closing = true;
	connection->held = true;
	while (manager.current == connection && !in_thread())
		pthread_cond_wait(&manager.delivered, &manager.lock);
	leave_listener(connection);
	ur_connection_drop_events(connection);
	ur_endpoint_release(&connection->endpoint, ur_clock_ns());
	set_timer(connection);
}

void ur_cm_end(struct ur_cm_connection *connection)
{
	lock();
	if (is_mine(connection))
		end(connection);
	unlock();
}

static void release(struct ur_cm_connection *connection)
{
	if (!connection->held)
		end(connection);
	connection->held = false;
	settle(connection);
}

void ur_cm_release(struct ur_cm_connection *connection)
{
	lock();
	if (is_mine(connection))
		release(connection);
	unlock();
}
