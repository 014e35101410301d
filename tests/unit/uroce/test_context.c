#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../../../uroce/core/cq.h"
#include "../../../uroce/core/event_fd.h"
#include "../../../uroce/core/qp.h"
#include "core_surroundings.h"

/* Stands for a queue pair: only its events are of interest. */
static struct ur_qp qp;

static struct ibv_async_event received;
static int result;

static void set_up_event(struct ur_async_event *event, enum ibv_event_type type)
{
	*event = (struct ur_async_event){ .event.event_type = type, .event.element.qp = &qp.verbs };
}

static int set_up(void **state)
{
	memset(&qp, 0, sizeof(qp));
	set_up_event(&qp.fatal_event, IBV_EVENT_QP_FATAL);
	set_up_event(&qp.request_event, IBV_EVENT_QP_REQ_ERR);
	set_up_event(&qp.access_event, IBV_EVENT_QP_ACCESS_ERR);
	set_up_event(&qp.established_event, IBV_EVENT_COMM_EST);
	set_up_event(&qp.last_wqe_event, IBV_EVENT_QP_LAST_WQE_REACHED);
	set_up_event(&qp.drained_event, IBV_EVENT_SQ_DRAINED);
	return core_set_up(state);
}

static void test_a_context_is_as_verbs_need_it(void **state)
{
	const struct ibv_context *verbs = &core.context->verbs.context;

	(void)state;
	assert_ptr_equal(verbs->device, &core.device.verbs);
	assert_ptr_equal(verbs->abi_compat, __VERBS_ABI_IS_EXTENDED);
	assert_int_equal(core.context->verbs.sz, sizeof(struct verbs_context));
	assert_ptr_equal(ur_context_of(verbs), core.context);
	assert_true(verbs->num_comp_vectors >= 1);
	assert_true(verbs->async_fd >= 0);
}

static void test_the_first_context_starts_the_engine_and_the_last_stops_it(void **state)
{
	struct ur_context *second;

	(void)state;
	assert_int_equal(engine.starts, 1);
	second = ur_context_open(&core.device);
	assert_non_null(second);
	assert_int_equal(engine.starts, 1);
	assert_int_equal(ur_context_close(second), 0);
	assert_int_equal(engine.stops, 0);
}

static void test_a_context_is_not_opened_if_the_engine_does_not_start(void **state)
{
	struct ur_device device = { .gid_count = 1, .lock = PTHREAD_MUTEX_INITIALIZER };

	(void)state;
	engine.start_error = EADDRINUSE;
	assert_null(ur_context_open(&device));
	assert_int_equal(errno, EADDRINUSE);
	assert_int_equal(engine.stops, 0);
	engine.start_error = 0;
	assert_int_equal(ur_context_close(ur_context_open(&device)), 0);
	assert_int_equal(engine.stops, 1);
}

static void test_a_context_is_not_closed_while_objects_are_left(void **state)
{
	struct ur_pd *pd = ur_pd_alloc(core.context);

	(void)state;
	assert_int_equal(ur_context_close(core.context), EBUSY);
	assert_int_equal(ur_pd_dealloc(pd), 0);
	assert_int_equal(ur_context_close(core.context), EBUSY);
	assert_int_equal(engine.stops, 0);
}

static void test_events_are_read_in_the_order_they_were_raised(void **state)
{
	(void)state;
	assert_no_event();
	ur_async_raise(core.context, &qp.access_event);
	ur_async_raise(core.context, &qp.fatal_event);
	ur_async_raise(core.context, &qp.last_wqe_event);
	assert_event(IBV_EVENT_QP_ACCESS_ERR, &qp);
	assert_event(IBV_EVENT_QP_FATAL, &qp);
	assert_event(IBV_EVENT_QP_LAST_WQE_REACHED, &qp);
	assert_no_event();
}

static void test_an_event_that_waits_is_not_raised_again(void **state)
{
	(void)state;
	ur_async_raise(core.context, &qp.established_event);
	ur_async_raise(core.context, &qp.established_event);
	assert_event(IBV_EVENT_COMM_EST, &qp);
	assert_no_event();
	ur_async_raise(core.context, &qp.established_event);
	assert_event(IBV_EVENT_COMM_EST, &qp);
}

static void test_a_non_blocking_descriptor_says_when_there_is_no_event(void **state)
{
	(void)state;
	set_non_blocking(core.context->verbs.context.async_fd);
	assert_int_equal(ur_async_get(core.context, &received), -1);
	assert_int_equal(errno, EAGAIN);
	/* What is left when an event is withdrawn while a thread is about to read it. */
	ur_event_fd_add(core.context->verbs.context.async_fd);
	assert_int_equal(ur_async_get(core.context, &received), -1);
	assert_int_equal(errno, EAGAIN);
}

static void get(void)
{
	result = ur_async_get(core.context, &received);
}

static void test_getting_an_event_waits_for_one(void **state)
{
	struct sleeper sleeper;

	(void)state;
	sleeper_start(&sleeper, get);
	assert_sleeps(&sleeper);
	ur_async_raise(core.context, &qp.drained_event);
	sleeper_join(&sleeper);
	assert_int_equal(result, 0);
	assert_int_equal(received.event_type, IBV_EVENT_SQ_DRAINED);
	ur_async_acknowledge(core.context, &received);
}

static void test_a_withdrawn_event_is_not_read(void **state)
{
	(void)state;
	ur_async_raise(core.context, &qp.fatal_event);
	ur_async_raise(core.context, &qp.request_event);
	ur_async_raise(core.context, &qp.access_event);
	ur_async_withdraw(core.context, &qp.request_event);
	ur_async_withdraw(core.context, &qp.access_event);
	ur_async_raise(core.context, &qp.established_event);
	assert_event(IBV_EVENT_QP_FATAL, &qp);
	assert_event(IBV_EVENT_COMM_EST, &qp);
	assert_no_event();
	ur_async_withdraw(core.context, &qp.fatal_event);
}

static void withdraw(void)
{
	ur_async_withdraw(core.context, &qp.fatal_event);
}

static void test_withdrawing_waits_until_what_was_read_is_acknowledged(void **state)
{
	struct ibv_async_event second, other;
	struct sleeper sleeper;

	(void)state;
	ur_async_raise(core.context, &qp.fatal_event);
	assert_int_equal(ur_async_get(core.context, &received), 0);
	ur_async_raise(core.context, &qp.fatal_event);
	ur_async_raise(core.context, &qp.access_event);
	assert_int_equal(ur_async_get(core.context, &second), 0);
	assert_int_equal(ur_async_get(core.context, &other), 0);
	sleeper_start(&sleeper, withdraw);
	assert_sleeps(&sleeper);
	ur_async_acknowledge(core.context, &received);
	ur_async_acknowledge(core.context, &other);
	assert_sleeps(&sleeper);
	ur_async_acknowledge(core.context, &second);
	sleeper_join(&sleeper);
}

static void test_each_event_of_a_queue_pair_is_acknowledged_by_its_type(void **state)
{
	struct ur_async_event *events[] = { &qp.fatal_event,    &qp.request_event,
					    &qp.access_event,   &qp.established_event,
					    &qp.last_wqe_event, &qp.drained_event };

	(void)state;
	for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++) {
		ur_async_raise(core.context, events[i]);
		assert_int_equal(ur_async_get(core.context, &received), 0);
		assert_int_equal(events[i]->unacknowledged, 1);
		ur_async_acknowledge(core.context, &received);
		assert_int_equal(events[i]->unacknowledged, 0);
	}
	/* More than was read, and what has no object. */
	ur_async_acknowledge(core.context, &received);
	assert_int_equal(qp.drained_event.unacknowledged, 0);
	received =
		(struct ibv_async_event){ .event_type = IBV_EVENT_PORT_ERR, .element.port_num = 1 };
	ur_async_acknowledge(core.context, &received);
}

#define context_test(name) cmocka_unit_test_setup_teardown(name, set_up, core_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		context_test(test_a_context_is_as_verbs_need_it),
		context_test(test_the_first_context_starts_the_engine_and_the_last_stops_it),
		context_test(test_a_context_is_not_opened_if_the_engine_does_not_start),
		context_test(test_a_context_is_not_closed_while_objects_are_left),
		context_test(test_events_are_read_in_the_order_they_were_raised),
		context_test(test_an_event_that_waits_is_not_raised_again),
		context_test(test_a_non_blocking_descriptor_says_when_there_is_no_event),
		context_test(test_getting_an_event_waits_for_one),
		context_test(test_a_withdrawn_event_is_not_read),
		context_test(test_withdrawing_waits_until_what_was_read_is_acknowledged),
		context_test(test_each_event_of_a_queue_pair_is_acknowledged_by_its_type),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
