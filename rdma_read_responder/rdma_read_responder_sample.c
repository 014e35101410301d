/*
 * RDMA read responder: has a text in its memory and lets the requester read it. It submits no task:
 * once connected, its device answers by itself, and only the user can say that the requester has
 * finished. (R-READ-2)
 */
#include "rdma_read_responder_sample.h"

#include "sample.h"

/* It submits no task, so it asks nothing of the device. */
#define ANY_DEVICE 0

#define BUFFERS 1 /* an inventory has at least one; none is used */

/*
 * The map and the instance must both permit it: the map for this memory, the instance for this
 * peer.
 */
#define ACCESS RS_ACCESS_REMOTE_READ

static void export_and_connect(struct sample *sample)
{
	sample_export_mmap(sample);
	sample_connect(sample);
}

static void wait_for_requester(struct sample *sample)
{
	sample_wait_for_user(sample, sample_stop);
}

int rdma_read_responder(const struct options *options)
{
	struct sample sample;

	sample_begin(&sample, options);
	sample_open_device(&sample, ANY_DEVICE);
	sample_create_text_mmap(&sample, ACCESS);
	sample_create_progress_engine(&sample);
	sample_create_rdma(&sample, ACCESS);
	sample_start(&sample, export_and_connect, wait_for_requester, BUFFERS);
	sample_run(&sample);
	return sample_end(&sample);
}
