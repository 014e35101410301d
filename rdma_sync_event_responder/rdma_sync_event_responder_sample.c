/*
 * RDMA sync event responder: has an event that the requester can reach, waits until it is
 * signalled there, answers, and waits for the notice that all is done. It submits no task. (R-SYNC-4)
 */
#include "rdma_sync_event_responder_sample.h"

#include "sample.h"

/* It submits no task, so it asks nothing of the device. */
#define ANY_DEVICE 0

#define BUFFERS 1 /* an inventory has at least one; none is used */

/* The event's values, the same in the requester. */
enum { SIGNALLED = 1, ANSWERED, COMPLETE };

/* The event's memory permits it, the instance must, too. */
#define ACCESS (RS_ACCESS_LOCAL_READ_WRITE | RS_ACCESS_REMOTE_READ | RS_ACCESS_REMOTE_WRITE)

static void export_and_connect(struct sample *sample)
{
	sample_export_event(sample);
	sample_connect(sample);
}

static void answer(struct sample *sample)
{
	if (!sample_has_failed(sample))
		rs_sync_event_set(sample->event, ANSWERED);
	sample_print_value(sample, "Answered the requester", ANSWERED);
}

static void wait_answer_wait(struct sample *sample)
{
	sample_wait_for_event(sample, "Signalled by the requester", SIGNALLED - 1);
	answer(sample);
	sample_wait_for_event(sample, "Ended by the requester", COMPLETE - 1);
	sample_finish(sample);
}

int rdma_sync_event_responder(const struct options *options)
{
	struct sample sample;

	sample_begin(&sample, options);
	sample_open_device(&sample, ANY_DEVICE);
	sample_create_event(&sample);
	sample_create_progress_engine(&sample);
	sample_create_rdma(&sample, ACCESS);
	sample_start(&sample, export_and_connect, wait_answer_wait, BUFFERS);
	sample_run(&sample);
	return sample_end(&sample);
}
