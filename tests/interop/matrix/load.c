#include "groups.h"
#include "operation.h"
#include "work.h"

/* How many are outstanding: of all operations, in turn. */
#define OUTSTANDING 64
#define SLOT_SIZE   8192
#define LENGTH      5003

static const struct operation *operation_of(unsigned slot)
{
	return &operations[slot % operation_count];
}

static bool is_read(unsigned slot)
{
	return operation_of(slot)->opcode == IBV_WR_RDMA_READ;
}

static void lay_out(unsigned slot, struct layout *layout)
{
	layout_cut(layout, slot * SLOT_SIZE + LAYOUT_GAP, LENGTH, 1);
}

static unsigned seed_of(const struct side *side, unsigned slot)
{
	return side->seed * OUTSTANDING + slot;
}

static void post_receive(struct side *side, unsigned slot, const struct layout *layout)
{
	struct ibv_sge sges[LAYOUT_MAX];

	if (operation_of(slot)->takes_receive)
		work_post_recv(side, slot, sges,
			       work_sges(layout, side_target(side), side->mr->lkey, sges));
}

/* A layout is looked at from the region's begin, so the slots are cleared together. */
static void prepare(struct side *side, bool receives)
{
	struct layout layout;

	lay_out(OUTSTANDING - 1, &layout);
	layout_clear(&layout, side_target(side));
	for (unsigned slot = 0; slot < OUTSTANDING; slot++) {
		lay_out(slot, &layout);
		layout_put(&layout, side_source(side), LENGTH, seed_of(side, slot));
		if (receives)
			post_receive(side, slot, &layout);
	}
}

static void request(struct side *side, unsigned slot)
{
	const struct operation *operation = operation_of(slot);
	uint8_t *region = is_read(slot) ? side_target(side) : side_source(side);
	struct ibv_sge sges[LAYOUT_MAX];
	struct ibv_send_wr wr = { .wr_id = slot,
				  .sg_list = sges,
				  .opcode = operation->opcode,
				  .imm_data = work_imm(side) };
	struct layout layout;

	lay_out(slot, &layout);
	wr.num_sge = work_sges(&layout, region, side->mr->lkey, sges);
	wr.wr.rdma.remote_addr =
		side->theirs.memory + layout.pieces[0].offset + (is_read(slot) ? 0 : REGION_SIZE);
	wr.wr.rdma.rkey = side->theirs.rkey;
	work_post_send(side, &wr);
}

static void request_all(struct side *side)
{
	for (unsigned slot = 0; slot < OUTSTANDING; slot++)
		request(side, slot);
	for (unsigned slot = 0; slot < OUTSTANDING && !side->failure[0]; slot++)
		work_expect(side, side->send_cq,
			    &(struct expected){ .wr_id = slot,
						.opcode = operation_of(slot)->sent });
}

static void receive_all(struct side *side)
{
	for (unsigned slot = 0; slot < OUTSTANDING && !side->failure[0]; slot++) {
		const struct operation *operation = operation_of(slot);

		if (operation->takes_receive)
			work_expect(side, side->recv_cq,
				    &(struct expected){ .wr_id = slot,
							.opcode = operation->received,
							.is_receive = true,
							.length = LENGTH,
							.has_imm = operation->has_imm,
							.imm = work_imm(side) });
	}
}

/* Slots that this side has read, or that the other side has sent or written to. */
static void check(struct side *side, bool requests, bool receives)
{
	for (unsigned slot = 0; slot < OUTSTANDING; slot++) {
		bool is_filled = is_read(slot) ? requests : receives;
		uint8_t *region = side_target(side) + slot * SLOT_SIZE;
		struct layout layout;

		layout_cut(&layout, LAYOUT_GAP, LENGTH, 1);
		work_check(side, operation_of(slot)->name, &layout, region, is_filled ? LENGTH : 0,
			   seed_of(side, slot));
	}
}

static void run_at_once(struct side *side, bool requests, bool receives)
{
	prepare(side, receives);
	if (!cell_meet(side))
		return;
	if (requests)
		request_all(side);
	if (receives)
		receive_all(side);
	if (cell_meet(side))
		check(side, requests, receives);
}

static void run_cell(struct side *side, const struct options *options, const char *name,
		     bool requests, bool receives)
{
	cell_begin(side, "rc/%u/%s/%s", mtu_bytes(options->mtu), family_name(options->family),
		   name);
	if (side_connect(side, options))
		run_at_once(side, requests, receives);
	cell_end(side);
}

void run_load(struct side *side, enum family family, enum ibv_mtu mtu)
{
	const struct options options = options_for(side, IBV_QPT_RC, family, mtu);

	run_cell(side, &options, "outstanding", side->requests, !side->requests);
	run_cell(side, &options, "both_ways", true, true);
	side_disconnect(side);
}
