#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <ifaddrs.h>
#include <linux/if_packet.h>
#include <net/if_arp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../../uroce/core/device.h"
#include "../../../uroce/core/guid.h"
#include "core_surroundings.h"

/* ---- A system whose network interfaces a test makes up ---- */

#define MAX_ENTRIES 64

static struct {
	struct ifaddrs entries[MAX_ENTRIES];
	char names[MAX_ENTRIES][IFNAMSIZ];
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
		struct sockaddr_ll link;
	} addresses[MAX_ENTRIES];
	unsigned count;
	int error;
	int mtu;
	char ipv6_flags[512];
	char machine_id[64];
	char speed[16];
} fake;

int getifaddrs(struct ifaddrs **list)
{
	if (fake.error) {
		errno = fake.error;
		return -1;
	}
	for (unsigned i = 0; i < fake.count; i++)
		fake.entries[i].ifa_next = i + 1 < fake.count ? &fake.entries[i + 1] : NULL;
	*list = fake.count > 0 ? fake.entries : NULL;
	return 0;
}

void freeifaddrs(struct ifaddrs *list)
{
	(void)list;
}

unsigned if_nametoindex(const char *name)
{
	return (unsigned char)name[strlen(name) - 1];
}

int ioctl(int fd, unsigned long request, ...)
{
	struct ifreq *interface;
	va_list arguments;

	(void)fd;
	assert_int_equal(request, SIOCGIFMTU);
	va_start(arguments, request);
	interface = va_arg(arguments, struct ifreq *);
	va_end(arguments);
	interface->ifr_mtu = fake.mtu;
	return 0;
}

static FILE *open_text(char *text)
{
	if (*text)
		return fmemopen(text, strlen(text), "r");
	errno = ENOENT;
	return NULL;
}

FILE *fopen(const char *path, const char *mode)
{
	FILE *(*real)(const char *, const char *) =
		(FILE * (*)(const char *, const char *)) dlsym(RTLD_NEXT, "fopen");

	if (strcmp(path, "/proc/net/if_inet6") == 0)
		return open_text(fake.ipv6_flags);
	if (strcmp(path, "/etc/machine-id") == 0)
		return open_text(fake.machine_id);
	if (strncmp(path, "/sys/class/net/", 15) == 0)
		return open_text(fake.speed);
	return real(path, mode);
}

static struct ifaddrs *add_entry(const char *name, unsigned flags, sa_family_t family)
{
	unsigned at = fake.count++;

	assert_true(at < MAX_ENTRIES);
	snprintf(fake.names[at], sizeof(fake.names[at]), "%s", name);
	memset(&fake.addresses[at], 0, sizeof(fake.addresses[at]));
	fake.addresses[at].any.sa_family = family;
	fake.entries[at] = (struct ifaddrs){ .ifa_name = fake.names[at],
					     .ifa_flags = flags,
					     .ifa_addr = &fake.addresses[at].any };
	return &fake.entries[at];
}

/* An address of an interface that is up; IPv6 if it has a colon. */
static void add_address(const char *name, const char *address)
{
	unsigned flags = IFF_UP | IFF_RUNNING | (strcmp(name, "lo") == 0 ? IFF_LOOPBACK : 0);
	sa_family_t family = strchr(address, ':') ? AF_INET6 : AF_INET;
	unsigned at = fake.count;

	add_entry(name, flags, family);
	if (family == AF_INET)
		inet_pton(family, address, &fake.addresses[at].v4.sin_addr);
	else
		inet_pton(family, address, &fake.addresses[at].v6.sin6_addr);
}

static void add_mac(const char *name, const uint8_t mac[6])
{
	struct sockaddr_ll *link = &fake.addresses[fake.count].link;

	add_entry(name, IFF_UP, AF_PACKET);
	link->sll_hatype = ARPHRD_ETHER;
	link->sll_halen = 6;
	memcpy(link->sll_addr, mac, 6);
}

static int set_up(void **state)
{
	(void)state;
	memset(&engine, 0, sizeof(engine));
	memset(&fake, 0, sizeof(fake));
	fake.mtu = 1500;
	strcpy(fake.machine_id, "0123456789abcdef\n");
	return 0;
}

/* ---- Devices that are found ---- */

static struct ur_device *list[16];
static unsigned listed;

static void scan(void)
{
	struct ur_device **devices;

	assert_int_equal(ur_devices_scan(&devices, &listed), 0);
	assert_true(listed <= 16);
	memcpy(list, devices, listed * sizeof(*list));
	free(devices);
}

/* Scans, and returns the only device. */
static struct ur_device *scan_one(void)
{
	scan();
	assert_int_equal(listed, 1);
	return list[0];
}

static void assert_gid(const struct ur_device *device, unsigned index, const char *text)
{
	union ibv_gid gid;

	assert_true(index < device->gid_count);
	assert_int_equal(inet_pton(AF_INET6, text, gid.raw), 1);
	assert_memory_equal(&device->gids[index], &gid, sizeof(gid));
}

static void test_each_interface_with_an_address_is_a_device(void **state)
{
	(void)state;
	add_mac("eth0", (uint8_t[6]){ 2, 0, 0, 0, 0, 1 });
	add_mac("eth1", (uint8_t[6]){ 2, 0, 0, 0, 0, 2 });
	add_address("lo", "127.0.0.1");
	add_address("eth0", "192.0.2.1");
	add_address("eth2", "192.0.2.2");
	add_address("lo", "::1");
	add_entry("eth3", 0, AF_INET);
	add_entry("eth4", IFF_UP, AF_INET)->ifa_addr = NULL;
	scan();
	assert_int_equal(listed, 3);
	assert_string_equal(list[0]->verbs.name, "uroce_eth0");
	assert_string_equal(list[1]->verbs.name, "uroce_eth2");
	assert_string_equal(list[2]->verbs.name, "uroce_lo");
	assert_gid(list[2], 0, "::ffff:127.0.0.1");
	assert_gid(list[2], 1, "::1");
}

static void test_devices_are_as_verbs_need_them(void **state)
{
	const struct ibv_device real = { .name = "mlx5_0" };
	struct ur_device *device;

	(void)state;
	add_address("eth0", "192.0.2.1");
	device = scan_one();
	assert_int_equal(device->verbs.node_type, IBV_NODE_CA);
	assert_int_equal(device->verbs.transport_type, IBV_TRANSPORT_IB);
	assert_string_equal(device->verbs.ibdev_path, "");
	assert_true(ur_is_ours(&device->verbs));
	assert_false(ur_is_ours(&real));
	assert_ptr_equal(ur_device_of(&device->verbs), device);
	assert_int_equal(device->if_index, '0');
}

static void test_gids_are_ipv4_then_ipv6_then_link_local(void **state)
{
	struct ur_device *device;

	(void)state;
	add_address("eth0", "fe80::1");
	add_address("eth0", "2001:db8::1");
	add_address("eth0", "192.0.2.1");
	add_address("eth0", "fe80::2");
	add_address("eth0", "fd00::1");
	add_address("eth0:1", "192.0.2.2");
	add_address("eth0", "192.0.2.1");
	device = scan_one();
	assert_int_equal(device->gid_count, 6);
	assert_gid(device, 0, "::ffff:192.0.2.1");
	assert_gid(device, 1, "::ffff:192.0.2.2");
	assert_gid(device, 2, "2001:db8::1");
	assert_gid(device, 3, "fd00::1");
	assert_gid(device, 4, "fe80::1");
	assert_gid(device, 5, "fe80::2");
}

static void test_no_more_addresses_are_taken_than_there_is_room_for(void **state)
{
	(void)state;
	for (unsigned i = 0; i < UR_MAX_GIDS + 5; i++) {
		char address[32];

		snprintf(address, sizeof(address), "192.0.2.%u", i);
		add_address("eth0", address);
	}
	assert_int_equal(scan_one()->gid_count, UR_MAX_GIDS);
}

static void test_addresses_that_are_not_used_yet_are_left_out(void **state)
{
	struct ur_device *device;

	(void)state;
	strcpy(fake.ipv6_flags, "20010db8000000000000000000000001 02 40 00 40     eth0\n"
				"20010db8000000000000000000000002 02 40 00 08     eth0\n"
				"20010db8000000000000000000000003 02 40 00 40     eth1\n"
				"20010db8000000000000000000000003 02 40 00 80     eth0\n"
				"nonsense\n");
	add_address("eth0", "2001:db8::1");
	add_address("eth0", "2001:db8::2");
	add_address("eth0", "2001:db8::3");
	add_address("eth0", "2001:db8::4");
	device = scan_one();
	assert_int_equal(device->gid_count, 2);
	assert_gid(device, 0, "2001:db8::3");
	assert_gid(device, 1, "2001:db8::4");
}

static void test_the_mtu_is_the_largest_that_fits_with_headers(void **state)
{
	static const struct {
		int interface;
		enum ibv_mtu mtu;
	} mtus[] = {
		{ 65536, IBV_MTU_4096 }, { 9000, IBV_MTU_4096 }, { 4184, IBV_MTU_4096 },
		{ 4183, IBV_MTU_2048 },  { 1500, IBV_MTU_1024 }, { 1280, IBV_MTU_1024 },
		{ 1111, IBV_MTU_512 },   { 344, IBV_MTU_256 },
	};

	(void)state;
	add_address("eth0", "192.0.2.1");
	for (size_t i = 0; i < sizeof(mtus) / sizeof(mtus[0]); i++) {
		fake.mtu = mtus[i].interface;
		assert_int_equal(scan_one()->mtu, mtus[i].mtu);
	}
	fake.mtu = 343;
	scan();
	assert_int_equal(listed, 0);
}

static void test_the_guid_is_made_from_the_mac(void **state)
{
	(void)state;
	add_mac("eth0", (uint8_t[6]){ 0x52, 0x54, 0x00, 0x12, 0x34, 0x56 });
	add_address("eth0", "192.0.2.1");
	assert_int_equal(scan_one()->guid, htobe64(UINT64_C(0x5054007572123456)));
}

static void test_the_guid_says_that_the_device_is_uroces(void **state)
{
	(void)state;
	assert_true(ur_guid_is_uroce(UINT64_C(0x5054007572123456)));
	/* Of the kernel's device on the same interface, of one byte that is wrong, of none. */
	assert_false(ur_guid_is_uroce(UINT64_C(0x505400fffe123456)));
	assert_false(ur_guid_is_uroce(UINT64_C(0x5054007573123456)));
	assert_false(ur_guid_is_uroce(UINT64_C(0x5054007472123456)));
	assert_false(ur_guid_is_uroce(0));
}

static void test_without_mac_the_guid_is_of_the_machine_and_the_name(void **state)
{
	uint64_t first, of_other_name, of_other_machine;

	(void)state;
	add_mac("lo", (uint8_t[6]){ 0 });
	add_address("lo", "127.0.0.1");
	first = scan_one()->guid;
	assert_int_equal(be64toh(first) >> 56 & 3, 2);
	assert_true(ur_guid_is_uroce(be64toh(first)));
	assert_int_equal(scan_one()->guid, first);

	fake.count = 0;
	add_address("tun0", "127.0.0.1");
	of_other_name = scan_one()->guid;
	strcpy(fake.machine_id, "fedcba9876543210\n");
	of_other_machine = scan_one()->guid;
	assert_int_not_equal(of_other_name, first);
	assert_int_not_equal(of_other_machine, of_other_name);

	/* Then it is the host's name that counts. */
	fake.machine_id[0] = '\0';
	assert_int_not_equal(scan_one()->guid, of_other_machine);
}

static void test_a_system_that_has_no_list_of_interfaces_is_an_error(void **state)
{
	struct ur_device **devices;
	struct ur_device *device;
	unsigned count;

	(void)state;
	add_address("eth0", "192.0.2.1");
	device = scan_one();
	fake.error = EMFILE;
	assert_int_equal(ur_devices_scan(&devices, &count), EMFILE);
	assert_int_equal(ur_device_get(device), EMFILE);
	assert_int_equal(engine.starts, 0);
}

/* ---- Changes ---- */

static void test_a_device_is_the_same_in_each_list_and_has_the_newest_addresses(void **state)
{
	struct ur_device *device;

	(void)state;
	add_address("eth0", "192.0.2.1");
	device = scan_one();
	fake.count = 0;
	add_address("eth0", "192.0.2.7");
	add_address("eth0", "2001:db8::1");
	assert_ptr_equal(scan_one(), device);
	assert_int_equal(device->gid_count, 2);
	assert_gid(device, 0, "::ffff:192.0.2.7");
	fake.count = 0;
	scan();
	assert_int_equal(listed, 0);
}

static void test_an_open_device_stays_as_it_was(void **state)
{
	struct ur_device *device;

	(void)state;
	add_address("eth0", "192.0.2.1");
	device = scan_one();
	/* Opened later than it was listed. */
	fake.count = 0;
	add_address("eth0", "192.0.2.2");
	assert_int_equal(ur_device_get(device), 0);
	assert_gid(device, 0, "::ffff:192.0.2.2");

	fake.count = 0;
	add_address("eth0", "192.0.2.3");
	assert_ptr_equal(scan_one(), device);
	assert_gid(device, 0, "::ffff:192.0.2.2");
	fake.count = 0;
	assert_ptr_equal(scan_one(), device);
	assert_int_equal(ur_device_get(device), 0);
	ur_device_put(device);
	ur_device_put(device);
	scan();
	assert_int_equal(listed, 0);
}

static void test_a_device_whose_interface_is_gone_is_not_opened(void **state)
{
	struct ur_device *device;

	(void)state;
	add_address("eth0", "192.0.2.1");
	device = scan_one();
	fake.count = 0;
	assert_int_equal(ur_device_get(device), ENODEV);
	assert_int_equal(engine.starts, 0);
}

static void test_the_engine_runs_while_the_device_is_open(void **state)
{
	struct ur_device *device;

	(void)state;
	add_address("eth0", "192.0.2.1");
	device = scan_one();
	engine.start_error = EADDRINUSE;
	assert_int_equal(ur_device_get(device), EADDRINUSE);
	engine.start_error = 0;
	assert_int_equal(ur_device_get(device), 0);
	assert_int_equal(ur_device_get(device), 0);
	assert_int_equal(engine.starts, 2);
	ur_device_put(device);
	assert_int_equal(engine.stops, 0);
	ur_device_put(device);
	assert_int_equal(engine.stops, 1);
}

static void test_open_devices_are_flushed_at_exit(void **state)
{
	struct ur_device *device;

	(void)state;
	add_address("eth0", "192.0.2.1");
	device = scan_one();
	ur_devices_at_exit();
	assert_int_equal(engine.exits, 0);
	assert_int_equal(ur_device_get(device), 0);
	ur_devices_at_exit();
	assert_int_equal(engine.exits, 1);
	ur_device_put(device);
}

/*
 * What a child does to a device that its parent has open, whose lock was held when it was forked
 * off.
 */
static bool leaves_parent_alone(struct ur_device *device)
{
	ur_devices_at_exit();
	pthread_mutex_lock(&device->lock);
	pthread_mutex_unlock(&device->lock);
	ur_device_put(device);
	if (ur_device_get(device) != ENODEV)
		return false;
	return engine.exits == 0 && engine.stops == 0 && device->counters.tx_packets == 0;
}

static bool has_devices_of_its_own(const struct ur_device *inherited)
{
	struct ur_device **devices;
	unsigned count;
	bool good;

	if (ur_devices_scan(&devices, &count) != 0)
		return false;
	good = count == 1 && devices[0] != inherited && ur_device_get(devices[0]) == 0;
	free(devices);
	ur_devices_at_exit();
	return good && engine.starts == 2 && engine.exits == 1;
}

static void test_a_forked_child_has_devices_of_its_own(void **state)
{
	struct ur_device *device;
	pid_t child;
	int status;

	(void)state;
	add_address("eth0", "192.0.2.1");
	device = scan_one();
	assert_int_equal(ur_device_get(device), 0);
	device->counters.tx_packets = 1;
	pthread_mutex_lock(&device->lock);
	child = fork();
	if (child == 0)
		_exit(leaves_parent_alone(device) && has_devices_of_its_own(device) ? 0 : 1);
	pthread_mutex_unlock(&device->lock);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_ptr_equal(scan_one(), device);
	ur_device_put(device);
	assert_int_equal(engine.stops, 1);
}

/* ---- Paths ---- */

static struct ur_device *scan_for_paths(void)
{
	add_address("eth0", "192.0.2.1");
	add_address("eth0", "2001:db8::1");
	add_address("eth0", "fe80::1");
	return scan_one();
}

static struct ibv_ah_attr path_to(const char *gid, uint8_t sgid_index)
{
	struct ibv_ah_attr attr = {
		.is_global = 1,
		.port_num = 1,
		.grh = { .sgid_index = sgid_index, .traffic_class = 0x68, .hop_limit = 9 }
	};

	assert_int_equal(inet_pton(AF_INET6, gid, attr.grh.dgid.raw), 1);
	return attr;
}

static void test_a_path_leads_to_the_address_of_a_gid(void **state)
{
	struct ur_device *device = scan_for_paths();
	struct ibv_ah_attr attr = path_to("::ffff:192.0.2.9", 0);
	struct in6_addr expected;
	struct ur_path path;

	(void)state;
	assert_int_equal(ur_device_path(device, &attr, 4792, &path), 0);
	assert_int_equal(path.remote.v4.sin_family, AF_INET);
	assert_int_equal(path.remote.v4.sin_port, htons(4792));
	assert_int_equal(path.remote.v4.sin_addr.s_addr, inet_addr("192.0.2.9"));
	assert_int_equal(path.gid_index, 0);
	assert_int_equal(path.traffic_class, 0x68);
	assert_int_equal(path.hop_limit, 9);

	attr = path_to("2001:db8::9", 1);
	inet_pton(AF_INET6, "2001:db8::9", &expected);
	assert_int_equal(ur_device_path(device, &attr, 4791, &path), 0);
	assert_int_equal(path.remote.v6.sin6_family, AF_INET6);
	assert_int_equal(path.remote.v6.sin6_port, htons(4791));
	assert_memory_equal(&path.remote.v6.sin6_addr, &expected, sizeof(expected));
	assert_int_equal(path.remote.v6.sin6_scope_id, 0);
	assert_int_equal(path.gid_index, 1);

	attr = path_to("fe80::9", 2);
	assert_int_equal(ur_device_path(device, &attr, 4791, &path), 0);
	assert_int_equal(path.remote.v6.sin6_scope_id, device->if_index);
}

static void test_impossible_paths_are_refused(void **state)
{
	static const struct {
		const char *gid;
		uint8_t sgid_index;
	} refused[] = {
		{ "::ffff:192.0.2.9", 1 },
		{ "2001:db8::9", 0 },
		{ "::ffff:192.0.2.9", 3 },
		{ "::ffff:0.0.0.0", 0 },
		{ "::ffff:239.1.2.3", 0 },
		{ "::ffff:224.0.0.1", 0 },
		{ "::", 1 },
		{ "ff02::1", 1 },
		{ "ff0e::ffff:e001:203", 1 },
		{ "::ffff:255.255.255.255", 0 },
	};
	struct ur_device *device = scan_for_paths();
	struct ibv_ah_attr attr;
	struct ur_path path;

	(void)state;
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		attr = path_to(refused[i].gid, refused[i].sgid_index);
		assert_int_equal(ur_device_path(device, &attr, 4791, &path), EINVAL);
	}
	attr = path_to("::ffff:192.0.2.9", 0);
	attr.is_global = 0;
	assert_int_equal(ur_device_path(device, &attr, 4791, &path), EINVAL);
	attr = path_to("::ffff:192.0.2.9", 0);
	for (unsigned port = 0; port < 3; port++) {
		attr.port_num = (uint8_t)port;
		assert_int_equal(ur_device_path(device, &attr, 4791, &path),
				 port == 1 ? 0 : EINVAL);
	}
}

static void test_a_path_leads_to_a_group(void **state)
{
	static const struct {
		const char *gid;
		uint8_t sgid_index;
		int error;
	} groups[] = {
		{ "::ffff:224.0.0.0", 0, 0 },
		{ "::ffff:239.255.255.255", 0, 0 },
		{ "ff02::1", 2, 0 },
		{ "ff0e::ffff:e001:203", 1, 0 },
		{ "::ffff:224.0.0.0", 1, EINVAL },
		{ "ff02::1", 0, EINVAL },
		{ "ff02::1", 3, EINVAL },
		{ "::ffff:223.255.255.255", 0, EINVAL },
		{ "::ffff:240.0.0.0", 0, EINVAL },
		{ "fe80::1", 2, EINVAL },
	};
	struct ur_device *device = scan_for_paths();
	struct ibv_ah_attr attr = { 0 };
	struct ur_path path;

	(void)state;
	assert_int_equal(ur_device_group_path(device, &attr, &path), EINVAL);
	for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++) {
		attr = path_to(groups[i].gid, groups[i].sgid_index);
		assert_int_equal(ur_device_group_path(device, &attr, &path), groups[i].error);
	}
	attr = path_to("ff02::1", 1);
	assert_int_equal(ur_device_group_path(device, &attr, &path), 0);
	assert_int_equal(path.remote.v6.sin6_port, htons(4791));
	assert_int_equal(path.hop_limit, 9);
}

static void test_the_link_gets_the_addresses_with_their_scope(void **state)
{
	struct ur_device *device = scan_for_paths();
	struct ur_link_address addresses[UR_MAX_GIDS];

	(void)state;
	assert_int_equal(ur_device_addresses(device, addresses), 3);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(addresses[i].gid_index, i);
	assert_int_equal(addresses[0].address.v4.sin_family, AF_INET);
	assert_int_equal(addresses[0].address.v4.sin_addr.s_addr, inet_addr("192.0.2.1"));
	assert_int_equal(addresses[0].address.v4.sin_port, 0);
	assert_int_equal(addresses[1].address.v6.sin6_family, AF_INET6);
	assert_int_equal(addresses[1].address.v6.sin6_scope_id, 0);
	assert_int_equal(addresses[2].address.v6.sin6_scope_id, device->if_index);
}

/* ---- Attributes ---- */

static void test_the_attributes_are_the_limits_of_the_objects(void **state)
{
	struct ibv_device_attr attr;
	struct ur_device *device;

	(void)state;
	add_address("eth0", "192.0.2.1");
	device = scan_one();
	ur_device_attr(device, &attr);
	assert_int_equal(attr.node_guid, device->guid);
	assert_int_equal(attr.max_qp_wr, UR_MAX_WRS);
	assert_int_equal(attr.max_sge, UR_MAX_SGE);
	assert_int_equal(attr.max_cqe, UR_MAX_CQE);
	assert_int_equal(attr.max_qp_rd_atom, UR_MAX_RD_ATOMIC);
	assert_int_equal(attr.atomic_cap, IBV_ATOMIC_GLOB);
	assert_int_equal(attr.phys_port_cnt, 1);
	assert_true(attr.page_size_cap & 4096);
	assert_true(strlen(attr.fw_ver) > 0);
	assert_int_equal(attr.max_mw, UR_MAX_KEYS);
	assert_int_equal(attr.device_cap_flags &
				 (IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2A |
				  IBV_DEVICE_MEM_WINDOW_TYPE_2B),
			 IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B);
}

static void test_the_port_is_active_and_has_the_rate_of_the_interface(void **state)
{
	static const struct {
		const char *speed;
		uint8_t width;
		uint8_t lane;
	} rates[] = {
		{ "", 2, 1 },        { "-1\n", 2, 1 },      { "1000\n", 1, 1 },
		{ "2500\n", 1, 1 },  { "10000\n", 2, 1 },   { "25000\n", 1, 32 },
		{ "40000\n", 2, 8 }, { "100000\n", 2, 32 }, { "800000\n", 2, 128 },
		{ "much\n", 2, 1 },
	};
	struct ibv_port_attr attr;
	struct ur_device *device;

	(void)state;
	add_address("eth0", "192.0.2.1");
	add_address("eth0", "192.0.2.2");
	device = scan_one();
	for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
		strcpy(fake.speed, rates[i].speed);
		ur_device_port_attr(device, &attr);
		assert_int_equal(attr.active_width, rates[i].width);
		assert_int_equal(attr.active_speed, rates[i].lane);
	}
	assert_int_equal(attr.state, IBV_PORT_ACTIVE);
	assert_int_equal(attr.link_layer, IBV_LINK_LAYER_ETHERNET);
	assert_int_equal(attr.active_mtu, IBV_MTU_1024);
	assert_int_equal(attr.gid_tbl_len, UR_MAX_GIDS);
	assert_int_equal(attr.pkey_tbl_len, 1);
	assert_int_equal(attr.max_msg_sz, UR_MAX_MESSAGE);
}

static void test_the_port_is_down_without_a_carrier(void **state)
{
	struct ibv_port_attr attr;

	(void)state;
	add_entry("eth0", IFF_UP, AF_INET);
	ur_device_port_attr(scan_one(), &attr);
	assert_int_equal(attr.state, IBV_PORT_DOWN);
}

#define device_test(name) cmocka_unit_test_setup(name, set_up)

int main(void)
{
	const struct CMUnitTest tests[] = {
		device_test(test_each_interface_with_an_address_is_a_device),
		device_test(test_devices_are_as_verbs_need_them),
		device_test(test_gids_are_ipv4_then_ipv6_then_link_local),
		device_test(test_no_more_addresses_are_taken_than_there_is_room_for),
		device_test(test_addresses_that_are_not_used_yet_are_left_out),
		device_test(test_the_mtu_is_the_largest_that_fits_with_headers),
		device_test(test_the_guid_is_made_from_the_mac),
		device_test(test_the_guid_says_that_the_device_is_uroces),
		device_test(test_without_mac_the_guid_is_of_the_machine_and_the_name),
		device_test(test_a_system_that_has_no_list_of_interfaces_is_an_error),
		device_test(test_a_device_is_the_same_in_each_list_and_has_the_newest_addresses),
		device_test(test_an_open_device_stays_as_it_was),
		device_test(test_a_device_whose_interface_is_gone_is_not_opened),
		device_test(test_the_engine_runs_while_the_device_is_open),
		device_test(test_open_devices_are_flushed_at_exit),
		device_test(test_a_forked_child_has_devices_of_its_own),
		device_test(test_a_path_leads_to_the_address_of_a_gid),
		device_test(test_impossible_paths_are_refused),
		device_test(test_a_path_leads_to_a_group),
		device_test(test_the_link_gets_the_addresses_with_their_scope),
		device_test(test_the_attributes_are_the_limits_of_the_objects),
		device_test(test_the_port_is_active_and_has_the_rate_of_the_interface),
		device_test(test_the_port_is_down_without_a_carrier),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
