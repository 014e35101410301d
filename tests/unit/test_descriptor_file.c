#include "support.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "descriptor_file.h"

#define STRANGER 65534

static const char lines[2][RS_DESCRIPTOR_LINE_SIZE] = { "first line", "second" };

static int setup(void **state)
{
	(void)state;
	log_capture();
	temp_create();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	rs_log_set_sink(NULL, NULL);
	temp_remove();
	return 0;
}

static struct rs_descriptor_file *write_file(const char *path)
{
	struct rs_descriptor_file *file;

	assert_ok(rs_descriptor_file_write(path, lines, 2, &file));
	return file;
}

static void put_file(const char *path, const char *text, size_t length)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	assert_int_equal(fwrite(text, 1, length, file), length);
	fclose(file);
}

/* Reads without a limit that matters; the text lies in a static buffer. */
static enum rs_status read_file(const char *path, bool only_live, const char **text_or_fault)
{
	static char copy[1024];
	struct stat found;
	const char *fault = "";
	char *text;
	enum rs_status status =
		rs_descriptor_file_read(path, only_live, sizeof(copy) - 1, &text, &found, &fault);

	*text_or_fault = fault;
	if (status != RS_OK)
		return status;
	strcpy(copy, text);
	free(text);
	*text_or_fault = copy;
	return status;
}

static void assert_fault(const char *path, bool only_live, const char *expected)
{
	const char *fault;

	assert_status(read_file(path, only_live, &fault), RS_ERR_NOT_PERMITTED);
	assert_non_null(strstr(fault, expected));
}

static unsigned files_in_folder(void)
{
	char command[300], count[16] = "";
	FILE *pipe;

	snprintf(command, sizeof(command), "ls -A '%s' | wc -l", temp_path(""));
	pipe = popen(command, "r");
	assert_non_null(pipe);
	assert_non_null(fgets(count, sizeof(count), pipe));
	pclose(pipe);
	return (unsigned)atoi(count);
}

static void test_a_file_holds_the_lines_for_its_user_alone(void **state)
{
	const char *path = temp_path("a.conn"), *text;
	struct rs_descriptor_file *file;
	struct stat status;
	mode_t mask = umask(0);

	(void)state;
	file = write_file(path);
	umask(mask);
	assert_int_equal(stat(path, &status), 0);
	assert_int_equal(status.st_mode & 07777, 0600);
	assert_ok(read_file(path, true, &text));
	assert_string_equal(text, "first line\nsecond\n");
	/* Nothing is left of writing it aside. */
	assert_int_equal(files_in_folder(), 1);
	rs_descriptor_file_remove(file);
	assert_int_equal(files_in_folder(), 0);
}

static void test_a_file_of_an_earlier_run_is_replaced_whole(void **state)
{
	const char *path = temp_path("a.conn"), *text;
	struct rs_descriptor_file *file;
	struct stat status;

	(void)state;
	put_file(path, "an old line that is longer than the new ones", 44);
	chmod(path, 0666);
	file = write_file(path);
	assert_int_equal(stat(path, &status), 0);
	assert_int_equal(status.st_mode & 07777, 0600);
	assert_ok(read_file(path, true, &text));
	assert_string_equal(text, "first line\nsecond\n");
	rs_descriptor_file_remove(file);
}

static void test_a_symbolic_link_is_not_written_through(void **state)
{
	const char *path = temp_path("link"), *target = temp_path("target"), *text;
	struct rs_descriptor_file *file;

	(void)state;
	put_file(target, "precious", 8);
	assert_int_equal(symlink(target, path), 0);
	assert_status(rs_descriptor_file_write(path, lines, 2, &file), RS_ERR_NOT_PERMITTED);
	assert_logged("is a symbolic link: remove it, or name another one");
	assert_ok(read_file(target, false, &text));
	assert_string_equal(text, "precious");
	/* Nor one that leads nowhere. */
	unlink(target);
	assert_status(rs_descriptor_file_write(path, lines, 2, &file), RS_ERR_NOT_PERMITTED);
	assert_int_equal(access(target, F_OK), -1);
}

static void test_folders_and_devices_are_not_written(void **state)
{
	struct rs_descriptor_file *file;

	(void)state;
	mkdir(temp_path("folder"), 0700);
	assert_status(rs_descriptor_file_write(temp_path("folder"), lines, 2, &file),
		      RS_ERR_NOT_PERMITTED);
	assert_logged("folder is a directory: remove it, or name another one");
	mkfifo(temp_path("fifo"), 0600);
	assert_status(rs_descriptor_file_write(temp_path("fifo"), lines, 2, &file),
		      RS_ERR_NOT_PERMITTED);
	assert_status(rs_descriptor_file_write("/dev/null", lines, 2, &file), RS_ERR_NOT_PERMITTED);
	assert_logged("/dev/null is no regular file");
}

static void test_a_place_that_cannot_be_written_is_named(void **state)
{
	struct rs_descriptor_file *file;
	char longest[5000];

	(void)state;
	assert_status(rs_descriptor_file_write(temp_path("no/such/folder"), lines, 2, &file),
		      RS_ERR_NOT_FOUND);
	assert_logged("no/such/folder: No such file or directory; name another one");
	put_file(temp_path("file"), "x", 1);
	assert_status(rs_descriptor_file_write(temp_path("file/in"), lines, 2, &file), RS_ERR_IO);
	memset(longest, 'x', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	assert_status(rs_descriptor_file_write(longest, lines, 2, &file), RS_ERR_TOO_BIG);
	if (geteuid() == 0)
		return; /* whom no permissions stop */
	mkdir(temp_path("closed"), 0500);
	assert_status(rs_descriptor_file_write(temp_path("closed/file"), lines, 2, &file),
		      RS_ERR_NOT_PERMITTED);
}

static void test_a_file_that_another_has_replaced_is_not_removed(void **state)
{
	const char *path = temp_path("a.conn"), *text;
	struct rs_descriptor_file *first = write_file(path), *second = write_file(path);

	(void)state;
	rs_descriptor_file_remove(first);
	assert_ok(read_file(path, true, &text));
	rs_descriptor_file_remove(second);
	assert_int_equal(files_in_folder(), 0);
}

static void test_a_file_that_is_gone_already_is_no_trouble(void **state)
{
	const char *path = temp_path("a.conn");
	struct rs_descriptor_file *file = write_file(path);

	(void)state;
	unlink(path);
	rs_descriptor_file_remove(file);
	assert_string_equal(log_text(), "");
}

static void test_there_may_be_no_file(void **state)
{
	const char *text;

	(void)state;
	assert_status(read_file(temp_path("none"), true, &text), RS_ERR_NOT_FOUND);
	assert_status(read_file(temp_path("none"), false, &text), RS_ERR_NOT_FOUND);
}

static void test_only_a_file_that_its_writer_holds_is_live(void **state)
{
	const char *path = temp_path("a.conn"), *text;
	struct rs_descriptor_file *file;

	(void)state;
	put_file(path, "left behind\n", 12);
	assert_fault(path, true, "no running program holds it");
	assert_ok(read_file(path, false, &text));
	assert_string_equal(text, "left behind\n");
	file = write_file(path);
	assert_ok(read_file(path, true, &text));
	/* Reading leaves it as live as it was. */
	assert_ok(read_file(path, true, &text));
	rs_descriptor_file_remove(file);
}

static void test_a_strangers_file_is_not_live(void **state)
{
	const char *path = temp_path("a.conn"), *text;
	struct rs_descriptor_file *file;

	(void)state;
	if (geteuid() != 0)
		skip(); /* only root can give files away */
	file = write_file(path);
	assert_int_equal(chown(path, STRANGER, STRANGER), 0);
	assert_fault(path, true, "it is another user's");
	assert_ok(read_file(path, false, &text));
	rs_descriptor_file_remove(file);
}

static void test_what_is_no_regular_file_is_not_read(void **state)
{
	(void)state;
	put_file(temp_path("target"), "x", 1);
	assert_int_equal(symlink(temp_path("target"), temp_path("link")), 0);
	assert_fault(temp_path("link"), false, "it is a symbolic link");
	assert_fault(temp_path(""), false, "it is a directory");
	mkfifo(temp_path("fifo"), 0600);
	/* Without waiting for a writer. */
	assert_fault(temp_path("fifo"), false, "it is no regular file");
	assert_fault("/dev/zero", false, "it is no regular file");
	assert_fault(temp_path("target/in"), false, "Not a directory");
}

static void test_a_file_is_text_of_limited_length(void **state)
{
	const char *path = temp_path("a"), *fault;
	struct stat found = { 0 };
	char *text;

	(void)state;
	put_file(path, "12345", 5);
	assert_ok(rs_descriptor_file_read(path, false, 5, &text, &found, &fault));
	assert_string_equal(text, "12345");
	assert_int_equal(found.st_size, 5);
	free(text);
	assert_status(rs_descriptor_file_read(path, false, 4, &text, &found, &fault),
		      RS_ERR_BAD_DESCRIPTOR);
	assert_non_null(strstr(fault, "no text of a few lines"));
	put_file(path, "12\0345", 5);
	assert_status(rs_descriptor_file_read(path, false, 5, &text, &found, &fault),
		      RS_ERR_BAD_DESCRIPTOR);
	put_file(path, "", 0);
	assert_ok(rs_descriptor_file_read(path, false, 5, &text, &found, &fault));
	assert_string_equal(text, "");
	free(text);
}

#define file_test(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		file_test(test_a_file_holds_the_lines_for_its_user_alone),
		file_test(test_a_file_of_an_earlier_run_is_replaced_whole),
		file_test(test_a_symbolic_link_is_not_written_through),
		file_test(test_folders_and_devices_are_not_written),
		file_test(test_a_place_that_cannot_be_written_is_named),
		file_test(test_a_file_that_another_has_replaced_is_not_removed),
		file_test(test_a_file_that_is_gone_already_is_no_trouble),
		file_test(test_there_may_be_no_file),
		file_test(test_only_a_file_that_its_writer_holds_is_live),
		file_test(test_a_strangers_file_is_not_live),
		file_test(test_what_is_no_regular_file_is_not_read),
		file_test(test_a_file_is_text_of_limited_length),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
