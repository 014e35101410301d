#include "qp_surroundings.h"

#include <errno.h>
#include <string.h>

#define ALL_OPS                                                                                 \
	(IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND | \
	 IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ |                              \
	 IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD |              \
	 IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_BIND_MW |     \
	 IBV_QP_EX_WITH_ATOMIC_WRITE)

#define MAX_WR     4
#define MAX_SGE    2
#define MAX_INLINE 32 /* as much as the pieces take */

static struct ur_qp *qp;
static struct ibv_qp_ex *ex;

static struct ur_qp *create(uint64_t ops)
{
	struct ibv_qp_init_attr_ex attr = surroundings_init_attr();

	attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	attr.send_ops_flags = ops;
	return ur_qp_create(&around.context, &attr);
}

static int setup(void **state)
{
	surroundings_set_up(state);
	qp = create(ALL_OPS);
	ex = &qp->verbs_ex;
	surroundings_bring_to(qp, IBV_QPS_RTS);
	return 0;
}

static int teardown(void **state)
{
	ur_qp_destroy(qp);
	return surroundings_tear_down(state);
}

static const struct ur_send_wqe *posted(uint32_t index)
{
	return ur_send_queue_at(&qp->sq, qp->sq.head + index);
}

static uint32_t posted_count(void)
{
	return qp->sq.tail - qp->sq.head;
}

static void test_work_requests_become_entries_all_at_once(void **state)
{
	struct calls before = around.calls;

	(void)state;
	ibv_wr_start(ex);
	ex->wr_id = 1;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send(ex);
	ibv_wr_set_sge(ex, 11, 1000, 5);
	ex->wr_id = 2;
	ex->wr_flags = IBV_SEND_FENCE | IBV_SEND_SOLICITED;
	ibv_wr_rdma_write(ex, 12, 2000);
	ibv_wr_set_sge(ex, 13, 3000, 6);
	assert_int_equal(posted_count(), 0);
	assert_int_equal(around.calls.transmit, before.transmit);
	assert_int_equal(ibv_wr_complete(ex), 0);

	assert_int_equal(posted_count(), 2);
	assert_int_equal(around.calls.transmit, before.transmit + 1);
	assert_int_equal(around.calls.flush, before.flush + 1);
	assert_int_equal(posted(0)->wr_id, 1);
	assert_int_equal(posted(0)->opcode, IBV_WR_SEND);
	assert_true(posted(0)->signaled);
	assert_false(posted(0)->fence);
	assert_int_equal(posted(0)->sge_count, 1);
	assert_int_equal(posted(0)->sges[0].lkey, 11);
	assert_int_equal(posted(0)->sges[0].addr, 1000);
	assert_int_equal(posted(0)->length, 5);
	assert_int_equal(posted(1)->wr_id, 2);
	assert_int_equal(posted(1)->opcode, IBV_WR_RDMA_WRITE);
	assert_false(posted(1)->signaled);
	assert_true(posted(1)->fence);
	assert_true(posted(1)->solicited);
	assert_int_equal(posted(1)->rkey, 12);
	assert_int_equal(posted(1)->remote_addr, 2000);
	assert_int_equal(posted(1)->length, 6);
}

/* Starts, calls, completes; gives the entry. */
#define POST(call)                                               \
	(ibv_wr_start(ex), call, ibv_wr_set_sge(ex, 1, 1000, 8), \
	 assert_int_equal(ibv_wr_complete(ex), 0), posted(posted_count() - 1))

static void test_each_operation_has_its_opcode_and_its_fields(void **state)
{
	const struct ur_send_wqe *wqe;

	(void)state;
	wqe = POST(ibv_wr_send_imm(ex, 3));
	assert_int_equal(wqe->opcode, IBV_WR_SEND_WITH_IMM);
	assert_int_equal(wqe->imm, 3);
	wqe = POST(ibv_wr_send_inv(ex, 4));
	assert_int_equal(wqe->opcode, IBV_WR_SEND_WITH_INV);
	assert_int_equal(wqe->invalidate_rkey, 4);
	wqe = POST(ibv_wr_local_inv(ex, 5));
	assert_int_equal(wqe->opcode, IBV_WR_LOCAL_INV);
	assert_int_equal(wqe->invalidate_rkey, 5);
	qp->sq.head = qp->sq.tail;
	wqe = POST(ibv_wr_bind_mw(ex, &(struct ibv_mw){ .handle = 2, .type = IBV_MW_TYPE_2 }, 0x203,
				  &(struct ibv_mw_bind_info){ .addr = 4, .length = 5 }));
	assert_int_equal(wqe->opcode, IBV_WR_BIND_MW);
	assert_int_equal(wqe->bind.index, 2);
	assert_int_equal(wqe->bind.generation, 3);
	assert_int_equal(wqe->bind.addr, 4);
	assert_int_equal(wqe->bind.length, 5);
	wqe = POST(ibv_wr_rdma_write_imm(ex, 6, 7, 8));
	assert_int_equal(wqe->opcode, IBV_WR_RDMA_WRITE_WITH_IMM);
	assert_int_equal(wqe->rkey, 6);
	assert_int_equal(wqe->remote_addr, 7);
	assert_int_equal(wqe->imm, 8);
	qp->sq.head = qp->sq.tail;

	wqe = POST(ibv_wr_rdma_read(ex, 9, 10));
	assert_int_equal(wqe->opcode, IBV_WR_RDMA_READ);
	assert_int_equal(wqe->rkey, 9);
	assert_int_equal(wqe->remote_addr, 10);
	wqe = POST(ibv_wr_atomic_cmp_swp(ex, 11, 12, 13, 14));
	assert_int_equal(wqe->opcode, IBV_WR_ATOMIC_CMP_AND_SWP);
	assert_int_equal(wqe->rkey, 11);
	assert_int_equal(wqe->remote_addr, 12);
	assert_int_equal(wqe->compare_or_add, 13);
	assert_int_equal(wqe->swap, 14);
	wqe = POST(ibv_wr_atomic_fetch_add(ex, 15, 16, 17));
	assert_int_equal(wqe->opcode, IBV_WR_ATOMIC_FETCH_AND_ADD);
	assert_int_equal(wqe->rkey, 15);
	assert_int_equal(wqe->remote_addr, 16);
	assert_int_equal(wqe->compare_or_add, 17);
}

static void test_several_pieces_are_gathered(void **state)
{
	const struct ibv_sge sges[MAX_SGE] = { { 1000, 5, 1 }, { 2000, 6, 2 } };

	(void)state;
	ibv_wr_start(ex);
	ibv_wr_send(ex);
	ibv_wr_set_sge_list(ex, MAX_SGE, sges);
	assert_int_equal(ibv_wr_complete(ex), 0);
	assert_int_equal(posted(0)->sge_count, MAX_SGE);
	assert_memory_equal(posted(0)->sges, sges, sizeof(sges));
	assert_int_equal(posted(0)->length, 11);
}

static void test_the_value_of_an_atomic_write_is_copied_at_once(void **state)
{
	uint64_t value = 0x0102030405060708;

	(void)state;
	ibv_wr_start(ex);
	ibv_wr_atomic_write(ex, 5, 6, &value);
	value = 0;
	assert_int_equal(ibv_wr_complete(ex), 0);
	assert_int_equal(posted(0)->opcode, IBV_WR_ATOMIC_WRITE);
	assert_int_equal(posted(0)->rkey, 5);
	assert_int_equal(posted(0)->remote_addr, 6);
	assert_int_equal(posted(0)->length, 8);
	assert_true(posted(0)->is_inline);
	value = 0x0102030405060708;
	assert_memory_equal(posted(0)->inline_data, &value, sizeof(value));
}

static void test_inline_data_is_copied_at_once(void **state)
{
	char one[] = "inline", two[] = " data";
	const struct ibv_data_buf bufs[] = { { one, 6 }, { two, 5 } };

	(void)state;
	ibv_wr_start(ex);
	ibv_wr_send(ex);
	ibv_wr_set_inline_data_list(ex, 2, bufs);
	ibv_wr_rdma_write(ex, 1, 1000);
	ibv_wr_set_inline_data(ex, one, 6);
	memset(one, 0, sizeof(one));
	memset(two, 0, sizeof(two));
	assert_int_equal(ibv_wr_complete(ex), 0);
	assert_true(posted(0)->is_inline);
	assert_int_equal(posted(0)->length, 11);
	assert_memory_equal(posted(0)->inline_data, "inline data", 11);
	assert_int_equal(posted(1)->length, 6);
	assert_memory_equal(posted(1)->inline_data, "inline", 6);
}

static void test_a_message_without_data_is_one(void **state)
{
	(void)state;
	ibv_wr_start(ex);
	ibv_wr_send(ex);
	assert_int_equal(ibv_wr_complete(ex), 0);
	assert_int_equal(posted_count(), 1);
	assert_int_equal(posted(0)->length, 0);
}

/* ---- All or nothing ---- */

static void test_aborted_work_requests_are_forgotten(void **state)
{
	struct calls before = around.calls;

	(void)state;
	ibv_wr_start(ex);
	ibv_wr_send(ex);
	ibv_wr_abort(ex);
	assert_int_equal(posted_count(), 0);
	assert_int_equal(around.calls.transmit, before.transmit);
	ex->wr_id = 7;
	POST(ibv_wr_rdma_read(ex, 1, 2));
	assert_int_equal(posted_count(), 1);
	assert_int_equal(posted(0)->wr_id, 7);
	assert_int_equal(posted(0)->opcode, IBV_WR_RDMA_READ);
}

/* Completes with that error, without an entry; the next work request is fine. */
static void assert_nothing_posted(int error)
{
	uint32_t before = posted_count();
	unsigned transmitted = around.calls.transmit;

	assert_int_equal(ibv_wr_complete(ex), error);
	assert_int_equal(posted_count(), before);
	assert_int_equal(around.calls.transmit, transmitted);
}

static void test_one_that_does_not_fit_takes_all_others_along(void **state)
{
	(void)state;
	POST(ibv_wr_send(ex));
	ibv_wr_start(ex);
	for (int i = 0; i < MAX_WR; i++) {
		ibv_wr_send(ex);
		ibv_wr_set_sge(ex, 1, 1000, 1);
	}
	assert_nothing_posted(ENOMEM);
	ibv_wr_start(ex);
	for (int i = 0; i < MAX_WR - 1; i++)
		ibv_wr_send(ex);
	assert_int_equal(ibv_wr_complete(ex), 0);
	assert_int_equal(posted_count(), MAX_WR);
}

static void test_data_of_one_that_does_not_fit_is_not_put_into_another(void **state)
{
	uint8_t data[MAX_INLINE] = { 0 };

	(void)state;
	for (uint64_t i = 0; i < MAX_WR; i++)
		POST((ex->wr_id = i, ibv_wr_send(ex)));
	ibv_wr_start(ex);
	ibv_wr_rdma_read(ex, 1, 2);
	ibv_wr_set_sge(ex, 9, 9, 9);
	ibv_wr_send(ex);
	ibv_wr_set_inline_data(ex, data, sizeof(data));
	assert_nothing_posted(ENOMEM);
	for (uint32_t i = 0; i < MAX_WR; i++) {
		assert_int_equal(posted(i)->wr_id, i);
		assert_int_equal(posted(i)->opcode, IBV_WR_SEND);
		assert_int_equal(posted(i)->length, 8);
		assert_false(posted(i)->is_inline);
	}
}

static void test_data_that_is_not_right_is_an_error(void **state)
{
	const struct ibv_sge sges[MAX_SGE + 1] = { { 0 } };
	uint8_t data[MAX_INLINE + 1] = { 0 };
	const struct ibv_data_buf bufs[] = { { data, MAX_INLINE }, { data, 1 } };

	(void)state;
	ibv_wr_start(ex);
	ibv_wr_send(ex);
	ibv_wr_set_sge_list(ex, MAX_SGE + 1, sges);
	assert_nothing_posted(EINVAL);

	ibv_wr_start(ex);
	ibv_wr_send(ex);
	ibv_wr_set_inline_data(ex, data, MAX_INLINE + 1);
	assert_nothing_posted(EINVAL);

	ibv_wr_start(ex);
	ibv_wr_send(ex);
	ibv_wr_set_inline_data_list(ex, 2, bufs);
	assert_nothing_posted(EINVAL);

	ibv_wr_start(ex);
	ibv_wr_rdma_read(ex, 1, 2);
	ibv_wr_set_inline_data(ex, data, 1);
	assert_nothing_posted(EINVAL);

	ibv_wr_start(ex);
	ibv_wr_set_sge(ex, 1, 2, 3);
	assert_nothing_posted(EINVAL);

	ibv_wr_start(ex);
	ibv_wr_set_inline_data(ex, data, 1);
	ibv_wr_send(ex);
	assert_nothing_posted(EINVAL);
}

static void test_an_atomic_is_of_8_bytes(void **state)
{
	(void)state;
	ibv_wr_start(ex);
	ibv_wr_atomic_fetch_add(ex, 1, 8, 3);
	ibv_wr_set_sge(ex, 1, 1000, 4);
	ibv_wr_send(ex);
	assert_nothing_posted(EINVAL);

	ibv_wr_start(ex);
	ibv_wr_atomic_cmp_swp(ex, 1, 8, 3, 4);
	assert_nothing_posted(EINVAL);
}

static void test_the_first_error_is_the_one_that_is_told(void **state)
{
	(void)state;
	ibv_wr_start(ex);
	for (int i = 0; i <= MAX_WR; i++)
		ibv_wr_send(ex);
	ibv_wr_set_sge_list(ex, MAX_SGE + 1, NULL);
	assert_nothing_posted(ENOMEM);
}

/* ---- States ---- */

static void test_the_state_counts_when_they_complete(void **state)
{
	(void)state;
	assert_int_equal(surroundings_modify(qp, IBV_QPS_RESET, IBV_QP_STATE), 0);
	ibv_wr_start(ex);
	ibv_wr_send(ex);
	assert_nothing_posted(EINVAL);

	surroundings_bring_to(qp, IBV_QPS_RTS);
	ibv_wr_start(ex);
	ibv_wr_send(ex);
	assert_int_equal(surroundings_modify(qp, IBV_QPS_ERR, IBV_QP_STATE), 0);
	assert_int_equal(ibv_wr_complete(ex), 0);
	assert_int_equal(around.calls.qp_flush, 1);
}

static void test_a_reset_between_start_and_complete_does_no_harm(void **state)
{
	(void)state;
	POST(ibv_wr_send(ex));
	ibv_wr_start(ex);
	ex->wr_id = 1;
	ibv_wr_send(ex);
	assert_int_equal(surroundings_modify(qp, IBV_QPS_RESET, IBV_QP_STATE), 0);
	surroundings_bring_to(qp, IBV_QPS_RTS);
	ex->wr_id = 2;
	ibv_wr_rdma_read(ex, 1, 2);
	assert_int_equal(ibv_wr_complete(ex), 0);
	assert_int_equal(posted_count(), 2);
	assert_int_equal(posted(0)->wr_id, 1);
	assert_int_equal(posted(1)->wr_id, 2);
}

/* ---- Who may ---- */

static void test_others_that_post_wait_for_the_completion(void **state)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND }, *bad_wr = NULL;

	(void)state;
	ibv_wr_start(ex);
	assert_int_not_equal(pthread_mutex_trylock(&qp->builder_lock), 0);
	ibv_wr_abort(ex);
	assert_int_equal(ur_qp_post_send(&qp->verbs, &wr, &bad_wr), 0);
	assert_true(around.builder_locked);
	assert_int_equal(pthread_mutex_trylock(&qp->builder_lock), 0);
	pthread_mutex_unlock(&qp->builder_lock);
}

static void test_the_device_goes_on_between_start_and_complete(void **state)
{
	(void)state;
	ibv_wr_start(ex);
	ibv_wr_send(ex);
	assert_int_equal(pthread_mutex_trylock(&around.device.lock), 0);
	pthread_mutex_unlock(&around.device.lock);
	assert_int_equal(ibv_wr_complete(ex), 0);
	assert_int_equal(pthread_mutex_trylock(&around.device.lock), 0);
	pthread_mutex_unlock(&around.device.lock);
}

static void test_operations_that_are_not_there_cannot_be_asked_for(void **state)
{
	static const uint64_t ops[] = { IBV_QP_EX_WITH_TSO, UINT64_C(1) << 11, UINT64_C(1) << 40 };

	(void)state;
	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
		errno = 0;
		assert_null(create(IBV_QP_EX_WITH_SEND | ops[i]));
		assert_int_equal(errno, EOPNOTSUPP);
	}
	assert_int_equal(around.pd.objects, 1);
}

#define ex_test(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ex_test(test_work_requests_become_entries_all_at_once),
		ex_test(test_each_operation_has_its_opcode_and_its_fields),
		ex_test(test_several_pieces_are_gathered),
		ex_test(test_the_value_of_an_atomic_write_is_copied_at_once),
		ex_test(test_inline_data_is_copied_at_once),
		ex_test(test_a_message_without_data_is_one),
		ex_test(test_aborted_work_requests_are_forgotten),
		ex_test(test_one_that_does_not_fit_takes_all_others_along),
		ex_test(test_data_of_one_that_does_not_fit_is_not_put_into_another),
		ex_test(test_data_that_is_not_right_is_an_error),
		ex_test(test_an_atomic_is_of_8_bytes),
		ex_test(test_the_first_error_is_the_one_that_is_told),
		ex_test(test_the_state_counts_when_they_complete),
		ex_test(test_a_reset_between_start_and_complete_does_no_harm),
		ex_test(test_others_that_post_wait_for_the_completion),
		ex_test(test_the_device_goes_on_between_start_and_complete),
		ex_test(test_operations_that_are_not_there_cannot_be_asked_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
