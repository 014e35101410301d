/*
 * The reliable connection when a request cannot be executed, or the peer does not answer.
 */
#include "simulation.h"

#include <string.h>

#include "../../../uroce/core/engine.h"

#define SECOND UINT64_C(1000000000)

static int setup(void **state)
{
	(void)state;
	simulation_create(&simulation_defaults);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	simulation_set_fate(NULL, NULL);
	simulation_destroy();
	return 0;
}

static void post(enum ibv_wr_opcode opcode, uint32_t length, uint64_t wr_id)
{
	struct ibv_sge sge = simulation_sge(&a, 0, length);
	struct ibv_send_wr wr = simulation_wr(opcode, &sge, wr_id);

	simulation_post_send(&a, &wr);
}

static unsigned state_of(const struct node *node)
{
	return node->qp->attr.qp_state;
}

/* ---- What the peer refuses ---- */

struct refusal {
	const char *what;
	enum ibv_wr_opcode opcode;
	uint32_t length;
	int64_t offset; /* of the remote address */
	uint32_t rkey_change;
	enum ibv_wc_status status;
	enum ibv_event_type event;
	uint8_t nak;
};

static const struct refusal refusals[] = {
	{ "a key that is not there", IBV_WR_RDMA_WRITE, 100, 0, 0x100, IBV_WC_REM_ACCESS_ERR,
	  IBV_EVENT_QP_ACCESS_ERR, UR_NAK_REMOTE_ACCESS },
	{ "an old key of the same place", IBV_WR_RDMA_WRITE, 100, 0, 1, IBV_WC_REM_ACCESS_ERR,
	  IBV_EVENT_QP_ACCESS_ERR, UR_NAK_REMOTE_ACCESS },
	{ "a write one byte too far", IBV_WR_RDMA_WRITE, 3000, MEMORY_SIZE - 2999, 0,
	  IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR, UR_NAK_REMOTE_ACCESS },
	{ "a write one byte too early", IBV_WR_RDMA_WRITE, 3000, -1, 0, IBV_WC_REM_ACCESS_ERR,
	  IBV_EVENT_QP_ACCESS_ERR, UR_NAK_REMOTE_ACCESS },
	{ "a read one byte too far", IBV_WR_RDMA_READ, 3000, MEMORY_SIZE - 2999, 0,
	  IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR, UR_NAK_REMOTE_ACCESS },
	{ "a read with a wrong key", IBV_WR_RDMA_READ, 3000, 0, 0x100, IBV_WC_REM_ACCESS_ERR,
	  IBV_EVENT_QP_ACCESS_ERR, UR_NAK_REMOTE_ACCESS },
	{ "an atomic at the end", IBV_WR_ATOMIC_FETCH_AND_ADD, 8, MEMORY_SIZE, 0,
	  IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR, UR_NAK_REMOTE_ACCESS },
	{ "an atomic that is not aligned", IBV_WR_ATOMIC_FETCH_AND_ADD, 8, 4, 0,
	  IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR, UR_NAK_INVALID_REQUEST },
	{ "an atomic write at the end", IBV_WR_ATOMIC_WRITE, 8, MEMORY_SIZE, 0,
	  IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR, UR_NAK_REMOTE_ACCESS },
	{ "an atomic write with a wrong key", IBV_WR_ATOMIC_WRITE, 8, 0, 0x100,
	  IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR, UR_NAK_REMOTE_ACCESS },
	{ "an atomic write that is not aligned", IBV_WR_ATOMIC_WRITE, 8, 4, 0,
	  IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR, UR_NAK_INVALID_REQUEST },
};

static void post_refused(const struct refusal *refusal)
{
	struct ibv_sge sge = simulation_sge(&a, 0, refusal->length);
	struct ibv_send_wr wr = simulation_wr(refusal->opcode, &sge, 1);

	if (refusal->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr += (uint64_t)refusal->offset;
		wr.wr.atomic.compare_add = 1;
	} else {
		wr.wr.rdma.remote_addr += (uint64_t)refusal->offset;
		wr.wr.rdma.rkey ^= refusal->rkey_change;
	}
	memset(a.memory, 0xaa, refusal->length);
	simulation_post_send(&a, &wr);
	post(IBV_WR_RDMA_WRITE, 10, 2);
	simulation_settle();
}

static void what_is_not_allowed_is_refused_and_changes_nothing(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
		const struct refusal *refusal = &refusals[i];

		print_message("  %s\n", refusal->what);
		simulation_create(&simulation_defaults);
		memset(b.memory, 0x55, MEMORY_SIZE);
		simulation_post_recv(&b, 9, 0, 10);
		post_refused(refusal);
		assert_completion(a.send_cq, 1, refusal->status);
		assert_completion(a.send_cq, 2, IBV_WC_WR_FLUSH_ERR);
		assert_int_equal(state_of(&a), IBV_QPS_ERR);
		assert_int_equal(state_of(&b), IBV_QPS_ERR);
		assert_completion(b.recv_cq, 9, IBV_WC_WR_FLUSH_ERR);
		assert_event(&b, refusal->event);
		assert_int_equal(simulation_last(UR_RC_ACKNOWLEDGE)->syndrome,
				 UR_SYNDROME_NAK | refusal->nak);
		assert_all_bytes(b.memory, MEMORY_SIZE, 0x55);
		simulation_destroy();
	}
}

struct permission {
	int mr_access;
	unsigned qp_access;
	bool other_pd;
	bool deregistered;
	enum ibv_wr_opcode opcode;
	enum ibv_wc_status status;
};

#define ALL_ACCESS                                                                   \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
	 IBV_ACCESS_REMOTE_ATOMIC)

static const struct permission permissions[] = {
	{ ALL_ACCESS, ALL_ACCESS, false, false, IBV_WR_RDMA_WRITE, IBV_WC_SUCCESS },
	{ ALL_ACCESS, ALL_ACCESS, false, false, IBV_WR_RDMA_READ, IBV_WC_SUCCESS },
	{ IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, IBV_ACCESS_REMOTE_WRITE, false, false,
	  IBV_WR_ATOMIC_WRITE, IBV_WC_SUCCESS },
	{ IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC, ALL_ACCESS, false, false,
	  IBV_WR_ATOMIC_WRITE, IBV_WC_REM_ACCESS_ERR },
	{ ALL_ACCESS, IBV_ACCESS_REMOTE_ATOMIC, false, false, IBV_WR_ATOMIC_WRITE,
	  IBV_WC_REM_INV_REQ_ERR },
	{ ALL_ACCESS, ALL_ACCESS, true, false, IBV_WR_RDMA_WRITE, IBV_WC_REM_ACCESS_ERR },
	{ ALL_ACCESS, ALL_ACCESS, true, false, IBV_WR_RDMA_READ, IBV_WC_REM_ACCESS_ERR },
	{ ALL_ACCESS, ALL_ACCESS, false, true, IBV_WR_RDMA_WRITE, IBV_WC_REM_ACCESS_ERR },
	{ ALL_ACCESS, ALL_ACCESS, false, true, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WC_REM_ACCESS_ERR },
	{ IBV_ACCESS_REMOTE_READ, ALL_ACCESS, false, false, IBV_WR_RDMA_WRITE,
	  IBV_WC_REM_ACCESS_ERR },
	{ IBV_ACCESS_REMOTE_READ, ALL_ACCESS, false, false, IBV_WR_RDMA_READ, IBV_WC_SUCCESS },
	{ IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, ALL_ACCESS, false, false,
	  IBV_WR_RDMA_READ, IBV_WC_REM_ACCESS_ERR },
	{ IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, ALL_ACCESS, false, false,
	  IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WC_REM_ACCESS_ERR },
	{ IBV_ACCESS_LOCAL_WRITE, ALL_ACCESS, false, false, IBV_WR_RDMA_WRITE,
	  IBV_WC_REM_ACCESS_ERR },
	{ ALL_ACCESS, IBV_ACCESS_REMOTE_READ, false, false, IBV_WR_RDMA_WRITE,
	  IBV_WC_REM_INV_REQ_ERR },
	{ ALL_ACCESS, IBV_ACCESS_REMOTE_WRITE, false, false, IBV_WR_RDMA_READ,
	  IBV_WC_REM_INV_REQ_ERR },
	{ ALL_ACCESS, IBV_ACCESS_REMOTE_WRITE, false, false, IBV_WR_ATOMIC_FETCH_AND_ADD,
	  IBV_WC_REM_INV_REQ_ERR },
};

static void check_permission(const struct permission *permission)
{
	struct simulation_config config = simulation_defaults;
	struct ur_pd *other;
	struct ur_mr *mr;
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	config.access = permission->qp_access;
	simulation_create(&config);
	other = ur_pd_alloc(b.context);
	mr = ur_mr_register(permission->other_pd ? other : b.pd, b.memory, 4096, UINT64_MAX,
			    (unsigned)permission->mr_access);
	assert_non_null(mr);
	sge = simulation_sge(&a, 0, 8);
	wr = simulation_wr(permission->opcode, &sge, 1);
	if (permission->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		wr.wr.atomic.rkey = mr->verbs.rkey;
	else
		wr.wr.rdma.rkey = mr->verbs.rkey;
	if (permission->deregistered)
		assert_int_equal(ur_mr_deregister(mr), 0);
	simulation_post_send(&a, &wr);
	simulation_settle();
	assert_completion(a.send_cq, 1, permission->status);
	assert_all_bytes(b.memory, MEMORY_SIZE, 0);
	if (!permission->deregistered)
		assert_int_equal(ur_mr_deregister(mr), 0);
	assert_int_equal(ur_pd_dealloc(other), 0);
	if (permission->status != IBV_WC_SUCCESS)
		assert_event(&b, permission->status == IBV_WC_REM_ACCESS_ERR
					 ? IBV_EVENT_QP_ACCESS_ERR
					 : IBV_EVENT_QP_REQ_ERR);
	simulation_destroy();
}

static void region_domain_and_queue_pair_must_all_permit(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(permissions) / sizeof(permissions[0]); i++) {
		print_message("  permission %zu\n", i);
		check_permission(&permissions[i]);
	}
}

static void a_region_that_goes_during_a_write_stops_it(void **state)
{
	(void)state;
	post(IBV_WR_RDMA_WRITE, 900000, 1);
	assert_int_equal(ur_mr_deregister(b.mr), 0);
	simulation_settle();
	assert_completion(a.send_cq, 1, IBV_WC_REM_ACCESS_ERR);
	assert_event(&b, IBV_EVENT_QP_ACCESS_ERR);
	b.mr = ur_mr_register(b.pd, b.memory, MEMORY_SIZE, UINT64_MAX, ALL_ACCESS);
}

static void more_reads_than_agreed_are_refused(void **state)
{
	(void)state;
	a.qp->attr.max_rd_atomic = 100;
	for (unsigned i = 0; i < 5; i++)
		post(IBV_WR_RDMA_READ, 10, i);
	simulation_settle();
	for (unsigned i = 0; i < 4; i++)
		assert_completion(a.send_cq, i, IBV_WC_SUCCESS);
	assert_completion(a.send_cq, 4, IBV_WC_REM_INV_REQ_ERR);
	assert_event(&b, IBV_EVENT_QP_REQ_ERR);
}

static void an_atomic_write_of_another_length_is_refused(void **state)
{
	static const uint8_t value[12] = { 1 };
	static const struct {
		uint32_t dma_length;
		size_t payload_length;
	} lengths[] = { { 8, 4 }, { 8, 12 }, { 4, 8 }, { 0, 0 } };

	(void)state;
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		const struct ur_packet packet = { .opcode = UR_RC_ATOMIC_WRITE,
						  .psn = simulation_defaults.psn,
						  .va = (uintptr_t)b.memory,
						  .rkey = b.mr->verbs.rkey,
						  .dma_length = lengths[i].dma_length,
						  .payload_length = lengths[i].payload_length };

		simulation_inject(&packet, value);
		simulation_settle();
		assert_event(&b, IBV_EVENT_QP_REQ_ERR);
		assert_int_equal(state_of(&b), IBV_QPS_ERR);
		assert_all_bytes(b.memory, 16, 0);
		simulation_reconnect(&simulation_defaults);
	}
}

/* ---- Receives that do not fit ---- */

static void a_message_longer_than_its_receive_ends_both_sides(void **state)
{
	(void)state;
	simulation_post_recv(&b, 1, 0, 2999);
	simulation_post_recv(&b, 2, 0, 10);
	post(IBV_WR_SEND, 3000, 1);
	simulation_settle();
	assert_completion(a.send_cq, 1, IBV_WC_REM_INV_REQ_ERR);
	assert_completion(b.recv_cq, 1, IBV_WC_LOC_LEN_ERR);
	assert_completion(b.recv_cq, 2, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(b.memory[2999], 0);
}

static void a_receive_without_a_right_key_ends_both_sides(void **state)
{
	struct ibv_sge sge = simulation_sge(&b, 0, 100);
	struct ibv_recv_wr wr = { .wr_id = 1, .sg_list = &sge, .num_sge = 1 }, *bad;

	(void)state;
	sge.lkey ^= 0x100;
	assert_int_equal(ur_qp_post_recv(&b.qp->verbs, &wr, &bad), 0);
	post(IBV_WR_SEND, 10, 1);
	simulation_settle();
	assert_completion(a.send_cq, 1, IBV_WC_REM_OP_ERR);
	assert_completion(b.recv_cq, 1, IBV_WC_LOC_PROT_ERR);
}

static void a_local_key_that_is_wrong_ends_what_comes_after_it(void **state)
{
	struct ibv_sge sge = simulation_sge(&a, 0, 100);
	struct ibv_send_wr wr = simulation_wr(IBV_WR_RDMA_WRITE, &sge, 2);

	(void)state;
	post(IBV_WR_RDMA_WRITE, 5000, 1);
	sge.lkey ^= 0x100;
	simulation_post_send(&a, &wr);
	post(IBV_WR_RDMA_WRITE, 10, 3);
	simulation_settle();
	assert_completion(a.send_cq, 1, IBV_WC_SUCCESS);
	assert_completion(a.send_cq, 2, IBV_WC_LOC_PROT_ERR);
	assert_completion(a.send_cq, 3, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(state_of(&b), IBV_QPS_RTS);
}

static void a_read_into_memory_that_is_not_writable_fails_locally(void **state)
{
	struct ur_mr *mr = ur_mr_register(a.pd, a.memory, 4096, UINT64_MAX, 0);
	struct ibv_sge sge = { (uintptr_t)a.memory, 100, mr->verbs.lkey };
	struct ibv_send_wr wr = simulation_wr(IBV_WR_RDMA_READ, &sge, 1);

	(void)state;
	simulation_post_send(&a, &wr);
	simulation_settle();
	assert_completion(a.send_cq, 1, IBV_WC_LOC_PROT_ERR);
	assert_int_equal(ur_mr_deregister(mr), 0);
}

/* ---- A receive that is not there ---- */

static void a_receive_posted_in_time_is_waited_for(void **state)
{
	(void)state;
	post(IBV_WR_SEND, 3000, 1);
	simulation_settle();
	assert_int_equal(simulation_last(UR_RC_ACKNOWLEDGE)->syndrome,
			 UR_SYNDROME_RNR_NAK | simulation_defaults.min_rnr_timer);
	assert_no_completion(a.send_cq);
	simulation_post_recv(&b, 1, 0, 3000);
	simulation_run(SECOND);
	assert_completion(a.send_cq, 1, IBV_WC_SUCCESS);
	assert_completion(b.recv_cq, 1, IBV_WC_SUCCESS);
}

/* The timer 12 is 0.64 ms. */
static void the_rnr_error_comes_after_the_retries(void **state)
{
	uint64_t start = simulation_now();

	(void)state;
	post(IBV_WR_SEND, 3000, 1);
	post(IBV_WR_SEND, 3000, 2);
	simulation_run(SECOND);
	assert_completion(a.send_cq, 1, IBV_WC_RNR_RETRY_EXC_ERR);
	assert_completion(a.send_cq, 2, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(simulation_now() - start, 3 * 640000);
	assert_int_equal(b.device.counters.rnr_naks_sent, 4);
	assert_int_equal(state_of(&b), IBV_QPS_RTS);
}

static void rnr_retry_seven_waits_for_ever(void **state)
{
	struct simulation_config config = simulation_defaults;

	(void)state;
	config.rnr_retry = 7;
	simulation_create(&config);
	post(IBV_WR_SEND, 30, 1);
	simulation_run(SECOND);
	assert_true(b.device.counters.rnr_naks_sent > 1000);
	assert_no_completion(a.send_cq);
	simulation_post_recv(&b, 1, 0, 30);
	simulation_run(SECOND);
	assert_completion(a.send_cq, 1, IBV_WC_SUCCESS);
	simulation_destroy();
}

static void a_write_with_immediate_waits_for_a_receive_and_writes_once(void **state)
{
	(void)state;
	memset(a.memory, 7, 3000);
	post(IBV_WR_RDMA_WRITE_WITH_IMM, 3000, 1);
	simulation_settle();
	assert_no_completion(a.send_cq);
	simulation_post_recv(&b, 1, 0, 0);
	simulation_run(SECOND);
	assert_completion(a.send_cq, 1, IBV_WC_SUCCESS);
	assert_int_equal(assert_completion(b.recv_cq, 1, IBV_WC_SUCCESS).byte_len, 3000);
	assert_memory_equal(b.memory, a.memory, 3000);
}

/* ---- A peer that does not answer ---- */

static enum fate lost(const struct ur_packet *packet, unsigned count, void *user_data)
{
	(void)packet, (void)count, (void)user_data;
	return DROP;
}

static void the_retry_error_comes_when_timeout_and_count_say(void **state)
{
	uint64_t start = simulation_now();
	uint64_t expected = (UINT64_C(4096) << 14) * 8;

	(void)state;
	simulation_set_fate(lost, NULL);
	for (unsigned i = 0; i < 64; i++)
		post(IBV_WR_RDMA_WRITE, 100000, i);
	simulation_run(60 * SECOND);
	assert_completion(a.send_cq, 0, IBV_WC_RETRY_EXC_ERR);
	for (unsigned i = 1; i < 64; i++)
		assert_completion(a.send_cq, i, IBV_WC_WR_FLUSH_ERR);
	assert_no_completion(a.send_cq);
	assert_int_equal(simulation_now() - start, expected);
	assert_int_equal(a.device.counters.timeouts, 8);
	assert_int_equal(a.qp->deadline, UR_NEVER);
}

static void without_a_timeout_it_asks_for_ever(void **state)
{
	struct simulation_config config = simulation_defaults;

	(void)state;
	config.timeout = 0;
	simulation_create(&config);
	simulation_set_fate(lost, NULL);
	post(IBV_WR_RDMA_WRITE, 10, 1);
	simulation_run(100 * SECOND);
	assert_no_completion(a.send_cq);
	simulation_set_fate(NULL, NULL);
	simulation_run(1000 * SECOND);
	assert_completion(a.send_cq, 1, IBV_WC_SUCCESS);
	simulation_destroy();
}

static void a_silent_peer_is_tried_at_the_standard_port(void **state)
{
	(void)state;
	assert_int_equal(ntohs(a.qp->path.remote.v4.sin_port), UR_UDP_PORT + 2);
	simulation_set_fate(lost, NULL);
	post(IBV_WR_RDMA_WRITE, 10, 1);
	simulation_run(SECOND);
	assert_completion(a.send_cq, 1, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(ntohs(a.qp->path.remote.v4.sin_port), UR_UDP_PORT);
}

/* ---- The error state ---- */

static void what_is_posted_in_the_error_state_is_flushed(void **state)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	(void)state;
	simulation_post_recv(&a, 1, 0, 10);
	assert_int_equal(ur_qp_modify(a.qp, &attr, IBV_QP_STATE), 0);
	assert_completion(a.recv_cq, 1, IBV_WC_WR_FLUSH_ERR);
	simulation_post_recv(&a, 2, 0, 10);
	post(IBV_WR_SEND, 10, 3);
	assert_completion(a.recv_cq, 2, IBV_WC_WR_FLUSH_ERR);
	assert_completion(a.send_cq, 3, IBV_WC_WR_FLUSH_ERR);
}

static void a_message_half_received_flushes_its_receive(void **state)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct ur_packet packet = { .opcode = UR_RC_SEND_FIRST,
				    .pkey = UR_DEFAULT_PKEY,
				    .psn = simulation_defaults.psn,
				    .payload_length = 1024 };
	uint8_t payload[1024] = { 0 };

	(void)state;
	simulation_post_recv(&b, 1, 0, 5000);
	simulation_inject(&packet, payload);
	simulation_settle();
	assert_int_equal(ur_qp_modify(b.qp, &attr, IBV_QP_STATE), 0);
	assert_completion(b.recv_cq, 1, IBV_WC_WR_FLUSH_ERR);
	assert_no_completion(b.recv_cq);
}

static void with_a_shared_queue_the_last_receive_is_told(void **state)
{
	struct simulation_config config = simulation_defaults;
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	(void)state;
	config.srq = true;
	simulation_create(&config);
	simulation_post_recv(&b, 1, 0, 100);
	simulation_post_recv(&b, 2, 0, 100);
	post(IBV_WR_SEND, 100, 1);
	simulation_settle();
	assert_completion(b.recv_cq, 1, IBV_WC_SUCCESS);
	assert_int_equal(simulation_last(UR_RC_ACKNOWLEDGE)->syndrome, UR_CREDITS_UNLIMITED);
	assert_int_equal(ur_qp_modify(b.qp, &attr, IBV_QP_STATE), 0);
	assert_event(&b, IBV_EVENT_QP_LAST_WQE_REACHED);
	assert_no_completion(b.recv_cq);
	simulation_destroy();
}

/* ---- Packets that no requester of ours would send ---- */

static const uint8_t wrong_orders[][2] = {
	{ UR_RC_SEND_MIDDLE, 0xff },
	{ UR_RC_SEND_LAST, 0xff },
	{ UR_RC_WRITE_MIDDLE, 0xff },
	{ UR_RC_WRITE_LAST_IMM, 0xff },
	{ UR_RC_SEND_FIRST, UR_RC_SEND_FIRST },
	{ UR_RC_SEND_FIRST, UR_RC_WRITE_MIDDLE },
	{ UR_RC_SEND_FIRST, UR_RC_READ_REQUEST },
	{ UR_RC_WRITE_FIRST, UR_RC_SEND_LAST },
	{ UR_RC_WRITE_FIRST, UR_RC_FETCH_ADD },
};

static void inject(uint8_t opcode, unsigned index, size_t length)
{
	static const uint8_t payload[4096];
	struct ur_packet packet = {
		.opcode = opcode,
		.pkey = UR_DEFAULT_PKEY,
		.psn = simulation_defaults.psn + index,
		.va = (uintptr_t)b.memory,
		.rkey = b.mr->verbs.rkey,
		.dma_length = 2048,
		.payload_length = ur_opcode_flags(opcode) & UR_HAS_PAYLOAD ? length : 0,
	};

	simulation_inject(&packet, payload);
	simulation_settle();
}

static void packets_in_a_wrong_order_are_an_invalid_request(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(wrong_orders) / sizeof(wrong_orders[0]); i++) {
		simulation_create(&simulation_defaults);
		simulation_post_recv(&b, 1, 0, 10000);
		inject(wrong_orders[i][0], 0, 1024);
		if (wrong_orders[i][1] != 0xff)
			inject(wrong_orders[i][1], 1, 1024);
		assert_event(&b, IBV_EVENT_QP_REQ_ERR);
		assert_int_equal(simulation_last(UR_RC_ACKNOWLEDGE)->syndrome,
				 UR_SYNDROME_NAK | UR_NAK_INVALID_REQUEST);
		assert_completion(b.recv_cq, 1, IBV_WC_WR_FLUSH_ERR);
		simulation_destroy();
	}
}

static void payloads_of_a_wrong_length_are_an_invalid_request(void **state)
{
	static const struct {
		uint8_t opcode;
		size_t length;
	} packets[] = { { UR_RC_SEND_FIRST, 1023 },  { UR_RC_SEND_FIRST, 1025 },
			{ UR_RC_SEND_ONLY, 1025 },   { UR_RC_WRITE_ONLY, 1024 },
			{ UR_RC_WRITE_FIRST, 4096 }, { UR_RC_WRITE_ONLY_IMM, 100 } };

	(void)state;
	for (size_t i = 0; i < sizeof(packets) / sizeof(packets[0]); i++) {
		simulation_create(&simulation_defaults);
		inject(packets[i].opcode, 0, packets[i].length);
		assert_event(&b, IBV_EVENT_QP_REQ_ERR);
		assert_all_bytes(b.memory, MEMORY_SIZE, 0);
		simulation_destroy();
	}
}

static void answers_to_nothing_are_ignored(void **state)
{
	struct ur_packet packet = { .opcode = UR_RC_ACKNOWLEDGE,
				    .psn = simulation_defaults.psn + 5 };

	(void)state;
	simulation_inject(&packet, NULL);
	packet.syndrome = UR_SYNDROME_NAK | UR_NAK_REMOTE_ACCESS;
	simulation_inject(&packet, NULL);
	packet.opcode = UR_RC_READ_RESPONSE_ONLY;
	simulation_inject(&packet, NULL);
	simulation_settle();
	assert_int_equal(b.device.counters.rx_unexpected, 3);
	assert_int_equal(state_of(&b), IBV_QPS_RTS);
}

/* ---- Ends that come while another is being dealt with ---- */

static enum fate loses_acknowledgements(const struct ur_packet *packet, unsigned count,
					void *user_data)
{
	(void)count, (void)user_data;
	return packet->opcode == UR_RC_ACKNOWLEDGE && packet->syndrome < UR_SYNDROME_NAK ? DROP
											 : DELIVER;
}

/* The NAK acknowledges what is before the request that has failed already by itself. */
static void a_nak_for_a_request_that_failed_locally_ends_it_once(void **state)
{
	struct ibv_sge sges[] = { simulation_sge(&a, 0, 1024), simulation_sge(&a, 0, 1024) };
	struct ibv_send_wr wr = simulation_wr(IBV_WR_RDMA_WRITE, sges, 2);

	(void)state;
	simulation_set_fate(loses_acknowledgements, NULL);
	post(IBV_WR_RDMA_WRITE, 10, 1);
	sges[1].lkey ^= 0x100;
	wr.num_sge = 2;
	wr.wr.rdma.rkey ^= 0x100;
	simulation_post_send(&a, &wr);
	simulation_settle();
	assert_completion(a.send_cq, 1, IBV_WC_SUCCESS);
	assert_completion(a.send_cq, 2, IBV_WC_LOC_PROT_ERR);
	assert_no_completion(a.send_cq);
	assert_int_equal(a.qp->sq.head, a.qp->sq.tail);
	assert_event(&b, IBV_EVENT_QP_ACCESS_ERR);
}

static void a_region_that_goes_before_the_immediate_leaves_the_receive_to_be_flushed(void **state)
{
	struct ur_packet packet = { .opcode = UR_RC_WRITE_FIRST,
				    .pkey = UR_DEFAULT_PKEY,
				    .psn = simulation_defaults.psn,
				    .va = (uintptr_t)b.memory,
				    .rkey = b.mr->verbs.rkey,
				    .dma_length = 2048,
				    .payload_length = 1024 };
	uint8_t payload[1024] = { 0 };

	(void)state;
	simulation_post_recv(&b, 1, 0, 0);
	simulation_inject(&packet, payload);
	simulation_settle();
	assert_int_equal(ur_mr_deregister(b.mr), 0);
	packet.opcode = UR_RC_WRITE_LAST_IMM;
	packet.psn++;
	simulation_inject(&packet, payload);
	simulation_settle();
	assert_completion(b.recv_cq, 1, IBV_WC_WR_FLUSH_ERR);
	assert_event(&b, IBV_EVENT_QP_ACCESS_ERR);
	b.mr = ur_mr_register(b.pd, b.memory, MEMORY_SIZE, UINT64_MAX, ALL_ACCESS);
}

/* The answer of the read, which is due before the NAK of the send, cannot be given. */
static void two_reasons_to_end_complete_a_receive_once(void **state)
{
	struct ur_mr *mr = ur_mr_register(b.pd, b.memory, 4096, UINT64_MAX, ALL_ACCESS);
	struct ur_packet read = { .opcode = UR_RC_READ_REQUEST,
				  .pkey = UR_DEFAULT_PKEY,
				  .psn = simulation_defaults.psn,
				  .va = (uintptr_t)b.memory,
				  .rkey = mr->verbs.rkey,
				  .dma_length = 10 };
	struct ur_packet send = { .opcode = UR_RC_SEND_ONLY,
				  .pkey = UR_DEFAULT_PKEY,
				  .psn = simulation_defaults.psn + 1,
				  .payload_length = 100 };
	static const uint8_t payload[100];

	(void)state;
	simulation_post_recv(&b, 1, 5000, 10);
	ur_responder_receive(b.qp, &read);
	assert_int_equal(ur_mr_deregister(mr), 0);
	send.payload = payload;
	ur_responder_receive(b.qp, &send);
	simulation_settle();
	assert_completion(b.recv_cq, 1, IBV_WC_WR_FLUSH_ERR);
	assert_no_completion(b.recv_cq);
	assert_event(&b, IBV_EVENT_QP_ACCESS_ERR);
	assert_int_equal(b.device.counters.naks_sent, 1);
}

static void the_error_state_ends_answers_that_are_still_to_be_sent(void **state)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct ur_packet read = { .opcode = UR_RC_READ_REQUEST,
				  .pkey = UR_DEFAULT_PKEY,
				  .psn = simulation_defaults.psn,
				  .va = (uintptr_t)b.memory,
				  .rkey = b.mr->verbs.rkey,
				  .dma_length = 500000 };

	(void)state;
	ur_responder_receive(b.qp, &read);
	assert_int_equal(ur_qp_modify(b.qp, &attr, IBV_QP_STATE), 0);
	assert_int_equal(b.qp->responder.job_count, 0);
	simulation_settle();
	assert_true(simulation_count(UR_RC_READ_RESPONSE_MIDDLE) <= UR_RESPONSE_BURST);
}

static void receives_of_a_shared_queue_are_of_its_own_domain(void **state)
{
	struct simulation_config config = simulation_defaults;
	struct ur_pd *other;
	struct ur_mr *mr;
	struct ibv_sge sge;
	struct ibv_recv_wr wr = { .wr_id = 1, .sg_list = &sge, .num_sge = 1 }, *bad;

	(void)state;
	config.srq = true;
	simulation_create(&config);
	other = ur_pd_alloc(b.context);
	mr = ur_mr_register(other, b.memory, 4096, UINT64_MAX, ALL_ACCESS);
	b.srq->pd = other;
	sge = (struct ibv_sge){ (uintptr_t)b.memory, 100, mr->verbs.lkey };
	assert_int_equal(ur_srq_post(&b.srq->verbs, &wr, &bad), 0);
	post(IBV_WR_SEND, 100, 1);
	simulation_settle();
	assert_completion(b.recv_cq, 1, IBV_WC_SUCCESS);
	assert_completion(a.send_cq, 1, IBV_WC_SUCCESS);
	b.srq->pd = b.pd;
	assert_int_equal(ur_mr_deregister(mr), 0);
	assert_int_equal(ur_pd_dealloc(other), 0);
	simulation_destroy();
}

/* ---- A completion queue that is too small ---- */

static void a_completion_that_is_lost_ends_the_queue_pair(void **state)
{
	(void)state;
	for (unsigned i = 0; i < a.send_cq->capacity + 1; i++) {
		post(IBV_WR_RDMA_WRITE, 1, i);
		simulation_settle();
	}
	assert_int_equal(state_of(&a), IBV_QPS_ERR);
	assert_event(&a, IBV_EVENT_CQ_ERR);
	assert_event(&a, IBV_EVENT_QP_FATAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		cmocka_unit_test(what_is_not_allowed_is_refused_and_changes_nothing),
		cmocka_unit_test(region_domain_and_queue_pair_must_all_permit),
		TEST(a_region_that_goes_during_a_write_stops_it),
		TEST(more_reads_than_agreed_are_refused),
		TEST(an_atomic_write_of_another_length_is_refused),
		TEST(a_message_longer_than_its_receive_ends_both_sides),
		TEST(a_receive_without_a_right_key_ends_both_sides),
		TEST(a_local_key_that_is_wrong_ends_what_comes_after_it),
		TEST(a_read_into_memory_that_is_not_writable_fails_locally),
		TEST(a_receive_posted_in_time_is_waited_for),
		TEST(the_rnr_error_comes_after_the_retries),
		cmocka_unit_test(rnr_retry_seven_waits_for_ever),
		TEST(a_write_with_immediate_waits_for_a_receive_and_writes_once),
		TEST(the_retry_error_comes_when_timeout_and_count_say),
		cmocka_unit_test(without_a_timeout_it_asks_for_ever),
		TEST(a_silent_peer_is_tried_at_the_standard_port),
		TEST(what_is_posted_in_the_error_state_is_flushed),
		TEST(a_message_half_received_flushes_its_receive),
		cmocka_unit_test(with_a_shared_queue_the_last_receive_is_told),
		cmocka_unit_test(packets_in_a_wrong_order_are_an_invalid_request),
		cmocka_unit_test(payloads_of_a_wrong_length_are_an_invalid_request),
		TEST(answers_to_nothing_are_ignored),
		TEST(a_nak_for_a_request_that_failed_locally_ends_it_once),
		TEST(a_region_that_goes_before_the_immediate_leaves_the_receive_to_be_flushed),
		TEST(two_reasons_to_end_complete_a_receive_once),
		TEST(the_error_state_ends_answers_that_are_still_to_be_sent),
		cmocka_unit_test(receives_of_a_shared_queue_are_of_its_own_domain),
		TEST(a_completion_that_is_lost_ends_the_queue_pair),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
