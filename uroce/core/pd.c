#include "pd.h"

#include <errno.h>
#include <stdlib.h>

static atomic_uint next_handle = 1;

static struct ur_pd *create(struct ur_context *context)
{
	struct ur_pd *pd = calloc(1, sizeof(*pd));

	if (!pd)
		return NULL;
	pd->verbs.context = &context->verbs.context;
	pd->context = context;
	atomic_fetch_add(&context->objects, 1);
	return pd;
}

static void destroy(struct ur_pd *pd)
{
	atomic_fetch_sub(&pd->context->objects, 1);
	free(pd);
}

/* ---- Those that protect ---- */

struct ur_pd *ur_pd_alloc(struct ur_context *context)
{
	struct ur_device *device = context->device;
	struct ur_pd *pd = create(context);

	if (!pd)
		return NULL;
	pd->verbs.handle = atomic_fetch_add(&next_handle, 1);
	pthread_mutex_lock(&device->lock);
	pd->next = device->pds;
	device->pds = pd;
	pthread_mutex_unlock(&device->lock);
	return pd;
}

static void unlist(struct ur_device *device, const struct ur_pd *pd)
{
	struct ur_pd **link = &device->pds;

	while (*link != pd)
		link = &(*link)->next;
	*link = pd->next;
}

static int dealloc_protection(struct ur_pd *pd)
{
	struct ur_device *device = pd->context->device;
	bool busy;

	pthread_mutex_lock(&device->lock);
	busy = atomic_load(&pd->objects) > 0;
	if (!busy)
		unlist(device, pd);
	pthread_mutex_unlock(&device->lock);
	if (busy)
		return EBUSY;
	destroy(pd);
	return 0;
}

/* ---- Those that stand for another ---- */

static int dealloc_other(struct ur_pd *pd)
{
	if (atomic_load(&pd->objects) > 0)
		return EBUSY;
	if (pd->td)
		atomic_fetch_sub(&pd->td->objects, 1);
	atomic_fetch_sub(&pd->protection->objects, 1);
	destroy(pd);
	return 0;
}

int ur_pd_dealloc(struct ur_pd *pd)
{
	return pd->protection ? dealloc_other(pd) : dealloc_protection(pd);
}

/* Holds the one it finds; NULL: there is none. */
static struct ur_pd *find_and_hold(struct ur_device *device, uint32_t handle)
{
	struct ur_pd *pd;

	pthread_mutex_lock(&device->lock);
	pd = device->pds;
	while (pd && pd->verbs.handle != handle)
		pd = pd->next;
	if (pd)
		atomic_fetch_add(&pd->objects, 1);
	pthread_mutex_unlock(&device->lock);
	return pd;
}

struct ur_pd *ur_pd_import(struct ur_context *context, uint32_t handle)
{
	struct ur_pd *protection = find_and_hold(context->device, handle);
	struct ur_pd *pd;

	if (!protection) {
		errno = EINVAL;
		return NULL;
	}
	pd = create(context);
	if (!pd) {
		atomic_fetch_sub(&protection->objects, 1);
		return NULL;
	}
	pd->verbs.handle = handle;
	pd->protection = protection;
	pd->imported = true;
	return pd;
}

/* ---- Thread domains and parent domains ---- */

struct ur_td *ur_td_alloc(struct ur_context *context, const struct ibv_td_init_attr *attr)
{
	struct ur_td *td;

	if (attr->comp_mask) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	td = calloc(1, sizeof(*td));
	if (!td)
		return NULL;
	td->verbs.context = &context->verbs.context;
	td->context = context;
	atomic_fetch_add(&context->objects, 1);
	return td;
}

int ur_td_dealloc(struct ur_td *td)
{
	if (atomic_load(&td->objects) > 0)
		return EBUSY;
	atomic_fetch_sub(&td->context->objects, 1);
	free(td);
	return 0;
}

static int check(const struct ur_context *context, const struct ibv_parent_domain_init_attr *attr)
{
	const struct ibv_context *verbs = &context->verbs.context;
	const uint32_t known =
		IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;

	if (attr->comp_mask & ~known)
		return EOPNOTSUPP;
	if (!attr->pd || attr->pd->context != verbs || (attr->td && attr->td->context != verbs))
		return EINVAL;
	return attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS &&
			       (!attr->alloc || !attr->free)
		       ? EINVAL
		       : 0;
}

struct ur_pd *ur_parent_domain_alloc(struct ur_context *context,
				     const struct ibv_parent_domain_init_attr *attr)
{
	int error = check(context, attr);
	struct ur_pd *pd;

	if (error) {
		errno = error;
		return NULL;
	}
	pd = create(context);
	if (!pd)
		return NULL;
	pd->protection = ur_pd_protection((struct ur_pd *)attr->pd);
	pd->verbs.handle = pd->protection->verbs.handle;
	pd->td = (struct ur_td *)attr->td;
	if (attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS) {
		pd->alloc = attr->alloc;
		pd->free = attr->free;
	}
	if (attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT)
		pd->pd_context = attr->pd_context;
	atomic_fetch_add(&pd->protection->objects, 1);
	if (pd->td)
		atomic_fetch_add(&pd->td->objects, 1);
	return pd;
}
