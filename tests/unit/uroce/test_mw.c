/*
 * Memory windows: b gives a access to part of its memory, and takes it back.
 */
#include "simulation.h"

#include <errno.h>

#include "../../../uroce/core/mw.h"

#define OFFSET     8192
#define LENGTH     1000
#define ALL_REMOTE (IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)

static struct ur_mr *mr; /* all of b's memory, for windows only */
static struct ur_mw *mw;

static struct ur_mr *register_for_windows(unsigned access)
{
	struct ur_mr *made = ur_mr_register(b.pd, b.memory, MEMORY_SIZE, UR_NO_IOVA, access);

	assert_non_null(made);
	return made;
}

static struct ur_mw *allocate(enum ibv_mw_type type)
{
	struct ur_mw *made = ur_mw_alloc(b.pd, type);

	assert_non_null(made);
	return made;
}

static int set_up(void **state)
{
	(void)state;
	simulation_create(&simulation_defaults);
	fill_pattern(b.memory, MEMORY_SIZE, 1);
	mr = register_for_windows(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	mw = allocate(IBV_MW_TYPE_2);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	simulation_set_fate(NULL, NULL);
	if (mw)
		assert_int_equal(ur_mw_dealloc(mw), 0);
	assert_int_equal(ur_mr_deregister(mr), 0);
	simulation_destroy();
	return 0;
}

static void become_type_1(void)
{
	ur_mw_dealloc(mw);
	mw = allocate(IBV_MW_TYPE_1);
}

/* ---- Requests ---- */

static struct ibv_send_wr bind_wr(uint64_t wr_id)
{
	struct ibv_send_wr wr = simulation_wr(IBV_WR_BIND_MW, NULL, wr_id);

	wr.bind_mw.mw = &mw->verbs;
	wr.bind_mw.rkey = ibv_inc_rkey(mw->verbs.rkey);
	wr.bind_mw.bind_info = (struct ibv_mw_bind_info){ .mr = &mr->verbs,
							  .addr = (uintptr_t)b.memory + OFFSET,
							  .length = LENGTH,
							  .mw_access_flags = ALL_REMOTE };
	return wr;
}

/* Returns the window's key. */
static uint32_t bind_as(struct ibv_send_wr wr)
{
	simulation_post_send(&b, &wr);
	assert_int_equal(assert_completion(b.send_cq, wr.wr_id, IBV_WC_SUCCESS).opcode,
			 IBV_WC_BIND_MW);
	wr.bind_mw.mw->rkey = wr.bind_mw.rkey;
	return wr.bind_mw.rkey;
}

static uint32_t bind_window(void)
{
	return bind_as(bind_wr(100));
}

static void post_bind(struct ibv_send_wr wr, enum ibv_wc_status status)
{
	simulation_post_send(&b, &wr);
	assert_completion(b.send_cq, wr.wr_id, status);
}

static void assert_refused(struct ibv_send_wr wr)
{
	struct ibv_send_wr *bad = NULL;

	assert_int_equal(ur_qp_post_send(&b.qp->verbs, &wr, &bad), EINVAL);
	assert_ptr_equal(bad, &wr);
	assert_no_completion(b.send_cq);
}

static void invalidate_locally(uint32_t key, enum ibv_wc_status status)
{
	struct ibv_send_wr wr = simulation_wr(IBV_WR_LOCAL_INV, NULL, 200);

	wr.invalidate_rkey = key;
	simulation_post_send(&b, &wr);
	assert_int_equal(assert_completion(b.send_cq, 200, status).opcode, IBV_WC_LOCAL_INV);
}

static enum ibv_wc_status access_as(enum ibv_wr_opcode opcode, uint32_t key, uint64_t address,
				    uint32_t length)
{
	struct ibv_sge sge = simulation_sge(&a, 0, length);
	struct ibv_send_wr wr = simulation_wr(opcode, &sge, 1);

	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = address;
		wr.wr.atomic.rkey = key;
	} else {
		wr.wr.rdma.remote_addr = address;
		wr.wr.rdma.rkey = key;
	}
	simulation_post_send(&a, &wr);
	simulation_settle();
	return simulation_completion(a.send_cq).status;
}

static enum ibv_wc_status read_by(uint32_t key)
{
	return access_as(IBV_WR_RDMA_READ, key, (uintptr_t)b.memory + OFFSET, LENGTH);
}

/* A read is refused, and ends the connection; it is made anew. */
static void assert_closed(uint32_t key)
{
	assert_int_equal(read_by(key), IBV_WC_REM_ACCESS_ERR);
	assert_event(&b, IBV_EVENT_QP_ACCESS_ERR);
	simulation_reconnect(&simulation_defaults);
}

/* ---- Access ---- */

static void a_window_gives_access_to_what_it_was_bound_to(void **state)
{
	uint64_t start = (uintptr_t)b.memory + OFFSET;
	uint32_t key = bind_window();

	(void)state;
	assert_int_equal(read_by(key), IBV_WC_SUCCESS);
	assert_memory_equal(a.memory, b.memory + OFFSET, LENGTH);
	fill_pattern(a.memory, LENGTH, 2);
	assert_int_equal(access_as(IBV_WR_RDMA_WRITE, key, start + 1, LENGTH - 1), IBV_WC_SUCCESS);
	assert_memory_equal(b.memory + OFFSET + 1, a.memory, LENGTH - 1);
	assert_int_equal(access_as(IBV_WR_ATOMIC_FETCH_AND_ADD, key, start, 8), IBV_WC_SUCCESS);
	/* The region itself still gives none. */
	assert_closed(mr->verbs.rkey);
}

static void a_window_is_closed_around_its_range(void **state)
{
	static const struct {
		int64_t offset;
		uint32_t length;
	} outside[] = {
		{ -1, 1 }, { -1, LENGTH }, { 1, LENGTH }, { LENGTH, 1 }, { LENGTH + 1, 1 }
	};
	uint32_t key = bind_window();

	(void)state;
	for (size_t i = 0; i < sizeof(outside) / sizeof(outside[0]); i++) {
		uint64_t address = (uintptr_t)b.memory + OFFSET + (uint64_t)outside[i].offset;

		assert_int_equal(access_as(IBV_WR_RDMA_READ, key, address, outside[i].length),
				 IBV_WC_REM_ACCESS_ERR);
		assert_event(&b, IBV_EVENT_QP_ACCESS_ERR);
		simulation_reconnect(&simulation_defaults);
	}
	assert_int_equal(read_by(key), IBV_WC_SUCCESS);
}

static void a_window_permits_what_it_was_bound_with(void **state)
{
	static const struct {
		unsigned access;
		enum ibv_wr_opcode opcode;
	} each[] = {
		{ IBV_ACCESS_REMOTE_READ, IBV_WR_RDMA_READ },
		{ IBV_ACCESS_REMOTE_WRITE, IBV_WR_RDMA_WRITE },
		{ IBV_ACCESS_REMOTE_ATOMIC, IBV_WR_ATOMIC_FETCH_AND_ADD },
	};
	uint64_t start = (uintptr_t)b.memory + OFFSET;

	(void)state;
	for (unsigned permitted = 0; permitted < 3; permitted++) {
		struct ibv_send_wr wr = bind_wr(1);
		uint32_t key;

		wr.bind_mw.bind_info.mw_access_flags =
			each[permitted].access | IBV_ACCESS_LOCAL_WRITE;
		key = bind_as(wr);
		for (unsigned i = 0; i < 3; i++) {
			if (i == permitted)
				continue;
			assert_int_equal(access_as(each[i].opcode, key, start, 8),
					 IBV_WC_REM_ACCESS_ERR);
			assert_event(&b, IBV_EVENT_QP_ACCESS_ERR);
			simulation_reconnect(&simulation_defaults);
		}
		assert_int_equal(access_as(each[permitted].opcode, key, start, 8), IBV_WC_SUCCESS);
		invalidate_locally(key, IBV_WC_SUCCESS);
	}
}

static void a_zero_based_window_is_addressed_from_its_start(void **state)
{
	struct ibv_send_wr wr = bind_wr(1);
	uint32_t key;

	(void)state;
	wr.bind_mw.bind_info.mw_access_flags |= IBV_ACCESS_ZERO_BASED;
	key = bind_as(wr);
	assert_int_equal(access_as(IBV_WR_RDMA_READ, key, 10, LENGTH - 10), IBV_WC_SUCCESS);
	assert_memory_equal(a.memory, b.memory + OFFSET + 10, LENGTH - 10);
	assert_closed(key);
	assert_int_equal(access_as(IBV_WR_RDMA_READ, key, 10, LENGTH - 9), IBV_WC_REM_ACCESS_ERR);
	assert_event(&b, IBV_EVENT_QP_ACCESS_ERR);
}

static void a_window_never_bound_gives_no_access(void **state)
{
	(void)state;
	assert_closed(mw->verbs.rkey);
	become_type_1();
	assert_closed(mw->verbs.rkey);
}

/* ---- What binds ---- */

static void a_bind_that_cannot_be_right_is_refused_when_posted(void **state)
{
	struct ibv_send_wr wr = bind_wr(1);

	(void)state;
	wr.bind_mw.mw = NULL;
	assert_refused(wr);
	wr = bind_wr(1);
	wr.bind_mw.rkey ^= 0x100;
	assert_refused(wr);
	wr = bind_wr(1);
	wr.bind_mw.bind_info.mw_access_flags = IBV_ACCESS_MW_BIND;
	assert_refused(wr);
	become_type_1();
	wr = bind_wr(1);
	wr.bind_mw.bind_info.mw_access_flags |= IBV_ACCESS_ZERO_BASED;
	assert_refused(wr);
}

/* Each ends the connection, and leaves the window as it was. */
static void a_bind_that_the_region_does_not_permit_fails(void **state)
{
	struct ur_mr *no_bind = register_for_windows(IBV_ACCESS_LOCAL_WRITE);
	struct ur_mr *no_write = register_for_windows(IBV_ACCESS_MW_BIND);
	struct ur_mr *zero_based = register_for_windows(IBV_ACCESS_LOCAL_WRITE |
							IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED);
	struct ibv_mr gone = { .lkey = mr->verbs.lkey ^ 1 };
	struct ibv_send_wr wrs[8];

	(void)state;
	for (unsigned i = 0; i < 8; i++)
		wrs[i] = bind_wr(i);
	wrs[0].bind_mw.bind_info.mr = &no_bind->verbs;
	wrs[1].bind_mw.bind_info.mr = &no_write->verbs;
	wrs[2].bind_mw.bind_info.mr = &zero_based->verbs;
	wrs[2].bind_mw.bind_info.addr = 0;
	wrs[3].bind_mw.bind_info.mr = &gone;
	wrs[4].bind_mw.bind_info.mr = NULL;
	wrs[5].bind_mw.bind_info.length = MEMORY_SIZE - OFFSET + 1;
	wrs[6].bind_mw.bind_info.addr = (uintptr_t)b.memory - 1;
	wrs[7].bind_mw.bind_info.length = 0; /* of type 2 that takes nothing back */
	for (unsigned i = 0; i < 8; i++) {
		post_bind(wrs[i], IBV_WC_MW_BIND_ERR);
		assert_int_equal(b.qp->attr.qp_state, IBV_QPS_ERR);
		assert_null(mw->mr);
		simulation_reconnect(&simulation_defaults);
	}
	wrs[1].bind_mw.bind_info.mw_access_flags = IBV_ACCESS_REMOTE_READ;
	assert_int_equal(read_by(bind_as(wrs[1])), IBV_WC_SUCCESS);
	assert_int_equal(ur_mr_deregister(no_write), EBUSY);
	invalidate_locally(mw->verbs.rkey, IBV_WC_SUCCESS);
	assert_int_equal(ur_mr_deregister(no_write), 0);
	assert_int_equal(ur_mr_deregister(no_bind), 0);
	assert_int_equal(ur_mr_deregister(zero_based), 0);
}

static void domains_must_be_one(void **state)
{
	struct ur_pd *other = ur_pd_alloc(b.context);
	struct ur_mw *ours = mw;
	struct ur_mr *theirs = ur_mr_register(other, b.memory, MEMORY_SIZE, UR_NO_IOVA,
					      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	struct ibv_send_wr wr = bind_wr(1);

	(void)state;
	wr.bind_mw.bind_info.mr = &theirs->verbs;
	post_bind(wr, IBV_WC_MW_BIND_ERR);
	simulation_reconnect(&simulation_defaults);
	for (enum ibv_mw_type type = IBV_MW_TYPE_1; type <= IBV_MW_TYPE_2; type++) {
		mw = ur_mw_alloc(other, type);
		assert_non_null(mw);
		post_bind(bind_wr(1), IBV_WC_MW_BIND_ERR);
		simulation_reconnect(&simulation_defaults);
		assert_int_equal(ur_pd_dealloc(other), EBUSY);
		ur_mw_dealloc(mw);
	}
	mw = ours;
	assert_int_equal(ur_mr_deregister(theirs), 0);
	assert_int_equal(ur_pd_dealloc(other), 0);
}

/* A read of b's comes first; the bind, and what is behind it, wait for it only if they are fenced. */
static void a_bind_comes_in_its_turn(void **state)
{
	struct ibv_sge sge = simulation_sge(&b, 0, 5000);
	struct ibv_send_wr wr = simulation_wr(IBV_WR_RDMA_READ, &sge, 1);

	(void)state;
	wr.wr.rdma.rkey = a.mr->verbs.rkey;
	wr.wr.rdma.remote_addr = (uintptr_t)a.memory;
	simulation_post_send(&b, &wr);
	wr = bind_wr(2);
	wr.send_flags |= IBV_SEND_FENCE;
	simulation_post_send(&b, &wr);
	assert_null(mw->mr);
	assert_no_completion(b.send_cq);
	simulation_settle();
	assert_completion(b.send_cq, 1, IBV_WC_SUCCESS);
	assert_completion(b.send_cq, 2, IBV_WC_SUCCESS);
	assert_int_equal(read_by(wr.bind_mw.rkey), IBV_WC_SUCCESS);
}

static enum fate drops_the_first_acknowledgements(const struct ur_packet *packet, unsigned count,
						  void *user_data)
{
	(void)user_data;
	return packet->opcode == UR_RC_ACKNOWLEDGE && count < 10 ? DROP : DELIVER;
}

/* Sending goes back over local operations, which were done already; of this one, twice would fail. */
static void a_bind_is_executed_once(void **state)
{
	struct ibv_sge sge = simulation_sge(&b, 0, 10);
	struct ibv_send_wr write = simulation_wr(IBV_WR_RDMA_WRITE, &sge, 1);
	struct ibv_send_wr wr = bind_wr(2);

	(void)state;
	write.wr.rdma.rkey = a.mr->verbs.rkey;
	write.wr.rdma.remote_addr = (uintptr_t)a.memory;
	simulation_set_fate(drops_the_first_acknowledgements, NULL);
	simulation_post_send(&b, &write);
	simulation_post_send(&b, &wr);
	write.wr_id = 3;
	simulation_post_send(&b, &write);
	simulation_run(UINT64_C(1000000000));
	assert_true(b.device.counters.retransmitted > 0);
	for (unsigned i = 1; i <= 3; i++)
		assert_completion(b.send_cq, i, IBV_WC_SUCCESS);
	assert_int_equal(read_by(wr.bind_mw.rkey), IBV_WC_SUCCESS);
}

/* ---- Ends of access ---- */

static void a_window_of_type_2_is_taken_back_before_it_is_bound_again(void **state)
{
	uint32_t first = bind_window(), second;

	(void)state;
	post_bind(bind_wr(1), IBV_WC_MW_BIND_ERR);
	simulation_reconnect(&simulation_defaults);
	assert_int_equal(read_by(first), IBV_WC_SUCCESS);
	invalidate_locally(first, IBV_WC_SUCCESS);
	assert_closed(first);
	second = bind_window();
	assert_int_not_equal(second, first);
	assert_closed(first);
	assert_int_equal(read_by(second), IBV_WC_SUCCESS);
}

static void a_window_of_type_1_moves(void **state)
{
	struct ibv_send_wr wr;
	uint32_t first, second;

	(void)state;
	become_type_1();
	wr = bind_wr(1);
	first = bind_as(wr);
	wr.bind_mw.rkey = ur_mw_next_key(first);
	wr.bind_mw.bind_info.addr += LENGTH;
	second = bind_as(wr);
	assert_closed(first);
	assert_int_equal(access_as(IBV_WR_RDMA_READ, second, wr.bind_mw.bind_info.addr, LENGTH),
			 IBV_WC_SUCCESS);
	assert_int_equal(ur_mr_deregister(mr), EBUSY);

	wr.bind_mw.rkey = ur_mw_next_key(second);
	wr.bind_mw.bind_info = (struct ibv_mw_bind_info){ 0 };
	bind_as(wr);
	assert_null(mw->mr);
	assert_int_equal(mr->windows, 0);
	assert_closed(second);
	assert_closed(wr.bind_mw.rkey);
}

static void send_invalidating(uint32_t key)
{
	struct ibv_sge sge = simulation_sge(&a, 0, 10);
	struct ibv_send_wr wr = simulation_wr(IBV_WR_SEND_WITH_INV, &sge, 1);

	wr.invalidate_rkey = key;
	simulation_post_recv(&b, 1, 5000, 10);
	simulation_post_send(&a, &wr);
	simulation_settle();
}

static void a_peer_can_give_a_window_back(void **state)
{
	uint32_t key = bind_window();
	struct ibv_wc wc;

	(void)state;
	send_invalidating(key);
	wc = assert_completion(b.recv_cq, 1, IBV_WC_SUCCESS);
	assert_int_equal(wc.wc_flags, IBV_WC_WITH_INV);
	assert_int_equal(wc.invalidated_rkey, key);
	assert_completion(a.send_cq, 1, IBV_WC_SUCCESS);
	assert_closed(key);
	assert_int_equal(read_by(bind_window()), IBV_WC_SUCCESS);
}

static void assert_not_invalidatable(uint32_t key)
{
	send_invalidating(key);
	assert_completion(a.send_cq, 1, IBV_WC_REM_ACCESS_ERR);
	assert_completion(b.recv_cq, 1, IBV_WC_WR_FLUSH_ERR);
	assert_event(&b, IBV_EVENT_QP_ACCESS_ERR);
	simulation_reconnect(&simulation_defaults);
	invalidate_locally(key, IBV_WC_MW_BIND_ERR);
	simulation_reconnect(&simulation_defaults);
}

static void nothing_else_can_be_given_back(void **state)
{
	(void)state;
	assert_not_invalidatable(b.mr->verbs.rkey);
	assert_not_invalidatable(0xffffff00);
	assert_not_invalidatable(mw->verbs.rkey); /* not bound */
	become_type_1();
	assert_not_invalidatable(bind_window());
	assert_int_equal(read_by(mw->verbs.rkey), IBV_WC_SUCCESS);
}

static void a_window_of_type_2_serves_the_queue_pair_that_bound_it(void **state)
{
	uint32_t key = bind_window();
	struct ur_qp *owner = b.qp, other = *owner;

	(void)state;
	mw->qp = &other;
	assert_closed(key);
	send_invalidating(key);
	assert_completion(a.send_cq, 1, IBV_WC_REM_ACCESS_ERR);
	assert_event(&b, IBV_EVENT_QP_ACCESS_ERR);
	simulation_reconnect(&simulation_defaults);
	mw->qp = owner;
	assert_int_equal(read_by(key), IBV_WC_SUCCESS);
}

static void a_window_that_is_gone_gives_no_access(void **state)
{
	uint32_t key = bind_window();

	(void)state;
	ur_mw_dealloc(mw);
	mw = NULL;
	assert_closed(key);
	assert_int_equal(mr->windows, 0);
	assert_null(b.qp->windows);
}

static void a_bind_of_a_window_that_is_gone_fails(void **state)
{
	struct ibv_sge sge = simulation_sge(&b, 0, 10);
	struct ibv_send_wr wr = simulation_wr(IBV_WR_RDMA_READ, &sge, 1);

	(void)state;
	wr.wr.rdma.rkey = a.mr->verbs.rkey;
	wr.wr.rdma.remote_addr = (uintptr_t)a.memory;
	simulation_post_send(&b, &wr);
	wr = bind_wr(2);
	wr.send_flags |= IBV_SEND_FENCE;
	simulation_post_send(&b, &wr);
	ur_mw_dealloc(mw);
	mw = NULL;
	simulation_settle();
	assert_completion(b.send_cq, 1, IBV_WC_SUCCESS);
	assert_completion(b.send_cq, 2, IBV_WC_MW_BIND_ERR);
}

/* ---- Objects ---- */

static void replace_qp(void)
{
	struct ibv_qp_init_attr_ex attr = { .comp_mask = IBV_QP_INIT_ATTR_PD,
					    .pd = b.qp->verbs.pd,
					    .send_cq = b.qp->verbs.send_cq,
					    .recv_cq = b.qp->verbs.recv_cq,
					    .qp_type = IBV_QPT_RC };

	assert_int_equal(ur_qp_destroy(b.qp), 0);
	b.qp = ur_qp_create(b.context, &attr);
	assert_non_null(b.qp);
}

static void a_queue_pair_takes_its_windows_with_it(void **state)
{
	struct ur_mw *windows[3] = { mw };
	uint32_t keys[3];

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		if (i > 0)
			mw = windows[i] = allocate(IBV_MW_TYPE_2);
		keys[i] = bind_window();
	}
	assert_int_equal(mr->windows, 3);
	invalidate_locally(keys[1], IBV_WC_SUCCESS);
	invalidate_locally(keys[0], IBV_WC_SUCCESS);
	assert_ptr_equal(b.qp->windows, windows[2]);
	replace_qp();
	assert_int_equal(mr->windows, 0);
	for (unsigned i = 0; i < 2; i++)
		ur_mw_dealloc(windows[i]);
}

static void a_region_stays_while_windows_are_bound(void **state)
{
	uint32_t key = bind_window();

	(void)state;
	assert_int_equal(ur_mr_deregister(mr), EBUSY);
	errno = 0;
	assert_int_equal(ur_mr_reregister(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
					  IBV_ACCESS_LOCAL_WRITE),
			 IBV_REREG_MR_ERR_INPUT);
	assert_int_equal(errno, EBUSY);
	assert_int_equal(read_by(key), IBV_WC_SUCCESS);
}

static void there_are_two_types(void **state)
{
	(void)state;
	for (int type = 0; type <= 3; type += 3) {
		errno = 0;
		assert_null(ur_mw_alloc(b.pd, (enum ibv_mw_type)type));
		assert_int_equal(errno, EINVAL);
	}
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(a_window_gives_access_to_what_it_was_bound_to),
		TEST(a_window_is_closed_around_its_range),
		TEST(a_window_permits_what_it_was_bound_with),
		TEST(a_zero_based_window_is_addressed_from_its_start),
		TEST(a_window_never_bound_gives_no_access),
		TEST(a_bind_that_cannot_be_right_is_refused_when_posted),
		TEST(a_bind_that_the_region_does_not_permit_fails),
		TEST(domains_must_be_one),
		TEST(a_bind_comes_in_its_turn),
		TEST(a_bind_is_executed_once),
		TEST(a_window_of_type_2_is_taken_back_before_it_is_bound_again),
		TEST(a_window_of_type_1_moves),
		TEST(a_peer_can_give_a_window_back),
		TEST(nothing_else_can_be_given_back),
		TEST(a_window_of_type_2_serves_the_queue_pair_that_bound_it),
		TEST(a_window_that_is_gone_gives_no_access),
		TEST(a_bind_of_a_window_that_is_gone_fails),
		TEST(a_queue_pair_takes_its_windows_with_it),
		TEST(a_region_stays_while_windows_are_bound),
		TEST(there_are_two_types),
	};

	return cmocka_run_group_tests_name("mw", tests, NULL, NULL);
}
