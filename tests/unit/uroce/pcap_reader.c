#include "pcap_reader.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_HEADER_SIZE   24
#define RECORD_HEADER_SIZE 16
#define MAGIC_MICROSECONDS 0xa1b2c3d4
#define MAX_RECORD         (1 << 18)

#define LINK_TYPE_ETHERNET 1
#define LINK_TYPE_RAW      101
#define ETHERNET_SIZE      14

#define IPV4_SIZE 20
#define IPV6_SIZE 40
#define UDP_SIZE  8

/* The bytes that are left of a packet. */
struct rest {
	const uint8_t *at;
	size_t length;
};

static const uint8_t *take(struct rest *rest, size_t size)
{
	const uint8_t *at = rest->at;

	if (size > rest->length)
		return NULL;
	rest->at += size;
	rest->length -= size;
	return at;
}

static uint16_t network_16(const uint8_t *at)
{
	return (uint16_t)(at[0] << 8 | at[1]);
}

static uint32_t host_32(const uint8_t *at)
{
	uint32_t value;

	memcpy(&value, at, sizeof(value));
	return value;
}

static bool parse_ipv4(struct rest *rest, struct pcap_packet *packet)
{
	const uint8_t *header = take(rest, IPV4_SIZE);
	size_t length;

	if (!header || header[0] != 0x45 || header[9] != IPPROTO_UDP)
		return false;
	length = network_16(header + 2);
	if (length < IPV4_SIZE || length - IPV4_SIZE > rest->length)
		return false;
	rest->length = length - IPV4_SIZE;
	packet->ip_id = network_16(header + 4);
	packet->flow.source.v4.sin_family = AF_INET;
	memcpy(&packet->flow.source.v4.sin_addr, header + 12, 4);
	packet->flow.dest.v4.sin_family = AF_INET;
	memcpy(&packet->flow.dest.v4.sin_addr, header + 16, 4);
	return true;
}

static bool parse_ipv6(struct rest *rest, struct pcap_packet *packet)
{
	const uint8_t *header = take(rest, IPV6_SIZE);

	if (!header || header[0] >> 4 != 6 || header[6] != IPPROTO_UDP ||
	    network_16(header + 4) > rest->length)
		return false;
	rest->length = network_16(header + 4);
	packet->flow.source.v6.sin6_family = AF_INET6;
	memcpy(&packet->flow.source.v6.sin6_addr, header + 8, 16);
	packet->flow.dest.v6.sin6_family = AF_INET6;
	memcpy(&packet->flow.dest.v6.sin6_addr, header + 24, 16);
	return true;
}

static bool parse_ip(struct rest *rest, struct pcap_packet *packet)
{
	if (rest->length == 0)
		return false;
	return rest->at[0] >> 4 == 4 ? parse_ipv4(rest, packet) : parse_ipv6(rest, packet);
}

static bool parse_udp(struct rest *rest, struct pcap_packet *packet)
{
	const uint8_t *header = take(rest, UDP_SIZE);

	if (!header || network_16(header + 4) != UDP_SIZE + rest->length)
		return false;
	/* The port stands at the same place in an address of either family. */
	memcpy(&packet->flow.source.v4.sin_port, header, 2);
	memcpy(&packet->flow.dest.v4.sin_port, header + 2, 2);
	return true;
}

static bool add_packet(struct pcap *pcap, struct rest rest, uint32_t link_type)
{
	struct pcap_packet packet = { 0 }, *packets;

	if (link_type == LINK_TYPE_ETHERNET && !take(&rest, ETHERNET_SIZE))
		return false;
	if (!parse_ip(&rest, &packet) || !parse_udp(&rest, &packet))
		return false;
	packets = realloc(pcap->packets, (pcap->count + 1) * sizeof(packet));
	if (!packets)
		return false;
	pcap->packets = packets;
	packet.length = rest.length;
	packet.data = malloc(rest.length);
	if (!packet.data)
		return false;
	memcpy(packet.data, rest.at, rest.length);
	pcap->packets[pcap->count++] = packet;
	return true;
}

static bool read_link_type(FILE *file, uint32_t *link_type)
{
	uint8_t header[FILE_HEADER_SIZE];

	if (fread(header, sizeof(header), 1, file) != 1 || host_32(header) != MAGIC_MICROSECONDS)
		return false;
	*link_type = host_32(header + 20);
	return *link_type == LINK_TYPE_ETHERNET || *link_type == LINK_TYPE_RAW;
}

/* What follows the header of a record. */
static bool read_record(struct pcap *pcap, FILE *file, uint32_t link_type,
			const uint8_t header[RECORD_HEADER_SIZE])
{
	uint32_t length = host_32(header + 8);
	uint8_t *bytes;
	bool added;

	if (length == 0 || length > MAX_RECORD)
		return false;
	bytes = malloc(length);
	added = bytes && fread(bytes, length, 1, file) == 1 &&
		add_packet(pcap, (struct rest){ bytes, length }, link_type);
	free(bytes);
	return added;
}

static bool read_file(struct pcap *pcap, FILE *file)
{
	uint8_t header[RECORD_HEADER_SIZE];
	uint32_t link_type;
	size_t got;

	if (!read_link_type(file, &link_type))
		return false;
	while ((got = fread(header, 1, sizeof(header), file)) == sizeof(header))
		if (!read_record(pcap, file, link_type, header))
			return false;
	return got == 0;
}

bool pcap_add_file(struct pcap *pcap, const char *path)
{
	FILE *file = fopen(path, "rb");
	bool added = file && read_file(pcap, file);

	if (!added)
		fprintf(stderr, "%s: cannot be read, or is no capture of UDP alone\n", path);
	if (file)
		fclose(file);
	return added;
}

bool pcap_add_folder(struct pcap *pcap, const char *folder)
{
	char pattern[4096];
	glob_t found;
	bool added = true;

	if (snprintf(pattern, sizeof(pattern), "%s/*.pcap", folder) >= (int)sizeof(pattern) ||
	    glob(pattern, 0, NULL, &found) != 0) {
		fprintf(stderr, "%s: no captures there\n", folder);
		return false;
	}
	for (size_t i = 0; added && i < found.gl_pathc; i++)
		added = pcap_add_file(pcap, found.gl_pathv[i]);
	globfree(&found);
	return added;
}

void pcap_free(struct pcap *pcap)
{
	for (size_t i = 0; i < pcap->count; i++)
		free(pcap->packets[i].data);
	free(pcap->packets);
}
