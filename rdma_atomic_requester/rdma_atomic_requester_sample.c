/*
 * RDMA atomic requester: changes a counter in the responder's memory by fetch-and-add, then by
 * compare-and-swap. Each returns the value from before, and no other atomic comes in between.
 */
#include "rdma_atomic_requester_sample.h"

#include "sample.h"

#define TASKS   1 /* of each type */
#define BUFFERS 4 /* for each task: the responder's counter, and our word for its old value */

/* The words of our memory. */
enum { ADDED_TO, SWAPPED, WORDS };

#define ADD  1
#define SWAP 1000

/* Takes the value that the addition left for what is there, and replaces just that. */
static void submit_compare_and_swap(struct sample *sample)
{
	struct rs_buf *target = sample_remote_data(sample);
	struct rs_buf *destination = sample_local_room(sample, SWAPPED, sizeof(uint64_t));
	struct rs_task *task;
	enum rs_status status;

	status = rs_task_alloc_compare_and_swap(sample->rdma, sample->connections[0], target,
						destination, sample_word(sample, ADDED_TO) + ADD,
						SWAP, &sample->remaining_tasks, &task);
	sample_submit(sample, status, task, target, destination);
}

static void on_added(struct rs_task *task, void *sample_data)
{
	struct sample *sample = sample_data;

	sample_print_value(sample, "Counter before fetch-and-add", sample_word(sample, ADDED_TO));
	submit_compare_and_swap(sample);
	sample_finish_task(task, sample);
}

static void on_swapped(struct rs_task *task, void *sample_data)
{
	struct sample *sample = sample_data;

	sample_print_value(sample, "Counter before compare-and-swap", sample_word(sample, SWAPPED));
	sample_finish_task(task, sample);
}

static void submit_fetch_and_add(struct sample *sample)
{
	struct rs_buf *target, *destination;
	struct rs_task *task;
	enum rs_status status;

	sample_import_mmap(sample);
	target = sample_remote_data(sample);
	destination = sample_local_room(sample, ADDED_TO, sizeof(uint64_t));
	status = rs_task_alloc_fetch_and_add(sample->rdma, sample->connections[0], target,
					     destination, ADD, &sample->remaining_tasks, &task);
	sample_submit(sample, status, task, target, destination);
}

int rdma_atomic_requester(const struct options *options)
{
	struct sample sample;

	sample_begin(&sample, options);
	sample_open_device(&sample,
			   RS_OP_BIT(RS_OP_FETCH_AND_ADD) | RS_OP_BIT(RS_OP_COMPARE_AND_SWAP));
	sample_create_word_mmap(&sample, WORDS, RS_ACCESS_LOCAL_READ_WRITE);
	sample_create_progress_engine(&sample);
	sample_create_rdma(&sample, RS_ACCESS_LOCAL_READ_WRITE);
	sample_configure_task(&sample, RS_OP_FETCH_AND_ADD, on_added, sample_fail_task, TASKS);
	sample_configure_task(&sample, RS_OP_COMPARE_AND_SWAP, on_swapped, sample_fail_task, TASKS);
	sample_start(&sample, sample_connect, submit_fetch_and_add, BUFFERS);
	sample_run(&sample);
	return sample_end(&sample);
}
