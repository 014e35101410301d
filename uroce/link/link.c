#include "link.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "../core/clock.h"
#include "../core/log.h"
#include "batch.h"
#include "faults.h"
#include "pcap.h"
#include "receiver.h"
#include "socket.h"
#include "table.h"

#define MAX_NUMBER UINT8_MAX

/*
 * A device has several addresses, a program mostly uses one, and to look at a socket costs a system
 * call of a third of a microsecond. So a thread that polls looks at the socket that had something
 * last and those that had within so many calls, and at the others each 64th time. (The thread that
 * sleeps in epoll looks at all.)
 */
#define RECENT_CALLS 256
#define IDLE_PERIOD  64

struct ur_link {
	struct ur_batch batch;
	struct ur_receiver receiver;
	char device_name[IBV_SYSFS_NAME_MAX];
	uint8_t number;
	int epoll_fd;
	struct ur_faults *faults; /* NULL: none */

	uint64_t receive_calls;
	unsigned next_sock; /* behind the one that had something last */

	unsigned group_count;
	struct ur_socket groups[UR_MAX_GROUPS];

	unsigned address_count;
	/* One on port 4791 + number for each address, then those on 4791, if that is another. */
	unsigned sock_count;
	struct ur_socket socks[];
};

/* ---- Opening ---- */

static void close_socks(struct ur_link *link)
{
	while (link->sock_count > 0)
		ur_socket_close(&link->socks[--link->sock_count]);
}

static void close_groups(struct ur_link *link)
{
	while (link->group_count > 0)
		ur_socket_close(&link->groups[--link->group_count]);
}

/* Closes the socket if it cannot be watched. Returns 0 or an errno. */
static int watch(const struct ur_link *link, struct ur_socket *sock, uint32_t events)
{
	int error = ur_socket_watch(sock, link->epoll_fd, events, sock);

	if (error)
		ur_socket_close(sock);
	return error;
}

/* Opens one more socket, watched for events. Returns 0 or an errno. */
static int add_sock(struct ur_link *link, const union ur_sockaddr *address, uint8_t gid_index,
		    uint16_t port, uint32_t events)
{
	struct ur_socket *sock = &link->socks[link->sock_count];
	union ur_sockaddr with_port = *address;
	int error;

	ur_address_set_port(&with_port, port);
	error = ur_socket_open(sock, &with_port, gid_index);
	if (!error)
		error = watch(link, sock, events);
	if (!error)
		link->sock_count++;
	return error;
}

static uint16_t port_of_number(uint8_t number)
{
	return (uint16_t)(UR_UDP_PORT + number);
}

/* The socket that the packets of an address leave by. */
static int add_sending_sock(struct ur_link *link, const struct ur_link_address *address,
			    uint16_t port)
{
	int error = add_sock(link, &address->address, address->gid_index, port, EPOLLIN);

	if (error || address->if_index == 0)
		return error;
	return ur_socket_send_groups_to(&link->socks[link->sock_count - 1], address->if_index);
}

static void log_failed_bind(const struct ur_link *link, const union ur_sockaddr *address, int error)
{
	char text[UR_ADDRESS_TEXT_SIZE];

	if (error != EADDRINUSE)
		ur_log(UR_LOG_ERROR, "%s: cannot receive at %s: %s", link->device_name,
		       ur_address_text(address, text), strerror(error));
}

/* Takes the port of a number on all addresses, or on none. */
static int try_number(struct ur_link *link, const struct ur_link_address *addresses, uint8_t number)
{
	for (unsigned i = 0; i < link->address_count; i++) {
		int error = add_sending_sock(link, &addresses[i], port_of_number(number));

		if (error) {
			log_failed_bind(link, &addresses[i].address, error);
			close_socks(link);
			return error;
		}
	}
	link->number = number;
	return 0;
}

static int choose_number(struct ur_link *link, const struct ur_link_address *addresses)
{
	unsigned number = 0;
	int error;

	do {
		error = try_number(link, addresses, (uint8_t)number);
	} while (error == EADDRINUSE && number++ < MAX_NUMBER);
	if (error == EADDRINUSE)
		ur_log(UR_LOG_ERROR,
		       "%s: %u processes use it, or others have its ports %u to %u: no more can",
		       link->device_name, MAX_NUMBER + 1, UR_UDP_PORT, UR_UDP_PORT + MAX_NUMBER);
	return error;
}

/* Under the table's lock, so that of two processes that start together none gets in the way. */
static int register_process(struct ur_link *link, const struct ur_link_address *addresses)
{
	struct ur_table *table = ur_table_open();
	int error = choose_number(link, addresses);

	if (!error)
		ur_table_add(table, link->device_name, link->number, ur_link_is_owner(link));
	ur_table_close(table);
	return error;
}

static int open_capture(struct ur_pcap **pcap)
{
	const char *path = secure_getenv("UROCE_PCAP");

	return path && *path ? ur_pcap_open(path, pcap) : 0;
}

static int open_faults(struct ur_link *link, struct ur_counters *counters)
{
	const char *text = secure_getenv("UROCE_FAULTS");
	struct ur_fault_settings settings;

	if (!text || !*text)
		return 0;
	if (ur_fault_settings_parse(text, &settings) != 0)
		return EINVAL;
	link->faults = ur_faults_create(&settings, counters, ur_batch_emit, &link->batch);
	if (!link->faults)
		return ENOMEM;
	ur_batch_set_faults(&link->batch, link->faults);
	link->receiver.faults = link->faults;
	return 0;
}

static struct ur_link *allocate(const char *device_name, size_t count, int epoll_fd)
{
	/* For each address, on two ports. */
	size_t socks = 2 * count * sizeof(struct ur_socket);
	struct ur_link *link = calloc(1, sizeof(*link) + socks);

	if (!link)
		return NULL;
	snprintf(link->device_name, sizeof(link->device_name), "%s", device_name);
	link->address_count = (unsigned)count;
	link->epoll_fd = epoll_fd;
	return link;
}

static int set_up(struct ur_link *link, const struct ur_link_address *addresses,
		  struct ur_counters *counters)
{
	struct ur_pcap *pcap = NULL;
	int error = open_capture(&pcap);

	if (error)
		return error;
	error = register_process(link, addresses);
	if (error)
		return error;
	ur_batch_init(&link->batch, link->socks, link->address_count, counters, pcap);
	ur_receiver_init(&link->receiver, link->number, counters, pcap);
	return open_faults(link, counters);
}

int ur_link_open(const char *device_name, const struct ur_link_address *addresses, size_t count,
		 int epoll_fd, struct ur_counters *counters, struct ur_link **link)
{
	struct ur_link *opened;
	int error;

	if (count == 0 || count > UINT8_MAX + 1) {
		ur_log(UR_LOG_ERROR, "%s: it has %zu addresses", device_name, count);
		return EINVAL;
	}
	opened = allocate(device_name, count, epoll_fd);
	if (!opened)
		return ENOMEM;
	error = set_up(opened, addresses, counters);
	if (error) {
		ur_link_close(opened);
		return error;
	}
	ur_log(UR_LOG_INFO, "%s: this process has number %u, port %u%s", device_name,
	       opened->number, port_of_number(opened->number),
	       ur_link_is_owner(opened) ? ", and is the owner of port 4791" : "");
	*link = opened;
	return 0;
}

void ur_link_leave(const struct ur_link *link)
{
	struct ur_table *table = ur_table_open();

	ur_table_remove(table, link->device_name, link->number);
	ur_table_close(table);
}

void ur_link_close(struct ur_link *link)
{
	if (!link)
		return;
	if (link->sock_count > 0)
		ur_link_leave(link);
	close_groups(link);
	close_socks(link);
	ur_batch_close(&link->batch);
	ur_faults_free(link->faults);
	free(link);
}

/* ---- The owner of port 4791 ---- */

bool ur_link_is_owner(const struct ur_link *link)
{
	return link->number == 0 || link->sock_count == 2 * link->address_count;
}

static void log_owner(const struct ur_link *link)
{
	struct ur_table *table = ur_table_open();

	ur_table_set_owner(table, link->device_name, link->number);
	ur_table_close(table);
	ur_log(UR_LOG_INFO, "%s: this process is the owner of port 4791 now", link->device_name);
}

void ur_link_owner_tick(struct ur_link *link)
{
	if (ur_link_is_owner(link))
		return;
	for (unsigned i = 0; i < link->address_count; i++) {
		const struct ur_socket *own = &link->socks[i];

		/* Where it is taken, by this process or by another, this fails. */
		add_sock(link, &own->address, own->gid_index, UR_UDP_PORT, own->events & EPOLLIN);
	}
	if (ur_link_is_owner(link))
		log_owner(link);
}

/* ---- Groups ---- */

static void log_failed_join(const struct ur_link *link, const union ur_sockaddr *address, int error)
{
	char text[UR_ADDRESS_TEXT_SIZE];

	ur_log(UR_LOG_ERROR, "%s: cannot join the group %s: %s", link->device_name,
	       ur_address_text(address, text), strerror(error));
}

int ur_link_join_group(struct ur_link *link, const union ur_sockaddr *address, unsigned if_index,
		       const struct ur_group *group)
{
	struct ur_socket *sock = &link->groups[link->group_count];
	union ur_sockaddr with_port = *address;
	int error;

	if (link->group_count == UR_MAX_GROUPS)
		return ENOMEM;
	ur_address_set_port(&with_port, UR_UDP_PORT);
	error = ur_socket_open_group(sock, &with_port, if_index, group);
	/* A thread that polls keeps all sockets from being watched. */
	if (!error)
		error = watch(link, sock, link->socks[0].events & EPOLLIN);
	if (error)
		log_failed_join(link, &with_port, error);
	else
		link->group_count++;
	return error;
}

/* The last one takes its place. */
void ur_link_leave_group(struct ur_link *link, const struct ur_group *group)
{
	unsigned i = 0;

	while (link->groups[i].group != group)
		i++;
	ur_socket_close(&link->groups[i]);
	link->groups[i] = link->groups[--link->group_count];
}

const struct ur_group *ur_link_group(const struct ur_link *link)
{
	return ur_receiver_group(&link->receiver);
}

/* ---- Use ---- */

struct ur_carrier *ur_link_carrier(struct ur_link *link)
{
	return &link->batch.carrier;
}

uint8_t ur_link_number(const struct ur_link *link)
{
	return link->number;
}

uint16_t ur_link_port_of(uint32_t qpn)
{
	return port_of_number((uint8_t)(qpn >> 16));
}

static unsigned count_socks(const struct ur_link *link)
{
	return link->sock_count + link->group_count;
}

/* Of all sockets, those of groups behind the others. */
static struct ur_socket *sock_at(struct ur_link *link, unsigned index)
{
	return index < link->sock_count ? &link->socks[index]
					: &link->groups[index - link->sock_count];
}

/* A group's socket may have moved since it was given to epoll: then this is another place, or one behind the end. */
static unsigned index_of(const struct ur_link *link, const struct ur_socket *sock)
{
	bool is_group = sock >= link->groups && sock < link->groups + UR_MAX_GROUPS;

	return is_group ? link->sock_count + (unsigned)(sock - link->groups)
			: (unsigned)(sock - link->socks);
}

static bool is_due(struct ur_link *link, unsigned index)
{
	const struct ur_socket *sock = sock_at(link, index);

	return sock->events & EPOLLIN || index + 1 == link->next_sock ||
	       link->receive_calls - sock->last_traffic < RECENT_CALLS ||
	       link->receive_calls % IDLE_PERIOD == 0;
}

void ur_link_begin_with(struct ur_link *link, const void *entry)
{
	link->next_sock = index_of(link, entry);
}

/* Begins behind the socket that had something last, so that none can keep others waiting. */
int ur_link_receive(struct ur_link *link, ur_receive_fn receive, void *user_data)
{
	unsigned count = count_socks(link);

	link->receive_calls++;
	for (unsigned i = 0; i < count; i++) {
		unsigned index = (link->next_sock + i) % count;
		struct ur_socket *sock = sock_at(link, index);
		int received;

		if (!is_due(link, index))
			continue;
		received = ur_receiver_receive(&link->receiver, sock, receive, user_data);
		if (received > 0) {
			sock->last_traffic = link->receive_calls;
			link->next_sock = index + 1;
			return received;
		}
	}
	return 0;
}

bool ur_link_pass_on(struct ur_link *link, uint8_t number, bool if_there)
{
	return ur_receiver_pass_on(&link->receiver, number, if_there);
}

void ur_link_watch(struct ur_link *link, bool readable)
{
	for (unsigned i = 0; i < count_socks(link); i++)
		ur_socket_set_event(sock_at(link, i), EPOLLIN, readable);
}

bool ur_link_writable(struct ur_link *link)
{
	return ur_batch_unblock(&link->batch);
}

uint64_t ur_link_deadline(const struct ur_link *link)
{
	return link->faults ? ur_faults_deadline(link->faults) : UR_NEVER;
}

void ur_link_run_timers(struct ur_link *link, uint64_t now)
{
	if (link->faults)
		ur_faults_run(link->faults, now);
}
