#define LOG_MODULE "mmap"

#include "mmap.h"

#include <stdbool.h>
#include <stdlib.h>

#include "descriptor.h"
#include "log.h"

struct registration {
	struct rs_device *device;
	struct ibv_mr *mr;
	char line[RS_DESCRIPTOR_LINE_SIZE];
};

struct rs_mmap {
	uint64_t address;
	size_t length;
	uint32_t access;
	bool has_range;
	bool remote;
	bool started;
	uint32_t remote_key;
	unsigned holders;
	size_t device_count;
	struct registration registrations[RS_MMAP_MAX_DEVICES];
};

enum rs_status rs_mmap_create(struct rs_mmap **mmap)
{
	*mmap = calloc(1, sizeof(**mmap));
	return *mmap ? RS_OK : RS_ERR_NO_MEMORY;
}

enum rs_status rs_mmap_destroy(struct rs_mmap *mmap)
{
	enum rs_status status = RS_OK;

	if (!mmap)
		return RS_OK;
	if (mmap->holders > 0)
		return RS_ERR_IN_USE;
	if (mmap->started && !mmap->remote)
		status = rs_mmap_stop(mmap);
	for (size_t i = 0; i < mmap->device_count; i++)
		rs_device_release(mmap->registrations[i].device);
	free(mmap);
	return status;
}

static bool is_configurable(const struct rs_mmap *mmap)
{
	return !mmap->remote && !mmap->started;
}

enum rs_status rs_mmap_set_memrange(struct rs_mmap *mmap, void *address, size_t length)
{
	uint64_t end;

	if (!is_configurable(mmap))
		return RS_ERR_BAD_STATE;
	if (!address || length == 0 ||
	    __builtin_add_overflow((uint64_t)(uintptr_t)address, length, &end))
		return RS_ERR_INVALID_VALUE;
	mmap->address = (uintptr_t)address;
	mmap->length = length;
	mmap->has_range = true;
	return RS_OK;
}

enum rs_status rs_mmap_set_permissions(struct rs_mmap *mmap, uint32_t access)
{
	uint32_t writes = RS_ACCESS_REMOTE_WRITE | RS_ACCESS_REMOTE_ATOMIC;

	if (!is_configurable(mmap))
		return RS_ERR_BAD_STATE;
	if (access & ~(uint32_t)RS_ACCESS_ALL)
		return RS_ERR_INVALID_VALUE;
	if ((access & writes) && !(access & RS_ACCESS_LOCAL_READ_WRITE)) {
		LOG_ERROR("remote write and atomic need local write as well");
		return RS_ERR_INVALID_VALUE;
	}
	mmap->access = access;
	return RS_OK;
}

static const struct registration *find_registration(const struct rs_mmap *mmap,
						    const struct rs_device *device)
{
	for (size_t i = 0; i < mmap->device_count; i++)
		if (mmap->registrations[i].device == device)
			return &mmap->registrations[i];
	return NULL;
}

enum rs_status rs_mmap_add_device(struct rs_mmap *mmap, struct rs_device *device)
{
	if (!is_configurable(mmap))
		return RS_ERR_BAD_STATE;
	if (find_registration(mmap, device))
		return RS_ERR_INVALID_VALUE;
	if (mmap->device_count == RS_MMAP_MAX_DEVICES)
		return RS_ERR_FULL;
	mmap->registrations[mmap->device_count++].device = device;
	rs_device_hold(device);
	return RS_OK;
}

static void export(const struct rs_mmap *mmap, struct registration *registration)
{
	struct rs_descriptor descriptor = {
		.kind = RS_DESCRIPTOR_MMAP,
		.time = rs_descriptor_now(),
		.mmap = { .addr = mmap->address,
			  .len = mmap->length,
			  .rkey = registration->mr->rkey,
			  .access = mmap->access & ~(uint32_t)RS_ACCESS_LOCAL_READ_WRITE },
	};

	rs_descriptor_format(&descriptor, registration->line);
}

static enum rs_status register_with(const struct rs_mmap *mmap, struct registration *registration)
{
	const char *name = rs_device_info(registration->device)->name;

	registration->mr = ibv_reg_mr(rs_device_pd(registration->device),
				      (void *)(uintptr_t)mmap->address, mmap->length, mmap->access);
	if (!registration->mr)
		return LOG_FAILED_CALL(errno, NULL,
				       "ibv_reg_mr(%s, address 0x%llx, %zu bytes, access 0x%x)",
				       name, (unsigned long long)mmap->address, mmap->length,
				       mmap->access);
	export(mmap, registration);
	return RS_OK;
}

static enum rs_status deregister(struct registration *registration)
{
	int error = ibv_dereg_mr(registration->mr);

	registration->mr = NULL;
	if (error)
		return LOG_FAILED_CALL(error, NULL, "ibv_dereg_mr(%s)",
				       rs_device_info(registration->device)->name);
	return RS_OK;
}

enum rs_status rs_mmap_start(struct rs_mmap *mmap)
{
	if (!is_configurable(mmap))
		return RS_ERR_BAD_STATE;
	if (!mmap->has_range || mmap->device_count == 0)
		return RS_ERR_INVALID_VALUE;
	for (size_t i = 0; i < mmap->device_count; i++) {
		enum rs_status status = register_with(mmap, &mmap->registrations[i]);

		if (status != RS_OK) {
			while (i-- > 0)
				deregister(&mmap->registrations[i]);
			return status;
		}
	}
	mmap->started = true;
	return RS_OK;
}

enum rs_status rs_mmap_stop(struct rs_mmap *mmap)
{
	enum rs_status status = RS_OK;

	if (mmap->remote || !mmap->started)
		return RS_ERR_BAD_STATE;
	if (mmap->holders > 0)
		return RS_ERR_IN_USE;
	for (size_t i = 0; i < mmap->device_count; i++) {
		enum rs_status one = deregister(&mmap->registrations[i]);

		status = status == RS_OK ? one : status;
	}
	mmap->started = false;
	return status;
}

enum rs_status rs_mmap_get_memrange(const struct rs_mmap *mmap, uint64_t *address, size_t *length)
{
	if (!mmap->has_range)
		return RS_ERR_BAD_STATE;
	*address = mmap->address;
	*length = mmap->length;
	return RS_OK;
}

enum rs_status rs_mmap_export(struct rs_mmap *mmap, const struct rs_device *device,
			      const char **line)
{
	const struct registration *registration = find_registration(mmap, device);

	if (mmap->remote || !mmap->started)
		return RS_ERR_BAD_STATE;
	if (!registration)
		return RS_ERR_INVALID_VALUE;
	*line = registration->line;
	return RS_OK;
}

enum rs_status rs_mmap_create_from_export(const char *line, struct rs_mmap **mmap)
{
	struct rs_descriptor descriptor;
	enum rs_status status = rs_descriptor_read(line, RS_DESCRIPTOR_MMAP, &descriptor);

	if (status != RS_OK)
		return status;
	status = rs_mmap_create(mmap);
	if (status != RS_OK)
		return status;
	(*mmap)->remote = true;
	(*mmap)->started = true;
	(*mmap)->has_range = true;
	(*mmap)->address = descriptor.mmap.addr;
	(*mmap)->length = descriptor.mmap.len;
	(*mmap)->remote_key = (uint32_t)descriptor.mmap.rkey;
	return RS_OK;
}

enum rs_status rs_mmap_local_key(const struct rs_mmap *mmap, const struct rs_device *device,
				 uint32_t *lkey)
{
	const struct registration *registration = find_registration(mmap, device);

	if (!registration || !registration->mr)
		return RS_ERR_INVALID_VALUE;
	*lkey = registration->mr->lkey;
	return RS_OK;
}

enum rs_status rs_mmap_remote_key(const struct rs_mmap *mmap, uint32_t *rkey)
{
	if (!mmap->remote)
		return RS_ERR_INVALID_VALUE;
	*rkey = mmap->remote_key;
	return RS_OK;
}

enum rs_status rs_mmap_hold(struct rs_mmap *mmap)
{
	if (!mmap->started)
		return RS_ERR_BAD_STATE;
	mmap->holders++;
	return RS_OK;
}

void rs_mmap_release(struct rs_mmap *mmap)
{
	mmap->holders--;
}
