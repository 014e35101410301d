/*
 * A peer that is gone, cannot be heard or does not permit what is asked: what a program sees of it,
 * through plain verbs, in real processes and real time.
 */
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <infiniband/verbs.h>

#include "../unit/uroce/network.h"

#define LIMIT_S     30 /* of a test: far longer than any takes */
#define NS_PER_S    UINT64_C(1000000000)
#define WRITES      64
#define WRITE_SIZE  (1024 * 1024)
#define TARGET_SIZE (3 * 4096) /* three packets */
#define RECEIVE_ID  5
#define FIRST_PSN   0xfffff0 /* so that the numbers wrap around */

/* How late an error may be, in multiples of the time that the queue pair was given; a busy machine adds to it. */
#define LATE       2
#define BUSY_LATER NS_PER_S

struct side {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
};

/* What the two processes tell each other. */
struct address {
	union ibv_gid gid;
	uint64_t remote_addr;
	uint32_t rkey;
	uint32_t qp_num;
};

struct patience {
	uint8_t timeout;
	uint8_t retry_cnt;
};

static const struct patience usual = { .timeout = 12, .retry_cnt = 3 };

static uint8_t source[WRITE_SIZE], expected_source[WRITE_SIZE];
static uint8_t target[WRITE_SIZE], expected_target[WRITE_SIZE];

static pid_t test_process;
static uint64_t deadline; /* of the test; a child inherits it */
static pid_t child;       /* 0: there is none */
static int to_peer = -1;
static struct side requester, responder;

/* ---- Checks ---- */

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

/* cmocka's assertions jump back into its loop over the tests, which a child must not go on with. */
static void check_at(bool holds, const char *condition, int line)
{
	if (holds)
		return;
	if (getpid() == test_process)
		fail_msg("line %d: %s: not so", line, condition);
	fprintf(stderr, "child, line %d: %s: not so\n", line, condition);
	_exit(EXIT_FAILURE);
}

#define check(condition) check_at(condition, #condition, __LINE__)

static uint64_t time_until_error(const struct patience *patience)
{
	return (patience->retry_cnt + UINT64_C(1)) * (UINT64_C(4096) << patience->timeout);
}

static void check_error_time(const struct patience *patience, uint64_t at_least, uint64_t at_most)
{
	uint64_t given = time_until_error(patience);

	fprintf(stderr, "given %.1f ms: the error came after %.1f ms\n", (double)given / 1e6,
		(double)at_most / 1e6);
	check(at_least >= given);
	check(at_most < LATE * given + BUSY_LATER);
}

static void fill_memory(void)
{
	for (size_t i = 0; i < WRITE_SIZE; i++) {
		source[i] = (uint8_t)(i * 7 + i / 256);
		target[i] = (uint8_t)~source[i];
	}
	memcpy(expected_source, source, WRITE_SIZE);
	memcpy(expected_target, target, WRITE_SIZE);
}

static void check_memory_is_unchanged(void)
{
	check(memcmp(source, expected_source, WRITE_SIZE) == 0);
	check(memcmp(target, expected_target, WRITE_SIZE) == 0);
}

/* ---- One side ---- */

static struct ibv_context *open_loopback(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = NULL;

	check(list != NULL);
	for (size_t i = 0; list[i] && !context; i++)
		if (strcmp(ibv_get_device_name(list[i]), "uroce_lo") == 0)
			context = ibv_open_device(list[i]);
	ibv_free_device_list(list);
	return context;
}

static void open_side(struct side *side, void *memory, size_t length)
{
	struct ibv_qp_init_attr attr = {
		.cap = { .max_send_wr = WRITES,
			 .max_recv_wr = 1,
			 .max_send_sge = 1,
			 .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
	};

	side->context = open_loopback();
	check(side->context != NULL);
	side->pd = ibv_alloc_pd(side->context);
	check(side->pd != NULL);
	side->mr = ibv_reg_mr(side->pd, memory, length,
			      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	check(side->mr != NULL);
	/* Room for more than is expected, so that a completion too many is seen. */
	side->cq = ibv_create_cq(side->context, 2 * WRITES, NULL, NULL, 0);
	check(side->cq != NULL);
	attr.send_cq = attr.recv_cq = side->cq;
	side->qp = ibv_create_qp(side->pd, &attr);
	check(side->qp != NULL);
}

static void close_side(struct side *side)
{
	check(ibv_destroy_qp(side->qp) == 0);
	check(ibv_destroy_cq(side->cq) == 0);
	check(ibv_dereg_mr(side->mr) == 0);
	check(ibv_dealloc_pd(side->pd) == 0);
	check(ibv_close_device(side->context) == 0);
}

static struct address address_of(const struct side *side)
{
	struct address address = { .remote_addr = (uintptr_t)side->mr->addr,
				   .rkey = side->mr->rkey,
				   .qp_num = side->qp->qp_num };

	check(ibv_query_gid(side->context, 1, 0, &address.gid) == 0);
	return address;
}

static void initialize(struct side *side)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT,
				    .port_num = 1,
				    .qp_access_flags = IBV_ACCESS_REMOTE_WRITE };

	check(ibv_modify_qp(side->qp, &attr,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) ==
	      0);
}

static void get_ready_to_receive(struct side *side, const struct address *peer)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_4096,
		.dest_qp_num = peer->qp_num,
		.rq_psn = FIRST_PSN,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr = { .grh = { .dgid = peer->gid }, .is_global = 1, .port_num = 1 }
	};

	check(ibv_modify_qp(side->qp, &attr,
			    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				    IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				    IBV_QP_MIN_RNR_TIMER) == 0);
}

static void get_ready_to_send(struct side *side, const struct patience *patience)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS,
				    .timeout = patience->timeout,
				    .retry_cnt = patience->retry_cnt,
				    .rnr_retry = 7,
				    .sq_psn = FIRST_PSN,
				    .max_rd_atomic = 1 };

	check(ibv_modify_qp(side->qp, &attr,
			    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				    IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) == 0);
}

static void connect_to(struct side *side, const struct address *peer,
		       const struct patience *patience)
{
	initialize(side);
	get_ready_to_receive(side, peer);
	get_ready_to_send(side, patience);
}

static void post_write(struct side *side, uint64_t wr_id, uint32_t length, uint64_t remote_addr,
		       uint32_t rkey)
{
	struct ibv_sge sge = { .addr = (uintptr_t)side->mr->addr,
			       .length = length,
			       .lkey = side->mr->lkey };
	struct ibv_send_wr wr = { .wr_id = wr_id,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_RDMA_WRITE,
				  .send_flags = IBV_SEND_SIGNALED,
				  .wr.rdma = { .remote_addr = remote_addr, .rkey = rkey } };
	struct ibv_send_wr *bad;

	check(ibv_post_send(side->qp, &wr, &bad) == 0);
}

/* *before: a time when it had not come yet; unchanged if it was there already. */
static struct ibv_wc next_completion_after(struct side *side, uint64_t *before)
{
	struct ibv_wc wc;
	int count;

	for (;;) {
		uint64_t now = now_ns();

		count = ibv_poll_cq(side->cq, 1, &wc);
		if (count != 0 || now >= deadline)
			break;
		*before = now;
	}
	check(count == 1);
	check(wc.qp_num == side->qp->qp_num);
	return wc;
}

static struct ibv_wc next_completion(struct side *side)
{
	uint64_t before;

	return next_completion_after(side, &before);
}

/* Often, as each poll takes in what has come by then. */
static void check_no_completion_is_left(struct side *side)
{
	struct ibv_wc wc;

	for (unsigned i = 0; i < 1000; i++)
		check(ibv_poll_cq(side->cq, 1, &wc) == 0);
}

static enum ibv_qp_state state_of(const struct side *side)
{
	struct ibv_qp_init_attr init_attr;
	struct ibv_qp_attr attr;

	check(ibv_query_qp(side->qp, &attr, IBV_QP_STATE, &init_attr) == 0);
	return attr.qp_state;
}

/* ---- Two processes ---- */

static void tell(int fd, const void *data, size_t size)
{
	check(send(fd, data, size, MSG_NOSIGNAL) == (ssize_t)size);
}

static void hear(int fd, void *data, size_t size)
{
	check(recv(fd, data, size, MSG_WAITALL) == (ssize_t)size);
}

static void make_sockets(int sockets[2])
{
	const struct timeval limit = { .tv_sec = LIMIT_S };

	check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) == 0);
	for (unsigned i = 0; i < 2; i++)
		check(setsockopt(sockets[i], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) == 0);
}

/* In the child, true. However this program ends, the child does not outlive it. */
static bool start_child(void)
{
	child = fork();
	check(child >= 0);
	if (child == 0)
		check(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);
	return child == 0;
}

static int reap_child(void)
{
	int status;

	check(waitpid(child, &status, 0) == child);
	child = 0;
	return status;
}

static _Noreturn void be_the_peer(int fd)
{
	struct address own, peer;
	char ready = 0;

	hear(fd, &ready, 1);
	open_side(&responder, target, WRITE_SIZE);
	own = address_of(&responder);
	tell(fd, &own, sizeof(own));
	hear(fd, &peer, sizeof(peer));
	connect_to(&responder, &peer, &usual);
	tell(fd, &ready, 1);
	for (;;)
		pause();
}

static void start_peer(void)
{
	int sockets[2];

	make_sockets(sockets);
	if (start_child()) {
		close(sockets[0]);
		be_the_peer(sockets[1]);
	}
	close(sockets[1]);
	to_peer = sockets[0];
}

/* Who opens the device first has the standard port, which the other takes over at its death. */
static struct address open_in_order(bool peer_first)
{
	struct address peer;
	char go = 0;

	if (!peer_first)
		open_side(&requester, source, WRITE_SIZE);
	tell(to_peer, &go, 1);
	hear(to_peer, &peer, sizeof(peer));
	if (peer_first)
		open_side(&requester, source, WRITE_SIZE);
	return peer;
}

static struct address connect_to_peer(bool peer_first)
{
	struct address own, peer;
	char ready;

	start_peer();
	peer = open_in_order(peer_first);
	own = address_of(&requester);
	tell(to_peer, &own, sizeof(own));
	connect_to(&requester, &peer, &usual);
	hear(to_peer, &ready, 1);
	return peer;
}

/* ---- A peer that is killed ---- */

/*
 * Some have come, so that the rest is under way. *heard: a time before the last of them came, which
 * is not when this program sees it, if the library's thread was faster.
 */
static void await_some(unsigned *next, uint64_t *heard)
{
	while (*next < 3) {
		struct ibv_wc wc = next_completion_after(&requester, heard);

		check(wc.wr_id == (*next)++);
		check(wc.status == IBV_WC_SUCCESS);
	}
}

static void kill_peer(void)
{
	int status;

	check(kill(child, SIGKILL) == 0);
	status = reap_child();
	check(WIFSIGNALED(status));
	check(WTERMSIG(status) == SIGKILL);
}

static void await_error(unsigned *next)
{
	struct ibv_wc wc;

	do {
		wc = next_completion(&requester);
		check(wc.wr_id == (*next)++);
	} while (wc.status == IBV_WC_SUCCESS && *next < WRITES);
	check(wc.status == IBV_WC_RETRY_EXC_ERR);
	check(*next < WRITES);
}

static void await_flushes(unsigned next)
{
	for (; next < WRITES; next++) {
		struct ibv_wc wc = next_completion(&requester);

		check(wc.wr_id == next);
		check(wc.status == IBV_WC_WR_FLUSH_ERR);
	}
}

static void check_killed_peer(bool peer_first)
{
	struct address peer = connect_to_peer(peer_first);
	uint64_t heard, killed, error;
	unsigned next = 0;

	heard = now_ns();
	for (unsigned i = 0; i < WRITES; i++)
		post_write(&requester, i, WRITE_SIZE, peer.remote_addr, peer.rkey);
	await_some(&next, &heard);
	killed = now_ns();
	kill_peer();
	await_error(&next);
	error = now_ns();
	await_flushes(next);
	check_no_completion_is_left(&requester);
	/* The time runs from the last sign of life, which may be a moment before the death. */
	check_error_time(&usual, error - heard, error - killed);
	check(state_of(&requester) == IBV_QPS_ERR);
	check_memory_is_unchanged();
	close_side(&requester);
}

static void test_writes_to_a_peer_that_is_killed_end_in_order(void **state)
{
	(void)state;
	check_killed_peer(false);
}

static void test_the_owner_of_the_port_can_be_killed(void **state)
{
	(void)state;
	check_killed_peer(true);
}

/* ---- Two sides in one process ---- */

static void open_pair(const struct patience *patience)
{
	struct address addresses[2];

	open_side(&requester, source, WRITE_SIZE);
	open_side(&responder, target, TARGET_SIZE);
	addresses[0] = address_of(&requester);
	addresses[1] = address_of(&responder);
	connect_to(&requester, &addresses[1], patience);
	connect_to(&responder, &addresses[0], patience);
}

static void close_pair(void)
{
	close_side(&requester);
	close_side(&responder);
}

/* ---- A peer that nothing reaches ---- */

/* In a process of its own, as the environment is read when a device is opened. */
static _Noreturn void write_in_vain(const struct patience *patience)
{
	uint64_t start, duration;
	struct ibv_wc wc;

	check(setenv("UROCE_FAULTS", "drop=100%", 1) == 0);
	open_pair(patience);
	start = now_ns();
	post_write(&requester, 1, TARGET_SIZE, (uintptr_t)target, responder.mr->rkey);
	wc = next_completion(&requester);
	duration = now_ns() - start;
	check(wc.wr_id == 1);
	check(wc.status == IBV_WC_RETRY_EXC_ERR);
	check_error_time(patience, duration, duration);
	check(state_of(&requester) == IBV_QPS_ERR);
	check(state_of(&responder) == IBV_QPS_RTS);
	check_memory_is_unchanged();
	close_pair();
	_exit(EXIT_SUCCESS);
}

static void test_the_retry_error_comes_when_timeout_and_retry_count_say(void **state)
{
	static const struct patience cases[] = { { 12, 3 }, { 14, 0 }, { 14, 1 }, { 11, 7 } };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int status;

		if (start_child())
			write_in_vain(&cases[i]);
		status = reap_child();
		check(WIFEXITED(status));
		check(WEXITSTATUS(status) == EXIT_SUCCESS);
	}
}

/* ---- A peer that does not permit it ---- */

static void post_receive(void)
{
	struct ibv_sge sge = { .addr = (uintptr_t)target,
			       .length = TARGET_SIZE,
			       .lkey = responder.mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = RECEIVE_ID, .sg_list = &sge, .num_sge = 1 };
	struct ibv_recv_wr *bad;

	check(ibv_post_recv(responder.qp, &wr, &bad) == 0);
}

static void await_access_event(void)
{
	struct pollfd readable = { .fd = responder.context->async_fd, .events = POLLIN };
	struct ibv_async_event event;

	check(poll(&readable, 1, LIMIT_S * 1000) == 1);
	check(ibv_get_async_event(responder.context, &event) == 0);
	check(event.event_type == IBV_EVENT_QP_ACCESS_ERR);
	check(event.element.qp == responder.qp);
	ibv_ack_async_event(&event);
	check(poll(&readable, 1, 0) == 0);
}

static void await_flushed_receive(void)
{
	struct ibv_wc wc = next_completion(&responder);

	check(wc.wr_id == RECEIVE_ID);
	check(wc.status == IBV_WC_WR_FLUSH_ERR);
	check_no_completion_is_left(&responder);
}

static void check_refused(uint32_t length, uint32_t rkey)
{
	struct ibv_wc wc;

	post_receive();
	post_write(&requester, 1, length, (uintptr_t)target, rkey);
	wc = next_completion(&requester);
	check(wc.wr_id == 1);
	check(wc.status == IBV_WC_REM_ACCESS_ERR);
	check_no_completion_is_left(&requester);
	await_access_event();
	await_flushed_receive();
	check(state_of(&responder) == IBV_QPS_ERR);
	check(state_of(&requester) == IBV_QPS_ERR);
	check_memory_is_unchanged();
}

/* So that the refusals below are for the reasons that they are meant to be for. */
static void test_a_write_that_is_permitted_is_done(void **state)
{
	struct ibv_wc wc;

	(void)state;
	post_write(&requester, 1, TARGET_SIZE, (uintptr_t)target, responder.mr->rkey);
	wc = next_completion(&requester);
	check(wc.status == IBV_WC_SUCCESS);
	memcpy(expected_target, source, TARGET_SIZE);
	check_memory_is_unchanged();
}

static void test_a_key_that_nobody_has_is_refused(void **state)
{
	(void)state;
	check_refused(TARGET_SIZE, ~responder.mr->rkey);
}

static void test_a_key_that_is_almost_right_is_refused(void **state)
{
	(void)state;
	check_refused(TARGET_SIZE, responder.mr->rkey ^ 1);
}

static void test_a_key_of_another_protection_domain_is_refused(void **state)
{
	struct ibv_pd *pd = ibv_alloc_pd(responder.context);
	struct ibv_mr *mr;

	(void)state;
	check(pd != NULL);
	mr = ibv_reg_mr(pd, target, TARGET_SIZE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	check(mr != NULL);
	check_refused(TARGET_SIZE, mr->rkey);
	check(ibv_dereg_mr(mr) == 0);
	check(ibv_dealloc_pd(pd) == 0);
}

static void test_a_key_that_is_no_more_is_refused(void **state)
{
	struct ibv_mr *mr = ibv_reg_mr(responder.pd, target, TARGET_SIZE,
				       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	uint32_t rkey;

	(void)state;
	check(mr != NULL);
	rkey = mr->rkey;
	check(ibv_dereg_mr(mr) == 0);
	check_refused(TARGET_SIZE, rkey);
}

static void test_a_write_to_memory_that_may_only_be_read_is_refused(void **state)
{
	struct ibv_mr *mr = ibv_reg_mr(responder.pd, target, TARGET_SIZE, IBV_ACCESS_REMOTE_READ);

	(void)state;
	check(mr != NULL);
	check_refused(TARGET_SIZE, mr->rkey);
	check(ibv_dereg_mr(mr) == 0);
}

/* The packets before the last would fit, but the first one says how much comes. */
static void test_a_write_that_ends_one_byte_too_far_is_refused_whole(void **state)
{
	(void)state;
	check_refused(TARGET_SIZE + 1, responder.mr->rkey);
}

/* ---- All of it ---- */

static int set_up(void **state)
{
	(void)state;
	deadline = now_ns() + LIMIT_S * NS_PER_S;
	fill_memory();
	return 0;
}

/* Also after a test that failed in between: nothing stays behind. */
static int tear_down(void **state)
{
	(void)state;
	if (child > 0) {
		kill(child, SIGKILL);
		reap_child();
	}
	if (to_peer >= 0)
		close(to_peer);
	to_peer = -1;
	return 0;
}

static int set_up_pair(void **state)
{
	set_up(state);
	open_pair(&usual);
	return 0;
}

static int tear_down_pair(void **state)
{
	close_pair();
	return tear_down(state);
}

#define peer_test(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
#define pair_test(name) cmocka_unit_test_setup_teardown(name, set_up_pair, tear_down_pair)

int main(void)
{
	const struct CMUnitTest tests[] = {
		peer_test(test_writes_to_a_peer_that_is_killed_end_in_order),
		peer_test(test_the_owner_of_the_port_can_be_killed),
		peer_test(test_the_retry_error_comes_when_timeout_and_retry_count_say),
		pair_test(test_a_write_that_is_permitted_is_done),
		pair_test(test_a_key_that_nobody_has_is_refused),
		pair_test(test_a_key_that_is_almost_right_is_refused),
		pair_test(test_a_key_of_another_protection_domain_is_refused),
		pair_test(test_a_key_that_is_no_more_is_refused),
		pair_test(test_a_write_to_memory_that_may_only_be_read_is_refused),
		pair_test(test_a_write_that_ends_one_byte_too_far_is_refused_whole),
	};

	test_process = getpid();
	return network_enter() ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}
