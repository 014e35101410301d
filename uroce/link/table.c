#include "table.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "../core/clock.h"
#include "../core/log.h"

#define MAGIC "uroce 1"

/* A process that was stopped may have the lock. */
#define LOCK_TIMEOUT_NS (200 * UR_NS_PER_MS)

struct header {
	char magic[sizeof(MAGIC)];
	uint32_t entry_size;
	uint32_t count;
};

struct ur_table {
	int fd;
	bool changed;
	char path[64];
	struct {
		struct header header;
		struct ur_table_entry entries[UR_TABLE_CAPACITY];
	} file;
};

/* ---- Processes ---- */

/*
 * When a process started, in ticks since the system did; 0: it is dead, a zombie included, or
 * cannot be seen. It is field 22 of the line, and the third is the state; the second is a name in
 * parentheses that may hold anything.
 */
static uint64_t start_time(int32_t pid)
{
	char path[32], line[1024], state;
	const char *name_end;
	uint64_t started;
	ssize_t length;
	int fd;

	snprintf(path, sizeof(path), "/proc/%" PRId32 "/stat", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	length = read(fd, line, sizeof(line) - 1);
	close(fd);
	line[length > 0 ? length : 0] = '\0';
	name_end = strrchr(line, ')');
	if (!name_end ||
	    sscanf(name_end,
		   ") %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %" SCNu64,
		   &state, &started) != 2)
		return 0;
	return state == 'Z' || state == 'X' ? 0 : started;
}

static bool is_text(const char *text, size_t size)
{
	size_t length = strnlen(text, size);

	for (size_t i = 0; i < length; i++) {
		if (!isgraph((unsigned char)text[i]))
			return false;
	}
	return length > 0 && length < size;
}

static bool is_alive(const struct ur_table_entry *entry)
{
	return is_text(entry->device, sizeof(entry->device)) &&
	       is_text(entry->program, sizeof(entry->program)) && entry->pid > 0 &&
	       entry->start_time > 0 && entry->start_time == start_time(entry->pid);
}

/* ---- The file ---- */

/* A network namespace has a number of its own, as the file that stands for it. */
static bool make_path(char *path, size_t size)
{
	struct stat status;

	if (stat("/proc/self/ns/net", &status) < 0)
		return false;
	snprintf(path, size, "/dev/shm/uroce-%u-%ju", geteuid(), (uintmax_t)status.st_ino);
	return true;
}

/* Another user could have put something there. */
static bool is_trusted(const struct stat *status)
{
	return S_ISREG(status->st_mode) && status->st_uid == geteuid() &&
	       (status->st_mode & (S_IRWXG | S_IRWXO)) == 0;
}

static bool lock(int fd)
{
	const struct timespec pause = { .tv_nsec = UR_NS_PER_MS };
	uint64_t deadline = ur_clock_ns() + LOCK_TIMEOUT_NS;

	while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		if ((errno != EWOULDBLOCK && errno != EINTR) || ur_clock_ns() > deadline)
			return false;
		nanosleep(&pause, NULL);
	}
	return true;
}

/* Returns -1, or the file, locked. *removed: its last user has removed it in between. */
static int open_locked(const char *path, bool *removed)
{
	int fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600);
	struct stat status;

	*removed = false;
	if (fd < 0)
		return -1;
	if (fstat(fd, &status) < 0 || !is_trusted(&status) || !lock(fd) || fstat(fd, &status) < 0)
		goto err_close;
	*removed = status.st_nlink == 0;
	if (*removed)
		goto err_close;
	return fd;

err_close:
	close(fd);
	return -1;
}

static size_t file_size(const struct ur_table *table)
{
	return sizeof(struct header) + table->file.header.count * sizeof(struct ur_table_entry);
}

/* A file that is new, of another version or damaged is as good as empty. */
static void read_file(struct ur_table *table)
{
	const struct header empty = { .magic = MAGIC, .entry_size = sizeof(struct ur_table_entry) };
	struct header *header = &table->file.header;
	const struct iovec parts[] = {
		{ header, sizeof(*header) },
		{ table->file.entries, sizeof(table->file.entries) },
	};
	ssize_t size = preadv(table->fd, parts, 2, 0);

	if (size < (ssize_t)sizeof(*header) || memcmp(header->magic, MAGIC, sizeof(MAGIC)) != 0 ||
	    header->entry_size != sizeof(struct ur_table_entry) ||
	    size != (ssize_t)file_size(table))
		*header = empty;
}

static void remove_at(struct ur_table *table, size_t index)
{
	table->file.entries[index] = table->file.entries[--table->file.header.count];
	table->changed = true;
}

static void remove_dead(struct ur_table *table)
{
	for (size_t i = table->file.header.count; i-- > 0;) {
		if (!is_alive(&table->file.entries[i]))
			remove_at(table, i);
	}
}

static void write_file(struct ur_table *table)
{
	size_t size = file_size(table);

	if (table->file.header.count == 0)
		unlink(table->path);
	else if (pwrite(table->fd, &table->file, size, 0) != (ssize_t)size ||
		 ftruncate(table->fd, (off_t)size) < 0)
		ur_log(UR_LOG_DEBUG, "cannot write to %s: %s", table->path, strerror(errno));
}

static struct ur_table *open_table(struct ur_table *table)
{
	bool removed;

	if (!make_path(table->path, sizeof(table->path)))
		return NULL;
	do {
		table->fd = open_locked(table->path, &removed);
	} while (removed);
	if (table->fd < 0)
		return NULL;
	table->changed = false;
	read_file(table);
	remove_dead(table);
	return table;
}

struct ur_table *ur_table_open(void)
{
	struct ur_table *table = malloc(sizeof(*table));

	if (!table || !open_table(table)) {
		ur_log(UR_LOG_DEBUG, "the table of processes cannot be had: %s", strerror(errno));
		free(table);
		return NULL;
	}
	return table;
}

void ur_table_close(struct ur_table *table)
{
	if (!table)
		return;
	if (table->changed || table->file.header.count == 0)
		write_file(table);
	close(table->fd);
	free(table);
}

/* ---- Entries of this process ---- */

/* Cut, and without characters that a list of names cannot show. */
static void put_text(char *out, size_t size, const char *text)
{
	size_t length = 0;

	for (; *text && length < size - 1; text++)
		out[length++] = isgraph((unsigned char)*text) ? *text : '?';
	if (length == 0)
		out[length++] = '?';
	out[length] = '\0';
}

static struct ur_table_entry *find(struct ur_table *table, const char *device, uint8_t number)
{
	char name[UR_TABLE_DEVICE_SIZE];
	pid_t pid = getpid();

	put_text(name, sizeof(name), device);
	for (size_t i = 0; i < table->file.header.count; i++) {
		struct ur_table_entry *entry = &table->file.entries[i];

		if (entry->pid == pid && entry->number == number &&
		    strcmp(entry->device, name) == 0)
			return entry;
	}
	return NULL;
}

bool ur_table_add(struct ur_table *table, const char *device, uint8_t number, bool owner)
{
	struct ur_table_entry *entry;

	if (!table || table->file.header.count == UR_TABLE_CAPACITY)
		return false;
	entry = &table->file.entries[table->file.header.count++];
	*entry = (struct ur_table_entry){ .start_time = start_time(getpid()),
					  .pid = getpid(),
					  .number = number,
					  .owner = owner };
	put_text(entry->device, sizeof(entry->device), device);
	put_text(entry->program, sizeof(entry->program), program_invocation_short_name);
	table->changed = true;
	return true;
}

void ur_table_remove(struct ur_table *table, const char *device, uint8_t number)
{
	struct ur_table_entry *entry = table ? find(table, device, number) : NULL;

	if (entry)
		remove_at(table, (size_t)(entry - table->file.entries));
}

void ur_table_set_owner(struct ur_table *table, const char *device, uint8_t number)
{
	struct ur_table_entry *entry = table ? find(table, device, number) : NULL;

	if (!entry)
		return;
	entry->owner = true;
	table->changed = true;
}

const struct ur_table_entry *ur_table_list(const struct ur_table *table, size_t *count)
{
	*count = table ? table->file.header.count : 0;
	return table ? table->file.entries : NULL;
}
