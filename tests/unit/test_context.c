#include "support.h"

#include <stdio.h>
#include <string.h>

#include "context.h"
#include "context_impl.h"

/* A context that does what the test says. */
struct scripted {
	struct rs_ctx ctx; /* first */
	struct rs_pe *pe;
	enum rs_status start_status;
	bool ready;
	bool drained;
	size_t work; /* what the next progress returns */
	unsigned starts, stops, releases, progresses, notifications;
	char transitions[512];
	void (*on_state)(struct scripted *scripted, enum rs_ctx_state to);
	enum rs_status seen; /* what a call in a callback returned */
	unsigned restarts;
};

static struct scripted *scripted_of(const struct rs_ctx *ctx)
{
	return (struct scripted *)(uintptr_t)ctx;
}

static enum rs_status scripted_start(struct rs_ctx *ctx)
{
	scripted_of(ctx)->starts++;
	return scripted_of(ctx)->start_status;
}

static bool scripted_is_ready(const struct rs_ctx *ctx)
{
	return scripted_of(ctx)->ready;
}

static void scripted_stop(struct rs_ctx *ctx)
{
	assert_int_equal(ctx->state, RS_CTX_STOPPING);
	scripted_of(ctx)->stops++;
}

static bool scripted_is_drained(struct rs_ctx *ctx)
{
	return scripted_of(ctx)->drained;
}

static void scripted_release(struct rs_ctx *ctx)
{
	scripted_of(ctx)->releases++;
}

static size_t scripted_progress(struct rs_ctx *ctx)
{
	size_t work = scripted_of(ctx)->work;

	scripted_of(ctx)->progresses++;
	scripted_of(ctx)->work = 0;
	return work;
}

static void scripted_request_notification(struct rs_ctx *ctx)
{
	scripted_of(ctx)->notifications++;
}

static const struct rs_ctx_ops scripted_ops = {
	.start = scripted_start,
	.is_ready = scripted_is_ready,
	.stop = scripted_stop,
	.drain = scripted_is_drained,
	.release = scripted_release,
	.progress = scripted_progress,
	.request_notification = scripted_request_notification,
};

static void on_state_changed(struct rs_ctx *ctx, enum rs_ctx_state from, enum rs_ctx_state to,
			     void *user_data)
{
	struct scripted *scripted = user_data;
	size_t used = strlen(scripted->transitions);

	assert_ptr_equal(ctx, &scripted->ctx);
	snprintf(scripted->transitions + used, sizeof(scripted->transitions) - used, "%s>%s ",
		 rs_ctx_state_name(from), rs_ctx_state_name(to));
	if (scripted->on_state)
		scripted->on_state(scripted, to);
}

static int setup(void **state)
{
	static struct scripted scripted;

	log_capture();
	scripted = (struct scripted){ .ctx.ops = &scripted_ops, .ready = true, .drained = true };
	rs_ctx_set_user_data(&scripted.ctx, &scripted);
	assert_ok(rs_ctx_set_state_changed_cb(&scripted.ctx, on_state_changed));
	assert_ok(rs_pe_create(&scripted.pe));
	assert_ok(rs_pe_connect_ctx(scripted.pe, &scripted.ctx));
	*state = &scripted;
	return 0;
}

static int teardown(void **state)
{
	struct scripted *scripted = *state;

	scripted->on_state = NULL;
	scripted->drained = true;
	if (rs_ctx_stop(&scripted->ctx) == RS_IN_PROGRESS)
		while (rs_pe_progress(scripted->pe) > 0)
			;
	assert_ok(rs_pe_destroy(scripted->pe));
	rs_log_set_sink(NULL, NULL);
	return 0;
}

static void test_a_context_goes_from_idle_to_running_and_back_in_order(void **state)
{
	struct scripted *scripted = *state;

	assert_int_equal(rs_ctx_state(&scripted->ctx), RS_CTX_IDLE);
	assert_ok(rs_ctx_start(&scripted->ctx));
	assert_int_equal(rs_ctx_state(&scripted->ctx), RS_CTX_IDLE);
	assert_int_equal(scripted->starts, 1);
	assert_int_equal(rs_pe_progress(scripted->pe), 2);
	assert_string_equal(scripted->transitions, "Idle>Starting Starting>Running ");
	assert_status(rs_ctx_stop(&scripted->ctx), RS_IN_PROGRESS);
	assert_int_equal(rs_ctx_state(&scripted->ctx), RS_CTX_RUNNING);
	assert_int_equal(rs_pe_progress(scripted->pe), 2);
	assert_string_equal(scripted->transitions, "Idle>Starting Starting>Running "
						   "Running>Stopping Stopping>Idle ");
	assert_int_equal(scripted->stops, 1);
	assert_int_equal(scripted->releases, 1);
	assert_int_equal(rs_pe_progress(scripted->pe), 0);
}

static void test_running_waits_until_all_is_ready(void **state)
{
	struct scripted *scripted = *state;

	scripted->ready = false;
	assert_ok(rs_ctx_start(&scripted->ctx));
	assert_int_equal(rs_pe_progress(scripted->pe), 1);
	assert_int_equal(rs_pe_progress(scripted->pe), 0);
	assert_int_equal(rs_ctx_state(&scripted->ctx), RS_CTX_STARTING);
	scripted->ready = true;
	assert_int_equal(rs_pe_progress(scripted->pe), 1);
	assert_int_equal(rs_ctx_state(&scripted->ctx), RS_CTX_RUNNING);
}

static void test_idle_waits_until_all_is_drained(void **state)
{
	struct scripted *scripted = *state;

	scripted->drained = false;
	assert_ok(rs_ctx_start(&scripted->ctx));
	rs_pe_progress(scripted->pe);
	rs_ctx_stop(&scripted->ctx);
	rs_pe_progress(scripted->pe);
	assert_int_equal(rs_ctx_state(&scripted->ctx), RS_CTX_STOPPING);
	assert_int_equal(scripted->releases, 0);
	assert_int_equal(rs_pe_progress(scripted->pe), 0);
	assert_status(rs_ctx_stop(&scripted->ctx), RS_IN_PROGRESS);
	scripted->drained = true;
	assert_int_equal(rs_pe_progress(scripted->pe), 1);
	assert_int_equal(rs_ctx_state(&scripted->ctx), RS_CTX_IDLE);
	assert_int_equal(scripted->stops, 1);
}

static void test_a_start_that_fails_leaves_the_context_idle(void **state)
{
	struct scripted *scripted = *state;

	scripted->start_status = RS_ERR_NO_MEMORY;
	assert_status(rs_ctx_start(&scripted->ctx), RS_ERR_NO_MEMORY);
	assert_int_equal(rs_pe_progress(scripted->pe), 0);
	assert_string_equal(scripted->transitions, "");
	assert_status(rs_ctx_stop(&scripted->ctx), RS_ERR_BAD_STATE);
	scripted->start_status = RS_OK;
	assert_ok(rs_ctx_start(&scripted->ctx));
	assert_int_equal(rs_pe_progress(scripted->pe), 2);
}

static void test_calls_in_the_wrong_state_are_refused_and_change_nothing(void **state)
{
	struct scripted *scripted = *state;

	assert_status(rs_ctx_stop(&scripted->ctx), RS_ERR_BAD_STATE);
	assert_ok(rs_ctx_start(&scripted->ctx));
	/* About to start: already not configurable. */
	assert_status(rs_ctx_start(&scripted->ctx), RS_ERR_BAD_STATE);
	assert_status(rs_ctx_set_state_changed_cb(&scripted->ctx, NULL), RS_ERR_BAD_STATE);
	rs_pe_progress(scripted->pe);
	assert_status(rs_ctx_start(&scripted->ctx), RS_ERR_BAD_STATE);
	assert_status(rs_ctx_set_state_changed_cb(&scripted->ctx, NULL), RS_ERR_BAD_STATE);
	assert_int_equal(scripted->starts, 1);
	assert_status(rs_pe_connect_ctx(scripted->pe, &scripted->ctx), RS_ERR_BAD_STATE);
	assert_status(rs_pe_destroy(scripted->pe), RS_ERR_IN_USE);
	scripted->drained = false;
	rs_ctx_stop(&scripted->ctx);
	rs_pe_progress(scripted->pe);
	assert_status(rs_ctx_start(&scripted->ctx), RS_ERR_BAD_STATE);
	assert_string_equal(scripted->transitions,
			    "Idle>Starting Starting>Running Running>Stopping ");
}

static void test_a_context_without_an_engine_does_not_start(void **state)
{
	struct scripted *scripted = *state;

	assert_ok(rs_pe_destroy(scripted->pe));
	assert_status(rs_ctx_start(&scripted->ctx), RS_ERR_BAD_STATE);
	assert_int_equal(scripted->starts, 0);
	assert_ok(rs_pe_create(&scripted->pe));
	assert_ok(rs_pe_connect_ctx(scripted->pe, &scripted->ctx));
	assert_ok(rs_ctx_start(&scripted->ctx));
}

static void test_a_stop_before_the_first_progress_passes_through_all_states(void **state)
{
	struct scripted *scripted = *state;

	assert_ok(rs_ctx_start(&scripted->ctx));
	assert_status(rs_ctx_stop(&scripted->ctx), RS_IN_PROGRESS);
	rs_pe_progress(scripted->pe);
	assert_string_equal(scripted->transitions,
			    "Idle>Starting Starting>Stopping Stopping>Idle ");
	assert_int_equal(scripted->releases, 1);
}

static void stop_in_running(struct scripted *scripted, enum rs_ctx_state to)
{
	if (to == RS_CTX_RUNNING)
		scripted->seen = rs_ctx_stop(&scripted->ctx);
}

static void test_a_stop_inside_the_callback_is_in_progress_and_follows(void **state)
{
	struct scripted *scripted = *state;

	scripted->on_state = stop_in_running;
	assert_ok(rs_ctx_start(&scripted->ctx));
	rs_pe_progress(scripted->pe);
	assert_status(scripted->seen, RS_IN_PROGRESS);
	assert_string_equal(scripted->transitions, "Idle>Starting Starting>Running "
						   "Running>Stopping Stopping>Idle ");
}

static void restart_in_idle(struct scripted *scripted, enum rs_ctx_state to)
{
	if (to == RS_CTX_IDLE && scripted->restarts++ == 0)
		scripted->seen = rs_ctx_start(&scripted->ctx);
}

static void test_a_context_can_be_started_again_from_its_callback_in_idle(void **state)
{
	struct scripted *scripted = *state;

	scripted->on_state = restart_in_idle;
	assert_ok(rs_ctx_start(&scripted->ctx));
	rs_pe_progress(scripted->pe);
	rs_ctx_stop(&scripted->ctx);
	while (rs_pe_progress(scripted->pe) > 0)
		;
	assert_ok(scripted->seen);
	assert_int_equal(rs_ctx_state(&scripted->ctx), RS_CTX_RUNNING);
	assert_int_equal(scripted->starts, 2);
	assert_int_equal(scripted->releases, 1);
}

static void test_a_context_that_fails_stops_and_keeps_the_first_reason(void **state)
{
	struct scripted *scripted = *state;

	assert_ok(rs_ctx_start(&scripted->ctx));
	rs_pe_progress(scripted->pe);
	rs_ctx_fail(&scripted->ctx, RS_ERR_RETRY_EXCEEDED);
	rs_ctx_fail(&scripted->ctx, RS_ERR_DEVICE_FATAL);
	rs_pe_progress(scripted->pe);
	assert_int_equal(rs_ctx_state(&scripted->ctx), RS_CTX_IDLE);
	assert_status(rs_ctx_error(&scripted->ctx), RS_ERR_RETRY_EXCEEDED);
	/* In Idle there is nothing to fail. */
	rs_ctx_fail(&scripted->ctx, RS_ERR_IO);
	assert_status(rs_ctx_error(&scripted->ctx), RS_ERR_RETRY_EXCEEDED);
	assert_ok(rs_ctx_start(&scripted->ctx));
	assert_ok(rs_ctx_error(&scripted->ctx));
}

static void test_an_ordinary_stop_is_no_error(void **state)
{
	struct scripted *scripted = *state;

	assert_ok(rs_ctx_start(&scripted->ctx));
	rs_ctx_stop(&scripted->ctx);
	rs_pe_progress(scripted->pe);
	assert_ok(rs_ctx_error(&scripted->ctx));
}

static void test_work_is_done_before_transitions_and_not_in_idle(void **state)
{
	struct scripted *scripted = *state;

	rs_pe_progress(scripted->pe);
	assert_int_equal(scripted->progresses, 0);
	assert_ok(rs_ctx_start(&scripted->ctx));
	rs_pe_progress(scripted->pe);
	assert_int_equal(scripted->progresses, 0);
	scripted->work = 3;
	assert_int_equal(rs_pe_progress(scripted->pe), 3);
	scripted->work = 2;
	rs_ctx_stop(&scripted->ctx);
	assert_int_equal(rs_pe_progress(scripted->pe), 4);
}

static void test_user_data_may_change_at_any_time(void **state)
{
	struct scripted *scripted = *state;
	struct scripted other = { 0 };

	assert_ok(rs_ctx_start(&scripted->ctx));
	rs_ctx_set_user_data(&scripted->ctx, &other);
	assert_ptr_equal(rs_ctx_user_data(&scripted->ctx), &other);
	rs_ctx_set_user_data(&scripted->ctx, scripted);
}

static void test_a_context_needs_no_callback(void **state)
{
	struct scripted *scripted = *state;

	assert_ok(rs_ctx_set_state_changed_cb(&scripted->ctx, NULL));
	assert_ok(rs_ctx_start(&scripted->ctx));
	rs_pe_progress(scripted->pe);
	assert_int_equal(rs_ctx_state(&scripted->ctx), RS_CTX_RUNNING);
}

static void test_states_have_names(void **state)
{
	(void)state;
	assert_string_equal(rs_ctx_state_name(RS_CTX_STOPPING), "Stopping");
	assert_string_equal(rs_ctx_state_name((enum rs_ctx_state)9), "unknown state");
}

#define context_test(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		context_test(test_a_context_goes_from_idle_to_running_and_back_in_order),
		context_test(test_running_waits_until_all_is_ready),
		context_test(test_idle_waits_until_all_is_drained),
		context_test(test_a_start_that_fails_leaves_the_context_idle),
		context_test(test_calls_in_the_wrong_state_are_refused_and_change_nothing),
		context_test(test_a_context_without_an_engine_does_not_start),
		context_test(test_a_stop_before_the_first_progress_passes_through_all_states),
		context_test(test_a_stop_inside_the_callback_is_in_progress_and_follows),
		context_test(test_a_context_can_be_started_again_from_its_callback_in_idle),
		context_test(test_a_context_that_fails_stops_and_keeps_the_first_reason),
		context_test(test_an_ordinary_stop_is_no_error),
		context_test(test_work_is_done_before_transitions_and_not_in_idle),
		context_test(test_user_data_may_change_at_any_time),
		context_test(test_a_context_needs_no_callback),
		context_test(test_states_have_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
