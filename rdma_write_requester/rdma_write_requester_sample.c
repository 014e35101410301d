/*
 * RDMA write requester: copies its text into the responder's memory. The responder's CPU takes no
 * part in it, and is not told. (R-WRITE-1)
 */
#include "rdma_write_requester_sample.h"

#include "sample.h"

#define TASKS   1
#define BUFFERS 2 /* our own memory, and the responder's */

static void on_write_done(struct rs_task *task, void *sample_data)
{
	sample_print_own_text(sample_data, "Wrote to the responder");
	sample_finish_task(task, sample_data);
}

/* The source is local, the destination is the peer's memory. */
static void submit_write(struct sample *sample)
{
	struct rs_buf *source, *destination;
	struct rs_task *task;
	enum rs_status status;

	sample_import_mmap(sample);
	source = sample_text_data(sample);
	destination = sample_remote_room(sample);
	status = rs_task_alloc_write(sample->rdma, sample->connections[0], source, destination,
				     &sample->remaining_tasks, &task);
	sample_submit(sample, status, task, source, destination);
}

int rdma_write_requester(const struct options *options)
{
	struct sample sample;

	sample_begin(&sample, options);
	sample_open_device(&sample, RS_OP_BIT(RS_OP_WRITE));
	sample_create_text_mmap(&sample, RS_ACCESS_LOCAL_READ_WRITE);
	sample_create_progress_engine(&sample);
	sample_create_rdma(&sample, RS_ACCESS_LOCAL_READ_WRITE);
	sample_configure_task(&sample, RS_OP_WRITE, on_write_done, sample_fail_task, TASKS);
	sample_start(&sample, sample_connect, submit_write, BUFFERS);
	sample_run(&sample);
	return sample_end(&sample);
}
