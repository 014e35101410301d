/*
 * Block of memory for the entries of a queue: from the allocator of a parent domain, or else from the C
 * library. A program's allocator may call verbs, so no lock is held when blocks are made and freed.
 */
#ifndef UR_BLOCK_H
#define UR_BLOCK_H

#include <stddef.h>
#include <stdint.h>

struct ur_pd;

/* What an allocator is told that the memory is for; the upper 32 bits, of the driver, are 0. */
enum ur_block_use {
	UR_BLOCK_SEND_QUEUE,
	UR_BLOCK_RECV_QUEUE,
	UR_BLOCK_SRQ,
	UR_BLOCK_CQ,
};

#define UR_BLOCK_ALIGNMENT 64

struct ur_block {
	void *memory;
	struct ur_pd *pd; /* whose allocator it is from; NULL: the C library's */
	enum ur_block_use use;
};

/* Zeros, at least one byte. pd: NULL, or what the queue is made with. Returns 0 or ENOMEM. */
int ur_block_init(struct ur_block *block, struct ur_pd *pd, enum ur_block_use use, size_t size);
void ur_block_free(struct ur_block *block);

#endif
