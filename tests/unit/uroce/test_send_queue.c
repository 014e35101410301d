#include "../../../uroce/core/send_queue.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#define MAX_WR     5
#define MAX_SGE    3
#define MAX_INLINE 32

static struct ur_send_queue queue;

static int setup(void **state)
{
	const struct ibv_qp_cap cap = { .max_send_wr = MAX_WR,
					.max_send_sge = MAX_SGE,
					.max_inline_data = MAX_INLINE };

	(void)state;
	return ur_send_queue_init(&queue, NULL, &cap);
}

static int teardown(void **state)
{
	(void)state;
	ur_send_queue_free(&queue);
	return 0;
}

static const struct ur_send_wqe *filled(uint32_t ahead)
{
	return ur_send_queue_at(&queue, queue.tail + ahead);
}

static int fill(const struct ibv_send_wr *wr)
{
	return ur_send_queue_fill(&queue, 0, wr, false);
}

static void post(uint64_t wr_id)
{
	const struct ibv_send_wr wr = { .wr_id = wr_id, .opcode = IBV_WR_SEND };

	assert_int_equal(fill(&wr), 0);
	queue.tail++;
}

static void test_an_entry_has_all_that_the_work_request_says(void **state)
{
	struct ibv_sge sges[2] = { { .addr = 1000, .length = 5, .lkey = 7 },
				   { .addr = 2000, .length = 6, .lkey = 8 } };
	const struct ibv_send_wr wr = { .wr_id = 42,
					.sg_list = sges,
					.num_sge = 2,
					.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
					.send_flags = IBV_SEND_SIGNALED | IBV_SEND_FENCE |
						      IBV_SEND_SOLICITED,
					.imm_data = 0x01020304,
					.wr.rdma = { .remote_addr = 3000, .rkey = 9 } };
	const struct ur_send_wqe *wqe = filled(0);

	(void)state;
	assert_int_equal(fill(&wr), 0);
	assert_int_equal(wqe->wr_id, 42);
	assert_int_equal(wqe->opcode, IBV_WR_RDMA_WRITE_WITH_IMM);
	assert_true(wqe->signaled);
	assert_true(wqe->fence);
	assert_true(wqe->solicited);
	assert_int_equal(wqe->imm, 0x01020304);
	assert_int_equal(wqe->remote_addr, 3000);
	assert_int_equal(wqe->rkey, 9);
	assert_int_equal(wqe->sge_count, 2);
	assert_memory_equal(wqe->sges, sges, sizeof(sges));
	assert_int_equal(wqe->length, 11);
	assert_false(wqe->is_inline);
	assert_int_equal(queue.tail, 0);
}

static void test_an_entry_keeps_nothing_of_the_one_before_in_its_place(void **state)
{
	uint64_t data = 1;
	struct ibv_sge sge = { .addr = (uintptr_t)&data, .length = sizeof(data) };
	const struct ibv_send_wr before = { .sg_list = &sge,
					    .num_sge = 1,
					    .opcode = IBV_WR_SEND,
					    .send_flags = IBV_SEND_SIGNALED | IBV_SEND_FENCE |
							  IBV_SEND_SOLICITED | IBV_SEND_INLINE };
	const struct ibv_send_wr after = { .opcode = IBV_WR_SEND };
	const struct ur_send_wqe *wqe = filled(0);

	(void)state;
	assert_int_equal(fill(&before), 0);
	assert_int_equal(fill(&before), 0);
	assert_true(wqe->is_inline);
	assert_int_equal(wqe->length, sizeof(data));
	assert_int_equal(fill(&after), 0);
	assert_false(wqe->signaled);
	assert_false(wqe->fence);
	assert_false(wqe->solicited);
	assert_false(wqe->is_inline);
	assert_int_equal(wqe->length, 0);
	assert_int_equal(wqe->sge_count, 0);
}

static void test_a_queue_that_signals_all_does(void **state)
{
	const struct ibv_send_wr wr = { .opcode = IBV_WR_SEND };

	(void)state;
	assert_int_equal(ur_send_queue_fill(&queue, 0, &wr, true), 0);
	assert_true(filled(0)->signaled);
	assert_int_equal(ur_send_queue_fill(&queue, 0, &wr, false), 0);
	assert_false(filled(0)->signaled);
}

static void test_each_opcode_has_its_own_fields(void **state)
{
	struct ibv_sge sge = { .addr = 1000, .length = 8 };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1 };
	const struct ur_send_wqe *wqe = filled(0);

	(void)state;
	wr.opcode = IBV_WR_SEND_WITH_IMM;
	wr.imm_data = 5;
	assert_int_equal(fill(&wr), 0);
	assert_int_equal(wqe->imm, 5);

	wr.opcode = IBV_WR_SEND_WITH_INV;
	wr.invalidate_rkey = 6;
	assert_int_equal(fill(&wr), 0);
	assert_int_equal(wqe->invalidate_rkey, 6);

	wr.opcode = IBV_WR_LOCAL_INV;
	wr.invalidate_rkey = 7;
	assert_int_equal(fill(&wr), 0);
	assert_int_equal(wqe->invalidate_rkey, 7);

	wr.opcode = IBV_WR_RDMA_READ;
	wr.wr.rdma.remote_addr = 8;
	wr.wr.rdma.rkey = 9;
	assert_int_equal(fill(&wr), 0);
	assert_int_equal(wqe->remote_addr, 8);
	assert_int_equal(wqe->rkey, 9);

	wr.opcode = IBV_WR_RDMA_WRITE;
	wr.wr.rdma.remote_addr = 10;
	wr.wr.rdma.rkey = 11;
	assert_int_equal(fill(&wr), 0);
	assert_int_equal(wqe->remote_addr, 10);
	assert_int_equal(wqe->rkey, 11);

	wr.opcode = IBV_WR_ATOMIC_WRITE;
	wr.wr.rdma.remote_addr = 20;
	wr.wr.rdma.rkey = 21;
	assert_int_equal(fill(&wr), 0);
	assert_int_equal(wqe->remote_addr, 20);
	assert_int_equal(wqe->rkey, 21);

	wr.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
	wr.wr.atomic.remote_addr = 12;
	wr.wr.atomic.rkey = 13;
	wr.wr.atomic.compare_add = 14;
	wr.wr.atomic.swap = 15;
	assert_int_equal(fill(&wr), 0);
	assert_int_equal(wqe->remote_addr, 12);
	assert_int_equal(wqe->rkey, 13);
	assert_int_equal(wqe->compare_or_add, 14);
	assert_int_equal(wqe->swap, 15);

	wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
	wr.wr.atomic.compare_add = 16;
	assert_int_equal(fill(&wr), 0);
	assert_int_equal(wqe->compare_or_add, 16);
}

static void test_opcodes_that_a_reliable_connection_lacks_are_refused(void **state)
{
	static const int opcodes[] = { IBV_WR_BIND_MW, IBV_WR_TSO, IBV_WR_DRIVER1, 14, 1000, -1 };

	(void)state;
	for (size_t i = 0; i < sizeof(opcodes) / sizeof(opcodes[0]); i++) {
		const struct ibv_send_wr wr = { .opcode = (enum ibv_wr_opcode)opcodes[i] };

		assert_int_equal(fill(&wr), EINVAL);
	}
}

static void test_more_pieces_than_agreed_on_are_refused(void **state)
{
	uint8_t data[MAX_SGE + 1] = { 0 };
	struct ibv_sge sges[MAX_SGE + 1];
	struct ibv_send_wr wr = { .sg_list = sges, .opcode = IBV_WR_SEND };

	(void)state;
	for (int i = 0; i <= MAX_SGE; i++)
		sges[i] = (struct ibv_sge){ .addr = (uintptr_t)&data[i], .length = 1 };
	for (wr.send_flags = 0; wr.send_flags <= IBV_SEND_INLINE;
	     wr.send_flags += IBV_SEND_INLINE) {
		wr.num_sge = MAX_SGE;
		assert_int_equal(fill(&wr), 0);
		wr.num_sge = MAX_SGE + 1;
		assert_int_equal(fill(&wr), EINVAL);
		wr.num_sge = -1;
		assert_int_equal(fill(&wr), EINVAL);
	}
}

static void test_lengths_are_summed_beyond_32_bits(void **state)
{
	struct ibv_sge sges[2] = { { .length = UINT32_MAX }, { .length = UINT32_MAX } };
	const struct ibv_send_wr wr = { .sg_list = sges, .num_sge = 2, .opcode = IBV_WR_RDMA_READ };

	(void)state;
	assert_int_equal(fill(&wr), 0);
	assert_int_equal(filled(0)->length, 2 * (uint64_t)UINT32_MAX);
}

static void test_an_atomic_is_of_8_bytes(void **state)
{
	static const enum ibv_wr_opcode opcodes[] = { IBV_WR_ATOMIC_CMP_AND_SWP,
						      IBV_WR_ATOMIC_FETCH_AND_ADD,
						      IBV_WR_ATOMIC_WRITE };
	struct ibv_sge sges[2] = { { .length = 4 }, { .length = 4 } };
	struct ibv_send_wr wr = { .sg_list = sges };

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		wr.opcode = opcodes[i];
		wr.num_sge = 2;
		assert_int_equal(fill(&wr), 0);
		wr.num_sge = 1;
		assert_int_equal(fill(&wr), EINVAL);
		wr.num_sge = 0;
		assert_int_equal(fill(&wr), EINVAL);
	}
}

/* ---- Inline data ---- */

static void test_inline_data_is_copied_at_once_and_needs_no_key(void **state)
{
	char first[] = "inline ", second[] = "data";
	struct ibv_sge sges[3] = { { .addr = (uintptr_t)first, .length = 7, .lkey = 0xbad },
				   { .addr = 0, .length = 0, .lkey = 0xbad },
				   { .addr = (uintptr_t)second, .length = 4, .lkey = 0xbad } };
	const struct ibv_send_wr wr = { .sg_list = sges,
					.num_sge = 3,
					.opcode = IBV_WR_RDMA_WRITE,
					.send_flags = IBV_SEND_INLINE };

	(void)state;
	assert_int_equal(fill(&wr), 0);
	memset(first, 0, sizeof(first));
	memset(second, 0, sizeof(second));
	assert_true(filled(0)->is_inline);
	assert_int_equal(filled(0)->length, 11);
	assert_memory_equal(filled(0)->inline_data, "inline data", 11);
}

static void test_entries_do_not_share_their_inline_data(void **state)
{
	uint8_t data[MAX_INLINE];
	struct ibv_sge sge = { .addr = (uintptr_t)data, .length = MAX_INLINE };
	const struct ibv_send_wr wr = {
		.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_INLINE
	};

	(void)state;
	for (uint32_t i = 0; i < MAX_WR; i++) {
		memset(data, (int)i + 1, sizeof(data));
		assert_int_equal(ur_send_queue_fill(&queue, i, &wr, false), 0);
	}
	for (uint32_t i = 0; i < MAX_WR; i++) {
		memset(data, (int)i + 1, sizeof(data));
		assert_memory_equal(filled(i)->inline_data, data, sizeof(data));
	}
}

static void test_too_much_inline_data_is_refused(void **state)
{
	uint8_t data[MAX_INLINE] = { 0 };
	struct ibv_sge sges[2] = { { .addr = (uintptr_t)data, .length = MAX_INLINE },
				   { .addr = (uintptr_t)data, .length = 1 } };
	struct ibv_send_wr wr = {
		.sg_list = sges, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_INLINE
	};

	(void)state;
	assert_int_equal(fill(&wr), 0);
	wr.num_sge = 2;
	assert_int_equal(fill(&wr), EINVAL);
	wr.num_sge = 1;
	sges[0].length = UINT32_MAX;
	assert_int_equal(fill(&wr), EINVAL);
}

static void test_only_sends_and_writes_take_inline_data(void **state)
{
	static const struct {
		enum ibv_wr_opcode opcode;
		int error;
	} cases[] = {
		{ IBV_WR_SEND, 0 },
		{ IBV_WR_SEND_WITH_IMM, 0 },
		{ IBV_WR_SEND_WITH_INV, 0 },
		{ IBV_WR_RDMA_WRITE, 0 },
		{ IBV_WR_RDMA_WRITE_WITH_IMM, 0 },
		{ IBV_WR_ATOMIC_WRITE, 0 },
		{ IBV_WR_RDMA_READ, EINVAL },
		{ IBV_WR_ATOMIC_CMP_AND_SWP, EINVAL },
		{ IBV_WR_ATOMIC_FETCH_AND_ADD, EINVAL },
		{ IBV_WR_LOCAL_INV, EINVAL },
	};
	uint64_t data = 0;
	struct ibv_sge sge = { .addr = (uintptr_t)&data, .length = sizeof(data) };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct ibv_send_wr wr = { .sg_list = &sge,
						.num_sge = 1,
						.opcode = cases[i].opcode,
						.send_flags = IBV_SEND_INLINE };

		assert_int_equal(fill(&wr), cases[i].error);
	}
}

/* ---- In parts ---- */

static void test_data_that_comes_later_replaces_what_was_there(void **state)
{
	struct ibv_sge sges[MAX_SGE + 1] = { { .length = 3 }, { .length = 4 } };
	const struct ibv_send_wr wr = { .opcode = IBV_WR_SEND };
	struct ur_send_wqe *wqe = ur_send_queue_at(&queue, 0);

	(void)state;
	assert_int_equal(ur_send_queue_describe(&queue, 0, &wr, false), 0);
	assert_int_equal(ur_send_queue_set_sges(&queue, wqe, sges, 2), 0);
	assert_int_equal(wqe->length, 7);
	assert_int_equal(ur_send_queue_set_sges(&queue, wqe, sges, 1), 0);
	assert_int_equal(wqe->length, 3);
	assert_int_equal(wqe->sge_count, 1);
	assert_int_equal(ur_send_queue_add_inline(&queue, wqe, "abc", 3), 0);
	assert_int_equal(ur_send_queue_add_inline(&queue, wqe, "de", 2), 0);
	assert_true(wqe->is_inline);
	assert_int_equal(wqe->length, 5);
	assert_memory_equal(wqe->inline_data, "abcde", 5);
	assert_int_equal(ur_send_queue_set_sges(&queue, wqe, sges, MAX_SGE + 1), EINVAL);
	assert_int_equal(ur_send_queue_add_inline(&queue, wqe, "x", SIZE_MAX), EINVAL);
	assert_int_equal(wqe->length, 5);
	assert_int_equal(ur_send_queue_set_sges(&queue, wqe, sges, 2), 0);
	assert_false(wqe->is_inline);
	assert_int_equal(wqe->length, 7);
}

static void test_data_that_never_comes_is_none(void **state)
{
	const struct ibv_sge sge = { .length = 3 };
	const struct ibv_send_wr wr = { .opcode = IBV_WR_SEND };
	struct ur_send_wqe *wqe = ur_send_queue_at(&queue, 0);

	(void)state;
	assert_int_equal(ur_send_queue_set_sges(&queue, wqe, &sge, 1), 0);
	assert_int_equal(ur_send_queue_describe(&queue, 0, &wr, false), 0);
	assert_int_equal(wqe->length, 0);
	assert_int_equal(wqe->sge_count, 0);
	assert_int_equal(ur_send_queue_add_inline(&queue, wqe, "abc", 3), 0);
	assert_int_equal(ur_send_queue_describe(&queue, 0, &wr, false), 0);
	assert_false(wqe->is_inline);
}

/* ---- The ring ---- */

static void test_as_many_entries_as_agreed_on_fit_and_no_more(void **state)
{
	const struct ibv_send_wr wr = { .opcode = IBV_WR_SEND };

	(void)state;
	for (uint64_t i = 0; i < MAX_WR; i++)
		post(i);
	assert_int_equal(ur_send_queue_room(&queue), 0);
	assert_int_equal(fill(&wr), ENOMEM);
	queue.head++;
	assert_int_equal(ur_send_queue_room(&queue), 1);
	assert_int_equal(ur_send_queue_fill(&queue, 1, &wr, false), ENOMEM);
	assert_int_equal(fill(&wr), 0);
}

static void test_a_full_queue_keeps_its_oldest_entry(void **state)
{
	const struct ibv_qp_cap cap = { .max_send_wr = 4 };
	const struct ibv_send_wr wr = { .wr_id = 99, .opcode = IBV_WR_SEND };

	(void)state;
	ur_send_queue_free(&queue);
	assert_int_equal(ur_send_queue_init(&queue, NULL, &cap), 0);
	for (uint64_t i = 0; i < 4; i++)
		post(i);
	assert_int_equal(fill(&wr), ENOMEM);
	assert_int_equal(ur_send_queue_at(&queue, queue.head)->wr_id, 0);
}

static void test_the_counters_may_run_over(void **state)
{
	(void)state;
	queue.head = queue.next = queue.tail = UINT32_MAX - 1;
	for (uint64_t i = 0; i < MAX_WR; i++)
		post(i);
	assert_int_equal(ur_send_queue_room(&queue), 0);
	for (uint64_t i = 0; i < MAX_WR; i++)
		assert_int_equal(ur_send_queue_at(&queue, queue.head++)->wr_id, i);
	assert_int_equal(ur_send_queue_room(&queue), MAX_WR);
}

static void test_a_cleared_queue_is_empty_and_can_be_used_again(void **state)
{
	(void)state;
	for (uint64_t i = 0; i < MAX_WR; i++)
		post(i);
	queue.next = 2;
	ur_send_queue_clear(&queue);
	assert_int_equal(queue.head, queue.tail);
	assert_int_equal(queue.next, queue.tail);
	assert_int_equal(ur_send_queue_room(&queue), MAX_WR);
	post(77);
	assert_int_equal(ur_send_queue_at(&queue, queue.head)->wr_id, 77);
}

static void test_a_queue_of_no_entries_takes_none(void **state)
{
	const struct ibv_qp_cap cap = { 0 };
	const struct ibv_send_wr wr = { .opcode = IBV_WR_SEND };

	(void)state;
	ur_send_queue_free(&queue);
	assert_int_equal(ur_send_queue_init(&queue, NULL, &cap), 0);
	assert_int_equal(fill(&wr), ENOMEM);
}

#define queue_test(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		queue_test(test_an_entry_has_all_that_the_work_request_says),
		queue_test(test_an_entry_keeps_nothing_of_the_one_before_in_its_place),
		queue_test(test_a_queue_that_signals_all_does),
		queue_test(test_each_opcode_has_its_own_fields),
		queue_test(test_opcodes_that_a_reliable_connection_lacks_are_refused),
		queue_test(test_more_pieces_than_agreed_on_are_refused),
		queue_test(test_lengths_are_summed_beyond_32_bits),
		queue_test(test_an_atomic_is_of_8_bytes),
		queue_test(test_inline_data_is_copied_at_once_and_needs_no_key),
		queue_test(test_entries_do_not_share_their_inline_data),
		queue_test(test_too_much_inline_data_is_refused),
		queue_test(test_only_sends_and_writes_take_inline_data),
		queue_test(test_data_that_comes_later_replaces_what_was_there),
		queue_test(test_data_that_never_comes_is_none),
		queue_test(test_as_many_entries_as_agreed_on_fit_and_no_more),
		queue_test(test_a_full_queue_keeps_its_oldest_entry),
		queue_test(test_the_counters_may_run_over),
		queue_test(test_a_cleared_queue_is_empty_and_can_be_used_again),
		queue_test(test_a_queue_of_no_entries_takes_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
