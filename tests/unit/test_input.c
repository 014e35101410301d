#include "support.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "input.h"

static char line[RS_INPUT_LINE_SIZE + 1];

/* A pipe: what is written to to_input arrives at the input. */
struct piped {
	struct rs_input input;
	int to_input;
};

static int setup(void **state)
{
	static struct piped piped;
	int fds[2];

	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	piped.to_input = fds[1];
	rs_input_open(&piped.input, fds[0]);
	*state = &piped;
	return 0;
}

static int teardown(void **state)
{
	struct piped *piped = *state;

	if (piped->to_input >= 0)
		close(piped->to_input);
	/* The descriptor stays the caller's. */
	assert_int_equal(close(piped->input.fd), 0);
	return 0;
}

static void put(struct piped *piped, const char *text, size_t length)
{
	assert_int_equal(write(piped->to_input, text, length), length);
}

static void put_text(struct piped *piped, const char *text)
{
	put(piped, text, strlen(text));
	rs_input_fill(&piped->input);
}

static void end(struct piped *piped)
{
	close(piped->to_input);
	piped->to_input = -1;
	rs_input_fill(&piped->input);
}

static void assert_line(struct rs_input *input, const char *expected)
{
	assert_true(rs_input_take_line(input, line));
	assert_string_equal(line, expected);
}

static void test_a_line_comes_when_it_is_whole(void **state)
{
	struct piped *piped = *state;

	assert_int_equal(piped->input.kind, RS_INPUT_STREAM);
	assert_true(rs_input_is_open(&piped->input));
	assert_false(rs_input_take_line(&piped->input, line));
	put_text(piped, "hel");
	assert_false(rs_input_take_line(&piped->input, line));
	put_text(piped, "lo\nwor");
	assert_line(&piped->input, "hello");
	assert_false(rs_input_take_line(&piped->input, line));
	put_text(piped, "ld\n");
	assert_line(&piped->input, "world");
}

static void test_several_lines_at_once_come_one_by_one(void **state)
{
	struct piped *piped = *state;

	put_text(piped, "a\n\nb\r\nc");
	assert_line(&piped->input, "a");
	assert_line(&piped->input, "");
	assert_line(&piped->input, "b\r");
	assert_false(rs_input_take_line(&piped->input, line));
}

static void test_the_last_line_needs_no_newline(void **state)
{
	struct piped *piped = *state;

	put_text(piped, "a\nlast");
	assert_line(&piped->input, "a");
	end(piped);
	assert_false(rs_input_is_open(&piped->input));
	assert_line(&piped->input, "last");
	assert_false(rs_input_take_line(&piped->input, line));
}

static void test_the_end_alone_is_no_line(void **state)
{
	struct piped *piped = *state;

	end(piped);
	assert_false(rs_input_is_open(&piped->input));
	assert_false(rs_input_take_line(&piped->input, line));
	rs_input_fill(&piped->input);
	assert_false(rs_input_take_line(&piped->input, line));
}

static void test_a_line_that_is_too_long_comes_in_pieces(void **state)
{
	struct piped *piped = *state;
	char text[2 * RS_INPUT_LINE_SIZE + 10];

	memset(text, 'x', sizeof(text));
	text[sizeof(text) - 1] = '\n';
	put(piped, text, sizeof(text));
	rs_input_fill(&piped->input);
	for (int i = 0; i < 2; i++) {
		/* Full: nothing more is read before a piece was taken. */
		rs_input_fill(&piped->input);
		assert_true(rs_input_take_line(&piped->input, line));
		assert_int_equal(strlen(line), RS_INPUT_LINE_SIZE);
		rs_input_fill(&piped->input);
	}
	assert_line(&piped->input, "xxxxxxxxx");
	put_text(piped, "next\n");
	assert_line(&piped->input, "next");
}

static void test_a_line_of_exactly_the_size_is_whole(void **state)
{
	struct piped *piped = *state;
	char text[RS_INPUT_LINE_SIZE];

	memset(text, 'x', sizeof(text));
	text[sizeof(text) - 1] = '\n';
	put(piped, text, sizeof(text));
	rs_input_fill(&piped->input);
	assert_true(rs_input_take_line(&piped->input, line));
	assert_int_equal(strlen(line), RS_INPUT_LINE_SIZE - 1);
	assert_false(rs_input_take_line(&piped->input, line));
}

static void test_nothing_to_read_yet_is_not_the_end(void **state)
{
	struct piped *piped = *state;

	fcntl(piped->input.fd, F_SETFL, O_NONBLOCK);
	rs_input_fill(&piped->input);
	assert_true(rs_input_is_open(&piped->input));
	put_text(piped, "x\n");
	assert_line(&piped->input, "x");
}

static void test_an_error_counts_as_the_end(void **state)
{
	struct piped *piped = *state;
	struct rs_input input;
	int folder = open("/", O_RDONLY | O_DIRECTORY);

	(void)piped;
	rs_input_open(&input, folder);
	rs_input_fill(&input);
	assert_false(rs_input_is_open(&input));
	close(folder);
}

static void test_the_end_of_dev_null_comes_at_once(void **state)
{
	struct rs_input input;
	int null = open("/dev/null", O_RDONLY);

	(void)state;
	rs_input_open(&input, null);
	assert_int_equal(input.kind, RS_INPUT_FILE);
	assert_true(rs_input_is_open(&input));
	rs_input_fill(&input);
	assert_false(rs_input_is_open(&input));
	assert_false(rs_input_take_line(&input, line));
	close(null);
}

static void test_a_file_can_hold_lines(void **state)
{
	struct rs_input input;
	FILE *file = tmpfile();

	(void)state;
	fputs("one\ntwo", file);
	rewind(file);
	rs_input_open(&input, fileno(file));
	assert_int_equal(input.kind, RS_INPUT_FILE);
	rs_input_fill(&input);
	assert_line(&input, "one");
	rs_input_fill(&input);
	assert_line(&input, "two");
	fclose(file);
}

static void test_a_socket_is_a_stream(void **state)
{
	struct rs_input input;
	int fds[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	rs_input_open(&input, fds[0]);
	assert_int_equal(input.kind, RS_INPUT_STREAM);
	close(fds[0]);
	close(fds[1]);
}

static void test_a_closed_descriptor_is_no_input(void **state)
{
	struct rs_input input;
	int closed = open("/dev/null", O_RDONLY);

	(void)state;
	close(closed);
	rs_input_open(&input, closed);
	assert_int_equal(input.kind, RS_INPUT_NONE);
	assert_false(rs_input_is_open(&input));
	rs_input_fill(&input);
	assert_false(rs_input_take_line(&input, line));
}

/* A new pseudo-terminal; *master and the returned end are for the caller to close. */
static int open_terminal(int *master)
{
	int terminal;

	*master = posix_openpt(O_RDWR | O_NOCTTY);
	if (*master < 0 || grantpt(*master) < 0 || unlockpt(*master) < 0)
		skip();
	terminal = open(ptsname(*master), O_RDWR | O_NOCTTY);
	assert_true(terminal >= 0);
	return terminal;
}

/* Such as a serial console: there is no job control on it. */
static void test_a_terminal_that_is_not_the_session_s_is_read(void **state)
{
	struct rs_input input;
	int master, terminal = open_terminal(&master);

	(void)state;
	rs_input_open(&input, terminal);
	assert_int_equal(input.kind, RS_INPUT_TERMINAL);
	close(terminal);
	close(master);
}

enum { WENT_WELL, CANNOT_TRY, IS_INPUT, IS_READ };

/* In a background group of the terminal's session: 'x' was typed. */
static int look_from_background(int terminal, struct rs_input *opened_before)
{
	struct rs_input input;

	if (setpgid(0, 0) < 0 || signal(SIGTTIN, SIG_IGN) == SIG_ERR)
		return CANNOT_TRY;
	rs_input_open(&input, terminal);
	if (input.kind != RS_INPUT_NONE || rs_input_is_open(&input))
		return IS_INPUT;
	/* And what was in the foreground when it was opened stays quiet as well. */
	rs_input_fill(opened_before);
	return opened_before->used > 0 || rs_input_is_open(opened_before) ? IS_READ : WENT_WELL;
}

static int exit_status_of(pid_t child)
{
	int status;

	if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
		return CANNOT_TRY;
	return WEXITSTATUS(status);
}

/* A session on the terminal, in its foreground, that starts a background job. */
static int run_session(int terminal)
{
	struct rs_input input;
	pid_t job;

	if (setsid() < 0 || ioctl(terminal, TIOCSCTTY, 0) < 0)
		return CANNOT_TRY;
	rs_input_open(&input, terminal);
	if (input.kind != RS_INPUT_TERMINAL)
		return CANNOT_TRY;
	job = fork();
	if (job == 0)
		_exit(look_from_background(terminal, &input));
	return exit_status_of(job);
}

static void test_the_terminal_of_a_background_job_is_no_input(void **state)
{
	int master, terminal = open_terminal(&master);
	pid_t session = fork();

	(void)state;
	if (session == 0)
		_exit(run_session(terminal));
	assert_int_equal(exit_status_of(session), WENT_WELL);
	close(terminal);
	close(master);
}

static void test_only_what_a_person_typed_is_forgotten(void **state)
{
	struct piped *piped = *state;

	put_text(piped, "x\n");
	rs_input_forget_typed(&piped->input);
	assert_line(&piped->input, "x");
	put_text(piped, "y\n");
	piped->input.kind = RS_INPUT_TERMINAL;
	rs_input_forget_typed(&piped->input);
	assert_false(rs_input_take_line(&piped->input, line));
}

#define input_test(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		input_test(test_a_line_comes_when_it_is_whole),
		input_test(test_several_lines_at_once_come_one_by_one),
		input_test(test_the_last_line_needs_no_newline),
		input_test(test_the_end_alone_is_no_line),
		input_test(test_a_line_that_is_too_long_comes_in_pieces),
		input_test(test_a_line_of_exactly_the_size_is_whole),
		input_test(test_nothing_to_read_yet_is_not_the_end),
		input_test(test_an_error_counts_as_the_end),
		input_test(test_the_end_of_dev_null_comes_at_once),
		input_test(test_a_file_can_hold_lines),
		input_test(test_a_socket_is_a_stream),
		input_test(test_a_closed_descriptor_is_no_input),
		input_test(test_a_terminal_that_is_not_the_session_s_is_read),
		input_test(test_a_terminal_that_is_not_the_session_s_is_read),
		input_test(test_the_terminal_of_a_background_job_is_no_input),
		input_test(test_only_what_a_person_typed_is_forgotten),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
