#include "interface.h"

#include <errno.h>
#include <ifaddrs.h>
#include <linux/if_packet.h>
#include <net/if_arp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* The largest headers of a packet with payload: IPv6, UDP, BTH, XRCETH, RETH, immediate data, ICRC. */
#define HEADERS (40 + 8 + UR_BTH_SIZE + 4 + 16 + 4 + UR_ICRC_SIZE)

/* From linux/if_addr.h, which does not go together with net/if.h everywhere. */
#define NOT_USED_YET (0x40 | 0x08) /* tentative, or a duplicate */

struct search {
	struct ur_interface *found;
	unsigned count;
	FILE *ipv6_flags; /* NULL: not known */
};

/* ---- Addresses ---- */

static unsigned rank(const union ibv_gid *gid)
{
	if (ur_gid_is_ipv4(gid))
		return 0;
	return IN6_IS_ADDR_LINKLOCAL((const struct in6_addr *)gid->raw) ? 2 : 1;
}

static bool has_gid(const struct ur_interface *interface, const union ibv_gid *gid)
{
	for (unsigned i = 0; i < interface->gid_count; i++)
		if (memcmp(&interface->gids[i], gid, sizeof(*gid)) == 0)
			return true;
	return false;
}

/* Behind those of the same rank. */
static void add_gid(struct ur_interface *interface, const union ibv_gid *gid)
{
	unsigned at = interface->gid_count;

	if (interface->gid_count == UR_MAX_GIDS || has_gid(interface, gid))
		return;
	for (; at > 0 && rank(&interface->gids[at - 1]) > rank(gid); at--)
		interface->gids[at] = interface->gids[at - 1];
	interface->gids[at] = *gid;
	interface->gid_count++;
}

static void add_ipv4(struct ur_interface *interface, const struct sockaddr_in *address)
{
	union ibv_gid gid = { .raw = { [10] = 0xff, [11] = 0xff } };

	memcpy(&gid.raw[12], &address->sin_addr, sizeof(address->sin_addr));
	add_gid(interface, &gid);
}

/* A line of /proc/net/if_inet6: address, index of the interface, prefix, scope, flags, name. */
static bool is_not_used_yet(FILE *flags_file, const struct in6_addr *address, const char *name)
{
	char line[128], hex[2 * sizeof(*address) + 1], line_hex[33], line_name[IFNAMSIZ];
	unsigned flags;

	for (size_t i = 0; i < sizeof(*address); i++)
		snprintf(&hex[2 * i], 3, "%02x", address->s6_addr[i]);
	rewind(flags_file);
	while (fgets(line, sizeof(line), flags_file))
		if (sscanf(line, "%32s %*x %*x %*x %x %15s", line_hex, &flags, line_name) == 3 &&
		    strcmp(line_hex, hex) == 0 && strcmp(line_name, name) == 0)
			return flags & NOT_USED_YET;
	return false;
}

static void add_ipv6(const struct search *search, struct ur_interface *interface,
		     const struct sockaddr_in6 *address)
{
	union ibv_gid gid;

	if (search->ipv6_flags &&
	    is_not_used_yet(search->ipv6_flags, &address->sin6_addr, interface->name))
		return;
	memcpy(gid.raw, &address->sin6_addr, sizeof(gid.raw));
	add_gid(interface, &gid);
}

static void set_mac(struct ur_interface *interface, const struct sockaddr_ll *address)
{
	if (address->sll_hatype == ARPHRD_ETHER && address->sll_halen == sizeof(interface->mac))
		memcpy(interface->mac, address->sll_addr, sizeof(interface->mac));
}

/* ---- Interfaces ---- */

/* The one with that name, or a new one; NULL: no memory. */
static struct ur_interface *get(struct search *search, const char *name)
{
	struct ur_interface *grown;

	for (unsigned i = 0; i < search->count; i++)
		if (strcmp(search->found[i].name, name) == 0)
			return &search->found[i];
	grown = realloc(search->found, (search->count + 1) * sizeof(*grown));
	if (!grown)
		return NULL;
	search->found = grown;
	grown += search->count++;
	memset(grown, 0, sizeof(*grown));
	snprintf(grown->name, sizeof(grown->name), "%s", name);
	return grown;
}

static int add(struct search *search, const struct ifaddrs *entry)
{
	char name[IFNAMSIZ];
	struct ur_interface *interface;

	if (!(entry->ifa_flags & IFF_UP) || !entry->ifa_addr)
		return 0;
	/* An IPv4 address can have a label, as in eth0:1. */
	snprintf(name, sizeof(name), "%.*s", (int)strcspn(entry->ifa_name, ":"), entry->ifa_name);
	interface = get(search, name);
	if (!interface)
		return ENOMEM;
	interface->loopback = entry->ifa_flags & IFF_LOOPBACK;
	interface->running = entry->ifa_flags & IFF_RUNNING;
	switch (entry->ifa_addr->sa_family) {
	case AF_PACKET:
		set_mac(interface, (const void *)entry->ifa_addr);
		break;
	case AF_INET:
		add_ipv4(interface, (const void *)entry->ifa_addr);
		break;
	case AF_INET6:
		add_ipv6(search, interface, (const void *)entry->ifa_addr);
		break;
	}
	return 0;
}

static int add_all(struct search *search)
{
	struct ifaddrs *list;
	int error = 0;

	if (getifaddrs(&list) != 0)
		return errno;
	search->ipv6_flags = fopen("/proc/net/if_inet6", "re");
	for (const struct ifaddrs *entry = list; entry && !error; entry = entry->ifa_next)
		error = add(search, entry);
	if (search->ipv6_flags)
		fclose(search->ipv6_flags);
	freeifaddrs(list);
	return error;
}

/* The largest that fits; false: none does. */
static bool choose_mtu(int interface_mtu, enum ibv_mtu *mtu)
{
	for (*mtu = IBV_MTU_4096; *mtu >= IBV_MTU_256; (*mtu)--)
		if ((128 << *mtu) + HEADERS <= interface_mtu)
			return true;
	return false;
}

static bool complete(struct ur_interface *interface, int socket_fd)
{
	struct ifreq request = { 0 };

	if (interface->gid_count == 0)
		return false;
	interface->index = if_nametoindex(interface->name);
	memcpy(request.ifr_name, interface->name, sizeof(request.ifr_name));
	return interface->index > 0 && ioctl(socket_fd, SIOCGIFMTU, &request) == 0 &&
	       choose_mtu(request.ifr_mtu, &interface->mtu);
}

/* Keeps those that can carry RoCE. */
static int complete_all(struct search *search)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	unsigned kept = 0;

	if (fd < 0)
		fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return errno;
	for (unsigned i = 0; i < search->count; i++)
		if (complete(&search->found[i], fd))
			search->found[kept++] = search->found[i];
	search->count = kept;
	close(fd);
	return 0;
}

int ur_interfaces_find(struct ur_interface **interfaces, unsigned *count)
{
	struct search search = { 0 };
	int error = add_all(&search);

	if (!error)
		error = complete_all(&search);
	if (error) {
		free(search.found);
		return error;
	}
	*interfaces = search.found;
	*count = search.count;
	return 0;
}

unsigned ur_interface_speed(const char *name)
{
	char path[64];
	int speed;
	FILE *file;

	snprintf(path, sizeof(path), "/sys/class/net/%s/speed", name);
	file = fopen(path, "re");
	if (!file)
		return 0;
	/* It is negative when the driver does not know. */
	if (fscanf(file, "%9d", &speed) != 1 || speed < 0)
		speed = 0;
	fclose(file);
	return (unsigned)speed;
}
