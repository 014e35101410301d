/* Long runs of small operations, and of connections: see bench/README.md. */
#define LOG_MODULE "soak"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "arguments.h"
#include "connection.h"
#include "log.h"
#include "monitor.h"
#include "peer.h"
#include "traffic.h"
#include "two_processes.h"

#define TUNABLES "GLIBC_TUNABLES"

#define NS_PER_SECOND INT64_C(1000000000)

/* By then all has been used that is made once and kept. */
#define WARM_UP_ROUNDS      10000
#define WARM_UP_CONNECTIONS 100

#define ROUNDS_PER_CONNECTION 16
#define ROUNDS_PER_LOOK       1024 /* at the clock and the gauges */

/* One of the two processes. */
struct side {
	const char *name;
	const struct arguments *arguments;
	struct peer peer;
	struct monitor monitor;
	struct rdma_cm_id *listener; /* the server's */
	uint16_t port;               /* at which it listens */
	int64_t end_ns;              /* of the client's rounds; 0: their number ends them */
};

static enum rs_status look(struct side *side, uint64_t rounds)
{
	return monitor_look(&side->monitor, rounds * REQUESTS_PER_ROUND);
}

static enum rs_status client_step(struct traffic *traffic, void *data)
{
	struct side *side = data;
	uint64_t rounds = traffic->completed / REQUESTS_PER_ROUND;

	if (rounds % ROUNDS_PER_LOOK != 0)
		return RS_OK;
	if (side->end_ns != 0 && now_ns() >= side->end_ns)
		traffic->rounds = traffic->begun;
	return look(side, rounds);
}

static enum rs_status server_step(struct traffic *traffic, void *data)
{
	return traffic->completed % ROUNDS_PER_LOOK == 0 ? look(data, traffic->completed) : RS_OK;
}

/* Steps of a short connection. */
static enum rs_status skip(struct traffic *traffic, void *data)
{
	(void)traffic;
	(void)data;
	return RS_OK;
}

static enum rs_status open_connection(struct side *side, struct connection *connection)
{
	return side->listener
		       ? connection_accept(connection, side->listener)
		       : connection_connect(connection, side->arguments->address, side->port);
}

/* Both sides have done as many. */
static enum rs_status compare_counts(struct side *side, uint64_t done)
{
	uint64_t of_peer;
	enum rs_status status = peer_exchange(&side->peer, &done, &of_peer, sizeof(done));

	if (status != RS_OK || of_peer == done)
		return status;
	LOG_ERROR("%s: %" PRIu64 " rounds here, %" PRIu64 " there", side->name, done, of_peer);
	return RS_ERR_BAD_DATA;
}

/* One connection for all operations. */
static enum rs_status soak_operations(struct side *side)
{
	uint64_t operations = side->arguments->operations;
	struct connection connection = { 0 };
	struct traffic traffic = { .connection = &connection,
				   .peer = &side->peer,
				   .rounds = operations ? operations / REQUESTS_PER_ROUND
							: UINT64_MAX };
	enum rs_status status =
		monitor_start(&side->monitor, side->name, "operations",
			      WARM_UP_ROUNDS * REQUESTS_PER_ROUND, side->arguments->period);

	if (side->arguments->seconds)
		side->end_ns = now_ns() + (int64_t)side->arguments->seconds * NS_PER_SECOND;
	if (status == RS_OK)
		status = open_connection(side, &connection);
	if (status == RS_OK)
		status = side->listener ? traffic_server(&traffic, server_step, side)
					: traffic_client(&traffic, client_step, side);
	if (status == RS_OK)
		status = compare_counts(side, traffic_rounds(&traffic));
	if (status == RS_OK)
		status = monitor_finish(&side->monitor,
					traffic_rounds(&traffic) * REQUESTS_PER_ROUND);
	if (status == RS_OK)
		status = connection_disconnect(&connection);
	connection_close(&connection);
	return status;
}

static enum rs_status soak_connection(struct side *side)
{
	struct connection connection = { 0 };
	struct traffic traffic = { .connection = &connection,
				   .peer = &side->peer,
				   .rounds = ROUNDS_PER_CONNECTION };
	enum rs_status status = open_connection(side, &connection);

	if (status == RS_OK)
		status = side->listener ? traffic_server(&traffic, skip, NULL)
					: traffic_client(&traffic, skip, NULL);
	if (status == RS_OK)
		status = connection_disconnect(&connection);
	connection_close(&connection);
	return status;
}

static enum rs_status soak_connections(struct side *side)
{
	uint64_t count = side->arguments->connections;
	enum rs_status status = monitor_start(&side->monitor, side->name, "connections",
					      WARM_UP_CONNECTIONS, side->arguments->period);

	for (uint64_t i = 0; i < count && status == RS_OK; i++) {
		status = soak_connection(side);
		if (status == RS_OK)
			status = monitor_look(&side->monitor, i + 1);
	}
	return status == RS_OK ? monitor_finish(&side->monitor, count) : status;
}

static enum rs_status soak(struct side *side)
{
	return side->arguments->connections ? soak_connections(side) : soak_operations(side);
}

/* It ends with the client, whatever it waits for. */
static enum rs_status serve(int fd, const struct arguments *arguments)
{
	struct side side = { .name = "server", .arguments = arguments, .peer = { .fd = fd } };
	enum rs_status status;

	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	side.listener = listener_open(arguments->address, &side.port);
	if (!side.listener)
		return RS_ERR_UNREACHABLE;
	status = peer_send(&side.peer, &side.port, sizeof(side.port));
	if (status == RS_OK)
		status = soak(&side);
	rdma_destroy_ep(side.listener);
	close(fd);
	return status;
}

static enum rs_status measure(int fd, const struct arguments *arguments)
{
	struct side side = { .name = "client", .arguments = arguments, .peer = { .fd = fd } };
	enum rs_status status = peer_receive(&side.peer, &side.port, sizeof(side.port));

	if (status == RS_OK)
		status = soak(&side);
	close(fd);
	return status;
}

/*
 * What malloc caches for each thread counts as given out, and grows for long. That it caches nothing
 * can only be said before the program starts: it starts anew.
 * Source: glibc manual, "Tunables".
 */
static void start_without_caches(char **argv)
{
	if (setenv(TUNABLES, "glibc.malloc.tcache_count=0", 0) == 0)
		execv("/proc/self/exe", argv);
	LOG_FAILED_SYSTEM_CALL(errno, "starting anew");
}

int main(int argc, char **argv)
{
	struct arguments arguments;
	int exit_status;

	if (!arguments_parse(argc, argv, &arguments, &exit_status))
		return exit_status;
	if (!getenv(TUNABLES))
		start_without_caches(argv);
	return two_processes_run(serve, measure, &arguments);
}
