/*
 * What the files of the sample know of each other.
 */
#ifndef RS_SAMPLE_IMPL_H
#define RS_SAMPLE_IMPL_H

#include "sample.h"

/* Log lines are the program's own. */
#define LOG_MODULE (sample->options->program->name)

/* What memory holds that the peer has not written to: no end of a text, and no UTF-8. */
#define SAMPLE_UNWRITTEN 0xff

/* sample_signal.c: signals ask the sample to end; signal_fd is readable when one has come. */
void sample_catch_signals(struct sample *sample);
void sample_on_signal(int fd, void *sample_data);
void sample_release_signals(struct sample *sample);

/* sample_result.c */
void sample_flush_output(struct sample *sample);
void sample_print_json(struct sample *sample, int exit_status);

#endif
