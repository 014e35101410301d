#include "device.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../link/address.h"
#include "core/version.h"
#include "engine.h"
#include "guid.h"
#include "interface.h"
#include "log.h"

/* As the kernel's software devices say that nobody made them. */
#define VENDOR_ID 0xffffff

/* What there is no limit for but memory: more than anybody wants. */
#define PLENTY (1 << 20)

static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static struct ur_device *devices; /* in the order they were found */

/* ---- What is ours ---- */

/* Stands in each of our devices, where those of libibverbs have nothing. Never called. */
static struct ibv_context *mark(struct ibv_device *device, int cmd_fd)
{
	(void)device;
	(void)cmd_fd;
	return NULL;
}

bool ur_is_ours(const struct ibv_device *device)
{
	return device->_ops._dummy1 == mark;
}

/* ---- Table of devices, its lock held ---- */

static struct ur_device *find(const char *if_name)
{
	struct ur_device *device = devices;

	while (device && strcmp(device->if_name, if_name) != 0)
		device = device->next;
	return device;
}

/*
 * It is held for as long as a batch of packets takes, mostly less than to sleep and be woken. So one that
 * waits for it tries for a while before it sleeps.
 */
static void init_lock(pthread_mutex_t *lock)
{
	pthread_mutexattr_t attr;

	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ADAPTIVE_NP);
	pthread_mutex_init(lock, &attr);
	pthread_mutexattr_destroy(&attr);
}

static struct ur_device *create(const struct ur_interface *interface)
{
	struct ur_device *device = calloc(1, sizeof(*device));
	struct ur_device **end = &devices;

	if (!device)
		return NULL;
	device->verbs._ops._dummy1 = mark;
	device->verbs.node_type = IBV_NODE_CA;
	device->verbs.transport_type = IBV_TRANSPORT_IB;
	snprintf(device->verbs.name, sizeof(device->verbs.name), "uroce_%s", interface->name);
	snprintf(device->verbs.dev_name, sizeof(device->verbs.dev_name), "%s", device->verbs.name);
	memcpy(device->if_name, interface->name, sizeof(device->if_name));
	init_lock(&device->lock);
	while (*end)
		end = &(*end)->next;
	*end = device;
	return device;
}

static void describe(struct ur_device *device, const struct ur_interface *interface)
{
	device->if_index = interface->index;
	device->loopback = interface->loopback;
	device->running = interface->running;
	device->guid = ur_guid_of(interface->mac, interface->name);
	device->mtu = interface->mtu;
	memcpy(device->gids, interface->gids, sizeof(device->gids));
	device->gid_count = interface->gid_count;
}

static int update(const struct ur_interface *interface)
{
	struct ur_device *device = find(interface->name);

	if (!device)
		device = create(interface);
	if (!device)
		return ENOMEM;
	if (device->contexts == 0)
		describe(device, interface);
	return 0;
}

static bool is_among(const struct ur_interface *interfaces, unsigned count, const char *if_name)
{
	for (unsigned i = 0; i < count; i++)
		if (strcmp(interfaces[i].name, if_name) == 0)
			return true;
	return false;
}

/* Their devices have no GIDs any more. */
static void forget_all_but(const struct ur_interface *interfaces, unsigned count)
{
	for (struct ur_device *device = devices; device; device = device->next)
		if (device->contexts == 0 && !is_among(interfaces, count, device->if_name))
			device->gid_count = 0;
}

static int update_all(void)
{
	struct ur_interface *interfaces;
	unsigned count;
	int error = ur_interfaces_find(&interfaces, &count);

	if (error) {
		ur_log(UR_LOG_ERROR, "cannot list the network interfaces: %s", strerror(error));
		return error;
	}
	forget_all_but(interfaces, count);
	for (unsigned i = 0; i < count && !error; i++)
		error = update(&interfaces[i]);
	free(interfaces);
	return error;
}

static unsigned add_to_list(struct ur_device **list, unsigned count, bool loopback)
{
	for (struct ur_device *device = devices; device; device = device->next)
		if (device->gid_count > 0 && device->loopback == loopback)
			list[count++] = device;
	return count;
}

static int make_list(struct ur_device ***list, unsigned *count)
{
	size_t room = 1;

	for (struct ur_device *device = devices; device; device = device->next)
		room++;
	*list = calloc(room, sizeof(**list));
	if (!*list)
		return ENOMEM;
	*count = add_to_list(*list, 0, false);
	*count = add_to_list(*list, *count, true);
	return 0;
}

static struct ur_device *find_by_gid(const union ibv_gid *gid, unsigned if_index, bool loopback)
{
	for (struct ur_device *device = devices; device; device = device->next)
		if (device->loopback == loopback &&
		    (if_index == 0 || device->if_index == if_index) &&
		    ur_device_gid_index(device, gid) >= 0)
			return device;
	return NULL;
}

/* ---- A process that is forked off ---- */

static void lock_table(void)
{
	pthread_mutex_lock(&table_lock);
}

static void unlock_table(void)
{
	pthread_mutex_unlock(&table_lock);
}

/*
 * Devices that are open are the parent's: they leave the table, and what the child does to their
 * contexts does not touch the link. Their locks may have been held by a thread that the child does
 * not have. What was counted is the parent's, too.
 */
static void disown_open_devices(void)
{
	struct ur_device **link = &devices;

	while (*link) {
		struct ur_device *device = *link;

		device->counters = (struct ur_counters){ 0 };
		if (device->contexts == 0) {
			link = &device->next;
			continue;
		}
		device->inherited = true;
		init_lock(&device->lock);
		*link = device->next;
	}
	unlock_table();
}

static void prepare_for_forks(void)
{
	pthread_atfork(lock_table, unlock_table, disown_open_devices);
}

/* ---- Life ---- */

/* The table's lock is held afterwards. */
static int lock_and_update(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, prepare_for_forks);
	lock_table();
	return update_all();
}

int ur_devices_scan(struct ur_device ***list, unsigned *count)
{
	int error = lock_and_update();

	if (!error)
		error = make_list(list, count);
	unlock_table();
	return error;
}

struct ur_device *ur_devices_find(const union ibv_gid *gid, unsigned if_index)
{
	struct ur_device *found = NULL;
	int error = lock_and_update();

	if (!error)
		found = find_by_gid(gid, if_index, false);
	if (!error && !found)
		found = find_by_gid(gid, if_index, true);
	unlock_table();
	return found;
}

struct ur_device *ur_devices_find_open(const char *if_name)
{
	struct ur_device *found;

	lock_table();
	found = find(if_name);
	if (found && found->contexts == 0)
		found = NULL;
	unlock_table();
	return found;
}

/* Table's lock held. */
static int start(struct ur_device *device)
{
	int error = update_all();

	if (!error && device->gid_count == 0) {
		ur_log(UR_LOG_ERROR, "%s: the network interface is gone, or has no address",
		       device->verbs.name);
		error = ENODEV;
	}
	return error ? error : ur_engine_start(device);
}

int ur_device_get(struct ur_device *device)
{
	int error = 0;

	if (device->inherited)
		return ENODEV;
	lock_table();
	if (device->contexts == 0)
		error = start(device);
	if (!error)
		device->contexts++;
	unlock_table();
	return error;
}

void ur_device_put(struct ur_device *device)
{
	if (device->inherited)
		return;
	lock_table();
	if (--device->contexts == 0) {
		ur_engine_stop(device);
		ur_key_table_free(&device->keys);
		ur_qp_table_free(&device->qps);
	}
	unlock_table();
}

void ur_devices_at_exit(void)
{
	/* Who holds it, may be what called exit. */
	if (pthread_mutex_trylock(&table_lock) != 0)
		return;
	for (struct ur_device *device = devices; device; device = device->next) {
		if (device->contexts > 0)
			ur_engine_at_exit(device);
		ur_counters_print(device->verbs.name, &device->counters);
	}
	unlock_table();
}

/* ---- Addresses ---- */

void ur_device_gid_address(const struct ur_device *device, const union ibv_gid *gid,
			   union ur_sockaddr *address)
{
	*address = (union ur_sockaddr){ 0 };
	if (ur_gid_is_ipv4(gid)) {
		address->v4.sin_family = AF_INET;
		memcpy(&address->v4.sin_addr, &gid->raw[12], sizeof(address->v4.sin_addr));
		return;
	}
	address->v6.sin6_family = AF_INET6;
	memcpy(&address->v6.sin6_addr, gid->raw, sizeof(address->v6.sin6_addr));
	if (IN6_IS_ADDR_LINKLOCAL(&address->v6.sin6_addr))
		address->v6.sin6_scope_id = device->if_index;
}

void ur_device_address(const struct ur_device *device, uint8_t gid_index,
		       union ur_sockaddr *address)
{
	ur_device_gid_address(device, &device->gids[gid_index], address);
}

size_t ur_device_addresses(const struct ur_device *device, struct ur_link_address *addresses)
{
	for (unsigned i = 0; i < device->gid_count; i++) {
		ur_device_address(device, (uint8_t)i, &addresses[i].address);
		addresses[i].gid_index = (uint8_t)i;
		addresses[i].if_index = device->if_index;
	}
	return device->gid_count;
}

int ur_device_gid_index(const struct ur_device *device, const union ibv_gid *gid)
{
	for (unsigned i = 0; i < device->gid_count; i++)
		if (memcmp(&device->gids[i], gid, sizeof(*gid)) == 0)
			return (int)i;
	return -1;
}

/* Whether it can be the address of a peer. */
static bool is_of_one_host(const union ibv_gid *gid)
{
	uint32_t ipv4;

	if (ur_gid_is_group(gid))
		return false;
	if (!ur_gid_is_ipv4(gid))
		return !IN6_IS_ADDR_UNSPECIFIED((const struct in6_addr *)gid->raw);
	memcpy(&ipv4, &gid->raw[12], sizeof(ipv4));
	return ipv4 != htonl(INADDR_ANY) && ipv4 != htonl(INADDR_BROADCAST);
}

/* What is wrong with attributes of a path, whoever it goes to; NULL: nothing. */
static const char *find_fault(const struct ur_device *device, const struct ibv_ah_attr *attr)
{
	if (attr->port_num != 1)
		return "its only port is 1";
	if (!attr->is_global)
		return "RoCE needs is_global and a GID";
	if (attr->grh.sgid_index >= device->gid_count)
		return "there is no such sgid_index";
	if (ur_gid_is_ipv4(&attr->grh.dgid) != ur_gid_is_ipv4(&device->gids[attr->grh.sgid_index]))
		return "one address is IPv4, the other IPv6: choose another sgid_index";
	return NULL;
}

/* fault: NULL, or what is wrong with the destination. */
static int make_path(const struct ur_device *device, const struct ibv_ah_attr *attr, uint16_t port,
		     const char *fault, struct ur_path *path)
{
	char gid[INET6_ADDRSTRLEN];

	if (!fault)
		fault = find_fault(device, attr);
	if (fault) {
		inet_ntop(AF_INET6, attr->grh.dgid.raw, gid, sizeof(gid));
		ur_log(UR_LOG_ERROR, "%s: no path to %s, port %u, sgid_index %u: %s",
		       device->verbs.name, gid, attr->port_num, attr->grh.sgid_index, fault);
		return EINVAL;
	}
	*path = (struct ur_path){ .gid_index = attr->grh.sgid_index,
				  .traffic_class = attr->grh.traffic_class,
				  .hop_limit = attr->grh.hop_limit };
	ur_device_gid_address(device, &attr->grh.dgid, &path->remote);
	ur_address_set_port(&path->remote, port);
	return 0;
}

int ur_device_path(const struct ur_device *device, const struct ibv_ah_attr *attr, uint16_t port,
		   struct ur_path *path)
{
	const char *fault = is_of_one_host(&attr->grh.dgid)
				    ? NULL
				    : "the destination is not the address of a host";

	return make_path(device, attr, port, fault, path);
}

int ur_device_group_path(const struct ur_device *device, const struct ibv_ah_attr *attr,
			 struct ur_path *path)
{
	const char *fault =
		ur_gid_is_group(&attr->grh.dgid) ? NULL : "the destination is not a group";

	return make_path(device, attr, UR_UDP_PORT, fault, path);
}

/* ---- Attributes ---- */

void ur_device_attr(const struct ur_device *device, struct ibv_device_attr *attr)
{
	*attr = (struct ibv_device_attr){
		.fw_ver = UR_VERSION,
		.node_guid = device->guid,
		.sys_image_guid = device->guid,
		.max_mr_size = UINT64_MAX,
		.page_size_cap = UINT32_C(0xfffff000), /* all from 4 KiB on */
		.vendor_id = VENDOR_ID,
		.max_qp = UR_MAX_QPS,
		.max_qp_wr = UR_MAX_WRS,
		.device_cap_flags = IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_SYS_IMAGE_GUID |
				    IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_SRQ_RESIZE |
				    IBV_DEVICE_MEM_MGT_EXTENSIONS | IBV_DEVICE_MEM_WINDOW |
				    IBV_DEVICE_MEM_WINDOW_TYPE_2B | IBV_DEVICE_XRC,
		.max_sge = UR_MAX_SGE,
		.max_sge_rd = UR_MAX_SGE,
		.max_cq = PLENTY,
		.max_cqe = UR_MAX_CQE,
		.max_mr = UR_MAX_KEYS,
		.max_mw = UR_MAX_KEYS,
		.max_pd = PLENTY,
		.max_qp_rd_atom = UR_MAX_RD_ATOMIC,
		.max_res_rd_atom = UR_MAX_RD_ATOMIC * UR_MAX_QPS,
		.max_qp_init_rd_atom = UR_MAX_RD_ATOMIC,
		.atomic_cap = IBV_ATOMIC_GLOB, /* done by the processor */
		.max_ah = PLENTY,
		.max_mcast_grp = UR_MAX_GROUPS,
		.max_mcast_qp_attach = UR_MAX_GROUP_QPS,
		.max_total_mcast_qp_attach = UR_MAX_GROUPS * UR_MAX_GROUP_QPS,
		.max_srq = PLENTY,
		.max_srq_wr = UR_MAX_WRS,
		.max_srq_sge = UR_MAX_SGE,
		.max_pkeys = 1,
		.local_ca_ack_delay = 15,
		.phys_port_cnt = 1,
	};
}

/* The next rate that InfiniBand has: width 1 is 1X, 2 is 4X; the speeds of a lane are flags. */
static void set_rate(struct ibv_port_attr *attr, unsigned speed)
{
	static const struct {
		unsigned speed; /* Mbit/s */
		uint8_t width;
		uint8_t lane;
	} rates[] = {
		{ 2500, 1, 1 },    { 5000, 1, 2 },    { 10000, 2, 1 },
		{ 25000, 1, 32 },  { 40000, 2, 8 },   { 50000, 1, 64 },
		{ 100000, 2, 32 }, { 200000, 2, 64 }, { UINT32_MAX, 2, 128 },
	};
	unsigned i = 0;

	if (speed == 0)
		speed = 10000;
	while (rates[i].speed < speed)
		i++;
	attr->active_width = rates[i].width;
	attr->active_speed = rates[i].lane;
}

void ur_device_port_attr(const struct ur_device *device, struct ibv_port_attr *attr)
{
	*attr = (struct ibv_port_attr){
		.state = device->running ? IBV_PORT_ACTIVE : IBV_PORT_DOWN,
		.max_mtu = device->mtu,
		.active_mtu = device->mtu,
		.gid_tbl_len = UR_MAX_GIDS,
		.port_cap_flags = IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS,
		.max_msg_sz = UR_MAX_MESSAGE,
		.pkey_tbl_len = 1,
		.max_vl_num = 1,
		.phys_state = device->running ? 5 /* link up */ : 3 /* disabled */,
		.link_layer = IBV_LINK_LAYER_ETHERNET,
		.flags = IBV_QPF_GRH_REQUIRED,
	};
	set_rate(attr, ur_interface_speed(device->if_name));
}
