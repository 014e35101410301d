#include "shared_context.h"

#include <errno.h>
#include <stdlib.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const struct ur_shared_context *all;

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
	struct ur_shared_context *shared = calloc(1, sizeof(*shared));

	if (!shared)
		return NULL;
	shared->context = ur_context_open(device);
	if (!shared->context)
		goto err_shared;
	shared->pd = ur_pd_alloc(shared->context);
	if (!shared->pd)
		goto err_context;
	shared->next = all;
	all = shared;
	return shared;

err_context:
	ur_context_close(shared->context);
	errno = ENOMEM;
err_shared:
	free(shared);
	return NULL;
}

int ur_shared_context_get(struct ur_device *device, const struct ur_shared_context **shared)
{
	int error = 0;

	pthread_mutex_lock(&lock);
	*shared = find(device);
	if (!*shared)
		*shared = open_shared(device);
	if (!*shared)
		error = errno;
	pthread_mutex_unlock(&lock);
	return error;
}
