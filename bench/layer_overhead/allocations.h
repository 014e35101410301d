/*
 * Counts the memory allocations of the calling thread, in the whole program with its libraries.
 */
#ifndef ALLOCATIONS_H
#define ALLOCATIONS_H

#include <stdbool.h>
#include <stdint.h>

/* A sanitizer's allocator cannot be counted. */
bool allocations_are_counted(void);

/* Since the thread began. */
uint64_t allocations_count(void);

#endif
