/*
 * RDMA read requester: copies the responder's memory into its own. The responder's CPU takes no
 * part in it: its device answers. (R-READ-1)
 */
#include "rdma_read_requester_sample.h"

#include "sample.h"

#define TASKS   1
#define BUFFERS 2 /* the responder's memory, and our own */

static void on_read_done(struct rs_task *task, void *sample_data)
{
	sample_print_received(sample_data, "Read from the responder", rs_task_destination(task));
	sample_finish_task(task, sample_data);
}

/*
 * The source is the peer's memory, the destination is local: the data flows towards the one who
 * asks.
 */
static void submit_read(struct sample *sample)
{
	struct rs_buf *source, *destination;
	struct rs_task *task;
	enum rs_status status;

	sample_import_mmap(sample);
	source = sample_remote_data(sample);
	destination = sample_local_room(sample, 0, SAMPLE_TEXT_SIZE);
	status = rs_task_alloc_read(sample->rdma, sample->connections[0], source, destination,
				    &sample->remaining_tasks, &task);
	sample_submit(sample, status, task, source, destination);
}

int rdma_read_requester(const struct options *options)
{
	struct sample sample;

	sample_begin(&sample, options);
	sample_open_device(&sample, RS_OP_BIT(RS_OP_READ));
	sample_create_room_mmap(&sample, 1, RS_ACCESS_LOCAL_READ_WRITE);
	sample_create_progress_engine(&sample);
	sample_create_rdma(&sample, RS_ACCESS_LOCAL_READ_WRITE);
	sample_configure_task(&sample, RS_OP_READ, on_read_done, sample_fail_task, TASKS);
	sample_start(&sample, sample_connect, submit_read, BUFFERS);
	sample_run(&sample);
	return sample_end(&sample);
}
