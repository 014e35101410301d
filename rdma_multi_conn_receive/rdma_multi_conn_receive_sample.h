#ifndef RDMA_MULTI_CONN_RECEIVE_SAMPLE_H
#define RDMA_MULTI_CONN_RECEIVE_SAMPLE_H

#include "options.h"

/* Runs the sample; returns the program's exit status. */
int rdma_multi_conn_receive(const struct options *options);

#endif
