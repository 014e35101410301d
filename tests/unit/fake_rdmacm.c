#include "fake_rdmacm.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#define MAX_EVENTS 16

/* As the kernel has them. */
enum id_state {
	ID_IDLE,
	ID_BOUND,
	ID_LISTENING,
	ID_ADDR_QUERY,
	ID_ADDR_RESOLVED,
	ID_ROUTE_QUERY,
	ID_ROUTE_RESOLVED,
	ID_REQUESTED,
	ID_CONNECT,
	ID_ENDED
};

struct fake_id {
	struct rdma_cm_id verbs;
	enum id_state state;
	struct rdma_conn_param offered; /* what the peer has sent last */
	unsigned unacked;
};

struct fake_event {
	struct rdma_cm_event verbs;
	void *private_data;
};

struct fake_channel {
	struct rdma_event_channel verbs;
	struct fake_event *events[MAX_EVENTS];
	unsigned event_count;
	unsigned users;
};

static struct fake {
	struct ibv_context context; /* the library opens devices itself */
	unsigned live;
	unsigned pending;
	int failing_call; /* -1: any building call, -2: none */
	unsigned skip;
	int error;
	char calls[1024];
	struct fake_id *last_id;
	struct rdma_conn_param param;
	uint8_t private_data[UINT8_MAX];
	char reason[UINT8_MAX + 1];
	uint16_t port;
	int notified;
} fake;

void fake_cm_reset(void)
{
	fake = (struct fake){ .failing_call = -2, .notified = -1 };
}

void fake_cm_set_device(struct ibv_device *device)
{
	fake.context.device = device;
}

void fake_cm_fail_call(enum fake_cm_call call, unsigned skip, int error)
{
	fake.failing_call = (int)call;
	fake.skip = skip;
	fake.error = error;
}

void fake_cm_fail_any(unsigned skip, int error)
{
	fake_cm_fail_call(FAKE_CM_CALL_COUNT, skip, error);
	fake.failing_call = -1;
}

const char *fake_cm_calls(void)
{
	return fake.calls;
}

void fake_cm_forget_calls(void)
{
	fake.calls[0] = '\0';
}

unsigned fake_cm_live(void)
{
	return fake.live;
}

struct rdma_cm_id *fake_cm_last_id(void)
{
	assert_non_null(fake.last_id);
	return &fake.last_id->verbs;
}

const struct rdma_conn_param *fake_cm_param(void)
{
	return &fake.param;
}

const char *fake_cm_reason(void)
{
	return fake.reason;
}

uint16_t fake_cm_port(void)
{
	return fake.port;
}

int fake_cm_notified(void)
{
	return fake.notified;
}

unsigned fake_cm_pending(void)
{
	return fake.pending;
}

static const char *const call_names[] = {
	[FAKE_CM_CREATE_CHANNEL] = "create_channel",
	[FAKE_CM_CREATE_ID] = "create_id",
	[FAKE_CM_BIND_ADDR] = "bind_addr",
	[FAKE_CM_LISTEN] = "listen",
	[FAKE_CM_RESOLVE_ADDR] = "resolve_addr",
	[FAKE_CM_RESOLVE_ROUTE] = "resolve_route",
	[FAKE_CM_INIT_QP_ATTR] = "init_qp_attr",
	[FAKE_CM_CONNECT] = "connect",
	[FAKE_CM_ACCEPT] = "accept",
	[FAKE_CM_ESTABLISH] = "establish",
	[FAKE_CM_REJECT] = "reject",
	[FAKE_CM_NOTIFY] = "notify",
	[FAKE_CM_DISCONNECT] = "disconnect",
	[FAKE_CM_DESTROY_ID] = "destroy_id",
};

static void record(enum fake_cm_call call)
{
	size_t used = strlen(fake.calls);

	snprintf(fake.calls + used, sizeof(fake.calls) - used, "%s%s", used > 0 ? " " : "",
		 call_names[call]);
}

/* Each call begins with this: true, with errno, if it is to fail. */
static bool fails(enum fake_cm_call call)
{
	bool meant = fake.failing_call == (int)call ||
		     (fake.failing_call == -1 && call <= FAKE_CM_LAST_BUILDING_CALL);

	record(call);
	if (!meant || fake.skip-- > 0)
		return false;
	fake.failing_call = -2;
	errno = fake.error;
	return true;
}

/* The same for a call that is allowed in one state, and leads to another. */
static int move(struct rdma_cm_id *verbs, enum fake_cm_call call, enum id_state from,
		enum id_state to)
{
	struct fake_id *id = (struct fake_id *)verbs;

	if (fails(call))
		return -1;
	if (id->state != from) {
		errno = EINVAL;
		return -1;
	}
	id->state = to;
	return 0;
}

static void *build(size_t size)
{
	void *built = calloc(1, size);

	assert_non_null(built);
	fake.live++;
	return built;
}

static void tear_down(void *object)
{
	assert_true(fake.live > 0);
	fake.live--;
	free(object);
}

/* ---- Channels and identifiers ---- */

struct rdma_event_channel *rdma_create_event_channel(void)
{
	struct fake_channel *channel;

	if (fails(FAKE_CM_CREATE_CHANNEL))
		return NULL;
	channel = build(sizeof(*channel));
	channel->verbs.fd = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
	assert_true(channel->verbs.fd >= 0);
	return &channel->verbs;
}

void rdma_destroy_event_channel(struct rdma_event_channel *verbs)
{
	struct fake_channel *channel = (struct fake_channel *)verbs;

	assert_int_equal(channel->users, 0);
	assert_int_equal(channel->event_count, 0);
	close(verbs->fd);
	tear_down(channel);
}

static struct fake_id *make_id(struct rdma_event_channel *channel, void *context)
{
	struct fake_id *id = build(sizeof(*id));

	id->verbs.channel = channel;
	id->verbs.context = context;
	id->verbs.ps = RDMA_PS_TCP;
	if (channel)
		((struct fake_channel *)channel)->users++;
	fake.last_id = id;
	return id;
}

int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
		   enum rdma_port_space ps)
{
	assert_int_equal(ps, RDMA_PS_TCP);
	if (fails(FAKE_CM_CREATE_ID))
		return -1;
	*id = &make_id(channel, context)->verbs;
	return 0;
}

static void free_event(struct fake_event *event)
{
	free(event->private_data);
	free(event);
}

static struct fake_event *take_event(struct fake_channel *channel, unsigned at)
{
	struct fake_event *event = channel->events[at];
	uint64_t one;

	assert_int_equal(read(channel->verbs.fd, &one, sizeof(one)), sizeof(one));
	channel->event_count--;
	memmove(channel->events + at, channel->events + at + 1,
		(channel->event_count - at) * sizeof(channel->events[0]));
	fake.pending--;
	return event;
}

static void leave_channel(struct fake_id *id);

/* Nobody will see its events any more; the requests among them are turned down. */
static void drop_events(struct fake_channel *channel, const struct fake_id *id)
{
	for (unsigned at = 0; at < channel->event_count;) {
		struct fake_event *event = channel->events[at];

		if (event->verbs.id != &id->verbs && event->verbs.listen_id != &id->verbs) {
			at++;
			continue;
		}
		take_event(channel, at);
		if (event->verbs.id != &id->verbs)
			leave_channel((struct fake_id *)event->verbs.id);
		free_event(event);
	}
}

static void leave_channel(struct fake_id *id)
{
	struct fake_channel *channel = (struct fake_channel *)id->verbs.channel;

	if (channel)
		channel->users--;
	tear_down(id);
}

int rdma_destroy_id(struct rdma_cm_id *verbs)
{
	struct fake_id *id = (struct fake_id *)verbs;
	/* It is gone all the same, so that a test can go on. */
	bool failed = fails(FAKE_CM_DESTROY_ID);

	/* The real call would wait for ever. */
	assert_int_equal(id->unacked, 0);
	if (verbs->channel)
		drop_events((struct fake_channel *)verbs->channel, id);
	if (fake.last_id == id)
		fake.last_id = NULL;
	leave_channel(id);
	return failed ? -1 : 0;
}

/* ---- Calls ---- */

static void keep_address(struct sockaddr_storage *kept, const struct sockaddr *address)
{
	memcpy(kept, address,
	       address->sa_family == AF_INET ? sizeof(struct sockaddr_in)
					     : sizeof(struct sockaddr_in6));
}

int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *address)
{
	if (move(id, FAKE_CM_BIND_ADDR, ID_IDLE, ID_BOUND) != 0)
		return -1;
	keep_address(&id->route.addr.src_storage, address);
	/* Both have it at the same place. */
	fake.port = ntohs(id->route.addr.src_sin.sin_port);
	return 0;
}

int rdma_listen(struct rdma_cm_id *id, int backlog)
{
	assert_in_range(backlog, 1, 1024);
	return move(id, FAKE_CM_LISTEN, ID_BOUND, ID_LISTENING);
}

/* Without a channel it has waited for the event. */
int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *src, struct sockaddr *dst,
		      int timeout_ms)
{
	assert_null(src);
	assert_in_range(timeout_ms, 1, 60000);
	if (move(id, FAKE_CM_RESOLVE_ADDR, ID_IDLE,
		 id->channel ? ID_ADDR_QUERY : ID_ADDR_RESOLVED) != 0)
		return -1;
	keep_address(&id->route.addr.dst_storage, dst);
	if (!id->channel)
		id->verbs = &fake.context;
	return 0;
}

int rdma_resolve_route(struct rdma_cm_id *id, int timeout_ms)
{
	assert_in_range(timeout_ms, 1, 60000);
	return move(id, FAKE_CM_RESOLVE_ROUTE, ID_ADDR_RESOLVED, ID_ROUTE_QUERY);
}

static void fill_rtr(const struct fake_id *id, struct ibv_qp_attr *attr)
{
	attr->path_mtu = FAKE_CM_MTU;
	attr->dest_qp_num = FAKE_CM_PEER_QPN;
	attr->rq_psn = FAKE_CM_PEER_PSN;
	attr->max_dest_rd_atomic = id->offered.responder_resources;
	attr->min_rnr_timer = FAKE_CM_RNR_TIMER;
	attr->ah_attr.is_global = 1;
	attr->ah_attr.port_num = 1;
}

static void fill_rts(const struct fake_id *id, struct ibv_qp_attr *attr)
{
	attr->sq_psn = FAKE_CM_OWN_PSN;
	attr->timeout = FAKE_CM_TIMEOUT;
	attr->retry_cnt = FAKE_CM_RETRIES;
	attr->rnr_retry = FAKE_CM_RETRIES;
	attr->max_rd_atomic = id->offered.initiator_depth;
}

int rdma_init_qp_attr(struct rdma_cm_id *verbs, struct ibv_qp_attr *attr, int *mask)
{
	const struct fake_id *id = (struct fake_id *)verbs;

	if (fails(FAKE_CM_INIT_QP_ATTR))
		return -1;
	assert_true(attr->qp_state == IBV_QPS_RTR || attr->qp_state == IBV_QPS_RTS);
	if (attr->qp_state == IBV_QPS_RTR) {
		fill_rtr(id, attr);
		*mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
		return 0;
	}
	fill_rts(id, attr);
	*mask = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
		IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
	return 0;
}

static void keep_param(const struct rdma_conn_param *param)
{
	fake.param = *param;
	if (param->private_data_len > 0)
		memcpy(fake.private_data, param->private_data, param->private_data_len);
	fake.param.private_data = fake.private_data;
}

int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	keep_param(param);
	return move(id, FAKE_CM_CONNECT, ID_ROUTE_RESOLVED, ID_CONNECT);
}

int rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	keep_param(param);
	return move(id, FAKE_CM_ACCEPT, ID_REQUESTED, ID_CONNECT);
}

int rdma_establish(struct rdma_cm_id *id)
{
	return move(id, FAKE_CM_ESTABLISH, ID_CONNECT, ID_CONNECT);
}

int rdma_reject(struct rdma_cm_id *id, const void *private_data, uint8_t length)
{
	if (move(id, FAKE_CM_REJECT, ID_REQUESTED, ID_ENDED) != 0)
		return -1;
	memcpy(fake.reason, private_data, length);
	fake.reason[length] = '\0';
	return 0;
}

int rdma_notify(struct rdma_cm_id *id, enum ibv_event_type event)
{
	fake.notified = (int)event;
	return move(id, FAKE_CM_NOTIFY, ID_CONNECT, ID_CONNECT);
}

int rdma_disconnect(struct rdma_cm_id *id)
{
	return move(id, FAKE_CM_DISCONNECT, ID_CONNECT, ID_ENDED);
}

/* ---- Events ---- */

/* The kernel knows what it tells. */
static void follow(struct fake_id *id, enum rdma_cm_event_type type)
{
	if (type == RDMA_CM_EVENT_ADDR_RESOLVED && id->state == ID_ADDR_QUERY) {
		id->state = ID_ADDR_RESOLVED;
		id->verbs.verbs = &fake.context;
	} else if (type == RDMA_CM_EVENT_ROUTE_RESOLVED && id->state == ID_ROUTE_QUERY) {
		id->state = ID_ROUTE_RESOLVED;
	}
}

static struct fake_event *make_event(struct fake_id *id, enum rdma_cm_event_type type, int status,
				     const struct rdma_conn_param *param)
{
	struct fake_event *event = calloc(1, sizeof(*event));

	assert_non_null(event);
	event->verbs = (struct rdma_cm_event){ .id = &id->verbs, .event = type, .status = status };
	if (!param)
		return event;
	id->offered = *param;
	event->verbs.param.conn = *param;
	if (param->private_data_len == 0)
		return event;
	/* Of its own, so that a use after the acknowledgement is found. */
	event->private_data = malloc(param->private_data_len);
	assert_non_null(event->private_data);
	memcpy(event->private_data, param->private_data, param->private_data_len);
	event->verbs.param.conn.private_data = event->private_data;
	return event;
}

static void queue_event(struct rdma_event_channel *verbs, struct fake_event *event)
{
	struct fake_channel *channel = (struct fake_channel *)verbs;
	uint64_t one = 1;

	assert_true(channel->event_count < MAX_EVENTS);
	channel->events[channel->event_count++] = event;
	fake.pending++;
	assert_int_equal(write(verbs->fd, &one, sizeof(one)), sizeof(one));
}

void fake_cm_push(struct rdma_cm_id *verbs, enum rdma_cm_event_type type, int status,
		  const struct rdma_conn_param *param)
{
	struct fake_id *id = (struct fake_id *)verbs;

	follow(id, type);
	queue_event(verbs->channel, make_event(id, type, status, param));
}

struct rdma_cm_id *fake_cm_request(struct rdma_cm_id *listener, const struct rdma_conn_param *param)
{
	struct fake_id *id = make_id(listener->channel, listener->context);
	struct fake_event *event = make_event(id, RDMA_CM_EVENT_CONNECT_REQUEST, 0, param);

	assert_int_equal(((struct fake_id *)listener)->state, ID_LISTENING);
	id->state = ID_REQUESTED;
	id->verbs.verbs = &fake.context;
	id->verbs.route.addr.dst_sin =
		(struct sockaddr_in){ .sin_family = AF_INET,
				      .sin_port = htons(40000),
				      .sin_addr.s_addr = inet_addr("192.0.2.9") };
	event->verbs.listen_id = listener;
	queue_event(listener->channel, event);
	return &id->verbs;
}

int rdma_get_cm_event(struct rdma_event_channel *verbs, struct rdma_cm_event **event)
{
	struct fake_channel *channel = (struct fake_channel *)verbs;

	assert_true(fcntl(verbs->fd, F_GETFL) & O_NONBLOCK);
	if (channel->event_count == 0) {
		errno = EAGAIN;
		return -1;
	}
	*event = &take_event(channel, 0)->verbs;
	/* That of a request is the listener's until it is acknowledged. */
	((struct fake_id *)((*event)->listen_id ? (*event)->listen_id : (*event)->id))->unacked++;
	return 0;
}

int rdma_ack_cm_event(struct rdma_cm_event *event)
{
	((struct fake_id *)(event->listen_id ? event->listen_id : event->id))->unacked--;
	free_event((struct fake_event *)event);
	return 0;
}

const char *rdma_event_str(enum rdma_cm_event_type type)
{
	static char text[32];

	snprintf(text, sizeof(text), "cm event %d", (int)type);
	return text;
}
