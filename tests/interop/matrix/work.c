#include "work.h"

#include <endian.h>
#include <errno.h>
#include <time.h>

/* How long a completion may take on an emulated machine whose packets get lost. */
#define PATIENCE_NS (INT64_C(30) * 1000 * 1000 * 1000)
#define POLL_SLEEP  50000 /* ns */
#define POLLS       200   /* without a sleep */

int work_sges(const struct layout *layout, const uint8_t *region, uint32_t lkey,
	      struct ibv_sge *sges)
{
	bool is_empty = layout->count == 1 && layout->pieces[0].length == 0;

	for (unsigned i = 0; i < layout->count; i++)
		sges[i] = (struct ibv_sge){
			.addr = (uintptr_t)region + layout->pieces[i].offset,
			.length = layout->pieces[i].length,
			.lkey = lkey,
		};
	return is_empty ? 0 : (int)layout->count;
}

void work_post_recv(struct side *side, uint64_t wr_id, struct ibv_sge *sges, int count)
{
	struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = sges, .num_sge = count }, *bad;
	int error = side->options.has_srq ? ibv_post_srq_recv(side->srq, &wr, &bad)
					  : ibv_post_recv(side->qp, &wr, &bad);

	if (error)
		cell_call_failed(side, "ibv_post_recv", error);
}

void work_post_send(struct side *side, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;
	int error;

	wr->send_flags |= IBV_SEND_SIGNALED;
	error = ibv_post_send(side->qp, wr, &bad);
	if (error)
		cell_call_failed(side, "ibv_post_send", error);
}

static int64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

bool work_wait(struct side *side, struct ibv_cq *cq, struct ibv_wc *wc)
{
	const struct timespec sleep = { .tv_nsec = POLL_SLEEP };
	int64_t end = now() + PATIENCE_NS;

	for (unsigned polls = 0; now() < end; polls++) {
		int count = ibv_poll_cq(cq, 1, wc);

		if (count == 1)
			return true;
		if (count < 0)
			break;
		if (polls >= POLLS)
			nanosleep(&sleep, NULL);
	}
	cell_fail(side, "no %s completion came", cq == side->send_cq ? "send" : "receive");
	return false;
}

static void compare_receive(struct side *side, const struct ibv_wc *wc,
			    const struct expected *expected)
{
	unsigned imm_flag = expected->has_imm ? IBV_WC_WITH_IMM : 0;

	if (wc->byte_len != expected->length)
		cell_fail(side, "received %u bytes, not %u", wc->byte_len, expected->length);
	if ((wc->wc_flags & (IBV_WC_WITH_IMM | IBV_WC_WITH_INV)) != imm_flag)
		cell_fail(side, "receive's flags are %#x", wc->wc_flags);
	if (expected->has_imm && wc->imm_data != expected->imm)
		cell_fail(side, "immediate value %#x, not %#x", be32toh(wc->imm_data),
			  be32toh(expected->imm));
}

void work_expect(struct side *side, struct ibv_cq *cq, const struct expected *expected)
{
	const char *which = cq == side->send_cq ? "send" : "receive";
	struct ibv_wc wc;

	if (!work_wait(side, cq, &wc))
		return;
	if (wc.status != expected->status)
		cell_fail(side, "%s completion's status is \"%s\", not \"%s\"", which,
			  ibv_wc_status_str(wc.status), ibv_wc_status_str(expected->status));
	if (wc.wr_id != expected->wr_id)
		cell_fail(side, "%s completion's id is %lu, not %lu", which,
			  (unsigned long)wc.wr_id, (unsigned long)expected->wr_id);
	if (wc.qp_num != side->qp->qp_num)
		cell_fail(side, "%s completion of queue pair %#x", which, wc.qp_num);
	if (expected->status != IBV_WC_SUCCESS)
		return;
	if (wc.opcode != expected->opcode)
		cell_fail(side, "%s completion's opcode is %d, not %d", which, wc.opcode,
			  expected->opcode);
	if (expected->is_receive)
		compare_receive(side, &wc, expected);
}

void work_check(struct side *side, const char *what, const struct layout *layout,
		const uint8_t *region, uint32_t length, unsigned seed)
{
	size_t wrong;

	if (!layout_check(layout, region, length, seed, &wrong))
		cell_fail(side, "%s: byte %zu is %#x, message of %u from %zu", what, wrong,
			  region[wrong], length, layout->pieces[0].offset);
}

__be32 work_imm(const struct side *side)
{
	return htobe32(0xcafe0000 + side->seed);
}
