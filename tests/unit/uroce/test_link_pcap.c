#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <errno.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <netinet/udp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "link_nodes.h"
#include "network.h"

#define STRANGER_PORT 5000
#define MAX_RECORDS   64

static char folder[] = "/tmp/uroce_pcap_XXXXXX";

/* A whole packet of a capture. */
struct record {
	uint32_t seconds;
	uint32_t nanoseconds;
	uint32_t captured;
	uint32_t length;
	struct ur_flow flow;
	uint16_t ip_id;
	uint8_t bytes[5000];
	const uint8_t *data; /* of the datagram */
	size_t data_length;
};

static struct record records[MAX_RECORDS];

static int make_folder(void **state)
{
	(void)state;
	return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
	(void)state;
	return rmdir(folder);
}

static char *path_of(const char *name)
{
	static char path[256];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return path;
}

static uint16_t checksum(uint32_t start, const uint8_t *bytes, size_t length)
{
	uint32_t sum = start;

	for (size_t i = 0; i < length; i++)
		sum += i % 2 == 0 ? (uint32_t)bytes[i] << 8 : bytes[i];
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)sum;
}

/* Returns where the UDP header begins. */
static size_t parse_ipv4(struct record *record)
{
	struct iphdr ip;

	memcpy(&ip, record->bytes, sizeof(ip));
	assert_int_equal(ip.ihl, 5);
	assert_int_equal(ntohs(ip.tot_len), record->length);
	assert_int_equal(ntohs(ip.frag_off), IP_DF);
	assert_int_equal(ip.ttl, 64);
	assert_int_equal(ip.protocol, IPPROTO_UDP);
	assert_int_equal(checksum(0, record->bytes, sizeof(ip)), 0xffff);
	record->ip_id = ntohs(ip.id);
	record->flow = (struct ur_flow){
		.source.v4 = { .sin_family = AF_INET, .sin_addr.s_addr = ip.saddr },
		.dest.v4 = { .sin_family = AF_INET, .sin_addr.s_addr = ip.daddr },
	};
	return sizeof(ip);
}

static size_t parse_ipv6(struct record *record)
{
	struct ip6_hdr ip;

	memcpy(&ip, record->bytes, sizeof(ip));
	assert_int_equal(ip.ip6_vfc >> 4, 6);
	assert_int_equal(ntohs(ip.ip6_plen), record->length - sizeof(ip));
	assert_int_equal(ip.ip6_nxt, IPPROTO_UDP);
	assert_int_equal(ip.ip6_hlim, 64);
	record->ip_id = 0;
	record->flow = (struct ur_flow){
		.source.v6 = { .sin6_family = AF_INET6, .sin6_addr = ip.ip6_src },
		.dest.v6 = { .sin6_family = AF_INET6, .sin6_addr = ip.ip6_dst },
	};
	return sizeof(ip);
}

static void parse(struct record *record)
{
	size_t udp_at = record->bytes[0] >> 4 == 4 ? parse_ipv4(record) : parse_ipv6(record);
	size_t addresses = record->bytes[0] >> 4 == 4 ? 8 : 32;
	size_t udp_length = record->length - udp_at;
	uint16_t pseudo = checksum((uint32_t)(IPPROTO_UDP + udp_length),
				   record->bytes + udp_at - addresses, addresses);
	struct udphdr udp;

	memcpy(&udp, record->bytes + udp_at, sizeof(udp));
	assert_int_equal(ntohs(udp.len), udp_length);
	assert_int_not_equal(udp.check, 0);
	assert_int_equal(checksum(pseudo, record->bytes + udp_at, udp_length), 0xffff);
	/* The ports stand at the same place for both families. */
	record->flow.source.v4.sin_port = udp.source;
	record->flow.dest.v4.sin_port = udp.dest;
	record->data = record->bytes + udp_at + sizeof(udp);
	record->data_length = udp_length - sizeof(udp);
}

/* Reads and checks a whole capture; returns the number of packets. Removes the file. */
static size_t read_capture(const char *path)
{
	FILE *file = fopen(path, "r");
	uint32_t header[6];
	size_t count = 0;

	assert_non_null(file);
	assert_int_equal(fread(header, sizeof(header), 1, file), 1);
	assert_int_equal(header[0], 0xa1b23c4d);
	assert_int_equal(header[1], 4 << 16 | 2);
	assert_int_equal(header[5], 101);
	for (; fread(&records[count], 16, 1, file) == 1; count++) {
		struct record *record = &records[count];

		assert_true(count < MAX_RECORDS - 1);
		assert_int_equal(record->captured, record->length);
		assert_true(record->length <= header[4]);
		assert_in_range(record->length, 28, sizeof(record->bytes));
		assert_int_equal(fread(record->bytes, record->length, 1, file), 1);
		parse(record);
	}
	assert_true(feof(file));
	fclose(file);
	unlink(path);
	return count;
}

static bool has_right_icrc(const struct record *record)
{
	uint16_t ip_id = record->ip_id;

	return ur_icrc_check(&record->flow, record->data, record->data_length, true, &ip_id) &&
	       ip_id == record->ip_id;
}

static void assert_packet(const struct record *record, uint32_t psn, size_t length)
{
	struct ur_packet packet;

	assert_true(has_right_icrc(record));
	assert_int_equal(ur_packet_decode(record->data, record->data_length, &packet), UR_DECODED);
	assert_int_equal(packet.psn, psn);
	assert_int_equal(packet.payload_length, length);
	assert_memory_equal(packet.payload, payload_of(psn, length), length);
}

static struct node *open_with_capture(const char *name)
{
	struct node *node;

	setenv("UROCE_PCAP", path_of(name), 1);
	node = node_open();
	unsetenv("UROCE_PCAP");
	return node;
}

static void exchange(struct node *a, struct node *b, uint8_t gid_index)
{
	struct ur_path to_b = path_to(b, gid_index), to_a = path_to(a, gid_index);

	for (uint32_t i = 0; i < 3; i++)
		node_send(a, &to_b, qpn_of(b, 5), i, 1024);
	node_send(a, &to_b, qpn_of(b, 5), 3, 5);
	node_flush(a);
	node_wait(b, 4);
	node_send(b, &to_a, qpn_of(a, 5), 4, 0);
	node_flush(b);
	node_wait(a, 1);
}

/* names: of the captures of two processes. */
static void captures_what_is_sent_and_received(uint8_t gid_index, const char *const names[2])
{
	struct node *a = open_with_capture(names[0]), *b = open_with_capture(names[1]);
	time_t start = time(NULL);
	struct ur_path address_of_b = path_to(b, gid_index);

	exchange(a, b, gid_index);
	node_close(b);
	node_close(a);
	for (unsigned n = 0; n < 2; n++) {
		assert_int_equal(read_capture(path_of(names[n])), 5);
		for (uint32_t i = 0; i < 4; i++) {
			assert_packet(&records[i], i, i < 3 ? 1024 : 5);
			assert_int_equal(ntohs(records[i].flow.source.v4.sin_port), 4791);
			assert_int_equal(ntohs(records[i].flow.dest.v4.sin_port), 4792);
			assert_in_range(records[i].seconds, start, start + 20);
			/* One message of four packets. */
			assert_int_equal(records[i].ip_id, gid_index == IPV4_GID ? i : 0);
		}
		assert_packet(&records[4], 4, 0);
		assert_memory_equal(&records[4].flow.source, &address_of_b.remote,
				    sizeof(struct sockaddr_in));
	}
}

static void test_what_is_sent_and_received_over_ipv4_is_captured(void **state)
{
	(void)state;
	captures_what_is_sent_and_received(IPV4_GID, (const char *[]){ "a4.pcap", "b4.pcap" });
}

static void test_what_is_sent_and_received_over_ipv6_is_captured(void **state)
{
	(void)state;
	captures_what_is_sent_and_received(IPV6_GID, (const char *[]){ "a6.pcap", "b6.pcap" });
}

static void test_what_is_received_is_captured_as_it_is_even_if_it_is_dropped(void **state)
{
	struct node *node = open_with_capture("bad.pcap");
	int fd = network_socket("127.0.0.1", STRANGER_PORT);
	union ur_sockaddr dest = path_to(node, IPV4_GID).remote;

	(void)state;
	sendto(fd, "", 0, 0, &dest.any, sizeof(dest.v4));
	sendto(fd, "odd", 3, 0, &dest.any, sizeof(dest.v4));
	sendto(fd, "a wrong ICRC at the end", 24, 0, &dest.any, sizeof(dest.v4));
	while (node->counters.rx_packets < 3)
		node_receive(node);
	node_close(node);
	close(fd);
	assert_int_equal(read_capture(path_of("bad.pcap")), 3);
	assert_int_equal(records[0].data_length, 0);
	assert_int_equal(records[1].data_length, 3);
	assert_memory_equal(records[1].data, "odd", 3);
	assert_int_equal(records[2].data_length, 24);
	assert_false(has_right_icrc(&records[2]));
}

/* The one whose checksum comes out as 0, which would mean that it has none. */
static void test_a_datagram_always_has_a_checksum(void **state)
{
	struct node *node = open_with_capture("zero.pcap");
	int fd = network_socket("127.0.0.1", STRANGER_PORT);
	union ur_sockaddr dest = path_to(node, IPV4_GID).remote;
	/* Of both addresses, the protocol, the length, which is there twice, and the ports. */
	uint32_t sum = 2 * 0x7f01 + IPPROTO_UDP + 2 * 10 + STRANGER_PORT + UR_UDP_PORT;
	uint16_t data = htons((uint16_t)~checksum(sum, NULL, 0));

	(void)state;
	sendto(fd, &data, sizeof(data), 0, &dest.any, sizeof(dest.v4));
	while (node->counters.rx_packets < 1)
		node_receive(node);
	node_close(node);
	close(fd);
	assert_int_equal(read_capture(path_of("zero.pcap")), 1);
	assert_memory_equal(records[0].data - 2, "\xff\xff", 2);
}

static void limit_files(rlim_t size)
{
	struct rlimit limit;

	assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
	limit.rlim_cur = size;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void test_a_capture_ends_when_its_file_is_full_and_the_link_goes_on(void **state)
{
	struct node *a, *b = node_open();
	struct stat status;

	(void)state;
	signal(SIGXFSZ, SIG_IGN);
	limit_files(2000);
	a = open_with_capture("full.pcap");
	exchange(a, b, IPV4_GID);
	limit_files(RLIM_INFINITY);
	b->count = 0;
	exchange(a, b, IPV4_GID);
	node_close(b);
	node_close(a);
	assert_int_equal(stat(path_of("full.pcap"), &status), 0);
	assert_int_equal(status.st_size, 2000);
	unlink(path_of("full.pcap"));
}

static void test_a_packet_that_was_passed_on_is_captured_as_its_sender_sent_it(void **state)
{
	struct node *a = node_open(), *b = open_with_capture("passed.pcap");
	struct ur_flow flow = { .source = network_address("127.0.0.1", STRANGER_PORT),
				.dest = network_address("127.0.0.1", UR_UDP_PORT) };
	struct ur_packet packet = { .opcode = UR_RC_SEND_ONLY,
				    .pkey = UR_DEFAULT_PKEY,
				    .dest_qpn = qpn_of(b, 7),
				    .psn = 1,
				    .payload_length = 100 };
	int fd = network_socket("127.0.0.1", STRANGER_PORT);
	uint8_t data[256];
	size_t length = build_datagram(&packet, &flow, 0, payload_of(1, 100), data);

	(void)state;
	sendto(fd, data, length, 0, &flow.dest.any, sizeof(flow.dest.v4));
	while (a->counters.rx_packets < 1)
		node_receive(a);
	node_wait(b, 1);
	node_close(b);
	node_close(a);
	close(fd);
	assert_int_equal(read_capture(path_of("passed.pcap")), 1);
	assert_packet(&records[0], 1, 100);
	assert_memory_equal(&records[0].flow, &flow, sizeof(flow));
}

static void test_packets_that_faults_drop_are_not_captured_corrupted_ones_are(void **state)
{
	struct node *a, *b = node_open();
	struct ur_path path = path_to(b, IPV4_GID);
	size_t right = 0;

	(void)state;
	setenv("UROCE_FAULTS", "drop=50%,corrupt=50%,seed=2", 1);
	a = open_with_capture("faults.pcap");
	unsetenv("UROCE_FAULTS");
	for (uint32_t i = 0; i < 40; i++)
		node_send(a, &path, qpn_of(b, 5), i, 1024);
	node_flush(a);
	node_close(b);
	assert_int_equal(read_capture(path_of("faults.pcap")), 40 - a->counters.fault_dropped);
	for (size_t i = 0; i < 40 - a->counters.fault_dropped; i++)
		right += has_right_icrc(&records[i]);
	assert_true(a->counters.fault_corrupted > 0);
	assert_int_equal(right, 40 - a->counters.fault_dropped - a->counters.fault_corrupted);
	node_close(a);
}

static void test_a_process_goes_on_with_its_file_when_it_opens_a_link_again(void **state)
{
	struct node *a, *b = node_open();

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		a = open_with_capture("again.pcap");
		exchange(a, b, IPV4_GID);
		b->count = 0;
		node_close(a);
	}
	node_close(b);
	assert_int_equal(read_capture(path_of("again.pcap")), 10);
}

static void test_percent_p_stands_for_the_number_of_the_process(void **state)
{
	struct node *node = open_with_capture("%p-%p.pcap");
	char name[64];

	(void)state;
	node_close(node);
	snprintf(name, sizeof(name), "%d-%d.pcap", getpid(), getpid());
	assert_int_equal(read_capture(path_of(name)), 0);
}

static void test_an_existing_file_is_replaced(void **state)
{
	FILE *file = fopen(path_of("old.pcap"), "w");
	struct stat status;

	(void)state;
	fputs("something that was there before, and is longer than the header", file);
	fclose(file);
	node_close(open_with_capture("old.pcap"));
	assert_int_equal(stat(path_of("old.pcap"), &status), 0);
	assert_int_equal(status.st_size, 24);
	assert_int_equal(read_capture(path_of("old.pcap")), 0);
}

static void test_only_its_user_can_read_a_capture(void **state)
{
	struct stat status;

	(void)state;
	node_close(open_with_capture("mode.pcap"));
	assert_int_equal(stat(path_of("mode.pcap"), &status), 0);
	assert_int_equal(status.st_mode & 0777, 0600);
	unlink(path_of("mode.pcap"));
}

static int try_open(const char *path)
{
	struct node *node;
	int error;

	setenv("UROCE_PCAP", path, 1);
	error = node_try_open(&node);
	unsetenv("UROCE_PCAP");
	if (!error)
		node_close(node);
	return error;
}

static void test_a_file_that_cannot_be_written_keeps_the_link_from_opening(void **state)
{
	char *link_path;
	char target[256], long_path[5000];

	(void)state;
	assert_int_equal(try_open(path_of("missing/a.pcap")), ENOENT);
	assert_int_equal(try_open("/dev/full"), ENOSPC);
	signal(SIGXFSZ, SIG_IGN);
	limit_files(10);
	assert_int_equal(try_open(path_of("short.pcap")), ENOSPC);
	limit_files(RLIM_INFINITY);
	assert_int_equal(unlink(path_of("short.pcap")), 0);
	memset(long_path, 'x', sizeof(long_path) - 1);
	long_path[sizeof(long_path) - 1] = '\0';
	assert_int_equal(try_open(long_path), ENAMETOOLONG);

	snprintf(target, sizeof(target), "%s", path_of("target"));
	link_path = path_of("link");
	assert_int_equal(symlink(target, link_path), 0);
	assert_int_equal(try_open(link_path), ELOOP);
	assert_int_equal(unlink(link_path), 0);
	assert_int_equal(access(target, F_OK), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_is_sent_and_received_over_ipv4_is_captured),
		cmocka_unit_test(test_what_is_sent_and_received_over_ipv6_is_captured),
		cmocka_unit_test(test_what_is_received_is_captured_as_it_is_even_if_it_is_dropped),
		cmocka_unit_test(test_a_datagram_always_has_a_checksum),
		cmocka_unit_test(test_a_capture_ends_when_its_file_is_full_and_the_link_goes_on),
		cmocka_unit_test(
			test_a_packet_that_was_passed_on_is_captured_as_its_sender_sent_it),
		cmocka_unit_test(test_packets_that_faults_drop_are_not_captured_corrupted_ones_are),
		cmocka_unit_test(test_a_process_goes_on_with_its_file_when_it_opens_a_link_again),
		cmocka_unit_test(test_percent_p_stands_for_the_number_of_the_process),
		cmocka_unit_test(test_an_existing_file_is_replaced),
		cmocka_unit_test(test_only_its_user_can_read_a_capture),
		cmocka_unit_test(test_a_file_that_cannot_be_written_keeps_the_link_from_opening),
	};

	if (!network_enter())
		return 1;
	return cmocka_run_group_tests_name("link pcap", tests, make_folder, remove_folder);
}
