#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "../../../uroce/cm/route.h"
#include "../../../uroce/link/address.h"
#include "core_surroundings.h"
#include "network.h"

/* ---- A network of its own: loopback, and an interface to nowhere ---- */

#define INTERFACE "tap0"
#define TENTATIVE 0x40

static unsigned if_index; /* 0: the system has no such interfaces */

static void control(int fd, unsigned long request, void *argument)
{
	if (ioctl(fd, request, argument) == 0)
		return;
	perror("setting up " INTERFACE);
	exit(1);
}

static void set_ipv4(struct ifreq *request, unsigned long command, const char *text)
{
	union ur_sockaddr address = network_address(text, 0);
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	memcpy(&request->ifr_addr, &address.v4, sizeof(address.v4));
	control(fd, command, request);
	close(fd);
}

static void add_ipv6(const char *text)
{
	struct {
		struct in6_addr address;
		uint32_t prefix;
		unsigned index;
	} request = { .address = network_address(text, 0).v6.sin6_addr,
		      .prefix = 64,
		      .index = if_index };
	int fd = socket(AF_INET6, SOCK_DGRAM, 0);

	control(fd, SIOCSIFADDR, &request);
	close(fd);
}

/* Else IPv6 addresses are not used for a second, in which the system looks for others who have them. */
static void use_addresses_at_once(void)
{
	int fd = open("/proc/sys/net/ipv6/conf/" INTERFACE "/accept_dad", O_WRONLY);

	if (fd < 0 || write(fd, "0", 1) != 1)
		exit(1);
	close(fd);
}

/* Whether the system is still to say that nobody else has one: it does that beside, at any time. */
static bool has_tentative_address(void)
{
	FILE *file = fopen("/proc/net/if_inet6", "re");
	char name[IFNAMSIZ];
	unsigned flags;
	bool found = false;

	if (!file)
		exit(1);
	while (fscanf(file, "%*s %*x %*x %*x %x %15s", &flags, name) == 2)
		found = found || (strcmp(name, INTERFACE) == 0 && flags & TENTATIVE);
	fclose(file);
	return found;
}

static void add_interface(void)
{
	struct ifreq request = { .ifr_name = INTERFACE, .ifr_flags = IFF_TAP | IFF_NO_PI };
	int fd = open("/dev/net/tun", O_RDWR);

	if (fd < 0) {
		perror("/dev/net/tun: tests are left out");
		return;
	}
	control(fd, TUNSETIFF, &request);
	if_index = if_nametoindex(INTERFACE);
	use_addresses_at_once();
	set_ipv4(&request, SIOCSIFADDR, "10.9.0.1");
	set_ipv4(&request, SIOCSIFNETMASK, "255.255.255.0");
	request.ifr_flags = IFF_UP;
	fd = socket(AF_INET, SOCK_DGRAM, 0);
	control(fd, SIOCSIFFLAGS, &request);
	close(fd);
	add_ipv6("fd00:9::1");
	add_ipv6("fe80::9");
	while (has_tentative_address())
		usleep(1000);
}

static void needs_interface(void)
{
	if (if_index == 0)
		skip();
}

/* ---- Addresses and routes ---- */

/* Link-local ones are of the interface. */
static union ur_sockaddr address_of(const char *text, uint16_t port)
{
	union ur_sockaddr address = network_address(text, port);

	if (!ur_address_is_ipv4(&address) && IN6_IS_ADDR_LINKLOCAL(&address.v6.sin6_addr))
		address.v6.sin6_scope_id = if_index;
	return address;
}

static void assert_address(const union ur_sockaddr *address, const char *text, uint16_t port)
{
	const union ur_sockaddr expected = address_of(text, port);

	assert_true(ur_address_equal(address, &expected));
}

static void assert_device(const struct ur_device *device, const char *name)
{
	assert_non_null(device);
	assert_string_equal(device->verbs.name, name);
}

static int find_route(const char *source, const char *dest, struct ur_cm_route *route)
{
	union ur_sockaddr from, to = address_of(dest, 7174);

	if (source)
		from = address_of(source, 5555);
	return ur_cm_route(source ? &from : NULL, &to, route);
}

static void assert_no_route(const char *source, const char *dest, int error)
{
	struct ur_cm_route route;

	assert_int_equal(find_route(source, dest, &route), error);
}

/* source: that was asked for; NULL or any: used is chosen. */
static void assert_route(const char *source, const char *dest, const char *device, const char *used,
			 uint8_t hop_limit)
{
	struct ur_cm_route route;
	union ur_sockaddr gid_address;

	assert_int_equal(find_route(source, dest, &route), 0);
	assert_device(route.device, device);
	assert_address(&route.source, used, source ? 5555 : 0);
	assert_address(&route.dest, dest, 7174);
	assert_address(&route.path.remote, dest, UR_UDP_PORT);
	ur_device_address(route.device, route.path.gid_index, &gid_address);
	assert_address(&gid_address, used, 0);
	assert_int_equal(route.path.hop_limit, hop_limit);
	assert_int_equal(route.path.traffic_class, 0);
}

static struct ur_device *device_of(const char *text)
{
	const union ur_sockaddr address = address_of(text, 99);

	return ur_cm_device_of(&address);
}

/* ---- Devices ---- */

static void test_an_address_belongs_to_the_device_of_its_interface(void **state)
{
	(void)state;
	assert_device(device_of("127.0.0.1"), "uroce_lo");
	assert_device(device_of("::1"), "uroce_lo");
	assert_null(device_of("127.0.0.2"));
	assert_null(device_of("192.0.2.1"));
	assert_null(device_of("0.0.0.0"));
	assert_null(device_of("::"));
	needs_interface();
	assert_device(device_of("10.9.0.1"), "uroce_" INTERFACE);
	assert_device(device_of("fd00:9::1"), "uroce_" INTERFACE);
	assert_null(device_of("10.9.0.77"));
}

static void test_a_link_local_address_belongs_to_a_device_with_its_scope_only(void **state)
{
	union ur_sockaddr address = address_of("fe80::9", 0);

	(void)state;
	needs_interface();
	assert_device(ur_cm_device_of(&address), "uroce_" INTERFACE);
	address.v6.sin6_scope_id++;
	assert_null(ur_cm_device_of(&address));
	address.v6.sin6_scope_id = 0;
	assert_null(ur_cm_device_of(&address));
}

static void *look_often(void *argument)
{
	bool *found = argument;

	for (unsigned i = 0; i < 100; i++)
		*found &= device_of("127.0.0.1") != NULL;
	return NULL;
}

static void test_threads_may_look_for_devices_at_the_same_time(void **state)
{
	pthread_t threads[4];
	bool found[4];

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		found[i] = true;
		assert_int_equal(pthread_create(&threads[i], NULL, look_often, &found[i]), 0);
	}
	for (unsigned i = 0; i < 4; i++) {
		pthread_join(threads[i], NULL);
		assert_true(found[i]);
	}
}

/* ---- Routes ---- */

static void test_loopback_addresses_are_reached_through_the_loopback_device(void **state)
{
	(void)state;
	assert_route(NULL, "127.0.0.1", "uroce_lo", "127.0.0.1", 0);
	assert_route("127.0.0.1", "127.0.0.1", "uroce_lo", "127.0.0.1", 0);
	assert_route("0.0.0.0", "127.0.0.1", "uroce_lo", "127.0.0.1", 0);
	assert_route(NULL, "::1", "uroce_lo", "::1", 0);
	assert_route("::", "::1", "uroce_lo", "::1", 0);
}

static void test_other_loopback_addresses_are_dests_but_no_sources(void **state)
{
	(void)state;
	assert_route(NULL, "127.0.0.2", "uroce_lo", "127.0.0.1", 0);
	assert_no_route("127.0.0.2", "127.0.0.1", ENODEV);
}

static void test_any_address_as_dest_is_this_host(void **state)
{
	struct ur_cm_route route;

	(void)state;
	assert_int_equal(find_route(NULL, "0.0.0.0", &route), 0);
	assert_address(&route.dest, "127.0.0.1", 7174);
	assert_address(&route.path.remote, "127.0.0.1", UR_UDP_PORT);
	assert_int_equal(find_route(NULL, "::", &route), 0);
	assert_address(&route.dest, "::1", 7174);
}

static void test_other_hosts_are_reached_through_the_interface_that_the_system_chooses(void **state)
{
	(void)state;
	needs_interface();
	assert_route(NULL, "10.9.0.77", "uroce_" INTERFACE, "10.9.0.1", 64);
	assert_route("10.9.0.1", "10.9.0.77", "uroce_" INTERFACE, "10.9.0.1", 64);
	assert_route(NULL, "fd00:9::77", "uroce_" INTERFACE, "fd00:9::1", 64);
	assert_route("fd00:9::1", "fd00:9::77", "uroce_" INTERFACE, "fd00:9::1", 64);
}

static void test_own_addresses_are_reached_through_their_own_device(void **state)
{
	(void)state;
	needs_interface();
	assert_route(NULL, "10.9.0.1", "uroce_" INTERFACE, "10.9.0.1", 0);
	assert_route(NULL, "fd00:9::1", "uroce_" INTERFACE, "fd00:9::1", 0);
	assert_route(NULL, "fe80::9", "uroce_" INTERFACE, "fe80::9", 0);
	assert_route("127.0.0.1", "10.9.0.1", "uroce_lo", "127.0.0.1", 0);
}

static void test_link_local_addresses_are_reached_in_their_scope(void **state)
{
	const union ur_sockaddr without_scope = network_address("fe80::77", 7174);
	struct ur_cm_route route;

	(void)state;
	needs_interface();
	assert_route("fe80::9", "fe80::77", "uroce_" INTERFACE, "fe80::9", 64);
	assert_int_equal(find_route(NULL, "fe80::77", &route), 0);
	assert_device(route.device, "uroce_" INTERFACE);
	assert_int_equal(ur_cm_route(NULL, &without_scope, &route), EINVAL);
}

static void test_what_the_system_cannot_reach_is_an_error(void **state)
{
	union ur_sockaddr unknown = address_of("127.0.0.1", 0);
	struct ur_cm_route route;

	(void)state;
	assert_no_route(NULL, "192.0.2.1", ENETUNREACH);
	assert_no_route(NULL, "2001:db8::1", ENETUNREACH);
	assert_no_route("192.0.2.1", "127.0.0.1", EADDRNOTAVAIL);
	assert_no_route("2001:db8::1", "::1", EADDRNOTAVAIL);
	assert_no_route("::1", "127.0.0.1", EINVAL);
	assert_no_route("127.0.0.1", "::1", EINVAL);
	assert_no_route("::", "127.0.0.1", EINVAL);
	unknown.any.sa_family = AF_UNSPEC;
	assert_int_equal(ur_cm_route(NULL, &unknown, &route), EAFNOSUPPORT);
	needs_interface();
	assert_no_route(NULL, "10.9.0.255", EACCES);
}

/* ---- The way back ---- */

static void test_the_way_back_goes_from_where_a_datagram_came_to_to_port_4791(void **state)
{
	struct ur_device *device = device_of("::1");
	const union ur_sockaddr ipv6 = address_of("::1", 0);
	struct ur_path from = { .remote = address_of("::1", 50000) };
	struct ur_cm_route route;

	(void)state;
	from.gid_index = (uint8_t)ur_cm_gid_index(device, &ipv6);
	assert_int_equal(ur_cm_route_back(device, &from, 7174, 5555, &route), 0);
	assert_ptr_equal(route.device, device);
	assert_address(&route.source, "::1", 7174);
	assert_address(&route.dest, "::1", 5555);
	assert_address(&route.path.remote, "::1", UR_UDP_PORT);
	assert_int_equal(route.path.gid_index, from.gid_index);
	from.gid_index = (uint8_t)device->gid_count;
	assert_int_equal(ur_cm_route_back(device, &from, 7174, 5555, &route), EINVAL);
}

static void test_the_way_back_to_another_host_has_the_hop_limit(void **state)
{
	struct ur_path from = { .remote = address_of("10.9.0.77", 50000) };
	struct ur_cm_route route;

	(void)state;
	needs_interface();
	assert_int_equal(ur_cm_route_back(device_of("10.9.0.1"), &from, 1, 2, &route), 0);
	assert_int_equal(route.path.hop_limit, 64);
	from.remote = address_of("10.9.0.1", 4792);
	assert_int_equal(ur_cm_route_back(device_of("10.9.0.1"), &from, 1, 2, &route), 0);
	assert_int_equal(route.path.hop_limit, 0);
	assert_address(&route.path.remote, "10.9.0.1", 4792);
	from.remote = address_of("10.9.0.1", 5047);
	assert_int_equal(ur_cm_route_back(device_of("10.9.0.1"), &from, 1, 2, &route), 0);
	assert_address(&route.path.remote, "10.9.0.1", 4791);
}

/* Where the source is, whatever the system knows of groups. */
static void test_a_group_is_reached_from_the_source(void **state)
{
	const union ibv_gid group = { .raw = { [10] = 0xff, 0xff, 224, 0, 1, 77 } };
	struct ur_cm_route route;
	union ibv_gid found;

	(void)state;
	assert_int_equal(find_route("127.0.0.1", "224.0.1.77", &route), 0);
	assert_device(route.device, "uroce_lo");
	assert_address(&route.source, "127.0.0.1", 5555);
	assert_address(&route.dest, "224.0.1.77", 7174);
	assert_address(&route.path.remote, "224.0.1.77", 4791);
	found = ur_cm_gid_of(&route.dest);
	assert_memory_equal(&found, &group, sizeof(group));
	assert_int_equal(find_route("127.0.0.2", "224.0.1.77", &route), ENODEV);
	assert_int_equal(find_route("::1", "224.0.1.77", &route), EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_an_address_belongs_to_the_device_of_its_interface),
		cmocka_unit_test(test_a_link_local_address_belongs_to_a_device_with_its_scope_only),
		cmocka_unit_test(test_threads_may_look_for_devices_at_the_same_time),
		cmocka_unit_test(test_loopback_addresses_are_reached_through_the_loopback_device),
		cmocka_unit_test(test_other_loopback_addresses_are_dests_but_no_sources),
		cmocka_unit_test(test_any_address_as_dest_is_this_host),
		cmocka_unit_test(
			test_other_hosts_are_reached_through_the_interface_that_the_system_chooses),
		cmocka_unit_test(test_own_addresses_are_reached_through_their_own_device),
		cmocka_unit_test(test_link_local_addresses_are_reached_in_their_scope),
		cmocka_unit_test(test_what_the_system_cannot_reach_is_an_error),
		cmocka_unit_test(test_the_way_back_goes_from_where_a_datagram_came_to_to_port_4791),
		cmocka_unit_test(test_the_way_back_to_another_host_has_the_hop_limit),
		cmocka_unit_test(test_a_group_is_reached_from_the_source),
	};

	if (!network_enter())
		return 1;
	add_interface();
	return cmocka_run_group_tests_name("cm route", tests, NULL, NULL);
}
