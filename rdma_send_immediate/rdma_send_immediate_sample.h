#ifndef RDMA_SEND_IMMEDIATE_SAMPLE_H
#define RDMA_SEND_IMMEDIATE_SAMPLE_H

#include "options.h"

/* Runs the sample; returns the program's exit status. */
int rdma_send_immediate(const struct options *options);

#endif
