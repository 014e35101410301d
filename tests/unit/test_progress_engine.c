#include "support.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "progress_engine.h"

/* Long enough that a test which has to wait for it has clearly failed. */
#define LONG_MS 20000

static long elapsed_ms(const struct timespec *since)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (now.tv_sec - since->tv_sec) * 1000 + (now.tv_nsec - since->tv_nsec) / 1000000;
}

static bool is_readable(int fd)
{
	struct pollfd pollfd = { .fd = fd, .events = POLLIN };

	return poll(&pollfd, 1, 0) == 1;
}

/* A descriptor that is watched, and what its callback saw. */
struct watched {
	struct rs_pe *pe;
	int fd;
	unsigned calls;
	struct watched *other; /* unwatched by the callback */
	bool keep;             /* stays readable */
	size_t nested_progress;
	enum rs_status nested_wait;
	enum rs_status nested_destroy;
};

static void on_readable(int fd, void *user_data)
{
	struct watched *watched = user_data;
	uint64_t value;

	assert_int_equal(fd, watched->fd);
	watched->calls++;
	watched->nested_progress = rs_pe_progress(watched->pe);
	watched->nested_wait = rs_pe_wait(watched->pe, 0);
	watched->nested_destroy = rs_pe_destroy(watched->pe);
	rs_pe_clear_notification(watched->pe);
	if (!watched->keep)
		assert_int_equal(read(fd, &value, sizeof(value)), sizeof(value));
	if (watched->other)
		rs_pe_unwatch(watched->pe, watched->other->fd);
}

static void watch(struct watched *watched, struct rs_pe *pe)
{
	*watched = (struct watched){ .pe = pe, .fd = eventfd(0, EFD_NONBLOCK) };
	assert_ok(rs_pe_watch(pe, watched->fd, on_readable, watched));
}

static void make_readable(const struct watched *watched)
{
	uint64_t one = 1;

	assert_int_equal(write(watched->fd, &one, sizeof(one)), sizeof(one));
}

static void end_watch(struct watched *watched)
{
	rs_pe_unwatch(watched->pe, watched->fd);
	close(watched->fd);
}

static void test_a_wait_with_nothing_to_do_times_out(void **state)
{
	struct fixture *fixture = *state;
	struct timespec start;

	assert_status(rs_pe_wait(fixture->pe, 0), RS_ERR_TIMED_OUT);
	fixture_run(fixture, 1);
	clock_gettime(CLOCK_MONOTONIC, &start);
	assert_status(rs_pe_wait(fixture->pe, 30), RS_ERR_TIMED_OUT);
	assert_in_range(elapsed_ms(&start), 29, LONG_MS);
}

static void test_a_waiting_program_sleeps_and_does_not_poll(void **state)
{
	struct fixture *fixture = *state;
	unsigned before;

	fixture_run(fixture, 1);
	before = fake_calls(FAKE_POLL_CQ);
	assert_status(rs_pe_wait(fixture->pe, 100), RS_ERR_TIMED_OUT);
	/* Before arming, after arming, after the sleep. */
	assert_int_equal(fake_calls(FAKE_POLL_CQ) - before, 3);
	assert_int_equal(fake_calls(FAKE_REQ_NOTIFY_CQ), 1);
}

struct delayed_completion {
	pthread_t thread;
	struct ibv_qp *qp;
	unsigned polls_at_completion;
};

static void *complete_later(void *data)
{
	struct delayed_completion *delayed = data;
	struct timespec pause = { .tv_nsec = 50000000 };

	nanosleep(&pause, NULL);
	delayed->polls_at_completion = fake_calls(FAKE_POLL_CQ);
	fake_complete_send(delayed->qp, IBV_WC_SUCCESS);
	return NULL;
}

/* The program is about to sleep. */
static void start_delay(void *data)
{
	struct delayed_completion *delayed = data;

	fake_before_notify(NULL, NULL);
	assert_int_equal(pthread_create(&delayed->thread, NULL, complete_later, delayed), 0);
}

static void test_a_completion_wakes_a_sleeping_program(void **state)
{
	struct fixture *fixture = *state;
	struct delayed_completion delayed;
	struct rs_task *task;
	struct timespec start;

	fixture_run(fixture, 1);
	task = fixture_submit_send(fixture, 8, NULL);
	delayed.qp = fixture_qp(fixture, 0);
	clock_gettime(CLOCK_MONOTONIC, &start);
	fake_before_notify(start_delay, &delayed);
	while (fixture->completed == 0)
		assert_ok(rs_pe_wait(fixture->pe, LONG_MS));
	pthread_join(delayed.thread, NULL);
	assert_true(elapsed_ms(&start) < LONG_MS / 2);
	/* Nothing polled while it slept. */
	assert_in_range(delayed.polls_at_completion, 1, 8);
	fixture_free_task(task);
}

static void test_completions_that_are_there_already_are_handled_without_sleeping(void **state)
{
	struct fixture *fixture = *state;
	struct rs_task *task;

	fixture_run(fixture, 1);
	task = fixture_submit_send(fixture, 8, NULL);
	fake_complete_send(fixture_qp(fixture, 0), IBV_WC_SUCCESS);
	assert_ok(rs_pe_wait(fixture->pe, -1));
	assert_int_equal(fixture->completed, 1);
	assert_int_equal(fake_calls(FAKE_REQ_NOTIFY_CQ), 0);
	fixture_free_task(task);
}

static void complete_oldest(void *data)
{
	fake_before_notify(NULL, NULL);
	fake_complete_send(data, IBV_WC_SUCCESS);
}

/* It gives no signal, so only looking once more after arming finds it. */
static void test_a_completion_between_polling_and_arming_is_not_lost(void **state)
{
	struct fixture *fixture = *state;
	struct rs_task *task;

	fixture_run(fixture, 1);
	task = fixture_submit_send(fixture, 8, NULL);
	fake_before_notify(complete_oldest, fixture_qp(fixture, 0));
	assert_ok(rs_pe_wait(fixture->pe, LONG_MS));
	assert_int_equal(fixture->completed, 1);
	fixture_free_task(task);
}

static void test_the_queue_is_armed_again_only_after_its_event(void **state)
{
	struct fixture *fixture = *state;
	struct rs_task *task;

	fixture_run(fixture, 1);
	for (unsigned i = 1; i <= 5; i++) {
		task = fixture_submit_send(fixture, 8, NULL);
		assert_status(rs_pe_wait(fixture->pe, 0), RS_ERR_TIMED_OUT);
		assert_status(rs_pe_wait(fixture->pe, 0), RS_ERR_TIMED_OUT);
		assert_int_equal(fake_calls(FAKE_REQ_NOTIFY_CQ), i);
		fake_complete_send(fixture_qp(fixture, 0), IBV_WC_SUCCESS);
		while (fixture->completed < i)
			assert_ok(rs_pe_wait(fixture->pe, LONG_MS));
		fixture_free_task(task);
		/* The event that was left from polling wakes it once, for nothing. */
		rs_pe_wait(fixture->pe, 0);
	}
}

static void test_an_outer_loop_is_told_by_the_descriptor(void **state)
{
	struct fixture *fixture = *state;
	struct rs_task *task;

	fixture_run(fixture, 1);
	task = fixture_submit_send(fixture, 8, NULL);
	assert_int_equal(rs_pe_request_notification(fixture->pe), 0);
	assert_false(is_readable(rs_pe_fd(fixture->pe)));
	fake_complete_send(fixture_qp(fixture, 0), IBV_WC_SUCCESS);
	assert_true(is_readable(rs_pe_fd(fixture->pe)));
	rs_pe_clear_notification(fixture->pe);
	assert_false(is_readable(rs_pe_fd(fixture->pe)));
	assert_int_equal(fixture->completed, 0);
	assert_int_equal(rs_pe_progress(fixture->pe), 1);
	assert_int_equal(fixture->completed, 1);
	/* Without a new request there is no signal. */
	assert_ok(rs_task_submit(task));
	fake_complete_send(fixture_qp(fixture, 0), IBV_WC_SUCCESS);
	assert_false(is_readable(rs_pe_fd(fixture->pe)));
	/* The request itself finds what came before it. */
	assert_int_equal(rs_pe_request_notification(fixture->pe), 1);
	fixture_free_task(task);
}

static void test_an_idle_context_is_not_armed(void **state)
{
	struct fixture *fixture = *state;

	assert_int_equal(rs_pe_request_notification(fixture->pe), 0);
	assert_int_equal(fake_calls(FAKE_REQ_NOTIFY_CQ), 0);
}

static void test_a_watched_descriptor_wakes_the_wait(void **state)
{
	struct fixture *fixture = *state;
	struct watched watched;

	watch(&watched, fixture->pe);
	make_readable(&watched);
	assert_ok(rs_pe_wait(fixture->pe, -1));
	assert_int_equal(watched.calls, 1);
	assert_status(rs_pe_wait(fixture->pe, 0), RS_ERR_TIMED_OUT);
	end_watch(&watched);
}

static void test_calls_do_not_nest_in_callbacks(void **state)
{
	struct fixture *fixture = *state;
	struct watched watched;

	fixture_run(fixture, 1);
	rs_ctx_stop(fixture->ctx);
	watch(&watched, fixture->pe);
	make_readable(&watched);
	rs_pe_clear_notification(fixture->pe);
	assert_int_equal(watched.calls, 1);
	/* The stop was to do, but not in there. */
	assert_int_equal(watched.nested_progress, 0);
	assert_status(watched.nested_wait, RS_ERR_BAD_STATE);
	assert_status(watched.nested_destroy, RS_ERR_BAD_STATE);
	assert_int_equal(rs_ctx_state(fixture->ctx), RS_CTX_RUNNING);
	end_watch(&watched);
}

static void test_a_polling_program_looks_at_watched_descriptors_now_and_then(void **state)
{
	struct fixture *fixture = *state;
	struct watched watched;
	unsigned rounds = 0;

	watch(&watched, fixture->pe);
	make_readable(&watched);
	while (watched.calls == 0 && rounds++ < 100000)
		rs_pe_progress(fixture->pe);
	assert_int_equal(watched.calls, 1);
	end_watch(&watched);
}

static void test_a_descriptor_that_is_not_read_is_reported_again(void **state)
{
	struct fixture *fixture = *state;
	struct watched watched;

	watch(&watched, fixture->pe);
	watched.keep = true;
	make_readable(&watched);
	assert_ok(rs_pe_wait(fixture->pe, -1));
	assert_ok(rs_pe_wait(fixture->pe, -1));
	assert_int_equal(watched.calls, 2);
	end_watch(&watched);
}

static void test_a_callback_may_end_its_own_watch(void **state)
{
	struct fixture *fixture = *state;
	struct watched watched;

	watch(&watched, fixture->pe);
	watched.other = &watched;
	watched.keep = true;
	make_readable(&watched);
	assert_ok(rs_pe_wait(fixture->pe, -1));
	assert_status(rs_pe_wait(fixture->pe, 0), RS_ERR_TIMED_OUT);
	assert_int_equal(watched.calls, 1);
	end_watch(&watched);
}

static void test_a_watch_that_another_callback_ended_is_not_called(void **state)
{
	struct fixture *fixture = *state;
	struct watched first, second;

	watch(&first, fixture->pe);
	watch(&second, fixture->pe);
	first.other = &second;
	second.other = &first;
	make_readable(&first);
	make_readable(&second);
	assert_ok(rs_pe_wait(fixture->pe, -1));
	assert_int_equal(first.calls + second.calls, 1);
	end_watch(&first);
	end_watch(&second);
}

static void test_a_descriptor_is_watched_only_once(void **state)
{
	struct fixture *fixture = *state;
	struct watched watched;

	watch(&watched, fixture->pe);
	assert_status(rs_pe_watch(fixture->pe, watched.fd, on_readable, NULL), RS_ERR_IN_USE);
	rs_pe_unwatch(fixture->pe, watched.fd);
	rs_pe_unwatch(fixture->pe, watched.fd);
	assert_ok(rs_pe_watch(fixture->pe, watched.fd, on_readable, &watched));
	end_watch(&watched);
}

static void test_what_cannot_be_waited_for_is_not_watched(void **state)
{
	struct fixture *fixture = *state;
	int null = open("/dev/null", O_RDONLY);

	assert_status(rs_pe_watch(fixture->pe, null, on_readable, NULL), RS_ERR_NOT_SUPPORTED);
	close(null);
	assert_int_equal(log_count("error: "), 0);
	assert_status(rs_pe_watch(fixture->pe, null, on_readable, NULL), RS_ERR_UNKNOWN);
	assert_logged("epoll_ctl(EPOLL_CTL_ADD");
}

static void on_alarm(int number)
{
	(void)number;
}

static void test_a_signal_handler_interrupts_the_wait(void **state)
{
	struct fixture *fixture = *state;
	struct sigaction action = { .sa_handler = on_alarm }, saved;
	struct itimerval timer = { .it_value.tv_usec = 20000, .it_interval.tv_usec = 20000 };
	struct itimerval none = { 0 };

	sigaction(SIGALRM, &action, &saved);
	setitimer(ITIMER_REAL, &timer, NULL);
	assert_status(rs_pe_wait(fixture->pe, LONG_MS), RS_ERR_INTERRUPTED);
	setitimer(ITIMER_REAL, &none, NULL);
	sigaction(SIGALRM, &saved, NULL);
}

static void stop_context(int fd, void *user_data)
{
	uint64_t value;

	assert_int_equal(read(fd, &value, sizeof(value)), sizeof(value));
	rs_ctx_stop(user_data);
}

/* As when Ctrl-C arrives through a signalfd. */
static void test_a_stop_from_a_watch_callback_is_carried_out_in_the_same_wait(void **state)
{
	struct fixture *fixture = *state;
	struct watched watched = { .pe = fixture->pe, .fd = eventfd(0, EFD_NONBLOCK) };

	fixture_run(fixture, 1);
	assert_ok(rs_pe_watch(fixture->pe, watched.fd, stop_context, fixture->ctx));
	make_readable(&watched);
	assert_ok(rs_pe_wait(fixture->pe, -1));
	assert_int_equal(rs_ctx_state(fixture->ctx), RS_CTX_IDLE);
	end_watch(&watched);
}

static void test_a_stop_with_sends_in_flight_ends_by_waiting_alone(void **state)
{
	struct fixture *fixture = *state;
	struct rs_task *tasks[FIXTURE_TASKS];

	fixture_run(fixture, 1);
	for (int i = 0; i < FIXTURE_TASKS; i++)
		tasks[i] = fixture_submit_send(fixture, 8, NULL);
	rs_ctx_stop(fixture->ctx);
	while (rs_ctx_state(fixture->ctx) != RS_CTX_IDLE)
		assert_ok(rs_pe_wait(fixture->pe, LONG_MS));
	assert_int_equal(fixture->failed, FIXTURE_TASKS);
	for (int i = 0; i < FIXTURE_TASKS; i++)
		fixture_free_task(tasks[i]);
}

static void test_an_asynchronous_event_wakes_the_wait(void **state)
{
	struct fixture *fixture = *state;

	fixture_run(fixture, 1);
	fake_push_event(rs_device_verbs(fixture->device), IBV_EVENT_DEVICE_FATAL, NULL);
	while (rs_ctx_state(fixture->ctx) != RS_CTX_IDLE)
		assert_ok(rs_pe_wait(fixture->pe, LONG_MS));
	assert_status(rs_ctx_error(fixture->ctx), RS_ERR_DEVICE_FATAL);
}

static void test_an_engine_with_a_running_context_is_not_destroyed(void **state)
{
	struct fixture *fixture = *state;

	assert_ok(rs_ctx_start(fixture->ctx));
	assert_status(rs_pe_destroy(fixture->pe), RS_ERR_IN_USE);
	rs_pe_progress(fixture->pe);
	assert_status(rs_pe_destroy(fixture->pe), RS_ERR_IN_USE);
	fixture_stop(fixture);
	assert_ok(rs_pe_destroy(fixture->pe));
	assert_ok(rs_pe_destroy(NULL));
	assert_ok(rs_pe_create(&fixture->pe));
	assert_ok(rs_pe_connect_ctx(fixture->pe, fixture->ctx));
}

static void test_a_context_belongs_to_one_engine(void **state)
{
	struct fixture *fixture = *state;
	struct rs_pe *other;

	assert_ok(rs_pe_create(&other));
	assert_status(rs_pe_connect_ctx(other, fixture->ctx), RS_ERR_BAD_STATE);
	assert_ok(rs_pe_destroy(other));
	/* It is still attached to the first. */
	fixture_run(fixture, 1);
}

static void test_an_engine_drives_several_contexts(void **state)
{
	struct fixture *fixture = *state;
	struct rs_rdma *second, *third;

	assert_ok(rs_rdma_create(fixture->device, &second));
	assert_ok(rs_rdma_create(fixture->device, &third));
	assert_ok(rs_pe_connect_ctx(fixture->pe, rs_rdma_as_ctx(second)));
	assert_ok(rs_pe_connect_ctx(fixture->pe, rs_rdma_as_ctx(third)));
	fixture_run(fixture, 1);
	assert_ok(rs_ctx_start(rs_rdma_as_ctx(second)));
	assert_ok(rs_ctx_start(rs_rdma_as_ctx(third)));
	assert_int_equal(rs_pe_progress(fixture->pe), 4);
	/* One in the middle of the list goes. */
	rs_ctx_stop(rs_rdma_as_ctx(second));
	rs_pe_progress(fixture->pe);
	assert_ok(rs_rdma_destroy(second));
	assert_status(rs_pe_wait(fixture->pe, 0), RS_ERR_TIMED_OUT);
	rs_ctx_stop(rs_rdma_as_ctx(third));
	rs_pe_progress(fixture->pe);
	assert_ok(rs_rdma_destroy(third));
	assert_int_equal(rs_ctx_state(fixture->ctx), RS_CTX_RUNNING);
}

static void test_watches_that_are_left_go_with_the_engine(void **state)
{
	struct watched watched;
	struct rs_pe *pe;

	(void)state;
	assert_ok(rs_pe_create(&pe));
	watch(&watched, pe);
	assert_ok(rs_pe_destroy(pe));
	close(watched.fd);
}

static void test_many_readable_descriptors_are_all_handled(void **state)
{
	struct fixture *fixture = *state;
	struct watched watched[40];
	unsigned calls = 0;

	for (int i = 0; i < 40; i++) {
		watch(&watched[i], fixture->pe);
		make_readable(&watched[i]);
	}
	while (rs_pe_wait(fixture->pe, 0) == RS_OK)
		;
	for (int i = 0; i < 40; i++) {
		calls += watched[i].calls;
		end_watch(&watched[i]);
	}
	assert_int_equal(calls, 40);
}

#define engine_test(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		engine_test(test_a_wait_with_nothing_to_do_times_out),
		engine_test(test_a_waiting_program_sleeps_and_does_not_poll),
		engine_test(test_a_completion_wakes_a_sleeping_program),
		engine_test(test_completions_that_are_there_already_are_handled_without_sleeping),
		engine_test(test_a_completion_between_polling_and_arming_is_not_lost),
		engine_test(test_the_queue_is_armed_again_only_after_its_event),
		engine_test(test_an_outer_loop_is_told_by_the_descriptor),
		engine_test(test_an_idle_context_is_not_armed),
		engine_test(test_a_watched_descriptor_wakes_the_wait),
		engine_test(test_calls_do_not_nest_in_callbacks),
		engine_test(test_a_polling_program_looks_at_watched_descriptors_now_and_then),
		engine_test(test_a_descriptor_that_is_not_read_is_reported_again),
		engine_test(test_a_callback_may_end_its_own_watch),
		engine_test(test_a_watch_that_another_callback_ended_is_not_called),
		engine_test(test_a_descriptor_is_watched_only_once),
		engine_test(test_what_cannot_be_waited_for_is_not_watched),
		engine_test(test_a_signal_handler_interrupts_the_wait),
		engine_test(test_a_stop_from_a_watch_callback_is_carried_out_in_the_same_wait),
		engine_test(test_a_stop_with_sends_in_flight_ends_by_waiting_alone),
		engine_test(test_an_asynchronous_event_wakes_the_wait),
		engine_test(test_an_engine_with_a_running_context_is_not_destroyed),
		engine_test(test_a_context_belongs_to_one_engine),
		engine_test(test_an_engine_drives_several_contexts),
		engine_test(test_watches_that_are_left_go_with_the_engine),
		engine_test(test_many_readable_descriptors_are_all_handled),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
