/*
 * RDMA write responder: lets the requester write into its memory. It submits no task and hears of
 * nothing: only the user can say that the requester has finished. Then it prints what is there.
 * (R-WRITE-2)
 */
#include "rdma_write_responder_sample.h"

#include "sample.h"

/* It submits no task, so it asks nothing of the device. */
#define ANY_DEVICE 0

#define BUFFERS 1 /* an inventory has at least one; none is used */

/*
 * The map and the instance must both permit it. What a peer may write, the device must be able to
 * write for this side as well.
 */
#define ACCESS (RS_ACCESS_LOCAL_READ_WRITE | RS_ACCESS_REMOTE_WRITE)

static void export_and_connect(struct sample *sample)
{
	sample_export_mmap(sample);
	sample_connect(sample);
}

static void on_requester_finished(struct sample *sample)
{
	sample_print_written(sample, "Written by the requester", SAMPLE_TEXT_SIZE);
	sample_stop(sample);
}

static void wait_for_requester(struct sample *sample)
{
	sample_wait_for_user(sample, on_requester_finished);
}

int rdma_write_responder(const struct options *options)
{
	struct sample sample;

	sample_begin(&sample, options);
	sample_open_device(&sample, ANY_DEVICE);
	sample_create_room_mmap(&sample, 1, ACCESS);
	sample_create_progress_engine(&sample);
	sample_create_rdma(&sample, ACCESS);
	sample_start(&sample, export_and_connect, wait_for_requester, BUFFERS);
	sample_run(&sample);
	return sample_end(&sample);
}
