#define LOG_MODULE "device"

#include "device.h"

#include <arpa/inet.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "text.h"

#define GID_LIST_SIZE 1024

/* Address handles have 8 bits for the index. */
#define MAX_GIDS 256

struct rs_device {
	struct rs_device_info info;
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_device_attr attr;
	struct ibv_port_attr port_attr;
	unsigned holders;
	bool failed;
};

static enum rs_device_kind kind_of(const struct ibv_device *verbs_device)
{
	char path[PATH_MAX];

	if (strncmp(verbs_device->name, "uroce_", 6) == 0)
		return RS_DEVICE_UROCE;
	/* A device that no hardware stands behind has its place under "virtual" in sysfs. */
	if (realpath(verbs_device->ibdev_path, path) && strstr(path, "/devices/virtual/"))
		return RS_DEVICE_KERNEL_SOFTWARE;
	return RS_DEVICE_HARDWARE;
}

static uint32_t ops_of(const struct ibv_device *verbs_device, const struct ibv_device_attr *attr)
{
	uint32_t ops = RS_OP_BIT(RS_OP_SEND) | RS_OP_BIT(RS_OP_SEND_IMMEDIATE) |
		       RS_OP_BIT(RS_OP_WRITE) | RS_OP_BIT(RS_OP_WRITE_IMMEDIATE) |
		       RS_OP_BIT(RS_OP_READ) | RS_OP_BIT(RS_OP_EVENT_GET) |
		       RS_OP_BIT(RS_OP_EVENT_SET);

	/* iWARP cannot connect by descriptors; usNIC and others have no reliable connections. */
	if (verbs_device->transport_type != IBV_TRANSPORT_IB)
		return 0;
	if (attr->max_srq > 0)
		ops |= RS_OP_BIT(RS_OP_RECEIVE);
	if (attr->atomic_cap != IBV_ATOMIC_NONE)
		ops |= RS_OP_BIT(RS_OP_COMPARE_AND_SWAP) | RS_OP_BIT(RS_OP_FETCH_AND_ADD) |
		       RS_OP_BIT(RS_OP_EVENT_ADD);
	return ops;
}

static enum rs_status query_attr(struct ibv_context *context, struct ibv_device_attr *attr)
{
	struct ibv_device_attr_ex extended;
	int error = ibv_query_device_ex(context, NULL, &extended);

	if (error)
		return LOG_FAILED_CALL(error, NULL, "ibv_query_device_ex(%s)",
				       ibv_get_device_name(context->device));
	*attr = extended.orig_attr;
	return RS_OK;
}

static enum rs_status query_port(struct ibv_context *context, uint8_t port,
				 struct ibv_port_attr *port_attr)
{
	int error = ibv_query_port(context, port, port_attr);

	if (error)
		return LOG_FAILED_CALL(error, NULL, "ibv_query_port(%s, port %u)",
				       ibv_get_device_name(context->device), port);
	return RS_OK;
}

static enum rs_status find_port(struct rs_device *device)
{
	for (unsigned port = 1; port <= device->attr.phys_port_cnt; port++) {
		struct ibv_port_attr port_attr;
		enum rs_status status = query_port(device->context, (uint8_t)port, &port_attr);

		if (status != RS_OK)
			return status;
		device->info.active = port_attr.state == IBV_PORT_ACTIVE;
		if (port == 1 || device->info.active) {
			device->info.port = (uint8_t)port;
			device->port_attr = port_attr;
		}
		if (device->info.active)
			return RS_OK;
	}
	return RS_OK;
}

/* Opens the device and learns what it can do; makes nothing on it. */
static enum rs_status open_verbs(struct ibv_device *verbs_device, struct rs_device *device)
{
	enum rs_status status;

	*device = (struct rs_device){ .info.kind = kind_of(verbs_device) };
	snprintf(device->info.name, sizeof(device->info.name), "%s", verbs_device->name);
	device->context = ibv_open_device(verbs_device);
	if (!device->context)
		return LOG_FAILED_CALL(errno ? errno : ENODEV, NULL, "ibv_open_device(%s)",
				       verbs_device->name);
	status = query_attr(device->context, &device->attr);
	if (status != RS_OK)
		goto err_close;
	device->info.ops = ops_of(verbs_device, &device->attr);
	status = find_port(device);
	if (status != RS_OK)
		goto err_close;
	return RS_OK;

err_close:
	ibv_close_device(device->context);
	return status;
}

static int compare_infos(const void *a, const void *b)
{
	const struct rs_device_info *left = a, *right = b;

	if (left->active != right->active)
		return left->active ? -1 : 1;
	if ((left->ops != 0) != (right->ops != 0))
		return left->ops != 0 ? -1 : 1;
	if (left->kind != right->kind)
		return left->kind < right->kind ? -1 : 1;
	return strcmp(left->name, right->name);
}

/* *verbs_list is NULL-terminated and never NULL on success; free it with ibv_free_device_list. */
static enum rs_status get_verbs_list(struct ibv_device ***verbs_list, int *count)
{
	*verbs_list = ibv_get_device_list(count);
	if (*verbs_list)
		return RS_OK;
	*count = 0;
	/* ENOSYS: the kernel's RDMA modules are not loaded, so there is no device. */
	if (errno == ENOSYS)
		return RS_OK;
	return LOG_FAILED_CALL(errno, NULL, "ibv_get_device_list()");
}

enum rs_status rs_device_list(struct rs_device_info **list, size_t *count)
{
	struct ibv_device **verbs_list;
	struct rs_device_info *infos;
	int verbs_count;
	size_t used = 0;
	enum rs_status status = get_verbs_list(&verbs_list, &verbs_count);

	if (status != RS_OK)
		return status;
	infos = calloc((size_t)verbs_count + 1, sizeof(*infos));
	if (!infos) {
		if (verbs_list)
			ibv_free_device_list(verbs_list);
		return RS_ERR_NO_MEMORY;
	}
	for (int i = 0; i < verbs_count; i++) {
		struct rs_device device;

		/* One that does not open was logged; the others are still of use. */
		if (open_verbs(verbs_list[i], &device) != RS_OK)
			continue;
		infos[used++] = device.info;
		ibv_close_device(device.context);
	}
	if (verbs_list)
		ibv_free_device_list(verbs_list);
	qsort(infos, used, sizeof(*infos), compare_infos);
	*list = infos;
	*count = used;
	return RS_OK;
}

void rs_device_list_free(struct rs_device_info *list)
{
	free(list);
}

bool rs_device_supports(const struct rs_device_info *info, enum rs_op op)
{
	return info->ops & RS_OP_BIT(op);
}

static const char *first_missing_op(const struct rs_device_info *info, uint32_t ops)
{
	for (unsigned op = 0; op < RS_OP_COUNT; op++)
		if ((ops & RS_OP_BIT(op)) && !rs_device_supports(info, (enum rs_op)op))
			return rs_op_name((enum rs_op)op);
	return NULL;
}

static enum rs_status check_info(const struct rs_device_info *info, uint32_t ops)
{
	const char *missing = first_missing_op(info, ops);

	if (missing) {
		LOG_ERROR("device %s cannot do this: %s over a reliable connection", info->name,
			  missing);
		return RS_ERR_NOT_SUPPORTED;
	}
	if (!info->active) {
		LOG_ERROR(
			"device %s has no active port: is its network interface up (ip link), the cable plugged in?",
			info->name);
		return RS_ERR_NOT_FOUND;
	}
	return RS_OK;
}

static enum rs_status no_such_device(const char *name, struct ibv_device **verbs_list)
{
	char names[512] = "";

	for (; verbs_list && *verbs_list; verbs_list++)
		rs_text_append(names, sizeof(names), "%s%s", names[0] ? ", " : "",
			       (*verbs_list)->name);
	if (!names[0])
		LOG_ERROR(
			"no RDMA device on this machine%s%s%s; software ones: uroce, if this program was built with it and a network interface is up (ip link set lo up), or the kernel's: modprobe rdma_rxe && rdma link add rxe0 type rxe netdev IFNAME",
			name ? " (\"" : "", name ? name : "", name ? "\" was asked for)" : "");
	else if (name)
		LOG_ERROR("no RDMA device \"%s\" on this machine; there is: %s", name, names);
	else
		LOG_ERROR("no RDMA device of this machine can be opened: %s", names);
	return RS_ERR_NOT_FOUND;
}

static struct ibv_device *find_verbs_device(struct ibv_device **list, const char *name)
{
	for (; list && *list; list++)
		if (strcmp((*list)->name, name) == 0)
			return *list;
	return NULL;
}

/* The device of that name; NULL: says only why there is none to choose from. */
static enum rs_status open_by_name(const char *name, struct rs_device *device)
{
	struct ibv_device **verbs_list, *verbs_device;
	int verbs_count;
	enum rs_status status = get_verbs_list(&verbs_list, &verbs_count);

	if (status != RS_OK)
		return status;
	verbs_device = name ? find_verbs_device(verbs_list, name) : NULL;
	status = verbs_device ? open_verbs(verbs_device, device) : no_such_device(name, verbs_list);
	if (verbs_list)
		ibv_free_device_list(verbs_list);
	return status;
}

/*
 * The list is sorted best first: the first that will do, else the first, which will say what it
 * lacks.
 */
static const struct rs_device_info *choose_best(const struct rs_device_info *list, size_t count,
						uint32_t ops)
{
	for (size_t i = 0; i < count; i++)
		if (list[i].active && !first_missing_op(&list[i], ops))
			return &list[i];
	return count > 0 ? &list[0] : NULL;
}

static enum rs_status open_best(uint32_t ops, struct rs_device *device)
{
	const struct rs_device_info *best;
	struct rs_device_info *list;
	size_t count;
	enum rs_status status = rs_device_list(&list, &count);

	if (status != RS_OK)
		return status;
	best = choose_best(list, count, ops);
	status = open_by_name(best ? best->name : NULL, device);
	rs_device_list_free(list);
	return status;
}

enum rs_status rs_device_open(const char *name, uint32_t ops, struct rs_device **device)
{
	struct rs_device *opened = malloc(sizeof(*opened));
	enum rs_status status;

	if (!opened)
		return RS_ERR_NO_MEMORY;
	status = name ? open_by_name(name, opened) : open_best(ops, opened);
	if (status != RS_OK)
		goto err_free;
	status = check_info(&opened->info, ops);
	if (status != RS_OK)
		goto err_close;
	opened->pd = ibv_alloc_pd(opened->context);
	if (!opened->pd) {
		status = LOG_FAILED_CALL(errno, NULL, "ibv_alloc_pd(%s)", opened->info.name);
		goto err_close;
	}
	*device = opened;
	return RS_OK;

err_close:
	ibv_close_device(opened->context);
err_free:
	free(opened);
	return status;
}

enum rs_status rs_device_close(struct rs_device *device)
{
	enum rs_status status = RS_OK;
	int error;

	if (!device)
		return RS_OK;
	if (device->holders > 0)
		return RS_ERR_IN_USE;
	error = ibv_dealloc_pd(device->pd);
	if (error)
		status = LOG_FAILED_CALL(error, NULL, "ibv_dealloc_pd(%s)", device->info.name);
	if (ibv_close_device(device->context))
		status = LOG_FAILED_CALL(errno, NULL, "ibv_close_device(%s)", device->info.name);
	free(device);
	return status;
}

const struct rs_device_info *rs_device_info(const struct rs_device *device)
{
	return &device->info;
}

const struct ibv_device_attr *rs_device_attr(const struct rs_device *device)
{
	return &device->attr;
}

const struct ibv_port_attr *rs_device_port_attr(const struct rs_device *device)
{
	return &device->port_attr;
}

struct ibv_context *rs_device_verbs(const struct rs_device *device)
{
	return device->context;
}

struct ibv_pd *rs_device_pd(const struct rs_device *device)
{
	return device->pd;
}

const char *rs_gid_text(const union ibv_gid *gid, char text[RS_GID_TEXT_SIZE])
{
	if (!inet_ntop(AF_INET6, gid->raw, text, RS_GID_TEXT_SIZE))
		text[0] = '\0';
	return text;
}

const char *rs_gid_type_name(uint32_t gid_type)
{
	switch (gid_type) {
	case IBV_GID_TYPE_ROCE_V1:
		return "rocev1";
	case IBV_GID_TYPE_ROCE_V2:
		return "rocev2";
	default:
		return "ib";
	}
}

static bool holds_ipv4(const union ibv_gid *gid)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	return memcmp(gid->raw, mapped, sizeof(mapped)) == 0;
}

static bool is_link_local(const union ibv_gid *gid)
{
	return gid->raw[0] == 0xfe && (gid->raw[1] & 0xc0) == 0x80;
}

/* How good an entry is when the user names none; lower is better. */
static unsigned gid_rank(const struct ibv_gid_entry *entry)
{
	if (entry->gid_type == IBV_GID_TYPE_ROCE_V2) {
		if (holds_ipv4(&entry->gid))
			return 0;
		return is_link_local(&entry->gid) ? 2 : 1;
	}
	return entry->gid_type == IBV_GID_TYPE_IB ? 3 : 4;
}

static int gid_count(const struct rs_device *device)
{
	return device->port_attr.gid_tbl_len < MAX_GIDS ? device->port_attr.gid_tbl_len : MAX_GIDS;
}

static enum rs_status no_such_gid(const struct rs_device *device, int index,
				  const struct ibv_gid_entry *entries, size_t count)
{
	char list[GID_LIST_SIZE] = "";
	char text[RS_GID_TEXT_SIZE];
	bool outside = index >= gid_count(device);

	for (size_t i = 0; i < count; i++)
		rs_text_append(list, sizeof(list), "%s%u (%s %s)", i > 0 ? ", " : "",
			       entries[i].gid_index, rs_gid_type_name(entries[i].gid_type),
			       rs_gid_text(&entries[i].gid, text));
	if (count == 0)
		LOG_ERROR(
			"port %u of device %s has no GID: does its network interface have an address (ip addr)?",
			device->info.port, device->info.name);
	else
		LOG_ERROR("GID index %d of device %s %s; there is: %s", index, device->info.name,
			  outside ? "is out of range" : "is empty", list);
	return outside ? RS_ERR_INVALID_VALUE : RS_ERR_NOT_FOUND;
}

/* *entries: the port's GIDs that are not empty; the caller frees them. */
static enum rs_status read_gids(const struct rs_device *device, struct ibv_gid_entry **entries,
				size_t *count)
{
	size_t table_length = (size_t)gid_count(device);

	*count = 0;
	*entries = calloc(table_length + 1, sizeof(**entries));
	if (!*entries)
		return RS_ERR_NO_MEMORY;
	for (size_t i = 0; i < table_length; i++) {
		struct ibv_gid_entry *entry = &(*entries)[*count];
		int error =
			ibv_query_gid_ex(device->context, device->info.port, (uint32_t)i, entry, 0);

		if (error == 0)
			(*count)++;
		else if (error != ENODATA) { /* ENODATA: an empty entry */
			free(*entries);
			return LOG_FAILED_CALL(error, NULL,
					       "ibv_query_gid_ex(%s, port %u, index %zu)",
					       device->info.name, device->info.port, i);
		}
	}
	return RS_OK;
}

enum rs_status rs_device_choose_gid(const struct rs_device *device, int index,
				    struct ibv_gid_entry *entry)
{
	struct ibv_gid_entry *entries, *best = NULL;
	size_t count;
	enum rs_status status = read_gids(device, &entries, &count);

	if (status != RS_OK)
		return status;
	for (size_t i = 0; i < count; i++) {
		if (index >= 0 ? entries[i].gid_index == (uint32_t)index
			       : !best || gid_rank(&entries[i]) < gid_rank(best))
			best = &entries[i];
	}
	if (best)
		*entry = *best;
	else
		status = no_such_gid(device, index, entries, count);
	free(entries);
	return status;
}

void rs_device_set_failed(struct rs_device *device)
{
	device->failed = true;
}

bool rs_device_has_failed(const struct rs_device *device)
{
	return device->failed;
}

void rs_device_hold(struct rs_device *device)
{
	device->holders++;
}

void rs_device_release(struct rs_device *device)
{
	device->holders--;
}
