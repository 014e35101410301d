#define LOG_MODULE "report"

#include "report.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>

#include "comparison.h"
#include "log.h"

#define ROW_FORMAT "%-30s  %-26s  %-4s  %7s  %8s  %7s  %s\n"

static const char *const unit_names[] = { [UNIT_LATENCY] = "us", [UNIT_BANDWIDTH] = "GB/s" };

static const char *const outcome_texts[] = { [OUTCOME_NOT_WANTED] = "not wanted",
					     [OUTCOME_NOT_INSTALLED] = "not installed",
					     [OUTCOME_FAILED] = "failed",
					     [OUTCOME_TOO_SLOW] = "took too long" };

static const char *const mark_texts[] = {
	[MARK_NONE] = "-", [MARK_MET] = "met", [MARK_MISSED] = "missed"
};

static unsigned mtu_of(const struct endpoint *endpoint)
{
	return 128U << rs_device_port_attr(endpoint->device)->active_mtu;
}

/* The table
 * -------------------------------------------------------------------------------------------------
 */

static void print_device(const struct endpoint *endpoint)
{
	char text[RS_GID_TEXT_SIZE];

	printf("Device %s, GID %u %s, MTU %u\n", rs_device_info(endpoint->device)->name,
	       endpoint->gid.gid_index, rs_gid_text(&endpoint->gid.gid, text), mtu_of(endpoint));
}

static void print_head(const struct endpoint *endpoint, const struct arguments *arguments)
{
	if (arguments->with_device)
		print_device(endpoint);
	printf("Rounds: %u; figures are medians (min..max), a ratio is the median of the rounds' ratios\n",
	       arguments->rounds);
	printf("Goal: latency <= %g x UCX; writes of 64 KiB >= %g x UDP and > %g x iperf3\n\n",
	       GOAL_LATENCY_UCX, GOAL_BANDWIDTH_UDP, GOAL_BANDWIDTH_IPERF3);
	printf(ROW_FORMAT, "row", "value", "unit", "/ UDP", "/ iperf3", "/ UCX", "goal");
}

static void format_value(const struct results *results, enum row_id id, char text[64])
{
	struct figures figures;

	if (results->outcomes[id] != OUTCOME_MEASURED) {
		snprintf(text, 64, "%s", outcome_texts[results->outcomes[id]]);
		return;
	}
	figures = results_figures(results, id);
	snprintf(text, 64, "%.3f (%.3f..%.3f)", figures.median, figures.min, figures.max);
}

static void print_row(const struct results *results, enum row_id id)
{
	struct comparison comparison = compare_with_peers(results, id);
	char value[64], ratios[PEER_COUNT][16];

	for (unsigned peer = 0; peer < PEER_COUNT; peer++)
		snprintf(ratios[peer], sizeof(ratios[peer]),
			 comparison.ratios[peer] > 0 ? "%.3f" : "-", comparison.ratios[peer]);
	format_value(results, id, value);
	printf(ROW_FORMAT, rows[id].name, value, unit_names[rows[id].unit], ratios[PEER_UDP],
	       ratios[PEER_IPERF3], ratios[PEER_UCX], mark_texts[comparison.mark]);
}

static void print_table(const struct endpoint *endpoint, const struct arguments *arguments,
			const struct results *results)
{
	print_head(endpoint, arguments);
	for (enum row_id id = 0; id < ROW_COUNT; id++)
		if (results->outcomes[id] != OUTCOME_NOT_WANTED)
			print_row(results, id);
}

/* JSON
 * -------------------------------------------------------------------------------------------------
 */

static json_t *json_of_device(const struct endpoint *endpoint)
{
	char text[RS_GID_TEXT_SIZE];

	return json_pack("{s:s, s:i, s:s, s:i}", "name", rs_device_info(endpoint->device)->name,
			 "gid_index", (int)endpoint->gid.gid_index, "gid",
			 rs_gid_text(&endpoint->gid.gid, text), "mtu", (int)mtu_of(endpoint));
}

static json_t *json_of_values(const struct results *results, enum row_id id)
{
	json_t *values = json_array();

	for (unsigned round = 0; round < results->rounds; round++)
		json_array_append_new(values, json_real(results->values[id][round]));
	return values;
}

static json_t *json_of_ratios(const struct comparison *comparison)
{
	json_t *ratios = json_object();

	for (unsigned peer = 0; peer < PEER_COUNT; peer++)
		if (comparison->ratios[peer] > 0)
			json_object_set_new(ratios, peer_names[peer],
					    json_real(comparison->ratios[peer]));
	return ratios;
}

static json_t *json_of_row(const struct results *results, enum row_id id)
{
	struct comparison comparison = compare_with_peers(results, id);
	struct figures figures = results_figures(results, id);
	const char *unit = unit_names[rows[id].unit];
	json_t *row;

	if (results->outcomes[id] != OUTCOME_MEASURED)
		return json_pack("{s:s, s:s, s:s}", "name", rows[id].name, "unit", unit, "error",
				 outcome_texts[results->outcomes[id]]);
	row = json_pack("{s:s, s:s, s:f, s:f, s:f, s:o, s:o}", "name", rows[id].name, "unit", unit,
			"median", figures.median, "min", figures.min, "max", figures.max, "values",
			json_of_values(results, id), "ratios", json_of_ratios(&comparison));
	if (comparison.mark != MARK_NONE)
		json_object_set_new(row, "goal", json_string(mark_texts[comparison.mark]));
	return row;
}

static void print_json(const struct endpoint *endpoint, const struct arguments *arguments,
		       const struct results *results)
{
	json_t *root = json_object(), *list = json_array();

	if (arguments->with_device)
		json_object_set_new(root, "device", json_of_device(endpoint));
	json_object_set_new(root, "rounds", json_integer(results->rounds));
	for (enum row_id id = 0; id < ROW_COUNT; id++)
		if (results->outcomes[id] != OUTCOME_NOT_WANTED)
			json_array_append_new(list, json_of_row(results, id));
	json_object_set_new(root, "rows", list);
	json_dumpf(root, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
	printf("\n");
	json_decref(root);
}

enum rs_status report(const struct endpoint *endpoint, const struct arguments *arguments,
		      const struct results *results)
{
	if (arguments->json)
		print_json(endpoint, arguments, results);
	else
		print_table(endpoint, arguments, results);
	if (fflush(stdout) != 0 || ferror(stdout))
		return LOG_FAILED_SYSTEM_CALL(errno, "printing the results");
	return RS_OK;
}
