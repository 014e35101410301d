/*
 * Counters of a device, in this process. UROCE_COUNTERS=1 prints those that are not zero to
 * standard error when the process ends.
 */
#ifndef UR_COUNTERS_H
#define UR_COUNTERS_H

#include <stdint.h>

/* X(name, text) */
#define UR_COUNTERS(X)                                                       \
	X(tx_packets, "packets sent")                                        \
	X(tx_bytes, "bytes sent, RoCE headers included")                     \
	X(tx_batches, "system calls' messages they were sent in")            \
	X(tx_blocked, "packets held back, the socket was full")              \
	X(tx_failed, "packets that the system refused to send")              \
	X(rx_packets, "packets received")                                    \
	X(rx_bytes, "bytes received, RoCE headers included")                 \
	X(rx_batches, "system calls' messages they were received in")        \
	X(rx_forwarded, "packets passed on to the process they are for")     \
	X(rx_malformed, "packets dropped: malformed")                        \
	X(rx_bad_icrc, "packets dropped: wrong ICRC")                        \
	X(rx_bad_pkey, "packets dropped: wrong partition key")               \
	X(rx_unknown_qp, "packets dropped: no such queue pair")              \
	X(rx_wrong_state, "packets dropped: the queue pair's state forbids") \
	X(rx_bad_qkey, "datagrams dropped: wrong queue key")                 \
	X(rx_no_receive, "messages dropped: no receive was posted")          \
	X(rx_incomplete, "packets dropped: others of the message were")      \
	X(rx_refused, "messages dropped: their length or access is wrong")   \
	X(rx_wrong_peer, "packets dropped: not from the queue pair's peer")  \
	X(rx_unexpected, "packets dropped: not what was expected")           \
	X(rx_duplicate, "requests received again")                           \
	X(rx_out_of_sequence, "requests received ahead of their turn")       \
	X(acks_sent, "acknowledgements sent")                                \
	X(naks_sent, "NAKs sent")                                            \
	X(naks_received, "NAKs received")                                    \
	X(rnr_naks_sent, "receiver-not-ready NAKs sent")                     \
	X(rnr_naks_received, "receiver-not-ready NAKs received")             \
	X(retransmitted, "packets sent again")                               \
	X(probes, "requests sent again to ask for an answer")                \
	X(timeouts, "acknowledgement timeouts")                              \
	X(cm_sent, "connection manager: messages sent")                      \
	X(cm_received, "connection manager: messages received")              \
	X(cm_refused, "connection manager: messages for nobody, refused")    \
	X(cm_dropped, "connection manager: messages dropped")                \
	X(fault_dropped, "faults: packets dropped")                          \
	X(fault_duplicated, "faults: packets sent twice")                    \
	X(fault_reordered, "faults: packets sent out of order")              \
	X(fault_corrupted, "faults: packets corrupted")                      \
	X(fault_delayed, "faults: packets delayed")                          \
	X(fault_rx_dropped, "faults: received packets dropped")

#define UR_COUNTER_FIELD(name, text) uint64_t name;

/* Written under the device's lock. */
struct ur_counters {
	UR_COUNTERS(UR_COUNTER_FIELD)
};

/* Prints those that are not zero, one a line, each with the device's name, if it was asked for. */
void ur_counters_print(const char *device_name, const struct ur_counters *counters);

#endif
