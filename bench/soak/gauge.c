#define LOG_MODULE "gauge"

#include "gauge.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "log.h"

#define KIB 1024

/* The heap stays mapped up to the last thing in use, wherever that was put. */
#define HEAP_SLACK (2 * KIB)
#define DATA_SLACK (1024 * KIB)

#define SETTLE_READINGS 20
#define SETTLE_STEP_US  50000

/* Of a link in /proc/self/fd. */
#define MAX_LINK 64

static const char socket_link[] = "socket:";

/* The number of KiB in the line that begins with the label, in bytes; 0: there is no such line. */
static size_t bytes_of(const char *text, const char *label)
{
	const char *line = strstr(text, label);

	return line ? strtoul(line + strlen(label), NULL, 10) * KIB : 0;
}

static enum rs_status read_memory(struct gauge *gauge)
{
	char text[4096];
	int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
	ssize_t length;

	if (fd < 0)
		return LOG_FAILED_SYSTEM_CALL(errno, "open(/proc/self/status)");
	length = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (length < 0)
		return LOG_FAILED_SYSTEM_CALL(errno, "read(/proc/self/status)");
	text[length] = '\0';
	gauge->resident = bytes_of(text, "\nVmRSS:");
	gauge->data = bytes_of(text, "\nVmData:");
	return RS_OK;
}

static bool is_socket(int folder, const char *name)
{
	char link[MAX_LINK];
	ssize_t length = readlinkat(folder, name, link, sizeof(link));

	return length >= (ssize_t)strlen(socket_link) &&
	       strncmp(link, socket_link, strlen(socket_link)) == 0;
}

/* sockets NULL: they are not asked for. */
static enum rs_status count_entries(const char *path, size_t *entries, size_t *sockets)
{
	DIR *folder = opendir(path);

	if (!folder)
		return LOG_FAILED_SYSTEM_CALL(errno, "opendir(%s)", path);
	for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
		if (entry->d_name[0] == '.')
			continue;
		(*entries)++;
		if (sockets && is_socket(dirfd(folder), entry->d_name))
			(*sockets)++;
	}
	closedir(folder);
	return RS_OK;
}

enum rs_status gauge_read(struct gauge *gauge)
{
	struct mallinfo2 info;
	enum rs_status status;

	/* What is free is no leak, wherever in the heap it is. */
	malloc_trim(0);
	info = mallinfo2();
	*gauge = (struct gauge){ .heap = info.uordblks + info.hblkhd };
	status = read_memory(gauge);
	if (status == RS_OK)
		status = count_entries("/proc/self/fd", &gauge->descriptors, &gauge->sockets);
	if (status == RS_OK)
		status = count_entries("/proc/self/task", &gauge->threads, NULL);
	gauge->descriptors--;
	return status;
}

static void take_less(size_t *value, size_t other)
{
	if (other < *value)
		*value = other;
}

enum rs_status gauge_settle(struct gauge *gauge)
{
	enum rs_status status = gauge_read(gauge);
	struct gauge next;

	for (unsigned same = 0; status == RS_OK && same < SETTLE_READINGS; same++) {
		usleep(SETTLE_STEP_US);
		status = gauge_read(&next);
		if (next.heap < gauge->heap)
			same = 0;
		take_less(&gauge->heap, next.heap);
		take_less(&gauge->data, next.data);
		take_less(&gauge->descriptors, next.descriptors);
		take_less(&gauge->sockets, next.sockets);
		take_less(&gauge->threads, next.threads);
	}
	return status;
}

const char *gauge_growth(const struct gauge *before, const struct gauge *after)
{
	if (after->heap > before->heap + HEAP_SLACK)
		return "heap";
	if (after->data > before->data + DATA_SLACK)
		return "mapped memory";
	if (after->descriptors > before->descriptors)
		return "descriptors";
	if (after->sockets > before->sockets)
		return "sockets";
	return after->threads > before->threads ? "threads" : NULL;
}
