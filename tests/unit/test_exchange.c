#include "support.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "exchange.h"

typedef char line_t[RS_DESCRIPTOR_LINE_SIZE];

/* This side's exchange, with a pipe as its input, and a peer's. */
struct sides {
	struct rs_exchange *exchange;
	struct rs_exchange *peer;
	struct rs_input input;
	struct rs_input no_input;
	FILE *out;
	FILE *peer_out;
	int to_input;
	int cancel_fd;
	line_t collected[4];
	int writer; /* what holds the lock on a file */
};

#define RESPONDER "x_responder"
#define STRANGER  "y_responder"
#define REQUESTER "x_requester"

static const struct rs_exchange_peer responder = { RESPONDER, STRANGER };
static const struct rs_exchange_peer requester = { REQUESTER, NULL };

/* For actions at log lines, which get no argument. */
static struct sides sides;

static int setup(void **state)
{
	int fds[2];

	log_capture();
	temp_create();
	sides = (struct sides){ .no_input.ended = true };
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	sides.to_input = fds[1];
	rs_input_open(&sides.input, fds[0]);
	sides.out = tmpfile();
	sides.peer_out = tmpfile();
	sides.cancel_fd = eventfd(0, EFD_CLOEXEC);
	assert_ok(rs_exchange_create(&responder, &sides.input, sides.out, sides.cancel_fd,
				     &sides.exchange));
	assert_ok(rs_exchange_create(&requester, &sides.no_input, sides.peer_out, -1, &sides.peer));
	*state = &sides;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	rs_exchange_destroy(sides.exchange);
	rs_exchange_destroy(sides.peer);
	rs_exchange_destroy(NULL);
	close(sides.to_input);
	close(sides.input.fd);
	close(sides.cancel_fd);
	fclose(sides.out);
	fclose(sides.peer_out);
	temp_remove();
	rs_log_set_sink(NULL, NULL);
	return 0;
}

static void cancel(void)
{
	uint64_t one = 1;

	assert_int_equal(write(sides.cancel_fd, &one, sizeof(one)), sizeof(one));
}

static void paste(const char *line)
{
	assert_int_equal(write(sides.to_input, line, strlen(line)), strlen(line));
	assert_int_equal(write(sides.to_input, "\n", 1), 1);
}

/* That of the peer's connection with this number; the QP's number is one more. */
static const char *numbered(size_t id)
{
	return peer_connection_line_of(RESPONDER, id, (uint32_t)id + 1);
}

static void put_file(const char *path, const char *text)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static struct rs_exchange_item item(enum rs_descriptor_kind kind, const char *path, size_t count,
				    line_t *lines)
{
	return (struct rs_exchange_item){
		.kind = kind, .path = path, .count = count, .lines = lines
	};
}

#define CONN RS_DESCRIPTOR_CONNECTION
#define MMAP RS_DESCRIPTOR_MMAP

/* What the peer's files are called in the tests. */
#define CONN_PATH temp_path("peer.conn")
#define MMAP_PATH temp_path("peer.mmap")

static enum rs_status collect_conn(unsigned timeout)
{
	struct rs_exchange_item wanted = item(CONN, CONN_PATH, 1, sides.collected);

	return rs_exchange_collect(sides.exchange, &wanted, 1, timeout);
}

/* One look at what is there, without waiting. */
static enum rs_status look(struct rs_exchange_item *items, size_t count)
{
	cancel();
	return rs_exchange_collect(sides.exchange, items, count, 0);
}

static void publish_conn(struct rs_exchange *exchange, const char *path, const char *line)
{
	line_t lines[1];
	struct rs_exchange_item published = item(CONN, path, 1, lines);

	strcpy(lines[0], line);
	assert_ok(rs_exchange_publish(exchange, &published, 1));
}

/* ---- Publish ---- */

static void test_published_lines_are_printed_and_written_to_their_files(void **state)
{
	line_t conn[2], mmap[1];
	struct rs_exchange_item items[] = { item(CONN, temp_path("own.conn"), 2, conn),
					    item(MMAP, temp_path("own.mmap"), 1, mmap) };
	char text[2048] = "", expected[2048];
	FILE *file;

	(void)state;
	strcpy(conn[0], peer_connection_line(1));
	strcpy(conn[1], peer_connection_line(2));
	strcpy(mmap[0], peer_mmap_line(0, 8, 1));
	assert_ok(rs_exchange_publish(sides.exchange, items, 2));
	snprintf(expected, sizeof(expected), "%s\n%s\n%s\n", conn[0], conn[1], mmap[0]);
	rewind(sides.out);
	assert_true(fread(text, 1, sizeof(text) - 1, sides.out) > 0);
	assert_string_equal(text, expected);
	assert_logged("copy this to x_responder");
	file = fopen(items[0].path, "r");
	memset(text, 0, sizeof(text));
	assert_true(fread(text, 1, sizeof(text) - 1, file) > 0);
	fclose(file);
	snprintf(expected, sizeof(expected), "%s\n%s\n", conn[0], conn[1]);
	assert_string_equal(text, expected);
}

static void test_the_files_go_with_the_exchange(void **state)
{
	const char *path = temp_path("own.conn");

	(void)state;
	publish_conn(sides.peer, path, peer_connection_line(1));
	assert_int_equal(access(path, F_OK), 0);
	rs_exchange_destroy(sides.peer);
	sides.peer = NULL;
	assert_int_equal(access(path, F_OK), -1);
}

static void test_a_failed_publish_leaves_no_file_behind(void **state)
{
	line_t lines[1];
	struct rs_exchange_item items[] = { item(CONN, temp_path("own.conn"), 1, lines),
					    item(CONN, temp_path("no/folder"), 1, lines) };

	(void)state;
	strcpy(lines[0], peer_connection_line(1));
	assert_status(rs_exchange_publish(sides.peer, items, 2), RS_ERR_NOT_FOUND);
	rs_exchange_destroy(sides.peer);
	sides.peer = NULL;
	assert_int_equal(access(items[0].path, F_OK), -1);
}

static void test_an_output_that_is_full_is_reported(void **state)
{
	line_t lines[1];
	struct rs_exchange_item published = item(CONN, temp_path("own.conn"), 1, lines);
	FILE *full = fopen("/dev/full", "w");
	struct rs_exchange *exchange;

	(void)state;
	strcpy(lines[0], peer_connection_line(1));
	assert_ok(rs_exchange_create(&responder, &sides.no_input, full, -1, &exchange));
	assert_status(rs_exchange_publish(exchange, &published, 1), RS_ERR_FULL);
	assert_logged("printing the descriptors failed: No space left on device");
	rs_exchange_destroy(exchange);
	fclose(full);
}

/* ---- Collect: pasted lines ---- */

static void test_pasted_lines_are_taken_in_any_order(void **state)
{
	line_t conn[2], mmap[1];
	struct rs_exchange_item items[] = { item(CONN, CONN_PATH, 2, conn),
					    item(MMAP, MMAP_PATH, 1, mmap) };

	(void)state;
	paste(numbered(1));
	paste(peer_mmap_line(0, 8, 1));
	paste(numbered(0));
	assert_ok(rs_exchange_collect(sides.exchange, items, 2, 0));
	assert_string_equal(conn[0], numbered(0));
	assert_string_equal(conn[1], numbered(1));
	assert_string_equal(mmap[0], peer_mmap_line(0, 8, 1));
}

static void test_blank_lines_blanks_and_carriage_returns_do_not_matter(void **state)
{
	char pasted[512];

	(void)state;
	snprintf(pasted, sizeof(pasted), "\n  \n\r\n \t %s  \r", peer_connection_line(1));
	paste(pasted);
	assert_ok(collect_conn(0));
	assert_string_equal(sides.collected[0], peer_connection_line(1));
}

static void test_what_follows_the_last_line_wanted_stays_in_the_input(void **state)
{
	char line[RS_INPUT_LINE_SIZE + 1];

	(void)state;
	paste(peer_connection_line(1));
	paste("for later");
	assert_ok(collect_conn(0));
	assert_true(rs_input_take_line(&sides.input, line));
	assert_string_equal(line, "for later");
}

static void test_a_bad_line_from_a_pipe_ends_the_collecting(void **state)
{
	char cut[RS_DESCRIPTOR_LINE_SIZE];

	(void)state;
	strcpy(cut, peer_connection_line(1));
	cut[strlen(cut) - 20] = '\0';
	paste(cut);
	assert_status(collect_conn(0), RS_ERR_BAD_DESCRIPTOR);
	assert_logged("bad line on standard input, at character");
	assert_logged("was the line cut while copying?");
}

static void test_a_bad_line_from_a_person_is_asked_for_again(void **state)
{
	(void)state;
	sides.input.kind = RS_INPUT_TERMINAL;
	paste("rdma1 conn what?");
	paste(peer_mmap_line(0, 8, 1));
	paste(peer_connection_line(1));
	assert_ok(collect_conn(0));
	assert_string_equal(sides.collected[0], peer_connection_line(1));
	assert_int_equal(log_count("paste it once more"), 2);
}

static void test_the_programs_own_line_is_refused(void **state)
{
	(void)state;
	publish_conn(sides.exchange, temp_path("own.conn"), peer_connection_line(1));
	paste(peer_connection_line(1));
	assert_status(collect_conn(0), RS_ERR_BAD_DESCRIPTOR);
	assert_logged("this is the program's own descriptor: give it that of x_responder");
}

static void test_a_line_of_a_kind_that_is_not_wanted_is_refused(void **state)
{
	(void)state;
	paste(peer_mmap_line(0, 8, 1));
	assert_status(collect_conn(0), RS_ERR_BAD_DESCRIPTOR);
	assert_logged("this \"mmap\" descriptor is of the wrong kind: this program needs none of "
		      "x_responder");
}

#define BEYOND                                                           \
	"this is connection 5, but there are to be 2, numbered from 0: " \
	"is the number of connections the same on both sides?"

static void test_the_line_of_a_connection_that_there_is_not_is_refused(void **state)
{
	struct rs_exchange_item wanted = item(CONN, CONN_PATH, 2, sides.collected);

	(void)state;
	paste(numbered(5));
	assert_status(rs_exchange_collect(sides.exchange, &wanted, 1, 0), RS_ERR_BAD_DESCRIPTOR);
	assert_logged("exchange: error: bad line on standard input, " BEYOND "\n");
}

static void test_an_endless_line_is_refused(void **state)
{
	char text[3000];

	(void)state;
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	paste(text);
	assert_status(collect_conn(0), RS_ERR_BAD_DESCRIPTOR);
	assert_logged("longer than any descriptor");
}

static void test_a_line_pasted_twice_counts_once(void **state)
{
	line_t conn[2], mmap[1];
	struct rs_exchange_item items[] = { item(CONN, CONN_PATH, 2, conn),
					    item(MMAP, MMAP_PATH, 1, mmap) };

	(void)state;
	paste(numbered(0));
	paste(numbered(0));
	paste(numbered(1));
	paste(numbered(1));
	paste(peer_mmap_line(0, 8, 1));
	assert_ok(rs_exchange_collect(sides.exchange, items, 2, 0));
	assert_string_equal(conn[0], numbered(0));
	assert_string_equal(conn[1], numbered(1));
}

static void test_of_two_lines_pasted_for_a_connection_the_first_counts(void **state)
{
	struct rs_exchange_item wanted = item(CONN, CONN_PATH, 2, sides.collected);

	(void)state;
	paste(numbered(1));
	paste(peer_connection_line_of(RESPONDER, 1, 77));
	paste(numbered(0));
	assert_ok(rs_exchange_collect(sides.exchange, &wanted, 1, 0));
	assert_string_equal(sides.collected[0], numbered(0));
	assert_string_equal(sides.collected[1], numbered(1));
}

/* What an earlier collection left there does not count. */
static void test_lines_are_collected_anew(void **state)
{
	struct rs_exchange_item wanted = item(CONN, CONN_PATH, 2, sides.collected);

	(void)state;
	strcpy(sides.collected[1], peer_connection_line_of(RESPONDER, 1, 77));
	paste(numbered(0));
	paste(numbered(1));
	assert_ok(rs_exchange_collect(sides.exchange, &wanted, 1, 0));
	assert_string_equal(sides.collected[1], numbered(1));
}

static void paste_conn(void)
{
	paste(peer_connection_line(7));
}

static void test_a_line_that_comes_while_waiting_is_taken(void **state)
{
	(void)state;
	log_when("waiting for \"conn\"", paste_conn);
	assert_ok(collect_conn(0));
	assert_string_equal(sides.collected[0], peer_connection_line(7));
}

/* ---- Collect: whose lines ---- */

static void test_the_line_of_the_program_that_belongs_here_is_taken(void **state)
{
	(void)state;
	paste(numbered(0));
	assert_ok(collect_conn(0));
	assert_string_equal(sides.collected[0], numbered(0));
	assert_int_equal(log_count("warning: "), 0);
}

#define OF_ANOTHER "this is the descriptor of z_requester, but this program works with x_responder"

static void test_the_line_of_a_program_that_does_not_belong_here_is_refused(void **state)
{
	(void)state;
	paste(peer_connection_line_of("z_requester", 0, 1));
	assert_status(collect_conn(0), RS_ERR_BAD_DESCRIPTOR);
	assert_logged("exchange: error: bad line on standard input, " OF_ANOTHER "\n");
}

static void test_a_name_that_only_begins_like_the_peer_s_is_refused(void **state)
{
	(void)state;
	paste(peer_connection_line_of(RESPONDER "2", 0, 1));
	assert_status(collect_conn(0), RS_ERR_BAD_DESCRIPTOR);
	assert_logged("this is the descriptor of x_responder2, but this program works with");
}

#define STRANGER_WARNING                                                                       \
	"exchange: warning: the peer is y_responder, which belongs to another pair than this " \
	"program: connecting all the same, but what arrives will not be what is expected\n"

static void test_the_lines_of_a_stranger_are_taken_with_one_warning(void **state)
{
	struct rs_exchange_item wanted = item(CONN, CONN_PATH, 2, sides.collected);

	(void)state;
	paste(peer_connection_line_of(STRANGER, 0, 1));
	paste(peer_connection_line_of(STRANGER, 1, 2));
	assert_ok(rs_exchange_collect(sides.exchange, &wanted, 1, 0));
	assert_string_equal(sides.collected[1], peer_connection_line_of(STRANGER, 1, 2));
	assert_int_equal(log_count(STRANGER_WARNING), 1);
}

static void test_the_file_of_a_stranger_is_taken_with_one_warning(void **state)
{
	(void)state;
	put_file(CONN_PATH, peer_connection_line_of(STRANGER, 0, 1));
	assert_ok(collect_conn(0));
	assert_string_equal(sides.collected[0], peer_connection_line_of(STRANGER, 0, 1));
	assert_int_equal(log_count(STRANGER_WARNING), 1);
}

/* Nothing is connected with it. */
static void test_there_is_no_warning_of_a_stranger_whose_line_is_not_taken(void **state)
{
	struct rs_exchange_item wanted = item(CONN, CONN_PATH, 2, sides.collected);

	(void)state;
	paste(numbered(0));
	paste(peer_connection_line_of(STRANGER, 0, 1));
	paste(numbered(1));
	assert_ok(rs_exchange_collect(sides.exchange, &wanted, 1, 0));
	assert_int_equal(log_count("warning: "), 0);
}

static void test_a_program_without_strangers_takes_none(void **state)
{
	struct rs_exchange_item wanted = item(CONN, CONN_PATH, 1, sides.collected);

	(void)state;
	put_file(CONN_PATH, peer_connection_line_of(STRANGER, 0, 1));
	assert_status(rs_exchange_collect(sides.peer, &wanted, 1, 0), RS_ERR_BAD_DESCRIPTOR);
	assert_logged("this is the descriptor of y_responder, but this program works with "
		      "x_requester\n");
}

/* It says more than whose it is. */
static void test_the_programs_own_line_is_called_that_whatever_its_name(void **state)
{
	line_t own;

	(void)state;
	strcpy(own, peer_connection_line_of(REQUESTER, 0, 1));
	publish_conn(sides.exchange, temp_path("own.conn"), own);
	paste(own);
	assert_status(collect_conn(0), RS_ERR_BAD_DESCRIPTOR);
	assert_logged("bad line on standard input, this is the program's own descriptor: give it "
		      "that of x_responder\n");
}

/* ---- Collect: files ---- */

static void test_the_file_of_a_running_peer_is_taken(void **state)
{
	struct rs_exchange_item wanted = item(CONN, CONN_PATH, 1, sides.collected);

	(void)state;
	wanted.only_live = true;
	publish_conn(sides.peer, CONN_PATH, peer_connection_line(3));
	assert_ok(rs_exchange_collect(sides.exchange, &wanted, 1, 0));
	assert_string_equal(sides.collected[0], peer_connection_line(3));
}

static void test_a_file_of_an_earlier_run_at_a_default_path_is_ignored(void **state)
{
	struct rs_exchange_item wanted = item(CONN, CONN_PATH, 1, sides.collected);

	(void)state;
	wanted.only_live = true;
	put_file(CONN_PATH, peer_connection_line(3));
	assert_status(look(&wanted, 1), RS_ERR_INTERRUPTED);
	assert_logged("ignoring");
	assert_logged("no running program holds it");
}

static void test_a_file_at_a_path_that_the_user_named_is_taken(void **state)
{
	(void)state;
	put_file(CONN_PATH, peer_connection_line(3));
	assert_ok(collect_conn(0));
	assert_string_equal(sides.collected[0], peer_connection_line(3));
}

static void publish_at_conn_path(void)
{
	publish_conn(sides.peer, CONN_PATH, peer_connection_line(3));
}

static void test_a_file_that_replaces_that_of_an_earlier_run_is_taken(void **state)
{
	struct rs_exchange_item wanted = item(CONN, CONN_PATH, 1, sides.collected);

	(void)state;
	wanted.only_live = true;
	put_file(CONN_PATH, peer_connection_line(99));
	log_when("waiting for \"conn\"", publish_at_conn_path);
	assert_ok(rs_exchange_collect(sides.exchange, &wanted, 1, 0));
	assert_string_equal(sides.collected[0], peer_connection_line(3));
	assert_int_equal(log_count("ignoring"), 1);
}

static void test_the_end_of_the_input_leaves_the_files(void **state)
{
	(void)state;
	close(sides.to_input);
	sides.to_input = open("/dev/null", O_WRONLY);
	log_when("waiting for \"conn\"", publish_at_conn_path);
	assert_ok(collect_conn(0));
	assert_false(rs_input_is_open(&sides.input));
}

static void test_lines_and_files_complete_each_other(void **state)
{
	line_t conn[1], mmap[1];
	struct rs_exchange_item items[] = { item(CONN, CONN_PATH, 1, conn),
					    item(MMAP, MMAP_PATH, 1, mmap) };

	(void)state;
	paste(peer_mmap_line(0, 8, 1));
	publish_at_conn_path();
	assert_ok(rs_exchange_collect(sides.exchange, items, 2, 0));
	assert_string_equal(conn[0], peer_connection_line(3));
	assert_string_equal(mmap[0], peer_mmap_line(0, 8, 1));
}

static void test_files_may_have_other_line_ends_and_blank_lines(void **state)
{
	char text[1024];
	struct rs_exchange_item wanted = item(CONN, CONN_PATH, 2, sides.collected);
	line_t first;

	(void)state;
	strcpy(first, numbered(0));
	snprintf(text, sizeof(text), "\r\n%s\r\n\r\n  %s", first, numbered(1));
	put_file(CONN_PATH, text);
	assert_ok(rs_exchange_collect(sides.exchange, &wanted, 1, 0));
	assert_string_equal(sides.collected[0], first);
	assert_string_equal(sides.collected[1], numbered(1));
}

/* The text of a file with two lines. Valid until the next call. */
static const char *two_lines(const char *first, const char *second)
{
	static char text[2 * RS_DESCRIPTOR_LINE_SIZE + 1];

	snprintf(text, sizeof(text), "%s\n%s\n", first, second);
	return text;
}

static void test_the_lines_of_a_file_are_put_in_order(void **state)
{
	struct rs_exchange_item wanted = item(CONN, CONN_PATH, 2, sides.collected);
	line_t second;

	(void)state;
	strcpy(second, numbered(1));
	put_file(CONN_PATH, two_lines(second, numbered(0)));
	assert_ok(rs_exchange_collect(sides.exchange, &wanted, 1, 0));
	assert_string_equal(sides.collected[0], numbered(0));
	assert_string_equal(sides.collected[1], second);
}

static void test_a_file_that_is_no_file_is_refused_at_a_named_path(void **state)
{
	(void)state;
	assert_int_equal(symlink("/dev/null", CONN_PATH), 0);
	assert_status(collect_conn(0), RS_ERR_NOT_PERMITTED);
	assert_logged("it is a symbolic link");
	unlink(CONN_PATH);
	mkdir(CONN_PATH, 0700);
	assert_status(collect_conn(0), RS_ERR_NOT_PERMITTED);
	assert_logged("it is a directory");
}

static long elapsed_ms(const struct timespec *since)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (now.tv_sec - since->tv_sec) * 1000 + (now.tv_nsec - since->tv_nsec) / 1000000;
}

static void cut_last(char *text, size_t count)
{
	text[strlen(text) - count] = '\0';
}

static void test_a_cut_file_gets_time_to_be_finished_then_it_is_an_error(void **state)
{
	struct timespec start;
	line_t text;

	(void)state;
	strcpy(text, peer_connection_line(3));
	cut_last(text, 4);
	put_file(CONN_PATH, text);
	clock_gettime(CLOCK_MONOTONIC, &start);
	assert_status(collect_conn(0), RS_ERR_BAD_DESCRIPTOR);
	assert_in_range(elapsed_ms(&start), 1000, 20000);
	assert_logged("bad descriptor file");
	assert_logged("CRC mismatch");
}

static void finish_file(void)
{
	line_t text;
	FILE *file = fopen(CONN_PATH, "a");

	strcpy(text, peer_connection_line(3));
	fputs(text + strlen(text) - 4, file);
	fclose(file);
}

static void test_a_file_that_is_finished_in_that_time_is_taken(void **state)
{
	line_t text;

	(void)state;
	strcpy(text, peer_connection_line(3));
	cut_last(text, 4);
	put_file(CONN_PATH, text);
	log_when("waiting for \"conn\"", finish_file);
	assert_ok(collect_conn(0));
	assert_string_equal(sides.collected[0], peer_connection_line(3));
	assert_int_equal(log_count("error: "), 0);
}

static void paste_second(void)
{
	paste(numbered(1));
}

/* Whatever is bad about it, a line that somebody pastes in the meantime is as good. */
static void test_a_bad_file_does_not_touch_lines_that_were_pasted(void **state)
{
	struct rs_exchange_item wanted = item(CONN, CONN_PATH, 2, sides.collected);
	line_t good;

	(void)state;
	strcpy(good, numbered(0));
	put_file(CONN_PATH, two_lines(peer_connection_line(50), "rdma1 conn na"));
	paste(good);
	/* The first look finds the pasted line and the bad file, the second one the rest. */
	log_when("waiting for \"conn\"", paste_second);
	assert_ok(rs_exchange_collect(sides.exchange, &wanted, 1, 0));
	assert_string_equal(sides.collected[0], good);
	assert_string_equal(sides.collected[1], numbered(1));
}

/* What is said of a file with this text when its time is over; remark: behind that. */
static void assert_bad_file_of(enum rs_descriptor_kind kind, const char *text, size_t count,
			       const char *message, const char *remark)
{
	struct rs_exchange_item wanted = item(kind, CONN_PATH, count, sides.collected);
	char expected[1024];

	put_file(CONN_PATH, text);
	assert_status(rs_exchange_collect(sides.exchange, &wanted, 1, 0), RS_ERR_BAD_DESCRIPTOR);
	snprintf(expected, sizeof(expected), "exchange: error: bad descriptor file %s: %s%s\n",
		 CONN_PATH, message, remark);
	assert_logged(expected);
}

static void assert_bad_file(const char *text, size_t count, const char *message)
{
	assert_bad_file_of(CONN, text, count, message, "");
}

static void test_an_empty_file_is_bad(void **state)
{
	(void)state;
	assert_bad_file("\n", 1, "it is empty");
}

static void test_a_file_of_endless_text_is_bad(void **state)
{
	char text[4000];

	(void)state;
	memset(text, '\n', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	assert_bad_file(text, 1, "it is no text of a few lines, or cannot be read");
}

static void test_a_file_with_too_few_lines_is_bad(void **state)
{
	(void)state;
	assert_bad_file(numbered(1), 3,
			"it has fewer lines than the number of connections: 1 of 3");
}

static void test_a_file_with_too_many_lines_is_bad(void **state)
{
	line_t first;

	(void)state;
	strcpy(first, peer_mmap_line(0, 8, 1));
	assert_bad_file_of(MMAP, two_lines(first, peer_mmap_line(0, 8, 2)), 1,
			   "it has more \"mmap\" lines than the 1 wanted", "");
}

static void test_a_file_with_a_connection_that_there_is_not_is_bad(void **state)
{
	line_t first;

	(void)state;
	strcpy(first, numbered(0));
	assert_bad_file(two_lines(first, numbered(5)), 2, BEYOND);
}

static void test_a_file_with_the_same_line_twice_is_bad(void **state)
{
	const char *line = peer_mmap_line(0, 8, 1);

	(void)state;
	assert_bad_file_of(MMAP, two_lines(line, line), 2, "it has the same \"mmap\" line twice",
			   "");
}

static void test_a_file_with_a_connection_twice_is_bad(void **state)
{
	line_t first;

	(void)state;
	strcpy(first, numbered(1));
	assert_bad_file(two_lines(first, peer_connection_line_of(RESPONDER, 1, 77)), 2,
			"it has connection 1 twice");
	assert_bad_file(two_lines(first, first), 2, "it has connection 1 twice");
}

static void test_a_file_with_lines_of_another_kind_is_bad(void **state)
{
	(void)state;
	assert_bad_file(peer_mmap_line(0, 8, 1), 1,
			"it has a \"mmap\" descriptor, which is of the wrong kind: wanted is "
			"\"conn\"");
}

static void test_a_file_with_the_programs_own_line_is_bad(void **state)
{
	(void)state;
	publish_conn(sides.exchange, temp_path("own.conn"), peer_connection_line(1));
	assert_bad_file(peer_connection_line(1), 1,
			"this is the program's own descriptor: give it that of x_responder");
}

static void test_a_file_of_a_program_that_does_not_belong_here_is_bad(void **state)
{
	(void)state;
	assert_bad_file(peer_connection_line_of("z_requester", 0, 1), 1, OF_ANOTHER);
}

static void remove_conn_file(void)
{
	unlink(CONN_PATH);
}

static void test_a_bad_file_that_goes_away_is_bad_all_the_same(void **state)
{
	(void)state;
	log_when("waiting for \"conn\"", remove_conn_file);
	assert_bad_file_of(CONN, peer_connection_line_of("z_requester", 0, 1), 1, OF_ANOTHER,
			   " (it is gone now)");
}

static void end_writer(void)
{
	close(sides.writer);
}

/* It counts no more, which is as good as gone. */
static void test_a_bad_file_whose_writer_ends_is_bad_all_the_same(void **state)
{
	struct rs_exchange_item wanted = item(CONN, CONN_PATH, 1, sides.collected);

	(void)state;
	wanted.only_live = true;
	put_file(CONN_PATH, peer_connection_line_of("z_requester", 0, 1));
	sides.writer = open(CONN_PATH, O_RDWR | O_CLOEXEC);
	assert_int_equal(flock(sides.writer, LOCK_EX), 0);
	log_when("waiting for \"conn\"", end_writer);
	assert_status(rs_exchange_collect(sides.exchange, &wanted, 1, 0), RS_ERR_BAD_DESCRIPTOR);
	assert_logged(": " OF_ANOTHER " (it is gone now)\n");
}

static void replace_conn_file(void)
{
	unlink(CONN_PATH);
	put_file(CONN_PATH, numbered(0));
}

static void test_a_good_file_in_the_place_of_a_bad_one_is_taken(void **state)
{
	(void)state;
	put_file(CONN_PATH, peer_connection_line_of("z_requester", 0, 1));
	log_when("waiting for \"conn\"", replace_conn_file);
	assert_ok(collect_conn(0));
	assert_string_equal(sides.collected[0], numbered(0));
	assert_int_equal(log_count("error: "), 0);
}

/* ---- Many lines ---- */

#define MANY 256

static line_t many_lines[MANY];

/* The last one first. */
static void write_many(FILE *file)
{
	for (size_t i = MANY; i-- > 0;)
		fprintf(file, "%s\n", numbered(i));
	fclose(file);
}

/* In a process of its own, since what a pipe or a terminal holds is limited. */
static pid_t paste_many(void)
{
	pid_t writer = fork();

	assert_true(writer >= 0);
	if (writer > 0)
		return writer;
	write_many(fdopen(sides.to_input, "w"));
	_exit(0);
}

static void assert_many_are_collected(void)
{
	struct rs_exchange_item wanted = item(CONN, CONN_PATH, MANY, many_lines);

	assert_ok(rs_exchange_collect(sides.exchange, &wanted, 1, 60));
	for (size_t i = 0; i < MANY; i++)
		assert_string_equal(many_lines[i], numbered(i));
}

static void test_many_lines_of_a_file_are_taken(void **state)
{
	(void)state;
	write_many(fopen(CONN_PATH, "w"));
	assert_many_are_collected();
}

static void test_many_lines_of_a_pipe_are_taken(void **state)
{
	pid_t writer = paste_many();

	(void)state;
	assert_many_are_collected();
	assert_int_equal(waitpid(writer, NULL, 0), writer);
}

/* As it is for a person, except that nobody reads what it would echo. */
static void put_terminal_in_place_of_pipe(void)
{
	int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC), terminal;
	struct termios modes;

	if (master < 0 || grantpt(master) < 0 || unlockpt(master) < 0)
		skip();
	terminal = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
	assert_int_equal(tcgetattr(terminal, &modes), 0);
	modes.c_lflag &= ~(tcflag_t)ECHO;
	assert_int_equal(tcsetattr(terminal, TCSANOW, &modes), 0);
	close(sides.to_input);
	close(sides.input.fd);
	sides.to_input = master;
	rs_input_open(&sides.input, terminal);
	assert_int_equal(sides.input.kind, RS_INPUT_TERMINAL);
}

static void test_many_lines_of_a_terminal_are_taken(void **state)
{
	pid_t writer;

	(void)state;
	put_terminal_in_place_of_pipe();
	writer = paste_many();
	assert_many_are_collected();
	assert_int_equal(waitpid(writer, NULL, 0), writer);
}

/* ---- Ends ---- */

static void test_a_timeout_names_what_is_missing(void **state)
{
	line_t conn[1], mmap[1];
	struct rs_exchange_item items[] = { item(CONN, CONN_PATH, 1, conn),
					    item(MMAP, MMAP_PATH, 1, mmap) };
	struct timespec start;
	char expected[512];

	(void)state;
	clock_gettime(CLOCK_MONOTONIC, &start);
	assert_status(rs_exchange_collect(sides.exchange, items, 2, 1), RS_ERR_TIMED_OUT);
	assert_in_range(elapsed_ms(&start), 1000, 20000);
	snprintf(expected, sizeof(expected),
		 "no descriptor \"conn\" (%s) and \"mmap\" (%s) of x_responder came within 1 s",
		 CONN_PATH, MMAP_PATH);
	assert_logged(expected);
}

static void test_a_timeout_does_not_name_what_has_come(void **state)
{
	line_t conn[1], mmap[1];
	struct rs_exchange_item items[] = { item(CONN, CONN_PATH, 1, conn),
					    item(MMAP, MMAP_PATH, 1, mmap) };
	char expected[512];

	(void)state;
	paste(peer_connection_line(1));
	assert_status(rs_exchange_collect(sides.exchange, items, 2, 1), RS_ERR_TIMED_OUT);
	snprintf(expected, sizeof(expected), "no descriptor \"mmap\" (%s) of x_responder",
		 MMAP_PATH);
	assert_logged(expected);
}

static void paste_first(void)
{
	paste(numbered(0));
}

static void test_it_is_said_how_many_of_several_lines_are_there(void **state)
{
	struct rs_exchange_item wanted = item(CONN, CONN_PATH, 2, sides.collected);
	char expected[512];

	(void)state;
	paste(numbered(1));
	log_when("1 of 2 so far", paste_first);
	assert_ok(rs_exchange_collect(sides.exchange, &wanted, 1, 0));
	snprintf(
		expected, sizeof(expected),
		"exchange: waiting for \"conn\" (1 of 2 so far; %s) of x_responder: paste it here, or "
		"let it appear in that file\n",
		CONN_PATH);
	assert_logged(expected);
	assert_int_equal(log_count("waiting for"), 2);
}

static void test_a_timeout_says_how_many_of_several_lines_are_there(void **state)
{
	struct rs_exchange_item wanted = item(CONN, CONN_PATH, 2, sides.collected);
	char expected[512];

	(void)state;
	paste(numbered(1));
	assert_status(rs_exchange_collect(sides.exchange, &wanted, 1, 1), RS_ERR_TIMED_OUT);
	snprintf(expected, sizeof(expected),
		 "no descriptor \"conn\" (1 of 2 so far; %s) of x_responder came within 1 s: is it "
		 "running?\n",
		 CONN_PATH);
	assert_logged(expected);
}

static void test_the_cancel_descriptor_ends_the_waiting_and_is_not_read(void **state)
{
	uint64_t value;

	(void)state;
	log_when("waiting for \"conn\"", cancel);
	assert_status(collect_conn(0), RS_ERR_INTERRUPTED);
	assert_int_equal(read(sides.cancel_fd, &value, sizeof(value)), sizeof(value));
}

static void test_a_person_is_told_to_paste_and_others_are_not(void **state)
{
	struct rs_exchange_item wanted = item(CONN, CONN_PATH, 1, sides.collected);

	(void)state;
	assert_status(look(&wanted, 1), RS_ERR_INTERRUPTED);
	assert_logged("paste it here, or let it appear in that file");
	log_forget();
	sides.input.ended = true;
	assert_status(look(&wanted, 1), RS_ERR_INTERRUPTED);
	assert_logged(": let it appear in that file");
}

static void test_several_collections_follow_each_other(void **state)
{
	(void)state;
	paste(peer_connection_line(1));
	paste(peer_connection_line(2));
	assert_ok(collect_conn(0));
	assert_string_equal(sides.collected[0], peer_connection_line(1));
	assert_ok(collect_conn(0));
	assert_string_equal(sides.collected[0], peer_connection_line(2));
}

#define exchange_test(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		exchange_test(test_published_lines_are_printed_and_written_to_their_files),
		exchange_test(test_the_files_go_with_the_exchange),
		exchange_test(test_a_failed_publish_leaves_no_file_behind),
		exchange_test(test_an_output_that_is_full_is_reported),
		exchange_test(test_pasted_lines_are_taken_in_any_order),
		exchange_test(test_blank_lines_blanks_and_carriage_returns_do_not_matter),
		exchange_test(test_what_follows_the_last_line_wanted_stays_in_the_input),
		exchange_test(test_a_bad_line_from_a_pipe_ends_the_collecting),
		exchange_test(test_a_bad_line_from_a_person_is_asked_for_again),
		exchange_test(test_the_programs_own_line_is_refused),
		exchange_test(test_a_line_of_a_kind_that_is_not_wanted_is_refused),
		exchange_test(test_the_line_of_a_connection_that_there_is_not_is_refused),
		exchange_test(test_an_endless_line_is_refused),
		exchange_test(test_a_line_pasted_twice_counts_once),
		exchange_test(test_of_two_lines_pasted_for_a_connection_the_first_counts),
		exchange_test(test_lines_are_collected_anew),
		exchange_test(test_a_line_that_comes_while_waiting_is_taken),
		exchange_test(test_the_line_of_the_program_that_belongs_here_is_taken),
		exchange_test(test_the_line_of_a_program_that_does_not_belong_here_is_refused),
		exchange_test(test_a_name_that_only_begins_like_the_peer_s_is_refused),
		exchange_test(test_the_lines_of_a_stranger_are_taken_with_one_warning),
		exchange_test(test_the_file_of_a_stranger_is_taken_with_one_warning),
		exchange_test(test_there_is_no_warning_of_a_stranger_whose_line_is_not_taken),
		exchange_test(test_a_program_without_strangers_takes_none),
		exchange_test(test_the_programs_own_line_is_called_that_whatever_its_name),
		exchange_test(test_the_file_of_a_running_peer_is_taken),
		exchange_test(test_a_file_of_an_earlier_run_at_a_default_path_is_ignored),
		exchange_test(test_a_file_at_a_path_that_the_user_named_is_taken),
		exchange_test(test_a_file_that_replaces_that_of_an_earlier_run_is_taken),
		exchange_test(test_the_end_of_the_input_leaves_the_files),
		exchange_test(test_lines_and_files_complete_each_other),
		exchange_test(test_files_may_have_other_line_ends_and_blank_lines),
		exchange_test(test_the_lines_of_a_file_are_put_in_order),
		exchange_test(test_a_file_that_is_no_file_is_refused_at_a_named_path),
		exchange_test(test_a_cut_file_gets_time_to_be_finished_then_it_is_an_error),
		exchange_test(test_a_file_that_is_finished_in_that_time_is_taken),
		exchange_test(test_a_bad_file_does_not_touch_lines_that_were_pasted),
		exchange_test(test_an_empty_file_is_bad),
		exchange_test(test_a_file_of_endless_text_is_bad),
		exchange_test(test_a_file_with_too_few_lines_is_bad),
		exchange_test(test_a_file_with_too_many_lines_is_bad),
		exchange_test(test_a_file_with_a_connection_that_there_is_not_is_bad),
		exchange_test(test_a_file_with_the_same_line_twice_is_bad),
		exchange_test(test_a_file_with_a_connection_twice_is_bad),
		exchange_test(test_a_file_with_lines_of_another_kind_is_bad),
		exchange_test(test_a_file_with_the_programs_own_line_is_bad),
		exchange_test(test_a_file_of_a_program_that_does_not_belong_here_is_bad),
		exchange_test(test_a_bad_file_that_goes_away_is_bad_all_the_same),
		exchange_test(test_a_bad_file_whose_writer_ends_is_bad_all_the_same),
		exchange_test(test_a_good_file_in_the_place_of_a_bad_one_is_taken),
		exchange_test(test_many_lines_of_a_file_are_taken),
		exchange_test(test_many_lines_of_a_pipe_are_taken),
		exchange_test(test_many_lines_of_a_terminal_are_taken),
		exchange_test(test_a_timeout_names_what_is_missing),
		exchange_test(test_a_timeout_does_not_name_what_has_come),
		exchange_test(test_it_is_said_how_many_of_several_lines_are_there),
		exchange_test(test_a_timeout_says_how_many_of_several_lines_are_there),
		exchange_test(test_the_cancel_descriptor_ends_the_waiting_and_is_not_read),
		exchange_test(test_a_person_is_told_to_paste_and_others_are_not),
		exchange_test(test_several_collections_follow_each_other),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
