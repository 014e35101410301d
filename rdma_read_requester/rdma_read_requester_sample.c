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
	struct sample *sample = sample_data;

	sample_print_received(sample, "Read from the responder", rs_task_destination(task));
	sample_finish_task(sample, task);
}

static void on_read_failed(struct rs_task *task, void *sample_data)
{
	sample_fail_task(sample_data, task);
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
	destination = sample_local_room(sample);
	status = rs_task_alloc_read(sample->rdma, sample->connection, source, destination,
				    &sample->remaining_tasks, &task);
	sample_submit(sample, status, task, source, destination);
}

static void on_state_changed(struct rs_ctx *ctx, enum rs_ctx_state from, enum rs_ctx_state to,
			     void *sample_data)
{
	struct sample *sample = sample_data;

	(void)ctx;
	sample_log_state(sample, from, to);
	switch (to) {
	case RS_CTX_STARTING:
		sample_export_and_connect(sample);
		break;
	case RS_CTX_RUNNING:
		submit_read(sample);
		break;
	case RS_CTX_STOPPING: /* what is in flight comes back as failed */
	case RS_CTX_IDLE:     /* ends sample_run */
		break;
	}
}

int rdma_read_requester(const struct options *options)
{
	struct sample sample;

	sample_begin(&sample, options);
	sample_open_device(&sample, RS_OP_BIT(RS_OP_READ));
	sample_create_mmap(&sample, SAMPLE_MEMORY_SIZE, RS_ACCESS_LOCAL_READ_WRITE);
	sample_create_progress_engine(&sample);
	sample_create_rdma(&sample, RS_ACCESS_LOCAL_READ_WRITE);
	sample_configure_task(&sample, RS_OP_READ, on_read_done, on_read_failed, TASKS);
	sample_start(&sample, on_state_changed, BUFFERS);
	sample_run(&sample);
	return sample_end(&sample);
}
