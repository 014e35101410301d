#include "support.h"

#include <errno.h>
#include <string.h>

#include "status.h"

static void test_every_status_has_a_name_and_a_text_of_its_own(void **state)
{
	(void)state;
	for (int i = 0; i < RS_STATUS_COUNT; i++) {
		const char *name = rs_status_name((enum rs_status)i);

		assert_true(strncmp(name, "RS_", 3) == 0);
		assert_true(strlen(rs_status_text((enum rs_status)i)) > 0);
		for (int j = 0; j < i; j++) {
			assert_string_not_equal(name, rs_status_name((enum rs_status)j));
			assert_string_not_equal(rs_status_text((enum rs_status)i),
						rs_status_text((enum rs_status)j));
		}
	}
	assert_string_equal(rs_status_name(RS_ERR_FLUSHED), "RS_ERR_FLUSHED");
}

static void test_a_number_that_is_no_status_still_has_a_name_and_a_text(void **state)
{
	(void)state;
	assert_string_equal(rs_status_name((enum rs_status)RS_STATUS_COUNT), "RS_ERR_UNKNOWN");
	assert_string_equal(rs_status_text((enum rs_status) - 1), "unknown error");
}

static void test_errno_values_have_the_status_that_says_what_they_mean(void **state)
{
	static const struct {
		int error;
		enum rs_status status;
	} cases[] = {
		{ 0, RS_OK },
		{ EINVAL, RS_ERR_INVALID_VALUE },
		{ ENODEV, RS_ERR_NOT_FOUND },
		{ ENOENT, RS_ERR_NOT_FOUND },
		{ EOPNOTSUPP, RS_ERR_NOT_SUPPORTED },
		{ ENOTSUP, RS_ERR_NOT_SUPPORTED },
		{ ENOSYS, RS_ERR_NOT_SUPPORTED },
		{ EPERM, RS_ERR_NOT_PERMITTED },
		{ EACCES, RS_ERR_NOT_PERMITTED },
		{ ENOMEM, RS_ERR_NO_MEMORY },
		{ EAGAIN, RS_ERR_FULL },
		{ ENOSPC, RS_ERR_FULL },
		{ EBUSY, RS_ERR_IN_USE },
		{ EMSGSIZE, RS_ERR_TOO_BIG },
		{ ETIMEDOUT, RS_ERR_TIMED_OUT },
		{ EINTR, RS_ERR_INTERRUPTED },
		{ EIO, RS_ERR_IO },
		{ ENETUNREACH, RS_ERR_UNREACHABLE },
		{ ECONNREFUSED, RS_ERR_REJECTED },
		{ ECONNRESET, RS_ERR_DISCONNECTED },
		{ 9999, RS_ERR_UNKNOWN },
		{ -1, RS_ERR_UNKNOWN },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_status(rs_status_from_errno(cases[i].error), cases[i].status);
}

static void test_only_errno_0_is_success(void **state)
{
	(void)state;
	for (int error = 1; error < 200; error++)
		assert_int_not_equal(rs_status_from_errno(error), RS_OK);
}

static void test_only_a_successful_work_completion_is_success(void **state)
{
	(void)state;
	assert_ok(rs_status_from_wc(IBV_WC_SUCCESS));
	for (int status = IBV_WC_SUCCESS + 1; status < 40; status++) {
		assert_int_not_equal(rs_status_from_wc((enum ibv_wc_status)status), RS_OK);
		assert_int_not_equal(rs_status_from_wc((enum ibv_wc_status)status), RS_IN_PROGRESS);
	}
}

static void test_work_completions_tell_flushes_retries_and_access_errors_apart(void **state)
{
	(void)state;
	assert_status(rs_status_from_wc(IBV_WC_WR_FLUSH_ERR), RS_ERR_FLUSHED);
	assert_status(rs_status_from_wc(IBV_WC_RETRY_EXC_ERR), RS_ERR_RETRY_EXCEEDED);
	assert_status(rs_status_from_wc(IBV_WC_RNR_RETRY_EXC_ERR), RS_ERR_RNR_RETRY_EXCEEDED);
	assert_status(rs_status_from_wc(IBV_WC_REM_ACCESS_ERR), RS_ERR_REMOTE_ACCESS);
	assert_status(rs_status_from_wc(IBV_WC_REM_INV_REQ_ERR), RS_ERR_REMOTE_INVALID);
	assert_status(rs_status_from_wc(IBV_WC_REM_OP_ERR), RS_ERR_REMOTE_OPERATION);
	assert_status(rs_status_from_wc(IBV_WC_LOC_LEN_ERR), RS_ERR_LOCAL_LENGTH);
	assert_status(rs_status_from_wc(IBV_WC_LOC_PROT_ERR), RS_ERR_LOCAL_PROTECTION);
	assert_status(rs_status_from_wc(IBV_WC_LOC_QP_OP_ERR), RS_ERR_LOCAL_OPERATION);
	assert_status(rs_status_from_wc(IBV_WC_FATAL_ERR), RS_ERR_DEVICE_FATAL);
	assert_status(rs_status_from_wc(IBV_WC_GENERAL_ERR), RS_ERR_UNKNOWN);
}

static void test_connection_manager_events_that_report_progress_are_success(void **state)
{
	(void)state;
	assert_ok(rs_status_from_cm_event(RDMA_CM_EVENT_ADDR_RESOLVED, 0));
	assert_ok(rs_status_from_cm_event(RDMA_CM_EVENT_ROUTE_RESOLVED, 0));
	assert_ok(rs_status_from_cm_event(RDMA_CM_EVENT_CONNECT_REQUEST, 0));
	assert_ok(rs_status_from_cm_event(RDMA_CM_EVENT_ESTABLISHED, 0));
}

static void test_connection_manager_events_that_report_failure_say_which(void **state)
{
	(void)state;
	assert_status(rs_status_from_cm_event(RDMA_CM_EVENT_ADDR_ERROR, -ENODEV),
		      RS_ERR_UNREACHABLE);
	assert_status(rs_status_from_cm_event(RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT),
		      RS_ERR_TIMED_OUT);
	assert_status(rs_status_from_cm_event(RDMA_CM_EVENT_REJECTED, 8), RS_ERR_REJECTED);
	assert_status(rs_status_from_cm_event(RDMA_CM_EVENT_DISCONNECTED, 0), RS_ERR_DISCONNECTED);
	assert_status(rs_status_from_cm_event(RDMA_CM_EVENT_DEVICE_REMOVAL, 0),
		      RS_ERR_DEVICE_FATAL);
	assert_status(rs_status_from_cm_event(RDMA_CM_EVENT_CONNECT_ERROR, -ENOMEM),
		      RS_ERR_NO_MEMORY);
	assert_status(rs_status_from_cm_event(RDMA_CM_EVENT_CONNECT_ERROR, 0), RS_ERR_UNKNOWN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_status_has_a_name_and_a_text_of_its_own),
		cmocka_unit_test(test_a_number_that_is_no_status_still_has_a_name_and_a_text),
		cmocka_unit_test(test_errno_values_have_the_status_that_says_what_they_mean),
		cmocka_unit_test(test_only_errno_0_is_success),
		cmocka_unit_test(test_only_a_successful_work_completion_is_success),
		cmocka_unit_test(
			test_work_completions_tell_flushes_retries_and_access_errors_apart),
		cmocka_unit_test(test_connection_manager_events_that_report_progress_are_success),
		cmocka_unit_test(test_connection_manager_events_that_report_failure_say_which),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
