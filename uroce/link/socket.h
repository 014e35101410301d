/*
 * Socket: a UDP socket bound to a port of a local address, and what epoll watches it for.
 */
#ifndef UR_SOCKET_H
#define UR_SOCKET_H

#include <stdbool.h>
#include <stdint.h>

#include "address.h"

struct ur_group;

struct ur_socket {
	int fd;
	union ur_sockaddr address; /* with its port */
	uint8_t gid_index;
	const struct ur_group *group; /* NULL: address is a local one, and not a group's */
	int epoll_fd;
	uint32_t events; /* that epoll watches it for */
	void *epoll_data;
	/* The call of ur_link_receive that last found something here. */
	uint64_t last_traffic;
};

/*
 * Opens it and binds it to address, which has the port. Returns 0 or an errno; logs nothing, since
 * a port that is taken is no failure.
 */
int ur_socket_open(struct ur_socket *sock, const union ur_sockaddr *address, uint8_t gid_index);

/*
 * The same for what is sent to a multicast group, address, and arrives at an interface. Any number of
 * processes, of any user, may have such a socket, and each gets its copy. Returns 0 or an errno.
 */
int ur_socket_open_group(struct ur_socket *sock, const union ur_sockaddr *address,
			 unsigned if_index, const struct ur_group *group);

void ur_socket_close(struct ur_socket *sock);

/* What it sends to multicast groups goes out at an interface. Returns 0 or an errno. */
int ur_socket_send_groups_to(const struct ur_socket *sock, unsigned if_index);

/* Adds it to an epoll instance. events: EPOLLIN or 0. Returns 0 or an errno. */
int ur_socket_watch(struct ur_socket *sock, int epoll_fd, uint32_t events, void *data);

/* Watches for an event (EPOLLIN, EPOLLOUT) or not. No system call if it is so already. */
void ur_socket_set_event(struct ur_socket *sock, uint32_t event, bool on);

/* Whether there is room to send. */
bool ur_socket_is_writable(const struct ur_socket *sock);

/* Whether the system has UDP GSO. */
bool ur_socket_has_gso(const struct ur_socket *sock);

/* Size of the receive buffer as the system counts it, in bytes. */
uint32_t ur_socket_receive_buffer(const struct ur_socket *sock);

#endif
