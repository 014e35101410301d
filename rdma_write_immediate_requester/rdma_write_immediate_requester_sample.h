#ifndef RDMA_WRITE_IMMEDIATE_REQUESTER_SAMPLE_H
#define RDMA_WRITE_IMMEDIATE_REQUESTER_SAMPLE_H

#include "options.h"

/* Runs the sample; returns the program's exit status. */
int rdma_write_immediate_requester(const struct options *options);

#endif
