/*
 * RDMA receive with immediate: has a receive ready for the peer's message and prints it, and the
 * 32-bit value that came with it. (R-RIMM-1)
 */
#include "rdma_receive_immediate_sample.h"

#include "sample.h"

#define TASKS   1
#define BUFFERS 1

static void on_received(struct rs_task *task, void *sample_data)
{
	struct sample *sample = sample_data;

	sample_check_opcode(sample, task, RS_RECEIVED_SEND_IMMEDIATE);
	sample_print_received(sample, "Received", rs_task_destination(task));
	sample_print_immediate(sample, rs_task_result_immediate(task));
	sample_finish_task(task, sample);
}

/* The receive comes first: without it the peer's send would fail. */
static void receive_and_connect(struct sample *sample)
{
	sample_submit_receive(sample, 0);
	sample_connect(sample);
}

int rdma_receive_immediate(const struct options *options)
{
	struct sample sample;

	sample_begin(&sample, options);
	sample_open_device(&sample, RS_OP_BIT(RS_OP_RECEIVE));
	sample_create_room_mmap(&sample, 1, RS_ACCESS_LOCAL_READ_WRITE);
	sample_create_progress_engine(&sample);
	sample_create_rdma(&sample, RS_ACCESS_LOCAL_READ_WRITE);
	sample_configure_task(&sample, RS_OP_RECEIVE, on_received, sample_fail_task, TASKS);
	sample_start(&sample, receive_and_connect, sample_wait_for_message, BUFFERS);
	sample_run(&sample);
	return sample_end(&sample);
}
