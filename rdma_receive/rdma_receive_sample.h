#ifndef RDMA_RECEIVE_SAMPLE_H
#define RDMA_RECEIVE_SAMPLE_H

#include "options.h"

/* Runs the sample; returns the program's exit status. */
int rdma_receive(const struct options *options);

#endif
