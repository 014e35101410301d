#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../../uroce/core/counters.h"
#include "../../../uroce/core/log.h"

static char output[8192];

/*
 * What another process writes to standard error: UROCE_LOG is read once a process. name: a variable
 * of the environment; value: NULL for not set.
 */
static const char *output_of(void (*body)(void), const char *name, const char *value)
{
	size_t used = 0;
	ssize_t count;
	int fds[2], status;
	pid_t pid;

	assert_int_equal(pipe(fds), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		dup2(fds[1], STDERR_FILENO);
		close(fds[0]);
		close(fds[1]);
		unsetenv(name);
		if (value)
			setenv(name, value, 1);
		body();
		_exit(0);
	}
	close(fds[1]);
	while ((count = read(fds[0], output + used, sizeof(output) - 1 - used)) > 0)
		used += (size_t)count;
	output[used] = '\0';
	close(fds[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	return output;
}

/* ---- Log ---- */

static void log_at_all_levels(void)
{
	ur_log(UR_LOG_ERROR, "e %d", 1);
	ur_log(UR_LOG_WARNING, "w");
	ur_log(UR_LOG_INFO, "i");
	ur_log(UR_LOG_DEBUG, "d");
}

static void test_errors_only_are_written_by_default(void **state)
{
	(void)state;
	assert_string_equal(output_of(log_at_all_levels, "UROCE_LOG", NULL), "uroce: e 1\n");
	assert_string_equal(output_of(log_at_all_levels, "UROCE_LOG", ""), "uroce: e 1\n");
}

static void test_the_level_is_read_from_the_environment(void **state)
{
	(void)state;
	assert_string_equal(output_of(log_at_all_levels, "UROCE_LOG", "error"), "uroce: e 1\n");
	assert_string_equal(output_of(log_at_all_levels, "UROCE_LOG", "warning"),
			    "uroce: e 1\nuroce: w\n");
	assert_string_equal(output_of(log_at_all_levels, "UROCE_LOG", "info"),
			    "uroce: e 1\nuroce: w\nuroce: i\n");
	assert_string_equal(output_of(log_at_all_levels, "UROCE_LOG", "debug"),
			    "uroce: e 1\nuroce: w\nuroce: i\nuroce: d\n");
}

static void test_a_level_that_does_not_exist_is_reported_and_is_error(void **state)
{
	(void)state;
	assert_string_equal(
		output_of(log_at_all_levels, "UROCE_LOG", "lo\nud"),
		"uroce: UROCE_LOG: \"lo\\x0aud\" is not one of error, warning, info, debug\nuroce: e 1\n");
}

static void ask_for_levels(void)
{
	if (ur_log_enabled(UR_LOG_ERROR) && ur_log_enabled(UR_LOG_INFO) &&
	    !ur_log_enabled(UR_LOG_DEBUG))
		ur_log(UR_LOG_ERROR, "right");
}

static void test_levels_that_are_written_can_be_asked_for(void **state)
{
	(void)state;
	assert_string_equal(output_of(ask_for_levels, "UROCE_LOG", "info"), "uroce: right\n");
}

static void log_control_characters(void)
{
	ur_log(UR_LOG_ERROR, "%s", "a\nb\x1b[0m\xff~");
}

static void test_control_characters_are_escaped(void **state)
{
	(void)state;
	assert_string_equal(output_of(log_control_characters, "UROCE_LOG", NULL),
			    "uroce: a\\x0ab\\x1b[0m\\xff~\n");
}

static void log_long_messages(void)
{
	char text[5000];

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	ur_log(UR_LOG_ERROR, "%s", text);
	memset(text, '\n', sizeof(text) - 1);
	ur_log(UR_LOG_ERROR, "%s", text);
}

static void test_a_message_that_is_too_long_is_cut(void **state)
{
	const char *lines = output_of(log_long_messages, "UROCE_LOG", NULL);
	const char *second = strchr(lines, '\n') + 1;

	(void)state;
	assert_in_range(second - lines, 500, 1024);
	assert_in_range(strlen(second), 500, 1024);
	assert_int_equal(strchr(second, '\n') - second, strlen(second) - 1);
}

static void close_and_log(void)
{
	close(STDERR_FILENO);
	errno = EDOM;
	ur_log(UR_LOG_ERROR, "x");
	_exit(errno == EDOM ? 0 : 1);
}

static void test_logging_keeps_errno(void **state)
{
	(void)state;
	output_of(close_and_log, "UROCE_LOG", NULL);
}

/* ---- Counters ---- */

static void print_counters(void)
{
	const struct ur_counters counters = { .tx_packets = 12, .fault_delayed = UINT64_MAX };

	ur_counters_print("uroce_lo", &counters);
}

static void test_counters_that_are_not_zero_are_printed_on_request(void **state)
{
	static const char expected[] =
		"uroce_lo: packets sent: 12\nuroce_lo: faults: packets delayed: 18446744073709551615\n";

	(void)state;
	assert_string_equal(output_of(print_counters, "UROCE_COUNTERS", "1"), expected);
	assert_string_equal(output_of(print_counters, "UROCE_COUNTERS", "yes"), expected);
}

static void test_counters_are_not_printed_without_request(void **state)
{
	(void)state;
	assert_string_equal(output_of(print_counters, "UROCE_COUNTERS", NULL), "");
	assert_string_equal(output_of(print_counters, "UROCE_COUNTERS", ""), "");
	assert_string_equal(output_of(print_counters, "UROCE_COUNTERS", "0"), "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_errors_only_are_written_by_default),
		cmocka_unit_test(test_the_level_is_read_from_the_environment),
		cmocka_unit_test(test_a_level_that_does_not_exist_is_reported_and_is_error),
		cmocka_unit_test(test_levels_that_are_written_can_be_asked_for),
		cmocka_unit_test(test_control_characters_are_escaped),
		cmocka_unit_test(test_a_message_that_is_too_long_is_cut),
		cmocka_unit_test(test_logging_keeps_errno),
		cmocka_unit_test(test_counters_that_are_not_zero_are_printed_on_request),
		cmocka_unit_test(test_counters_are_not_printed_without_request),
	};

	return cmocka_run_group_tests_name("report", tests, NULL, NULL);
}
