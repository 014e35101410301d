/*
 * Reads captures of RoCE v2 for tests: classic pcap files with Ethernet or bare IP, in which every
 * packet is UDP over IPv4 or IPv6.
 */
#ifndef PCAP_READER_H
#define PCAP_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../../../uroce/wire/icrc.h"

struct pcap_packet {
	struct ur_flow flow;
	uint16_t ip_id; /* 0 for IPv6 */
	uint8_t *data;  /* of the UDP datagram, in memory of exactly its size */
	size_t length;
};

struct pcap {
	struct pcap_packet *packets;
	size_t count;
};

/*
 * Adds the packets of a file, or of all files NAME.pcap in a folder in the order of their names.
 * False: something cannot be read, or is not as above; a line on standard error says what. pcap begins as
 * zeros; pcap_free in any case.
 */
bool pcap_add_file(struct pcap *pcap, const char *path);
bool pcap_add_folder(struct pcap *pcap, const char *folder);
void pcap_free(struct pcap *pcap);

#endif
