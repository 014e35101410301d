/*
 * Link: a device's UDP sockets. Sends in batches (sendmmsg, UDP GSO), receives in batches
 * (recvmmsg, UDP GRO), computes and checks the ICRC, and passes on what is for another process.
 *
 * Port 4791 of an address has one owner. Each process has a number n for a device: the first takes
 * 4791 and n = 0, a further one the first n for which 4791 + n is free on all addresses of the
 * device. The upper 8 bits of a queue pair number are n, so that a packet finds its process.
 *
 * What is sent to a multicast group comes to port 4791 of the group's address, which each process
 * that has joined the group has a socket of its own for.
 *
 * All functions are called with the device's lock held. None sleeps, but those that take or give
 * back a port wait for the table of processes (see table.h) if a process that was stopped has it,
 * for 200 ms.
 */
#ifndef UR_LINK_H
#define UR_LINK_H

#include <stdint.h>

#include "carrier.h"

struct ur_counters;
struct ur_group;
struct ur_link;

/* A local address of the device. */
struct ur_link_address {
	union ur_sockaddr address; /* port 0; with the interface as scope if IPv6 link-local */
	uint8_t gid_index;
	unsigned if_index; /* where multicast from it goes out; 0: where the system likes */
};

/* Called for each good packet. from: its sender, and which address it was sent to. */
typedef void (*ur_receive_fn)(void *user_data, const struct ur_packet *packet,
			      const struct ur_path *from);

/*
 * Opens the sockets. *link: the caller closes it. Returns 0 or an errno (EADDRINUSE: all of 256
 * process numbers are taken), and logs why.
 * epoll_fd: gets one entry for each socket (see ur_link_watch), its data.ptr being not NULL: see
 * ur_link_begin_with.
 */
int ur_link_open(const char *device_name, const struct ur_link_address *addresses, size_t count,
		 int epoll_fd, struct ur_counters *counters, struct ur_link **link);

/* The process ends: takes it out of the table of those who are there. */
void ur_link_leave(const struct ur_link *link);

/* Sends nothing more, closes the sockets and gives the number back. NULL is allowed. */
void ur_link_close(struct ur_link *link);

struct ur_carrier *ur_link_carrier(struct ur_link *link);

/* n: the upper 8 bits of the queue pair numbers of this process. */
uint8_t ur_link_number(const struct ur_link *link);

/* The port that a queue pair with this number is first looked for at: 4791 + (qpn >> 16). */
uint16_t ur_link_port_of(uint32_t qpn);

/*
 * Receives one batch, if there is something, and calls receive for each good packet. Returns how
 * many datagrams the system gave; 0: nothing there.
 */
int ur_link_receive(struct ur_link *link, ur_receive_fn receive, void *user_data);

/* The next ur_link_receive looks first at the socket whose entry in epoll has an event. */
void ur_link_begin_with(struct ur_link *link, const void *entry);

/*
 * Called by receive only: passes the packet that it is called for on to the process with that
 * number, of the same address. if_there: makes sure first that there is one, which takes several
 * system calls. False: there is none, or what is received here may not be passed on (see
 * forward.h).
 */
bool ur_link_pass_on(struct ur_link *link, uint8_t number, bool if_there);

/* Groups that a link can have joined at a time. */
#define UR_MAX_GROUPS 256

/*
 * Receives what is sent to a multicast group at an interface from now on. address: port 0. group:
 * what ur_link_group and ur_link_leave_group name it by; it was not joined before. Returns 0;
 * ENOMEM: there are UR_MAX_GROUPS; or another errno, and logs why.
 */
int ur_link_join_group(struct ur_link *link, const union ur_sockaddr *address, unsigned if_index,
		       const struct ur_group *group);
/* One that was joined. */
void ur_link_leave_group(struct ur_link *link, const struct ur_group *group);

/*
 * Called by receive only: the group that the packet was sent to, which is to UR_MULTICAST_QPN then.
 * NULL: to an address of this host.
 */
const struct ur_group *ur_link_group(const struct ur_link *link);

/*
 * Whether the epoll entries of the sockets report that they are readable (armed). A thread that
 * polls disarms them, so that the engine's thread sleeps on. No system call if it is so already.
 */
void ur_link_watch(struct ur_link *link, bool readable);

/*
 * Once the carrier was blocked: watches for room in the sockets. Called with the epoll event of the
 * link; returns whether sending is possible again, and then clears the carrier's flag.
 */
bool ur_link_writable(struct ur_link *link);

/*
 * Tries to become the owner of 4791 on the addresses where nobody is. Called every UR_OWNER_TICK_MS
 * while this process is not the owner.
 */
void ur_link_owner_tick(struct ur_link *link);
bool ur_link_is_owner(const struct ur_link *link);
#define UR_OWNER_TICK_MS 50

/* When packets that wait (faults) are due; UINT64_MAX: none. CLOCK_MONOTONIC, ns. */
uint64_t ur_link_deadline(const struct ur_link *link);
void ur_link_run_timers(struct ur_link *link, uint64_t now);

#endif
