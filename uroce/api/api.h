/*
 * What the exported functions share. Each is named as in libibverbs: for an object of a uroce
 * device it does the work itself, for any other it calls the next definition, the real library's.
 * functions.txt lists all functions that libibverbs has, and what becomes of each here.
 */
#ifndef UR_API_H
#define UR_API_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdatomic.h>

#include "../core/device.h"

#define UR_EXPORT __attribute__((visibility("default")))

/* The next definition of a function, looked for once and kept in found; NULL: there is none. */
void *ur_next(const char *function, _Atomic(void *) *found);

#define UR_NEXT(function)                                             \
	({                                                            \
		static _Atomic(void *) found_;                        \
		(__typeof__(&(function)))ur_next(#function, &found_); \
	})

/* Calls the next definition; failure and ENOSYS if there is none. */
#define UR_FORWARD(failure, function, ...)                                \
	({                                                                \
		__typeof__(&(function)) next_ = UR_NEXT(function);        \
		next_ ? next_(__VA_ARGS__) : (errno = ENOSYS, (failure)); \
	})

/* The same for one that returns nothing. */
#define UR_FORWARD_VOID(function, ...)                             \
	({                                                         \
		__typeof__(&(function)) next_ = UR_NEXT(function); \
		if (next_)                                         \
			next_(__VA_ARGS__);                        \
	})

static inline bool ur_has_ours(const struct ibv_context *context)
{
	return ur_is_ours(context->device);
}

static inline struct ur_device *ur_device_behind(const struct ibv_context *context)
{
	return ur_device_of(context->device);
}

#endif
