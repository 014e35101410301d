/*
 * RDMA sync event requester: sets the responder's event to signal it, gets the event until the
 * responder has answered there, and sets it once more to say that all is done. (R-SYNC-1 to 3)
 */
#include "rdma_sync_event_requester_sample.h"

#include "sample.h"

#define TASKS   1 /* of each type */
#define BUFFERS 2 /* one for each task */

/* The event's values, the same in the responder. */
enum { SIGNALLED = 1, ANSWERED, COMPLETE };

/* The words of our memory. */
enum { TO_SET, GOT, WORDS };

/* While a get is still to come, the set is kept: it will be needed, or freed, then. */
static void end_set(struct sample *sample, struct rs_task *set)
{
	if (sample->remaining_tasks == 1)
		sample_free_task(set);
	sample_count_down(sample);
}

static void on_set_done(struct rs_task *set, void *sample_data)
{
	struct sample *sample = sample_data;

	sample_print_value(sample, rs_task_user_data(set), sample_word(sample, TO_SET));
	end_set(sample, set);
}

static void on_set_failed(struct rs_task *set, void *sample_data)
{
	sample_record(sample_data, rs_task_status(set));
	end_set(sample_data, set);
}

/* Sets once more, with another value and another message. */
static bool set_complete(struct sample *sample, struct rs_task *set)
{
	sample_set_word(sample, TO_SET, COMPLETE);
	rs_task_set_user_data(set, "Set the responder's event to end it");
	if (!sample_submit_again(sample, set))
		return false;
	sample->remaining_tasks++;
	return true;
}

static void end_get(struct sample *sample, struct rs_task *get, bool set_is_submitted)
{
	if (!set_is_submitted)
		sample_free_task(rs_task_user_data(get));
	sample_free_task(get);
	sample_count_down(sample);
}

static void on_get_done(struct rs_task *get, void *sample_data)
{
	struct sample *sample = sample_data;
	uint64_t value = sample_word(sample, GOT);

	if (value < ANSWERED) {
		sample_pause(sample);
		if (!sample_submit_again(sample, get))
			end_get(sample, get, false);
		return;
	}
	sample_print_value(sample, "Got the responder's answer", value);
	end_get(sample, get, set_complete(sample, rs_task_user_data(get)));
}

static void on_get_failed(struct rs_task *get, void *sample_data)
{
	sample_record(sample_data, rs_task_status(get));
	end_get(sample_data, get, false);
}

static struct rs_task *submit_set(struct sample *sample)
{
	struct rs_buf *source = sample_local_data(sample, TO_SET, sizeof(uint64_t));
	struct rs_task *task = NULL;
	enum rs_status status;

	sample_set_word(sample, TO_SET, SIGNALLED);
	status = rs_task_alloc_event_set(sample->rdma, sample->connections[0], sample->remote_event,
					 source, "Set the responder's event to signal it", &task);
	sample_submit(sample, status, task, source, NULL);
	return task;
}

/* Behind the set on the same connection, so it never gets what was there before. */
static void submit_get(struct sample *sample, struct rs_task *set)
{
	struct rs_buf *destination = sample_local_room(sample, GOT, sizeof(uint64_t));
	struct rs_task *task;
	enum rs_status status;

	status = rs_task_alloc_event_get(sample->rdma, sample->connections[0], sample->remote_event,
					 destination, set, &task);
	sample_submit(sample, status, task, NULL, destination);
}

static void submit_set_and_get(struct sample *sample)
{
	sample_import_event(sample);
	submit_get(sample, submit_set(sample));
}

int rdma_sync_event_requester(const struct options *options)
{
	struct sample sample;

	sample_begin(&sample, options);
	sample_open_device(&sample, RS_OP_BIT(RS_OP_EVENT_GET) | RS_OP_BIT(RS_OP_EVENT_SET));
	sample_create_word_mmap(&sample, WORDS, RS_ACCESS_LOCAL_READ_WRITE);
	sample_create_progress_engine(&sample);
	sample_create_rdma(&sample, RS_ACCESS_LOCAL_READ_WRITE);
	sample_configure_task(&sample, RS_OP_EVENT_SET, on_set_done, on_set_failed, TASKS);
	sample_configure_task(&sample, RS_OP_EVENT_GET, on_get_done, on_get_failed, TASKS);
	sample_start(&sample, sample_connect, submit_set_and_get, BUFFERS);
	sample_run(&sample);
	return sample_end(&sample);
}
