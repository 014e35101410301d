#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../../../uroce/core/recv_queue.h"

/* A receive whose pieces have lengths id, id + 1, …. */
static int post(struct ur_recv_queue *queue, uint64_t id, int pieces)
{
	struct ibv_sge sges[UR_MAX_SGE + 1];
	struct ibv_recv_wr wr = { .wr_id = id, .sg_list = sges, .num_sge = pieces };

	for (int i = 0; i < pieces; i++)
		sges[i] = (struct ibv_sge){ .addr = 0x1000 * (id + 1),
					    .length = (uint32_t)id + (uint32_t)i,
					    .lkey = 7 };
	return ur_recv_queue_post(queue, &wr);
}

static void assert_next(struct ur_recv_queue *queue, uint64_t id, unsigned pieces)
{
	struct ur_recv_wqe wqe;

	assert_true(ur_recv_queue_take(queue, &wqe));
	assert_int_equal(wqe.wr_id, id);
	assert_int_equal(wqe.sge_count, pieces);
	for (unsigned i = 0; i < pieces; i++) {
		assert_int_equal(wqe.sges[i].addr, 0x1000 * (id + 1));
		assert_int_equal(wqe.sges[i].length, id + i);
		assert_int_equal(wqe.sges[i].lkey, 7);
	}
}

/* Into a queue of another capacity. */
static int resize(struct ur_recv_queue *queue, uint32_t capacity)
{
	struct ur_recv_queue resized;
	int error;

	assert_int_equal(ur_recv_queue_init(&resized, NULL, UR_BLOCK_SRQ, capacity, queue->max_sge),
			 0);
	error = ur_recv_queue_move(queue, &resized);
	ur_recv_queue_free(&resized);
	return error;
}

static void assert_empty(struct ur_recv_queue *queue)
{
	struct ur_recv_wqe wqe;

	assert_int_equal(queue->count, 0);
	assert_false(ur_recv_queue_take(queue, &wqe));
}

static void test_receives_come_out_in_order_with_their_pieces(void **state)
{
	struct ur_recv_queue queue;

	(void)state;
	assert_int_equal(ur_recv_queue_init(&queue, NULL, UR_BLOCK_RECV_QUEUE, 3, UR_MAX_SGE), 0);
	/* The odd capacity makes the places move against the ids. */
	for (uint64_t id = 0; id < 20; id += 2) {
		assert_int_equal(post(&queue, id, 1 + (int)id % UR_MAX_SGE), 0);
		assert_int_equal(post(&queue, id + 1, 0), 0);
		assert_next(&queue, id, 1 + (unsigned)id % UR_MAX_SGE);
		assert_next(&queue, id + 1, 0);
	}
	assert_empty(&queue);
	ur_recv_queue_free(&queue);
}

static void test_a_full_queue_takes_no_more(void **state)
{
	struct ur_recv_queue queue;

	(void)state;
	assert_int_equal(ur_recv_queue_init(&queue, NULL, UR_BLOCK_RECV_QUEUE, 2, 1), 0);
	assert_int_equal(post(&queue, 1, 1), 0);
	assert_int_equal(post(&queue, 2, 1), 0);
	assert_int_equal(post(&queue, 3, 1), ENOMEM);
	assert_next(&queue, 1, 1);
	assert_int_equal(post(&queue, 3, 1), 0);
	assert_next(&queue, 2, 1);
	assert_next(&queue, 3, 1);
	ur_recv_queue_free(&queue);
}

static void test_a_receive_of_too_many_pieces_is_refused(void **state)
{
	struct ur_recv_queue queue;

	(void)state;
	assert_int_equal(ur_recv_queue_init(&queue, NULL, UR_BLOCK_RECV_QUEUE, 2, 2), 0);
	assert_int_equal(post(&queue, 1, 3), EINVAL);
	assert_int_equal(post(&queue, 1, -1), EINVAL);
	assert_empty(&queue);
	assert_int_equal(post(&queue, 1, 2), 0);
	assert_next(&queue, 1, 2);
	ur_recv_queue_free(&queue);
}

static void test_a_queue_for_nothing_is_always_full(void **state)
{
	struct ur_recv_queue queue;

	(void)state;
	assert_int_equal(ur_recv_queue_init(&queue, NULL, UR_BLOCK_RECV_QUEUE, 0, 0), 0);
	assert_int_equal(post(&queue, 1, 0), ENOMEM);
	assert_empty(&queue);
	ur_recv_queue_free(&queue);
}

static void test_resizing_keeps_the_order(void **state)
{
	struct ur_recv_queue queue;

	(void)state;
	assert_int_equal(ur_recv_queue_init(&queue, NULL, UR_BLOCK_RECV_QUEUE, 4, 2), 0);
	for (uint64_t id = 0; id < 4; id++)
		assert_int_equal(post(&queue, id, 2), 0);
	assert_next(&queue, 0, 2);
	assert_int_equal(post(&queue, 4, 1), 0);
	assert_int_equal(resize(&queue, 6), 0);
	assert_int_equal(queue.capacity, 6);
	assert_int_equal(post(&queue, 5, 2), 0);
	assert_int_equal(post(&queue, 6, 2), 0);
	assert_int_equal(post(&queue, 7, 2), ENOMEM);
	for (uint64_t id = 1; id <= 6; id++)
		assert_next(&queue, id, id == 4 ? 1 : 2);
	ur_recv_queue_free(&queue);
}

static void test_a_queue_is_not_made_smaller_than_what_is_in_it(void **state)
{
	struct ur_recv_queue queue;

	(void)state;
	assert_int_equal(ur_recv_queue_init(&queue, NULL, UR_BLOCK_RECV_QUEUE, 8, 1), 0);
	for (uint64_t id = 0; id < 3; id++)
		assert_int_equal(post(&queue, id, 1), 0);
	assert_int_equal(resize(&queue, 2), EINVAL);
	assert_int_equal(queue.capacity, 8);
	assert_int_equal(resize(&queue, 3), 0);
	assert_int_equal(post(&queue, 3, 1), ENOMEM);
	for (uint64_t id = 0; id < 3; id++)
		assert_next(&queue, id, 1);
	ur_recv_queue_free(&queue);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_receives_come_out_in_order_with_their_pieces),
		cmocka_unit_test(test_a_full_queue_takes_no_more),
		cmocka_unit_test(test_a_receive_of_too_many_pieces_is_refused),
		cmocka_unit_test(test_a_queue_for_nothing_is_always_full),
		cmocka_unit_test(test_resizing_keeps_the_order),
		cmocka_unit_test(test_a_queue_is_not_made_smaller_than_what_is_in_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
