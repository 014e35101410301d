#include <dlfcn.h>

#include "api.h"

/*
 * Of a program that links this library the linker may have dropped librdmacm (--as-needed), all of
 * whose functions are found here. It stays loaded.
 */
static void *find_in_librdmacm(const char *function)
{
	void *library = dlopen("librdmacm.so.1", RTLD_LAZY);

	return library ? dlsym(library, function) : NULL;
}

void *ur_next(const char *function, _Atomic(void *) *found)
{
	void *next = atomic_load_explicit(found, memory_order_acquire);

	if (next)
		return next;
	next = dlsym(RTLD_NEXT, function);
	if (!next)
		next = find_in_librdmacm(function);
	atomic_store_explicit(found, next, memory_order_release);
	return next;
}
