/*
 * Capture: a pcap file of whole IP packets, for Wireshark and tcpdump. The IP and UDP headers,
 * which a UDP socket does not show, are put together again.
 *
 * The file is written here, since libpcap would bring D-Bus and libibverbs into every process.
 */
#ifndef UR_PCAP_H
#define UR_PCAP_H

#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "../wire/icrc.h"

struct ur_pcap;

/*
 * Opens the file that path names, empty; "%p" in it stands for the process's number. Two links of a
 * process share the file; two processes must not, so they need "%p". It stays open until the
 * process ends. Returns 0 or an errno; logs why.
 */
int ur_pcap_open(const char *path, struct ur_pcap **pcap);

/* The time for records. */
struct timespec ur_pcap_now(void);

/*
 * Adds the datagram data. ip_id: identification of the IPv4 header. The first failure to write is
 * logged, and ends the capture.
 */
void ur_pcap_record(struct ur_pcap *pcap, struct timespec time, const struct ur_flow *flow,
		    uint16_t ip_id, const void *data, size_t length);

#endif
