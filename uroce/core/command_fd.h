/*
 * Command descriptor of a context (cmd_fd): for a device of the kernel commands go through it, here it only
 * says which device the context is of, so that a duplicate of it can be imported (ibv_import_device).
 */
#ifndef UR_COMMAND_FD_H
#define UR_COMMAND_FD_H

#include <stdbool.h>
#include <stddef.h>

/* if_name: of the device's interface. Returns a descriptor, or -1 and errno. */
int ur_command_fd_open(const char *if_name);

/* Whether a descriptor is one of ours, of any process. */
bool ur_command_fd_is_ours(int fd);

/* Writes the name of the interface. Returns 0, or EOPNOTSUPP: it is of another process. */
int ur_command_fd_read(int fd, char *if_name, size_t size);

#endif
