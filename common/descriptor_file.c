#define LOG_MODULE "descriptor_file"

#include "descriptor_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "log.h"

struct rs_descriptor_file {
	int fd; /* locked */
	char path[PATH_MAX];
};

/* ---- Write ---- */

static enum rs_status cannot_write(const char *path, int error)
{
	LOG_ERROR("cannot write the descriptor file %s: %s; name another one (see --help)", path,
		  strerror(error));
	return rs_status_from_errno(error);
}

static enum rs_status check_target(const char *path)
{
	struct stat status;

	if (lstat(path, &status) < 0)
		return errno == ENOENT ? RS_OK : cannot_write(path, errno);
	if (S_ISREG(status.st_mode))
		return RS_OK;
	LOG_ERROR("the descriptor file %s is %s: remove it, or name another one (see --help)", path,
		  S_ISLNK(status.st_mode)   ? "a symbolic link"
		  : S_ISDIR(status.st_mode) ? "a directory"
					    : "no regular file");
	return RS_ERR_NOT_PERMITTED;
}

static bool write_all(int fd, const char *text, size_t length)
{
	while (length > 0) {
		ssize_t written = write(fd, text, length);

		if (written < 0 && errno == EINTR)
			continue;
		if (written < 0)
			return false;
		text += written;
		length -= (size_t)written;
	}
	return true;
}

static bool write_lines(int fd, const char (*lines)[RS_DESCRIPTOR_LINE_SIZE], size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (!write_all(fd, lines[i], strlen(lines[i])) || !write_all(fd, "\n", 1))
			return false;
	return true;
}

static enum rs_status write_aside_and_rename(struct rs_descriptor_file *file,
					     const char (*lines)[RS_DESCRIPTOR_LINE_SIZE],
					     size_t count)
{
	char aside[PATH_MAX + 8];
	enum rs_status status;

	snprintf(aside, sizeof(aside), "%s.XXXXXX", file->path);
	file->fd = mkostemp(aside, O_CLOEXEC); /* mode 0600 */
	if (file->fd < 0)
		return cannot_write(file->path, errno);
	/* Where files cannot be locked, readers take them for live. */
	flock(file->fd, LOCK_EX | LOCK_NB);
	if (write_lines(file->fd, lines, count) && rename(aside, file->path) == 0)
		return RS_OK;
	status = cannot_write(file->path, errno);
	unlink(aside);
	close(file->fd);
	return status;
}

enum rs_status rs_descriptor_file_write(const char *path,
					const char (*lines)[RS_DESCRIPTOR_LINE_SIZE], size_t count,
					struct rs_descriptor_file **file)
{
	struct rs_descriptor_file *written;
	enum rs_status status = check_target(path);

	if (status != RS_OK)
		return status;
	written = calloc(1, sizeof(*written));
	if (!written)
		return RS_ERR_NO_MEMORY;
	snprintf(written->path, sizeof(written->path), "%s", path);
	status = write_aside_and_rename(written, lines, count);
	if (status != RS_OK) {
		free(written);
		return status;
	}
	*file = written;
	return RS_OK;
}

void rs_descriptor_file_remove(struct rs_descriptor_file *file)
{
	struct stat ours, there;

	if (fstat(file->fd, &ours) == 0 && lstat(file->path, &there) == 0 &&
	    ours.st_ino == there.st_ino && ours.st_dev == there.st_dev)
		unlink(file->path);
	close(file->fd);
	free(file);
}

/* ---- Read ---- */

static bool is_locked(int fd)
{
	if (flock(fd, LOCK_SH | LOCK_NB) < 0)
		return true;
	flock(fd, LOCK_UN);
	return false;
}

/* Why the open file cannot be used; NULL: it can. */
static const char *find_fault(int fd, bool only_live, struct stat *found)
{
	if (fstat(fd, found) < 0)
		return strerror(errno);
	if (S_ISDIR(found->st_mode))
		return "it is a directory: name a file in it";
	if (!S_ISREG(found->st_mode))
		return "it is no regular file";
	if (only_live && found->st_uid != geteuid())
		return "it is another user's";
	if (only_live && !is_locked(fd))
		return "no running program holds it: it was left by an earlier run, or copied there";
	return NULL;
}

/* The whole file as text; NULL if it is longer than max, no text, or cannot be read. */
static char *read_text(int fd, size_t max)
{
	char *text = malloc(max + 1);
	size_t used = 0;
	ssize_t count = 1;

	while (text && used <= max && count > 0) {
		count = read(fd, text + used, max + 1 - used);
		used += count > 0 ? (size_t)count : 0;
	}
	if (text && count == 0 && used <= max && !memchr(text, '\0', used)) {
		text[used] = '\0';
		return text;
	}
	free(text);
	return NULL;
}

enum rs_status rs_descriptor_file_read(const char *path, bool only_live, size_t max, char **text,
				       struct stat *found, const char **fault)
{
	/* Not blocking: it might be a FIFO. */
	int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0 && errno == ENOENT)
		return RS_ERR_NOT_FOUND;
	if (fd < 0) {
		*fault = errno == ELOOP ? "it is a symbolic link: name the file itself"
					: strerror(errno);
		return RS_ERR_NOT_PERMITTED;
	}
	*fault = find_fault(fd, only_live, found);
	*text = *fault ? NULL : read_text(fd, max);
	close(fd);
	if (*fault)
		return RS_ERR_NOT_PERMITTED;
	if (*text)
		return RS_OK;
	*fault = "it is no text of a few lines, or cannot be read";
	return RS_ERR_BAD_DESCRIPTOR;
}
