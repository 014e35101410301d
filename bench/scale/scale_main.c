/*
 * What many queue pairs and memory regions in one process cost: memory for each, and the rate over one
 * queue pair beside them, as a ratio to its rate when it is alone.
 */
#define LOG_MODULE "bench_scale"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "log.h"
#include "pair.h"

#define OPS         RS_OP_BIT(RS_OP_WRITE)
#define MEMORY_SIZE 4096
#define LENGTH      64
#define MAX_ROUNDS  99

struct arguments {
	const char *device;
	unsigned long qps;
	unsigned long mrs;
	unsigned long rounds;
	unsigned long iterations;
};

/* What is measured beside, and takes memory. */
struct crowd {
	struct pair *pairs;
	struct ibv_mr **mrs;
	size_t pair_count;
	size_t mr_count;
};

struct figures {
	double alone;
	double crowded;
	double ratio;
	double bytes_per_qp;
	double bytes_per_mr;
};

static const char usage[] =
	"usage: bench_scale [--device NAME] [--qps N] [--mrs N] [--rounds N] [--iterations N]\n";

static size_t resident_bytes(void)
{
	size_t pages = 0;
	FILE *file = fopen("/proc/self/statm", "re");

	if (!file)
		return 0;
	if (fscanf(file, "%*s %zu", &pages) != 1)
		pages = 0;
	fclose(file);
	return pages * (size_t)sysconf(_SC_PAGESIZE);
}

static void crowd_close(struct crowd *crowd)
{
	for (size_t i = 0; i < crowd->pair_count; i++)
		pair_close(&crowd->pairs[i]);
	for (size_t i = 0; i < crowd->mr_count; i++)
		ibv_dereg_mr(crowd->mrs[i]);
	free(crowd->pairs);
	free(crowd->mrs);
}

static enum rs_status open_pairs(struct crowd *crowd, const struct pair_parts *parts, size_t count)
{
	crowd->pairs = calloc(count + 1, sizeof(*crowd->pairs));
	if (!crowd->pairs)
		return RS_ERR_NO_MEMORY;
	while (crowd->pair_count < count) {
		enum rs_status status = pair_open(&crowd->pairs[crowd->pair_count++], parts);

		if (status != RS_OK)
			return status;
	}
	return RS_OK;
}

static enum rs_status register_regions(struct crowd *crowd, const struct pair_parts *parts,
				       char *memory, size_t count)
{
	crowd->mrs = calloc(count + 1, sizeof(struct ibv_mr *));
	if (!crowd->mrs)
		return RS_ERR_NO_MEMORY;
	for (; crowd->mr_count < count; crowd->mr_count++) {
		struct ibv_mr *mr = ibv_reg_mr(rs_device_pd(parts->device), memory, MEMORY_SIZE,
					       IBV_ACCESS_LOCAL_WRITE);

		if (!mr)
			return LOG_FAILED_CALL(errno, NULL, "ibv_reg_mr() number %zu",
					       crowd->mr_count + 1);
		crowd->mrs[crowd->mr_count] = mr;
	}
	return RS_OK;
}

/* Opens the crowd; says in *figures what that takes. */
static enum rs_status crowd_open(struct crowd *crowd, const struct pair_parts *parts, char *memory,
				 const struct arguments *arguments, struct figures *figures)
{
	size_t before = resident_bytes(), between;
	enum rs_status status = open_pairs(crowd, parts, arguments->qps / 2);

	if (status != RS_OK)
		return status;
	between = resident_bytes();
	status = register_regions(crowd, parts, memory, arguments->mrs);
	figures->bytes_per_qp = (double)(between - before) / (double)(2 * crowd->pair_count);
	figures->bytes_per_mr = (double)(resident_bytes() - between) / (double)crowd->mr_count;
	return status;
}

static enum rs_status measure_round(const struct pair *pair, const struct pair_parts *parts,
				    struct ibv_mr *mr, const struct arguments *arguments,
				    struct figures *figures)
{
	struct crowd crowd = { 0 };
	enum rs_status status =
		pair_measure(pair, parts, mr, LENGTH, arguments->iterations, &figures->alone);

	if (status == RS_OK)
		status = crowd_open(&crowd, parts, mr->addr, arguments, figures);
	if (status == RS_OK)
		status = pair_measure(pair, parts, mr, LENGTH, arguments->iterations,
				      &figures->crowded);
	figures->ratio = figures->crowded / figures->alone;
	crowd_close(&crowd);
	return status;
}

static int compare_ratios(const void *one, const void *other)
{
	const struct figures *left = one, *right = other;

	return (left->ratio > right->ratio) - (left->ratio < right->ratio);
}

static void report(const struct arguments *arguments, struct figures *rounds)
{
	const struct figures *first = &rounds[0], *median;

	/* Later rounds find memory that the first gave back to the allocator. */
	printf("memory for each of %lu queue pairs   %8.0f bytes\n", arguments->qps,
	       first->bytes_per_qp);
	printf("memory for each of %lu regions     %8.0f bytes\n", arguments->mrs,
	       first->bytes_per_mr);
	qsort(rounds, arguments->rounds, sizeof(*rounds), compare_ratios);
	median = &rounds[arguments->rounds / 2];
	printf("%d-byte writes over one queue pair  %8.0f /s alone, %.0f /s beside them: ratio %.3f (%.3f to %.3f), goal 0.9\n",
	       LENGTH, median->alone, median->crowded, median->ratio, rounds[0].ratio,
	       rounds[arguments->rounds - 1].ratio);
}

static enum rs_status measure(const struct arguments *arguments, struct pair_parts *parts)
{
	static char memory[MEMORY_SIZE];
	struct figures rounds[MAX_ROUNDS];
	struct pair pair = { NULL, NULL };
	struct ibv_mr *mr = ibv_reg_mr(rs_device_pd(parts->device), memory, sizeof(memory),
				       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	enum rs_status status = mr ? RS_OK : LOG_FAILED_CALL(errno, NULL, "ibv_reg_mr()");

	if (status == RS_OK)
		status = pair_open(&pair, parts);
	for (unsigned long i = 0; i < arguments->rounds && status == RS_OK; i++)
		status = measure_round(&pair, parts, mr, arguments, &rounds[i]);
	if (status == RS_OK)
		report(arguments, rounds);
	pair_close(&pair);
	if (mr)
		ibv_dereg_mr(mr);
	return status;
}

static enum rs_status run(const struct arguments *arguments)
{
	struct pair_parts parts = { 0 };
	enum rs_status status = rs_device_open(arguments->device, OPS, &parts.device);

	if (status != RS_OK)
		return status;
	status = rs_device_choose_gid(parts.device, -1, &parts.gid);
	if (status == RS_OK) {
		parts.cq =
			ibv_create_cq(rs_device_verbs(parts.device), 2 * PAIR_DEPTH, NULL, NULL, 0);
		status = parts.cq ? measure(arguments, &parts)
				  : LOG_FAILED_CALL(errno, NULL, "ibv_create_cq()");
	}
	if (parts.cq)
		ibv_destroy_cq(parts.cq);
	rs_device_close(parts.device);
	return status;
}

static unsigned long number(const char *name, const char *text, unsigned long least,
			    unsigned long most)
{
	char *end;
	unsigned long value;

	errno = 0;
	value = strtoul(text, &end, 10);
	if (errno || end == text || *end || text[0] == '-' || value < least || value > most) {
		fprintf(stderr, "bench_scale: --%s \"%s\": must be a number from %lu to %lu\n",
			name, text, least, most);
		exit(2);
	}
	return value;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "device", required_argument, NULL, 'd' },
		{ "qps", required_argument, NULL, 'q' },
		{ "mrs", required_argument, NULL, 'm' },
		{ "rounds", required_argument, NULL, 'r' },
		{ "iterations", required_argument, NULL, 'i' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	struct arguments arguments = { NULL, 1000, 100000, 5, 100000 };
	int option;

	while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		switch (option) {
		case 'd':
			arguments.device = optarg;
			break;
		case 'q':
			arguments.qps = number("qps", optarg, 2, 60000);
			break;
		case 'm':
			arguments.mrs = number("mrs", optarg, 1, 4000000);
			break;
		case 'r':
			arguments.rounds = number("rounds", optarg, 1, MAX_ROUNDS);
			break;
		case 'i':
			arguments.iterations = number("iterations", optarg, 1, 1000000000);
			break;
		case 'h':
			fputs(usage, stdout);
			return 0;
		default:
			fputs(usage, stderr);
			return 2;
		}
	}
	return run(&arguments) == RS_OK ? 0 : 1;
}
