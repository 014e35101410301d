#include <dlfcn.h>

#include "api.h"

void *ur_next(const char *function, _Atomic(void *) *found)
{
	void *next = atomic_load_explicit(found, memory_order_acquire);

	if (next)
		return next;
	next = dlsym(RTLD_NEXT, function);
	atomic_store_explicit(found, next, memory_order_release);
	return next;
}
