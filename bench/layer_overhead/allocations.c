#include "allocations.h"

#include <stddef.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
	__has_feature(memory_sanitizer)
#define SANITIZED 1
#endif
#endif

#ifdef SANITIZED

bool allocations_are_counted(void)
{
	return false;
}

uint64_t allocations_count(void)
{
	return 0;
}

#else

static _Thread_local uint64_t count;

bool allocations_are_counted(void)
{
	return true;
}

uint64_t allocations_count(void)
{
	return count;
}

/* A program's own definitions stand in for the C library's; these are what they stand in for. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t members, size_t size);
void *__libc_realloc(void *block, size_t size);

void *malloc(size_t size)
{
	count++;
	return __libc_malloc(size);
}

void *calloc(size_t members, size_t size)
{
	count++;
	return __libc_calloc(members, size);
}

void *realloc(void *block, size_t size)
{
	count++;
	return __libc_realloc(block, size);
}

#endif
