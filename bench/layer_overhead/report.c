#include "report.h"

#include <math.h>
#include <stdio.h>

#include "allocations.h"
#include "median.h"

/* The layer's rate, and its latency, in relation to those of bare verbs. */
#define GOAL_RATE    0.97
#define GOAL_LATENCY 1.03

#define ROW_FORMAT "%-9s %6s %9s  %-27s %-27s %9s %9s  %-6s  %s\n"

/* What the rounds of one row and side come to. */
struct figures {
	double rate; /* median: operations, or megabytes, per second */
	double min_rate;
	double max_rate;
	double latency; /* median: microseconds for each operation, one after the other */
};

static bool is_in_bytes(const struct row *row)
{
	return !is_of_messages(row->kind);
}

/* A ping-pong is two messages, one after the other. */
static double operations_of_round(const struct row *row)
{
	return (double)row->count * (row->kind == OPERATION_PING_PONG ? 2 : 1);
}

static struct figures figures_of(const struct row *row, enum side side, unsigned rounds)
{
	double rates[MAX_ROUNDS], operations_count = operations_of_round(row);
	double unit = is_in_bytes(row) ? (double)operations[row->kind].size / 1e6 : 1;
	struct figures figures;

	for (unsigned i = 0; i < rounds; i++)
		rates[i] = unit * operations_count / row->seconds[i][side];
	figures.rate = median(rates, rounds);
	figures.min_rate = rates[0];
	figures.max_rate = rates[rounds - 1];
	figures.latency = unit * 1e6 / figures.rate;
	return figures;
}

/*
 * The median of the rounds' own ratios: the two runs of a round follow each other, so that what
 * slows the machine down for longer slows both. Of logarithms, so that it is the inverse of what
 * the other side would get.
 */
static double rate_ratio(const struct row *row, unsigned rounds)
{
	double logarithms[MAX_ROUNDS];

	for (unsigned i = 0; i < rounds; i++)
		logarithms[i] = log(row->seconds[i][SIDE_BARE] / row->seconds[i][SIDE_LAYER]);
	return exp(median(logarithms, rounds));
}

static void format_rate(const struct figures *figures, bool in_bytes, char text[64])
{
	if (in_bytes)
		snprintf(text, 64, "%.2f MB/s (%.2f..%.2f)", figures->rate, figures->min_rate,
			 figures->max_rate);
	else
		snprintf(text, 64, "%.0f op/s (%.0f..%.0f)", figures->rate, figures->min_rate,
			 figures->max_rate);
}

static bool compares(const struct arguments *arguments)
{
	return arguments->sides[SIDE_BARE] && arguments->sides[SIDE_LAYER];
}

static void format_ratio(const struct row *row, double ratio, char text[64])
{
	if (row->depth == 1)
		snprintf(text, 64, "latency %.3f (rate %.3f)", 1 / ratio, ratio);
	else
		snprintf(text, 64, "rate %.3f", ratio);
}

void report_row(const struct row *row, const struct arguments *arguments, struct totals *totals)
{
	char depth[16], rates[SIDE_COUNT][64], latencies[SIDE_COUNT][32], ratio_text[64] = "-";
	const char *verdict = "-";

	snprintf(depth, sizeof(depth), "%u", row->depth);
	for (unsigned side = 0; side < SIDE_COUNT; side++) {
		struct figures figures;

		snprintf(rates[side], sizeof(rates[side]), "-");
		snprintf(latencies[side], sizeof(latencies[side]), "-");
		if (!arguments->sides[side])
			continue;
		figures = figures_of(row, (enum side)side, arguments->rounds);
		format_rate(&figures, is_in_bytes(row), rates[side]);
		if (row->depth == 1)
			snprintf(latencies[side], sizeof(latencies[side]), "%.2f", figures.latency);
	}
	if (compares(arguments)) {
		double ratio = rate_ratio(row, arguments->rounds);
		bool met = row->depth == 1 ? 1 / ratio <= GOAL_LATENCY : ratio >= GOAL_RATE;

		format_ratio(row, ratio, ratio_text);
		verdict = met ? "met" : "missed";
		totals->rows_met += met;
	}
	totals->rows++;
	printf(ROW_FORMAT, operations[row->kind].name, operations[row->kind].size_text, depth,
	       rates[SIDE_BARE], rates[SIDE_LAYER], latencies[SIDE_BARE], latencies[SIDE_LAYER],
	       verdict, ratio_text);
	fflush(stdout);
}

static const char *kind_text(enum rs_device_kind kind)
{
	switch (kind) {
	case RS_DEVICE_KERNEL_SOFTWARE:
		return "software, in the kernel";
	case RS_DEVICE_UROCE:
		return "software, in user space";
	default:
		return "hardware";
	}
}

void report_head(const struct layer *layer, const struct parameters *parameters,
		 const struct arguments *arguments)
{
	const struct rs_device_info *info = rs_device_info(layer_device(layer));
	const struct ibv_qp_attr *qp = &parameters->qp;
	struct ibv_gid_entry gid;
	char text[RS_GID_TEXT_SIZE];

	layer_get_gid(layer, &gid);
	printf("Device %s (%s), port %u, GID %u %s %s\n", info->name, kind_text(info->kind),
	       info->port, gid.gid_index, rs_gid_text(&gid.gid, text),
	       rs_gid_type_name(gid.gid_type));
	printf("Both: RC, MTU %u, ACK timeout %u, retries %u, RNR retries %u, RNR timer %u, reads %u; places: %u sends, %u shared receives, %d completions\n",
	       128U << qp->path_mtu, qp->timeout, qp->retry_cnt, qp->rnr_retry, qp->min_rnr_timer,
	       qp->max_rd_atomic, parameters->init.cap.max_send_wr, parameters->srq.max_wr,
	       parameters->cq_entries);
	printf("Rounds: %u of each kind, in turn; figures are medians (min..max), the ratio is the median of the rounds' ratios\n",
	       arguments->rounds);
	printf("Goal: layer / bare: rate >= %.2f with many in flight, latency <= %.2f with one\n\n",
	       GOAL_RATE, GOAL_LATENCY);
	printf(ROW_FORMAT, "operation", "size", "in flight", "bare rate", "layer rate", "bare us",
	       "layer us", "goal", "ratio, layer / bare");
	fflush(stdout);
}

static void report_allocations(const struct totals *totals, enum side side)
{
	printf("Memory allocations during the runs, %s: %llu in %llu operations\n",
	       side_names[side], (unsigned long long)totals->allocations[side],
	       (unsigned long long)totals->operations[side]);
}

void report_end(const struct totals *totals, const struct arguments *arguments)
{
	printf("\n");
	for (unsigned side = 0; side < SIDE_COUNT; side++)
		if (arguments->sides[side] && allocations_are_counted())
			report_allocations(totals, (enum side)side);
	if (!allocations_are_counted())
		printf("Memory allocations: not counted in a build with a sanitizer\n");
	else
		printf("(all of both processes; the set-up before them: %llu in this one)\n",
		       (unsigned long long)totals->setup_allocations);
	if (compares(arguments))
		printf("%u of %u rows meet the goal\n", totals->rows_met, totals->rows);
}
