/*
 * RDMA receive on several connections: one instance, whose receives wait in one queue for whatever
 * connection a message comes from first; the completion says which it was. (R-MULTI-2, R-MULTI-3)
 */
#include "rdma_multi_conn_receive_sample.h"

#include "sample.h"

static void on_received(struct rs_task *task, void *sample_data)
{
	struct sample *sample = sample_data;

	sample_check_opcode(sample, task, RS_RECEIVED_SEND);
	sample_print_received_on(sample, "Received on", rs_task_result_connection(task),
				 rs_task_destination(task));
	sample_message_came(rs_task_result_connection(task));
	sample_finish_task(task, sample);
}

/* The receives come first: without them the peer's sends would fail. */
static void receive_and_connect(struct sample *sample)
{
	for (unsigned i = 0; i < sample->options->num_connections; i++)
		sample_submit_receive(sample, i);
	sample_connect(sample);
}

int rdma_multi_conn_receive(const struct options *options)
{
	unsigned count = options->num_connections;
	struct sample sample;

	sample_begin(&sample, options);
	sample_open_device(&sample, RS_OP_BIT(RS_OP_RECEIVE));
	sample_create_room_mmap(&sample, count, RS_ACCESS_LOCAL_READ_WRITE);
	sample_create_progress_engine(&sample);
	sample_create_rdma(&sample, RS_ACCESS_LOCAL_READ_WRITE);
	sample_configure_task(&sample, RS_OP_RECEIVE, on_received, sample_lose_task, count);
	sample_start(&sample, receive_and_connect, sample_wait_for_message, count);
	sample_run(&sample);
	return sample_end(&sample);
}
