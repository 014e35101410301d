/*
 * Descriptor file: lines on the file system, safe to write and to find.
 *
 * A writer keeps a lock on its file as long as it runs, so that a reader can tell a live file from
 * one that a killed program left behind.
 */
#ifndef RS_DESCRIPTOR_FILE_H
#define RS_DESCRIPTOR_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "descriptor.h"
#include "status.h"

struct rs_descriptor_file;

/*
 * Writes the lines with mode 0600, aside and then renamed, never through a symbolic link: readers
 * see the whole file or none of it. A failure is logged with the path and what to do. The caller
 * removes the file.
 */
enum rs_status rs_descriptor_file_write(const char *path,
					const char (*lines)[RS_DESCRIPTOR_LINE_SIZE], size_t count,
					struct rs_descriptor_file **file);

/* Removes it, unless another program has put its own in its place, and frees file. */
void rs_descriptor_file_remove(struct rs_descriptor_file *file);

/*
 * Reads a file of at most max bytes. only_live: it must be this user's, and locked by a running
 * writer. RS_OK: *text is for the caller to free, *found says which file it was. RS_ERR_NOT_FOUND:
 * there is none. RS_ERR_NOT_PERMITTED: it cannot be used, *fault says why (nothing to free).
 * RS_ERR_BAD_DESCRIPTOR: it is no text, or too long; *found and *fault are set.
 */
enum rs_status rs_descriptor_file_read(const char *path, bool only_live, size_t max, char **text,
				       struct stat *found, const char **fault);

#endif
