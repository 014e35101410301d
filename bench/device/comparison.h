/*
 * What a row of the device is compared with, and how it should come out.
 */
#ifndef COMPARISON_H
#define COMPARISON_H

#include "results.h"

enum peer_kind { PEER_UDP, PEER_IPERF3, PEER_UCX, PEER_COUNT };

extern const char *const peer_names[PEER_COUNT];

/* The goal: latency at most, bandwidth at least, and bandwidth more than that of the peer. */
#define GOAL_LATENCY_UCX      1.0
#define GOAL_BANDWIDTH_UDP    0.6
#define GOAL_BANDWIDTH_IPERF3 1.0

enum mark { MARK_NONE, MARK_MET, MARK_MISSED };

struct comparison {
	double ratios[PEER_COUNT]; /* 0: there is none */
	enum mark mark; /* MARK_NONE: the row has no goal, or its peers were not measured */
};

struct comparison compare_with_peers(const struct results *results, enum row_id id);

#endif
