#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "../../../uroce/link/faults.h"
#include "link_nodes.h"
#include "network.h"

#define MS          UINT64_C(1000000)
#define PACKETS     10000
#define PACKET_SIZE 64

/* ---- Settings ---- */

static void test_all_settings_are_read(void **state)
{
	struct ur_fault_settings settings;

	(void)state;
	assert_int_equal(
		ur_fault_settings_parse("drop=5%,dup=1%,reorder=100%,corrupt=0.1%,delay=2ms,seed=7",
					&settings),
		0);
	assert_int_equal(settings.drop, 50000000);
	assert_int_equal(settings.dup, 10000000);
	assert_int_equal(settings.reorder, 1000000000);
	assert_int_equal(settings.corrupt, 1000000);
	assert_int_equal(settings.delay, 2 * MS);
	assert_int_equal(settings.seed, 7);
}

static void test_settings_that_are_not_named_are_zero(void **state)
{
	struct ur_fault_settings settings;

	(void)state;
	assert_int_equal(ur_fault_settings_parse("delay=150us", &settings), 0);
	assert_int_equal(settings.drop, 0);
	assert_int_equal(settings.dup, 0);
	assert_int_equal(settings.reorder, 0);
	assert_int_equal(settings.corrupt, 0);
	assert_int_equal(settings.delay, 150000);
	assert_int_equal(settings.seed, 0);
}

static void test_limits_of_settings_are_allowed(void **state)
{
	struct ur_fault_settings settings;

	(void)state;
	assert_int_equal(
		ur_fault_settings_parse(
			"drop=0%,dup=100.0%,corrupt=0.0000001%,rx_drop=2%,delay=1000ms,seed=18446744073709551615",
			&settings),
		0);
	assert_int_equal(settings.rx_drop, 20000000);
	assert_int_equal(settings.dup, 1000000000);
	assert_int_equal(settings.corrupt, 1);
	assert_int_equal(settings.delay, 1000 * MS);
	assert_int_equal(settings.seed, UINT64_MAX);
}

static void test_settings_that_are_not_understood_are_refused(void **state)
{
	static const char *const bad[] = {
		"",
		",",
		"drop",
		"drop=",
		"drop=5",
		"drop=%",
		"drop=5%%",
		"drop=-5%",
		"drop=+5%",
		"drop= 5%",
		" drop=5%",
		"drop=5% ",
		"drop=101%",
		"drop=100.1%",
		"drop=0.00000001%",
		"drop=.5%",
		"drop=5.%",
		"drop=5,5%",
		"drop=1e1%",
		"drop=99999999999999999999999%",
		"drop=5%,",
		",drop=5%",
		"drop=5%;dup=1%",
		"Drop=5%",
		"loss=5%",
		"=5%",
		"delay=2",
		"delay=2s",
		"delay=1001ms",
		"delay=2.5ms",
		"delay=99999999999999999999ms",
		"delay=18446744073709551615ms",
		"seed=",
		"seed=x",
		"seed=-1",
		"seed=1x",
		"seed=18446744073709551616",
		"drop=0000000000000000000000000000000000000000000000000000000000000000005%",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct ur_fault_settings settings;

		assert_int_equal(ur_fault_settings_parse(bad[i], &settings), EINVAL);
	}
}

/* ---- Faults ---- */

/* What came out, in order: the number that each packet was given, and whether it is intact. */
struct bed {
	struct ur_counters counters;
	struct ur_faults *faults;
	size_t count;
	uint32_t numbers[2 * PACKETS];
	unsigned wrong_bits[2 * PACKETS];
	bool bytes_hit[PACKET_SIZE]; /* places that were wrong in some packet */
};

static void fill(uint8_t data[PACKET_SIZE], uint32_t number)
{
	for (size_t i = 0; i < PACKET_SIZE; i++)
		data[i] = (uint8_t)(number * 7 + i * 13);
}

static unsigned count_wrong_bits(struct bed *bed, const uint8_t *data, uint32_t number)
{
	uint8_t right[PACKET_SIZE];
	unsigned wrong = 0;

	fill(right, number);
	for (size_t i = 0; i < PACKET_SIZE; i++) {
		wrong += (unsigned)__builtin_popcount(data[i] ^ right[i]);
		bed->bytes_hit[i] |= data[i] != right[i];
	}
	return wrong;
}

/* The number stands in the flow, which no fault touches. */
static void note(void *user_data, const struct ur_copy *copy)
{
	struct bed *bed = user_data;
	uint32_t number = copy->flow.dest.v4.sin_addr.s_addr;

	assert_int_equal(copy->size, PACKET_SIZE);
	assert_true(bed->count < 2 * PACKETS);
	bed->numbers[bed->count] = number;
	bed->wrong_bits[bed->count++] = count_wrong_bits(bed, copy->data, number);
}

static struct bed *make_bed(const char *text)
{
	struct bed *bed = calloc(1, sizeof(*bed));
	struct ur_fault_settings settings;

	assert_non_null(bed);
	assert_int_equal(ur_fault_settings_parse(text, &settings), 0);
	bed->faults = ur_faults_create(&settings, &bed->counters, note, bed);
	assert_non_null(bed->faults);
	return bed;
}

static void free_bed(struct bed *bed)
{
	ur_faults_free(bed->faults);
	free(bed);
}

static void take(struct bed *bed, uint32_t number, uint64_t now)
{
	struct ur_copy copy = { .size = PACKET_SIZE };

	copy.flow.dest.v4.sin_addr.s_addr = number;
	fill(copy.data, number);
	ur_faults_take(bed->faults, &copy, now);
}

static void take_many(struct bed *bed, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		take(bed, i, 0);
}

static void test_without_faults_all_packets_go_out_at_once_in_order_and_intact(void **state)
{
	struct bed *bed = make_bed("seed=1");

	(void)state;
	for (uint32_t i = 0; i < PACKETS; i++) {
		take(bed, i, 0);
		assert_int_equal(bed->count, i + 1);
		assert_int_equal(bed->numbers[i], i);
		assert_int_equal(bed->wrong_bits[i], 0);
	}
	assert_int_equal(ur_faults_deadline(bed->faults), UINT64_MAX);
	free_bed(bed);
}

static void assert_near(size_t value, size_t expected)
{
	assert_in_range(value, expected * 85 / 100, expected * 115 / 100);
}

static void test_packets_are_dropped_at_their_rate(void **state)
{
	struct bed *bed = make_bed("drop=5%,seed=7");

	(void)state;
	take_many(bed, PACKETS);
	assert_near(bed->counters.fault_dropped, PACKETS * 5 / 100);
	assert_int_equal(bed->count, PACKETS - bed->counters.fault_dropped);
	for (size_t i = 1; i < bed->count; i++)
		assert_true(bed->numbers[i] > bed->numbers[i - 1]);
	free_bed(bed);
}

static void test_a_chance_of_all_or_none_is_exact(void **state)
{
	struct bed *bed = make_bed("drop=100%");

	(void)state;
	take_many(bed, PACKETS);
	assert_int_equal(bed->count, 0);
	assert_int_equal(bed->counters.fault_dropped, PACKETS);
	free_bed(bed);
	bed = make_bed("dup=100%,drop=0%");
	take_many(bed, PACKETS);
	assert_int_equal(bed->count, 2 * PACKETS);
	free_bed(bed);
}

static void test_packets_are_sent_twice_at_their_rate(void **state)
{
	struct bed *bed = make_bed("dup=10%,seed=7");
	size_t pairs = 0;

	(void)state;
	take_many(bed, PACKETS);
	assert_near(bed->counters.fault_duplicated, PACKETS / 10);
	assert_int_equal(bed->count, PACKETS + bed->counters.fault_duplicated);
	for (size_t i = 1; i < bed->count; i++)
		pairs += bed->numbers[i] == bed->numbers[i - 1];
	assert_int_equal(pairs, bed->counters.fault_duplicated);
	free_bed(bed);
}

static void test_one_bit_of_a_packet_is_corrupted_anywhere_in_it(void **state)
{
	struct bed *bed = make_bed("corrupt=10%,seed=7");
	size_t corrupted = 0;

	(void)state;
	take_many(bed, PACKETS);
	assert_int_equal(bed->count, PACKETS);
	for (size_t i = 0; i < bed->count; i++) {
		assert_true(bed->wrong_bits[i] <= 1);
		corrupted += bed->wrong_bits[i];
	}
	assert_near(corrupted, PACKETS / 10);
	for (size_t i = 0; i < PACKET_SIZE; i++)
		assert_true(bed->bytes_hit[i]);
	assert_int_equal(bed->counters.fault_corrupted, corrupted);
	free_bed(bed);
}

static void test_a_packet_out_of_order_goes_behind_the_next(void **state)
{
	struct bed *bed = make_bed("reorder=100%");

	(void)state;
	take_many(bed, 4);
	/* While one is held back, no further one is. */
	assert_int_equal(bed->count, 4);
	assert_int_equal(bed->numbers[0], 1);
	assert_int_equal(bed->numbers[1], 0);
	assert_int_equal(bed->numbers[2], 3);
	assert_int_equal(bed->numbers[3], 2);
	assert_int_equal(bed->counters.fault_reordered, 2);
	assert_int_equal(ur_faults_deadline(bed->faults), UINT64_MAX);
	free_bed(bed);
}

static void test_a_packet_with_none_behind_it_is_held_back_for_1_ms(void **state)
{
	struct bed *bed = make_bed("reorder=100%");

	(void)state;
	take(bed, 0, 5 * MS);
	assert_int_equal(bed->count, 0);
	assert_int_equal(ur_faults_deadline(bed->faults), 6 * MS);
	ur_faults_run(bed->faults, 6 * MS - 1);
	assert_int_equal(bed->count, 0);
	ur_faults_run(bed->faults, 6 * MS);
	assert_int_equal(bed->count, 1);
	assert_int_equal(bed->counters.fault_reordered, 0);
	assert_int_equal(ur_faults_deadline(bed->faults), UINT64_MAX);
	free_bed(bed);
}

static void test_all_packets_are_delayed_in_order(void **state)
{
	struct bed *bed = make_bed("delay=2ms");

	(void)state;
	take(bed, 0, 10 * MS);
	take(bed, 1, 11 * MS);
	assert_int_equal(bed->count, 0);
	assert_int_equal(ur_faults_deadline(bed->faults), 12 * MS);
	ur_faults_run(bed->faults, 12 * MS - 1);
	assert_int_equal(bed->count, 0);
	ur_faults_run(bed->faults, 12 * MS);
	assert_int_equal(bed->count, 1);
	assert_int_equal(ur_faults_deadline(bed->faults), 13 * MS);
	ur_faults_run(bed->faults, 20 * MS);
	assert_int_equal(bed->count, 2);
	assert_int_equal(bed->numbers[0], 0);
	assert_int_equal(bed->numbers[1], 1);
	assert_int_equal(bed->wrong_bits[0] + bed->wrong_bits[1], 0);
	assert_int_equal(bed->counters.fault_delayed, 2);
	assert_int_equal(ur_faults_deadline(bed->faults), UINT64_MAX);
	free_bed(bed);
}

static void test_packets_that_find_no_place_to_wait_are_dropped(void **state)
{
	struct bed *bed = make_bed("delay=1ms");

	(void)state;
	for (unsigned round = 1; round <= 3; round++) {
		take_many(bed, UR_FAULTS_QUEUE + 10);
		assert_int_equal(bed->counters.fault_dropped, 10 * round);
		ur_faults_run(bed->faults, MS);
		assert_int_equal(bed->count, UR_FAULTS_QUEUE * round);
		assert_int_equal(bed->numbers[bed->count - 1], UR_FAULTS_QUEUE - 1);
	}
	free_bed(bed);
}

static bool are_alike(const char *settings, const char *other_settings)
{
	struct bed *bed = make_bed(settings), *other = make_bed(other_settings);
	bool alike;

	take_many(bed, PACKETS);
	take_many(other, PACKETS);
	alike = bed->count == other->count &&
		memcmp(bed->numbers, other->numbers, sizeof(bed->numbers)) == 0 &&
		memcmp(bed->wrong_bits, other->wrong_bits, sizeof(bed->wrong_bits)) == 0;
	free_bed(bed);
	free_bed(other);
	return alike;
}

static void test_the_same_seed_gives_the_same_faults_another_one_others(void **state)
{
	(void)state;
	assert_true(are_alike("drop=5%,dup=1%,reorder=1%,corrupt=1%,seed=7",
			      "drop=5%,dup=1%,reorder=1%,corrupt=1%,seed=7"));
	assert_false(are_alike("drop=5%,seed=7", "drop=5%,seed=8"));
}

/* ---- Of a link ---- */

static size_t send_and_count(const char *faults, uint32_t packets)
{
	struct node *a, *b;
	struct ur_path path;
	size_t arrived;

	setenv("UROCE_FAULTS", faults, 1);
	a = node_open();
	unsetenv("UROCE_FAULTS");
	b = node_open();
	path = path_to(b, IPV4_GID);
	for (uint32_t i = 0; i < packets; i++)
		node_send(a, &path, qpn_of(b, 5), i, 1024);
	node_flush(a);
	node_wait(b, packets - a->counters.fault_dropped - a->counters.fault_corrupted);
	arrived = b->count;
	assert_int_equal(a->counters.tx_packets, packets - a->counters.fault_dropped);
	assert_int_equal(arrived, packets - a->counters.fault_dropped - b->counters.rx_bad_icrc -
					  b->counters.rx_malformed);
	assert_int_equal(b->counters.rx_bad_icrc, a->counters.fault_corrupted);
	node_close(b);
	node_close(a);
	return arrived;
}

static void test_a_link_loses_the_same_packets_each_time(void **state)
{
	size_t arrived = send_and_count("drop=10%,seed=3", 1000);

	(void)state;
	assert_near(1000 - arrived, 100);
	assert_int_equal(send_and_count("drop=10%,seed=3", 1000), arrived);
}

static void test_corrupted_packets_are_refused_for_their_icrc(void **state)
{
	size_t arrived = send_and_count("corrupt=20%,seed=3", 500);

	(void)state;
	assert_near(500 - arrived, 100);
}

static void test_a_link_loses_packets_that_come(void **state)
{
	struct node *a = node_open(), *b;
	struct ur_path path;

	(void)state;
	setenv("UROCE_FAULTS", "rx_drop=10%,seed=3", 1);
	b = node_open();
	unsetenv("UROCE_FAULTS");
	path = path_to(b, IPV4_GID);
	for (uint32_t i = 0; i < 1000; i++)
		node_send(a, &path, qpn_of(b, 5), i, 1024);
	node_flush(a);
	while (b->counters.rx_packets < 1000)
		node_receive(b);
	assert_near(b->counters.fault_rx_dropped, 100);
	assert_int_equal(b->count, 1000 - b->counters.fault_rx_dropped);
	/* And nothing else is wrong. */
	assert_int_equal(b->counters.rx_bad_icrc, 0);
	assert_int_equal(b->counters.fault_dropped, 0);
	node_close(b);
	node_close(a);
}

static void test_a_link_sends_delayed_packets_when_its_timer_runs(void **state)
{
	struct node *a, *b;
	struct ur_path path;
	uint64_t deadline;

	(void)state;
	setenv("UROCE_FAULTS", "delay=5ms", 1);
	a = node_open();
	unsetenv("UROCE_FAULTS");
	b = node_open();
	path = path_to(b, IPV6_GID);
	assert_int_equal(ur_link_deadline(b->link), UINT64_MAX);
	assert_int_equal(ur_link_deadline(a->link), UINT64_MAX);
	node_send(a, &path, qpn_of(b, 5), 1, 4096);
	node_send(a, &path, qpn_of(b, 5), 2, 8);
	node_flush(a);
	deadline = ur_link_deadline(a->link);
	ur_link_run_timers(a->link, deadline - 1);
	assert_int_equal(a->counters.tx_packets, 0);
	ur_link_run_timers(a->link, deadline + 5 * MS);
	assert_int_equal(a->counters.tx_packets, 2);
	node_wait(b, 2);
	assert_arrived(b, 0, qpn_of(b, 5), 1, 4096);
	assert_arrived(b, 1, qpn_of(b, 5), 2, 8);
	node_close(b);
	node_close(a);
}

static void test_a_link_does_not_open_with_settings_that_are_not_understood(void **state)
{
	struct node *node;

	(void)state;
	setenv("UROCE_FAULTS", "drop=5", 1);
	assert_int_equal(node_try_open(&node), EINVAL);
	unsetenv("UROCE_FAULTS");
	/* Nothing of it is left. */
	node = node_open();
	assert_int_equal(ur_link_number(node->link), 0);
	node_close(node);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_settings_are_read),
		cmocka_unit_test(test_settings_that_are_not_named_are_zero),
		cmocka_unit_test(test_limits_of_settings_are_allowed),
		cmocka_unit_test(test_settings_that_are_not_understood_are_refused),
		cmocka_unit_test(
			test_without_faults_all_packets_go_out_at_once_in_order_and_intact),
		cmocka_unit_test(test_packets_are_dropped_at_their_rate),
		cmocka_unit_test(test_a_chance_of_all_or_none_is_exact),
		cmocka_unit_test(test_packets_are_sent_twice_at_their_rate),
		cmocka_unit_test(test_one_bit_of_a_packet_is_corrupted_anywhere_in_it),
		cmocka_unit_test(test_a_packet_out_of_order_goes_behind_the_next),
		cmocka_unit_test(test_a_packet_with_none_behind_it_is_held_back_for_1_ms),
		cmocka_unit_test(test_all_packets_are_delayed_in_order),
		cmocka_unit_test(test_packets_that_find_no_place_to_wait_are_dropped),
		cmocka_unit_test(test_the_same_seed_gives_the_same_faults_another_one_others),
		cmocka_unit_test(test_a_link_loses_the_same_packets_each_time),
		cmocka_unit_test(test_corrupted_packets_are_refused_for_their_icrc),
		cmocka_unit_test(test_a_link_loses_packets_that_come),
		cmocka_unit_test(test_a_link_sends_delayed_packets_when_its_timer_runs),
		cmocka_unit_test(test_a_link_does_not_open_with_settings_that_are_not_understood),
	};

	if (!network_enter())
		return 1;
	return cmocka_run_group_tests_name("faults", tests, NULL, NULL);
}
