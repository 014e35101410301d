#include "fake_verbs.h"

#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#define MAX_DEVICES    8
#define MAX_EVENTS     16
#define MAX_CQE        4096
#define FIRST_QPN      0x11
#define QPN_STEP       7
#define SEND_CAPACITY  1024
#define MAX_READS      128
#define QP_STATE_COUNT (IBV_QPS_ERR + 1)

struct fake_context {
	struct fake_device *device;
	struct ibv_async_event events[MAX_EVENTS];
	unsigned event_count;
	struct verbs_context verbs; /* last, as in rdma-core: the public part is its end */
};

struct fake_channel {
	struct ibv_comp_channel verbs;
	struct ibv_cq *events[MAX_EVENTS];
	unsigned event_count;
};

struct fake_cq {
	struct ibv_cq verbs;
	struct ibv_wc wcs[MAX_CQE];
	struct fake_qp *senders[MAX_CQE]; /* whose send queue gets its place back */
	int count;
	bool armed;
	unsigned unacked;
};

struct fake_receive {
	uint64_t wr_id;
	int sge_count;
	struct ibv_sge sges[FAKE_MAX_SGE];
	struct fake_receive *next;
};

struct fake_srq {
	struct ibv_srq verbs;
	struct ibv_srq_attr attr;
	struct fake_receive *receives;
	size_t count;
	unsigned users;
};

struct fake_qp {
	struct ibv_qp verbs;
	struct ibv_qp_init_attr init_attr;
	struct ibv_qp_attr attrs[QP_STATE_COUNT];
	struct fake_send *sends;
	size_t outstanding; /* posted and not polled */
};

struct fake_mr {
	struct ibv_mr verbs;
	unsigned access;
};

static struct fake {
	struct fake_device devices[MAX_DEVICES];
	int device_count;
	unsigned live;
	unsigned unacked_events; /* asynchronous ones, of all devices */
	unsigned calls[FAKE_CALL_COUNT];
	int always[FAKE_CALL_COUNT];
	int failing_call; /* -1: any building call, -2: none */
	unsigned skip;
	int error;
	bool failed;
	bool hold_flushes;
	uint32_t next_qpn;
	uint32_t next_key;
	void (*before_notify)(void *data);
	void *before_notify_data;
	void (*before_destroy_qp)(void *data);
	void *before_destroy_qp_data;
} fake;

void fake_reset(void)
{
	fake = (struct fake){ .failing_call = -2, .next_qpn = FIRST_QPN, .next_key = 0x1000 };
}

void fake_fail_call(enum fake_call call, unsigned skip, int error)
{
	fake.failing_call = (int)call;
	fake.skip = skip;
	fake.error = error;
	fake.failed = false;
}

void fake_fail_any(unsigned skip, int error)
{
	fake_fail_call(FAKE_CALL_COUNT, skip, error);
	fake.failing_call = -1;
}

void fake_fail_always(enum fake_call call, int error)
{
	fake.always[call] = error;
}

bool fake_has_failed(void)
{
	return fake.failed;
}

unsigned fake_calls(enum fake_call call)
{
	return fake.calls[call];
}

unsigned fake_live(void)
{
	return fake.live;
}

void fake_before_notify(void (*hook)(void *data), void *data)
{
	fake.before_notify = hook;
	fake.before_notify_data = data;
}

void fake_before_destroy_qp(void (*hook)(void *data), void *data)
{
	fake.before_destroy_qp = hook;
	fake.before_destroy_qp_data = data;
}

/* Each call begins with this: an errno value if it is to fail, else 0. */
static int failure_of(enum fake_call call)
{
	bool meant = fake.failing_call == (int)call ||
		     (fake.failing_call == -1 && call <= FAKE_LAST_BUILDING_CALL);

	fake.calls[call]++;
	if (fake.always[call])
		return fake.always[call];
	if (!meant || fake.skip-- > 0)
		return 0;
	fake.failing_call = -2;
	fake.failed = true;
	return fake.error;
}

/* NULL with errno for a constructor that is to fail. */
static void *build(enum fake_call call, size_t size)
{
	int error = failure_of(call);
	void *built;

	if (error) {
		errno = error;
		return NULL;
	}
	built = calloc(1, size);
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

static void signal_fd(int fd)
{
	uint64_t one = 1;

	assert_int_equal(write(fd, &one, sizeof(one)), sizeof(one));
}

static bool take_signal(int fd)
{
	uint64_t one;

	return read(fd, &one, sizeof(one)) == sizeof(one);
}

/* ---- Devices ---- */

void fake_set_gid(struct fake_port *port, int index, const char *address, enum ibv_gid_type type)
{
	struct ibv_gid_entry *entry = &port->gids[index];

	assert_int_equal(inet_pton(AF_INET6, address, entry->gid.raw), 1);
	entry->gid_index = (uint32_t)index;
	entry->gid_type = type;
}

struct fake_device *fake_add_device(const char *name)
{
	struct fake_device *device = &fake.devices[fake.device_count++];

	assert_true(fake.device_count <= MAX_DEVICES);
	*device = (struct fake_device){
		.verbs = { .node_type = IBV_NODE_CA, .transport_type = IBV_TRANSPORT_IB },
		.atomic_cap = IBV_ATOMIC_HCA,
		.max_srq = 16,
		.max_qp = 64,
		.max_sge = FAKE_MAX_SGE,
		.port_count = 1,
	};
	snprintf(device->verbs.name, sizeof(device->verbs.name), "%s", name);
	for (int i = 0; i < FAKE_MAX_PORTS; i++) {
		struct fake_port *port = &device->ports[i];

		port->state = IBV_PORT_ACTIVE;
		port->link_layer = IBV_LINK_LAYER_ETHERNET;
		port->gid_count = 4;
		fake_set_gid(port, 0, "fe80::1", IBV_GID_TYPE_ROCE_V2);
		fake_set_gid(port, 1, "::ffff:192.0.2.1", IBV_GID_TYPE_ROCE_V2);
	}
	return device;
}

static struct fake_context *context_of(struct ibv_context *context)
{
	char *verbs = (char *)context - offsetof(struct verbs_context, context);

	return (struct fake_context *)(void *)(verbs - offsetof(struct fake_context, verbs));
}

struct ibv_device **ibv_get_device_list(int *num_devices)
{
	size_t count = (size_t)fake.device_count;
	struct ibv_device **list =
		build(FAKE_GET_DEVICE_LIST, (count + 1) * sizeof(struct ibv_device *));

	if (!list)
		return NULL;
	for (size_t i = 0; i < count; i++)
		list[i] = &fake.devices[i].verbs;
	*num_devices = (int)count;
	return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
	tear_down(list);
}

const char *ibv_get_device_name(struct ibv_device *device)
{
	return device->name;
}

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	const struct fake_device *device = context_of(context)->device;
	int error = failure_of(FAKE_QUERY_DEVICE);

	if (error)
		return error;
	*attr = (struct ibv_device_attr){
		.max_qp = device->max_qp,
		.max_qp_wr = 1024,
		.max_srq_wr = 1024,
		.max_cqe = 4096,
		.max_srq_sge = device->max_sge,
		.max_sge = device->max_sge,
		.max_srq = device->max_srq,
		.max_qp_rd_atom = MAX_READS,
		.max_qp_init_rd_atom = MAX_READS,
		.atomic_cap = device->atomic_cap,
		.phys_port_cnt = device->port_count,
	};
	return 0;
}

static int query_device_ex(struct ibv_context *context,
			   const struct ibv_query_device_ex_input *input,
			   struct ibv_device_attr_ex *attr, size_t size)
{
	(void)input;
	memset(attr, 0, size);
	return ibv_query_device(context, &attr->orig_attr);
}

static int query_port(struct ibv_context *context, uint8_t number, struct ibv_port_attr *attr,
		      size_t size)
{
	const struct fake_device *device = context_of(context)->device;
	int error = failure_of(FAKE_QUERY_PORT);

	if (error)
		return error;
	assert_in_range(number, 1, device->port_count);
	memset(attr, 0, size);
	attr->state = device->ports[number - 1].state;
	attr->max_mtu = IBV_MTU_4096;
	attr->active_mtu = IBV_MTU_1024;
	attr->gid_tbl_len = device->ports[number - 1].gid_count;
	attr->lid = device->ports[number - 1].lid;
	attr->link_layer = device->ports[number - 1].link_layer;
	return 0;
}

#undef ibv_query_port
int ibv_query_port(struct ibv_context *context, uint8_t number, struct _compat_ibv_port_attr *attr)
{
	struct ibv_port_attr full;
	int error = query_port(context, number, &full, sizeof(full));

	/* The old structure is the beginning of the new one, up to its flags. */
	if (error == 0)
		memcpy(attr, &full, offsetof(struct ibv_port_attr, flags));
	return error;
}

int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port, uint32_t index,
		      struct ibv_gid_entry *entry, uint32_t flags, size_t size)
{
	const struct fake_device *device = context_of(context)->device;
	static const union ibv_gid empty;
	int error = failure_of(FAKE_QUERY_GID);

	(void)flags;
	if (error)
		return error;
	assert_int_equal(size, sizeof(*entry));
	assert_in_range(port, 1, device->port_count);
	if (index >= FAKE_MAX_GIDS ||
	    memcmp(&device->ports[port - 1].gids[index].gid, &empty, sizeof(empty)) == 0)
		return ENODATA;
	*entry = device->ports[port - 1].gids[index];
	entry->port_num = port;
	return 0;
}

static int poll_cq(struct ibv_cq *verbs, int room, struct ibv_wc *wcs);
static int req_notify_cq(struct ibv_cq *verbs, int solicited_only);
static int post_send(struct ibv_qp *verbs, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr);
static int post_srq_recv(struct ibv_srq *verbs, struct ibv_recv_wr *wr,
			 struct ibv_recv_wr **bad_wr);

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	struct fake_context *opened = build(FAKE_OPEN_DEVICE, sizeof(*opened));
	struct ibv_context *context;

	if (!opened)
		return NULL;
	opened->device = (struct fake_device *)device;
	opened->verbs.sz = sizeof(opened->verbs);
	opened->verbs.query_port = query_port;
	opened->verbs.query_device_ex = query_device_ex;
	context = &opened->verbs.context;
	context->device = device;
	context->abi_compat = opened->device->legacy ? NULL : __VERBS_ABI_IS_EXTENDED;
	context->async_fd = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
	assert_true(context->async_fd >= 0);
	context->ops.poll_cq = poll_cq;
	context->ops.req_notify_cq = req_notify_cq;
	context->ops.post_send = post_send;
	context->ops.post_srq_recv = post_srq_recv;
	return context;
}

int ibv_close_device(struct ibv_context *context)
{
	int error = failure_of(FAKE_CLOSE_DEVICE);

	assert_int_equal(fake.unacked_events, 0);
	close(context->async_fd);
	tear_down(context_of(context));
	errno = error;
	return error ? -1 : 0;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	struct ibv_pd *pd = build(FAKE_ALLOC_PD, sizeof(*pd));

	if (pd)
		pd->context = context;
	return pd;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
	int error = failure_of(FAKE_DEALLOC_PD);

	tear_down(pd);
	return error;
}

#undef ibv_reg_mr
struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *address, size_t length, int access)
{
	struct fake_mr *mr;

	if ((access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) &&
	    !(access & IBV_ACCESS_LOCAL_WRITE)) {
		errno = EINVAL;
		return NULL;
	}
	mr = build(FAKE_REG_MR, sizeof(*mr));
	if (!mr)
		return NULL;
	mr->verbs.context = pd->context;
	mr->verbs.pd = pd;
	mr->verbs.addr = address;
	mr->verbs.length = length;
	mr->verbs.lkey = fake.next_key++;
	mr->verbs.rkey = mr->verbs.lkey | 0x80000000;
	mr->access = (unsigned)access;
	return &mr->verbs;
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *address, size_t length, uint64_t iova,
				unsigned access)
{
	assert_int_equal(iova, (uintptr_t)address);
	return ibv_reg_mr(pd, address, length, (int)access);
}

unsigned fake_mr_access(const struct ibv_mr *mr)
{
	return ((const struct fake_mr *)mr)->access;
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
	int error = failure_of(FAKE_DEREG_MR);

	tear_down(mr);
	return error;
}

/* ---- Completions ---- */

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
	struct fake_channel *channel = build(FAKE_CREATE_COMP_CHANNEL, sizeof(*channel));

	if (!channel)
		return NULL;
	channel->verbs.context = context;
	channel->verbs.fd = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
	if (channel->verbs.fd < 0) {
		tear_down(channel);
		return NULL;
	}
	return &channel->verbs;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	assert_int_equal(channel->refcnt, 0);
	close(channel->fd);
	tear_down(channel);
	return 0;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
			     struct ibv_comp_channel *channel, int comp_vector)
{
	struct fake_cq *cq = build(FAKE_CREATE_CQ, sizeof(*cq));

	if (!cq)
		return NULL;
	assert_in_range(cqe, 1, MAX_CQE);
	assert_int_equal(comp_vector, 0);
	cq->verbs.context = context;
	cq->verbs.channel = channel;
	cq->verbs.cq_context = cq_context;
	cq->verbs.cqe = cqe;
	channel->refcnt++;
	return &cq->verbs;
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
	/* The real call would wait for ever. */
	assert_int_equal(((struct fake_cq *)cq)->unacked, 0);
	cq->channel->refcnt--;
	tear_down(cq);
	return 0;
}

int ibv_get_cq_event(struct ibv_comp_channel *verbs, struct ibv_cq **cq, void **cq_context)
{
	struct fake_channel *channel = (struct fake_channel *)verbs;

	if (!take_signal(verbs->fd))
		return -1;
	assert_true(channel->event_count > 0);
	*cq = channel->events[--channel->event_count];
	*cq_context = (*cq)->cq_context;
	((struct fake_cq *)*cq)->unacked++;
	return 0;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned count)
{
	((struct fake_cq *)cq)->unacked -= count;
}

static int req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	int error = failure_of(FAKE_REQ_NOTIFY_CQ);

	assert_int_equal(solicited_only, 0);
	if (error)
		return error;
	if (fake.before_notify)
		fake.before_notify(fake.before_notify_data);
	((struct fake_cq *)cq)->armed = true;
	return 0;
}

/* sender: NULL for a receive. */
static void push_wc(struct ibv_cq *verbs, struct fake_qp *sender, const struct ibv_wc *wc)
{
	struct fake_cq *cq = (struct fake_cq *)verbs;
	struct fake_channel *channel = (struct fake_channel *)verbs->channel;

	assert_true(cq->count < verbs->cqe);
	cq->senders[cq->count] = sender;
	cq->wcs[cq->count++] = *wc;
	if (!cq->armed)
		return;
	cq->armed = false;
	assert_true(channel->event_count < MAX_EVENTS);
	channel->events[channel->event_count++] = verbs;
	signal_fd(channel->verbs.fd);
}

static int poll_cq(struct ibv_cq *verbs, int room, struct ibv_wc *wcs)
{
	struct fake_cq *cq = (struct fake_cq *)verbs;
	int count = cq->count < room ? cq->count : room;

	if (failure_of(FAKE_POLL_CQ))
		return -1;
	for (int i = 0; i < count; i++)
		if (cq->senders[i])
			cq->senders[i]->outstanding--;
	memcpy(wcs, cq->wcs, (size_t)count * sizeof(*wcs));
	cq->count -= count;
	memmove(cq->wcs, cq->wcs + count, (size_t)cq->count * sizeof(*wcs));
	memmove(cq->senders, cq->senders + count, (size_t)cq->count * sizeof(cq->senders[0]));
	return count;
}

/* ---- Receives ---- */

struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	struct fake_srq *srq = build(FAKE_CREATE_SRQ, sizeof(*srq));

	if (!srq)
		return NULL;
	assert_in_range(attr->attr.max_wr, 1, MAX_CQE);
	assert_in_range(attr->attr.max_sge, 1, FAKE_MAX_SGE);
	srq->verbs.context = pd->context;
	srq->verbs.srq_context = attr->srq_context;
	srq->verbs.pd = pd;
	srq->attr = attr->attr;
	return &srq->verbs;
}

static struct fake_receive *take_receive(struct fake_srq *srq)
{
	struct fake_receive *receive = srq->receives;

	assert_non_null(receive);
	srq->receives = receive->next;
	srq->count--;
	return receive;
}

int ibv_destroy_srq(struct ibv_srq *verbs)
{
	struct fake_srq *srq = (struct fake_srq *)verbs;

	assert_int_equal(srq->users, 0);
	while (srq->receives)
		free(take_receive(srq));
	tear_down(srq);
	return 0;
}

static int post_srq_recv(struct ibv_srq *verbs, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	struct fake_srq *srq = (struct fake_srq *)verbs;
	struct fake_receive *receive, **last = &srq->receives;
	int error = failure_of(FAKE_POST_SRQ_RECV);

	*bad_wr = wr;
	if (error)
		return error;
	if (srq->count == srq->attr.max_wr)
		return ENOMEM;
	assert_in_range(wr->num_sge, 0, srq->attr.max_sge);
	receive = calloc(1, sizeof(*receive));
	assert_non_null(receive);
	receive->wr_id = wr->wr_id;
	receive->sge_count = wr->num_sge;
	memcpy(receive->sges, wr->sg_list, (size_t)wr->num_sge * sizeof(wr->sg_list[0]));
	while (*last)
		last = &(*last)->next;
	*last = receive;
	srq->count++;
	return 0;
}

size_t fake_receive_count(const struct ibv_srq *srq)
{
	return ((const struct fake_srq *)srq)->count;
}

static void scatter(const struct fake_receive *receive, const char *data, size_t length)
{
	for (int i = 0; i < receive->sge_count && length > 0; i++) {
		size_t part = receive->sges[i].length < length ? receive->sges[i].length : length;

		memcpy((void *)(uintptr_t)receive->sges[i].addr, data, part);
		data += part;
		length -= part;
	}
	assert_int_equal(length, 0);
}

static void deliver(struct ibv_qp *qp, const void *data, struct ibv_wc wc)
{
	struct fake_receive *receive = take_receive((struct fake_srq *)qp->srq);

	assert_true(qp->state == IBV_QPS_RTR || qp->state == IBV_QPS_RTS);
	if (data)
		scatter(receive, data, wc.byte_len);
	wc.wr_id = receive->wr_id;
	wc.qp_num = qp->qp_num;
	push_wc(qp->recv_cq, NULL, &wc);
	free(receive);
}

void fake_deliver_send(struct ibv_qp *qp, const void *data, size_t length)
{
	deliver(qp, data, (struct ibv_wc){ .opcode = IBV_WC_RECV, .byte_len = (uint32_t)length });
}

void fake_deliver_send_immediate(struct ibv_qp *qp, const void *data, size_t length, uint32_t imm)
{
	deliver(qp, data,
		(struct ibv_wc){ .opcode = IBV_WC_RECV,
				 .byte_len = (uint32_t)length,
				 .wc_flags = IBV_WC_WITH_IMM,
				 .imm_data = htonl(imm) });
}

void fake_deliver_write_immediate(struct ibv_qp *qp, size_t length, uint32_t imm)
{
	deliver(qp, NULL,
		(struct ibv_wc){ .opcode = IBV_WC_RECV_RDMA_WITH_IMM,
				 .byte_len = (uint32_t)length,
				 .wc_flags = IBV_WC_WITH_IMM,
				 .imm_data = htonl(imm) });
}

/* ---- Queue pairs ---- */

/* The kernel's table for reliable connections (ib_modify_qp_is_ok), without alternate paths. */
static const struct transition {
	enum ibv_qp_state from, to;
	int required, optional;
} transitions[] = {
	{ IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, 0 },
	{ IBV_QPS_INIT, IBV_QPS_INIT, 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS },
	{ IBV_QPS_INIT, IBV_QPS_RTR,
	  IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		  IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
	  IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX },
	{ IBV_QPS_RTR, IBV_QPS_RTS,
	  IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
		  IBV_QP_MAX_QP_RD_ATOMIC,
	  IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER },
	{ IBV_QPS_RTS, IBV_QPS_RTS, 0,
	  IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER },
};

static bool is_allowed(enum ibv_qp_state from, enum ibv_qp_state to, int mask)
{
	mask &= ~IBV_QP_STATE;
	if (to == IBV_QPS_ERR || to == IBV_QPS_RESET)
		return mask == 0;
	for (size_t i = 0; i < sizeof(transitions) / sizeof(transitions[0]); i++) {
		const struct transition *allowed = &transitions[i];

		if (allowed->from == from && allowed->to == to)
			return (mask & allowed->required) == allowed->required &&
			       !(mask & ~(allowed->required | allowed->optional));
	}
	return false;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct fake_qp *qp = build(FAKE_CREATE_QP, sizeof(*qp));

	if (!qp)
		return NULL;
	assert_int_equal(attr->qp_type, IBV_QPT_RC);
	assert_in_range(attr->cap.max_send_wr, 1, SEND_CAPACITY);
	assert_in_range(attr->cap.max_send_sge, 1, FAKE_MAX_SGE);
	qp->verbs.context = pd->context;
	qp->verbs.qp_context = attr->qp_context;
	qp->verbs.pd = pd;
	qp->verbs.send_cq = attr->send_cq;
	qp->verbs.recv_cq = attr->recv_cq;
	qp->verbs.srq = attr->srq;
	qp->verbs.state = IBV_QPS_RESET;
	qp->verbs.qp_type = attr->qp_type;
	/* Numbers go up and down, so that nothing can rely on their order. */
	qp->verbs.qp_num = fake.next_qpn ^ 0x30;
	fake.next_qpn += QPN_STEP;
	qp->init_attr = *attr;
	if (attr->srq)
		((struct fake_srq *)attr->srq)->users++;
	return &qp->verbs;
}

static const enum ibv_wc_opcode wc_opcodes[] = {
	[IBV_WR_RDMA_WRITE] = IBV_WC_RDMA_WRITE,
	[IBV_WR_RDMA_WRITE_WITH_IMM] = IBV_WC_RDMA_WRITE,
	[IBV_WR_SEND] = IBV_WC_SEND,
	[IBV_WR_SEND_WITH_IMM] = IBV_WC_SEND,
	[IBV_WR_RDMA_READ] = IBV_WC_RDMA_READ,
	[IBV_WR_ATOMIC_CMP_AND_SWP] = IBV_WC_COMP_SWAP,
	[IBV_WR_ATOMIC_FETCH_AND_ADD] = IBV_WC_FETCH_ADD,
};

static void end_oldest_send(struct fake_qp *qp, enum ibv_wc_status status)
{
	struct fake_send *send = qp->sends;
	struct ibv_wc wc = { .status = status, .qp_num = qp->verbs.qp_num };

	assert_non_null(send);
	wc.wr_id = send->wr.wr_id;
	wc.opcode = wc_opcodes[send->wr.opcode];
	qp->sends = send->next;
	push_wc(qp->verbs.send_cq, qp, &wc);
	free(send);
}

static void flush_sends(struct fake_qp *qp)
{
	while (qp->sends)
		end_oldest_send(qp, IBV_WC_WR_FLUSH_ERR);
}

void fake_hold_flushes(void)
{
	fake.hold_flushes = true;
}

void fake_flush(struct ibv_qp *qp)
{
	flush_sends((struct fake_qp *)qp);
}

static void enter_error(struct fake_qp *qp)
{
	qp->verbs.state = IBV_QPS_ERR;
	if (!fake.hold_flushes)
		flush_sends(qp);
}

static bool has_reads(const struct ibv_qp_attr *attr, int mask)
{
	return (!(mask & IBV_QP_MAX_DEST_RD_ATOMIC) || attr->max_dest_rd_atomic <= MAX_READS) &&
	       (!(mask & IBV_QP_MAX_QP_RD_ATOMIC) || attr->max_rd_atomic <= MAX_READS);
}

int ibv_modify_qp(struct ibv_qp *verbs, struct ibv_qp_attr *attr, int mask)
{
	struct fake_qp *qp = (struct fake_qp *)verbs;
	int error = failure_of(FAKE_MODIFY_QP);

	if (error)
		return error;
	assert_true(mask & IBV_QP_STATE);
	if (!is_allowed(verbs->state, attr->qp_state, mask) || !has_reads(attr, mask))
		return EINVAL;
	qp->attrs[attr->qp_state] = *attr;
	verbs->state = attr->qp_state;
	if (attr->qp_state == IBV_QPS_ERR)
		enter_error(qp);
	return 0;
}

const struct ibv_qp_attr *fake_qp_attr(const struct ibv_qp *qp, enum ibv_qp_state state)
{
	return &((const struct fake_qp *)qp)->attrs[state];
}

const struct ibv_qp_init_attr *fake_qp_init_attr(const struct ibv_qp *qp)
{
	return &((const struct fake_qp *)qp)->init_attr;
}

/*
 * Completions of the queue pair that nobody polled stay where they are, but must not refer to it.
 */
static void forget_sender(struct fake_cq *cq, const struct fake_qp *qp)
{
	for (int i = 0; i < cq->count; i++)
		if (cq->senders[i] == qp)
			cq->senders[i] = NULL;
}

static void drop_events(struct fake_context *context, const void *object)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < context->event_count; i++) {
		if (context->events[i].element.qp == object)
			take_signal(context->verbs.context.async_fd);
		else
			context->events[kept++] = context->events[i];
	}
	context->event_count = kept;
}

int ibv_destroy_qp(struct ibv_qp *verbs)
{
	struct fake_qp *qp = (struct fake_qp *)verbs;
	int error = failure_of(FAKE_DESTROY_QP);

	if (fake.before_destroy_qp)
		fake.before_destroy_qp(fake.before_destroy_qp_data);
	/* The real call would wait for ever. */
	assert_int_equal(fake.unacked_events, 0);
	drop_events(context_of(verbs->context), verbs);
	while (qp->sends) {
		struct fake_send *send = qp->sends;

		qp->sends = send->next;
		free(send);
	}
	forget_sender((struct fake_cq *)verbs->send_cq, qp);
	if (verbs->srq)
		((struct fake_srq *)verbs->srq)->users--;
	tear_down(qp);
	return error;
}

static int post_send(struct ibv_qp *verbs, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr)
{
	struct fake_qp *qp = (struct fake_qp *)verbs;
	struct fake_send *send, **last = &qp->sends;
	int error = failure_of(FAKE_POST_SEND);

	*bad_wr = wr;
	if (error)
		return error;
	if (verbs->state != IBV_QPS_RTS && verbs->state != IBV_QPS_ERR)
		return EINVAL;
	if (qp->outstanding == qp->init_attr.cap.max_send_wr)
		return ENOMEM;
	assert_in_range(wr->num_sge, 0, qp->init_attr.cap.max_send_sge);
	assert_true(wr->send_flags & IBV_SEND_SIGNALED);
	send = calloc(1, sizeof(*send));
	assert_non_null(send);
	send->wr = *wr;
	memcpy(send->sges, wr->sg_list, (size_t)wr->num_sge * sizeof(wr->sg_list[0]));
	while (*last)
		last = &(*last)->next;
	*last = send;
	qp->outstanding++;
	if (verbs->state == IBV_QPS_ERR)
		enter_error(qp);
	return 0;
}

size_t fake_send_count(const struct ibv_qp *qp)
{
	size_t count = 0;

	for (const struct fake_send *send = fake_oldest_send(qp); send; send = send->next)
		count++;
	return count;
}

const struct fake_send *fake_oldest_send(const struct ibv_qp *qp)
{
	return ((const struct fake_qp *)qp)->sends;
}

void fake_complete_send(struct ibv_qp *qp, enum ibv_wc_status status)
{
	end_oldest_send((struct fake_qp *)qp, status);
	if (status != IBV_WC_SUCCESS)
		enter_error((struct fake_qp *)qp);
}

void fake_fail_receive(struct ibv_qp *qp, enum ibv_wc_status status)
{
	deliver(qp, NULL, (struct ibv_wc){ .status = status });
	enter_error((struct fake_qp *)qp);
}

/* ---- Events ---- */

void fake_push_event(struct ibv_context *verbs, enum ibv_event_type type, void *object)
{
	struct fake_context *context = context_of(verbs);
	struct ibv_async_event *event = &context->events[context->event_count++];

	assert_true(context->event_count <= MAX_EVENTS);
	*event = (struct ibv_async_event){ .event_type = type };
	event->element.qp = object;
	signal_fd(verbs->async_fd);
}

int ibv_get_async_event(struct ibv_context *verbs, struct ibv_async_event *event)
{
	struct fake_context *context = context_of(verbs);

	if (!take_signal(verbs->async_fd))
		return -1;
	assert_true(context->event_count > 0);
	*event = context->events[0];
	context->event_count--;
	memmove(context->events, context->events + 1,
		context->event_count * sizeof(context->events[0]));
	fake.unacked_events++;
	return 0;
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
	(void)event;
	fake.unacked_events--;
}

const char *ibv_wc_status_str(enum ibv_wc_status status)
{
	static char text[32];

	snprintf(text, sizeof(text), "wc status %d", (int)status);
	return text;
}

const char *ibv_event_type_str(enum ibv_event_type type)
{
	static char text[32];

	snprintf(text, sizeof(text), "event %d", (int)type);
	return text;
}
