#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "groups.h"
#include "operation.h"
#include "work.h"

/* Odd, so that neither side's memory is aligned. */
#define LOCAL_OFFSET  21
#define REMOTE_OFFSET 37

/* Room in a receive behind its message. */
#define SLACK 16

/* More packets than an acknowledgement, a window or a batch spans. */
#define MANY_PACKETS 100003

#define LAST_PSN 0xffffff

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

struct transfer {
	const struct operation *operation;
	uint32_t length;
	unsigned pieces;
	bool is_inline;
};

/* ---- One transfer ---- */

static bool is_read(const struct transfer *transfer)
{
	return transfer->operation->opcode == IBV_WR_RDMA_READ;
}

/* Where this side's bytes lie: those that come from here, or go to here. */
static void lay_out(const struct side *side, const struct transfer *transfer, struct layout *layout)
{
	const struct operation *operation = transfer->operation;

	if (side->requests)
		layout_cut(layout, LOCAL_OFFSET, transfer->length, transfer->pieces);
	else if (operation->is_send)
		layout_cut(layout, LOCAL_OFFSET, transfer->length + SLACK, transfer->pieces);
	else
		layout_cut(layout, REMOTE_OFFSET, transfer->length, 1);
}

static bool has_source(const struct side *side, const struct transfer *transfer)
{
	return side->requests != is_read(transfer);
}

static uint8_t *region_of(const struct side *side, const struct transfer *transfer)
{
	return has_source(side, transfer) ? side_source(side) : side_target(side);
}

/*
 * A write of an unreliable connection is done when it was sent. Behind it comes an empty one with an
 * immediate value, which says that it is there.
 */
static bool has_sequel(const struct side *side, const struct transfer *transfer)
{
	return side->options.type == IBV_QPT_UC && !transfer->operation->takes_receive;
}

static void request_sequel(struct side *side)
{
	struct ibv_send_wr wr = { .wr_id = side->seed, .opcode = IBV_WR_RDMA_WRITE_WITH_IMM };

	work_post_send(side, &wr);
	work_expect(side, side->send_cq,
		    &(struct expected){ .wr_id = side->seed, .opcode = IBV_WC_RDMA_WRITE });
}

static void prepare(struct side *side, const struct transfer *transfer, const struct layout *layout)
{
	struct ibv_sge sges[LAYOUT_MAX];
	uint8_t *region = region_of(side, transfer);

	layout_clear(layout, region);
	if (has_source(side, transfer))
		layout_put(layout, region, transfer->length, side->seed);
	if (side->requests)
		return;
	if (transfer->operation->is_send)
		work_post_recv(side, side->seed, sges,
			       work_sges(layout, region, side->mr->lkey, sges));
	else if (transfer->operation->takes_receive || has_sequel(side, transfer))
		work_post_recv(side, side->seed, NULL, 0);
}

static void request(struct side *side, const struct transfer *transfer, const struct layout *layout)
{
	uint8_t *region = region_of(side, transfer);
	struct ibv_sge sges[LAYOUT_MAX];
	struct ibv_send_wr wr = {
		.wr_id = side->seed,
		.sg_list = sges,
		.opcode = transfer->operation->opcode,
		.imm_data = work_imm(side),
		.wr.rdma = { .remote_addr = side->theirs.memory + REMOTE_OFFSET,
			     .rkey = side->theirs.rkey },
	};

	if (!is_read(transfer))
		wr.wr.rdma.remote_addr += REGION_SIZE;
	if (transfer->is_inline)
		wr.send_flags |= IBV_SEND_INLINE;
	/* Inline data needs no key, and its memory is free at once. */
	wr.num_sge = work_sges(layout, region, transfer->is_inline ? 0 : side->mr->lkey, sges);
	work_post_send(side, &wr);
	if (transfer->is_inline)
		layout_clear(layout, region);
}

static void complete(struct side *side, const struct transfer *transfer)
{
	const struct operation *operation = transfer->operation;

	if (side->requests)
		work_expect(side, side->send_cq,
			    &(struct expected){ .wr_id = side->seed, .opcode = operation->sent });
	else if (operation->takes_receive)
		work_expect(side, side->recv_cq,
			    &(struct expected){ .wr_id = side->seed,
						.opcode = operation->received,
						.is_receive = true,
						.length = transfer->length,
						.has_imm = operation->has_imm,
						.imm = work_imm(side) });
	if (!has_sequel(side, transfer) || side->failure[0])
		return;
	if (side->requests)
		request_sequel(side);
	else
		work_expect(side, side->recv_cq,
			    &(struct expected){ .wr_id = side->seed,
						.opcode = IBV_WC_RECV_RDMA_WITH_IMM,
						.is_receive = true,
						.has_imm = true });
}

static void check(struct side *side, const struct transfer *transfer, const struct layout *layout)
{
	if (!side->requests || !transfer->is_inline)
		work_check(side, has_source(side, transfer) ? "source" : "target", layout,
			   region_of(side, transfer), transfer->length, side->seed);
}

static void run_transfer(struct side *side, const struct transfer *transfer)
{
	struct layout layout;

	lay_out(side, transfer, &layout);
	prepare(side, transfer, &layout);
	if (!cell_meet(side))
		return;
	if (side->requests)
		request(side, transfer, &layout);
	complete(side, transfer);
	if (cell_meet(side))
		check(side, transfer, &layout);
}

static void run_cell(struct side *side, const struct options *options, const char *prefix,
		     const struct transfer *transfer, const char *suffix)
{
	cell_begin(side, "%s/%s/%u%s", prefix, transfer->operation->name, transfer->length, suffix);
	if (side_connect(side, options))
		run_transfer(side, transfer);
	cell_end(side);
}

/* ---- Atomics ---- */

struct atomic {
	const char *name;
	enum ibv_wr_opcode opcode;
	enum ibv_wc_opcode sent;
	uint64_t before, compare_add, swap, after;
};

static const struct atomic atomics[] = {
	{ "cas_equal", IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WC_COMP_SWAP, 0x1122334455667788,
	  0x1122334455667788, 0x99aabbccddeeff01, 0x99aabbccddeeff01 },
	{ "cas_other", IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WC_COMP_SWAP, 0x1122334455667788,
	  0x1122334455667789, 0x99aabbccddeeff01, 0x1122334455667788 },
	{ "fetch_add", IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WC_FETCH_ADD, 0x1122334455667788, 5, 0,
	  0x112233445566778d },
	{ "fetch_add_wrap", IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WC_FETCH_ADD, UINT64_MAX - 1, 5, 0,
	  3 },
};

/* The word, with what must stay as it is before and behind it. */
struct words {
	uint64_t before, word, behind;
};

static const uint64_t around = 0xa5a5a5a5a5a5a5a5;

static void check_words(struct side *side, const char *what, const uint8_t *memory, uint64_t word)
{
	struct words found;

	memcpy(&found, memory, sizeof(found));
	if (found.word != word)
		cell_fail(side, "%s: %#lx, not %#lx", what, (unsigned long)found.word,
			  (unsigned long)word);
	if (found.before != around || found.behind != around)
		cell_fail(side, "%s: what is around it has changed", what);
}

static void request_atomic(struct side *side, const struct atomic *atomic)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)side_target(side) + offsetof(struct words, word),
		.length = sizeof(uint64_t),
		.lkey = side->mr->lkey,
	};
	struct ibv_send_wr wr = {
		.wr_id = side->seed,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = atomic->opcode,
		.wr.atomic = { .remote_addr = side->theirs.memory + REGION_SIZE +
					      offsetof(struct words, word),
			       .compare_add = atomic->compare_add,
			       .swap = atomic->swap,
			       .rkey = side->theirs.rkey },
	};

	work_post_send(side, &wr);
	work_expect(side, side->send_cq,
		    &(struct expected){ .wr_id = side->seed, .opcode = atomic->sent });
}

static void run_atomic(struct side *side, const struct atomic *atomic)
{
	const struct words words = { around, side->requests ? 0 : atomic->before, around };

	memcpy(side_target(side), &words, sizeof(words));
	if (!cell_meet(side))
		return;
	if (side->requests)
		request_atomic(side, atomic);
	if (!cell_meet(side))
		return;
	if (side->requests)
		check_words(side, "result", side_target(side), atomic->before);
	else
		check_words(side, "word", side_target(side), atomic->after);
}

static void run_atomics(struct side *side, const struct options *options, const char *prefix)
{
	for (size_t i = 0; i < COUNT(atomics); i++) {
		cell_begin(side, "%s/%s", prefix, atomics[i].name);
		if (side_connect(side, options))
			run_atomic(side, &atomics[i]);
		cell_end(side);
	}
}

/* ---- What is done with each operation ---- */

static void run_sizes(struct side *side, const struct options *options, const char *prefix,
		      const struct operation *operation)
{
	uint32_t mtu = mtu_bytes(options->mtu);
	const uint32_t lengths[] = { 0, 1, mtu - 1, mtu, mtu + 1, MANY_PACKETS };

	for (size_t i = 0; i < COUNT(lengths); i++)
		run_cell(side, options, prefix,
			 &(struct transfer){ operation, lengths[i], 1, false }, "");
}

static void run_shapes(struct side *side, const struct options *options, const char *prefix,
		       const struct operation *operation)
{
	uint32_t mtu = mtu_bytes(options->mtu);

	run_cell(side, options, prefix, &(struct transfer){ operation, 61, 3, false }, "/sge3");
	run_cell(side, options, prefix, &(struct transfer){ operation, 3 * mtu + 5, 8, false },
		 "/sge8");
	if (operation->opcode == IBV_WR_RDMA_READ)
		return;
	run_cell(side, options, prefix, &(struct transfer){ operation, MAX_INLINE, 1, true },
		 "/inline");
	run_cell(side, options, prefix, &(struct transfer){ operation, 29, 3, true },
		 "/inline_sge3");
}

/* Sequence numbers start again from 0: within a message, and behind one. */
static void run_wrap(struct side *side, struct options options, const char *prefix,
		     const struct operation *operation)
{
	options.psn = LAST_PSN - 10;
	side_disconnect(side);
	run_cell(side, &options, prefix, &(struct transfer){ operation, MANY_PACKETS, 1, false },
		 "/psn_wraps_within");
	options.psn = LAST_PSN;
	side_disconnect(side);
	run_cell(side, &options, prefix, &(struct transfer){ operation, 5, 1, false }, "/psn_last");
	run_cell(side, &options, prefix, &(struct transfer){ operation, 6, 1, false },
		 "/psn_first");
	side_disconnect(side);
}

static void run_srq(struct side *side, struct options options, const char *prefix)
{
	uint32_t mtu = mtu_bytes(options.mtu);

	options.has_srq = true;
	side_disconnect(side);
	for (size_t i = 0; i < operation_count; i++) {
		const struct operation *operation = &operations[i];

		if (!operation->takes_receive)
			continue;
		run_cell(side, &options, prefix, &(struct transfer){ operation, 7, 1, false },
			 "/srq");
		run_cell(side, &options, prefix,
			 &(struct transfer){ operation, 3 * mtu + 5, 3, false }, "/srq_sge3");
	}
	side_disconnect(side);
}

static void run_operation(struct side *side, const struct options *options, const char *prefix,
			  const struct operation *operation)
{
	run_sizes(side, options, prefix, operation);
	run_shapes(side, options, prefix, operation);
	run_wrap(side, *options, prefix, operation);
}

static void name_service(char *name, size_t size, const char *service,
			 const struct options *options)
{
	snprintf(name, size, "%s/%u/%s", service, mtu_bytes(options->mtu),
		 family_name(options->family));
}

void run_reliable(struct side *side, enum family family, enum ibv_mtu mtu)
{
	const struct options options = options_for(side, IBV_QPT_RC, family, mtu);
	char prefix[32];

	name_service(prefix, sizeof(prefix), "rc", &options);
	for (size_t i = 0; i < operation_count; i++)
		run_operation(side, &options, prefix, &operations[i]);
	run_atomics(side, &options, prefix);
	run_srq(side, options, prefix);
}

void run_unreliable(struct side *side, enum family family, enum ibv_mtu mtu)
{
	const struct options options = options_for(side, IBV_QPT_UC, family, mtu);
	char prefix[32];

	name_service(prefix, sizeof(prefix), "uc", &options);
	for (size_t i = 0; i < operation_count; i++)
		if (operations[i].opcode != IBV_WR_RDMA_READ)
			run_operation(side, &options, prefix, &operations[i]);
	side_disconnect(side);
}
