#include "network.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <errno.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* Without privileges, it comes with a user namespace. */
static bool enter(void)
{
	return unshare(CLONE_NEWNET) == 0 || unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0;
}

static bool bring_up_loopback(void)
{
	struct ifreq request = { .ifr_name = "lo", .ifr_flags = IFF_UP };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool up = fd >= 0 && ioctl(fd, SIOCSIFFLAGS, &request) == 0;

	close(fd);
	return up;
}

bool network_enter(void)
{
	if (enter() && bring_up_loopback())
		return true;
	fprintf(stderr, "this test needs a network namespace of its own: %s\n", strerror(errno));
	return false;
}

union ur_sockaddr network_address(const char *text, uint16_t port)
{
	union ur_sockaddr address = { 0 };

	if (inet_pton(AF_INET, text, &address.v4.sin_addr) == 1) {
		address.v4.sin_family = AF_INET;
		address.v4.sin_port = htons(port);
	} else {
		assert_int_equal(inet_pton(AF_INET6, text, &address.v6.sin6_addr), 1);
		address.v6.sin6_family = AF_INET6;
		address.v6.sin6_port = htons(port);
	}
	return address;
}

int network_socket(const char *address, uint16_t port)
{
	union ur_sockaddr bound = network_address(address, port);
	int fd = socket(bound.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int discover = IP_PMTUDISC_DO;

	assert_true(fd >= 0);
	assert_int_equal(bind(fd, &bound.any, sizeof(bound)), 0);
	if (bound.any.sa_family == AF_INET)
		assert_int_equal(setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &discover,
					    sizeof(discover)),
				 0);
	return fd;
}
