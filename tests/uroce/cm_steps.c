/*
 * One side of a connection that goes no further than it is told: prints each event of the connection
 * manager, and takes each next step when its name comes by the standard input. Ends with that.
 *
 *   cm_steps listen|connect ADDRESS PORT
 *
 * Steps: of a server accept, of a client connect and establish, of both disconnect.
 */
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TIMEOUT_MS 5000
#define ANY_QPN    0x123

static struct rdma_event_channel *channel;
static struct rdma_cm_id *id; /* the client's own, the server's once it is asked */

static void check(int failed, const char *what)
{
	if (!failed)
		return;
	perror(what);
	exit(EXIT_FAILURE);
}

static void take_event(void)
{
	struct rdma_cm_event *event;

	check(rdma_get_cm_event(channel, &event), "rdma_get_cm_event");
	printf("%s %d\n", rdma_event_str(event->event), event->status);
	if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST)
		id = event->id;
	rdma_ack_cm_event(event);
}

static void start_server(struct sockaddr *address)
{
	struct rdma_cm_id *listener;

	check(rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP), "rdma_create_id");
	check(rdma_bind_addr(listener, address), "rdma_bind_addr");
	check(rdma_listen(listener, 0), "rdma_listen");
	puts("listening");
}

static void start_client(struct sockaddr *address)
{
	check(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), "rdma_create_id");
	check(rdma_resolve_addr(id, NULL, address, TIMEOUT_MS), "rdma_resolve_addr");
	take_event();
	check(rdma_resolve_route(id, TIMEOUT_MS), "rdma_resolve_route");
	take_event();
}

static void take_step(const char *name)
{
	struct rdma_conn_param param = { .qp_num = ANY_QPN, .retry_count = 7 };

	if (strcmp(name, "accept") == 0)
		check(rdma_accept(id, &param), name);
	else if (strcmp(name, "connect") == 0)
		check(rdma_connect(id, &param), name);
	else if (strcmp(name, "establish") == 0)
		check(rdma_establish(id), name);
	else if (strcmp(name, "disconnect") == 0)
		check(rdma_disconnect(id), name);
	else
		check(1, name);
	printf("done: %s\n", name);
}

/* False: there are no more. */
static int read_step(void)
{
	char line[64] = { 0 };
	ssize_t length = read(STDIN_FILENO, line, sizeof(line) - 1);

	if (length <= 0)
		return 0;
	for (char *name = strtok(line, "\n"); name; name = strtok(NULL, "\n"))
		take_step(name);
	return 1;
}

int main(int argc, char **argv)
{
	struct rdma_addrinfo hints = { .ai_port_space = RDMA_PS_TCP }, *found;
	struct pollfd waiting[2] = { { .fd = STDIN_FILENO, .events = POLLIN } };
	int is_server = argc == 4 && strcmp(argv[1], "listen") == 0;

	check(argc != 4, "usage");
	setlinebuf(stdout);
	channel = rdma_create_event_channel();
	check(!channel, "rdma_create_event_channel");
	hints.ai_flags = is_server ? RAI_PASSIVE : 0;
	check(rdma_getaddrinfo(argv[2], argv[3], &hints, &found), "rdma_getaddrinfo");
	if (is_server)
		start_server(found->ai_src_addr);
	else
		start_client(found->ai_dst_addr);
	rdma_freeaddrinfo(found);
	waiting[1] = (struct pollfd){ .fd = channel->fd, .events = POLLIN };
	while (poll(waiting, 2, -1) > 0) {
		if (waiting[1].revents)
			take_event();
		if (waiting[0].revents && !read_step())
			return 0;
	}
	return EXIT_FAILURE;
}
