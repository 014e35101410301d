/*
 * Multicast, as a program calls it through verbs and librdmacm, on the loopback interface's device.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/ip.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "../unit/uroce/network.h"

#define GROUP         "224.0.1.77"
#define OTHER_GROUP   "239.1.2.3"
#define MULTICAST_QPN 0xffffff
#define PATIENCE_MS   20000
#define HEADER_SIZE   40
#define MESSAGE_SIZE  16
#define QPS           3

#define CAP                                                                               \
	{                                                                                 \
		.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1, \
		.max_inline_data = MESSAGE_SIZE                                           \
	}

#define assert_fails(error, call)               \
	do {                                    \
		errno = 0;                      \
		assert_int_equal((call), -1);   \
		assert_int_equal(errno, error); \
	} while (0)

/* A queue pair with its completion queues, and what it receives. */
struct member {
	struct ibv_qp *qp;
	struct ibv_cq *send_cq;
	struct ibv_cq *recv_cq;
	char buffer[HEADER_SIZE + MESSAGE_SIZE];
	struct ibv_mr *mr;
};

static struct {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct member members[QPS];
	struct ibv_ah *ah;
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;
} on;

/* ---- Objects ---- */

static union ibv_gid gid_of(const char *ipv4)
{
	union ibv_gid gid = { .raw = { [10] = 0xff, [11] = 0xff } };

	if (inet_pton(AF_INET, ipv4, &gid.raw[12]) != 1)
		assert_int_equal(inet_pton(AF_INET6, ipv4, gid.raw), 1);
	return gid;
}

static struct ibv_ah *create_ah(const char *address)
{
	struct ibv_ah_attr attr = { .is_global = 1,
				    .port_num = 1,
				    .grh = { .dgid = gid_of(address), .hop_limit = 3 } };

	return ibv_create_ah(on.pd, &attr);
}

static struct ibv_qp *create_qp(const struct member *member, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = member->send_cq,
		.recv_cq = member->recv_cq,
		.cap = CAP,
		.qp_type = type,
	};

	return ibv_create_qp(on.pd, &attr);
}

static void make_ready(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT,
				    .port_num = 1,
				    .qkey = RDMA_UDP_QKEY };

	assert_int_equal(ibv_modify_qp(qp, &attr,
				       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
					       IBV_QP_QKEY),
			 0);
	attr.qp_state = IBV_QPS_RTR;
	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
	attr.qp_state = IBV_QPS_RTS;
	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
}

static void open_member(struct member *member)
{
	member->send_cq = ibv_create_cq(on.context, 4, NULL, NULL, 0);
	member->recv_cq = ibv_create_cq(on.context, 4, NULL, NULL, 0);
	member->mr =
		ibv_reg_mr(on.pd, member->buffer, sizeof(member->buffer), IBV_ACCESS_LOCAL_WRITE);
	member->qp = create_qp(member, IBV_QPT_UD);
	assert_true(member->send_cq && member->recv_cq && member->mr && member->qp);
	make_ready(member->qp);
}

static void close_member(struct member *member)
{
	assert_int_equal(ibv_destroy_qp(member->qp), 0);
	assert_int_equal(ibv_dereg_mr(member->mr), 0);
	assert_int_equal(ibv_destroy_cq(member->recv_cq), 0);
	assert_int_equal(ibv_destroy_cq(member->send_cq), 0);
}

static int set_up(void **state)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	(void)state;
	memset(&on, 0, sizeof(on));
	on.context = ibv_open_device(list[0]);
	ibv_free_device_list(list);
	on.pd = ibv_alloc_pd(on.context);
	for (int i = 0; i < QPS; i++)
		open_member(&on.members[i]);
	on.ah = create_ah(GROUP);
	on.channel = rdma_create_event_channel();
	return on.ah && on.channel ? 0 : -1;
}

static int tear_down(void **state)
{
	(void)state;
	if (on.id && on.id->qp)
		rdma_destroy_qp(on.id);
	if (on.id)
		rdma_destroy_id(on.id);
	rdma_destroy_event_channel(on.channel);
	assert_int_equal(ibv_destroy_ah(on.ah), 0);
	for (int i = 0; i < QPS; i++)
		close_member(&on.members[i]);
	assert_int_equal(ibv_dealloc_pd(on.pd), 0);
	return ibv_close_device(on.context);
}

/* ---- Messages ---- */

static int attach(unsigned member, const char *group)
{
	union ibv_gid gid = gid_of(group);

	return ibv_attach_mcast(on.members[member].qp, &gid, 0);
}

static int detach(unsigned member, const char *group)
{
	union ibv_gid gid = gid_of(group);

	return ibv_detach_mcast(on.members[member].qp, &gid, 0);
}

static void post_recv(unsigned index)
{
	struct member *member = &on.members[index];
	struct ibv_sge sge = { (uintptr_t)member->buffer, sizeof(member->buffer),
			       member->mr->lkey };
	struct ibv_recv_wr *bad, wr = { .sg_list = &sge, .num_sge = 1 };

	assert_int_equal(ibv_post_recv(member->qp, &wr, &bad), 0);
}

static int post_send(struct ibv_qp *qp, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey,
		     const char *text)
{
	char message[MESSAGE_SIZE] = { 0 };
	struct ibv_sge sge = { (uintptr_t)message, sizeof(message), 0 };
	struct ibv_send_wr *bad, wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_INLINE,
		.wr.ud = { .ah = ah, .remote_qpn = qpn, .remote_qkey = qkey },
	};

	strcpy(message, text);
	return ibv_post_send(qp, &wr, &bad);
}

static void send_from(unsigned member, const char *text)
{
	assert_int_equal(
		post_send(on.members[member].qp, on.ah, MULTICAST_QPN, RDMA_UDP_QKEY, text), 0);
}

static struct ibv_wc wait_for_completion(struct ibv_cq *cq)
{
	time_t end = time(NULL) + PATIENCE_MS / 1000;
	struct ibv_wc wc;

	while (ibv_poll_cq(cq, 1, &wc) == 0)
		assert_true(time(NULL) < end);
	return wc;
}

/* The next that the member receives is that text, into the only receive that was posted. */
static struct ibv_wc assert_receives(unsigned index, const char *text)
{
	struct member *member = &on.members[index];
	struct ibv_wc wc = wait_for_completion(member->recv_cq);

	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.byte_len, HEADER_SIZE + MESSAGE_SIZE);
	assert_string_equal(member->buffer + HEADER_SIZE, text);
	return wc;
}

static void assert_receives_nothing(unsigned member)
{
	struct ibv_wc wc;

	assert_int_equal(ibv_poll_cq(on.members[member].recv_cq, 1, &wc), 0);
}

/* ---- Verbs ---- */

static void test_each_queue_pair_of_a_group_gets_one_copy(void **state)
{
	static const char *const texts[] = { "one", "two", "three" };

	(void)state;
	assert_int_equal(attach(0, GROUP), 0);
	assert_int_equal(attach(1, GROUP), 0);
	assert_int_equal(attach(1, GROUP), 0);
	for (int i = 0; i < 3; i++) {
		for (unsigned member = 0; member < QPS; member++)
			post_recv(member);
		send_from(2, texts[i]);
		assert_receives(0, texts[i]);
		assert_receives(1, texts[i]);
	}
	assert_receives_nothing(2);
	assert_int_equal(detach(0, GROUP), 0);
	assert_int_equal(detach(1, GROUP), 0);
	assert_int_equal(detach(1, GROUP), EINVAL);
}

static void test_the_header_names_the_group(void **state)
{
	struct ip header;
	struct ibv_wc wc;

	(void)state;
	assert_int_equal(attach(0, GROUP), 0);
	post_recv(0);
	send_from(2, "whom");
	wc = assert_receives(0, "whom");
	assert_true(wc.wc_flags & IBV_WC_GRH);
	assert_int_equal(wc.src_qp, on.members[2].qp->qp_num);
	memcpy(&header, on.members[0].buffer + HEADER_SIZE - sizeof(header), sizeof(header));
	assert_int_equal(header.ip_dst.s_addr, inet_addr(GROUP));
	assert_int_equal(header.ip_src.s_addr, inet_addr("127.0.0.1"));
	assert_int_equal(detach(0, GROUP), 0);
}

static void test_a_sender_that_is_attached_gets_its_own_copy(void **state)
{
	(void)state;
	assert_int_equal(attach(2, GROUP), 0);
	post_recv(2);
	send_from(2, "to myself");
	assert_receives(2, "to myself");
	assert_int_equal(detach(2, GROUP), 0);
}

static struct ibv_qp *create_deaf_qp(const struct member *member)
{
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = member->send_cq,
		.recv_cq = member->recv_cq,
		.cap = CAP,
		.qp_type = IBV_QPT_UD,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS,
		.pd = on.pd,
		.create_flags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB,
	};

	return ibv_create_qp_ex(on.context, &attr);
}

/* But it gets what others send, and they what it sends. */
static void test_a_sender_can_be_spared_its_own_copy(void **state)
{
	(void)state;
	assert_int_equal(ibv_destroy_qp(on.members[2].qp), 0);
	on.members[2].qp = create_deaf_qp(&on.members[2]);
	assert_non_null(on.members[2].qp);
	make_ready(on.members[2].qp);
	assert_int_equal(attach(2, GROUP), 0);
	assert_int_equal(attach(0, GROUP), 0);
	post_recv(2);
	post_recv(0);
	send_from(2, "not to myself");
	assert_receives(0, "not to myself");
	assert_receives_nothing(2);
	post_recv(0);
	send_from(0, "to both");
	assert_receives(0, "to both");
	assert_receives(2, "to both");
	assert_int_equal(detach(0, GROUP), 0);
	assert_int_equal(detach(2, GROUP), 0);
}

static void test_who_was_detached_gets_nothing(void **state)
{
	(void)state;
	assert_int_equal(attach(0, GROUP), 0);
	assert_int_equal(attach(1, GROUP), 0);
	assert_int_equal(attach(0, OTHER_GROUP), 0);
	assert_int_equal(detach(0, GROUP), 0);
	post_recv(0);
	post_recv(1);
	send_from(2, "one is left");
	assert_receives(1, "one is left");
	assert_receives_nothing(0);
	assert_int_equal(detach(1, GROUP), 0);
	assert_int_equal(detach(0, OTHER_GROUP), 0);
}

static void test_another_queue_key_is_not_received(void **state)
{
	(void)state;
	assert_int_equal(attach(0, GROUP), 0);
	post_recv(0);
	assert_int_equal(post_send(on.members[2].qp, on.ah, MULTICAST_QPN, 5, "wrong key"), 0);
	send_from(2, "right key");
	assert_receives(0, "right key");
	assert_int_equal(detach(0, GROUP), 0);
}

static void test_a_queue_pair_that_is_not_ready_does_not_keep_the_others_from_theirs(void **state)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };

	(void)state;
	assert_int_equal(attach(0, GROUP), 0);
	assert_int_equal(attach(1, GROUP), 0);
	assert_int_equal(ibv_modify_qp(on.members[0].qp, &attr, IBV_QP_STATE), 0);
	post_recv(1);
	send_from(2, "to one");
	assert_receives(1, "to one");
	make_ready(on.members[0].qp);
	post_recv(0);
	post_recv(1);
	send_from(2, "to both");
	assert_receives(0, "to both");
	assert_receives(1, "to both");
	assert_int_equal(detach(0, GROUP), 0);
	assert_int_equal(detach(1, GROUP), 0);
}

static void test_only_datagrams_and_groups_go_together(void **state)
{
	static const char *const no_groups[] = { "127.0.0.1", "223.255.255.255", "240.0.0.1", "::1",
						 "fe80::1" };
	union ibv_gid gid = gid_of(GROUP);
	struct ibv_qp *qp = create_qp(&on.members[0], IBV_QPT_RC);

	(void)state;
	assert_non_null(qp);
	assert_int_equal(ibv_attach_mcast(qp, &gid, 0), EINVAL);
	assert_int_equal(ibv_detach_mcast(qp, &gid, 0), EINVAL);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	for (size_t i = 0; i < sizeof(no_groups) / sizeof(no_groups[0]); i++)
		assert_int_equal(attach(0, no_groups[i]), EINVAL);
	assert_int_equal(detach(0, GROUP), EINVAL);
	assert_int_equal(attach(1, GROUP), 0);
	assert_int_equal(detach(0, GROUP), EINVAL);
	assert_int_equal(detach(1, GROUP), 0);
}

static void test_a_group_is_sent_to_by_its_number_only(void **state)
{
	struct ibv_ah *host = create_ah("127.0.0.1");
	struct ibv_qp *qp = on.members[2].qp;

	(void)state;
	assert_non_null(host);
	assert_int_equal(post_send(qp, on.ah, 5, RDMA_UDP_QKEY, ""), EINVAL);
	assert_int_equal(post_send(qp, host, MULTICAST_QPN, RDMA_UDP_QKEY, ""), EINVAL);
	assert_int_equal(ibv_destroy_ah(host), 0);
}

static void test_an_attached_queue_pair_is_not_destroyed(void **state)
{
	(void)state;
	assert_int_equal(attach(0, GROUP), 0);
	assert_int_equal(ibv_destroy_qp(on.members[0].qp), EBUSY);
	post_recv(0);
	send_from(2, "still there");
	assert_receives(0, "still there");
	assert_int_equal(detach(0, GROUP), 0);
}

static void test_as_many_queue_pairs_as_the_device_says_can_be_attached(void **state)
{
	struct ibv_device_attr attr;
	union ibv_gid gid = gid_of(GROUP);
	struct ibv_qp **qps;
	int count;

	(void)state;
	assert_int_equal(ibv_query_device(on.context, &attr), 0);
	count = (int)attr.max_mcast_qp_attach;
	assert_int_equal(attr.max_total_mcast_qp_attach, count * (int)attr.max_mcast_grp);
	qps = calloc((size_t)count + 1, sizeof(struct ibv_qp *));
	for (int i = 0; i <= count; i++) {
		qps[i] = create_qp(&on.members[0], IBV_QPT_UD);
		assert_non_null(qps[i]);
		assert_int_equal(ibv_attach_mcast(qps[i], &gid, 0), i < count ? 0 : ENOMEM);
	}
	for (int i = 0; i <= count; i++) {
		assert_int_equal(ibv_detach_mcast(qps[i], &gid, 0), i < count ? 0 : EINVAL);
		assert_int_equal(ibv_destroy_qp(qps[i]), 0);
	}
	free(qps);
}

/* Attaches it to as many groups as there can be, or detaches it. */
static void attach_to_all(unsigned member, bool attached)
{
	struct ibv_device_attr attr;
	char group[INET_ADDRSTRLEN];

	assert_int_equal(ibv_query_device(on.context, &attr), 0);
	for (int i = 0; i < attr.max_mcast_grp; i++) {
		snprintf(group, sizeof(group), "239.0.0.%hhu", (unsigned char)i);
		assert_int_equal((attached ? attach : detach)(member, group), 0);
	}
}

static void test_there_are_as_many_groups_as_the_device_says(void **state)
{
	(void)state;
	attach_to_all(0, true);
	assert_int_equal(attach(1, GROUP), ENOMEM);
	assert_int_equal(attach(1, "239.0.0.5"), 0);
	assert_int_equal(detach(1, "239.0.0.5"), 0);
	attach_to_all(0, false);
	assert_int_equal(attach(1, GROUP), 0);
	assert_int_equal(detach(1, GROUP), 0);
}

/* ---- Ids ---- */

static struct sockaddr *address_of(const char *text)
{
	static union ur_sockaddr addresses[4];
	static unsigned next;
	union ur_sockaddr *address = &addresses[next++ % 4];

	*address = network_address(text, 0);
	return &address->any;
}

static bool has_event(void)
{
	struct pollfd waiting = { .fd = on.channel->fd, .events = POLLIN };

	return poll(&waiting, 1, 0) == 1;
}

static struct rdma_cm_event *read_event(enum rdma_cm_event_type type, int status)
{
	struct rdma_cm_event *event;

	assert_true(has_event());
	assert_int_equal(rdma_get_cm_event(on.channel, &event), 0);
	assert_string_equal(rdma_event_str(event->event), rdma_event_str(type));
	assert_int_equal(event->status, status);
	assert_ptr_equal(event->id, on.id);
	return event;
}

static void expect(enum rdma_cm_event_type type, int status)
{
	assert_int_equal(rdma_ack_cm_event(read_event(type, status)), 0);
}

static void create_id(enum rdma_port_space space)
{
	assert_int_equal(rdma_create_id(on.channel, &on.id, NULL, space), 0);
}

static void create_qp_of_id(void)
{
	struct ibv_qp_init_attr attr = {
		.cap = CAP,
		.qp_type = IBV_QPT_UD,
	};

	assert_int_equal(rdma_create_qp(on.id, NULL, &attr), 0);
}

/* A loopback address alone names no device. */
static void open_id(void)
{
	create_id(RDMA_PS_UDP);
	assert_int_equal(rdma_resolve_addr(on.id, address_of("127.0.0.1"), address_of("127.0.0.1"),
					   2000),
			 0);
	expect(RDMA_CM_EVENT_ADDR_RESOLVED, 0);
}

/* The id has a queue pair and is in the group. */
static void join_group(const char *group)
{
	open_id();
	create_qp_of_id();
	assert_int_equal(rdma_join_multicast(on.id, address_of(group), NULL), 0);
	expect(RDMA_CM_EVENT_MULTICAST_JOIN, 0);
}

/* What the id sends comes to a member. */
static void assert_reaches_a_member(const struct rdma_ud_param *param)
{
	struct ibv_ah *ah = ibv_create_ah(on.id->pd, (struct ibv_ah_attr *)&param->ah_attr);

	assert_non_null(ah);
	assert_int_equal(attach(0, GROUP), 0);
	post_recv(0);
	assert_int_equal(post_send(on.id->qp, ah, param->qp_num, param->qkey, "from the id"), 0);
	assert_receives(0, "from the id");
	assert_int_equal(detach(0, GROUP), 0);
	assert_int_equal(ibv_destroy_ah(ah), 0);
}

static bool id_receives(const char *text)
{
	static char buffer[HEADER_SIZE + MESSAGE_SIZE];
	struct ibv_mr *mr = ibv_reg_mr(on.id->pd, buffer, sizeof(buffer), IBV_ACCESS_LOCAL_WRITE);
	struct ibv_sge sge = { (uintptr_t)buffer, sizeof(buffer), mr->lkey };
	struct ibv_recv_wr *bad, wr = { .sg_list = &sge, .num_sge = 1 };
	struct ibv_wc wc;
	bool received;

	memset(buffer, 0, sizeof(buffer));
	assert_int_equal(ibv_post_recv(on.id->qp, &wr, &bad), 0);
	/* A member gets it after the id, if the id gets it. */
	assert_int_equal(attach(1, GROUP), 0);
	post_recv(1);
	send_from(2, text);
	assert_receives(1, text);
	assert_int_equal(detach(1, GROUP), 0);
	received = ibv_poll_cq(on.id->recv_cq, 1, &wc) == 1;
	if (received) {
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_string_equal(buffer + HEADER_SIZE, text);
	}
	ibv_dereg_mr(mr);
	return received;
}

static void test_who_joins_learns_where_to_send(void **state)
{
	struct rdma_cm_event *event;
	union ibv_gid gid = gid_of(GROUP);
	const struct rdma_ud_param *param;

	(void)state;
	open_id();
	create_qp_of_id();
	assert_int_equal(rdma_join_multicast(on.id, address_of(GROUP), &on), 0);
	event = read_event(RDMA_CM_EVENT_MULTICAST_JOIN, 0);
	param = &event->param.ud;
	assert_ptr_equal(param->private_data, &on);
	assert_int_equal(param->qp_num, MULTICAST_QPN);
	assert_int_equal(param->qkey, RDMA_UDP_QKEY);
	assert_memory_equal(&param->ah_attr.grh.dgid, &gid, sizeof(gid));
	assert_int_equal(param->ah_attr.grh.hop_limit, 64);
	assert_reaches_a_member(param);
	assert_true(id_receives("to the id"));
	assert_int_equal(rdma_ack_cm_event(event), 0);
	assert_int_equal(rdma_leave_multicast(on.id, address_of(GROUP)), 0);
	assert_false(id_receives("to others"));
	assert_fails(EADDRNOTAVAIL, rdma_leave_multicast(on.id, address_of(GROUP)));
}

static void test_a_group_can_be_a_destination(void **state)
{
	union ibv_gid gid = gid_of(GROUP);

	(void)state;
	create_id(RDMA_PS_UDP);
	assert_int_equal(rdma_resolve_addr(on.id, address_of("127.0.0.1"), address_of(GROUP), 2000),
			 0);
	expect(RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	assert_memory_equal(&on.id->route.addr.addr.ibaddr.dgid, &gid, sizeof(gid));
	create_qp_of_id();
	assert_int_equal(rdma_join_multicast(on.id, address_of(GROUP), NULL), 0);
	expect(RDMA_CM_EVENT_MULTICAST_JOIN, 0);
	assert_true(id_receives("resolved"));
}

static void test_an_id_without_a_queue_pair_joins_too(void **state)
{
	(void)state;
	open_id();
	assert_int_equal(rdma_join_multicast(on.id, address_of(GROUP), NULL), 0);
	expect(RDMA_CM_EVENT_MULTICAST_JOIN, 0);
	create_qp_of_id();
	assert_false(id_receives("not attached"));
	assert_int_equal(rdma_leave_multicast(on.id, address_of(GROUP)), 0);
}

static struct rdma_cm_join_mc_attr_ex join_attr(uint32_t flag)
{
	return (struct rdma_cm_join_mc_attr_ex){ .comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS |
							      RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS,
						 .join_flags = flag,
						 .addr = address_of(GROUP) };
}

static void test_who_only_sends_is_not_attached(void **state)
{
	struct rdma_cm_join_mc_attr_ex attr = join_attr(RDMA_MC_JOIN_FLAG_FULLMEMBER);
	struct rdma_cm_event *event;

	(void)state;
	open_id();
	create_qp_of_id();
	assert_int_equal(rdma_join_multicast_ex(on.id, &attr, NULL), 0);
	expect(RDMA_CM_EVENT_MULTICAST_JOIN, 0);
	assert_true(id_receives("to all"));
	assert_int_equal(rdma_leave_multicast(on.id, address_of(GROUP)), 0);
	attr = join_attr(RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER);
	assert_int_equal(rdma_join_multicast_ex(on.id, &attr, NULL), 0);
	event = read_event(RDMA_CM_EVENT_MULTICAST_JOIN, 0);
	assert_reaches_a_member(&event->param.ud);
	assert_int_equal(rdma_ack_cm_event(event), 0);
	assert_false(id_receives("to members"));
	assert_int_equal(rdma_leave_multicast(on.id, address_of(GROUP)), 0);
}

static void test_a_group_is_left_with_its_event_before_it_was_read(void **state)
{
	struct rdma_cm_event *other;

	(void)state;
	open_id();
	assert_int_equal(rdma_join_multicast(on.id, address_of(GROUP), NULL), 0);
	assert_int_equal(rdma_join_multicast(on.id, address_of(OTHER_GROUP), &on), 0);
	assert_int_equal(rdma_leave_multicast(on.id, address_of(GROUP)), 0);
	other = read_event(RDMA_CM_EVENT_MULTICAST_JOIN, 0);
	assert_ptr_equal(other->param.ud.private_data, &on);
	assert_false(has_event());
	/* That it is not acknowledged is nothing to this group. */
	assert_int_equal(rdma_join_multicast(on.id, address_of(GROUP), NULL), 0);
	expect(RDMA_CM_EVENT_MULTICAST_JOIN, 0);
	assert_int_equal(rdma_leave_multicast(on.id, address_of(GROUP)), 0);
	assert_int_equal(rdma_ack_cm_event(other), 0);
}

static struct rdma_cm_event *unacknowledged;
static atomic_bool acknowledged;

static void *acknowledge_later(void *unused)
{
	usleep(50000);
	acknowledged = true;
	rdma_ack_cm_event(unacknowledged);
	return unused;
}

static void test_who_leaves_waits_until_the_event_is_acknowledged(void **state)
{
	pthread_t thread;

	(void)state;
	open_id();
	assert_int_equal(rdma_join_multicast(on.id, address_of(GROUP), NULL), 0);
	unacknowledged = read_event(RDMA_CM_EVENT_MULTICAST_JOIN, 0);
	assert_int_equal(pthread_create(&thread, NULL, acknowledge_later, NULL), 0);
	assert_int_equal(rdma_leave_multicast(on.id, address_of(GROUP)), 0);
	assert_true(acknowledged);
	pthread_join(thread, NULL);
}

static void test_an_id_moves_with_the_groups_that_it_is_joining(void **state)
{
	struct rdma_event_channel *first = on.channel;

	(void)state;
	open_id();
	create_qp_of_id();
	assert_int_equal(rdma_join_multicast(on.id, address_of(GROUP), NULL), 0);
	on.channel = rdma_create_event_channel();
	assert_int_equal(rdma_migrate_id(on.id, on.channel), 0);
	rdma_destroy_event_channel(first);
	expect(RDMA_CM_EVENT_MULTICAST_JOIN, 0);
	assert_true(id_receives("moved"));
}

static void test_a_call_without_a_channel_waits_until_it_has_joined(void **state)
{
	(void)state;
	assert_int_equal(rdma_create_id(NULL, &on.id, NULL, RDMA_PS_UDP), 0);
	assert_int_equal(rdma_resolve_addr(on.id, NULL, address_of("127.0.0.1"), 2000), 0);
	create_qp_of_id();
	assert_int_equal(rdma_join_multicast(on.id, address_of(GROUP), NULL), 0);
	assert_int_equal(on.id->event->event, RDMA_CM_EVENT_MULTICAST_JOIN);
	assert_true(id_receives("at once"));
	assert_int_equal(rdma_leave_multicast(on.id, address_of(GROUP)), 0);
	assert_null(on.id->event);
	assert_int_equal(rdma_join_multicast(on.id, address_of(GROUP), NULL), 0);
}

static void test_a_group_that_cannot_be_joined_is_an_event(void **state)
{
	(void)state;
	open_id();
	create_qp_of_id();
	/* Of the id's own context: the queue pairs that fill the device are of the same device. */
	attach_to_all(0, true);
	assert_int_equal(rdma_join_multicast(on.id, address_of(GROUP), NULL), 0);
	expect(RDMA_CM_EVENT_MULTICAST_ERROR, -ENOMEM);
	attach_to_all(0, false);
	assert_int_equal(rdma_leave_multicast(on.id, address_of(GROUP)), 0);
}

static void test_a_queue_pair_goes_before_the_group_is_left(void **state)
{
	(void)state;
	join_group(GROUP);
	rdma_destroy_qp(on.id);
	assert_null(on.id->qp);
	assert_int_equal(rdma_leave_multicast(on.id, address_of(GROUP)), 0);
}

static void test_an_id_leaves_its_groups_when_it_goes(void **state)
{
	(void)state;
	join_group(GROUP);
	assert_int_equal(rdma_join_multicast(on.id, address_of(OTHER_GROUP), NULL), 0);
	rdma_destroy_qp(on.id);
	assert_int_equal(rdma_destroy_id(on.id), 0);
	on.id = NULL;
	assert_false(has_event());
}

static void test_what_cannot_be_joined_is_refused(void **state)
{
	struct rdma_cm_join_mc_attr_ex attr = join_attr(RDMA_MC_JOIN_FLAG_RESERVED);

	(void)state;
	create_id(RDMA_PS_UDP);
	assert_fails(EINVAL, rdma_join_multicast(on.id, address_of(GROUP), NULL));
	assert_int_equal(rdma_bind_addr(on.id, address_of("127.0.0.1")), 0);
	assert_fails(EINVAL, rdma_join_multicast(NULL, address_of(GROUP), NULL));
	assert_fails(EINVAL, rdma_join_multicast(on.id, NULL, NULL));
	assert_fails(EINVAL, rdma_join_multicast(on.id, address_of("127.0.0.1"), NULL));
	assert_fails(EINVAL, rdma_join_multicast(on.id, address_of("0.0.0.0"), NULL));
	assert_fails(EINVAL, rdma_join_multicast(on.id, address_of("ff0e::1"), NULL));
	assert_fails(EINVAL, rdma_join_multicast_ex(on.id, NULL, NULL));
	assert_fails(EINVAL, rdma_join_multicast_ex(on.id, &attr, NULL));
	attr = join_attr(RDMA_MC_JOIN_FLAG_FULLMEMBER);
	attr.comp_mask |= RDMA_CM_JOIN_MC_ATTR_RESERVED;
	assert_fails(ENOTSUP, rdma_join_multicast_ex(on.id, &attr, NULL));
	attr.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS;
	assert_fails(EINVAL, rdma_join_multicast_ex(on.id, &attr, NULL));
	attr = join_attr(RDMA_MC_JOIN_FLAG_FULLMEMBER);
	attr.addr = NULL;
	assert_fails(EINVAL, rdma_join_multicast_ex(on.id, &attr, NULL));
	assert_fails(EINVAL, rdma_leave_multicast(NULL, address_of(GROUP)));
	assert_fails(EINVAL, rdma_leave_multicast(on.id, NULL));
	assert_fails(EADDRNOTAVAIL, rdma_leave_multicast(on.id, address_of(GROUP)));
	assert_false(has_event());
}

static void test_connections_join_no_group(void **state)
{
	(void)state;
	create_id(RDMA_PS_TCP);
	assert_int_equal(rdma_bind_addr(on.id, address_of("127.0.0.1")), 0);
	assert_fails(EINVAL, rdma_join_multicast(on.id, address_of(GROUP), NULL));
}

#define multicast_test(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		multicast_test(test_each_queue_pair_of_a_group_gets_one_copy),
		multicast_test(test_the_header_names_the_group),
		multicast_test(test_a_sender_that_is_attached_gets_its_own_copy),
		multicast_test(test_a_sender_can_be_spared_its_own_copy),
		multicast_test(test_who_was_detached_gets_nothing),
		multicast_test(test_another_queue_key_is_not_received),
		multicast_test(
			test_a_queue_pair_that_is_not_ready_does_not_keep_the_others_from_theirs),
		multicast_test(test_only_datagrams_and_groups_go_together),
		multicast_test(test_a_group_is_sent_to_by_its_number_only),
		multicast_test(test_an_attached_queue_pair_is_not_destroyed),
		multicast_test(test_as_many_queue_pairs_as_the_device_says_can_be_attached),
		multicast_test(test_there_are_as_many_groups_as_the_device_says),
		multicast_test(test_who_joins_learns_where_to_send),
		multicast_test(test_a_group_can_be_a_destination),
		multicast_test(test_an_id_without_a_queue_pair_joins_too),
		multicast_test(test_who_only_sends_is_not_attached),
		multicast_test(test_a_group_is_left_with_its_event_before_it_was_read),
		multicast_test(test_who_leaves_waits_until_the_event_is_acknowledged),
		multicast_test(test_an_id_moves_with_the_groups_that_it_is_joining),
		multicast_test(test_a_call_without_a_channel_waits_until_it_has_joined),
		multicast_test(test_a_group_that_cannot_be_joined_is_an_event),
		multicast_test(test_a_queue_pair_goes_before_the_group_is_left),
		multicast_test(test_an_id_leaves_its_groups_when_it_goes),
		multicast_test(test_what_cannot_be_joined_is_refused),
		multicast_test(test_connections_join_no_group),
	};

	setenv("UROCE_CM", "1", 1);
	return network_enter() ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}
