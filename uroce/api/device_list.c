/*
 * The list of devices: those of the real library, then ours.
 */
#include <stdlib.h>
#include <string.h>

#include "../core/command_fd.h"
#include "../core/context.h"
#include "../core/log.h"
#include "api.h"

struct device_list {
	struct ibv_device **real; /* holds the real devices; NULL: none */
	struct ibv_device *devices[];
};

static struct device_list *list_of(struct ibv_device **devices)
{
	return (struct device_list *)((char *)devices - offsetof(struct device_list, devices));
}

/*
 * A machine without RDMA is a failure for the real library; here it is one that has no real
 * devices.
 */
static struct ibv_device **get_real(unsigned *count)
{
	int found = 0;
	struct ibv_device **real = UR_FORWARD(NULL, ibv_get_device_list, &found);

	if (!real && errno != ENOSYS)
		ur_log(UR_LOG_WARNING, "libibverbs cannot list its devices: %s", strerror(errno));
	*count = real ? (unsigned)found : 0;
	return real;
}

static void free_real(struct ibv_device **real)
{
	if (real)
		UR_FORWARD_VOID(ibv_free_device_list, real);
}

static struct device_list *join(struct ibv_device **real, unsigned real_count,
				struct ur_device **ours, unsigned our_count)
{
	size_t count = (size_t)real_count + our_count;
	struct device_list *list = calloc(1, sizeof(*list) + (count + 1) * sizeof(*real));

	if (!list)
		return NULL;
	list->real = real;
	for (unsigned i = 0; i < real_count; i++)
		list->devices[i] = real[i];
	for (unsigned i = 0; i < our_count; i++)
		list->devices[real_count + i] = &ours[i]->verbs;
	return list;
}

UR_EXPORT struct ibv_device **ibv_get_device_list(int *num_devices)
{
	unsigned real_count, our_count;
	struct ur_device **ours;
	struct device_list *list;
	struct ibv_device **real = get_real(&real_count);
	int error = ur_devices_scan(&ours, &our_count);

	if (error)
		goto err_real;
	error = ENOMEM;
	list = join(real, real_count, ours, our_count);
	free(ours);
	if (!list)
		goto err_real;
	if (num_devices)
		*num_devices = (int)(real_count + our_count);
	return list->devices;

err_real:
	free_real(real);
	if (num_devices)
		*num_devices = 0;
	errno = error;
	return NULL;
}

UR_EXPORT void ibv_free_device_list(struct ibv_device **devices)
{
	struct device_list *list = list_of(devices);

	free_real(list->real);
	free(list);
}

UR_EXPORT const char *ibv_get_device_name(struct ibv_device *device)
{
	if (!ur_is_ours(device))
		return UR_FORWARD(NULL, ibv_get_device_name, device);
	return device->name;
}

/* The kernel does not know ours. */
UR_EXPORT int ibv_get_device_index(struct ibv_device *device)
{
	if (!ur_is_ours(device))
		return UR_FORWARD(-1, ibv_get_device_index, device);
	return -1;
}

UR_EXPORT __be64 ibv_get_device_guid(struct ibv_device *device)
{
	if (!ur_is_ours(device))
		return UR_FORWARD((__be64)0, ibv_get_device_guid, device);
	return ur_device_of(device)->guid;
}

UR_EXPORT struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	struct ur_context *context;

	if (!ur_is_ours(device))
		return UR_FORWARD(NULL, ibv_open_device, device);
	context = ur_context_open(ur_device_of(device));
	return context ? &context->verbs.context : NULL;
}

UR_EXPORT struct ibv_context *ibv_import_device(int cmd_fd)
{
	struct ur_context *context;

	if (!ur_command_fd_is_ours(cmd_fd))
		return UR_FORWARD(NULL, ibv_import_device, cmd_fd);
	context = ur_context_import(cmd_fd);
	return context ? &context->verbs.context : NULL;
}

UR_EXPORT int ibv_close_device(struct ibv_context *context)
{
	if (!ur_has_ours(context))
		return UR_FORWARD(ENOSYS, ibv_close_device, context);
	if (ur_context_close(ur_context_of(context)) == EBUSY)
		ur_context_abandon(ur_context_of(context));
	return 0;
}
