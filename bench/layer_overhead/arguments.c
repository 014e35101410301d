#include "arguments.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROGRAM "layer_overhead"

/* Many short rounds: what else the machine does then disturbs few of them, or both kinds alike. */
#define DEFAULT_ROUNDS  61
#define DEFAULT_SECONDS 0.03
#define MIN_SECONDS     0.001
#define MAX_SECONDS     60
#define MAX_ITERATIONS  1000000000
#define MAX_GID_INDEX   255

#define STATUS_USAGE 2

static const char help[] =
	"Usage: " PROGRAM " [OPTIONS]\n"
	"\n"
	"Measures what the object model of common/ costs: the same operations on bare verbs and\n"
	"through the layer, between two processes on one RDMA device, in rounds that alternate.\n"
	"\n"
	"  -d, --device NAME            RDMA device (default: the best one)\n"
	"  -g, --gid-index N            GID index, 0 to 255 (default: the best one)\n"
	"  -n, --rounds N               rounds of each kind, 1 to 999 (default 61)\n"
	"  -t, --seconds-per-round S    length of a round, 0.001 to 60 (default 0.03)\n"
	"  -i, --iterations N           operations of a round, 1 to 1000000000, in place of its\n"
	"                               length; rounded up to what fills the queue\n"
	"  -o, --operation NAME         only ping-pong, send, write or read\n"
	"  -s, --side NAME              only bare or layer: no comparison, for strace and the like\n"
	"  -h, --help                   print this\n"
	"\n"
	"Exit status: 0 measured, whatever the result; 1 failure; 2 wrong usage.\n";

static const struct option long_options[] = {
	{ "device", required_argument, NULL, 'd' },
	{ "gid-index", required_argument, NULL, 'g' },
	{ "rounds", required_argument, NULL, 'n' },
	{ "seconds-per-round", required_argument, NULL, 't' },
	{ "iterations", required_argument, NULL, 'i' },
	{ "operation", required_argument, NULL, 'o' },
	{ "side", required_argument, NULL, 's' },
	{ "help", no_argument, NULL, 'h' },
	{ 0 },
};

static bool wrong_value(const char *option, const char *allowed, const char *value)
{
	fprintf(stderr, PROGRAM ": --%s needs %s, not \"%s\"\n", option, allowed, value);
	return false;
}

static bool parse_whole(const char *option, const char *text, uint64_t min, uint64_t max,
			uint64_t *value)
{
	char allowed[80], *end;
	unsigned long long parsed;

	errno = 0;
	parsed = strtoull(text, &end, 10);
	if (text[0] >= '0' && text[0] <= '9' && *end == '\0' && errno == 0 && parsed >= min &&
	    parsed <= max) {
		*value = parsed;
		return true;
	}
	snprintf(allowed, sizeof(allowed), "a whole number from %llu to %llu",
		 (unsigned long long)min, (unsigned long long)max);
	return wrong_value(option, allowed, text);
}

static bool parse_seconds(const char *option, const char *text, double *seconds)
{
	char allowed[80], *end;
	double parsed = strtod(text, &end);

	if (end != text && *end == '\0' && isfinite(parsed) && parsed >= MIN_SECONDS &&
	    parsed <= MAX_SECONDS) {
		*seconds = parsed;
		return true;
	}
	snprintf(allowed, sizeof(allowed), "a number of seconds from %g to %d", MIN_SECONDS,
		 MAX_SECONDS);
	return wrong_value(option, allowed, text);
}

static bool parse_operation(const char *option, const char *text, bool chosen[OPERATION_COUNT])
{
	bool found = false;

	for (unsigned kind = 0; kind < OPERATION_COUNT; kind++) {
		chosen[kind] = strcmp(text, operations[kind].name) == 0;
		found = found || chosen[kind];
	}
	return found || wrong_value(option, "ping-pong, send, write or read", text);
}

static bool parse_side(const char *option, const char *text, bool chosen[SIDE_COUNT])
{
	bool found = false;

	for (unsigned side = 0; side < SIDE_COUNT; side++) {
		chosen[side] = strcmp(text, side_names[side]) == 0;
		found = found || chosen[side];
	}
	return found || wrong_value(option, "bare or layer", text);
}

static bool parse_gid_index(const char *option, const char *text, int *gid_index)
{
	uint64_t value;

	if (!parse_whole(option, text, 0, MAX_GID_INDEX, &value))
		return false;
	*gid_index = (int)value;
	return true;
}

static bool parse_rounds(const char *option, const char *text, unsigned *rounds)
{
	uint64_t value;

	if (!parse_whole(option, text, 1, MAX_ROUNDS, &value))
		return false;
	*rounds = (unsigned)value;
	return true;
}

static const char *name_of(int letter)
{
	const struct option *option = long_options;

	while (option->val != letter)
		option++;
	return option->name;
}

static bool parse_option(int letter, const char *value, struct arguments *arguments)
{
	const char *name = name_of(letter);

	switch (letter) {
	case 'd':
		arguments->device = value;
		return true;
	case 'g':
		return parse_gid_index(name, value, &arguments->gid_index);
	case 'n':
		return parse_rounds(name, value, &arguments->rounds);
	case 't':
		return parse_seconds(name, value, &arguments->seconds);
	case 'i':
		return parse_whole(name, value, 1, MAX_ITERATIONS, &arguments->iterations);
	case 'o':
		return parse_operation(name, value, arguments->kinds);
	default:
		return parse_side(name, value, arguments->sides);
	}
}

static void report_bad_option(int letter, char *const *argv)
{
	if (letter == ':')
		fprintf(stderr, PROGRAM ": %s needs a value (see --help)\n", argv[optind - 1]);
	else
		fprintf(stderr, PROGRAM ": unknown option %s (see --help)\n", argv[optind - 1]);
}

bool arguments_parse(int argc, char **argv, struct arguments *arguments, int *exit_status)
{
	int letter;

	*arguments = (struct arguments){ .gid_index = -1,
					 .rounds = DEFAULT_ROUNDS,
					 .seconds = DEFAULT_SECONDS,
					 .sides = { true, true },
					 .kinds = { true, true, true, true } };
	*exit_status = STATUS_USAGE;
	while ((letter = getopt_long(argc, argv, ":d:g:n:t:i:o:s:h", long_options, NULL)) != -1) {
		if (letter == 'h') {
			*exit_status = fputs(help, stdout) < 0 || fflush(stdout) != 0;
			return false;
		}
		if (letter == ':' || letter == '?') {
			report_bad_option(letter, argv);
			return false;
		}
		if (!parse_option(letter, optarg, arguments))
			return false;
	}
	if (optind < argc) {
		fprintf(stderr, PROGRAM ": unexpected argument \"%s\" (see --help)\n",
			argv[optind]);
		return false;
	}
	return true;
}
