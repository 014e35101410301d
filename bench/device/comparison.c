#include "comparison.h"

#define NONE ROW_COUNT

const char *const peer_names[PEER_COUNT] = {
	[PEER_UDP] = "UDP", [PEER_IPERF3] = "iperf3", [PEER_UCX] = "UCX"
};

static const enum row_id peers[ROW_COUNT][PEER_COUNT] = {
	[ROW_SEND_LATENCY] = { ROW_UDP_LATENCY, NONE, ROW_UCX_TAG_LATENCY },
	[ROW_WRITE_LATENCY] = { ROW_UDP_LATENCY, NONE, ROW_UCX_TAG_LATENCY },
	[ROW_WRITE_64K] = { ROW_UDP_BANDWIDTH, ROW_IPERF3, ROW_UCX_PUT_BANDWIDTH },
	[ROW_READ_64K] = { ROW_UDP_BANDWIDTH, ROW_IPERF3, NONE },
	[ROW_SEND_64K] = { ROW_UDP_BANDWIDTH, ROW_IPERF3, ROW_UCX_TAG_BANDWIDTH },
	[ROW_WRITE_1M] = { ROW_UDP_BANDWIDTH, ROW_IPERF3, NONE },
	[ROW_READ_1M] = { ROW_UDP_BANDWIDTH, ROW_IPERF3, NONE },
	[ROW_SEND_1M] = { ROW_UDP_BANDWIDTH, ROW_IPERF3, NONE },
};

static enum mark mark_of(bool is_known, bool is_met)
{
	if (!is_known)
		return MARK_NONE;
	return is_met ? MARK_MET : MARK_MISSED;
}

static enum mark judge(enum row_id id, const double ratios[PEER_COUNT])
{
	if (rows[id].unit == UNIT_LATENCY)
		return mark_of(ratios[PEER_UCX] > 0, ratios[PEER_UCX] <= GOAL_LATENCY_UCX);
	if (id == ROW_WRITE_64K)
		return mark_of(ratios[PEER_UDP] > 0 && ratios[PEER_IPERF3] > 0,
			       ratios[PEER_UDP] >= GOAL_BANDWIDTH_UDP &&
				       ratios[PEER_IPERF3] > GOAL_BANDWIDTH_IPERF3);
	return MARK_NONE;
}

struct comparison compare_with_peers(const struct results *results, enum row_id id)
{
	struct comparison comparison = { .mark = MARK_NONE };

	if (!is_of_device(id))
		return comparison;
	for (unsigned peer = 0; peer < PEER_COUNT; peer++)
		if (peers[id][peer] != NONE)
			comparison.ratios[peer] = results_ratio(results, id, peers[id][peer]);
	comparison.mark = judge(id, comparison.ratios);
	return comparison;
}
