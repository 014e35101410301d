#include "layout.h"

#include <string.h>

#define BACKGROUND 0xa5

static uint8_t pattern(unsigned seed, size_t index)
{
	return (uint8_t)(index * 167 + (index >> 8) * 13 + seed * 59 + 1);
}

void layout_cut(struct layout *layout, size_t offset, uint32_t length, unsigned count)
{
	unsigned parts = count * (count + 1) / 2;
	uint32_t left = length;

	layout->count = count;
	for (unsigned i = 0; i < count; i++) {
		struct piece *piece = &layout->pieces[i];

		piece->offset = offset;
		piece->length = i + 1 == count ? left : length / parts * (i + 1);
		left -= piece->length;
		offset += piece->length + LAYOUT_GAP;
	}
}

size_t layout_span(const struct layout *layout)
{
	const struct piece *last = &layout->pieces[layout->count - 1];

	return last->offset + last->length + LAYOUT_GAP;
}

void layout_clear(const struct layout *layout, uint8_t *region)
{
	memset(region, BACKGROUND, layout_span(layout));
}

/* Length of the message's part in the next piece. */
static uint32_t part_in(const struct piece *piece, uint32_t left)
{
	return piece->length < left ? piece->length : left;
}

void layout_put(const struct layout *layout, uint8_t *region, uint32_t length, unsigned seed)
{
	size_t index = 0;

	for (unsigned i = 0; i < layout->count; i++) {
		const struct piece *piece = &layout->pieces[i];
		uint32_t part = part_in(piece, length - (uint32_t)index);

		for (uint32_t j = 0; j < part; j++)
			region[piece->offset + j] = pattern(seed, index++);
	}
}

static bool is_background(const uint8_t *region, size_t from, size_t to, size_t *wrong)
{
	for (*wrong = from; *wrong < to; ++*wrong)
		if (region[*wrong] != BACKGROUND)
			return false;
	return true;
}

bool layout_check(const struct layout *layout, const uint8_t *region, uint32_t length,
		  unsigned seed, size_t *wrong)
{
	size_t index = 0, checked = 0;

	for (unsigned i = 0; i < layout->count; i++) {
		const struct piece *piece = &layout->pieces[i];
		uint32_t part = part_in(piece, length - (uint32_t)index);

		if (!is_background(region, checked, piece->offset, wrong))
			return false;
		for (uint32_t j = 0; j < part; j++) {
			*wrong = piece->offset + j;
			if (region[*wrong] != pattern(seed, index++))
				return false;
		}
		checked = piece->offset + part;
	}
	return is_background(region, checked, layout_span(layout), wrong);
}
