/*
 * Where a message's bytes lie in a region of memory, what they are, and that nothing else there was
 * touched.
 */
#ifndef LAYOUT_H
#define LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LAYOUT_MAX 8

/* Bytes before the first piece, between pieces and behind the last that must stay as they are. */
#define LAYOUT_GAP 13

struct layout {
	unsigned count;
	struct piece {
		size_t offset;
		uint32_t length;
	} pieces[LAYOUT_MAX];
};

/* Cuts length bytes in so many unequal pieces; the first begins at offset. */
void layout_cut(struct layout *layout, size_t offset, uint32_t length, unsigned count);

/* How much of a region is looked at: all pieces, and what is around them. */
size_t layout_span(const struct layout *layout);

/* All of the layout's span becomes background. */
void layout_clear(const struct layout *layout, uint8_t *region);
/* Puts a message of length bytes there, which may be fewer than have room. seed: makes it another. */
void layout_put(const struct layout *layout, uint8_t *region, uint32_t length, unsigned seed);
/*
 * Whether a region that was cleared holds such a message now, and else only background (length 0:
 * nothing but that). If not, *wrong is the first offset that differs.
 */
bool layout_check(const struct layout *layout, const uint8_t *region, uint32_t length,
		  unsigned seed, size_t *wrong);

#endif
