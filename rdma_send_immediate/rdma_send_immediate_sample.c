/*
 * RDMA send with immediate: sends its text as a message, and with it a 32-bit value that the peer
 * gets with the completion, not in the data. (R-SIMM-1)
 */
#include "rdma_send_immediate_sample.h"

#include "sample.h"

#define TASKS   1
#define BUFFERS 1

static void submit_send(struct sample *sample)
{
	struct rs_buf *source = sample_text_data(sample);
	struct rs_task *task;
	enum rs_status status;

	sample_print_own_text(sample, "Sending");
	sample_print_immediate(sample, sample->options->immediate);
	status = rs_task_alloc_send_immediate(sample->rdma, sample->connections[0], source,
					      sample->options->immediate, &sample->remaining_tasks,
					      &task);
	sample_submit(sample, status, task, source, NULL);
}

int rdma_send_immediate(const struct options *options)
{
	struct sample sample;

	sample_begin(&sample, options);
	sample_open_device(&sample, RS_OP_BIT(RS_OP_SEND_IMMEDIATE));
	sample_create_text_mmap(&sample, RS_ACCESS_LOCAL_READ_WRITE);
	sample_create_progress_engine(&sample);
	sample_create_rdma(&sample, RS_ACCESS_LOCAL_READ_WRITE);
	sample_configure_task(&sample, RS_OP_SEND_IMMEDIATE, sample_finish_task, sample_fail_task,
			      TASKS);
	sample_start(&sample, sample_connect, submit_send, BUFFERS);
	sample_run(&sample);
	return sample_end(&sample);
}
