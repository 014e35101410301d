#include "support.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "backoff.h"
#include "clock.h"
#include "sync_event.h"

/* Longest wait for what must happen, milliseconds: only a broken test takes so long. */
#define PATIENCE 60000

#define NO_FD -1
#define ALL   UINT64_MAX

struct world {
	struct rs_device *device;
	struct rs_sync_event *event;
	unsigned live; /* without the event */
};

static int setup(void **state)
{
	static struct world world;

	fake_reset();
	log_capture();
	fake_add_device("a0");
	assert_ok(rs_device_open("a0", 0, &world.device));
	world.live = fake_live();
	assert_ok(rs_sync_event_create(world.device, &world.event));
	*state = &world;
	return 0;
}

static int teardown(void **state)
{
	struct world *world = *state;

	assert_ok(rs_sync_event_destroy(world->event));
	assert_int_equal(fake_live(), world->live);
	assert_ok(rs_device_close(world->device));
	assert_int_equal(fake_live(), 0);
	rs_log_set_sink(NULL, NULL);
	return 0;
}

/* ---- Life ---- */

static void test_a_new_event_is_0_and_registered(void **state)
{
	struct world *world = *state;

	assert_int_equal(fake_calls(FAKE_REG_MR), 1);
	assert_int_equal(fake_live(), world->live + 1);
	assert_int_equal(rs_sync_event_get(world->event), 0);
	assert_string_equal(log_text(), "");
}

static void test_an_event_holds_its_device(void **state)
{
	struct world *world = *state;

	assert_status(rs_device_close(world->device), RS_ERR_IN_USE);
	assert_ok(rs_sync_event_destroy(world->event));
	world->event = NULL;
}

static void test_destroying_none_is_allowed(void **state)
{
	(void)state;
	assert_ok(rs_sync_event_destroy(NULL));
	rs_sync_event_remote_destroy(NULL);
}

static void test_a_failed_registration_is_logged_once_and_leaves_nothing(void **state)
{
	struct world *world = *state;
	struct rs_sync_event *event = NULL;

	fake_fail_call(FAKE_REG_MR, 0, ENOMEM);
	assert_status(rs_sync_event_create(world->device, &event), RS_ERR_NO_MEMORY);
	assert_null(event);
	assert_int_equal(fake_live(), world->live + 1);
	assert_int_equal(log_count("\n"), 1);
	assert_logged("sync_event: error: ibv_reg_mr(a0, address 0x");
	assert_logged("8 bytes, access 0xf) failed");
	/* The device is held once, by the event that there is. */
	assert_ok(rs_sync_event_destroy(world->event));
	assert_ok(rs_device_close(world->device));
	assert_ok(rs_device_open("a0", 0, &world->device));
	assert_ok(rs_sync_event_create(world->device, &world->event));
}

static void test_a_failed_deregistration_is_reported_and_the_event_is_gone(void **state)
{
	struct world *world = *state;

	fake_fail_call(FAKE_DEREG_MR, 0, EBUSY);
	assert_status(rs_sync_event_destroy(world->event), RS_ERR_IN_USE);
	world->event = NULL;
	assert_int_equal(log_count("\n"), 1);
	assert_logged("ibv_dereg_mr(a0) failed");
}

/* ---- What the peer gets ---- */

/* access: as the message about a failed registration says it. */
static void expect_access(enum ibv_atomic_cap cap, const char *access)
{
	struct rs_sync_event *event;
	struct rs_device *device;

	fake_add_device("b0")->atomic_cap = cap;
	assert_ok(rs_device_open("b0", 0, &device));
	fake_fail_call(FAKE_REG_MR, 0, EPERM);
	assert_status(rs_sync_event_create(device, &event), RS_ERR_NOT_PERMITTED);
	assert_logged(access);
	assert_ok(rs_device_close(device));
}

static void test_the_peer_may_read_and_write(void **state)
{
	(void)state;
	assert_int_equal(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE,
			 0x7);
	expect_access(IBV_ATOMIC_NONE, "access 0x7)");
}

static void test_the_peer_may_add_if_the_device_can(void **state)
{
	(void)state;
	assert_int_equal(0x7 | IBV_ACCESS_REMOTE_ATOMIC, 0xf);
	expect_access(IBV_ATOMIC_HCA, "access 0xf)");
}

static void test_an_event_without_atomics_exports_and_works(void **state)
{
	struct rs_sync_event *event;
	struct rs_device *device;

	(void)state;
	fake_add_device("weak0")->atomic_cap = IBV_ATOMIC_NONE;
	assert_ok(rs_device_open("weak0", 0, &device));
	assert_true(rs_device_supports(rs_device_info(device), RS_OP_EVENT_GET));
	assert_true(rs_device_supports(rs_device_info(device), RS_OP_EVENT_SET));
	assert_false(rs_device_supports(rs_device_info(device), RS_OP_EVENT_ADD));
	assert_ok(rs_sync_event_create(device, &event));
	assert_int_equal(rs_sync_event_add(event, 3), 0);
	assert_int_equal(rs_sync_event_get(event), 3);
	assert_ok(rs_sync_event_destroy(event));
	assert_ok(rs_device_close(device));
}

static uint64_t exported_address(const struct rs_sync_event *event)
{
	struct rs_descriptor descriptor;

	assert_ok(
		rs_descriptor_read(rs_sync_event_export(event), RS_DESCRIPTOR_EVENT, &descriptor));
	return descriptor.event.addr;
}

static void test_the_line_says_where_the_counter_is(void **state)
{
	struct world *world = *state;
	struct rs_descriptor descriptor;
	uint64_t counter;

	rs_sync_event_set(world->event, 0x0123456789abcdef);
	assert_ok(rs_descriptor_read(rs_sync_event_export(world->event), RS_DESCRIPTOR_EVENT,
				     &descriptor));
	assert_true(descriptor.event.rkey & 0x80000000); /* the fake's remote keys */
	assert_int_equal(descriptor.event.addr % 64, 0);
	memcpy(&counter, (void *)(uintptr_t)descriptor.event.addr, sizeof(counter));
	assert_int_equal(counter, 0x0123456789abcdef);
}

static void test_the_line_stays_as_it_is(void **state)
{
	struct world *world = *state;
	const char *line = rs_sync_event_export(world->event);
	char copy[RS_DESCRIPTOR_LINE_SIZE];

	strcpy(copy, line);
	rs_sync_event_set(world->event, 5);
	assert_ptr_equal(rs_sync_event_export(world->event), line);
	assert_string_equal(line, copy);
}

static void test_two_events_share_no_cache_line(void **state)
{
	struct world *world = *state;
	struct rs_sync_event *other;

	assert_ok(rs_sync_event_create(world->device, &other));
	assert_int_not_equal(exported_address(other) / 64, exported_address(world->event) / 64);
	rs_sync_event_set(other, 1);
	assert_int_equal(rs_sync_event_get(world->event), 0);
	assert_ok(rs_sync_event_destroy(other));
}

static void test_the_peer_makes_a_remote_event_of_the_line(void **state)
{
	struct world *world = *state;
	struct rs_sync_event_remote *remote;

	assert_ok(rs_sync_event_remote_create_from_export(rs_sync_event_export(world->event),
							  &remote));
	assert_int_equal(rs_sync_event_remote_address(remote), exported_address(world->event));
	rs_sync_event_remote_destroy(remote);
	assert_ok(rs_sync_event_remote_create_from_export(
		peer_event_line(UINT64_MAX - 7, UINT32_MAX), &remote));
	assert_int_equal(rs_sync_event_remote_address(remote), UINT64_MAX - 7);
	assert_int_equal(rs_sync_event_remote_key(remote), UINT32_MAX);
	rs_sync_event_remote_destroy(remote);
}

static void test_lines_of_no_event_are_refused_with_the_reason(void **state)
{
	struct rs_sync_event_remote *remote = NULL;
	char damaged[RS_DESCRIPTOR_LINE_SIZE];

	(void)state;
	strcpy(damaged, peer_event_line(PEER_ADDRESS, PEER_RKEY));
	strchr(damaged, '7')[0] = '8';
	assert_status(rs_sync_event_remote_create_from_export(damaged, &remote),
		      RS_ERR_BAD_DESCRIPTOR);
	assert_logged("CRC mismatch");
	log_forget();
	assert_status(rs_sync_event_remote_create_from_export(
			      peer_event_line(PEER_ADDRESS + 4, PEER_RKEY), &remote),
		      RS_ERR_BAD_DESCRIPTOR);
	assert_logged("not a multiple of 8");
	log_forget();
	assert_status(rs_sync_event_remote_create_from_export(
			      peer_mmap_line(PEER_ADDRESS, PEER_LENGTH, PEER_RKEY), &remote),
		      RS_ERR_BAD_DESCRIPTOR);
	assert_logged("this is a \"mmap\" descriptor, wanted is a \"event\" descriptor");
	assert_int_equal(log_count("\n"), 1);
	assert_status(rs_sync_event_remote_create_from_export("", &remote), RS_ERR_BAD_DESCRIPTOR);
	assert_null(remote);
}

/* ---- Values ---- */

static void test_any_value_can_be_set(void **state)
{
	static const uint64_t values[] = { UINT64_MAX,        0,         1, INT64_MAX,
					   UINT64_C(1) << 63, UINT32_MAX };
	struct world *world = *state;

	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		rs_sync_event_set(world->event, values[i]);
		assert_int_equal(rs_sync_event_get(world->event), values[i]);
	}
}

static void test_add_returns_the_value_from_before_and_wraps_around(void **state)
{
	struct world *world = *state;

	assert_int_equal(rs_sync_event_add(world->event, 0), 0);
	assert_int_equal(rs_sync_event_add(world->event, UINT64_MAX), 0);
	assert_int_equal(rs_sync_event_add(world->event, 0), UINT64_MAX);
	assert_int_equal(rs_sync_event_add(world->event, 1), UINT64_MAX);
	assert_int_equal(rs_sync_event_get(world->event), 0);
	rs_sync_event_set(world->event, UINT64_MAX - 1);
	assert_int_equal(rs_sync_event_add(world->event, 5), UINT64_MAX - 1);
	assert_int_equal(rs_sync_event_get(world->event), 3);
}

#define ADDS 20000

static void *add_often(void *event)
{
	for (unsigned i = 0; i < ADDS; i++)
		rs_sync_event_add(event, 1);
	return NULL;
}

static void test_adds_of_two_threads_all_count(void **state)
{
	struct world *world = *state;
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, add_often, world->event), 0);
	add_often(world->event);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(rs_sync_event_get(world->event), 2 * ADDS);
}

/* ---- Waiting ---- */

/* One look; the value that it reports is the event's. */
static enum rs_status look(struct rs_sync_event *event, uint64_t threshold, uint64_t mask)
{
	uint64_t seen = ~rs_sync_event_get(event);
	enum rs_status status = rs_sync_event_wait_gt(event, threshold, mask, 0, NO_FD, &seen);

	assert_int_equal(seen, rs_sync_event_get(event));
	return status;
}

static void test_only_a_greater_value_ends_the_wait(void **state)
{
	static const uint64_t thresholds[] = { 1, 1000, INT64_MAX, UINT64_MAX - 1 };
	struct world *world = *state;

	for (size_t i = 0; i < sizeof(thresholds) / sizeof(thresholds[0]); i++) {
		rs_sync_event_set(world->event, thresholds[i] - 1);
		assert_status(look(world->event, thresholds[i], ALL), RS_ERR_TIMED_OUT);
		rs_sync_event_set(world->event, thresholds[i]);
		assert_status(look(world->event, thresholds[i], ALL), RS_ERR_TIMED_OUT);
		rs_sync_event_set(world->event, thresholds[i] + 1);
		assert_ok(look(world->event, thresholds[i], ALL));
	}
	rs_sync_event_set(world->event, 0);
	assert_status(look(world->event, 0, ALL), RS_ERR_TIMED_OUT);
	/* Greater than this there is nothing. */
	rs_sync_event_set(world->event, UINT64_MAX);
	assert_status(look(world->event, UINT64_MAX, ALL), RS_ERR_TIMED_OUT);
}

static void test_only_the_bits_of_the_mask_count(void **state)
{
	struct world *world = *state;

	rs_sync_event_set(world->event, 0xff05);
	assert_ok(look(world->event, 4, 0xff));
	assert_status(look(world->event, 5, 0xff), RS_ERR_TIMED_OUT);
	assert_ok(look(world->event, 0xfe00, 0xff00));
	assert_status(look(world->event, 0xff00, 0xff00), RS_ERR_TIMED_OUT);
	assert_status(look(world->event, 0, 0), RS_ERR_TIMED_OUT);
	rs_sync_event_set(world->event, UINT64_C(1) << 63);
	assert_ok(look(world->event, 0, UINT64_C(1) << 63));
	assert_status(look(world->event, 0, INT64_MAX), RS_ERR_TIMED_OUT);
}

static void test_a_timeout_ends_the_wait_not_long_before_its_time(void **state)
{
	struct world *world = *state;
	int64_t begin = rs_clock_ms();
	uint64_t seen = 0;

	rs_sync_event_set(world->event, 7);
	assert_status(rs_sync_event_wait_gt(world->event, 7, ALL, 20, NO_FD, &seen),
		      RS_ERR_TIMED_OUT);
	assert_int_equal(seen, 7);
	assert_true(rs_clock_ms() - begin >= 20);
	assert_string_equal(log_text(), "");
}

static void test_the_value_need_not_be_asked_for(void **state)
{
	struct world *world = *state;

	assert_status(rs_sync_event_wait_gt(world->event, 0, ALL, 1, NO_FD, NULL),
		      RS_ERR_TIMED_OUT);
	rs_sync_event_set(world->event, 1);
	assert_ok(rs_sync_event_wait_gt(world->event, 0, ALL, -1, NO_FD, NULL));
}

static int cancelled_fd(void)
{
	int fd = eventfd(1, EFD_CLOEXEC);

	assert_true(fd >= 0);
	return fd;
}

static void test_a_wait_that_was_cancelled_before_it_began_ends(void **state)
{
	static const int timeouts[] = { -1, 0, 1, PATIENCE };
	struct world *world = *state;
	int fd = cancelled_fd();

	rs_sync_event_set(world->event, 9);
	for (size_t i = 0; i < sizeof(timeouts) / sizeof(timeouts[0]); i++) {
		uint64_t seen = 0, unread;

		assert_status(rs_sync_event_wait_gt(world->event, 9, ALL, timeouts[i], fd, &seen),
			      RS_ERR_INTERRUPTED);
		assert_int_equal(seen, 9);
		/* It was not read, so that others see it, too. */
		assert_int_equal(read(fd, &unread, sizeof(unread)), sizeof(unread));
		assert_int_equal(write(fd, &unread, sizeof(unread)), sizeof(unread));
	}
	close(fd);
}

static void test_a_value_that_is_there_counts_more_than_a_cancel(void **state)
{
	struct world *world = *state;
	int fd = cancelled_fd();

	rs_sync_event_set(world->event, 1);
	assert_ok(rs_sync_event_wait_gt(world->event, 0, ALL, -1, fd, NULL));
	close(fd);
}

/* What another thread does while this one waits. */
struct change {
	struct rs_sync_event *event;
	int cancel_fd;
	uint64_t value;
	unsigned delay_us;
	char data; /* written before the value */
};

static void *change_later(void *data)
{
	struct change *change = data;
	uint64_t one = 1;

	usleep(change->delay_us);
	change->data = 'x';
	rs_sync_event_set(change->event, change->value);
	if (change->cancel_fd != NO_FD)
		assert_int_equal(write(change->cancel_fd, &one, sizeof(one)), sizeof(one));
	return NULL;
}

static enum rs_status wait_during(struct change *change, uint64_t threshold, uint64_t *seen)
{
	enum rs_status status;
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, change_later, change), 0);
	status = rs_sync_event_wait_gt(change->event, threshold, ALL, PATIENCE, change->cancel_fd,
				       seen);
	if (status == RS_OK)
		assert_int_equal(change->data, 'x');
	assert_int_equal(pthread_join(thread, NULL), 0);
	return status;
}

static void test_a_value_that_comes_during_the_wait_ends_it(void **state)
{
	/* While it spins, and in its first and its longest pauses. */
	static const unsigned delays[] = { 0, 10, 100, 1000, 10000 };
	struct world *world = *state;

	for (size_t i = 0; i < sizeof(delays) / sizeof(delays[0]); i++) {
		struct change change = { .event = world->event,
					 .cancel_fd = NO_FD,
					 .value = i + 1,
					 .delay_us = delays[i] };
		uint64_t seen;

		assert_ok(wait_during(&change, i, &seen));
		assert_int_equal(seen, i + 1);
	}
}

static void test_a_cancel_during_the_wait_ends_it(void **state)
{
	struct world *world = *state;
	struct change change = { .event = world->event,
				 .cancel_fd = eventfd(0, EFD_CLOEXEC),
				 .value = 3,
				 .delay_us = 10000 };
	uint64_t seen;

	assert_true(change.cancel_fd >= 0);
	assert_status(wait_during(&change, 3, &seen), RS_ERR_INTERRUPTED);
	assert_in_range(seen, 0, 3);
	close(change.cancel_fd);
}

static void nothing(int number)
{
	(void)number;
}

struct disturbance {
	struct rs_sync_event *event;
	pthread_t waiter;
};

static void *disturb(void *data)
{
	struct disturbance *disturbance = data;

	for (int i = 0; i < 20; i++) {
		usleep(1000);
		pthread_kill(disturbance->waiter, SIGUSR1);
	}
	rs_sync_event_set(disturbance->event, 1);
	return NULL;
}

static void test_signals_do_not_end_the_wait(void **state)
{
	struct world *world = *state;
	struct disturbance disturbance = { .event = world->event, .waiter = pthread_self() };
	struct sigaction action = { .sa_handler = nothing }, before;
	pthread_t thread;

	assert_int_equal(sigaction(SIGUSR1, &action, &before), 0);
	assert_int_equal(pthread_create(&thread, NULL, disturb, &disturbance), 0);
	assert_ok(rs_sync_event_wait_gt(world->event, 0, ALL, PATIENCE, NO_FD, NULL));
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(sigaction(SIGUSR1, &before, NULL), 0);
}

/* ---- Backoff ---- */

static void test_pauses_are_none_at_first_then_grow_to_a_millisecond(void **state)
{
	static const unsigned pauses[] = { 50, 100, 200, 400, 800, 1000 };
	struct rs_backoff backoff = { 0 };

	(void)state;
	for (unsigned i = 0; i < 1000; i++)
		assert_int_equal(rs_backoff_next(&backoff), 0);
	for (size_t i = 0; i < sizeof(pauses) / sizeof(pauses[0]); i++)
		assert_int_equal(rs_backoff_next(&backoff), pauses[i]);
	for (unsigned i = 0; i < 10000; i++)
		assert_int_equal(rs_backoff_next(&backoff), 1000);
}

#define event_test(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		event_test(test_a_new_event_is_0_and_registered),
		event_test(test_an_event_holds_its_device),
		event_test(test_destroying_none_is_allowed),
		event_test(test_a_failed_registration_is_logged_once_and_leaves_nothing),
		event_test(test_a_failed_deregistration_is_reported_and_the_event_is_gone),
		event_test(test_the_peer_may_read_and_write),
		event_test(test_the_peer_may_add_if_the_device_can),
		event_test(test_an_event_without_atomics_exports_and_works),
		event_test(test_the_line_says_where_the_counter_is),
		event_test(test_the_line_stays_as_it_is),
		event_test(test_two_events_share_no_cache_line),
		event_test(test_the_peer_makes_a_remote_event_of_the_line),
		event_test(test_lines_of_no_event_are_refused_with_the_reason),
		event_test(test_any_value_can_be_set),
		event_test(test_add_returns_the_value_from_before_and_wraps_around),
		event_test(test_adds_of_two_threads_all_count),
		event_test(test_only_a_greater_value_ends_the_wait),
		event_test(test_only_the_bits_of_the_mask_count),
		event_test(test_a_timeout_ends_the_wait_not_long_before_its_time),
		event_test(test_the_value_need_not_be_asked_for),
		event_test(test_a_wait_that_was_cancelled_before_it_began_ends),
		event_test(test_a_value_that_is_there_counts_more_than_a_cancel),
		event_test(test_a_value_that_comes_during_the_wait_ends_it),
		event_test(test_a_cancel_during_the_wait_ends_it),
		event_test(test_signals_do_not_end_the_wait),
		cmocka_unit_test(test_pauses_are_none_at_first_then_grow_to_a_millisecond),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
