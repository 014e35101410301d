#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../../uroce/link/table.h"
#include "link_nodes.h"
#include "network.h"

/* Where the table of this network namespace is. */
static const char *table_path(void)
{
	static char path[64];
	struct stat status;

	assert_int_equal(stat("/proc/self/ns/net", &status), 0);
	snprintf(path, sizeof(path), "/dev/shm/uroce-%u-%ju", geteuid(), (uintmax_t)status.st_ino);
	return path;
}

static int remove_table(void **state)
{
	(void)state;
	unlink(table_path());
	return 0;
}

static void add(const char *device, uint8_t number, bool owner)
{
	struct ur_table *table = ur_table_open();

	assert_non_null(table);
	assert_true(ur_table_add(table, device, number, owner));
	ur_table_close(table);
}

static void remove_entry(const char *device, uint8_t number)
{
	struct ur_table *table = ur_table_open();

	ur_table_remove(table, device, number);
	ur_table_close(table);
}

static size_t count_entries(void)
{
	struct ur_table *table = ur_table_open();
	size_t count;

	assert_non_null(table);
	ur_table_list(table, &count);
	ur_table_close(table);
	return count;
}

static pid_t run(void (*body)(void))
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		body();
		_exit(0);
	}
	return pid;
}

static void wait_for(pid_t pid)
{
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void test_entries_are_listed_with_their_process_and_program(void **state)
{
	const struct ur_table_entry *entries;
	struct ur_table *table;
	size_t count;

	(void)state;
	add("uroce_eth0", 3, false);
	add("uroce_lo", 0, true);
	table = ur_table_open();
	entries = ur_table_list(table, &count);
	assert_int_equal(count, 2);
	assert_string_equal(entries[0].device, "uroce_eth0");
	assert_int_equal(entries[0].number, 3);
	assert_false(entries[0].owner);
	assert_int_equal(entries[0].pid, getpid());
	assert_memory_equal(entries[0].program, program_invocation_short_name,
			    strnlen(entries[0].program, UR_TABLE_PROGRAM_SIZE));
	assert_string_equal(entries[1].device, "uroce_lo");
	assert_true(entries[1].owner);
	ur_table_close(table);
}

static void test_the_start_of_a_process_is_field_22_of_its_stat_file(void **state)
{
	char command[128];
	unsigned long long start;
	struct ur_table *table;
	size_t count;
	FILE *output;

	(void)state;
	/* The second field of this program's line has no blanks. */
	snprintf(command, sizeof(command), "cut -d ' ' -f 22 /proc/%d/stat", getpid());
	output = popen(command, "r");
	assert_int_equal(fscanf(output, "%llu", &start), 1);
	pclose(output);
	add("uroce_lo", 0, true);
	table = ur_table_open();
	assert_int_equal(ur_table_list(table, &count)[0].start_time, start);
	ur_table_close(table);
}

static void test_an_entry_that_was_removed_is_gone(void **state)
{
	(void)state;
	add("uroce_lo", 0, true);
	add("uroce_lo", 1, false);
	remove_entry("uroce_lo", 7);
	remove_entry("uroce_eth0", 0);
	assert_int_equal(count_entries(), 2);
	remove_entry("uroce_lo", 0);
	assert_int_equal(count_entries(), 1);
}

static void test_the_last_to_go_removes_the_file(void **state)
{
	(void)state;
	add("uroce_lo", 0, true);
	assert_int_equal(access(table_path(), F_OK), 0);
	remove_entry("uroce_lo", 0);
	assert_int_equal(access(table_path(), F_OK), -1);
}

static void test_a_new_owner_is_marked(void **state)
{
	struct ur_table *table;
	size_t count;

	(void)state;
	add("uroce_lo", 4, false);
	table = ur_table_open();
	ur_table_set_owner(table, "uroce_lo", 4);
	ur_table_close(table);
	table = ur_table_open();
	assert_true(ur_table_list(table, &count)[0].owner);
	ur_table_close(table);
}

static void test_a_name_with_other_characters_is_shown_without_them(void **state)
{
	struct ur_table *table;
	size_t count;

	(void)state;
	add("uroce_\x1b[0m\xc3\xa4", 0, false);
	table = ur_table_open();
	assert_string_equal(ur_table_list(table, &count)[0].device, "uroce_?[0m??");
	ur_table_close(table);
	remove_entry("uroce_\x1b[0m\xc3\xa4", 0);
	assert_int_equal(count_entries(), 0);
}

static void test_a_full_table_takes_no_more(void **state)
{
	struct ur_table *table = ur_table_open();

	(void)state;
	for (unsigned i = 0; i < UR_TABLE_CAPACITY; i++)
		assert_true(ur_table_add(table, "uroce_lo", (uint8_t)i, false));
	assert_false(ur_table_add(table, "uroce_lo", 0, false));
	ur_table_close(table);
	assert_int_equal(count_entries(), UR_TABLE_CAPACITY);
}

/* ---- Dead processes ---- */

static void add_and_die(void)
{
	add("uroce_lo", 5, false);
}

static void test_the_entry_of_a_dead_process_is_removed(void **state)
{
	(void)state;
	add("uroce_lo", 0, true);
	wait_for(run(add_and_die));
	assert_int_equal(count_entries(), 1);
}

static void test_a_zombie_is_dead(void **state)
{
	pid_t pid = run(add_and_die);
	siginfo_t info;

	(void)state;
	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	assert_int_equal(count_entries(), 0);
	wait_for(pid);
}

static void lock_and_die(void)
{
	struct ur_table *table = ur_table_open();

	ur_table_add(table, "uroce_lo", 5, false);
	raise(SIGKILL);
}

static void test_a_process_that_dies_with_the_lock_leaves_the_table_as_it_was(void **state)
{
	(void)state;
	add("uroce_lo", 0, true);
	wait_for(run(lock_and_die));
	assert_int_equal(count_entries(), 1);
}

static void test_a_process_that_keeps_the_lock_holds_up_none(void **state)
{
	int fd;

	(void)state;
	add("uroce_lo", 0, true);
	fd = open(table_path(), O_RDWR | O_CLOEXEC);
	assert_int_equal(flock(fd, LOCK_EX), 0);
	assert_null(ur_table_open());
	close(fd);
	assert_int_equal(count_entries(), 1);
}

static void test_without_a_table_all_functions_do_nothing(void **state)
{
	size_t count = 1;

	(void)state;
	assert_false(ur_table_add(NULL, "uroce_lo", 0, false));
	ur_table_remove(NULL, "uroce_lo", 0);
	ur_table_set_owner(NULL, "uroce_lo", 0);
	assert_null(ur_table_list(NULL, &count));
	assert_int_equal(count, 0);
	ur_table_close(NULL);
}

static int to_child[2], to_parent[2];

static void tell(int fd)
{
	assert_int_equal(write(fd, "", 1), 1);
}

static void wait_to_be_told(int fd)
{
	char byte;

	assert_int_equal(read(fd, &byte, 1), 1);
}

/* Adds an entry when it is told to, says so, and stays. */
static void add_and_stay(void)
{
	struct ur_table *table;

	wait_to_be_told(to_child[0]);
	while (!(table = ur_table_open()))
		;
	ur_table_add(table, "uroce_lo", 5, false);
	ur_table_close(table);
	tell(to_parent[1]);
	pause();
}

/* Whether a process has the table's file open. */
static bool has_table_open(pid_t pid)
{
	char name[64], target[64];

	for (int fd = 0; fd < 64; fd++) {
		ssize_t length;

		snprintf(name, sizeof(name), "/proc/%d/fd/%d", pid, fd);
		length = readlink(name, target, sizeof(target) - 1);
		target[length > 0 ? length : 0] = '\0';
		if (strcmp(target, table_path()) == 0)
			return true;
	}
	return false;
}

static void test_a_process_that_waits_for_a_file_that_is_then_removed_makes_a_new_one(void **state)
{
	struct ur_table *table;
	pid_t pid;

	(void)state;
	assert_int_equal(pipe(to_child), 0);
	assert_int_equal(pipe(to_parent), 0);
	pid = run(add_and_stay);
	table = ur_table_open();
	tell(to_child[1]);
	while (!has_table_open(pid))
		;
	ur_table_close(table);
	wait_to_be_told(to_parent[0]);
	assert_int_equal(count_entries(), 1);
	kill(pid, SIGKILL);
	wait_for(pid);
	for (unsigned i = 0; i < 2; i++) {
		close(to_child[i]);
		close(to_parent[i]);
	}
}

/* ---- Damage ---- */

#define MAX_FILE (64 * 1024)

static size_t read_table(char *bytes)
{
	FILE *file = fopen(table_path(), "r");
	size_t size;

	assert_non_null(file);
	size = fread(bytes, 1, MAX_FILE, file);
	fclose(file);
	return size;
}

static void write_table(const char *bytes, size_t size)
{
	int fd = open(table_path(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, size), size);
	close(fd);
}

/* A table with one entry can be made of whatever is there. */
static void assert_recovers(void)
{
	add("uroce_lo", 9, false);
	assert_in_range(count_entries(), 1, 3);
	remove_entry("uroce_lo", 9);
}

static void test_a_damaged_file_is_read_without_harm_and_made_anew(void **state)
{
	static char good[MAX_FILE], bad[MAX_FILE];
	size_t size;

	(void)state;
	add("uroce_lo", 0, true);
	add("uroce_lo", 1, false);
	size = read_table(good);
	for (size_t length = 0; length < size; length++) {
		write_table(good, length);
		assert_recovers();
	}
	for (size_t i = 0; i < size; i++) {
		memcpy(bad, good, size);
		bad[i] = (char)~bad[i];
		write_table(bad, size);
		assert_recovers();
	}
	memset(bad, 0xff, sizeof(bad));
	write_table(bad, sizeof(bad));
	assert_recovers();
}

static void test_a_file_of_another_version_is_as_good_as_empty(void **state)
{
	static char good[MAX_FILE], bad[MAX_FILE];
	size_t size;

	(void)state;
	add("uroce_lo", 0, true);
	size = read_table(good);
	/* The magic and the size of an entry. */
	for (size_t i = 0; i < 12; i++) {
		memcpy(bad, good, size);
		bad[i]++;
		write_table(bad, size);
		assert_int_equal(count_entries(), 0);
	}
}

static void change_last_entry(int32_t pid, uint64_t start_time)
{
	static char bytes[MAX_FILE];
	size_t size = read_table(bytes);
	struct ur_table_entry entry;

	memcpy(&entry, bytes + size - sizeof(entry), sizeof(entry));
	assert_int_equal(entry.pid, getpid());
	entry.pid = pid;
	entry.start_time = start_time;
	memcpy(bytes + size - sizeof(entry), &entry, sizeof(entry));
	write_table(bytes, size);
}

static void test_a_process_with_the_number_of_a_dead_one_is_not_taken_for_it(void **state)
{
	(void)state;
	add("uroce_lo", 0, true);
	change_last_entry(getpid(), 1);
	assert_int_equal(count_entries(), 0);
}

static void test_an_entry_of_no_process_is_removed(void **state)
{
	(void)state;
	add("uroce_lo", 0, true);
	change_last_entry(INT32_MAX, 0);
	assert_int_equal(count_entries(), 0);
	add("uroce_lo", 0, true);
	change_last_entry(-1, 0);
	assert_int_equal(count_entries(), 0);
}

static void test_a_file_that_others_can_write_is_not_used(void **state)
{
	(void)state;
	add("uroce_lo", 0, true);
	assert_int_equal(chmod(table_path(), 0666), 0);
	assert_null(ur_table_open());
}

static void test_a_symbolic_link_is_not_followed(void **state)
{
	char target[] = "/tmp/uroce_table_XXXXXX";
	int fd = mkstemp(target);
	struct stat status;

	(void)state;
	assert_int_equal(symlink(target, table_path()), 0);
	assert_null(ur_table_open());
	assert_int_equal(fstat(fd, &status), 0);
	assert_int_equal(status.st_size, 0);
	close(fd);
	unlink(target);
}

static void test_what_is_no_file_is_not_used(void **state)
{
	(void)state;
	assert_int_equal(mkfifo(table_path(), 0600), 0);
	assert_null(ur_table_open());
}

/* ---- Links in it ---- */

static void test_links_stand_in_the_table_while_they_are_open(void **state)
{
	struct node *a = node_open(), *b = node_open();
	const struct ur_table_entry *entries;
	struct ur_table *table;
	size_t count;

	(void)state;
	table = ur_table_open();
	entries = ur_table_list(table, &count);
	assert_int_equal(count, 2);
	assert_string_equal(entries[0].device, "uroce_lo");
	assert_int_equal(entries[0].number, 0);
	assert_true(entries[0].owner);
	assert_int_equal(entries[1].number, 1);
	assert_false(entries[1].owner);
	ur_table_close(table);

	node_close(a);
	ur_link_owner_tick(b->link);
	table = ur_table_open();
	entries = ur_table_list(table, &count);
	assert_int_equal(count, 1);
	assert_int_equal(entries[0].number, 1);
	assert_true(entries[0].owner);
	ur_table_close(table);

	node_close(b);
	assert_int_equal(access(table_path(), F_OK), -1);
}

static void test_links_open_without_a_table(void **state)
{
	struct node *a, *b;

	(void)state;
	assert_int_equal(mkfifo(table_path(), 0600), 0);
	a = node_open();
	b = node_open();
	assert_int_equal(ur_link_number(b->link), 1);
	node_close(a);
	ur_link_owner_tick(b->link);
	assert_true(ur_link_is_owner(b->link));
	node_close(b);
}

#define table_test(name) cmocka_unit_test_teardown(name, remove_table)

int main(void)
{
	const struct CMUnitTest tests[] = {
		table_test(test_entries_are_listed_with_their_process_and_program),
		table_test(test_the_start_of_a_process_is_field_22_of_its_stat_file),
		table_test(test_an_entry_that_was_removed_is_gone),
		table_test(test_the_last_to_go_removes_the_file),
		table_test(test_a_new_owner_is_marked),
		table_test(test_a_name_with_other_characters_is_shown_without_them),
		table_test(test_a_full_table_takes_no_more),
		table_test(test_the_entry_of_a_dead_process_is_removed),
		table_test(test_a_zombie_is_dead),
		table_test(test_a_process_that_dies_with_the_lock_leaves_the_table_as_it_was),
		table_test(test_a_process_that_keeps_the_lock_holds_up_none),
		table_test(
			test_a_process_that_waits_for_a_file_that_is_then_removed_makes_a_new_one),
		table_test(test_without_a_table_all_functions_do_nothing),
		table_test(test_a_damaged_file_is_read_without_harm_and_made_anew),
		table_test(test_a_file_of_another_version_is_as_good_as_empty),
		table_test(test_an_entry_of_no_process_is_removed),
		table_test(test_a_process_with_the_number_of_a_dead_one_is_not_taken_for_it),
		table_test(test_a_file_that_others_can_write_is_not_used),
		table_test(test_a_symbolic_link_is_not_followed),
		table_test(test_what_is_no_file_is_not_used),
		table_test(test_links_stand_in_the_table_while_they_are_open),
		table_test(test_links_open_without_a_table),
	};

	if (!network_enter())
		return 1;
	return cmocka_run_group_tests_name("table", tests, NULL, NULL);
}
