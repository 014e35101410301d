#include "arguments.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROGRAM "bench_device"

#define DEFAULT_ROUNDS  7
#define DEFAULT_SECONDS 0.4

#define MIN_SECONDS    0.01
#define MAX_SECONDS    60.0
#define MAX_ITERATIONS 1e9
#define MAX_GID_INDEX  255

#define STATUS_USAGE 2

static const char help[] =
	"Usage: " PROGRAM " [OPTIONS]\n"
	"\n"
	"Measures latency and bandwidth of an RDMA device between two processes of this machine, and\n"
	"beside it those of UDP, TCP (iperf3) and UCX over TCP, in rounds that alternate.\n"
	"\n"
	"  -d, --device NAME     RDMA device (default: the best one)\n"
	"  -g, --gid-index N     GID index, 0 to 255 (default: the best one)\n"
	"  -n, --rounds N        rounds, 1 to 99 (default 7)\n"
	"  -t, --seconds S       length of each row in each round, 0.01 to 60 (default 0.4)\n"
	"  -i, --iterations N    messages of each row in each round in place of its length, 1 to\n"
	"                        1000000000; rounded up to what is in flight\n"
	"  -o, --only WHAT       only the device, or only its peers\n"
	"  -j, --json            print one JSON object in place of the table\n"
	"  -h, --help            print this\n"
	"\n"
	"Exit status: 0 measured, whatever the result; 1 failure; 2 wrong usage.\n";

static const struct option long_options[] = {
	{ "device", required_argument, NULL, 'd' },
	{ "gid-index", required_argument, NULL, 'g' },
	{ "rounds", required_argument, NULL, 'n' },
	{ "seconds", required_argument, NULL, 't' },
	{ "iterations", required_argument, NULL, 'i' },
	{ "only", required_argument, NULL, 'o' },
	{ "json", no_argument, NULL, 'j' },
	{ "help", no_argument, NULL, 'h' },
	{ 0 },
};

static const char *name_of(int letter)
{
	const struct option *option = long_options;

	while (option->val != letter)
		option++;
	return option->name;
}

static bool parse_number(int letter, double min, double max, bool is_whole, double *number)
{
	char *end;

	*number = strtod(optarg, &end);
	if (end != optarg && *end == '\0' && *number >= min && *number <= max &&
	    (!is_whole || *number == floor(*number)))
		return true;
	fprintf(stderr, PROGRAM ": --%s needs a %snumber from %.10g to %.10g, not \"%s\"\n",
		name_of(letter), is_whole ? "whole " : "", min, max, optarg);
	return false;
}

static bool parse_only(struct arguments *arguments)
{
	arguments->with_device = strcmp(optarg, "device") == 0;
	arguments->with_peers = strcmp(optarg, "peers") == 0;
	if (arguments->with_device || arguments->with_peers)
		return true;
	fprintf(stderr, PROGRAM ": --only needs device or peers, not \"%s\"\n", optarg);
	return false;
}

static bool parse_option(int letter, struct arguments *arguments)
{
	double number = 0;
	bool is_right = true;

	switch (letter) {
	case 'd':
		arguments->device = optarg;
		break;
	case 'g':
		is_right = parse_number(letter, 0, MAX_GID_INDEX, true, &number);
		arguments->gid_index = (int)number;
		break;
	case 'n':
		is_right = parse_number(letter, 1, MAX_ROUNDS, true, &number);
		arguments->rounds = (unsigned)number;
		break;
	case 't':
		is_right = parse_number(letter, MIN_SECONDS, MAX_SECONDS, false, &number);
		arguments->seconds = number;
		break;
	case 'i':
		is_right = parse_number(letter, 1, MAX_ITERATIONS, true, &number);
		arguments->iterations = (uint64_t)number;
		break;
	case 'o':
		is_right = parse_only(arguments);
		break;
	default:
		arguments->json = true;
	}
	return is_right;
}

static void report_bad_option(int letter, char *const *argv)
{
	fprintf(stderr, PROGRAM ": %s %s (see --help)\n",
		letter == ':' ? "no value follows" : "unknown option", argv[optind - 1]);
}

bool arguments_parse(int argc, char **argv, struct arguments *arguments, int *exit_status)
{
	int letter;

	*arguments = (struct arguments){ .gid_index = -1,
					 .rounds = DEFAULT_ROUNDS,
					 .seconds = DEFAULT_SECONDS,
					 .with_device = true,
					 .with_peers = true };
	*exit_status = STATUS_USAGE;
	while ((letter = getopt_long(argc, argv, ":d:g:n:t:i:o:jh", long_options, NULL)) != -1) {
		if (letter == 'h') {
			*exit_status = fputs(help, stdout) < 0 || fflush(stdout) != 0;
			return false;
		}
		if (letter == ':' || letter == '?') {
			report_bad_option(letter, argv);
			return false;
		}
		if (!parse_option(letter, arguments))
			return false;
	}
	if (optind < argc) {
		fprintf(stderr, PROGRAM ": unexpected argument \"%s\" (see --help)\n",
			argv[optind]);
		return false;
	}
	return true;
}
