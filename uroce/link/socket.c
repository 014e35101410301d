#include "socket.h"

#include <errno.h>
#include <netinet/udp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#define BUFFER_SIZE (4 << 20)

#ifndef SO_BINDTOIFINDEX
#define SO_BINDTOIFINDEX 62
#endif

static int set_option(int fd, int level, int option, int value)
{
	return setsockopt(fd, level, option, &value, sizeof(value));
}

/* ---- Opening ---- */

/*
 * IPv6 addresses of an interface that has just come up cannot be bound for a second or two, while
 * the system looks for duplicates of them, unless the socket is free to have an address of nobody.
 */
static int bind_ipv6(int fd, const struct sockaddr_in6 *address)
{
	if (set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1) < 0 ||
	    set_option(fd, IPPROTO_IPV6, IPV6_FREEBIND, 1) < 0)
		return -1;
	return bind(fd, (const struct sockaddr *)address, sizeof(*address));
}

static int bind_to(int fd, const union ur_sockaddr *address)
{
	if (ur_address_is_ipv4(address))
		return bind(fd, &address->any, sizeof(address->v4));
	return bind_ipv6(fd, &address->v6);
}

/* Only a privileged process may have more than the system's limit. */
static void enlarge(int fd, int force_option, int option)
{
	if (set_option(fd, SOL_SOCKET, force_option, BUFFER_SIZE) < 0)
		set_option(fd, SOL_SOCKET, option, BUFFER_SIZE);
}

static int configure(int fd, bool is_ipv4)
{
	/*
	 * Without discovery the system would give IPv4 packets identifications that cannot be
	 * known, which the ICRC covers.
	 */
	int error = is_ipv4 ? set_option(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO)
			    : set_option(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO);

	if (error)
		return error;
	enlarge(fd, SO_RCVBUFFORCE, SO_RCVBUF);
	enlarge(fd, SO_SNDBUFFORCE, SO_SNDBUF);
	/* Over IPv6, too, the kernel's driver sends no UDP checksum: the ICRC is there for that. */
	if (!is_ipv4)
		set_option(fd, SOL_UDP, UDP_NO_CHECK6_RX, 1);
	/* A system without GRO delivers packets one by one. */
	set_option(fd, SOL_UDP, UDP_GRO, 1);
	return 0;
}

/* With default options. Returns 0 or an errno. */
static int create(struct ur_socket *sock, const union ur_sockaddr *address)
{
	int fd = socket(address->any.sa_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return errno;
	*sock = (struct ur_socket){ .fd = fd, .address = *address, .epoll_fd = -1 };
	return 0;
}

static int bind_and_configure(const struct ur_socket *sock)
{
	if (bind_to(sock->fd, &sock->address) < 0)
		return -1;
	return configure(sock->fd, ur_address_is_ipv4(&sock->address));
}

/* It becomes *sock, or is closed if not all has succeeded. */
static int finish(const struct ur_socket *opened, bool succeeded, struct ur_socket *sock)
{
	int error = errno;

	if (succeeded) {
		*sock = *opened;
		return 0;
	}
	close(opened->fd);
	return error;
}

int ur_socket_open(struct ur_socket *sock, const union ur_sockaddr *address, uint8_t gid_index)
{
	struct ur_socket opened;
	int error = create(&opened, address);

	if (error)
		return error;
	opened.gid_index = gid_index;
	return finish(&opened, bind_and_configure(&opened) == 0, sock);
}

/* ---- Groups ---- */

/*
 * Being bound to the interface keeps out what is sent to a group of the same address on another
 * network.
 */
static int share(int fd, unsigned if_index)
{
	if (set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1) < 0)
		return -1;
	return set_option(fd, SOL_SOCKET, SO_BINDTOIFINDEX, (int)if_index);
}

static int join(const struct ur_socket *sock, unsigned if_index)
{
	const struct ip_mreqn ipv4 = { .imr_multiaddr = sock->address.v4.sin_addr,
				       .imr_ifindex = (int)if_index };
	const struct ipv6_mreq ipv6 = { .ipv6mr_multiaddr = sock->address.v6.sin6_addr,
					.ipv6mr_interface = if_index };

	if (ur_address_is_ipv4(&sock->address))
		return setsockopt(sock->fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &ipv4, sizeof(ipv4));
	return setsockopt(sock->fd, IPPROTO_IPV6, IPV6_JOIN_GROUP, &ipv6, sizeof(ipv6));
}

int ur_socket_open_group(struct ur_socket *sock, const union ur_sockaddr *address,
			 unsigned if_index, const struct ur_group *group)
{
	struct ur_socket opened;
	int error = create(&opened, address);

	if (error)
		return error;
	opened.group = group;
	return finish(&opened,
		      share(opened.fd, if_index) == 0 && bind_and_configure(&opened) == 0 &&
			      join(&opened, if_index) == 0,
		      sock);
}

int ur_socket_send_groups_to(const struct ur_socket *sock, unsigned if_index)
{
	const struct ip_mreqn ipv4 = { .imr_ifindex = (int)if_index };
	int error = ur_address_is_ipv4(&sock->address)
			    ? setsockopt(sock->fd, IPPROTO_IP, IP_MULTICAST_IF, &ipv4, sizeof(ipv4))
			    : set_option(sock->fd, IPPROTO_IPV6, IPV6_MULTICAST_IF, (int)if_index);

	return error ? errno : 0;
}

/* ---- Use ---- */

void ur_socket_close(struct ur_socket *sock)
{
	/* If a child of this process has the socket as well, epoll would go on reporting it. */
	if (sock->epoll_fd >= 0)
		epoll_ctl(sock->epoll_fd, EPOLL_CTL_DEL, sock->fd, NULL);
	close(sock->fd);
}

static int control_epoll(struct ur_socket *sock, int operation, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.ptr = sock->epoll_data };

	if (epoll_ctl(sock->epoll_fd, operation, sock->fd, &event) < 0)
		return errno;
	sock->events = events;
	return 0;
}

int ur_socket_watch(struct ur_socket *sock, int epoll_fd, uint32_t events, void *data)
{
	sock->epoll_fd = epoll_fd;
	sock->epoll_data = data;
	return control_epoll(sock, EPOLL_CTL_ADD, events);
}

void ur_socket_set_event(struct ur_socket *sock, uint32_t event, bool on)
{
	uint32_t events = on ? sock->events | event : sock->events & ~event;

	if (events != sock->events)
		control_epoll(sock, EPOLL_CTL_MOD, events);
}

bool ur_socket_is_writable(const struct ur_socket *sock)
{
	struct pollfd waiting = { .fd = sock->fd, .events = POLLOUT };

	return poll(&waiting, 1, 0) > 0;
}

bool ur_socket_has_gso(const struct ur_socket *sock)
{
	int size;
	socklen_t length = sizeof(size);

	return getsockopt(sock->fd, SOL_UDP, UDP_SEGMENT, &size, &length) == 0;
}

uint32_t ur_socket_receive_buffer(const struct ur_socket *sock)
{
	int size = 0;
	socklen_t length = sizeof(size);

	getsockopt(sock->fd, SOL_SOCKET, SO_RCVBUF, &size, &length);
	return (uint32_t)size;
}
