#include <errno.h>

#include "control.h"
#include "groups.h"
#include "work.h"

#define OFFSET 4096
#define SIZE   4096
#define LENGTH 100

/* rxe's completions have the kernel's number for it. */
#define RXE_WITH_INV (1 << 2)

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* What happens to a window before it is used for the second time. */
enum action { NOTHING, SEND_WITH_INVALIDATE, LOCAL_INVALIDATE, UNBIND };

struct window {
	const char *name;
	enum ibv_mw_type type;
	enum action action;
	uint32_t send_length;            /* of the send with invalidate */
	uint64_t offset;                 /* of the second write */
	enum ibv_wc_status second_write; /* how it ends */
	bool rxe_permits; /* the second write: it looks at the region's bounds, not the window's */
};

static const struct window windows[] = {
	{ "type1/write", IBV_MW_TYPE_1, NOTHING, 0, OFFSET, IBV_WC_SUCCESS, false },
	{ "type1/outside", IBV_MW_TYPE_1, NOTHING, 0, OFFSET - 1, IBV_WC_REM_ACCESS_ERR, true },
	{ "type1/unbound", IBV_MW_TYPE_1, UNBIND, 0, OFFSET, IBV_WC_REM_ACCESS_ERR, false },
	{ "type2/write", IBV_MW_TYPE_2, NOTHING, 0, OFFSET, IBV_WC_SUCCESS, false },
	{ "type2/outside", IBV_MW_TYPE_2, NOTHING, 0, OFFSET + SIZE - LENGTH + 1,
	  IBV_WC_REM_ACCESS_ERR, true },
	{ "type2/local_invalidate", IBV_MW_TYPE_2, LOCAL_INVALIDATE, 0, OFFSET,
	  IBV_WC_REM_ACCESS_ERR, false },
	{ "type2/send_inv/0", IBV_MW_TYPE_2, SEND_WITH_INVALIDATE, 0, OFFSET, IBV_WC_REM_ACCESS_ERR,
	  false },
	{ "type2/send_inv/1", IBV_MW_TYPE_2, SEND_WITH_INVALIDATE, 1, OFFSET, IBV_WC_REM_ACCESS_ERR,
	  false },
	{ "type2/send_inv/many", IBV_MW_TYPE_2, SEND_WITH_INVALIDATE, 100003, OFFSET,
	  IBV_WC_REM_ACCESS_ERR, false },
};

/* ---- The responder's window ---- */

static struct ibv_mw_bind_info part_of_memory(const struct side *side, uint64_t length)
{
	return (struct ibv_mw_bind_info){
		.mr = side->mr,
		.addr = (uintptr_t)side_target(side) + OFFSET,
		.length = length,
		.mw_access_flags = IBV_ACCESS_REMOTE_WRITE,
	};
}

static void expect_bound(struct side *side)
{
	if (!side->failure[0] && !side->refusal[0])
		work_expect(side, side->send_cq,
			    &(struct expected){ .wr_id = side->seed, .opcode = IBV_WC_BIND_MW });
}

/* length 0: unbinds. */
static void bind_type_1(struct side *side, struct ibv_mw *mw, uint64_t length)
{
	struct ibv_mw_bind bind = {
		.wr_id = side->seed,
		.send_flags = IBV_SEND_SIGNALED,
		.bind_info = part_of_memory(side, length),
	};
	int error = ibv_bind_mw(side->qp, mw, &bind);

	if (error)
		cell_call_failed(side, "ibv_bind_mw", error);
	expect_bound(side);
}

static void bind_type_2(struct side *side, struct ibv_mw *mw)
{
	struct ibv_send_wr wr = {
		.wr_id = side->seed,
		.opcode = IBV_WR_BIND_MW,
		.bind_mw = { .mw = mw,
			     .rkey = ibv_inc_rkey(mw->rkey),
			     .bind_info = part_of_memory(side, SIZE) },
	};

	work_post_send(side, &wr);
	expect_bound(side);
	mw->rkey = wr.bind_mw.rkey;
}

static struct ibv_mw *open_window(struct side *side, const struct window *window)
{
	struct ibv_mw *mw = ibv_alloc_mw(side->pd, window->type);

	if (!mw) {
		cell_call_failed(side, "ibv_alloc_mw", errno);
		return NULL;
	}
	if (window->type == IBV_MW_TYPE_1)
		bind_type_1(side, mw, SIZE);
	else
		bind_type_2(side, mw);
	return mw;
}

static void invalidate_locally(struct side *side, uint32_t rkey)
{
	struct ibv_send_wr wr = { .wr_id = side->seed,
				  .opcode = IBV_WR_LOCAL_INV,
				  .invalidate_rkey = rkey };

	work_post_send(side, &wr);
	if (!side->failure[0])
		work_expect(side, side->send_cq,
			    &(struct expected){ .wr_id = side->seed, .opcode = IBV_WC_LOCAL_INV });
}

/* ---- Writes through it ---- */

static void request_write(struct side *side, uint32_t rkey, uint64_t offset,
			  enum ibv_wc_status status)
{
	struct ibv_sge sges[LAYOUT_MAX];
	struct layout layout;
	struct ibv_send_wr wr = {
		.wr_id = side->seed,
		.sg_list = sges,
		.opcode = IBV_WR_RDMA_WRITE,
		.wr.rdma = { .remote_addr = side->theirs.memory + REGION_SIZE + offset,
			     .rkey = rkey },
	};

	layout_cut(&layout, OFFSET, LENGTH, 1);
	layout_put(&layout, side_source(side), LENGTH, side->seed);
	wr.num_sge = work_sges(&layout, side_source(side), side->mr->lkey, sges);
	work_post_send(side, &wr);
	work_expect(side, side->send_cq,
		    &(struct expected){
			    .wr_id = side->seed, .status = status, .opcode = IBV_WC_RDMA_WRITE });
}

/* Both sides write once, and see whether it came; the target is cleared before. */
static bool run_write(struct side *side, uint32_t rkey, uint64_t offset, enum ibv_wc_status status)
{
	struct layout layout;

	layout_cut(&layout, offset, LENGTH, 1);
	if (!side->requests)
		layout_clear(&layout, side_target(side));
	if (!cell_meet(side))
		return false;
	if (side->requests)
		request_write(side, rkey, offset, status);
	if (!cell_meet(side))
		return false;
	if (!side->requests)
		work_check(side, "target", &layout, side_target(side),
			   status == IBV_WC_SUCCESS ? LENGTH : 0, side->seed);
	return true;
}

/* ---- What takes it back ---- */

static void lay_out_send(const struct window *window, struct layout *layout)
{
	layout_cut(layout, 2 * OFFSET + SIZE, window->send_length, 1);
}

static void send_with_invalidate(struct side *side, const struct window *window, uint32_t rkey)
{
	struct ibv_sge sges[LAYOUT_MAX];
	struct layout layout;
	struct ibv_send_wr wr = { .wr_id = side->seed,
				  .sg_list = sges,
				  .opcode = IBV_WR_SEND_WITH_INV,
				  .invalidate_rkey = rkey };

	lay_out_send(window, &layout);
	layout_put(&layout, side_source(side), window->send_length, side->seed);
	wr.num_sge = work_sges(&layout, side_source(side), side->mr->lkey, sges);
	work_post_send(side, &wr);
	if (!side->failure[0])
		work_expect(side, side->send_cq,
			    &(struct expected){ .wr_id = side->seed, .opcode = IBV_WC_SEND });
}

static void receive_invalidation(struct side *side, const struct window *window, uint32_t rkey)
{
	unsigned with_inv = side->ours.is_rxe ? RXE_WITH_INV : IBV_WC_WITH_INV;
	struct layout layout;
	struct ibv_wc wc;

	lay_out_send(window, &layout);
	if (!work_wait(side, side->recv_cq, &wc))
		return;
	if (wc.status != IBV_WC_SUCCESS || wc.opcode != IBV_WC_RECV ||
	    wc.byte_len != window->send_length)
		cell_fail(side, "receive: status %d, opcode %d, %u bytes", wc.status, wc.opcode,
			  wc.byte_len);
	if (!(wc.wc_flags & with_inv) || wc.invalidated_rkey != rkey)
		cell_fail(side, "receive: flags %#x, key %#x, not %#x", wc.wc_flags,
			  wc.invalidated_rkey, rkey);
	work_check(side, "message", &layout, side_target(side), window->send_length, side->seed);
}

static void run_send_with_invalidate(struct side *side, const struct window *window, uint32_t rkey)
{
	struct ibv_sge sges[LAYOUT_MAX];
	struct layout layout;

	lay_out_send(window, &layout);
	layout_clear(&layout, side_target(side));
	if (!side->requests)
		work_post_recv(side, side->seed, sges,
			       work_sges(&layout, side_target(side), side->mr->lkey, sges));
	if (!cell_meet(side))
		return;
	if (side->requests)
		send_with_invalidate(side, window, rkey);
	else
		receive_invalidation(side, window, rkey);
}

static void act(struct side *side, const struct window *window, struct ibv_mw *mw, uint32_t rkey)
{
	if (window->action == SEND_WITH_INVALIDATE)
		run_send_with_invalidate(side, window, rkey);
	else if (window->action == LOCAL_INVALIDATE && mw)
		invalidate_locally(side, rkey);
	else if (window->action == UNBIND && mw)
		bind_type_1(side, mw, 0);
}

/* ---- A cell ---- */

static enum ibv_wc_status second_write(const struct side *side, const struct window *window)
{
	const struct card *responder = side->requests ? &side->theirs : &side->ours;

	return responder->is_rxe && window->rxe_permits ? IBV_WC_SUCCESS : window->second_write;
}

static void use(struct side *side, const struct window *window, struct ibv_mw *mw)
{
	uint32_t ours = mw ? mw->rkey : 0, theirs, rkey;

	control_exchange(side->control, &ours, &theirs, sizeof(ours));
	rkey = side->requests ? theirs : ours;
	if (!run_write(side, rkey, OFFSET, IBV_WC_SUCCESS))
		return;
	act(side, window, mw, rkey);
	run_write(side, rkey, window->offset, second_write(side, window));
}

static void run_window(struct side *side, const struct window *window)
{
	struct ibv_mw *mw = side->requests ? NULL : open_window(side, window);

	if (cell_meet(side))
		use(side, window, mw);
	if (mw && ibv_dealloc_mw(mw) != 0)
		cell_fail(side, "ibv_dealloc_mw");
}

void run_windows(struct side *side, enum family family, enum ibv_mtu mtu)
{
	struct options options = options_for(side, IBV_QPT_RC, family, mtu);

	options.access |= IBV_ACCESS_MW_BIND;
	side_disconnect(side);
	for (size_t i = 0; i < COUNT(windows); i++) {
		cell_begin(side, "mw/%u/%s/%s", mtu_bytes(mtu), family_name(family),
			   windows[i].name);
		if (side_connect(side, &options))
			run_window(side, &windows[i]);
		cell_end(side);
		side_disconnect(side);
	}
}
