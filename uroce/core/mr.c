#include "mr.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "pd.h"

/* Pages that are asked for at a time where the system cannot populate memory. */
#define PAGES_AT_ONCE 512

#define KNOWN_ACCESS                                                                 \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
	 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED)
#define PAGED_ACCESS   (IBV_ACCESS_ON_DEMAND | IBV_ACCESS_HUGETLB)
#define REMOTE_WRITES  (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)
#define NEEDS_WRITABLE (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND)

/* ---- Memory ---- */

static uintptr_t page_size(void)
{
	return (uintptr_t)sysconf(_SC_PAGESIZE);
}

/* Before Linux 5.14 this cannot be asked for; it fails for a page that surely is there, then. */
static bool can_populate(void)
{
	static char here;
	uintptr_t page = (uintptr_t)&here & ~(page_size() - 1);

	return madvise((void *)page, page_size(), MADV_POPULATE_READ) == 0;
}

static int check_mapped(uintptr_t page, size_t length)
{
	unsigned char resident[PAGES_AT_ONCE];
	size_t at_once = PAGES_AT_ONCE * page_size();

	for (size_t done = 0; done < length; done += at_once) {
		size_t left = length - done;

		if (mincore((void *)(page + done), left < at_once ? left : at_once, resident) != 0)
			return EFAULT;
	}
	return 0;
}

/*
 * Makes sure that memory is there, and that it can be written if it shall be, as pinning it does
 * for a device.
 */
static int populate(const void *addr, size_t length, bool writable)
{
	uintptr_t page = (uintptr_t)addr & ~(page_size() - 1);
	int advice = writable ? MADV_POPULATE_WRITE : MADV_POPULATE_READ;

	length += (uintptr_t)addr - page;
	while (madvise((void *)page, length, advice) != 0) {
		if (errno == EINTR)
			continue;
		return errno == EINVAL && !can_populate() ? check_mapped(page, length) : EFAULT;
	}
	return 0;
}

/* ---- What a region may be ---- */

static int check_access(unsigned access)
{
	if (access & ~(unsigned)(KNOWN_ACCESS | PAGED_ACCESS))
		return EINVAL;
	if (access & PAGED_ACCESS)
		return EOPNOTSUPP;
	return access & REMOTE_WRITES && !(access & IBV_ACCESS_LOCAL_WRITE) ? EINVAL : 0;
}

/* As for a device, whose page tables begin at a page in both spaces. */
static bool is_range_valid(const void *addr, size_t length, uint64_t iova, unsigned access)
{
	uint64_t end;

	if (length == 0 || __builtin_add_overflow((uintptr_t)addr, length, &end) ||
	    __builtin_add_overflow(iova, length, &end))
		return false;
	return access & IBV_ACCESS_ZERO_BASED ||
	       ((iova ^ (uintptr_t)addr) & (page_size() - 1)) == 0;
}

static uint64_t base(const void *addr, uint64_t iova, unsigned access)
{
	if (access & IBV_ACCESS_ZERO_BASED)
		return 0;
	return iova == UR_NO_IOVA ? (uintptr_t)addr : iova;
}

/* Whether access is possible, and the memory there for it. Returns 0 or an errno. */
static int prepare(const void *addr, size_t length, unsigned access)
{
	int error = check_access(access);

	return error ? error : populate(addr, length, access & NEEDS_WRITABLE);
}

/* ---- Regions ---- */

static int add(struct ur_device *device, struct ur_mr *mr)
{
	uint32_t index;
	int error;

	pthread_mutex_lock(&device->lock);
	error = ur_key_table_add(&device->keys, mr, NULL, &index);
	if (!error) {
		mr->verbs.handle = index;
		mr->verbs.lkey = mr->verbs.rkey = ur_key_table_key(&device->keys, index);
	}
	pthread_mutex_unlock(&device->lock);
	return error;
}

struct ur_mr *ur_mr_register(struct ur_pd *pd, void *addr, size_t length, uint64_t iova,
			     unsigned access)
{
	struct ur_mr *mr;
	int error;

	access &= ~(unsigned)IBV_ACCESS_OPTIONAL_RANGE;
	iova = base(addr, iova, access);
	error = EINVAL;
	if (!is_range_valid(addr, length, iova, access))
		goto err_nothing;
	error = prepare(addr, length, access);
	if (error)
		goto err_nothing;
	error = ENOMEM;
	mr = calloc(1, sizeof(*mr));
	if (!mr)
		goto err_nothing;
	mr->verbs.context = pd->verbs.context;
	mr->verbs.pd = &pd->verbs;
	mr->verbs.addr = addr;
	mr->verbs.length = length;
	mr->pd = ur_pd_protection(pd);
	mr->iova = iova;
	mr->access = access;
	error = add(pd->context->device, mr);
	if (error)
		goto err_mr;
	atomic_fetch_add(&mr->pd->objects, 1);
	return mr;

err_mr:
	free(mr);
err_nothing:
	errno = error;
	return NULL;
}

/* What a region is to become: what flags do not name stays. Returns 0 or an errno. */
static int describe(const struct ur_mr *mr, int flags, struct ur_pd *pd, void *addr, size_t length,
		    unsigned access, struct ur_mr *changed)
{
	*changed = *mr;
	if (flags & IBV_REREG_MR_CHANGE_ACCESS)
		changed->access = access & ~(unsigned)IBV_ACCESS_OPTIONAL_RANGE;
	if (flags & IBV_REREG_MR_CHANGE_PD) {
		if (!pd || pd->verbs.context != mr->verbs.context)
			return EINVAL;
		changed->pd = ur_pd_protection(pd);
		changed->verbs.pd = &pd->verbs;
	}
	if (flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
		changed->verbs.addr = addr;
		changed->verbs.length = length;
		changed->iova = base(addr, UR_NO_IOVA, changed->access);
		if (!is_range_valid(addr, length, changed->iova, changed->access))
			return EINVAL;
	}
	if (flags == IBV_REREG_MR_CHANGE_PD)
		return 0;
	return prepare(changed->verbs.addr, changed->verbs.length, changed->access);
}

static bool are_flags_valid(int flags, unsigned access)
{
	return flags != 0 && !(flags & ~IBV_REREG_MR_FLAGS_SUPPORTED) &&
	       (flags & IBV_REREG_MR_CHANGE_ACCESS || !access);
}

/* What a description changes; the count of windows may be another by now. */
static void take_over(struct ur_mr *mr, const struct ur_mr *changed)
{
	mr->verbs.pd = changed->verbs.pd;
	mr->verbs.addr = changed->verbs.addr;
	mr->verbs.length = changed->verbs.length;
	mr->pd = changed->pd;
	mr->iova = changed->iova;
	mr->access = changed->access;
}

static int replace(struct ur_mr *mr, const struct ur_mr *changed)
{
	struct ur_device *device = mr->pd->context->device;
	int error = 0;

	pthread_mutex_lock(&device->lock);
	if (mr->windows > 0)
		error = EBUSY;
	else
		take_over(mr, changed);
	pthread_mutex_unlock(&device->lock);
	return error;
}

int ur_mr_reregister(struct ur_mr *mr, int flags, struct ur_pd *pd, void *addr, size_t length,
		     unsigned access)
{
	struct ur_pd *before = mr->pd;
	struct ur_mr changed;
	int error = EINVAL;

	if (are_flags_valid(flags, access) && !mr->imported)
		error = describe(mr, flags, pd, addr, length, access, &changed);
	if (!error)
		error = replace(mr, &changed);
	if (error) {
		errno = error;
		return IBV_REREG_MR_ERR_INPUT;
	}
	atomic_fetch_add(&mr->pd->objects, 1);
	atomic_fetch_sub(&before->objects, 1);
	return 0;
}

int ur_mr_deregister(struct ur_mr *mr)
{
	struct ur_device *device;
	bool busy;

	/* Its domain may be gone. */
	if (mr->imported)
		return EINVAL;
	device = mr->pd->context->device;
	pthread_mutex_lock(&device->lock);
	busy = mr->windows > 0;
	if (!busy)
		ur_key_table_remove(&device->keys, mr->verbs.handle);
	pthread_mutex_unlock(&device->lock);
	if (busy)
		return EBUSY;
	atomic_fetch_sub(&mr->pd->objects, 1);
	free(mr);
	return 0;
}

/* ---- Imported handles ---- */

/* What a program sees of the region with that number; false: there is none in the protection domain. */
static bool look_up(struct ur_device *device, const struct ur_pd *pd, uint32_t handle,
		    struct ibv_mr *verbs)
{
	const struct ur_key_table *keys = &device->keys;
	const struct ur_mr *mr;
	bool found;

	pthread_mutex_lock(&device->lock);
	mr = handle < keys->capacity ? keys->places[handle].mr : NULL;
	found = mr && mr->pd == pd;
	if (found)
		*verbs = mr->verbs;
	pthread_mutex_unlock(&device->lock);
	return found;
}

struct ur_mr *ur_mr_import(struct ur_pd *pd, uint32_t handle)
{
	struct ur_mr *mr = calloc(1, sizeof(*mr));

	if (!mr)
		return NULL;
	mr->pd = ur_pd_protection(pd);
	mr->imported = true;
	if (!look_up(pd->context->device, mr->pd, handle, &mr->verbs)) {
		free(mr);
		errno = EINVAL;
		return NULL;
	}
	mr->verbs.context = pd->verbs.context;
	mr->verbs.pd = &pd->verbs;
	mr->verbs.addr = NULL; /* as verbs have it */
	return mr;
}

void ur_mr_unimport(struct ur_mr *mr)
{
	if (mr->imported)
		free(mr);
}

/* ---- Access ---- */

struct ur_mr *ur_mr_find(const struct ur_device *device, uint32_t key)
{
	const struct ur_key_place *place = ur_key_table_find(&device->keys, key);

	return place ? place->mr : NULL;
}

static bool holds(const struct ur_mr *mr, uint64_t address, uint64_t length)
{
	return address >= mr->iova && address - mr->iova <= mr->verbs.length &&
	       length <= mr->verbs.length - (address - mr->iova);
}

void *ur_mr_resolve(const struct ur_device *device, const struct ur_pd *pd, uint32_t key,
		    uint64_t address, uint64_t length, unsigned access)
{
	const struct ur_mr *mr = ur_mr_find(device, key);

	if (!mr || mr->pd != pd || (mr->access & access) != access || !holds(mr, address, length))
		return NULL;
	return (char *)mr->verbs.addr + (address - mr->iova);
}
