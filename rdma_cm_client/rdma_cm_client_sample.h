#ifndef RDMA_CM_CLIENT_SAMPLE_H
#define RDMA_CM_CLIENT_SAMPLE_H

#include "options.h"

/* Runs the sample; returns the program's exit status. */
int rdma_cm_client(const struct options *options);

#endif
