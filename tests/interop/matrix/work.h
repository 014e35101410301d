/*
 * Work requests and their completions. What is not as it must be makes the cell wrong.
 */
#ifndef WORK_H
#define WORK_H

#include "side.h"

/* A completion that must come. */
struct expected {
	uint64_t wr_id;
	enum ibv_wc_status status;
	enum ibv_wc_opcode opcode; /* looked at on success */
	bool is_receive;           /* the rest is looked at, too */
	uint32_t length;
	bool has_imm;
	__be32 imm;
};

/* Fills sges for a layout in a region; returns how many: none for no bytes. */
int work_sges(const struct layout *layout, const uint8_t *region, uint32_t lkey,
	      struct ibv_sge *sges);

void work_post_recv(struct side *side, uint64_t wr_id, struct ibv_sge *sges, int count);
/* With a completion. */
void work_post_send(struct side *side, struct ibv_send_wr *wr);

/* Waits for a queue's next completion; false: none came, and the cell is wrong. */
bool work_wait(struct side *side, struct ibv_cq *cq, struct ibv_wc *wc);
/* Waits for it, and compares. */
void work_expect(struct side *side, struct ibv_cq *cq, const struct expected *expected);

/* Compares a region with what it must hold: see layout_check(). */
void work_check(struct side *side, const char *what, const struct layout *layout,
		const uint8_t *region, uint32_t length, unsigned seed);

/* An immediate value of the cell's own. */
__be32 work_imm(const struct side *side);

#endif
