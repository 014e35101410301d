#ifndef RDMA_CM_SERVER_SAMPLE_H
#define RDMA_CM_SERVER_SAMPLE_H

#include "options.h"

/* Runs the sample; returns the program's exit status. */
int rdma_cm_server(const struct options *options);

#endif
