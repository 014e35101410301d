#include <errno.h>
#include <string.h>

#include "groups.h"
#include "operation.h"
#include "work.h"

#define GRH_SIZE    40
#define IPV4_OFFSET 20 /* in it */
#define UDP         17

#define LOCAL_OFFSET 21
#define SLACK        16

/* Where the header of what is received goes: behind all messages. */
static uint8_t *header_of(const struct side *side)
{
	return side_target(side) + REGION_SIZE - GRH_SIZE;
}

static void post_receive(struct side *side, const struct layout *layout)
{
	struct ibv_sge sges[1 + LAYOUT_MAX] = {
		{ (uintptr_t)header_of(side), GRH_SIZE, side->mr->lkey },
	};

	layout_clear(layout, side_target(side));
	work_post_recv(side, side->seed, sges,
		       1 + work_sges(layout, side_target(side), side->mr->lkey, sges + 1));
}

static bool is_ipv4_header_right(const struct side *side, const uint8_t *header)
{
	const uint8_t *ip = header + IPV4_OFFSET;

	return ip[0] == 0x45 && ip[9] == UDP &&
	       memcmp(ip + 12, side->theirs.gid.raw + 12, 4) == 0 &&
	       memcmp(ip + 16, side->ours.gid.raw + 12, 4) == 0;
}

static bool is_ipv6_header_right(const struct side *side, const uint8_t *header)
{
	return header[0] >> 4 == 6 && header[6] == UDP &&
	       memcmp(header + 8, side->theirs.gid.raw, 16) == 0 &&
	       memcmp(header + 24, side->ours.gid.raw, 16) == 0;
}

static void check_origin(struct side *side, const struct ibv_wc *wc)
{
	bool is_right = side->options.family == IPV4 ? is_ipv4_header_right(side, header_of(side))
						     : is_ipv6_header_right(side, header_of(side));

	if (!(wc->wc_flags & IBV_WC_GRH))
		cell_fail(side, "flags %#x: no GRH", wc->wc_flags);
	if (!is_right)
		cell_fail(side, "GRH is not right");
	if (wc->src_qp != side->theirs.qpn)
		cell_fail(side, "from queue pair %#x, not %#x", wc->src_qp, side->theirs.qpn);
}

struct datagram {
	const struct operation *operation;
	uint32_t length;
	unsigned pieces;
	bool is_inline;
};

static void compare_receive(struct side *side, const struct datagram *datagram,
			    const struct ibv_wc *wc)
{
	bool has_imm = wc->wc_flags & IBV_WC_WITH_IMM;

	if (wc->status != IBV_WC_SUCCESS || wc->opcode != IBV_WC_RECV || wc->wr_id != side->seed)
		cell_fail(side, "status %d, opcode %d, id %lu", wc->status, wc->opcode,
			  (unsigned long)wc->wr_id);
	if (wc->byte_len != GRH_SIZE + datagram->length)
		cell_fail(side, "received %u bytes, not 40 + %u", wc->byte_len, datagram->length);
	if (has_imm != datagram->operation->has_imm || (has_imm && wc->imm_data != work_imm(side)))
		cell_fail(side, "flags %#x, immediate value %#x", wc->wc_flags, wc->imm_data);
}

static void receive(struct side *side, const struct datagram *datagram, const struct layout *layout,
		    struct ibv_wc *wc)
{
	if (!work_wait(side, side->recv_cq, wc))
		return;
	compare_receive(side, datagram, wc);
	check_origin(side, wc);
	work_check(side, "target", layout, side_target(side), datagram->length, side->seed);
}

static void send_to(struct side *side, const struct datagram *datagram, struct ibv_ah *ah,
		    uint32_t qkey)
{
	struct ibv_sge sges[LAYOUT_MAX];
	struct layout layout;
	struct ibv_send_wr wr = {
		.wr_id = side->seed,
		.sg_list = sges,
		.opcode = datagram->operation->opcode,
		.imm_data = work_imm(side),
		.wr.ud = { .ah = ah, .remote_qpn = side->theirs.qpn, .remote_qkey = qkey },
	};

	layout_cut(&layout, LOCAL_OFFSET, datagram->length, datagram->pieces);
	layout_put(&layout, side_source(side), datagram->length, side->seed);
	if (datagram->is_inline)
		wr.send_flags |= IBV_SEND_INLINE;
	wr.num_sge = work_sges(&layout, side_source(side), datagram->is_inline ? 0 : side->mr->lkey,
			       sges);
	work_post_send(side, &wr);
	if (!side->failure[0])
		work_expect(side, side->send_cq,
			    &(struct expected){ .wr_id = side->seed, .opcode = IBV_WC_SEND });
}

static void run_datagram(struct side *side, const struct datagram *datagram)
{
	struct layout layout;
	struct ibv_wc wc;

	layout_cut(&layout, LOCAL_OFFSET, datagram->length + SLACK, datagram->pieces);
	if (!side->requests)
		post_receive(side, &layout);
	if (!cell_meet(side))
		return;
	if (side->requests)
		send_to(side, datagram, side->ah, QKEY);
	else
		receive(side, datagram, &layout, &wc);
	cell_meet(side);
}

static void run_cell(struct side *side, const struct options *options,
		     const struct datagram *datagram, const char *suffix)
{
	cell_begin(side, "ud/%s/%s/%u%s", family_name(options->family), datagram->operation->name,
		   datagram->length, suffix);
	if (side_connect(side, options))
		run_datagram(side, datagram);
	cell_end(side);
}

/* ---- An answer to who has sent ---- */

static const struct datagram answered = { &operations[0], 100, 1, false };

static void answer(struct side *side, struct ibv_wc *wc)
{
	struct ibv_grh *grh = (struct ibv_grh *)header_of(side);
	struct ibv_ah *ah = ibv_create_ah_from_wc(side->pd, wc, grh, 1);

	if (!ah) {
		cell_call_failed(side, "ibv_create_ah_from_wc", errno);
		return;
	}
	send_to(side, &answered, ah, QKEY);
	ibv_destroy_ah(ah);
}

static void run_answer(struct side *side)
{
	struct layout layout;
	struct ibv_wc wc = { 0 };

	layout_cut(&layout, LOCAL_OFFSET, answered.length + SLACK, 1);
	post_receive(side, &layout);
	if (!cell_meet(side))
		return;
	if (side->requests)
		send_to(side, &answered, side->ah, QKEY);
	receive(side, &answered, &layout, &wc);
	if (!side->requests && !side->failure[0])
		answer(side, &wc);
	cell_meet(side);
}

/* ---- All of them ---- */

static uint32_t largest(const struct side *side)
{
	uint8_t mtu = side->ours.mtu < side->theirs.mtu ? side->ours.mtu : side->theirs.mtu;

	return mtu_bytes(mtu);
}

static void run_operation(struct side *side, const struct options *options,
			  const struct operation *operation)
{
	uint32_t mtu = largest(side);

	run_cell(side, options, &(struct datagram){ operation, 0, 1, false }, "");
	run_cell(side, options, &(struct datagram){ operation, 1, 1, false }, "");
	run_cell(side, options, &(struct datagram){ operation, mtu - 1, 1, false }, "");
	run_cell(side, options, &(struct datagram){ operation, mtu, 1, false }, "");
	run_cell(side, options, &(struct datagram){ operation, 1000, 7, false }, "/sge7");
	run_cell(side, options, &(struct datagram){ operation, MAX_INLINE, 1, true }, "/inline");
	run_cell(side, options, &(struct datagram){ operation, 29, 3, true }, "/inline_sge3");
}

static void run_all(struct side *side, const struct options *options)
{
	for (size_t i = 0; i < operation_count; i++)
		if (operations[i].is_send)
			run_operation(side, options, &operations[i]);
	cell_begin(side, "ud/%s/answer", family_name(options->family));
	if (side_connect(side, options))
		run_answer(side);
	cell_end(side);
	side_disconnect(side);
}

void run_datagrams(struct side *side, enum family family)
{
	const struct options options = options_for(side, IBV_QPT_UD, family, IBV_MTU_4096);

	run_all(side, &options);
}

/* ---- One that is dropped ---- */

/* What is sent first does not arrive; what is sent then, does. */
static void run_wrong_qkey(struct side *side)
{
	const struct datagram lost = { &operations[0], 50, 1, false };
	const struct datagram next = { &operations[1], 70, 1, false };
	struct layout layout;
	struct ibv_wc wc;

	layout_cut(&layout, LOCAL_OFFSET, next.length + SLACK, 1);
	if (!side->requests)
		post_receive(side, &layout);
	if (!cell_meet(side))
		return;
	if (side->requests) {
		send_to(side, &lost, side->ah, QKEY + 1);
		send_to(side, &next, side->ah, QKEY);
	} else {
		receive(side, &next, &layout, &wc);
	}
	cell_meet(side);
}

void run_dropped(struct side *side, enum family family)
{
	const struct options options = options_for(side, IBV_QPT_UD, family, IBV_MTU_4096);

	cell_begin(side, "ud/%s/wrong_qkey", family_name(family));
	if (side_connect(side, &options))
		run_wrong_qkey(side);
	cell_end(side);
	side_disconnect(side);
}
