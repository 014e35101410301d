/*
 * Data that can be told from others when it arrives. Sizes are multiples of 8 bytes.
 */
#ifndef PATTERN_H
#define PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void pattern_fill(void *memory, size_t size, uint64_t seed);
bool pattern_is(const void *memory, size_t size, uint64_t seed);

#endif
