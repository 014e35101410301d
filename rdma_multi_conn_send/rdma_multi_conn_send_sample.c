/*
 * RDMA send on several connections: one instance, a queue pair for each connection, and its text
 * sent on each. (R-MULTI-2, R-MULTI-3)
 */
#include "rdma_multi_conn_send_sample.h"

#include "sample.h"

#define SENDS_PER_CONNECTION 1

static void submit_send(struct sample *sample, struct rs_connection *connection)
{
	struct rs_buf *source = sample_text_data(sample);
	struct rs_task *task;
	enum rs_status status;

	sample_print_own_text_on(sample, "Sending on", connection);
	status = rs_task_alloc_send(sample->rdma, connection, source, &sample->remaining_tasks,
				    &task);
	sample_submit(sample, status, task, source, NULL);
}

static void submit_sends(struct sample *sample)
{
	for (unsigned i = 0; i < sample->options->num_connections; i++)
		submit_send(sample, sample->connections[i]);
}

int rdma_multi_conn_send(const struct options *options)
{
	unsigned count = options->num_connections;
	struct sample sample;

	sample_begin(&sample, options);
	sample_open_device(&sample, RS_OP_BIT(RS_OP_SEND));
	sample_create_text_mmap(&sample, RS_ACCESS_LOCAL_READ_WRITE);
	sample_create_progress_engine(&sample);
	sample_create_rdma(&sample, RS_ACCESS_LOCAL_READ_WRITE);
	sample_configure_task(&sample, RS_OP_SEND, sample_finish_task, sample_lose_task, count);
	sample_limit_sends(&sample, SENDS_PER_CONNECTION);
	sample_start(&sample, sample_connect, submit_sends, count);
	sample_run(&sample);
	return sample_end(&sample);
}
