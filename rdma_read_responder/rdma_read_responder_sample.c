/*
 * RDMA read responder: has a text in its memory and lets the requester read it. It submits no task:
 * once connected, its device answers by itself, and only the user can say that the requester has
 * finished. (R-READ-2)
 */
#include "rdma_read_responder_sample.h"

#include <string.h>

#include "sample.h"

/* It submits no task, so it asks nothing of the device. */
#define ANY_DEVICE 0

#define BUFFERS 1 /* an inventory has at least one; none is used */

/*
 * The map and the instance must both permit it: the map for this memory, the instance for this
 * peer.
 */
#define ACCESS RS_ACCESS_REMOTE_READ

static void on_state_changed(struct rs_ctx *ctx, enum rs_ctx_state from, enum rs_ctx_state to,
			     void *sample_data)
{
	struct sample *sample = sample_data;

	(void)ctx;
	sample_log_state(sample, from, to);
	switch (to) {
	case RS_CTX_STARTING:
		sample_export_mmap(sample);
		sample_export_and_connect(sample);
		break;
	case RS_CTX_RUNNING:
		sample_wait_for_user(sample);
		break;
	case RS_CTX_STOPPING: /* the peer is answered no more */
	case RS_CTX_IDLE:     /* ends sample_run */
		break;
	}
}

int rdma_read_responder(const struct options *options)
{
	struct sample sample;

	sample_begin(&sample, options);
	sample_open_device(&sample, ANY_DEVICE);
	strcpy(sample.memory, options->text);
	sample_create_mmap(&sample, strlen(options->text) + 1, ACCESS);
	sample_create_progress_engine(&sample);
	sample_create_rdma(&sample, ACCESS);
	sample_start(&sample, on_state_changed, BUFFERS);
	sample_run(&sample);
	return sample_end(&sample);
}
