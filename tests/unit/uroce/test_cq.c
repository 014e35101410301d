#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <string.h>

#include "../../../uroce/core/cq.h"
#include "../../../uroce/core/event_fd.h"
#include "core_surroundings.h"

static struct ur_channel *channel;
static struct ur_cq *cq;

/* What a thread has done. */
static int result;
static struct ur_cq *received;

static int set_up(void **state)
{
	if (core_set_up(state) != 0)
		return -1;
	channel = ur_channel_create(core.context);
	cq = ur_cq_create(core.context, 4, &core, channel, 0, NULL);
	return channel && cq ? 0 : -1;
}

static int tear_down(void **state)
{
	if ((cq && ur_cq_destroy(cq) != 0) || ur_channel_destroy(channel) != 0)
		return -1;
	return core_tear_down(state);
}

static void push_to(struct ur_cq *to, uint64_t wr_id, enum ibv_wc_status status, bool solicited)
{
	struct ibv_wc wc = { .wr_id = wr_id, .status = status };

	ur_cq_push(to, &wc, solicited);
}

static void push(uint64_t wr_id)
{
	push_to(cq, wr_id, IBV_WC_SUCCESS, false);
}

/* Polls one, which must be there. */
static uint64_t poll_one(struct ur_cq *from)
{
	struct ibv_wc wc;

	assert_int_equal(ur_cq_poll(&from->verbs, 1, &wc), 1);
	return wc.wr_id;
}

static void assert_empty(struct ur_cq *from)
{
	struct ibv_wc wc;

	assert_int_equal(ur_cq_poll(&from->verbs, 1, &wc), 0);
}

/* Reads an event of that queue, which must be there, and acknowledges it. */
static void assert_cq_event(struct ur_cq *of)
{
	assert_readable(channel->verbs.fd, true);
	assert_int_equal(ur_channel_get(channel, &received), 0);
	assert_ptr_equal(received, of);
	ur_cq_acknowledge(of, 1);
}

static void assert_no_cq_event(void)
{
	assert_readable(channel->verbs.fd, false);
}

static void arm(bool solicited_only)
{
	assert_int_equal(ur_cq_request_notification(&cq->verbs, solicited_only), 0);
}

/* ---- The ring ---- */

static void test_what_a_queue_pair_completed_is_forgotten_with_it(void **state)
{
	static const uint32_t qp_nums[] = { 7, 8, 7, 8 };

	(void)state;
	push(0);
	assert_int_equal(poll_one(cq), 0); /* so that the ring wraps */
	for (unsigned i = 0; i < 4; i++)
		ur_cq_push(cq, &(struct ibv_wc){ .wr_id = i, .qp_num = qp_nums[i] }, false);
	ur_cq_forget(cq, 9);
	ur_cq_forget(cq, 7);
	push(4);
	assert_int_equal(poll_one(cq), 1);
	assert_int_equal(poll_one(cq), 3);
	assert_int_equal(poll_one(cq), 4);
	assert_empty(cq);
}

static void test_completions_are_polled_in_order(void **state)
{
	struct ibv_wc wc[4];

	(void)state;
	for (uint64_t id = 0; id < 15; id += 3) {
		push(id);
		push(id + 1);
		push(id + 2);
		assert_int_equal(poll_one(cq), id);
		assert_int_equal(ur_cq_poll(&cq->verbs, 4, wc), 2);
		assert_int_equal(wc[0].wr_id, id + 1);
		assert_int_equal(wc[1].wr_id, id + 2);
	}
	assert_empty(cq);
}

static void test_no_more_are_polled_than_there_is_room_for(void **state)
{
	struct ibv_wc wc[3] = { [2] = { .wr_id = 77 } };

	(void)state;
	for (uint64_t id = 0; id < 4; id++)
		push(id);
	assert_int_equal(ur_cq_poll(&cq->verbs, 2, wc), 2);
	assert_int_equal(wc[2].wr_id, 77);
	assert_int_equal(ur_cq_poll(&cq->verbs, 0, wc), 0);
	assert_int_equal(poll_one(cq), 2);
	assert_int_equal(poll_one(cq), 3);
}

static void test_a_queue_holds_at_least_what_was_asked_for(void **state)
{
	static const int sizes[] = { 1, 2, 3, 5, 100, 1000, 1025 };

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct ur_cq *other = ur_cq_create(core.context, sizes[i], NULL, NULL, 0, NULL);

		assert_non_null(other);
		assert_true(other->verbs.cqe >= sizes[i]);
		for (int id = 0; id < other->verbs.cqe; id++)
			push_to(other, (uint64_t)id, IBV_WC_SUCCESS, false);
		for (int id = 0; id < other->verbs.cqe; id++)
			assert_int_equal(poll_one(other), id);
		assert_empty(other);
		assert_no_event();
		assert_int_equal(ur_cq_destroy(other), 0);
	}
}

static void test_impossible_queues_are_refused(void **state)
{
	struct ur_context *other = ur_context_open(&core.device);

	(void)state;
	assert_null(ur_cq_create(core.context, 0, NULL, NULL, 0, NULL));
	assert_int_equal(errno, EINVAL);
	assert_null(ur_cq_create(core.context, -1, NULL, NULL, 0, NULL));
	assert_null(ur_cq_create(core.context, UR_MAX_CQE + 1, NULL, NULL, 0, NULL));
	assert_null(ur_cq_create(core.context, INT_MAX, NULL, NULL, 0, NULL));
	assert_null(ur_cq_create(core.context, 1, NULL, NULL, -1, NULL));
	assert_null(ur_cq_create(core.context, 1, NULL, NULL,
				 core.context->verbs.context.num_comp_vectors, NULL));
	assert_null(ur_cq_create(other, 1, NULL, channel, 0, NULL));
	assert_int_equal(errno, EINVAL);
	assert_int_equal(ur_context_close(other), 0);
}

static void bring_completion(void)
{
	push(42);
}

static void test_polling_an_empty_queue_drives_the_engine(void **state)
{
	(void)state;
	engine.on_poll = bring_completion;
	assert_int_equal(poll_one(cq), 42);
	assert_int_equal(engine.polls, 1);
}

static void test_polling_what_is_there_does_not_drive_the_engine(void **state)
{
	(void)state;
	push(1);
	assert_int_equal(poll_one(cq), 1);
	assert_int_equal(engine.polls, 0);
}

static void test_an_overrun_raises_one_event_and_keeps_what_is_there(void **state)
{
	(void)state;
	for (uint64_t id = 0; id < 4; id++)
		push(id);
	assert_no_event();
	push(4);
	assert_event(IBV_EVENT_CQ_ERR, cq);
	push(5);
	assert_no_event();
	assert_true(cq->overrun);
	for (uint64_t id = 0; id < 4; id++)
		assert_int_equal(poll_one(cq), id);
	assert_empty(cq);
}

static void test_resizing_keeps_the_completions_in_order(void **state)
{
	(void)state;
	push(0);
	push(1);
	assert_int_equal(poll_one(cq), 0);
	for (uint64_t id = 2; id < 5; id++)
		push(id);
	assert_int_equal(ur_cq_resize(cq, 7), 0);
	assert_true(cq->verbs.cqe >= 7);
	push(5);
	for (uint64_t id = 1; id < 6; id++)
		assert_int_equal(poll_one(cq), id);
	assert_empty(cq);
	assert_int_equal(ur_cq_resize(cq, 1), 0);
	push(6);
	assert_int_equal(poll_one(cq), 6);
}

static void test_a_queue_is_not_resized_below_what_is_in_it(void **state)
{
	(void)state;
	for (uint64_t id = 0; id < 3; id++)
		push(id);
	assert_int_equal(ur_cq_resize(cq, 2), EINVAL);
	assert_int_equal(ur_cq_resize(cq, 0), EINVAL);
	assert_int_equal(ur_cq_resize(cq, UR_MAX_CQE + 1), EINVAL);
	assert_int_equal(cq->verbs.cqe, 4);
	for (uint64_t id = 0; id < 3; id++)
		assert_int_equal(poll_one(cq), id);
}

/* ---- Notification ---- */

static void test_a_queue_that_is_not_armed_gives_no_event(void **state)
{
	(void)state;
	push(1);
	push_to(cq, 2, IBV_WC_WR_FLUSH_ERR, true);
	assert_no_cq_event();
}

static void test_each_request_gives_one_event(void **state)
{
	(void)state;
	arm(false);
	assert_int_equal(engine.hand_overs, 1);
	assert_no_cq_event();
	push(1);
	push(2);
	assert_cq_event(cq);
	assert_no_cq_event();
	push(3);
	assert_no_cq_event();
	arm(false);
	assert_no_cq_event();
	push(4);
	assert_cq_event(cq);
}

static void test_a_solicited_request_waits_for_solicited_or_failed_completions(void **state)
{
	(void)state;
	arm(true);
	push(1);
	assert_no_cq_event();
	push_to(cq, 2, IBV_WC_SUCCESS, true);
	assert_cq_event(cq);
	arm(true);
	push_to(cq, 3, IBV_WC_REM_ACCESS_ERR, false);
	assert_cq_event(cq);
}

static void test_the_stronger_of_two_requests_counts(void **state)
{
	(void)state;
	arm(false);
	arm(true);
	push(1);
	assert_cq_event(cq);
	arm(true);
	arm(false);
	push(2);
	assert_cq_event(cq);
}

static void test_a_queue_without_channel_can_be_armed(void **state)
{
	struct ur_cq *other = ur_cq_create(core.context, 1, NULL, NULL, 0, NULL);

	(void)state;
	assert_int_equal(ur_cq_request_notification(&other->verbs, 0), 0);
	push_to(other, 1, IBV_WC_SUCCESS, false);
	assert_int_equal(poll_one(other), 1);
	assert_int_equal(ur_cq_destroy(other), 0);
}

static void test_an_overrun_wakes_who_waits(void **state)
{
	(void)state;
	for (uint64_t id = 0; id < 4; id++)
		push(id);
	arm(false);
	push(4);
	assert_cq_event(cq);
	assert_event(IBV_EVENT_CQ_ERR, cq);
}

static void test_events_of_several_queues_are_read_in_order(void **state)
{
	struct ur_cq *other = ur_cq_create(core.context, 4, NULL, channel, 0, NULL);

	(void)state;
	arm(false);
	assert_int_equal(ur_cq_request_notification(&other->verbs, 0), 0);
	push_to(other, 1, IBV_WC_SUCCESS, false);
	push(1);
	arm(false);
	push(2);
	assert_cq_event(other);
	assert_cq_event(cq);
	assert_cq_event(cq);
	assert_no_cq_event();
	assert_int_equal(ur_cq_destroy(other), 0);
}

static void test_a_non_blocking_channel_says_when_there_is_no_event(void **state)
{
	(void)state;
	set_non_blocking(channel->verbs.fd);
	assert_int_equal(ur_channel_get(channel, &received), -1);
	assert_int_equal(errno, EAGAIN);
	/* What is left when an event is withdrawn while a thread is about to read it. */
	ur_event_fd_add(channel->verbs.fd);
	assert_int_equal(ur_channel_get(channel, &received), -1);
	assert_int_equal(errno, EAGAIN);
}

static void get(void)
{
	result = ur_channel_get(channel, &received);
}

static void test_getting_an_event_waits_for_one(void **state)
{
	struct sleeper sleeper;

	(void)state;
	arm(false);
	sleeper_start(&sleeper, get);
	assert_sleeps(&sleeper);
	push(1);
	sleeper_join(&sleeper);
	assert_int_equal(result, 0);
	assert_ptr_equal(received, cq);
	ur_cq_acknowledge(cq, 1);
}

/* ---- The end ---- */

static void destroy(void)
{
	result = ur_cq_destroy(cq);
}

static void test_a_queue_goes_when_its_events_are_acknowledged(void **state)
{
	struct sleeper sleeper;

	(void)state;
	for (int i = 0; i < 3; i++) {
		arm(false);
		push(1);
		assert_int_equal(ur_channel_get(channel, &received), 0);
	}
	ur_cq_acknowledge(cq, 1);
	sleeper_start(&sleeper, destroy);
	assert_sleeps(&sleeper);
	ur_cq_acknowledge(cq, 2);
	sleeper_join(&sleeper);
	assert_int_equal(result, 0);
	cq = NULL;
}

static void test_a_queue_goes_when_its_error_is_acknowledged(void **state)
{
	struct ibv_async_event event;
	struct sleeper sleeper;

	(void)state;
	for (uint64_t id = 0; id < 5; id++)
		push(id);
	assert_int_equal(ur_async_get(core.context, &event), 0);
	sleeper_start(&sleeper, destroy);
	assert_sleeps(&sleeper);
	ur_async_acknowledge(core.context, &event);
	sleeper_join(&sleeper);
	assert_int_equal(result, 0);
	cq = NULL;
}

/* Gives an event of a new queue on the channel. */
static struct ur_cq *create_with_event(void)
{
	struct ur_cq *created = ur_cq_create(core.context, 2, NULL, channel, 0, NULL);

	assert_non_null(created);
	assert_int_equal(ur_cq_request_notification(&created->verbs, 0), 0);
	push_to(created, 1, IBV_WC_SUCCESS, false);
	return created;
}

static void test_a_queue_that_goes_takes_its_unread_events_along(void **state)
{
	struct ur_cq *first = create_with_event();
	struct ur_cq *middle, *last;

	(void)state;
	arm(false);
	push(1);
	middle = create_with_event();
	last = create_with_event();
	assert_int_equal(ur_cq_request_notification(&last->verbs, 0), 0);
	push_to(last, 2, IBV_WC_SUCCESS, false);

	assert_int_equal(ur_cq_destroy(last), 0);
	last = create_with_event();
	assert_int_equal(ur_cq_destroy(middle), 0);
	assert_int_equal(ur_cq_destroy(first), 0);
	assert_cq_event(cq);
	assert_cq_event(last);
	assert_no_cq_event();
	assert_int_equal(ur_cq_destroy(last), 0);
}

static void test_a_queue_in_use_is_not_destroyed(void **state)
{
	(void)state;
	atomic_fetch_add(&cq->objects, 1);
	assert_int_equal(ur_cq_destroy(cq), EBUSY);
	atomic_fetch_sub(&cq->objects, 1);
	assert_int_equal(ur_channel_destroy(channel), EBUSY);
}

/* ---- Extended queues ---- */

static struct ur_cq *create_extended(uint64_t wc_flags)
{
	struct ibv_cq_init_attr_ex attr = { .wc_flags = wc_flags };

	return ur_cq_create(core.context, 4, NULL, NULL, 0, &attr);
}

static void test_the_fields_of_each_completion_can_be_read(void **state)
{
	struct ur_cq *extended = create_extended(IBV_WC_STANDARD_FLAGS);
	struct ibv_cq_ex *verbs = &extended->verbs_ex;
	struct ibv_poll_cq_attr attr = { 0 };
	struct ibv_wc wc = { .wr_id = 1,
			     .status = IBV_WC_SUCCESS,
			     .opcode = IBV_WC_RECV,
			     .vendor_err = 2,
			     .byte_len = 3,
			     .imm_data = 4,
			     .qp_num = 5,
			     .src_qp = 6,
			     .wc_flags = IBV_WC_WITH_IMM,
			     .slid = 7,
			     .sl = 8,
			     .dlid_path_bits = 9 };

	(void)state;
	ur_cq_push(extended, &wc, false);
	push_to(extended, 10, IBV_WC_LOC_LEN_ERR, false);
	assert_int_equal(ibv_start_poll(verbs, &attr), 0);
	assert_int_equal(verbs->wr_id, 1);
	assert_int_equal(verbs->status, IBV_WC_SUCCESS);
	assert_int_equal(ibv_wc_read_opcode(verbs), IBV_WC_RECV);
	assert_int_equal(ibv_wc_read_vendor_err(verbs), 2);
	assert_int_equal(ibv_wc_read_byte_len(verbs), 3);
	assert_int_equal(ibv_wc_read_imm_data(verbs), 4);
	assert_int_equal(ibv_wc_read_invalidated_rkey(verbs), 4);
	assert_int_equal(ibv_wc_read_qp_num(verbs), 5);
	assert_int_equal(ibv_wc_read_src_qp(verbs), 6);
	assert_int_equal(ibv_wc_read_wc_flags(verbs), IBV_WC_WITH_IMM);
	assert_int_equal(ibv_wc_read_slid(verbs), 7);
	assert_int_equal(ibv_wc_read_sl(verbs), 8);
	assert_int_equal(ibv_wc_read_dlid_path_bits(verbs), 9);
	assert_int_equal(ibv_next_poll(verbs), 0);
	assert_int_equal(verbs->wr_id, 10);
	assert_int_equal(verbs->status, IBV_WC_LOC_LEN_ERR);
	assert_int_equal(ibv_next_poll(verbs), ENOENT);
	ibv_end_poll(verbs);
	assert_int_equal(ur_cq_destroy(extended), 0);
}

static void test_an_empty_extended_queue_drives_the_engine_and_can_be_polled_again(void **state)
{
	struct ur_cq *extended = create_extended(0);
	struct ibv_poll_cq_attr attr = { 0 };

	(void)state;
	assert_int_equal(ibv_start_poll(&extended->verbs_ex, &attr), ENOENT);
	assert_int_equal(engine.polls, 1);
	push_to(extended, 1, IBV_WC_SUCCESS, false);
	attr.comp_mask = 1;
	assert_int_equal(ibv_start_poll(&extended->verbs_ex, &attr), EINVAL);
	attr.comp_mask = 0;
	assert_int_equal(ibv_start_poll(&extended->verbs_ex, &attr), 0);
	ibv_end_poll(&extended->verbs_ex);
	assert_int_equal(ur_cq_destroy(extended), 0);
}

static struct ur_cq *shared;

static void poll_shared(void)
{
	struct ibv_poll_cq_attr attr = { 0 };

	result = ibv_start_poll(&shared->verbs_ex, &attr);
	if (result == 0)
		ibv_end_poll(&shared->verbs_ex);
}

static void test_completions_are_added_while_one_polls_and_other_pollers_wait(void **state)
{
	struct ibv_poll_cq_attr attr = { 0 };
	struct sleeper sleeper;

	(void)state;
	shared = create_extended(0);
	push_to(shared, 1, IBV_WC_SUCCESS, false);
	assert_int_equal(ibv_start_poll(&shared->verbs_ex, &attr), 0);
	sleeper_start(&sleeper, poll_shared);
	assert_sleeps(&sleeper);
	push_to(shared, 2, IBV_WC_SUCCESS, false);
	assert_int_equal(shared->verbs_ex.wr_id, 1);
	ibv_end_poll(&shared->verbs_ex);
	sleeper_join(&sleeper);
	assert_int_equal(result, 0);
	assert_int_equal(shared->verbs_ex.wr_id, 2);
	assert_int_equal(ur_cq_destroy(shared), 0);
}

static uint64_t nanoseconds(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static void test_completions_carry_the_time_on_request(void **state)
{
	struct ur_cq *extended = create_extended(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
						 IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK);
	uint64_t before = nanoseconds(CLOCK_MONOTONIC);
	uint64_t wall_before = nanoseconds(CLOCK_REALTIME);
	struct ibv_poll_cq_attr attr = { 0 };

	(void)state;
	push_to(extended, 1, IBV_WC_SUCCESS, false);
	assert_int_equal(ibv_start_poll(&extended->verbs_ex, &attr), 0);
	assert_in_range(ibv_wc_read_completion_ts(&extended->verbs_ex), before,
			nanoseconds(CLOCK_MONOTONIC));
	assert_in_range(ibv_wc_read_completion_wallclock_ns(&extended->verbs_ex), wall_before,
			nanoseconds(CLOCK_REALTIME));
	ibv_end_poll(&extended->verbs_ex);
	assert_int_equal(ur_cq_destroy(extended), 0);
}

static void test_what_an_extended_queue_cannot_do_is_refused(void **state)
{
	const struct ibv_cq_init_attr_ex refused[] = {
		{ .wc_flags = IBV_WC_EX_WITH_CVLAN },
		{ .wc_flags = IBV_WC_EX_WITH_FLOW_TAG },
		{ .wc_flags = IBV_WC_EX_WITH_TM_INFO },
		{ .wc_flags = UINT64_C(1) << 40 },
		{ .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD << 1 },
		{ .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
		  .flags = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN },
	};
	const struct ibv_cq_init_attr_ex accepted = {
		.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
		.flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED,
	};
	struct ur_cq *extended;

	(void)state;
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		assert_null(ur_cq_create(core.context, 4, NULL, NULL, 0, &refused[i]));
		assert_int_equal(errno, EOPNOTSUPP);
	}
	extended = ur_cq_create(core.context, 4, NULL, NULL, 0, &accepted);
	assert_non_null(extended);
	assert_int_equal(ur_cq_destroy(extended), 0);
}

#define cq_test(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cq_test(test_completions_are_polled_in_order),
		cq_test(test_no_more_are_polled_than_there_is_room_for),
		cq_test(test_what_a_queue_pair_completed_is_forgotten_with_it),
		cq_test(test_a_queue_holds_at_least_what_was_asked_for),
		cq_test(test_impossible_queues_are_refused),
		cq_test(test_polling_an_empty_queue_drives_the_engine),
		cq_test(test_polling_what_is_there_does_not_drive_the_engine),
		cq_test(test_an_overrun_raises_one_event_and_keeps_what_is_there),
		cq_test(test_resizing_keeps_the_completions_in_order),
		cq_test(test_a_queue_is_not_resized_below_what_is_in_it),
		cq_test(test_a_queue_that_is_not_armed_gives_no_event),
		cq_test(test_each_request_gives_one_event),
		cq_test(test_a_solicited_request_waits_for_solicited_or_failed_completions),
		cq_test(test_the_stronger_of_two_requests_counts),
		cq_test(test_a_queue_without_channel_can_be_armed),
		cq_test(test_an_overrun_wakes_who_waits),
		cq_test(test_events_of_several_queues_are_read_in_order),
		cq_test(test_a_non_blocking_channel_says_when_there_is_no_event),
		cq_test(test_getting_an_event_waits_for_one),
		cq_test(test_a_queue_goes_when_its_events_are_acknowledged),
		cq_test(test_a_queue_goes_when_its_error_is_acknowledged),
		cq_test(test_a_queue_that_goes_takes_its_unread_events_along),
		cq_test(test_a_queue_in_use_is_not_destroyed),
		cq_test(test_the_fields_of_each_completion_can_be_read),
		cq_test(test_an_empty_extended_queue_drives_the_engine_and_can_be_polled_again),
		cq_test(test_completions_are_added_while_one_polls_and_other_pollers_wait),
		cq_test(test_completions_carry_the_time_on_request),
		cq_test(test_what_an_extended_queue_cannot_do_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
