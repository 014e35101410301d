/*
 * Questions about a device and its port.
 */
#include <string.h>

#include "../core/clock.h"
#include "api.h"
#include "query.h"

#undef ibv_query_port

/* What programs that were built before port_cap_flags2 existed have room for. */
#define OLD_PORT_ATTR_SIZE offsetof(struct ibv_port_attr, port_cap_flags2)

/* Of the extended flags of a device; headers of verbs have no name for it yet. */
#define UR_DEVICE_ATOMIC_WRITE (UINT64_C(1) << 40)

int ur_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	ur_device_attr(ur_device_behind(context), attr);
	return 0;
}

int ur_query_device_ex(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
		       struct ibv_device_attr_ex *attr, size_t attr_size)
{
	struct ibv_device_attr_ex all = { .completion_timestamp_mask = UINT64_MAX,
					  .hca_core_clock = UR_NS_PER_MS, /* kHz */
					  .phys_port_cnt_ex = 1 };

	if ((input && input->comp_mask) || attr_size < sizeof(attr->orig_attr))
		return EINVAL;
	ur_device_attr(ur_device_behind(context), &all.orig_attr);
	all.device_cap_flags_ex = all.orig_attr.device_cap_flags | UR_DEVICE_ATOMIC_WRITE;
	memset(attr, 0, attr_size);
	memcpy(attr, &all, attr_size < sizeof(all) ? attr_size : sizeof(all));
	return 0;
}

int ur_query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr,
		  size_t size)
{
	struct ibv_port_attr all;

	if (port != 1)
		return EINVAL;
	ur_device_port_attr(ur_device_behind(context), &all);
	memset(attr, 0, size);
	memcpy(attr, &all, size < sizeof(all) ? size : sizeof(all));
	return 0;
}

int ur_query_old_port(struct ibv_context *context, uint8_t port, struct _compat_ibv_port_attr *attr)
{
	return ur_query_port(context, port, (struct ibv_port_attr *)attr, OLD_PORT_ATTR_SIZE);
}

int ur_query_rt_values(struct ibv_context *context, struct ibv_values_ex *values)
{
	(void)context;
	if (values->comp_mask & ~(uint32_t)IBV_VALUES_MASK_RAW_CLOCK)
		return EINVAL;
	/* All of it in the nanoseconds, which is where programs look for the cycles of a clock. */
	values->raw_clock = (struct timespec){ .tv_nsec = (long)ur_clock_ns() };
	values->comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
	return 0;
}

UR_EXPORT int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	if (!ur_has_ours(context))
		return UR_FORWARD(ENOSYS, ibv_query_device, context, attr);
	return ur_query_device(context, attr);
}

UR_EXPORT int ibv_query_port(struct ibv_context *context, uint8_t port,
			     struct _compat_ibv_port_attr *attr)
{
	if (!ur_has_ours(context))
		return UR_FORWARD(ENOSYS, ibv_query_port, context, port, attr);
	return ur_query_old_port(context, port, attr);
}

/* ---- Tables of the port ---- */

static bool is_in_table(uint32_t port, int64_t index)
{
	return port == 1 && index >= 0 && index < UR_MAX_GIDS;
}

/* NULL: the entry is empty, or there is none. */
static const union ibv_gid *find_gid(const struct ibv_context *context, uint32_t port,
				     int64_t index)
{
	const struct ur_device *device = ur_device_behind(context);

	return port == 1 && index >= 0 && index < device->gid_count ? &device->gids[index] : NULL;
}

static struct ibv_gid_entry describe_gid(const struct ur_device *device, uint32_t index)
{
	return (struct ibv_gid_entry){ .gid = device->gids[index],
				       .gid_index = index,
				       .port_num = 1,
				       .gid_type = IBV_GID_TYPE_ROCE_V2,
				       .ndev_ifindex = device->if_index };
}

static void copy_entry(void *to, const struct ibv_gid_entry *entry, size_t size)
{
	memset(to, 0, size);
	memcpy(to, entry, size < sizeof(*entry) ? size : sizeof(*entry));
}

static int fail(int error)
{
	errno = error;
	return -1;
}

UR_EXPORT int ibv_query_gid(struct ibv_context *context, uint8_t port, int index,
			    union ibv_gid *gid)
{
	const union ibv_gid *found;

	if (!ur_has_ours(context))
		return UR_FORWARD(-1, ibv_query_gid, context, port, index, gid);
	if (!is_in_table(port, index))
		return fail(EINVAL);
	found = find_gid(context, port, index);
	*gid = found ? *found : (union ibv_gid){ 0 };
	return 0;
}

UR_EXPORT int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port, uint32_t index,
				struct ibv_gid_entry *to, uint32_t flags, size_t size)
{
	struct ibv_gid_entry entry;

	if (!ur_has_ours(context))
		return UR_FORWARD(ENOSYS, _ibv_query_gid_ex, context, port, index, to, flags, size);
	if (flags || !is_in_table(port, index))
		return EINVAL;
	if (!find_gid(context, port, index))
		return ENODATA;
	entry = describe_gid(ur_device_behind(context), index);
	copy_entry(to, &entry, size);
	return 0;
}

UR_EXPORT ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *to,
				       size_t max_entries, uint32_t flags, size_t size)
{
	const struct ur_device *device = ur_device_behind(context);

	if (!ur_has_ours(context))
		return UR_FORWARD(-ENOSYS, _ibv_query_gid_table, context, to, max_entries, flags,
				  size);
	if (flags || max_entries < device->gid_count)
		return -EINVAL;
	for (uint32_t i = 0; i < device->gid_count; i++) {
		struct ibv_gid_entry entry = describe_gid(device, i);

		copy_entry((char *)to + i * size, &entry, size);
	}
	return device->gid_count;
}

/* Private, but ibv_devinfo calls it: whether it is a GID of RoCE v2. */
int ibv_query_gid_type(struct ibv_context *context, uint8_t port, unsigned index, unsigned *type);

UR_EXPORT int ibv_query_gid_type(struct ibv_context *context, uint8_t port, unsigned index,
				 unsigned *type)
{
	if (!ur_has_ours(context))
		return UR_FORWARD(-1, ibv_query_gid_type, context, port, index, type);
	if (!is_in_table(port, index))
		return fail(EINVAL);
	*type = 1;
	return 0;
}

UR_EXPORT int ibv_query_pkey(struct ibv_context *context, uint8_t port, int index, __be16 *pkey)
{
	if (!ur_has_ours(context))
		return UR_FORWARD(-1, ibv_query_pkey, context, port, index, pkey);
	if (port != 1 || index != 0)
		return fail(EINVAL);
	*pkey = UR_DEFAULT_PKEY;
	return 0;
}

UR_EXPORT int ibv_get_pkey_index(struct ibv_context *context, uint8_t port, __be16 pkey)
{
	if (!ur_has_ours(context))
		return UR_FORWARD(-1, ibv_get_pkey_index, context, port, pkey);
	return port == 1 && pkey == UR_DEFAULT_PKEY ? 0 : fail(EINVAL);
}

/* Our devices have no folder: a file of them would be looked for in the root of the file system. */
int ibv_read_sysfs_file(const char *folder, const char *file, char *text, size_t size);

UR_EXPORT int ibv_read_sysfs_file(const char *folder, const char *file, char *text, size_t size)
{
	if (*folder)
		return UR_FORWARD(-1, ibv_read_sysfs_file, folder, file, text, size);
	return fail(ENOENT);
}
