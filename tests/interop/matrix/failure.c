#include <time.h>

#include "groups.h"
#include "work.h"

#define OFFSET 64
#define LENGTH 16

#define RECEIVER_LATE_NS (20 * 1000 * 1000)

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* What is wrong with a request, or with who is to execute it. */
enum fault {
	UNKNOWN_KEY,
	NO_REMOTE_ACCESS, /* of the memory region */
	OTHER_PD,
	BEFORE_REGION,
	BEHIND_REGION,
	QP_WITHOUT_ACCESS,
	NO_RESOURCES, /* for reads and atomics */
	UNALIGNED,
	SHORT_RECEIVE,
	RECEIVE_WITH_BAD_KEY,
	NO_RECEIVE,
	PEER_GONE,
	LOCAL_KEY,
};

struct failure {
	const char *name;
	enum fault fault;
	enum ibv_wr_opcode opcode;
	enum ibv_wc_status status; /* of the requester's completion */
	/* Of the responder's receive, whose queue pair ends. IBV_WC_SUCCESS: none is there, and it goes on. */
	enum ibv_wc_status receive;
	/* Where rxe deviates from the specification (else IBV_WC_SUCCESS, false), as: */
	enum ibv_wc_status rxe_requester; /* the requester: its status */
	enum ibv_wc_status rxe_responder; /* the responder: the requester's status */
	enum ibv_wc_status rxe_receive;   /* the responder: its receive's status */
	bool rxe_refuses;                 /* the requester: EINVAL when it is posted */
};

/* rxe ends the receive that a write was to take, although the write did not get as far as that. */
#define BAD_TARGET(prefix, what)                                                                   \
	{ .name = prefix "/write",                                                                 \
	  .fault = what,                                                                           \
	  .opcode = IBV_WR_RDMA_WRITE,                                                             \
	  .status = IBV_WC_REM_ACCESS_ERR,                                                         \
	  .receive = IBV_WC_WR_FLUSH_ERR },                                                        \
		{ .name = prefix "/write_imm",                                                     \
		  .fault = what,                                                                   \
		  .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,                                            \
		  .status = IBV_WC_REM_ACCESS_ERR,                                                 \
		  .receive = IBV_WC_WR_FLUSH_ERR,                                                  \
		  .rxe_receive = IBV_WC_REM_ACCESS_ERR },                                          \
		{ .name = prefix "/read",                                                          \
		  .fault = what,                                                                   \
		  .opcode = IBV_WR_RDMA_READ,                                                      \
		  .status = IBV_WC_REM_ACCESS_ERR,                                                 \
		  .receive = IBV_WC_WR_FLUSH_ERR },                                                \
		{ .name = prefix "/cas",                                                           \
		  .fault = what,                                                                   \
		  .opcode = IBV_WR_ATOMIC_CMP_AND_SWP,                                             \
		  .status = IBV_WC_REM_ACCESS_ERR,                                                 \
		  .receive = IBV_WC_WR_FLUSH_ERR },                                                \
	{                                                                                          \
		.name = prefix "/fetch_add", .fault = what, .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, \
		.status = IBV_WC_REM_ACCESS_ERR, .receive = IBV_WC_WR_FLUSH_ERR                    \
	}

#define INVALID(text, what, operation)                                            \
	{                                                                         \
		.name = text, .fault = what, .opcode = operation,                 \
		.status = IBV_WC_REM_INV_REQ_ERR, .receive = IBV_WC_WR_FLUSH_ERR, \
		.rxe_refuses = what == UNALIGNED                                  \
	}

static const struct failure failures[] = {
	BAD_TARGET("unknown_key", UNKNOWN_KEY),
	BAD_TARGET("no_remote_access", NO_REMOTE_ACCESS),
	BAD_TARGET("other_pd", OTHER_PD),
	BAD_TARGET("before_region", BEFORE_REGION),
	BAD_TARGET("behind_region", BEHIND_REGION),
	INVALID("qp_without_access/write", QP_WITHOUT_ACCESS, IBV_WR_RDMA_WRITE),
	INVALID("qp_without_access/write_imm", QP_WITHOUT_ACCESS, IBV_WR_RDMA_WRITE_WITH_IMM),
	INVALID("qp_without_access/read", QP_WITHOUT_ACCESS, IBV_WR_RDMA_READ),
	INVALID("qp_without_access/cas", QP_WITHOUT_ACCESS, IBV_WR_ATOMIC_CMP_AND_SWP),
	INVALID("qp_without_access/fetch_add", QP_WITHOUT_ACCESS, IBV_WR_ATOMIC_FETCH_AND_ADD),
	INVALID("no_resources/read", NO_RESOURCES, IBV_WR_RDMA_READ),
	INVALID("no_resources/cas", NO_RESOURCES, IBV_WR_ATOMIC_CMP_AND_SWP),
	INVALID("no_resources/fetch_add", NO_RESOURCES, IBV_WR_ATOMIC_FETCH_AND_ADD),
	INVALID("unaligned/cas", UNALIGNED, IBV_WR_ATOMIC_CMP_AND_SWP),
	INVALID("unaligned/fetch_add", UNALIGNED, IBV_WR_ATOMIC_FETCH_AND_ADD),
	{ .name = "short_receive/send",
	  .fault = SHORT_RECEIVE,
	  .opcode = IBV_WR_SEND,
	  .status = IBV_WC_REM_INV_REQ_ERR,
	  .receive = IBV_WC_LOC_LEN_ERR,
	  .rxe_responder = IBV_WC_REM_OP_ERR,
	  .rxe_receive = IBV_WC_LOC_QP_OP_ERR },
	{ .name = "receive_with_bad_key/send",
	  .fault = RECEIVE_WITH_BAD_KEY,
	  .opcode = IBV_WR_SEND,
	  .status = IBV_WC_REM_OP_ERR,
	  .receive = IBV_WC_LOC_PROT_ERR,
	  .rxe_receive = IBV_WC_LOC_QP_OP_ERR },
	{ .name = "no_receive/send",
	  .fault = NO_RECEIVE,
	  .opcode = IBV_WR_SEND,
	  .status = IBV_WC_RNR_RETRY_EXC_ERR },
	{ .name = "no_receive/write_imm",
	  .fault = NO_RECEIVE,
	  .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
	  .status = IBV_WC_RNR_RETRY_EXC_ERR },
	{ .name = "peer_gone/send",
	  .fault = PEER_GONE,
	  .opcode = IBV_WR_SEND,
	  .status = IBV_WC_RETRY_EXC_ERR },
	{ .name = "peer_gone/write",
	  .fault = PEER_GONE,
	  .opcode = IBV_WR_RDMA_WRITE,
	  .status = IBV_WC_RETRY_EXC_ERR },
	{ .name = "peer_gone/read",
	  .fault = PEER_GONE,
	  .opcode = IBV_WR_RDMA_READ,
	  .status = IBV_WC_RETRY_EXC_ERR },
	{ .name = "local_key/send",
	  .fault = LOCAL_KEY,
	  .opcode = IBV_WR_SEND,
	  .status = IBV_WC_LOC_PROT_ERR,
	  .rxe_requester = IBV_WC_LOC_QP_OP_ERR },
	{ .name = "local_key/write",
	  .fault = LOCAL_KEY,
	  .opcode = IBV_WR_RDMA_WRITE,
	  .status = IBV_WC_LOC_PROT_ERR,
	  .rxe_requester = IBV_WC_LOC_QP_OP_ERR },
};

/* What the requester must see, of these two devices. */
static enum ibv_wc_status status_for(const struct side *side, const struct failure *failure)
{
	const struct card *requester = side->requests ? &side->ours : &side->theirs;
	const struct card *responder = side->requests ? &side->theirs : &side->ours;

	if (requester->is_rxe && failure->rxe_requester != IBV_WC_SUCCESS)
		return failure->rxe_requester;
	if (responder->is_rxe && failure->rxe_responder != IBV_WC_SUCCESS)
		return failure->rxe_responder;
	return failure->status;
}

static enum ibv_wc_status receive_for(const struct side *side, const struct failure *failure)
{
	bool deviates = side->ours.is_rxe && failure->rxe_receive != IBV_WC_SUCCESS;

	return deviates ? failure->rxe_receive : failure->receive;
}

static bool is_atomic(const struct failure *failure)
{
	return failure->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
	       failure->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

/* ---- The responder ---- */

static void lay_out_receive(const struct failure *failure, struct layout *layout)
{
	layout_cut(layout, OFFSET, failure->fault == SHORT_RECEIVE ? LENGTH - 1 : LENGTH, 1);
}

static void prepare(struct side *side, const struct failure *failure)
{
	uint32_t lkey =
		failure->fault == RECEIVE_WITH_BAD_KEY ? side->other_mr->lkey : side->mr->lkey;
	struct ibv_sge sges[LAYOUT_MAX];
	struct layout layout;

	lay_out_receive(failure, &layout);
	layout_clear(&layout, side_target(side));
	if (failure->receive != IBV_WC_SUCCESS)
		work_post_recv(side, side->seed, sges,
			       work_sges(&layout, side_target(side), lkey, sges));
}

/* Nothing was written, and the receive and the queue pair have ended if they must. */
static void check_responder(struct side *side, const struct failure *failure)
{
	enum ibv_qp_state wanted = failure->receive == IBV_WC_SUCCESS ? IBV_QPS_RTS : IBV_QPS_ERR;
	struct layout layout;

	lay_out_receive(failure, &layout);
	work_check(side, "target", &layout, side_target(side), 0, 0);
	if (failure->receive != IBV_WC_SUCCESS)
		work_expect(side, side->recv_cq,
			    &(struct expected){ .wr_id = side->seed,
						.status = receive_for(side, failure) });
	if (failure->fault != PEER_GONE && side_state(side) != wanted)
		cell_fail(side, "queue pair's state is %d", side_state(side));
}

/* ---- The requester ---- */

static uint32_t rkey_for(const struct side *side, enum fault fault)
{
	if (fault == UNKNOWN_KEY)
		return side->theirs.rkey ^ 0x00f00000;
	if (fault == NO_REMOTE_ACCESS)
		return side->theirs.local_rkey;
	return fault == OTHER_PD ? side->theirs.other_rkey : side->theirs.rkey;
}

static uint64_t address_for(const struct side *side, const struct failure *failure)
{
	uint64_t memory = side->theirs.memory;

	if (failure->fault == BEFORE_REGION)
		return memory - sizeof(uint64_t);
	/* An atomic lies behind it, another operation only with its last bytes. */
	if (failure->fault == BEHIND_REGION)
		return memory + 2 * REGION_SIZE - (is_atomic(failure) ? 0 : sizeof(uint64_t));
	return memory + REGION_SIZE + OFFSET + (failure->fault == UNALIGNED ? 4 : 0);
}

static void describe_remote(const struct side *side, const struct failure *failure,
			    struct ibv_send_wr *wr)
{
	if (is_atomic(failure)) {
		wr->wr.atomic.remote_addr = address_for(side, failure);
		wr->wr.atomic.rkey = rkey_for(side, failure->fault);
		wr->wr.atomic.compare_add = 1;
	} else {
		wr->wr.rdma.remote_addr = address_for(side, failure);
		wr->wr.rdma.rkey = rkey_for(side, failure->fault);
	}
}

static int post(struct side *side, const struct failure *failure)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)side_source(side),
		.length = is_atomic(failure) ? (uint32_t)sizeof(uint64_t) : LENGTH,
		.lkey = failure->fault == LOCAL_KEY ? side->other_mr->lkey : side->mr->lkey,
	};
	struct ibv_send_wr wr = { .wr_id = side->seed,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = failure->opcode,
				  .send_flags = IBV_SEND_SIGNALED };
	struct ibv_send_wr *bad;

	describe_remote(side, failure, &wr);
	return ibv_post_send(side->qp, &wr, &bad);
}

/* What is posted behind it ends, too. */
static void post_next(struct side *side)
{
	struct ibv_send_wr wr = { .wr_id = side->seed + 1, .opcode = IBV_WR_SEND };

	work_post_send(side, &wr);
}

static void request(struct side *side, const struct failure *failure)
{
	int error = post(side, failure);

	if (error) {
		cell_call_failed(side, "ibv_post_send", error);
		return;
	}
	post_next(side);
	work_expect(side, side->send_cq,
		    &(struct expected){ .wr_id = side->seed, .status = status_for(side, failure) });
	work_expect(side, side->send_cq,
		    &(struct expected){ .wr_id = side->seed + 1, .status = IBV_WC_WR_FLUSH_ERR });
	if (side_state(side) != IBV_QPS_ERR)
		cell_fail(side, "queue pair's state is %d", side_state(side));
}

/* ---- Both ---- */

static void run_failure(struct side *side, const struct failure *failure)
{
	bool is_gone = failure->fault == PEER_GONE && !side->requests;

	if (!side->requests)
		prepare(side, failure);
	if (is_gone)
		side_disconnect(side);
	if (!cell_meet(side))
		return;
	if (side->requests)
		request(side, failure);
	if (cell_meet(side) && !side->requests)
		check_responder(side, failure);
}

/* rxe as the requester knows better: the peer never hears of it. */
static void run_refusal(struct side *side, const struct failure *failure)
{
	if (side->requests && post(side, failure) == 0)
		cell_fail(side, "rxe does not refuse it any more");
	cell_meet(side);
}

static bool is_refused(const struct side *side, const struct failure *failure)
{
	return failure->rxe_refuses && (side->requests ? side->ours : side->theirs).is_rxe;
}

static void change_for(const struct failure *failure, struct options *options)
{
	options->rnr_retry = 0;
	if (failure->fault == QP_WITHOUT_ACCESS)
		options->access = 0;
	if (failure->fault == NO_RESOURCES)
		options->max_dest_rd_atomic = 0;
	if (failure->fault == PEER_GONE) {
		options->timeout = 10; /* 4 ms */
		options->retry_cnt = 2;
	}
}

static void run_cell(struct side *side, struct options options, const struct failure *failure)
{
	change_for(failure, &options);
	cell_begin(side, "rc/%u/%s/%s", mtu_bytes(options.mtu), family_name(options.family),
		   failure->name);
	if (side_connect(side, &options)) {
		if (is_refused(side, failure))
			run_refusal(side, failure);
		else
			run_failure(side, failure);
	}
	cell_end(side);
	side_disconnect(side);
}

/* ---- A receiver that is late, which is no failure ---- */

static void receive_late(struct side *side)
{
	const struct timespec late = { .tv_nsec = RECEIVER_LATE_NS };

	nanosleep(&late, NULL);
	work_post_recv(side, side->seed, NULL, 0);
	work_expect(side, side->recv_cq,
		    &(struct expected){
			    .wr_id = side->seed, .opcode = IBV_WC_RECV, .is_receive = true });
}

static void run_late(struct side *side)
{
	struct ibv_send_wr wr = { .wr_id = side->seed, .opcode = IBV_WR_SEND };

	if (side->requests)
		work_post_send(side, &wr);
	if (!cell_meet(side))
		return;
	if (side->requests)
		work_expect(side, side->send_cq,
			    &(struct expected){ .wr_id = side->seed, .opcode = IBV_WC_SEND });
	else
		receive_late(side);
	cell_meet(side);
}

void run_failures(struct side *side, enum family family, enum ibv_mtu mtu)
{
	const struct options options = options_for(side, IBV_QPT_RC, family, mtu);

	side_disconnect(side);
	for (size_t i = 0; i < COUNT(failures); i++)
		run_cell(side, options, &failures[i]);
	cell_begin(side, "rc/%u/%s/receiver_late", mtu_bytes(mtu), family_name(family));
	if (side_connect(side, &options))
		run_late(side);
	cell_end(side);
	side_disconnect(side);
}
