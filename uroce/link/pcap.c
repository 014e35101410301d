#include "pcap.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/udp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../core/log.h"
#include "../wire/ip.h"
#include "address.h"

#define MAGIC_NANOSECONDS UINT32_C(0xa1b23c4d)
#define LINKTYPE_RAW      101
#define UDP_SIZE          sizeof(struct udphdr)

struct file_header {
	uint32_t magic;
	uint16_t major;
	uint16_t minor;
	uint32_t unused[2];
	uint32_t max_length;
	uint32_t link_type;
};

struct record_header {
	uint32_t seconds;
	uint32_t nanoseconds;
	uint32_t captured;
	uint32_t length;
};

struct ur_pcap {
	struct ur_pcap *next;
	int fd;
	atomic_bool failed;
	char path[];
};

/* Of this process: a device that is opened again goes on with its file. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct ur_pcap *files;

/* Puts the process's number in the place of "%p". Returns false if there is not enough room. */
static bool expand(const char *path, char expanded[PATH_MAX])
{
	size_t used = 0;

	for (; *path; path++) {
		if (strncmp(path, "%p", 2) == 0) {
			used += (size_t)snprintf(expanded + used, PATH_MAX - used, "%d", getpid());
			path++;
		} else {
			expanded[used++] = *path;
		}
		if (used >= PATH_MAX)
			return false;
	}
	expanded[used] = '\0';
	return true;
}

static int write_file_header(int fd)
{
	const struct file_header header = { .magic = MAGIC_NANOSECONDS,
					    .major = 2,
					    .minor = 4,
					    .max_length = UINT16_MAX,
					    .link_type = LINKTYPE_RAW };
	ssize_t written = write(fd, &header, sizeof(header));

	if (written < 0)
		return errno;
	return written == sizeof(header) ? 0 : ENOSPC;
}

static struct ur_pcap *find(const char *path)
{
	struct ur_pcap *pcap = files;

	while (pcap && strcmp(pcap->path, path) != 0)
		pcap = pcap->next;
	return pcap;
}

/* Appending, so that a record of another process leaves the file readable. */
static int create(const char *path, struct ur_pcap **pcap)
{
	struct ur_pcap *created = malloc(sizeof(*created) + strlen(path) + 1);
	int error;

	if (!created)
		return ENOMEM;
	strcpy(created->path, path);
	created->fd =
		open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (created->fd < 0) {
		error = errno;
		goto err_free;
	}
	error = write_file_header(created->fd);
	if (error)
		goto err_close;
	atomic_init(&created->failed, false);
	created->next = files;
	files = created;
	*pcap = created;
	return 0;

err_close:
	close(created->fd);
err_free:
	free(created);
	return error;
}

static int find_or_create(const char *path, struct ur_pcap **pcap)
{
	char expanded[PATH_MAX];

	if (!expand(path, expanded))
		return ENAMETOOLONG;
	*pcap = find(expanded);
	return *pcap ? 0 : create(expanded, pcap);
}

int ur_pcap_open(const char *path, struct ur_pcap **pcap)
{
	int error;

	pthread_mutex_lock(&lock);
	error = find_or_create(path, pcap);
	pthread_mutex_unlock(&lock);
	if (error)
		ur_log(UR_LOG_ERROR, "UROCE_PCAP: cannot write to %s: %s", path, strerror(error));
	return error;
}

struct timespec ur_pcap_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return now;
}

/* Of the pseudo header: addresses, which end the IP header, protocol and length. */
static uint64_t pseudo_sum(const uint8_t *ip_end, bool is_ipv4, size_t udp_length)
{
	size_t addresses = 2 * (is_ipv4 ? sizeof(struct in_addr) : sizeof(struct in6_addr));

	return ur_ip_sum(IPPROTO_UDP + udp_length, ip_end - addresses, addresses);
}

static size_t put_udp(uint8_t *at, const struct ur_flow *flow, const void *data, size_t length)
{
	struct udphdr udp = {
		.source = htons(ur_address_port(&flow->source)),
		.dest = htons(ur_address_port(&flow->dest)),
		.len = htons((uint16_t)(UDP_SIZE + length)),
	};
	uint64_t total = pseudo_sum(at, ur_address_is_ipv4(&flow->source), UDP_SIZE + length);

	udp.check = ur_ip_checksum(ur_ip_sum(ur_ip_sum(total, &udp, UDP_SIZE), data, length));
	/* 0 would say that there is none. */
	if (udp.check == 0)
		udp.check = UINT16_MAX;
	memcpy(at, &udp, UDP_SIZE);
	return UDP_SIZE;
}

static void fail(struct ur_pcap *pcap, int error)
{
	if (!atomic_exchange(&pcap->failed, true))
		ur_log(UR_LOG_ERROR, "UROCE_PCAP: writing to %s failed, the capture ends: %s",
		       pcap->path, strerror(error));
}

void ur_pcap_record(struct ur_pcap *pcap, struct timespec time, const struct ur_flow *flow,
		    uint16_t ip_id, const void *data, size_t length)
{
	uint8_t headers[UR_IPV6_HEADER_SIZE + UDP_SIZE];
	size_t udp_length = UDP_SIZE + length;
	size_t size = ur_ip_header(flow, ip_id, udp_length, headers);
	struct record_header record = { .seconds = (uint32_t)time.tv_sec,
					.nanoseconds = (uint32_t)time.tv_nsec };
	struct iovec pieces[] = {
		{ &record, sizeof(record) },
		{ headers, 0 },
		{ (void *)(uintptr_t)data, length },
	};
	ssize_t written;

	if (atomic_load_explicit(&pcap->failed, memory_order_relaxed))
		return;
	size += put_udp(headers + size, flow, data, length);
	pieces[1].iov_len = size;
	record.captured = record.length = (uint32_t)(size + length);
	/* In one call, so that no other thread's record can come between. */
	written = writev(pcap->fd, pieces, 3);
	if (written != (ssize_t)(sizeof(record) + size + length))
		fail(pcap, written < 0 ? errno : ENOSPC);
}
