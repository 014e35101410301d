/*
 * What the files of the sample know of each other.
 */
#ifndef RS_SAMPLE_IMPL_H
#define RS_SAMPLE_IMPL_H

#include "cm.h"
#include "sample.h"

/* Log lines are the program's own. */
#define LOG_MODULE (sample->options->program->name)

/* What memory holds that the peer has not written to: no end of a text, and no UTF-8. */
#define SAMPLE_UNWRITTEN 0xff

/* sample_signal.c: signals ask the sample to end; signal_fd is readable when one has come. */
void sample_catch_signals(struct sample *sample);
void sample_on_signal(int fd, void *sample_data);
void sample_release_signals(struct sample *sample);

/* sample_connect.c */
bool sample_peer_has_resource(const struct program *program);

/* sample_cm.c */
extern const struct rs_connection_callbacks sample_connection_callbacks;
void sample_on_connection_failed(struct rs_connection *connection, enum rs_status reason,
				 void *sample_data);
void sample_connect_by_address(struct sample *sample);
/* The device that the options or the server's address say (then with name); NULL: any. */
const char *sample_find_device(struct sample *sample, char name[IBV_SYSFS_NAME_MAX]);

/* sample_task.c: the connection has ended; if its message has not come, it will not. */
void sample_lose_messages(struct sample *sample, struct rs_connection *connection);

/* sample_result.c */
void sample_flush_output(struct sample *sample);
void sample_print_json(struct sample *sample, int exit_status);

#endif
