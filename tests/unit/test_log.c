#define LOG_MODULE "test"

#include "support.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "log.h"

static int capture_setup(void **state)
{
	(void)state;
	log_capture();
	return 0;
}

static int capture_teardown(void **state)
{
	(void)state;
	rs_log_set_sink(NULL, NULL);
	rs_log_set_level(RS_LOG_INFO);
	return 0;
}

static void test_a_line_names_its_module_and_how_bad_it_is(void **state)
{
	(void)state;
	LOG_ERROR("e %d", 1);
	LOG_WARNING("w");
	LOG_INFO("i");
	LOG_DEBUG("d");
	assert_string_equal(log_text(), "test: error: e 1\ntest: warning: w\ntest: i\ntest: d\n");
}

static void test_lines_above_the_level_are_dropped(void **state)
{
	(void)state;
	rs_log_set_level(RS_LOG_WARNING);
	LOG_DEBUG("d");
	LOG_INFO("i");
	LOG_WARNING("w");
	assert_string_equal(log_text(), "test: warning: w\n");
}

static void test_control_characters_in_messages_are_escaped(void **state)
{
	(void)state;
	LOG_INFO("%s", "a\nb\x1b[0m\xff");
	assert_string_equal(log_text(), "test: a\\nb\\x1b[0m\\xff\n");
}

static void test_a_message_that_is_too_long_is_cut(void **state)
{
	char long_text[5000];

	(void)state;
	memset(long_text, 'x', sizeof(long_text) - 1);
	long_text[sizeof(long_text) - 1] = '\0';
	LOG_ERROR("%s", long_text);
	assert_in_range(strlen(log_text()), 1000, 2048);
	log_forget();
	memset(long_text, '\n', sizeof(long_text) - 1);
	LOG_ERROR("%s", long_text);
	assert_in_range(strlen(log_text()), 1000, 2048);
}

static void spoil_errno(enum rs_log_level level, const char *line, void *user_data)
{
	(void)level;
	(void)line;
	(void)user_data;
	errno = EDOM;
}

static void test_logging_keeps_errno(void **state)
{
	(void)state;
	rs_log_set_sink(spoil_errno, NULL);
	errno = EBADF;
	LOG_ERROR("x");
	assert_int_equal(errno, EBADF);
}

static void test_a_failed_call_is_logged_with_its_arguments_the_reason_and_the_cause(void **state)
{
	(void)state;
	assert_status(LOG_FAILED_CALL(EINVAL, "too big?", "ibv_create_cq(%d)", 7),
		      RS_ERR_INVALID_VALUE);
	assert_string_equal(log_text(),
			    "test: error: ibv_create_cq(7) failed: Invalid argument: too big?\n");
}

static void test_a_failed_call_has_the_usual_cause_when_none_is_named(void **state)
{
	(void)state;
	assert_status(LOG_FAILED_CALL(ENOMEM, NULL, "ibv_reg_mr()"), RS_ERR_NO_MEMORY);
	assert_logged("ulimit -l");
	log_forget();
	assert_status(LOG_FAILED_CALL(EDOM, NULL, "f()"), RS_ERR_UNKNOWN);
	assert_string_equal(log_text(),
			    "test: error: f() failed: Numerical argument out of domain\n");
}

static void test_a_failed_call_is_never_success(void **state)
{
	(void)state;
	assert_status(LOG_FAILED_CALL(0, NULL, "f()"), RS_ERR_UNKNOWN);
}

static void test_level_names_are_read_whatever_their_case(void **state)
{
	enum rs_log_level level = RS_LOG_ERROR;

	(void)state;
	assert_true(rs_log_level_from_name("debug", &level));
	assert_int_equal(level, RS_LOG_DEBUG);
	assert_true(rs_log_level_from_name("Warning", &level));
	assert_int_equal(level, RS_LOG_WARNING);
	assert_false(rs_log_level_from_name("loud", &level));
	assert_false(rs_log_level_from_name("", &level));
	assert_int_equal(level, RS_LOG_WARNING);
}

static void test_without_a_sink_a_line_goes_to_standard_error(void **state)
{
	int pipe_fds[2], saved = dup(STDERR_FILENO);
	char text[64] = "";

	(void)state;
	assert_int_equal(pipe(pipe_fds), 0);
	dup2(pipe_fds[1], STDERR_FILENO);
	rs_log_set_sink(NULL, NULL);
	LOG_ERROR("gone wrong");
	dup2(saved, STDERR_FILENO);
	close(saved);
	close(pipe_fds[1]);
	assert_true(read(pipe_fds[0], text, sizeof(text) - 1) > 0);
	close(pipe_fds[0]);
	assert_string_equal(text, "test: error: gone wrong\n");
}

#define capture_test(name) cmocka_unit_test_setup_teardown(name, capture_setup, capture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		capture_test(test_a_line_names_its_module_and_how_bad_it_is),
		capture_test(test_lines_above_the_level_are_dropped),
		capture_test(test_control_characters_in_messages_are_escaped),
		capture_test(test_a_message_that_is_too_long_is_cut),
		capture_test(test_logging_keeps_errno),
		capture_test(
			test_a_failed_call_is_logged_with_its_arguments_the_reason_and_the_cause),
		capture_test(test_a_failed_call_has_the_usual_cause_when_none_is_named),
		capture_test(test_a_failed_call_is_never_success),
		capture_test(test_level_names_are_read_whatever_their_case),
		capture_test(test_without_a_sink_a_line_goes_to_standard_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
