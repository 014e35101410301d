#include <jansson.h>
#include <math.h>

#include "reference.h"

#define BITS_PER_GB 8e9

static void make_server_command(uint16_t port, struct command *command)
{
	command_format(command, COMMAND_PREFIX "iperf3 -s -1 -B 127.0.0.1 -p %u", port);
}

/* It counts whole seconds. */
static void make_client_command(const struct row *row, uint16_t port, uint64_t count,
				double seconds, struct command *command)
{
	(void)row;
	(void)count;
	command_format(command, COMMAND_PREFIX "iperf3 -c 127.0.0.1 -p %u -t %.0f -J", port,
		       ceil(seconds));
}

static bool parse(const struct row *row, const char *output, double *value)
{
	json_t *root = json_loads(output, 0, NULL);
	double bits_per_second;
	bool is_right = json_unpack(root, "{s:{s:{s:F}}}", "end", "sum_received", "bits_per_second",
				    &bits_per_second) == 0;

	(void)row;
	if (is_right)
		*value = bits_per_second / BITS_PER_GB;
	json_decref(root);
	return is_right && *value > 0;
}

const struct reference iperf3_reference = { .server_command = make_server_command,
					    .client_command = make_client_command,
					    .parse = parse };
