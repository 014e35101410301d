#ifndef RDMA_SYNC_EVENT_REQUESTER_SAMPLE_H
#define RDMA_SYNC_EVENT_REQUESTER_SAMPLE_H

#include "options.h"

/* Runs the sample; returns the program's exit status. */
int rdma_sync_event_requester(const struct options *options);

#endif
