#ifndef RDMA_ATOMIC_RESPONDER_SAMPLE_H
#define RDMA_ATOMIC_RESPONDER_SAMPLE_H

#include "options.h"

/* Runs the sample; returns the program's exit status. */
int rdma_atomic_responder(const struct options *options);

#endif
