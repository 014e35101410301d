#include "arguments.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define PROGRAM "bench_soak"

#define DEFAULT_ADDRESS    "127.0.0.1"
#define DEFAULT_OPERATIONS 10000000
#define DEFAULT_PERIOD     60

#define MIN_OPERATIONS  100000
#define MAX_OPERATIONS  1000000000000
#define MAX_SECONDS     1000000
#define MIN_CONNECTIONS 200
#define MAX_CONNECTIONS 1000000000

#define STATUS_USAGE 2

static const char help[] =
	"Usage: " PROGRAM " [OPTIONS]\n"
	"\n"
	"Lets two processes do small operations for long, checks all of them, and that memory,\n"
	"descriptors, sockets and threads stay as they were after the beginning.\n"
	"\n"
	"  -a, --address ADDR     address of the RDMA device (default 127.0.0.1)\n"
	"  -n, --operations N     write, read, fetch-and-add, send, together at least N, 100000 to\n"
	"                         1000000000000 (default 10000000)\n"
	"  -t, --seconds S        in place of a number: for so long, 1 to 1000000\n"
	"  -c, --connections N    in place of one connection: N, 200 to 1000000000, one after the other\n"
	"  -p, --period S         seconds between two lines, 1 to 1000000 (default 60)\n"
	"  -h, --help             print this\n"
	"\n"
	"Exit status: 0 all right and flat; 1 not, or a failure; 2 wrong usage.\n";

static const struct option long_options[] = {
	{ "address", required_argument, NULL, 'a' },
	{ "operations", required_argument, NULL, 'n' },
	{ "seconds", required_argument, NULL, 't' },
	{ "connections", required_argument, NULL, 'c' },
	{ "period", required_argument, NULL, 'p' },
	{ "help", no_argument, NULL, 'h' },
	{ 0 },
};

static bool parse_number(const char *option, uint64_t min, uint64_t max, uint64_t *number)
{
	char *end;

	errno = 0;
	*number = strtoull(optarg, &end, 10);
	if (errno == 0 && optarg[0] >= '0' && optarg[0] <= '9' && *end == '\0' && *number >= min &&
	    *number <= max)
		return true;
	fprintf(stderr,
		PROGRAM ": --%s needs a whole number from %" PRIu64 " to %" PRIu64 ", not \"%s\"\n",
		option, min, max, optarg);
	return false;
}

static bool parse_option(int letter, struct arguments *arguments)
{
	uint64_t period;

	switch (letter) {
	case 'a':
		arguments->address = optarg;
		return true;
	case 'n':
		return parse_number("operations", MIN_OPERATIONS, MAX_OPERATIONS,
				    &arguments->operations);
	case 't':
		return parse_number("seconds", 1, MAX_SECONDS, &arguments->seconds);
	case 'c':
		return parse_number("connections", MIN_CONNECTIONS, MAX_CONNECTIONS,
				    &arguments->connections);
	default:
		if (!parse_number("period", 1, MAX_SECONDS, &period))
			return false;
		arguments->period = (unsigned)period;
		return true;
	}
}

static bool is_one_end(const struct arguments *arguments)
{
	return (arguments->operations > 0) + (arguments->seconds > 0) +
		       (arguments->connections > 0) <=
	       1;
}

/* Whatever is wrong is said. */
static bool parse_all(int argc, char **argv, struct arguments *arguments, bool *wants_help)
{
	int letter;

	while ((letter = getopt_long(argc, argv, "a:n:t:c:p:h", long_options, NULL)) != -1) {
		*wants_help = letter == 'h';
		if (letter == '?' || letter == 'h' || !parse_option(letter, arguments))
			return false;
	}
	if (optind < argc) {
		fprintf(stderr, PROGRAM ": unexpected argument \"%s\" (see --help)\n",
			argv[optind]);
		return false;
	}
	if (is_one_end(arguments))
		return true;
	fputs(PROGRAM ": --operations, --seconds and --connections exclude each other\n", stderr);
	return false;
}

bool arguments_parse(int argc, char **argv, struct arguments *arguments, int *exit_status)
{
	bool wants_help = false;

	*arguments = (struct arguments){ .address = DEFAULT_ADDRESS, .period = DEFAULT_PERIOD };
	if (!parse_all(argc, argv, arguments, &wants_help)) {
		*exit_status =
			wants_help ? fputs(help, stdout) < 0 || fflush(stdout) != 0 : STATUS_USAGE;
		return false;
	}
	if (arguments->operations + arguments->seconds + arguments->connections == 0)
		arguments->operations = DEFAULT_OPERATIONS;
	return true;
}
