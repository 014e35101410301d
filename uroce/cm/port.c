#include "port.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#include "claim.h"

/* As the system's own ones for UDP and TCP. */
#define FIRST_FREE 32768
#define FREE_COUNT (60999 + 1 - FIRST_FREE)

struct port {
	struct port *next;
	uint16_t space;
	uint16_t number;
	bool shared;
	unsigned uses, listeners;
	int claim;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct port *ports;
static unsigned process; /* counts forks */

/* ---- Table, its lock held ---- */

/* What points to the port, or the end of the list. */
static struct port **find(uint16_t space, uint16_t number)
{
	struct port **link = &ports;

	while (*link && ((*link)->space != space || (*link)->number != number))
		link = &(*link)->next;
	return link;
}

static void remove_at(struct port **link)
{
	struct port *port = *link;

	*link = port->next;
	close(port->claim);
	free(port);
}

static int add(uint16_t space, uint16_t number, bool shared)
{
	struct port *port = malloc(sizeof(*port));
	int claim = port ? ur_claim_open(UR_CM_SERVICE_ID(space, number)) : -1;

	if (claim < 0) {
		int error = port ? errno : ENOMEM;

		free(port);
		return error;
	}
	*port = (struct port){ .next = ports,
			       .space = space,
			       .number = number,
			       .shared = shared,
			       .uses = 1,
			       .claim = claim };
	ports = port;
	return 0;
}

static int take(uint16_t space, uint16_t number, bool shared)
{
	struct port *port = *find(space, number);

	if (!port)
		return add(space, number, shared);
	if (!port->shared || !shared)
		return EADDRINUSE;
	port->uses++;
	return 0;
}

/* Begins anywhere, so that a port that was given back is not soon another's. */
static int take_free(uint16_t space, uint16_t *number, bool shared)
{
	unsigned start = 0;

	if (getrandom(&start, sizeof(start), GRND_NONBLOCK) < 0)
		start = (unsigned)getpid();
	for (unsigned i = 0; i < FREE_COUNT; i++) {
		uint16_t tried = (uint16_t)(FIRST_FREE + (start % FREE_COUNT + i) % FREE_COUNT);
		int error = add(space, tried, shared);

		if (error == EADDRINUSE)
			continue;
		*number = tried;
		return error;
	}
	return EADDRNOTAVAIL;
}

/* ---- A process that is forked off ---- */

static void lock_table(void)
{
	pthread_mutex_lock(&lock);
}

static void unlock_table(void)
{
	pthread_mutex_unlock(&lock);
}

/* Else a child that lives longer would keep them from all others. */
static void leave_to_parent(void)
{
	while (ports)
		remove_at(&ports);
	process++;
	unlock_table();
}

static void prepare_for_forks(void)
{
	pthread_atfork(lock_table, unlock_table, leave_to_parent);
}

/* ---- Use ---- */

int ur_cm_take_port(uint16_t port_space, uint16_t *port, bool shared)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	int error;

	pthread_once(&once, prepare_for_forks);
	lock_table();
	error = *port == 0 ? take_free(port_space, port, shared) : take(port_space, *port, shared);
	unlock_table();
	return error;
}

void ur_cm_give_port(uint16_t port_space, uint16_t port)
{
	struct port **link;

	lock_table();
	link = find(port_space, port);
	if (*link && --(*link)->uses == 0)
		remove_at(link);
	unlock_table();
}

unsigned ur_cm_port_process(void)
{
	return process;
}

int ur_cm_port_fd(uint16_t port_space, uint16_t port)
{
	struct port *found;
	int fd = -1;

	lock_table();
	found = *find(port_space, port);
	if (found) {
		fd = found->claim;
		found->listeners++;
		ur_claim_listen(fd);
	}
	unlock_table();
	return fd;
}

void ur_cm_port_end_fd(uint16_t port_space, uint16_t port)
{
	struct port *found;

	lock_table();
	found = *find(port_space, port);
	if (found && found->listeners > 0 && --found->listeners == 0)
		ur_claim_ignore(found->claim, UR_CM_SERVICE_ID(port_space, port));
	unlock_table();
}
