/*
 * A matrix of what two RDMA devices can do with each other: see docs/interoperation.md.
 *
 *   matrix -d DEVICE -p PORT -g GROUP,... [-m MTU,...] [-f FAMILY] [-t TIMEOUT] [ADDRESS]
 *
 * Runs as two processes, the first without, the second with the first's ADDRESS. Both get the same
 * groups, path MTUs (bytes; all that both ports have is the default), address family (4 or 6, else both)
 * and timeout for answers (1 to 31, as of verbs). Each prints one line for each cell, and last how many there were. Status 0: all are right.
 */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "control.h"
#include "groups.h"

#define MAX_GROUPS 16

/* Half a second: an emulated machine among others may need that to answer. */
#define DEFAULT_TIMEOUT 17

struct group {
	const char *name;
	/* One of them. */
	void (*run)(struct side *side, enum family family, enum ibv_mtu mtu);
	void (*run_without_mtu)(struct side *side, enum family family);
};

static const struct group groups[] = {
	{ "rc", run_reliable, NULL },         { "uc", run_unreliable, NULL },
	{ "load", run_load, NULL },           { "windows", run_windows, NULL },
	{ "datagrams", NULL, run_datagrams }, { "dropped", NULL, run_dropped },
	{ "failures", run_failures, NULL },
};

struct arguments {
	const char *device;
	const char *address; /* NULL: the first of the two */
	uint16_t port;
	uint8_t timeout;
	bool has_mtu[IBV_MTU_4096 + 1];
	bool has_family[FAMILIES];
	const struct group *groups[MAX_GROUPS + 1]; /* NULL behind the last */
};

const char *family_name(enum family family)
{
	return family == IPV4 ? "ipv4" : "ipv6";
}

unsigned mtu_bytes(enum ibv_mtu mtu)
{
	return 128U << mtu;
}

/* ---- Arguments ---- */

static void usage(void)
{
	errx(2,
	     "usage: matrix -d DEVICE -p PORT -g GROUP,... [-m MTU,...] [-f 4|6] [-t TIMEOUT] [ADDRESS]");
}

static void read_mtus(const char *text, struct arguments *arguments)
{
	char *end = (char *)text;

	memset(arguments->has_mtu, 0, sizeof(arguments->has_mtu));
	for (const char *at = text; *end; at = end + 1) {
		unsigned long bytes = strtoul(at, &end, 10);
		bool is_known = false;

		for (enum ibv_mtu mtu = IBV_MTU_256; mtu <= IBV_MTU_4096; mtu++)
			if (mtu_bytes(mtu) == bytes)
				is_known = arguments->has_mtu[mtu] = true;
		if (!is_known || (*end && *end != ','))
			usage();
	}
}

static void read_family(const char *text, struct arguments *arguments)
{
	if (strcmp(text, "4") != 0 && strcmp(text, "6") != 0)
		usage();
	arguments->has_family[IPV4] = *text == '4';
	arguments->has_family[IPV6] = *text == '6';
}

static const struct group *find_group(const char *name)
{
	for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++)
		if (strcmp(groups[i].name, name) == 0)
			return &groups[i];
	usage();
	return NULL;
}

static void read_groups(char *names, struct arguments *arguments)
{
	unsigned count = 0;

	for (char *name = strtok(names, ","); name; name = strtok(NULL, ",")) {
		if (count == MAX_GROUPS)
			usage();
		arguments->groups[count++] = find_group(name);
	}
}

static void read_timeout(const char *text, struct arguments *arguments)
{
	unsigned long timeout = strtoul(text, NULL, 10);

	if (timeout == 0 || timeout > 31)
		usage();
	arguments->timeout = (uint8_t)timeout;
}

static void read_port(const char *text, struct arguments *arguments)
{
	unsigned long port = strtoul(text, NULL, 10);

	if (port == 0 || port > UINT16_MAX)
		usage();
	arguments->port = (uint16_t)port;
}

static void read_arguments(int argc, char **argv, struct arguments *arguments)
{
	int option;

	*arguments = (struct arguments){ .timeout = DEFAULT_TIMEOUT, .has_family = { true, true } };
	memset(arguments->has_mtu, true, sizeof(arguments->has_mtu));
	while ((option = getopt(argc, argv, "d:p:g:m:f:t:")) != -1) {
		switch (option) {
		case 'd':
			arguments->device = optarg;
			break;
		case 'p':
			read_port(optarg, arguments);
			break;
		case 'g':
			read_groups(optarg, arguments);
			break;
		case 'm':
			read_mtus(optarg, arguments);
			break;
		case 't':
			read_timeout(optarg, arguments);
			break;
		case 'f':
			read_family(optarg, arguments);
			break;
		default:
			usage();
		}
	}
	if (!arguments->device || !arguments->port || !arguments->groups[0] || argc - optind > 1)
		usage();
	arguments->address = argv[optind];
}

/* ---- Cells ---- */

static bool is_possible(const struct side *side, const struct arguments *arguments,
			enum ibv_mtu mtu)
{
	return arguments->has_mtu[mtu] && mtu <= side->ours.mtu && mtu <= side->theirs.mtu;
}

static void run_family(struct side *side, const struct arguments *arguments,
		       const struct group *group, enum family family)
{
	if (group->run_without_mtu)
		group->run_without_mtu(side, family);
	for (enum ibv_mtu mtu = IBV_MTU_256; group->run && mtu <= IBV_MTU_4096; mtu++)
		if (is_possible(side, arguments, mtu))
			group->run(side, family, mtu);
}

static void run_direction(struct side *side, const struct arguments *arguments,
			  const struct group *group)
{
	for (enum family family = IPV4; family < FAMILIES; family++) {
		if (!arguments->has_family[family])
			continue;
		side_choose_family(side, family);
		run_family(side, arguments, group, family);
	}
}

static void run_all(struct side *side, const struct arguments *arguments)
{
	for (const struct group *const *group = arguments->groups; *group; group++) {
		side->requests = side->is_first;
		run_direction(side, arguments, *group);
		side->requests = !side->is_first;
		run_direction(side, arguments, *group);
	}
}

int main(int argc, char **argv)
{
	struct side side = { 0 };
	struct arguments arguments;

	read_arguments(argc, argv, &arguments);
	setvbuf(stdout, NULL, _IOLBF, 0);
	side.timeout = arguments.timeout;
	side.is_first = !arguments.address;
	side.control = side.is_first ? control_accept(arguments.port)
				     : control_connect(arguments.address, arguments.port);
	side_open(&side, arguments.device);
	run_all(&side, &arguments);
	side_close(&side);
	close(side.control);
	printf("%u passed, %u failed, %u skipped\n", side.passed, side.failed, side.skipped);
	return side.failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
