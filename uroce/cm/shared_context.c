#include "shared_context.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const struct ur_shared_context *all;

/* ---- A process that is forked off ---- */

static void lock_all(void)
{
	pthread_mutex_lock(&lock);
}

static void unlock_all(void)
{
	pthread_mutex_unlock(&lock);
}

/*
 * The table of devices, which is locked after this one, has been prepared before: so it is locked
 * after this one by a fork, too.
 */
static void prepare_for_forks(void)
{
	pthread_atfork(lock_all, unlock_all, unlock_all);
}

/* ---- Contexts, the lock held ---- */

static const struct ur_shared_context *find(const struct ur_device *device)
{
	const struct ur_shared_context *shared = all;

	while (shared && shared->context->device != device)
		shared = shared->next;
	return shared;
}

/* NULL and errno. */
static const struct ur_shared_context *open_shared(struct ur_device *device)
{
	const struct ibv_xrcd_init_attr any_domain = { .comp_mask = IBV_XRCD_INIT_ATTR_FD |
								    IBV_XRCD_INIT_ATTR_OFLAGS,
						       .fd = -1,
						       .oflags = O_CREAT };
	struct ur_shared_context *shared = calloc(1, sizeof(*shared));

	if (!shared)
		return NULL;
	shared->context = ur_context_open(device);
	if (!shared->context)
		goto err_shared;
	shared->pd = ur_pd_alloc(shared->context);
	if (!shared->pd)
		goto err_context;
	shared->xrcd = ur_xrcd_open(shared->context, &any_domain);
	if (!shared->xrcd)
		goto err_pd;
	shared->next = all;
	all = shared;
	return shared;

err_pd:
	ur_pd_dealloc(shared->pd);
err_context:
	ur_context_close(shared->context);
	errno = ENOMEM;
err_shared:
	free(shared);
	return NULL;
}

/* ---- Use ---- */

int ur_shared_context_get(struct ur_device *device, const struct ur_shared_context **shared)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	int error = 0;

	pthread_once(&once, prepare_for_forks);
	lock_all();
	*shared = find(device);
	if (!*shared)
		*shared = open_shared(device);
	if (!*shared)
		error = errno;
	unlock_all();
	return error;
}
