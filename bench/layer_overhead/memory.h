/*
 * The memory that requests work on: the same addresses for both ways of doing it, so that caches
 * and page tables treat them alike.
 */
#ifndef MEMORY_H
#define MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "operation.h"
#include "status.h"

/* Parts of it, each an array of slots of an operation's size. */
enum memory_part {
	MEMORY_LOCAL,   /* what this process sends, writes from, or reads into */
	MEMORY_REMOTE,  /* what the peer writes to, or reads from */
	MEMORY_RECEIVE, /* where messages arrive */
};

struct memory {
	char *base;
	size_t length;
};

enum rs_status memory_create(struct memory *memory);
void memory_destroy(struct memory *memory);

/* Where a slot begins, from the base on: the same in both processes. */
size_t memory_offset(enum memory_part part, unsigned slot, size_t size);

/* Writes a pattern that depends on seed into the first slots; every slot the same. */
void memory_fill(struct memory *memory, enum memory_part part, unsigned slots, size_t size,
		 uint64_t seed);
void memory_clear(struct memory *memory, enum memory_part part, unsigned slots, size_t size);

/* Whether expected of the slots hold the pattern, and the others nothing. */
enum rs_status memory_check(const struct memory *memory, enum memory_part part, unsigned slots,
			    size_t size, uint64_t seed, uint64_t expected);

#endif
