#include "side.h"

#include <err.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "control.h"

#define PORT      1
#define RNR_TIMER 12 /* 0.64 ms */

/* ---- The device ---- */

static struct ibv_context *open_device(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = NULL;

	if (!list)
		err(EXIT_FAILURE, "ibv_get_device_list");
	for (unsigned i = 0; list[i]; i++)
		if (strcmp(ibv_get_device_name(list[i]), name) == 0)
			context = ibv_open_device(list[i]);
	if (!context)
		errx(EXIT_FAILURE, "no device %s, or it cannot be opened", name);
	ibv_free_device_list(list);
	return context;
}

static struct ibv_mr *register_memory(struct ibv_pd *pd, void *memory, unsigned access)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, 2 * REGION_SIZE, access);

	if (!mr)
		err(EXIT_FAILURE, "ibv_reg_mr");
	return mr;
}

static void open_memory(struct side *side)
{
	side->memory = mmap(NULL, 2 * REGION_SIZE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (side->memory == MAP_FAILED)
		err(EXIT_FAILURE, "mmap");
	side->mr = register_memory(side->pd, side->memory, ALL_ACCESS | IBV_ACCESS_MW_BIND);
	side->local_mr = register_memory(side->pd, side->memory, 0);
	side->other_mr = register_memory(side->other_pd, side->memory, ALL_ACCESS);
}

static void open_queues(struct side *side)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = MAX_WRS, .max_sge = LAYOUT_MAX } };

	side->pd = ibv_alloc_pd(side->context);
	side->other_pd = ibv_alloc_pd(side->context);
	side->send_cq = ibv_create_cq(side->context, 2 * MAX_WRS, NULL, NULL, 0);
	side->recv_cq = ibv_create_cq(side->context, 2 * MAX_WRS, NULL, NULL, 0);
	if (!side->pd || !side->other_pd || !side->send_cq || !side->recv_cq)
		err(EXIT_FAILURE, "ibv_alloc_pd, ibv_create_cq");
	side->srq = ibv_create_srq(side->pd, &attr);
	if (!side->srq)
		err(EXIT_FAILURE, "ibv_create_srq");
}

static void describe(struct side *side, const char *device)
{
	struct ibv_port_attr port;

	if (ibv_query_port(side->context, PORT, &port) != 0)
		errx(EXIT_FAILURE, "ibv_query_port");
	side->ours = (struct card){
		.memory = (uintptr_t)side->memory,
		.rkey = side->mr->rkey,
		.local_rkey = side->local_mr->rkey,
		.other_rkey = side->other_mr->rkey,
		.is_rxe = strncmp(device, "rxe", 3) == 0,
		.mtu = (uint8_t)port.active_mtu,
	};
}

static void meet_first(struct side *side)
{
	control_exchange(side->control, &side->ours, &side->theirs, sizeof(side->ours));
}

void side_open(struct side *side, const char *device)
{
	side->context = open_device(device);
	open_queues(side);
	open_memory(side);
	describe(side, device);
	meet_first(side);
}

/* That nothing holds an object any more is a part of the test. */
static void expect_success(const char *call, int error)
{
	if (error)
		errx(EXIT_FAILURE, "%s: %s", call, strerror(error));
}

void side_close(struct side *side)
{
	side_disconnect(side);
	expect_success("ibv_dereg_mr", ibv_dereg_mr(side->other_mr));
	expect_success("ibv_dereg_mr", ibv_dereg_mr(side->local_mr));
	expect_success("ibv_dereg_mr", ibv_dereg_mr(side->mr));
	expect_success("ibv_destroy_srq", ibv_destroy_srq(side->srq));
	expect_success("ibv_destroy_cq", ibv_destroy_cq(side->recv_cq));
	expect_success("ibv_destroy_cq", ibv_destroy_cq(side->send_cq));
	expect_success("ibv_dealloc_pd", ibv_dealloc_pd(side->other_pd));
	expect_success("ibv_dealloc_pd", ibv_dealloc_pd(side->pd));
	expect_success("ibv_close_device", ibv_close_device(side->context));
	munmap(side->memory, 2 * REGION_SIZE);
}

/* ---- Addresses ---- */

static bool is_ipv4(const union ibv_gid *gid)
{
	static const uint8_t prefix[12] = { [10] = 0xff, [11] = 0xff };

	return memcmp(gid->raw, prefix, sizeof(prefix)) == 0;
}

static bool is_of(enum family family, const union ibv_gid *gid)
{
	static const union ibv_gid none;
	bool is_link_local = gid->raw[0] == 0xfe && gid->raw[1] == 0x80;

	if (memcmp(gid, &none, sizeof(none)) == 0)
		return false;
	return family == IPV4 ? is_ipv4(gid) : !is_ipv4(gid) && !is_link_local;
}

static uint8_t find_gid(const struct side *side, enum family family, union ibv_gid *gid)
{
	for (int i = 0; i < UINT8_MAX && ibv_query_gid(side->context, PORT, i, gid) == 0; i++)
		if (is_of(family, gid))
			return (uint8_t)i;
	errx(EXIT_FAILURE, "the device has no address of IPv%d", family == IPV4 ? 4 : 6);
}

void side_choose_family(struct side *side, enum family family)
{
	find_gid(side, family, &side->ours.gid);
	control_exchange(side->control, &side->ours, &side->theirs, sizeof(side->ours));
}

uint8_t *side_source(const struct side *side)
{
	return side->memory;
}

uint8_t *side_target(const struct side *side)
{
	return side->memory + REGION_SIZE;
}

/* ---- Cells ---- */

void cell_begin(struct side *side, const char *format, ...)
{
	int length = snprintf(side->cell, sizeof(side->cell), "%s/",
			      side->requests == side->is_first ? "1-2" : "2-1");
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(side->cell + length, sizeof(side->cell) - (size_t)length, format, arguments);
	va_end(arguments);
	side->failure[0] = '\0';
	side->refusal[0] = '\0';
	side->go_on = true;
	side->seed++;
}

void cell_fail(struct side *side, const char *format, ...)
{
	va_list arguments;

	if (side->failure[0])
		return;
	va_start(arguments, format);
	vsnprintf(side->failure, sizeof(side->failure), format, arguments);
	va_end(arguments);
}

void cell_call_failed(struct side *side, const char *call, int error)
{
	if (error == EOPNOTSUPP)
		snprintf(side->refusal, sizeof(side->refusal), "%s: %s", call, strerror(error));
	else
		cell_fail(side, "%s: %s", call, strerror(error));
}

bool cell_meet(struct side *side)
{
	const bool ours = !side->failure[0] && !side->refusal[0];
	bool theirs;

	control_exchange(side->control, &ours, &theirs, sizeof(ours));
	side->go_on = side->go_on && ours && theirs;
	return side->go_on;
}

/* What a side knows at a cell's end. */
struct verdict {
	char failure[200];
	char refusal[80];
};

void cell_end(struct side *side)
{
	struct verdict ours = { 0 }, theirs;
	const char *failure = side->failure, *refusal = side->refusal;

	memcpy(ours.failure, side->failure, sizeof(ours.failure));
	memcpy(ours.refusal, side->refusal, sizeof(ours.refusal));
	control_exchange(side->control, &ours, &theirs, sizeof(ours));
	if (!*failure)
		failure = theirs.failure;
	if (!*refusal)
		refusal = theirs.refusal;
	if (*failure) {
		printf("FAILED %s: %s%s\n", side->cell,
		       failure == theirs.failure ? "the other side: " : "", failure);
		side->failed++;
	} else if (*refusal) {
		printf("skipped %s %s\n", side->cell, refusal);
		side->skipped++;
	} else {
		printf("ok %s\n", side->cell);
		side->passed++;
	}
	if (*failure || *refusal)
		side_disconnect(side);
}

/* ---- Queue pairs ---- */

struct options options_for(const struct side *side, enum ibv_qp_type type, enum family family,
			   enum ibv_mtu mtu)
{
	return (struct options){
		.type = type,
		.family = family,
		.mtu = mtu,
		.psn = 0x123456,
		.access = ALL_ACCESS,
		.max_dest_rd_atomic = MAX_RD_ATOMIC,
		.rnr_retry = 7,
		.timeout = side->timeout,
		.retry_cnt = 7,
	};
}

static void empty(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	while (ibv_poll_cq(cq, 1, &wc) > 0)
		continue;
}

/* Receives that no message came for are the next queue pair's. They are taken away with the queue. */
static void renew_srq(struct side *side)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = MAX_WRS, .max_sge = LAYOUT_MAX } };

	expect_success("ibv_destroy_srq", ibv_destroy_srq(side->srq));
	side->srq = ibv_create_srq(side->pd, &attr);
	if (!side->srq)
		err(EXIT_FAILURE, "ibv_create_srq");
}

void side_disconnect(struct side *side)
{
	if (side->ah)
		expect_success("ibv_destroy_ah", ibv_destroy_ah(side->ah));
	side->ah = NULL;
	if (!side->qp)
		return;
	expect_success("ibv_destroy_qp", ibv_destroy_qp(side->qp));
	if (side->options.has_srq)
		renew_srq(side);
	side->qp = NULL;
	empty(side->send_cq);
	empty(side->recv_cq);
}

static void create(struct side *side, const struct options *options)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = side->send_cq,
		.recv_cq = side->recv_cq,
		.srq = options->has_srq ? side->srq : NULL,
		.cap = { .max_send_wr = MAX_WRS,
			 .max_recv_wr = MAX_WRS,
			 .max_send_sge = LAYOUT_MAX,
			 .max_recv_sge = LAYOUT_MAX,
			 .max_inline_data = MAX_INLINE },
		.qp_type = options->type,
	};

	side->options = *options;
	side->qp = ibv_create_qp(side->pd, &attr);
	if (!side->qp)
		cell_call_failed(side, "ibv_create_qp", errno);
	else
		side->ours.qpn = side->qp->qp_num;
}

static void modify(struct side *side, struct ibv_qp_attr *attr, int mask)
{
	int error;

	if (!side->go_on || side->failure[0])
		return;
	error = ibv_modify_qp(side->qp, attr, mask);
	if (error)
		cell_fail(side, "ibv_modify_qp to state %d: %s", attr->qp_state, strerror(error));
}

static void initialize(struct side *side, const struct options *options)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = PORT, .qkey = QKEY };
	int last = options->type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;

	attr.qp_access_flags = (unsigned)options->access;
	modify(side, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | last);
}

static struct ibv_ah_attr way_to(const struct side *side, enum family family)
{
	union ibv_gid own;

	return (struct ibv_ah_attr){
		.is_global = 1,
		.port_num = PORT,
		.grh = { .dgid = side->theirs.gid,
			 .sgid_index = find_gid(side, family, &own),
			 .hop_limit = 64 },
	};
}

static void start_receiving(struct side *side, const struct options *options)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = options->mtu,
		.dest_qp_num = side->theirs.qpn,
		.rq_psn = options->psn,
		.max_dest_rd_atomic = options->max_dest_rd_atomic,
		.min_rnr_timer = RNR_TIMER,
		.ah_attr = way_to(side, options->family),
	};
	int mask = IBV_QP_STATE;

	if (options->type != IBV_QPT_UD)
		mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (options->type == IBV_QPT_RC)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	modify(side, &attr, mask);
}

static void start_sending(struct side *side, const struct options *options)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.sq_psn = options->psn,
		.timeout = options->timeout,
		.retry_cnt = options->retry_cnt,
		.rnr_retry = options->rnr_retry,
		.max_rd_atomic = MAX_RD_ATOMIC,
	};
	int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;

	if (options->type == IBV_QPT_RC)
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			IBV_QP_MAX_QP_RD_ATOMIC;
	modify(side, &attr, mask);
}

static void find_way(struct side *side, const struct options *options)
{
	struct ibv_ah_attr attr = way_to(side, options->family);

	side->ah = ibv_create_ah(side->pd, &attr);
	if (!side->ah)
		cell_call_failed(side, "ibv_create_ah", errno);
}

bool side_connect(struct side *side, const struct options *options)
{
	if (side->qp)
		return true;
	create(side, options);
	if (!cell_meet(side))
		return false;
	control_exchange(side->control, &side->ours, &side->theirs, sizeof(side->ours));
	initialize(side, options);
	start_receiving(side, options);
	start_sending(side, options);
	if (options->type == IBV_QPT_UD)
		find_way(side, options);
	return cell_meet(side);
}

enum ibv_qp_state side_state(struct side *side)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_UNKNOWN };

	if (ibv_query_qp(side->qp, &attr, IBV_QP_STATE, &init) != 0)
		cell_fail(side, "ibv_query_qp");
	return attr.qp_state;
}
