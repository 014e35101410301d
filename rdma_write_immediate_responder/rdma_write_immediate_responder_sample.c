/*
 * RDMA write with immediate responder: lets the requester write into its memory, and has a receive
 * ready, which the immediate value completes. (R-WIMM-2)
 */
#include "rdma_write_immediate_responder_sample.h"

#include "sample.h"

#define TASKS   1
#define BUFFERS 1 /* for a message; a write with immediate goes to the memory that it names */

/* The map and the instance must both permit it. */
#define ACCESS (RS_ACCESS_LOCAL_READ_WRITE | RS_ACCESS_REMOTE_WRITE)

static void on_received(struct rs_task *task, void *sample_data)
{
	struct sample *sample = sample_data;

	sample_check_opcode(sample, task, RS_RECEIVED_WRITE_IMMEDIATE);
	sample_print_written(sample, "Written by the requester", rs_task_result_length(task));
	sample_print_immediate(sample, rs_task_result_immediate(task));
	sample_finish_task(task, sample);
}

/* The receive comes first: without it the requester's write would fail. */
static void receive_and_connect(struct sample *sample)
{
	sample_submit_receive(sample, 0);
	sample_export_mmap(sample);
	sample_connect(sample);
}

int rdma_write_immediate_responder(const struct options *options)
{
	struct sample sample;

	sample_begin(&sample, options);
	sample_open_device(&sample, RS_OP_BIT(RS_OP_RECEIVE));
	sample_create_room_mmap(&sample, 1, ACCESS);
	sample_create_progress_engine(&sample);
	sample_create_rdma(&sample, ACCESS);
	sample_configure_task(&sample, RS_OP_RECEIVE, on_received, sample_fail_task, TASKS);
	sample_start(&sample, receive_and_connect, sample_wait_for_message, BUFFERS);
	sample_run(&sample);
	return sample_end(&sample);
}
