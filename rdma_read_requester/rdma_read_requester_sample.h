#ifndef RDMA_READ_REQUESTER_SAMPLE_H
#define RDMA_READ_REQUESTER_SAMPLE_H

#include "options.h"

/* Runs the sample; returns the program's exit status. */
int rdma_read_requester(const struct options *options);

#endif
