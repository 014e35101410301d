/*
 * RDMA atomic responder: has a counter in its memory and lets the requester change it. It submits
 * no task and hears of nothing: only the user can say that the requester has finished. Then it
 * prints the counter.
 */
#include "rdma_atomic_responder_sample.h"

#include "sample.h"

#define BUFFERS 1 /* an inventory has at least one; none is used */

/* The word of our memory, and what it holds at first. */
enum { COUNTER, WORDS };
#define INITIAL 100

/*
 * The map and the instance must both permit it. What a peer may change, the device must be able to
 * write for this side as well.
 */
#define ACCESS (RS_ACCESS_LOCAL_READ_WRITE | RS_ACCESS_REMOTE_ATOMIC)

static void export_and_connect(struct sample *sample)
{
	sample_set_word(sample, COUNTER, INITIAL);
	sample_export_mmap(sample);
	sample_connect(sample);
}

static void on_requester_finished(struct sample *sample)
{
	sample_print_value(sample, "Counter at the end", sample_word(sample, COUNTER));
	sample_stop(sample);
}

static void wait_for_requester(struct sample *sample)
{
	sample_wait_for_user(sample, on_requester_finished);
}

int rdma_atomic_responder(const struct options *options)
{
	struct sample sample;

	sample_begin(&sample, options);
	/* It submits none, but its device must serve them. */
	sample_open_device(&sample,
			   RS_OP_BIT(RS_OP_FETCH_AND_ADD) | RS_OP_BIT(RS_OP_COMPARE_AND_SWAP));
	sample_create_word_mmap(&sample, WORDS, ACCESS);
	sample_create_progress_engine(&sample);
	sample_create_rdma(&sample, ACCESS);
	sample_start(&sample, export_and_connect, wait_for_requester, BUFFERS);
	sample_run(&sample);
	return sample_end(&sample);
}
