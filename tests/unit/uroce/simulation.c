/* First: it has parameters with the names of the nodes. */
#include "../../../uroce/link/address.h"

#include "simulation.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "../../../uroce/core/engine.h"
#include "../../../uroce/transport/completion.h"
#include "../../../uroce/transport/datagram.h"
#include "../../../uroce/transport/sender.h"
#include "../../../uroce/transport/unreliable.h"

struct ur_link {
	struct ur_carrier carrier;
	struct node *self;
	struct node *peer;
	bool full; /* the peer's buffer */
};

struct flying {
	struct ur_packet packet;
	uint8_t *payload;
	struct node *to;
	struct ur_path from;
	struct flying *next;
};

struct node a, b;

const struct simulation_config simulation_defaults = {
	.type = IBV_QPT_RC,
	.mtu = IBV_MTU_1024,
	.rd_atomic = 4,
	.timeout = 14,
	.retry_cnt = 7,
	.rnr_retry = 3,
	.min_rnr_timer = 12,
	.access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
		  IBV_ACCESS_REMOTE_ATOMIC,
	.psn = 0xfffff0,
	.max_wr = 256,
};

static struct flying *first, **last = &first;
static struct flying *held;
static fate_fn fate_of;
static void *fate_data;
static uint64_t now;
static unsigned packets;
static unsigned counts[256];
static struct ur_packet newest[256];
static struct ur_path newest_path;
static struct ur_link links[2];

/* ---- The link ---- */

static void enqueue(struct flying *flying)
{
	flying->next = NULL;
	*last = flying;
	last = &flying->next;
}

static struct flying *copy_of(const struct flying *flying)
{
	struct flying *copy = malloc(sizeof(*copy));

	assert_non_null(copy);
	*copy = *flying;
	copy->payload = malloc(flying->packet.payload_length + 1);
	assert_non_null(copy->payload);
	memcpy(copy->payload, flying->payload, flying->packet.payload_length);
	copy->packet.payload = copy->payload;
	return copy;
}

/* Through the bytes of the wire, so that what has no place in them is not carried. */
static struct flying *make_flying(const struct ur_packet *packet, const uint8_t *payload,
				  struct node *to, const struct ur_path *from)
{
	uint8_t bytes[UR_MAX_HEADERS + 4096 + 3 + UR_ICRC_SIZE] = { 0 };
	size_t headers = ur_packet_encode(packet, bytes);
	size_t length = headers + packet->payload_length + ur_padding(packet->payload_length) +
			UR_ICRC_SIZE;
	struct flying flying = { .to = to, .from = *from };

	assert_true(packet->payload_length <= 4096);
	if (packet->payload_length > 0)
		memcpy(bytes + headers, payload, packet->payload_length);
	assert_int_equal(ur_packet_decode(bytes, length, &flying.packet), UR_DECODED);
	flying.payload = bytes + headers;
	return copy_of(&flying);
}

/* As a node's packets come to others: from its address of that number, and its port. */
static struct ur_path path_from(const struct node *node, uint8_t gid_index)
{
	struct ur_path from = { .gid_index = gid_index };

	ur_device_address(&node->device, gid_index, &from.remote);
	ur_address_set_port(&from.remote,
			    ur_link_port_of((uint32_t)ur_link_number(node->device.link) << 16));
	return from;
}

static void link_send(struct ur_carrier *carrier, const struct ur_path *path,
		      const struct ur_tx *tx)
{
	struct ur_link *link = (struct ur_link *)carrier;
	struct ur_path from = path_from(link->self, path->gid_index);
	bool to_self = tx->packet->dest_qpn >> 16 == ur_link_number(link);
	uint8_t payload[4096];
	size_t used = 0;

	if (carrier->blocked) {
		carrier->unsent(tx->owner, tx->packet->psn, tx->packet->opcode);
		return;
	}
	for (unsigned i = 0; i < tx->payload_count; i++) {
		assert_true(used + tx->payload[i].iov_len <= sizeof(payload));
		memcpy(payload + used, tx->payload[i].iov_base, tx->payload[i].iov_len);
		used += tx->payload[i].iov_len;
	}
	assert_int_equal(used, tx->packet->payload_length);
	counts[tx->packet->opcode]++;
	newest[tx->packet->opcode] = *tx->packet;
	newest_path = *path;
	enqueue(make_flying(tx->packet, payload, to_self ? link->self : link->peer, &from));
}

static void link_flush(struct ur_carrier *carrier)
{
	(void)carrier;
}

static bool link_has_room(struct ur_carrier *carrier, const struct ur_path *path)
{
	(void)path;
	return !((struct ur_link *)carrier)->full;
}

static void link_unsent(void *owner, uint32_t psn, uint8_t opcode)
{
	if (ur_opcode_flags(opcode) & (UR_IS_UD | UR_IS_UC))
		ur_sender_unsent(owner, psn);
	else if (ur_opcode_flags(opcode) & UR_IS_REQUEST)
		ur_requester_unsent(owner, psn);
}

struct ur_carrier *ur_link_carrier(struct ur_link *link)
{
	return &link->carrier;
}

uint8_t ur_link_number(const struct ur_link *link)
{
	return link == &links[0] ? 1 : 2;
}

uint16_t ur_link_port_of(uint32_t qpn)
{
	return (uint16_t)(UR_UDP_PORT + (qpn >> 16));
}

/* ---- The engine ---- */

int ur_engine_start(struct ur_device *device)
{
	struct ur_link *link = device == &a.device ? &links[0] : &links[1];

	*link = (struct ur_link){
		.carrier = { .send = link_send,
			     .flush = link_flush,
			     .unsent = link_unsent,
			     .has_room = link_has_room,
			     .window = SIMULATION_WINDOW },
		.self = device == &a.device ? &a : &b,
		.peer = device == &a.device ? &b : &a,
	};
	device->link = link;
	return 0;
}

void ur_engine_stop(struct ur_device *device)
{
	device->link = NULL;
}

void ur_engine_poll(struct ur_device *device)
{
	(void)device;
}

void ur_engine_hand_over(struct ur_device *device)
{
	(void)device;
}

void ur_engine_at_exit(struct ur_device *device)
{
	(void)device;
}

void ur_engine_flush(struct ur_device *device)
{
	(void)device;
}

void ur_engine_set_timer(struct ur_device *device, struct ur_qp *qp, uint64_t deadline)
{
	(void)device;
	qp->deadline = deadline;
}

void ur_engine_schedule(struct ur_device *device, struct ur_qp *qp)
{
	(void)device;
	qp->scheduled = true;
}

void ur_engine_forget(struct ur_device *device, struct ur_qp *qp)
{
	(void)device;
	if (qp->scheduled && qp->carrier)
		ur_qp_go_on(qp);
	qp->scheduled = false;
	qp->deadline = UR_NEVER;
}

/* Tests call the objects' functions, not the exported ones. */
void ur_context_set_ops(struct verbs_context *verbs)
{
	(void)verbs;
}

/* ---- The network ---- */

static void respond(struct node *node)
{
	while (node->qp->scheduled) {
		node->qp->scheduled = false;
		if (ur_qp_go_on(node->qp) && !node->qp->carrier->blocked)
			node->qp->scheduled = true;
	}
}

static void receive_request(struct ur_qp *qp, const struct ur_packet *packet, uint32_t flags,
			    const struct ur_path *from)
{
	if (flags & UR_IS_UD)
		ur_datagram_receive(qp, packet, from, NULL);
	else if (flags & UR_IS_UC)
		ur_unreliable_receive(qp, packet);
	else
		ur_responder_receive(qp, packet);
}

static void receive(struct node *to, const struct ur_packet *packet, const struct ur_path *from)
{
	enum ibv_qp_state state = to->qp->attr.qp_state;
	uint32_t flags = ur_opcode_flags(packet->opcode);
	bool responds = state >= IBV_QPS_RTR && state != IBV_QPS_ERR;

	if (!ur_qp_takes(to->qp, flags)) {
		to->device.counters.rx_unexpected++;
	} else if (flags & UR_IS_REQUEST) {
		if (responds)
			receive_request(to->qp, packet, flags, from);
	} else if (state == IBV_QPS_RTS || state == IBV_QPS_SQD) {
		ur_requester_receive(to->qp, packet, now);
	}
}

void simulation_deliver(struct node *to, const struct ur_packet *packet)
{
	struct ur_path from = path_from(to == &a ? &b : &a, 0);

	receive(to, packet, &from);
	respond(to);
}

static void deliver(struct flying *flying)
{
	receive(flying->to, &flying->packet, &flying->from);
	free(flying->payload);
	free(flying);
}

static struct flying *dequeue(void)
{
	struct flying *flying = first;

	first = flying->next;
	if (!first)
		last = &first;
	return flying;
}

static void drop(struct flying *flying)
{
	free(flying->payload);
	free(flying);
}

static void release_held(void)
{
	struct flying *flying = held;

	held = NULL;
	if (flying)
		deliver(flying);
}

static void meet_fate(struct flying *flying)
{
	switch (fate_of ? fate_of(&flying->packet, packets, fate_data) : DELIVER) {
	case DROP:
		drop(flying);
		return;
	case HOLD:
		release_held();
		held = flying;
		return;
	case DUPLICATE:
		deliver(copy_of(flying));
		break;
	case DELIVER:
		break;
	}
	deliver(flying);
	release_held();
}

void simulation_settle(void)
{
	for (;;) {
		while (first) {
			struct flying *flying = dequeue();

			meet_fate(flying);
			packets++;
		}
		respond(&a);
		respond(&b);
		if (first)
			continue;
		if (!held)
			return;
		release_held();
	}
}

static uint64_t earliest_deadline(void)
{
	return a.qp->deadline < b.qp->deadline ? a.qp->deadline : b.qp->deadline;
}

static void run_timer(struct node *node)
{
	if (node->qp->deadline <= now)
		ur_qp_run_timer(node->qp, now);
}

void simulation_run(uint64_t max_ns)
{
	uint64_t end = now + max_ns;

	simulation_settle();
	while (earliest_deadline() <= end) {
		if (earliest_deadline() > now)
			now = earliest_deadline();
		run_timer(&a);
		run_timer(&b);
		simulation_settle();
	}
}

void simulation_set_fate(fate_fn fate, void *user_data)
{
	fate_of = fate;
	fate_data = user_data;
}

uint64_t simulation_now(void)
{
	return now;
}

unsigned simulation_packets(void)
{
	return packets;
}

unsigned simulation_count(uint8_t opcode)
{
	return counts[opcode];
}

const struct ur_packet *simulation_last(uint8_t opcode)
{
	assert_int_not_equal(counts[opcode], 0);
	return &newest[opcode];
}

const struct ur_path *simulation_last_path(void)
{
	return &newest_path;
}

void simulation_inject(const struct ur_packet *packet, const void *payload)
{
	struct ur_path from = path_from(&a, 0);

	enqueue(make_flying(packet, payload, &b, &from));
}

void simulation_fill(bool full)
{
	links[0].full = full;
	links[1].full = full;
}

void simulation_block(bool blocked)
{
	links[0].carrier.blocked = blocked;
	links[1].carrier.blocked = blocked;
}

/* ---- Life ---- */

static struct ur_mr *register_memory(struct node *node)
{
	return ur_mr_register(node->pd, node->memory, MEMORY_SIZE, UINT64_MAX,
			      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				      IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
}

static enum ibv_qp_type type_of(const struct node *node, const struct simulation_config *config)
{
	return config->type == IBV_QPT_XRC_SEND && node == &b ? IBV_QPT_XRC_RECV : config->type;
}

static void create_xrc_srq(struct node *node, const struct simulation_config *config)
{
	const struct ibv_xrcd_init_attr attr = { .comp_mask = IBV_XRCD_INIT_ATTR_FD |
							      IBV_XRCD_INIT_ATTR_OFLAGS,
						 .fd = -1,
						 .oflags = O_CREAT };

	node->xrcd = ur_xrcd_open(node->context, &attr);
	assert_non_null(node->xrcd);
	node->srq = ur_srq_create_xrc(node->pd, node->xrcd, node->recv_cq, NULL,
				      &(struct ibv_srq_attr){ .max_wr = config->max_wr,
							      .max_sge = UR_MAX_SGE });
	assert_non_null(node->srq);
}

static void create_qp(struct node *node, const struct simulation_config *config)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = type_of(node, config),
		.comp_mask = IBV_QP_INIT_ATTR_PD | (node->xrcd ? IBV_QP_INIT_ATTR_XRCD : 0) |
			     (config->send_ops ? IBV_QP_INIT_ATTR_SEND_OPS_FLAGS : 0),
		.send_ops_flags = config->send_ops,
		.pd = &node->pd->verbs,
		.xrcd = node->xrcd ? &node->xrcd->verbs : NULL,
		.send_cq = &node->send_cq->verbs,
		.recv_cq = &node->recv_cq->verbs,
		.srq = node->srq ? &node->srq->verbs : NULL,
		.cap = { .max_send_wr = config->max_wr,
			 .max_recv_wr = config->max_wr,
			 .max_send_sge = UR_MAX_SGE,
			 .max_recv_sge = UR_MAX_SGE,
			 .max_inline_data = 256 },
	};

	node->qp = ur_qp_create(node->context, &attr);
	assert_non_null(node->qp);
}

static void create_node(struct node *node, const struct simulation_config *config)
{
	uint8_t number = node == &a ? 1 : 2;

	memset(node, 0, sizeof(*node));
	node->device.verbs.transport_type = IBV_TRANSPORT_IB;
	strcpy(node->device.verbs.name, node == &a ? "uroce_a" : "uroce_b");
	node->device.mtu = IBV_MTU_4096;
	node->device.gid_count = 2;
	memcpy(node->device.gids[0].raw, (uint8_t[16]){ [10] = 0xff, 0xff, 127, 0, 0, number }, 16);
	memcpy(node->device.gids[1].raw, (uint8_t[16]){ 0xfd, [15] = number }, 16);
	pthread_mutex_init(&node->device.lock, NULL);
	node->memory = aligned_alloc(4096, MEMORY_SIZE);
	assert_non_null(node->memory);
	memset(node->memory, 0, MEMORY_SIZE);
	node->context = ur_context_open(&node->device);
	assert_non_null(node->context);
	node->pd = ur_pd_alloc(node->context);
	node->send_cq = ur_cq_create(node->context, 4096, NULL, NULL, 0, NULL);
	node->recv_cq = ur_cq_create(node->context, 4096, NULL, NULL, 0, NULL);
	node->mr = register_memory(node);
	assert_non_null(node->mr);
	if (config->srq)
		node->srq = ur_srq_create(node->pd, NULL,
					  &(struct ibv_srq_attr){ .max_wr = 64, .max_sge = 4 });
	if (type_of(node, config) == IBV_QPT_XRC_RECV)
		create_xrc_srq(node, config);
	create_qp(node, config);
}

static void modify(struct node *node, struct ibv_qp_attr attr, int mask)
{
	assert_int_equal(ur_qp_modify(node->qp, &attr, mask), 0);
}

static void start_datagrams(struct node *node, const struct simulation_config *config)
{
	modify(node,
	       (struct ibv_qp_attr){
		       .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = SIMULATION_QKEY },
	       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
	modify(node, (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR }, IBV_QP_STATE);
	modify(node, (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .sq_psn = config->psn },
	       IBV_QP_STATE | IBV_QP_SQ_PSN);
}

/* Beside those of all connections, what a type that receives, or sends, reliably has. */
static int rtr_mask(enum ibv_qp_type type)
{
	int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;

	if (type == IBV_QPT_RC || type == IBV_QPT_XRC_RECV)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	return mask;
}

static int rts_mask(enum ibv_qp_type type)
{
	int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;

	if (type != IBV_QPT_UC)
		mask |= IBV_QP_TIMEOUT;
	if (type == IBV_QPT_RC || type == IBV_QPT_XRC_SEND)
		mask |= IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	return mask;
}

static void connect_node(struct node *node, const struct node *peer,
			 const struct simulation_config *config)
{
	const enum ibv_qp_type type = node->qp->verbs.qp_type;

	if (config->type == IBV_QPT_UD) {
		start_datagrams(node, config);
		return;
	}
	modify(node,
	       (struct ibv_qp_attr){
		       .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = config->access },
	       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	modify(node,
	       (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR,
				     .path_mtu = config->mtu,
				     .dest_qp_num = peer->qp->verbs.qp_num,
				     .rq_psn = config->psn,
				     .max_dest_rd_atomic = (uint8_t)config->rd_atomic,
				     .min_rnr_timer = (uint8_t)config->min_rnr_timer,
				     .ah_attr = { .is_global = 1,
						  .port_num = 1,
						  .grh.dgid = peer->device.gids[0] } },
	       rtr_mask(type));
	modify(node,
	       (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS,
				     .sq_psn = config->psn,
				     .timeout = (uint8_t)config->timeout,
				     .retry_cnt = (uint8_t)config->retry_cnt,
				     .rnr_retry = (uint8_t)config->rnr_retry,
				     .max_rd_atomic = (uint8_t)config->rd_atomic },
	       rts_mask(type));
}

void simulation_create(const struct simulation_config *config)
{
	first = NULL;
	last = &first;
	held = NULL;
	fate_of = NULL;
	now = UINT64_C(1000000000);
	packets = 0;
	memset(counts, 0, sizeof(counts));
	create_node(&a, config);
	create_node(&b, config);
	connect_node(&a, &b, config);
	connect_node(&b, &a, config);
}

void simulation_lose_all(void)
{
	while (first)
		drop(dequeue());
	if (held)
		drop(held);
	held = NULL;
}

static void reset_node(struct node *node)
{
	struct ibv_wc wc;

	modify(node, (struct ibv_qp_attr){ .qp_state = IBV_QPS_RESET }, IBV_QP_STATE);
	while (ur_cq_poll(&node->send_cq->verbs, 1, &wc) > 0)
		continue;
	while (ur_cq_poll(&node->recv_cq->verbs, 1, &wc) > 0)
		continue;
}

void simulation_reconnect(const struct simulation_config *config)
{
	reset_node(&a);
	reset_node(&b);
	simulation_lose_all();
	connect_node(&a, &b, config);
	connect_node(&b, &a, config);
}

static void destroy_node(struct node *node)
{
	assert_int_equal(ur_qp_destroy(node->qp), 0);
	if (node->srq)
		assert_int_equal(ur_srq_destroy(node->srq), 0);
	if (node->xrcd)
		assert_int_equal(ur_xrcd_close(node->xrcd), 0);
	assert_int_equal(ur_mr_deregister(node->mr), 0);
	assert_int_equal(ur_cq_destroy(node->send_cq), 0);
	assert_int_equal(ur_cq_destroy(node->recv_cq), 0);
	assert_int_equal(ur_pd_dealloc(node->pd), 0);
	assert_int_equal(ur_context_close(node->context), 0);
	pthread_mutex_destroy(&node->device.lock);
	free(node->memory);
}

void simulation_destroy(void)
{
	destroy_node(&a);
	destroy_node(&b);
	simulation_lose_all();
}

/* ---- Work ---- */

struct ibv_sge simulation_sge(const struct node *node, size_t offset, uint32_t length)
{
	return (struct ibv_sge){ .addr = (uintptr_t)node->memory + offset,
				 .length = length,
				 .lkey = node->mr->verbs.lkey };
}

struct ibv_send_wr simulation_wr(enum ibv_wr_opcode opcode, struct ibv_sge *sge, uint64_t wr_id)
{
	struct ibv_send_wr wr = { .wr_id = wr_id,
				  .sg_list = sge,
				  .num_sge = sge ? 1 : 0,
				  .opcode = opcode,
				  .send_flags = IBV_SEND_SIGNALED,
				  .qp_type.xrc.remote_srqn = b.srq ? b.srq->number : 0 };

	if (opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = (uintptr_t)b.memory;
		wr.wr.atomic.rkey = b.mr->verbs.rkey;
	} else if (opcode != IBV_WR_LOCAL_INV && opcode != IBV_WR_BIND_MW) {
		wr.wr.rdma.remote_addr = (uintptr_t)b.memory;
		wr.wr.rdma.rkey = b.mr->verbs.rkey;
	}
	return wr;
}

void simulation_post_send(struct node *node, struct ibv_send_wr *wr)
{
	struct ur_requester *requester = &node->qp->requester;
	uint64_t timed_at = requester->timed_at;
	struct ibv_send_wr *bad = NULL;

	assert_int_equal(ur_qp_post_send(&node->qp->verbs, wr, &bad), 0);
	/* Posting takes the time from the clock; here it stands still. */
	if (requester->timed_at != timed_at)
		requester->timed_at = now;
	if (node->qp->deadline != UR_NEVER) {
		requester->ack_deadline = UR_NEVER;
		requester->probe_deadline = UR_NEVER;
		ur_requester_transmit(node->qp, now);
	}
}

void simulation_post_recv(struct node *node, uint64_t wr_id, size_t offset, uint32_t length)
{
	struct ibv_sge sge = simulation_sge(node, offset, length);
	struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 }, *bad = NULL;

	if (node->srq)
		assert_int_equal(ur_srq_post(&node->srq->verbs, &wr, &bad), 0);
	else
		assert_int_equal(ur_qp_post_recv(&node->qp->verbs, &wr, &bad), 0);
}

struct ibv_wc simulation_completion(struct ur_cq *cq)
{
	struct ibv_wc wc;

	assert_int_equal(ur_cq_poll(&cq->verbs, 1, &wc), 1);
	return wc;
}

void assert_no_completion(struct ur_cq *cq)
{
	struct ibv_wc wc;

	assert_int_equal(ur_cq_poll(&cq->verbs, 1, &wc), 0);
}

struct ibv_wc assert_completion(struct ur_cq *cq, uint64_t wr_id, enum ibv_wc_status status)
{
	struct ibv_wc wc = simulation_completion(cq);

	assert_int_equal(wc.status, status);
	assert_int_equal(wc.wr_id, wr_id);
	return wc;
}

static bool has_event(struct node *node)
{
	struct pollfd fd = { .fd = node->context->verbs.context.async_fd, .events = POLLIN };

	return poll(&fd, 1, 0) == 1;
}

void assert_event(struct node *node, enum ibv_event_type type)
{
	struct ibv_async_event event;

	assert_true(has_event(node));
	assert_int_equal(ur_async_get(node->context, &event), 0);
	assert_int_equal(event.event_type, type);
	ur_async_acknowledge(node->context, &event);
}

void assert_no_event(struct node *node)
{
	assert_false(has_event(node));
}

void fill_pattern(uint8_t *bytes, size_t length, unsigned seed)
{
	uint32_t state = seed * 2654435761U + 1;

	for (size_t i = 0; i < length; i++) {
		state = state * 1664525U + 1013904223U;
		bytes[i] = (uint8_t)(state >> 24);
	}
}

void assert_all_bytes(const uint8_t *bytes, size_t length, uint8_t value)
{
	if (length == 0)
		return;
	assert_int_equal(bytes[0], value);
	/* Each byte equals the one before it. */
	assert_int_equal(memcmp(bytes, bytes + 1, length - 1), 0);
}
