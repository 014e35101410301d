#include "mw.h"

#include <errno.h>
#include <stdlib.h>

#include "qp.h"

#define REMOTE_WRITES (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)
#define REMOTE_ACCESS (REMOTE_WRITES | IBV_ACCESS_REMOTE_READ)

/* Local access is by the region's key; programs name it all the same. */
#define KNOWN_ACCESS (REMOTE_ACCESS | IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ZERO_BASED)

/* ---- Life ---- */

static int add(struct ur_device *device, struct ur_mw *mw)
{
	uint32_t index;
	int error;

	pthread_mutex_lock(&device->lock);
	error = ur_key_table_add(&device->keys, NULL, mw, &index);
	if (!error) {
		mw->verbs.handle = index;
		mw->verbs.rkey = ur_key_table_key(&device->keys, index);
	}
	pthread_mutex_unlock(&device->lock);
	return error;
}

struct ur_mw *ur_mw_alloc(struct ur_pd *pd, enum ibv_mw_type type)
{
	struct ur_mw *mw;
	int error = EINVAL;

	if (type != IBV_MW_TYPE_1 && type != IBV_MW_TYPE_2)
		goto err_nothing;
	error = ENOMEM;
	mw = calloc(1, sizeof(*mw));
	if (!mw)
		goto err_nothing;
	mw->verbs.context = pd->verbs.context;
	mw->verbs.pd = &pd->verbs;
	mw->verbs.type = type;
	mw->pd = ur_pd_protection(pd);
	error = add(pd->context->device, mw);
	if (error)
		goto err_mw;
	atomic_fetch_add(&mw->pd->objects, 1);
	return mw;

err_mw:
	free(mw);
err_nothing:
	errno = error;
	return NULL;
}

static void add_to_qp(struct ur_mw *mw, struct ur_qp *qp)
{
	mw->qp = qp;
	mw->prev = NULL;
	mw->next = qp->windows;
	if (mw->next)
		mw->next->prev = mw;
	qp->windows = mw;
}

static void remove_from_qp(struct ur_mw *mw)
{
	if (mw->next)
		mw->next->prev = mw->prev;
	if (mw->prev)
		mw->prev->next = mw->next;
	else
		mw->qp->windows = mw->next;
	mw->qp = NULL;
}

static void unbind(struct ur_mw *mw)
{
	if (!mw->mr)
		return;
	mw->mr->windows--;
	mw->mr = NULL;
	if (mw->qp)
		remove_from_qp(mw);
}

void ur_mw_unbind_all(struct ur_qp *qp)
{
	while (qp->windows)
		unbind(qp->windows);
}

int ur_mw_dealloc(struct ur_mw *mw)
{
	struct ur_device *device = mw->pd->context->device;

	pthread_mutex_lock(&device->lock);
	unbind(mw);
	ur_key_table_remove(&device->keys, mw->verbs.handle);
	pthread_mutex_unlock(&device->lock);
	atomic_fetch_sub(&mw->pd->objects, 1);
	free(mw);
	return 0;
}

/* ---- Binding ---- */

int ur_mw_describe_bind(const struct ibv_mw *mw, uint32_t rkey, const struct ibv_mw_bind_info *info,
			struct ur_mw_bind *bind)
{
	if (!mw || rkey >> UR_KEY_GENERATION_BITS != mw->handle)
		return EINVAL;
	if (info->mw_access_flags & ~(unsigned)KNOWN_ACCESS ||
	    (info->mw_access_flags & IBV_ACCESS_ZERO_BASED && mw->type == IBV_MW_TYPE_1))
		return EINVAL;
	*bind = (struct ur_mw_bind){
		.mw = (const struct ur_mw *)mw,
		.index = mw->handle,
		.generation = (uint8_t)(rkey & UR_KEY_GENERATION_MASK),
		.lkey = info->mr ? info->mr->lkey : 0,
		.addr = info->addr,
		.length = info->length,
		.access = info->mw_access_flags,
	};
	return 0;
}

/* The window that a bind is for; NULL: it is gone. */
static struct ur_mw *find_window(const struct ur_device *device, const struct ur_mw_bind *bind)
{
	struct ur_mw *mw =
		bind->index < device->keys.capacity ? device->keys.places[bind->index].mw : NULL;

	return mw == bind->mw ? mw : NULL;
}

/* Type 2 is given back before it is bound again, and not by a bind of nothing. */
static bool may_bind(const struct ur_qp *qp, const struct ur_mw *mw, const struct ur_mw_bind *bind)
{
	return mw->pd == qp->pd &&
	       (mw->verbs.type == IBV_MW_TYPE_1 || (!mw->mr && bind->length > 0));
}

/* What is bound of the region must lie in it, and the region permit windows, and writing for writes. */
static char *find_memory(const struct ur_qp *qp, const struct ur_mr *mr,
			 const struct ur_mw_bind *bind)
{
	unsigned access = IBV_ACCESS_MW_BIND;

	if (!mr || mr->access & IBV_ACCESS_ZERO_BASED)
		return NULL;
	if (bind->access & REMOTE_WRITES)
		access |= IBV_ACCESS_LOCAL_WRITE;
	return ur_mr_resolve(qp->device, qp->pd, bind->lkey, bind->addr, bind->length, access);
}

static void attach(struct ur_mw *mw, struct ur_qp *qp, struct ur_mr *mr, char *memory,
		   const struct ur_mw_bind *bind)
{
	mw->mr = mr;
	mr->windows++;
	mw->memory = memory;
	mw->base = bind->access & IBV_ACCESS_ZERO_BASED ? 0 : bind->addr;
	mw->length = bind->length;
	mw->access = bind->access & REMOTE_ACCESS;
	if (mw->verbs.type == IBV_MW_TYPE_2)
		add_to_qp(mw, qp);
}

static enum ibv_wc_status bind_window(struct ur_qp *qp, const struct ur_mw_bind *bind)
{
	struct ur_key_table *keys = &qp->device->keys;
	struct ur_mw *mw = find_window(qp->device, bind);
	struct ur_mr *mr = ur_mr_find(qp->device, bind->lkey);
	char *memory = NULL;

	if (!mw || !may_bind(qp, mw, bind))
		return IBV_WC_MW_BIND_ERR;
	if (bind->length > 0) {
		memory = find_memory(qp, mr, bind);
		if (!memory)
			return IBV_WC_MW_BIND_ERR;
	}
	unbind(mw);
	keys->places[bind->index].generation = bind->generation;
	if (memory)
		attach(mw, qp, mr, memory, bind);
	/* mw->verbs.rkey is the program's: it may have posted the next bind already. */
	return IBV_WC_SUCCESS;
}

/* ---- Invalidation ---- */

/* The window of type 2 that is bound with that key, in the protection domain. */
static struct ur_mw *find_bound(const struct ur_qp *qp, uint32_t key)
{
	const struct ur_key_place *place = ur_key_table_find(&qp->device->keys, key);
	struct ur_mw *mw = place ? place->mw : NULL;

	return mw && mw->pd == qp->pd && mw->qp ? mw : NULL;
}

static enum ibv_wc_status invalidate(const struct ur_qp *qp, uint32_t key)
{
	struct ur_mw *mw = find_bound(qp, key);

	if (!mw)
		return IBV_WC_MW_BIND_ERR;
	unbind(mw);
	return IBV_WC_SUCCESS;
}

enum ibv_wc_status ur_mw_execute(struct ur_qp *qp, const struct ur_send_wqe *wqe)
{
	return wqe->opcode == IBV_WR_BIND_MW ? bind_window(qp, &wqe->bind)
					     : invalidate(qp, wqe->invalidate_rkey);
}

bool ur_mw_invalidate_remotely(const struct ur_qp *qp, uint32_t key)
{
	struct ur_mw *mw = find_bound(qp, key);

	if (!mw || mw->qp != qp)
		return false;
	unbind(mw);
	return true;
}

/* ---- Access ---- */

static bool permits(const struct ur_mw *mw, const struct ur_qp *qp, const struct ur_pd *pd,
		    uint64_t address, uint64_t length, unsigned access)
{
	return mw->mr && mw->pd == pd && (!mw->qp || mw->qp == qp) &&
	       (mw->access & access) == access && address >= mw->base &&
	       address - mw->base <= mw->length && length <= mw->length - (address - mw->base);
}

void *ur_resolve_remote(const struct ur_qp *qp, const struct ur_pd *pd, uint32_t key,
			uint64_t address, uint64_t length, unsigned access)
{
	const struct ur_key_place *place = ur_key_table_find(&qp->device->keys, key);

	if (!place || !place->mw)
		return ur_mr_resolve(qp->device, pd, key, address, length, access);
	if (!permits(place->mw, qp, pd, address, length, access))
		return NULL;
	return place->mw->memory + (address - place->mw->base);
}
