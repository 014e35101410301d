#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "reference.h"

#define WARM_UP 100

#define PROGRAM COMMAND_PREFIX "UCX_TLS=tcp,self UCX_NET_DEVICES=lo ucx_perftest"

/* Its megabyte. */
#define GB_PER_MB (1048576.0 / 1e9)

static void make_server_command(uint16_t port, struct command *command)
{
	command_format(command, PROGRAM " -p %u", port);
}

static void make_client_command(const struct row *row, uint16_t port, uint64_t count,
				double seconds, struct command *command)
{
	(void)seconds;
	command_format(command, PROGRAM " 127.0.0.1 -p %u -t %s -s %zu -n %" PRIu64 " -w %d -f -v",
		       port, row->test, row->size, count, WARM_UP);
}

/* The place of a column in a line of commas, from 0; -1: there is none of that name. */
static int column_of(const char *line, const char *name)
{
	size_t length = strlen(name);

	for (int column = 0;; column++) {
		size_t end = strcspn(line, ",\n");

		if (end == length && memcmp(line, name, length) == 0)
			return column;
		if (line[end] != ',')
			return -1;
		line += end + 1;
	}
}

static bool read_column(const char *line, int column, double *value)
{
	char *end;

	while (column-- > 0) {
		line = strchr(line, ',');
		if (!line)
			return false;
		line++;
	}
	*value = strtod(line, &end);
	return end != line && *value > 0;
}

/* With -v there is a line of names, and one of numbers below it. */
static bool parse(const struct row *row, const char *output, double *value)
{
	const char *names = strstr(output, "iterations,"),
		   *numbers = names ? strchr(names, '\n') : NULL;
	int column;

	if (!numbers)
		return false;
	column = column_of(names, row->unit == UNIT_LATENCY ? "overall_lat" : "overall_bw");
	if (column < 0 || !read_column(numbers + 1, column, value))
		return false;
	if (row->unit == UNIT_BANDWIDTH)
		*value *= GB_PER_MB;
	return true;
}

const struct reference ucx_reference = { .counts = true,
					 .server_command = make_server_command,
					 .client_command = make_client_command,
					 .parse = parse };
