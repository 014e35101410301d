#include <errno.h>
#include <stdlib.h>

#include "../../../uroce/core/srq.h"
#include "core_surroundings.h"

static struct ur_srq *srq;
static int result;

static int set_up(void **state)
{
	const struct ibv_srq_attr attr = { .max_wr = 4, .max_sge = 2 };

	if (core_set_up(state) != 0)
		return -1;
	srq = ur_srq_create(core.pd, &core, &attr);
	return srq ? 0 : -1;
}

static int tear_down(void **state)
{
	if (srq && ur_srq_destroy(srq) != 0)
		return -1;
	return core_tear_down(state);
}

/* Posts count receives in one list, with ids from first on. Returns how many were taken. */
static unsigned post(uint64_t first, unsigned count, int error)
{
	struct ibv_recv_wr wrs[16], *bad = NULL;
	struct ibv_sge sge = { .addr = 1, .length = 2, .lkey = 3 };

	assert_in_range(count, 1, 16);
	for (unsigned i = 0; i < count; i++)
		wrs[i] = (struct ibv_recv_wr){ .wr_id = first + i,
					       .next = i + 1 < count ? &wrs[i + 1] : NULL,
					       .sg_list = &sge,
					       .num_sge = 1 };
	assert_int_equal(ur_srq_post(&srq->verbs, wrs, &bad), error);
	return bad ? (unsigned)(bad - wrs) : count;
}

static bool take(uint64_t *id)
{
	struct ur_recv_wqe wqe;
	bool taken;

	pthread_mutex_lock(&core.device.lock);
	taken = ur_srq_take(srq, &wqe);
	pthread_mutex_unlock(&core.device.lock);
	*id = wqe.wr_id;
	return taken;
}

static void assert_next(uint64_t id)
{
	uint64_t taken;

	assert_true(take(&taken));
	assert_int_equal(taken, id);
}

static void assert_empty(void)
{
	uint64_t taken;

	assert_false(take(&taken));
}

static int set_limit(uint32_t limit)
{
	const struct ibv_srq_attr attr = { .srq_limit = limit };

	return ur_srq_modify(srq, &attr, IBV_SRQ_LIMIT);
}

static void assert_attr(uint32_t max_wr, uint32_t max_sge, uint32_t limit)
{
	struct ibv_srq_attr attr;

	assert_int_equal(ur_srq_query(srq, &attr), 0);
	assert_int_equal(attr.max_wr, max_wr);
	assert_int_equal(attr.max_sge, max_sge);
	assert_int_equal(attr.srq_limit, limit);
}

static void test_receives_are_taken_in_the_order_of_posting(void **state)
{
	(void)state;
	assert_empty();
	assert_int_equal(post(1, 2, 0), 2);
	assert_int_equal(post(3, 1, 0), 1);
	for (uint64_t id = 1; id <= 3; id++)
		assert_next(id);
	assert_empty();
}

static void test_the_first_that_is_not_taken_is_reported(void **state)
{
	struct ibv_sge sges[3] = { 0 };
	struct ibv_recv_wr second = { .wr_id = 6, .sg_list = sges, .num_sge = 3 };
	struct ibv_recv_wr first = { .wr_id = 5, .next = &second }, *bad = NULL;

	(void)state;
	assert_int_equal(post(1, 6, ENOMEM), 4);
	assert_next(1);
	assert_next(2);
	assert_int_equal(ur_srq_post(&srq->verbs, &first, &bad), EINVAL);
	assert_ptr_equal(bad, &second);
	assert_next(3);
	assert_next(4);
	assert_next(5);
	assert_empty();
}

static void test_impossible_queues_are_refused(void **state)
{
	static const struct ibv_srq_attr attrs[] = {
		{ .max_wr = 0, .max_sge = 1 },
		{ .max_wr = UR_MAX_WRS + 1, .max_sge = 1 },
		{ .max_wr = 1, .max_sge = UR_MAX_SGE + 1 },
		{ .max_wr = UINT32_MAX, .max_sge = UINT32_MAX },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(attrs) / sizeof(attrs[0]); i++) {
		assert_null(ur_srq_create(core.pd, NULL, &attrs[i]));
		assert_int_equal(errno, EINVAL);
	}
}

static void test_each_queue_has_a_number_of_its_own(void **state)
{
	const struct ibv_srq_attr attr = { .max_wr = UR_MAX_WRS, .max_sge = UR_MAX_SGE };
	struct ur_srq *other = ur_srq_create(core.pd, NULL, &attr);

	(void)state;
	assert_non_null(other);
	assert_int_not_equal(other->number, srq->number);
	assert_int_equal(ur_srq_destroy(other), 0);
}

static void test_the_limit_raises_one_event_when_fewer_are_left(void **state)
{
	(void)state;
	post(1, 4, 0);
	assert_int_equal(set_limit(3), 0);
	assert_attr(4, 2, 3);
	assert_next(1);
	assert_no_event();
	assert_next(2);
	assert_event(IBV_EVENT_SRQ_LIMIT_REACHED, srq);
	assert_attr(4, 2, 0);
	assert_next(3);
	assert_no_event();
	post(5, 2, 0);
	assert_int_equal(set_limit(1), 0);
	assert_next(4);
	assert_next(5);
	assert_no_event();
	assert_next(6);
	assert_event(IBV_EVENT_SRQ_LIMIT_REACHED, srq);
}

static void test_a_limit_that_is_not_reached_raises_its_event_at_once(void **state)
{
	(void)state;
	post(1, 1, 0);
	assert_int_equal(set_limit(2), 0);
	assert_event(IBV_EVENT_SRQ_LIMIT_REACHED, srq);
	assert_attr(4, 2, 0);
}

static void test_a_limit_can_be_taken_back(void **state)
{
	(void)state;
	post(1, 2, 0);
	assert_int_equal(set_limit(2), 0);
	assert_int_equal(set_limit(0), 0);
	assert_next(1);
	assert_no_event();
}

static void test_resizing_keeps_receives_and_limit(void **state)
{
	const struct ibv_srq_attr attr = { .max_wr = 6 };

	(void)state;
	post(1, 4, 0);
	assert_int_equal(set_limit(2), 0);
	assert_int_equal(ur_srq_modify(srq, &attr, IBV_SRQ_MAX_WR), 0);
	assert_attr(6, 2, 2);
	assert_int_equal(post(5, 3, ENOMEM), 2);
	for (uint64_t id = 1; id <= 6; id++)
		assert_next(id);
	assert_event(IBV_EVENT_SRQ_LIMIT_REACHED, srq);
}

static void test_an_impossible_change_changes_nothing(void **state)
{
	static const struct {
		struct ibv_srq_attr attr;
		int mask;
	} changes[] = {
		{ { .max_wr = 2, .srq_limit = 1 }, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT },
		{ { .max_wr = 8, .srq_limit = 9 }, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT },
		{ { .max_wr = UR_MAX_WRS + 1 }, IBV_SRQ_MAX_WR },
		{ { .max_wr = 0 }, IBV_SRQ_MAX_WR },
		{ { .srq_limit = 5 }, IBV_SRQ_LIMIT },
		{ { .max_wr = 8, .srq_limit = 1 }, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT | 4 },
	};

	(void)state;
	post(1, 3, 0);
	assert_int_equal(set_limit(3), 0);
	for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
		assert_int_equal(ur_srq_modify(srq, &changes[i].attr, changes[i].mask), EINVAL);
		assert_attr(4, 2, 3);
	}
	assert_no_event();
	/* A limit above the capacity that is to come. */
	assert_int_equal(ur_srq_modify(srq, &(struct ibv_srq_attr){ .max_wr = 3, .srq_limit = 3 },
				       IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT),
			 0);
	assert_attr(3, 2, 3);
}

static void test_a_queue_in_use_is_not_destroyed(void **state)
{
	(void)state;
	atomic_fetch_add(&srq->objects, 1);
	assert_int_equal(ur_srq_destroy(srq), EBUSY);
	atomic_fetch_sub(&srq->objects, 1);
	assert_int_equal(ur_pd_dealloc(core.pd), EBUSY);
}

static void test_a_queue_that_goes_takes_its_unread_event_along(void **state)
{
	(void)state;
	assert_int_equal(set_limit(1), 0);
	assert_int_equal(ur_srq_destroy(srq), 0);
	srq = NULL;
	assert_no_event();
}

static void destroy(void)
{
	result = ur_srq_destroy(srq);
}

static void test_a_queue_goes_when_its_events_are_acknowledged(void **state)
{
	struct ibv_async_event event;
	struct sleeper sleeper;

	(void)state;
	assert_int_equal(set_limit(1), 0);
	assert_int_equal(ur_async_get(core.context, &event), 0);
	sleeper_start(&sleeper, destroy);
	assert_sleeps(&sleeper);
	ur_async_acknowledge(core.context, &event);
	sleeper_join(&sleeper);
	assert_int_equal(result, 0);
	srq = NULL;
}

#define srq_test(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		srq_test(test_receives_are_taken_in_the_order_of_posting),
		srq_test(test_the_first_that_is_not_taken_is_reported),
		srq_test(test_impossible_queues_are_refused),
		srq_test(test_each_queue_has_a_number_of_its_own),
		srq_test(test_the_limit_raises_one_event_when_fewer_are_left),
		srq_test(test_a_limit_that_is_not_reached_raises_its_event_at_once),
		srq_test(test_a_limit_can_be_taken_back),
		srq_test(test_resizing_keeps_receives_and_limit),
		srq_test(test_an_impossible_change_changes_nothing),
		srq_test(test_a_queue_in_use_is_not_destroyed),
		srq_test(test_a_queue_that_goes_takes_its_unread_event_along),
		srq_test(test_a_queue_goes_when_its_events_are_acknowledged),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
