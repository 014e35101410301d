/*
 * The exported functions, as a program calls them: on the loopback interface's device, and on
 * devices of another library.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "../unit/uroce/network.h"
#include "other_verbs.h"

/* Private functions of libibverbs. */
int ibv_query_gid_type(struct ibv_context *context, uint8_t port, unsigned index, unsigned *type);
int ibv_read_sysfs_file(const char *folder, const char *file, char *text, size_t size);

static char memory[2][4096];

static struct {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_mr *mrs[2];
	struct ibv_qp *qps[2];
} on;

static struct ibv_device *find_loopback(struct ibv_device **list)
{
	for (; *list; list++)
		if (strcmp((*list)->name, "uroce_lo") == 0)
			return *list;
	return NULL;
}

static int set_up(void **state)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	(void)state;
	other_list_error = 0;
	memset(&on, 0, sizeof(on));
	on.context = ibv_open_device(find_loopback(list));
	ibv_free_device_list(list);
	other_verbs_called();
	return on.context ? 0 : -1;
}

static int tear_down(void **state)
{
	(void)state;
	return ibv_close_device(on.context);
}

/* ---- The list ---- */

static void test_our_devices_stand_behind_those_of_others(void **state)
{
	int count = 0;
	struct ibv_device **list = ibv_get_device_list(&count);

	(void)state;
	assert_int_equal(count, 3);
	assert_ptr_equal(list[0], &other_devices[0]);
	assert_ptr_equal(list[1], &other_devices[1]);
	assert_ptr_equal(list[2], on.context->device);
	assert_string_equal(list[2]->name, "uroce_lo");
	assert_null(list[3]);
	other_freed_list = NULL;
	ibv_free_device_list(list);
	assert_ptr_equal(other_freed_list[0], &other_devices[0]);
}

static void test_our_devices_are_listed_if_the_others_cannot_be(void **state)
{
	static const int errors[] = { ENOSYS, EPERM };

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		int count = 0;
		struct ibv_device **list;

		other_list_error = errors[i];
		list = ibv_get_device_list(&count);
		assert_non_null(list);
		assert_int_equal(count, 1);
		assert_ptr_equal(list[0], on.context->device);
		assert_null(list[1]);
		other_freed_list = NULL;
		ibv_free_device_list(list);
		assert_null(other_freed_list);
	}
}

static void test_a_device_has_a_name_and_a_guid_but_no_index(void **state)
{
	struct ibv_device *device = on.context->device;
	struct ibv_device_attr attr;

	(void)state;
	assert_int_equal(ibv_query_device(on.context, &attr), 0);
	assert_int_equal(ibv_get_device_guid(device), attr.node_guid);
	assert_int_not_equal(attr.node_guid, 0);
	assert_string_equal(ibv_get_device_name(device), "uroce_lo");
	assert_int_equal(ibv_get_device_index(device), -1);
	assert_string_equal(other_verbs_called(), "");
}

/* ---- Others' objects ---- */

#define assert_goes_to(name, call)                               \
	do {                                                     \
		(void)(call);                                    \
		assert_string_equal(other_verbs_called(), name); \
	} while (0)
#define assert_passed_on(function, ...) assert_goes_to(#function, function(__VA_ARGS__))

static void test_what_is_not_ours_goes_to_the_next_library(void **state)
{
	struct ibv_context context = { .device = &other_devices[0] };
	struct ibv_pd pd = { .context = &context };
	struct ibv_mr mr = { .context = &context };
	struct ibv_dm dm = { .context = &context };
	struct ibv_ah ah = { .context = &context };
	struct ibv_comp_channel channel = { .context = &context };
	struct ibv_cq cq = { .context = &context };
	struct ibv_qp qp = { .context = &context };
	struct ibv_srq srq = { .context = &context };
	struct ibv_qp_init_attr init_attr = { 0 };

	(void)state;
	assert_passed_on(ibv_get_device_name, &other_devices[0]);
	assert_passed_on(ibv_get_device_index, &other_devices[0]);
	assert_passed_on(ibv_get_device_guid, &other_devices[0]);
	assert_passed_on(ibv_open_device, &other_devices[0]);
	assert_passed_on(ibv_close_device, &context);
	assert_passed_on(ibv_query_device, &context, NULL);
	assert_goes_to("ibv_query_port", (ibv_query_port)(&context, 1, NULL));
	assert_passed_on(ibv_query_gid, &context, 1, 0, NULL);
	assert_passed_on(_ibv_query_gid_ex, &context, 1, 0, NULL, 0, 0);
	assert_passed_on(_ibv_query_gid_table, &context, NULL, 0, 0, 0);
	assert_passed_on(ibv_query_gid_type, &context, 1, 0, NULL);
	assert_passed_on(ibv_query_pkey, &context, 1, 0, NULL);
	assert_passed_on(ibv_get_pkey_index, &context, 1, 0xffff);
	assert_passed_on(ibv_read_sysfs_file, "/sys", "file", NULL, 0);

	assert_passed_on(ibv_alloc_pd, &context);
	assert_passed_on(ibv_dealloc_pd, &pd);
	assert_goes_to("ibv_reg_mr", (ibv_reg_mr)(&pd, NULL, 0, 0));
	assert_goes_to("ibv_reg_mr_iova", (ibv_reg_mr_iova)(&pd, NULL, 0, 0, 0));
	assert_passed_on(ibv_reg_mr_iova2, &pd, NULL, 0, 0, 0);
	assert_passed_on(ibv_reg_dmabuf_mr, &pd, 0, 0, 0, 0, 0);
	assert_passed_on(ibv_rereg_mr, &mr, 0, NULL, NULL, 0, 0);
	assert_passed_on(ibv_dereg_mr, &mr);
	assert_passed_on(ibv_import_device, -1);
	assert_passed_on(ibv_import_device, STDIN_FILENO);
	assert_passed_on(ibv_import_pd, &context, 0);
	assert_passed_on(ibv_unimport_pd, &pd);
	assert_passed_on(ibv_import_mr, &pd, 0);
	assert_passed_on(ibv_unimport_mr, &mr);
	assert_passed_on(ibv_import_dm, &context, 0);
	assert_passed_on(ibv_unimport_dm, &dm);

	assert_passed_on(ibv_create_comp_channel, &context);
	assert_passed_on(ibv_destroy_comp_channel, &channel);
	assert_passed_on(ibv_get_cq_event, &channel, NULL, NULL);
	assert_passed_on(ibv_ack_cq_events, &cq, 1);
	assert_passed_on(ibv_create_cq, &context, 1, NULL, NULL, 0);
	assert_passed_on(ibv_resize_cq, &cq, 1);
	assert_passed_on(ibv_destroy_cq, &cq);
	assert_passed_on(ibv_get_async_event, &context, NULL);

	assert_passed_on(ibv_create_qp, &pd, &init_attr);
	assert_passed_on(ibv_qp_to_qp_ex, &qp);
	assert_passed_on(ibv_modify_qp, &qp, NULL, 0);
	assert_passed_on(ibv_query_qp, &qp, NULL, 0, NULL);
	assert_passed_on(ibv_query_qp_data_in_order, &qp, IBV_WR_SEND, 0);
	assert_passed_on(ibv_destroy_qp, &qp);
	assert_passed_on(ibv_query_ece, &qp, NULL);
	assert_passed_on(ibv_set_ece, &qp, NULL);
	assert_passed_on(ibv_attach_mcast, &qp, NULL, 0);
	assert_passed_on(ibv_detach_mcast, &qp, NULL, 0);
	assert_passed_on(ibv_create_srq, &pd, NULL);
	assert_passed_on(ibv_modify_srq, &srq, NULL, 0);
	assert_passed_on(ibv_query_srq, &srq, NULL);
	assert_passed_on(ibv_destroy_srq, &srq);

	assert_passed_on(ibv_create_ah, &pd, NULL);
	assert_passed_on(ibv_create_ah_from_wc, &pd, NULL, NULL, 1);
	assert_passed_on(ibv_init_ah_from_wc, &context, 1, NULL, NULL, NULL);
	assert_passed_on(ibv_destroy_ah, &ah);
	assert_passed_on(ibv_resolve_eth_l2_from_gid, &context, NULL, NULL, NULL);
}

static void test_events_of_others_are_acknowledged_by_them(void **state)
{
	struct ibv_context context = { .device = &other_devices[0] };
	struct ibv_cq cq = { .context = &context };
	struct ibv_qp qp = { .context = &context };
	struct ibv_srq srq = { .context = &context };
	struct ibv_async_event events[] = {
		{ .event_type = IBV_EVENT_CQ_ERR, .element.cq = &cq },
		{ .event_type = IBV_EVENT_SRQ_ERR, .element.srq = &srq },
		{ .event_type = IBV_EVENT_PATH_MIG, .element.qp = &qp },
		{ .event_type = IBV_EVENT_PORT_ERR, .element.port_num = 1 },
		{ .event_type = IBV_EVENT_DEVICE_FATAL },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++)
		assert_passed_on(ibv_ack_async_event, &events[i]);
}

/* ---- Questions ---- */

#define GID_TABLE_LENGTH 32

static void test_the_gid_table_is_the_addresses(void **state)
{
	struct ibv_gid_entry entries[3], entry;
	union ibv_gid gid, expected;
	unsigned type = 0;

	(void)state;
	assert_int_equal(ibv_query_gid_table(on.context, entries, 3, 0), 2);
	assert_int_equal(inet_pton(AF_INET6, "::ffff:127.0.0.1", expected.raw), 1);
	assert_memory_equal(&entries[0].gid, &expected, sizeof(gid));
	assert_int_equal(inet_pton(AF_INET6, "::1", expected.raw), 1);
	assert_memory_equal(&entries[1].gid, &expected, sizeof(gid));
	assert_int_equal(ibv_query_gid_table(on.context, entries, 1, 0), -EINVAL);
	assert_int_equal(ibv_query_gid_table(on.context, entries, 3, 1), -EINVAL);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(entries[i].gid_index, i);
		assert_int_equal(entries[i].port_num, 1);
		assert_int_equal(entries[i].gid_type, IBV_GID_TYPE_ROCE_V2);
		assert_int_equal(entries[i].ndev_ifindex, 1);
		assert_int_equal(ibv_query_gid_ex(on.context, 1, i, &entry, 0), 0);
		assert_memory_equal(&entry, &entries[i], sizeof(entry));
		assert_int_equal(ibv_query_gid(on.context, 1, (int)i, &gid), 0);
		assert_memory_equal(&gid, &entry.gid, sizeof(gid));
		assert_int_equal(ibv_query_gid_type(on.context, 1, i, &type), 0);
		assert_int_equal(type, 1);
	}
	/* An empty entry, and none. */
	assert_int_equal(ibv_query_gid(on.context, 1, 2, &gid), 0);
	for (size_t i = 0; i < sizeof(gid.raw); i++)
		assert_int_equal(gid.raw[i], 0);
	assert_int_equal(ibv_query_gid_type(on.context, 1, 2, &type), 0);
	assert_int_equal(ibv_query_gid_ex(on.context, 1, 2, &entry, 0), ENODATA);
	assert_int_equal(ibv_query_gid(on.context, 1, GID_TABLE_LENGTH, &gid), -1);
	assert_int_equal(ibv_query_gid(on.context, 1, -1, &gid), -1);
	assert_int_equal(ibv_query_gid(on.context, 2, 0, &gid), -1);
	assert_int_equal(ibv_query_gid_type(on.context, 1, GID_TABLE_LENGTH, &type), -1);
	assert_int_equal(ibv_query_gid_ex(on.context, 1, GID_TABLE_LENGTH, &entry, 0), EINVAL);
	assert_int_equal(ibv_query_gid_ex(on.context, 0, 0, &entry, 0), EINVAL);
	assert_int_equal(ibv_query_gid_ex(on.context, 1, 0, &entry, 1), EINVAL);
}

static void test_entries_of_other_sizes_are_filled_as_far_as_they_go(void **state)
{
	char old[16 + 4] = { 0 }, larger[sizeof(struct ibv_gid_entry) + 8];
	struct ibv_gid_entry entry;

	(void)state;
	assert_int_equal(ibv_query_gid_ex(on.context, 1, 0, &entry, 0), 0);
	assert_int_equal(_ibv_query_gid_ex(on.context, 1, 0, (void *)old, 0, 16), 0);
	assert_memory_equal(old, &entry, 16);
	assert_int_equal(old[16], 0);
	memset(larger, 0xff, sizeof(larger));
	assert_int_equal(_ibv_query_gid_ex(on.context, 1, 0, (void *)larger, 0, sizeof(larger)), 0);
	assert_memory_equal(larger, &entry, sizeof(entry));
	assert_int_equal(larger[sizeof(entry)], 0);
}

static void test_there_is_one_partition_key(void **state)
{
	__be16 pkey = 0;

	(void)state;
	assert_int_equal(ibv_query_pkey(on.context, 1, 0, &pkey), 0);
	assert_int_equal(pkey, 0xffff);
	assert_int_equal(ibv_query_pkey(on.context, 1, 1, &pkey), -1);
	assert_int_equal(ibv_query_pkey(on.context, 2, 0, &pkey), -1);
	assert_int_equal(ibv_get_pkey_index(on.context, 1, 0xffff), 0);
	assert_int_equal(ibv_get_pkey_index(on.context, 1, htons(0x8001)), -1);
}

static void test_new_and_old_programs_can_ask_for_the_port(void **state)
{
	struct ibv_port_attr attr, old;

	(void)state;
	assert_int_equal(ibv_query_port(on.context, 1, &attr), 0);
	assert_int_equal(attr.state, IBV_PORT_ACTIVE);
	assert_int_equal(attr.active_mtu, IBV_MTU_4096);
	assert_int_equal(attr.gid_tbl_len, GID_TABLE_LENGTH);
	assert_int_equal(ibv_query_port(on.context, 2, &attr), EINVAL);
	assert_int_equal(ibv_query_port(on.context, 0, &attr), EINVAL);

	memset(&old, 0xff, sizeof(old));
	assert_int_equal((ibv_query_port)(on.context, 1, (struct _compat_ibv_port_attr *)&old), 0);
	assert_int_equal(old.active_mtu, IBV_MTU_4096);
	assert_int_equal(old.link_layer, IBV_LINK_LAYER_ETHERNET);
	assert_int_equal(old.port_cap_flags2, 0xffff);
}

static void test_the_extended_attributes_fill_what_there_is_room_for(void **state)
{
	struct verbs_context *verbs = verbs_get_ctx_op(on.context, query_device_ex);
	struct ibv_query_device_ex_input input = { .comp_mask = 1 };
	struct ibv_device_attr_ex attr;

	(void)state;
	assert_int_equal(ibv_query_device_ex(on.context, NULL, &attr), 0);
	assert_int_equal(attr.hca_core_clock, 1000000);
	assert_int_equal(attr.completion_timestamp_mask, UINT64_MAX);
	assert_int_equal(attr.phys_port_cnt_ex, 1);
	assert_int_equal(attr.device_cap_flags_ex,
			 attr.orig_attr.device_cap_flags | UINT64_C(1) << 40 /* atomic write */);
	assert_int_equal(attr.odp_caps.general_caps, 0);
	assert_int_equal(attr.tso_caps.max_tso, 0);
	assert_int_equal(attr.rss_caps.supported_qpts, 0);
	assert_int_equal(attr.max_wq_type_rq, 0);
	assert_int_equal(attr.raw_packet_caps, 0);
	assert_int_equal(attr.tm_caps.max_num_tags, 0);
	assert_int_equal(attr.cq_mod_caps.max_cq_count, 0);
	assert_int_equal(attr.max_dm_size, 0);
	assert_int_equal(attr.pci_atomic_caps.compare_swap, 0);
	assert_int_equal(attr.xrc_odp_caps, 0);

	memset(&attr, 0xff, sizeof(attr));
	assert_int_equal(verbs->query_device_ex(on.context, NULL, &attr, sizeof(attr.orig_attr)),
			 0);
	assert_int_equal(attr.orig_attr.phys_port_cnt, 1);
	assert_int_equal(attr.comp_mask, UINT32_MAX);
	assert_int_equal(verbs->query_device_ex(on.context, NULL, &attr, 8), EINVAL);
	assert_int_equal(verbs->query_device_ex(on.context, &input, &attr, sizeof(attr)), EINVAL);
}

static void test_the_clock_is_that_of_completions(void **state)
{
	struct ibv_values_ex values = { .comp_mask = IBV_VALUES_MASK_RAW_CLOCK };
	struct timespec before, after;

	(void)state;
	clock_gettime(CLOCK_MONOTONIC, &before);
	assert_int_equal(ibv_query_rt_values_ex(on.context, &values), 0);
	clock_gettime(CLOCK_MONOTONIC, &after);
	assert_in_range(values.raw_clock.tv_nsec, before.tv_sec * 1000000000 + before.tv_nsec,
			after.tv_sec * 1000000000 + after.tv_nsec);
	assert_int_equal(values.comp_mask, IBV_VALUES_MASK_RAW_CLOCK);
	values.comp_mask = IBV_VALUES_MASK_RESERVED;
	assert_int_equal(ibv_query_rt_values_ex(on.context, &values), EINVAL);
}

static void test_files_of_our_devices_do_not_exist(void **state)
{
	char text[8] = "";

	(void)state;
	assert_int_equal(ibv_read_sysfs_file(on.context->device->ibdev_path, "etc/passwd", text,
					     sizeof(text)),
			 -1);
	assert_string_equal(text, "");
	assert_string_equal(other_verbs_called(), "");
}

/* ---- What a device does not have ---- */

static void test_what_is_not_there_is_refused(void **state)
{
	struct ibv_pd *pd = ibv_alloc_pd(on.context);
	struct ibv_cq *cq = ibv_create_cq(on.context, 1, NULL, NULL, 0);
	struct ibv_qp_init_attr qp_attr = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC };
	struct ibv_qp *qp = ibv_create_qp(pd, &qp_attr);
	struct ibv_modify_cq_attr moderation = { 0 };
	struct ibv_sge sge = { 0 };

	(void)state;
#define assert_refused(call)                         \
	do {                                         \
		errno = 0;                           \
		assert_null(call);                   \
		assert_int_equal(errno, EOPNOTSUPP); \
	} while (0)
	assert_refused(ibv_create_flow(qp, &(struct ibv_flow_attr){ 0 }));
	assert_refused(ibv_alloc_dm(on.context, &(struct ibv_alloc_dm_attr){ 0 }));
	assert_refused(ibv_alloc_null_mr(pd));
	assert_refused(ibv_create_wq(on.context, &(struct ibv_wq_init_attr){ 0 }));
	assert_refused(ibv_create_counters(on.context, &(struct ibv_counters_init_attr){ 0 }));
	assert_refused(ibv_open_qp(on.context, &(struct ibv_qp_open_attr){ 0 }));
	assert_refused(ibv_reg_dmabuf_mr(pd, 0, 1, 0, 0, 0));
	assert_refused(ibv_import_dm(on.context, 0));

	assert_int_equal(ibv_modify_cq(cq, &moderation), EOPNOTSUPP);
	assert_int_equal(ibv_modify_qp_rate_limit(qp, NULL), EOPNOTSUPP);
	assert_int_equal(ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1), EOPNOTSUPP);
	assert_int_equal(ibv_query_ece(qp, NULL), EOPNOTSUPP);
	assert_int_equal(ibv_set_ece(qp, NULL), EOPNOTSUPP);
	assert_int_equal(ibv_resolve_eth_l2_from_gid(on.context, NULL, NULL, NULL), EOPNOTSUPP);
	assert_int_equal(ibv_query_qp_data_in_order(qp, IBV_WR_RDMA_WRITE, 0), 0);
	assert_string_equal(other_verbs_called(), "");

	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

/* Programs that made an object elsewhere, or made it up. */
static void test_what_is_not_there_is_refused_also_for_objects_that_cannot_be(void **state)
{
	struct ibv_srq srq = { .context = on.context };
	struct ibv_wq wq = { .context = on.context };
	struct ibv_rwq_ind_table table = { .context = on.context };
	struct ibv_flow flow = { .context = on.context };
	struct ibv_flow_action action = { .context = on.context };
	struct ibv_counters counters = { .context = on.context };
	struct ibv_dm dm = { .context = on.context };
	struct ibv_ops_wr *bad;

	(void)state;
	assert_refused(
		ibv_create_rwq_ind_table(on.context, &(struct ibv_rwq_ind_table_init_attr){ 0 }));
	assert_refused(
		ibv_create_flow_action_esp(on.context, &(struct ibv_flow_action_esp_attr){ 0 }));
	assert_int_equal(ibv_post_srq_ops(&srq, NULL, &bad), EOPNOTSUPP);
	assert_int_equal(ibv_modify_wq(&wq, NULL), EOPNOTSUPP);
	assert_int_equal(ibv_destroy_wq(&wq), EOPNOTSUPP);
	assert_int_equal(ibv_destroy_rwq_ind_table(&table), EOPNOTSUPP);
	assert_int_equal(ibv_destroy_flow(&flow), EOPNOTSUPP);
	assert_int_equal(ibv_modify_flow_action_esp(&action, NULL), EOPNOTSUPP);
	assert_int_equal(ibv_destroy_flow_action(&action), EOPNOTSUPP);
	assert_int_equal(ibv_attach_counters_point_flow(&counters, NULL, &flow), EOPNOTSUPP);
	assert_int_equal(ibv_read_counters(&counters, NULL, 0, 0), EOPNOTSUPP);
	assert_int_equal(ibv_destroy_counters(&counters), EOPNOTSUPP);
	assert_int_equal(ibv_free_dm(&dm), EOPNOTSUPP);
	ibv_unimport_dm(&dm);
	assert_string_equal(other_verbs_called(), "");
}

static void test_attributes_that_mean_what_is_not_there_are_refused(void **state)
{
	static const unsigned access[] = { IBV_ACCESS_ON_DEMAND, IBV_ACCESS_HUGETLB };
	static const int types[] = { IBV_QPT_RAW_PACKET, IBV_QPT_DRIVER };
	static const uint32_t masks[] = { IBV_QP_INIT_ATTR_CREATE_FLAGS,
					  IBV_QP_INIT_ATTR_MAX_TSO_HEADER,
					  IBV_QP_INIT_ATTR_IND_TABLE, IBV_QP_INIT_ATTR_RX_HASH };
	struct ibv_pd *pd = ibv_alloc_pd(on.context);
	struct ibv_cq *cq = ibv_create_cq(on.context, 1, NULL, NULL, 0);
	struct ibv_qp_init_attr attr = { .send_cq = cq, .recv_cq = cq };
	struct ibv_qp_init_attr_ex extended = {
		.send_cq = cq,
		.recv_cq = cq,
		.qp_type = IBV_QPT_RC,
		.pd = pd,
		.create_flags = IBV_QP_CREATE_SCATTER_FCS,
	};
	struct ibv_dm dm = { .context = on.context };
	struct ibv_cq_init_attr_ex cq_attr = { .cqe = 1, .wc_flags = IBV_WC_EX_WITH_CVLAN };

	(void)state;
	for (size_t i = 0; i < sizeof(access) / sizeof(access[0]); i++)
		assert_refused(ibv_reg_mr(pd, memory[0], sizeof(memory[0]), access[i]));
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		attr.qp_type = (enum ibv_qp_type)types[i];
		assert_refused(ibv_create_qp(pd, &attr));
	}
	for (size_t i = 0; i < sizeof(masks) / sizeof(masks[0]); i++) {
		extended.comp_mask = IBV_QP_INIT_ATTR_PD | masks[i];
		assert_refused(ibv_create_qp_ex(on.context, &extended));
	}
	assert_refused(ibv_create_cq_ex(on.context, &cq_attr));
	assert_refused(ibv_reg_dm_mr(pd, &dm, 0, 1, 0));
	assert_string_equal(other_verbs_called(), "");
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

/* ---- Objects ---- */

static void test_memory_is_registered_in_each_way(void **state)
{
	unsigned optional = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING;
	struct ibv_pd *pd = ibv_alloc_pd(on.context);
	struct ibv_mr *mrs[] = {
		ibv_reg_mr(pd, memory[0], 100, IBV_ACCESS_LOCAL_WRITE),
		ibv_reg_mr(pd, memory[0], 100, optional),
		ibv_reg_mr_iova(pd, memory[0], 100, (uintptr_t)memory[1], IBV_ACCESS_LOCAL_WRITE),
		ibv_reg_mr_iova(pd, memory[0], 100, (uintptr_t)memory[1], optional),
	};

	(void)state;
	for (size_t i = 0; i < sizeof(mrs) / sizeof(mrs[0]); i++) {
		assert_non_null(mrs[i]);
		assert_ptr_equal(mrs[i]->addr, memory[0]);
		assert_int_equal(mrs[i]->length, 100);
		assert_ptr_equal(mrs[i]->pd, pd);
		assert_ptr_equal(mrs[i]->context, on.context);
	}
	assert_int_equal(ibv_dealloc_pd(pd), EBUSY);
	assert_int_equal(
		ibv_rereg_mr(mrs[0], IBV_REREG_MR_CHANGE_TRANSLATION, NULL, memory[1], 50, 0), 0);
	assert_int_equal(mrs[0]->length, 50);
	for (size_t i = 0; i < sizeof(mrs) / sizeof(mrs[0]); i++)
		assert_int_equal(ibv_dereg_mr(mrs[i]), 0);
	errno = 0;
	assert_null(ibv_reg_mr(pd, memory[0], 0, 0));
	assert_int_equal(errno, EINVAL);
	errno = 0;
	assert_null(ibv_reg_mr_iova(pd, memory[0], 1, UINT64_MAX, 0));
	assert_int_equal(errno, EINVAL);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

static void test_a_parent_domain_is_used_as_a_domain(void **state)
{
	struct ibv_td *td = ibv_alloc_td(on.context, &(struct ibv_td_init_attr){ 0 });
	struct ibv_parent_domain_init_attr attr = { .pd = ibv_alloc_pd(on.context), .td = td };
	struct ibv_pd *parent = ibv_alloc_parent_domain(on.context, &attr);
	struct ibv_cq *cq = ibv_create_cq(on.context, 1, NULL, NULL, 0);
	struct ibv_qp_init_attr qp_attr = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC };
	struct ibv_qp *qp = ibv_create_qp(parent, &qp_attr);
	struct ibv_mr *mr = ibv_reg_mr(parent, memory[0], 100, 0);

	(void)state;
	assert_ptr_equal(qp->pd, parent);
	assert_ptr_equal(mr->pd, parent);
	assert_int_equal(ibv_dealloc_pd(parent), EBUSY);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_dealloc_td(td), EBUSY);
	assert_int_equal(ibv_dealloc_pd(parent), 0);
	assert_int_equal(ibv_dealloc_pd(attr.pd), EBUSY);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_dealloc_pd(attr.pd), 0);
	assert_int_equal(ibv_dealloc_td(td), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_string_equal(other_verbs_called(), "");
}

static void test_a_device_is_imported_with_its_domains_and_regions(void **state)
{
	struct ibv_pd *pd = ibv_alloc_pd(on.context), *imported_pd;
	struct ibv_mr *mr = ibv_reg_mr(pd, memory[0], 100, IBV_ACCESS_LOCAL_WRITE), *imported_mr;
	struct ibv_context *context = ibv_import_device(dup(on.context->cmd_fd));
	struct ibv_qp_init_attr qp_attr = { .qp_type = IBV_QPT_RC };
	struct ibv_qp *qp;

	(void)state;
	assert_non_null(context);
	assert_ptr_not_equal(context, on.context);
	assert_ptr_equal(context->device, on.context->device);
	imported_pd = ibv_import_pd(context, pd->handle);
	assert_ptr_equal(imported_pd->context, context);
	imported_mr = ibv_import_mr(imported_pd, mr->handle);
	assert_ptr_equal(imported_mr->context, context);
	assert_ptr_equal(imported_mr->pd, imported_pd);
	assert_null(imported_mr->addr);
	assert_int_equal(imported_mr->length, 100);
	assert_int_equal(imported_mr->lkey, mr->lkey);
	assert_int_equal(imported_mr->rkey, mr->rkey);
	assert_int_equal(ibv_dereg_mr(imported_mr), EINVAL);
	assert_int_equal(ibv_rereg_mr(imported_mr, IBV_REREG_MR_CHANGE_PD, pd, NULL, 0, 0),
			 IBV_REREG_MR_ERR_INPUT);
	errno = 0;
	assert_null(ibv_import_mr(imported_pd, mr->handle + 1));
	assert_int_equal(errno, EINVAL);

	qp_attr.send_cq = qp_attr.recv_cq = ibv_create_cq(context, 1, NULL, NULL, 0);
	qp = ibv_create_qp(imported_pd, &qp_attr);
	assert_non_null(qp);
	ibv_unimport_mr(mr); /* it is none */
	ibv_unimport_pd(pd);
	ibv_unimport_mr(imported_mr);
	ibv_unimport_pd(imported_pd);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_dealloc_pd(pd), EBUSY);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	assert_int_equal(ibv_destroy_cq(qp_attr.send_cq), 0);
	assert_int_equal(ibv_close_device(context), 0);
	assert_string_equal(other_verbs_called(), "");
}

static void test_a_device_of_another_process_is_not_imported(void **state)
{
	int status;
	pid_t child = fork();

	(void)state;
	if (child == 0)
		_exit(ibv_import_device(on.context->cmd_fd) ? 0 : errno);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), EOPNOTSUPP);
}

static void test_shared_receive_queues_of_the_basic_type_are_made(void **state)
{
	struct ibv_pd *pd = ibv_alloc_pd(on.context);
	struct ibv_srq_init_attr_ex attr = { .attr = { .max_wr = 10, .max_sge = 2 },
					     .comp_mask =
						     IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE,
					     .pd = pd };
	struct ibv_srq *srq = ibv_create_srq_ex(on.context, &attr);
	struct ibv_srq_attr queried;
	uint32_t number = 0;

	(void)state;
	assert_non_null(srq);
	assert_int_equal(ibv_get_srq_num(srq, &number), 0);
	assert_int_not_equal(number, 0);
	assert_int_equal(
		ibv_modify_srq(srq, &(struct ibv_srq_attr){ .max_wr = 20 }, IBV_SRQ_MAX_WR), 0);
	assert_int_equal(ibv_query_srq(srq, &queried), 0);
	assert_int_equal(queried.max_wr, 20);
	assert_int_equal(ibv_destroy_srq(srq), 0);

	attr.srq_type = IBV_SRQT_XRC;
	assert_null(ibv_create_srq_ex(on.context, &attr));
	assert_int_equal(errno, EINVAL);
	attr.srq_type = IBV_SRQT_TM;
	assert_refused(ibv_create_srq_ex(on.context, &attr));
	attr.srq_type = IBV_SRQT_BASIC;
	attr.comp_mask = IBV_SRQ_INIT_ATTR_TYPE;
	assert_null(ibv_create_srq_ex(on.context, &attr));
	assert_int_equal(errno, EINVAL);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

static void test_a_queue_pair_is_extended_if_it_was_made_so(void **state)
{
	struct ibv_pd *pd = ibv_alloc_pd(on.context);
	struct ibv_cq_init_attr_ex cq_attr = { .cqe = 10 };
	struct ibv_cq_ex *cq = ibv_create_cq_ex(on.context, &cq_attr);
	struct ibv_qp_init_attr_ex attr = { .send_cq = ibv_cq_ex_to_cq(cq),
					    .recv_cq = ibv_cq_ex_to_cq(cq),
					    .cap = { .max_send_wr = 1, .max_send_sge = 1 },
					    .qp_type = IBV_QPT_RC,
					    .comp_mask = IBV_QP_INIT_ATTR_PD,
					    .pd = pd };
	struct ibv_qp *qp = ibv_create_qp_ex(on.context, &attr);

	(void)state;
	assert_non_null(qp);
	assert_null(ibv_qp_to_qp_ex(qp));
	assert_int_equal(ibv_destroy_qp(qp), 0);
	attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	attr.send_ops_flags = IBV_QP_EX_WITH_SEND;
	qp = ibv_create_qp_ex(on.context, &attr);
	assert_non_null(qp);
	assert_ptr_equal(&ibv_qp_to_qp_ex(qp)->qp_base, qp);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

/* ---- Two queue pairs that are connected ---- */

/* The attributes that a type has. */
static int attributes_of(enum ibv_qp_type type)
{
	if (type == IBV_QPT_XRC_SEND)
		return ~(IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	if (type == IBV_QPT_XRC_RECV)
		return ~(IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
	if (type == IBV_QPT_UC)
		return ~(IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER | IBV_QP_TIMEOUT |
			 IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
	return ~0;
}

static void modify(unsigned i, struct ibv_qp_attr attr, int mask)
{
	mask &= attributes_of(on.qps[i]->qp_type);
	assert_int_equal(ibv_modify_qp(on.qps[i], &attr, mask | IBV_QP_STATE), 0);
}

static void connect_to(unsigned i, const struct ibv_qp *peer)
{
	struct ibv_ah_attr path = { .is_global = 1, .port_num = 1 };

	assert_int_equal(ibv_query_gid(on.context, 1, 0, &path.grh.dgid), 0);
	modify(i,
	       (struct ibv_qp_attr){ .qp_state = IBV_QPS_INIT,
				     .port_num = 1,
				     .qp_access_flags = IBV_ACCESS_REMOTE_WRITE },
	       IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	modify(i,
	       (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR,
				     .path_mtu = IBV_MTU_1024,
				     .dest_qp_num = peer->qp_num,
				     .max_dest_rd_atomic = 1,
				     .min_rnr_timer = 12,
				     .ah_attr = path },
	       IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	modify(i,
	       (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS,
				     .timeout = 14,
				     .retry_cnt = 7,
				     .rnr_retry = 7,
				     .max_rd_atomic = 1 },
	       IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
		       IBV_QP_MAX_QP_RD_ATOMIC);
}

static void create_objects(void)
{
	on.pd = ibv_alloc_pd(on.context);
	on.channel = ibv_create_comp_channel(on.context);
	on.cq = ibv_create_cq(on.context, 16, &on, on.channel, 0);
	for (unsigned i = 0; i < 2; i++)
		on.mrs[i] = ibv_reg_mr(on.pd, memory[i], sizeof(memory[i]),
				       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
					       IBV_ACCESS_MW_BIND);
}

static struct ibv_qp_init_attr_ex init_attr(enum ibv_qp_type type)
{
	return (struct ibv_qp_init_attr_ex){
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = type,
		.sq_sig_all = 1,
		.send_cq = on.cq,
		.recv_cq = on.cq,
		.pd = on.pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
	};
}

static void connect_as(struct ibv_qp_init_attr_ex attr)
{
	for (unsigned i = 0; i < 2; i++) {
		on.qps[i] = ibv_create_qp_ex(on.context, &attr);
		assert_non_null(on.qps[i]);
	}
	connect_to(0, on.qps[1]);
	connect_to(1, on.qps[0]);
}

static void connect_queue_pairs(void)
{
	create_objects();
	connect_as(init_attr(IBV_QPT_RC));
}

static void destroy_queue_pairs(void)
{
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(ibv_destroy_qp(on.qps[i]), 0);
}

static void destroy_objects(void)
{
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(ibv_dereg_mr(on.mrs[i]), 0);
	assert_int_equal(ibv_destroy_cq(on.cq), 0);
	assert_int_equal(ibv_destroy_comp_channel(on.channel), 0);
	assert_int_equal(ibv_dealloc_pd(on.pd), 0);
}

static void disconnect(void)
{
	destroy_queue_pairs();
	destroy_objects();
}

static void post_write(uint32_t rkey)
{
	struct ibv_sge sge = { .addr = (uintptr_t)memory[0],
			       .length = sizeof(memory[0]),
			       .lkey = on.mrs[0]->lkey };
	struct ibv_send_wr wr = { .wr_id = 7,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_RDMA_WRITE,
				  .wr.rdma = { .remote_addr = (uintptr_t)memory[1],
					       .rkey = rkey } };
	struct ibv_send_wr *bad;

	assert_int_equal(ibv_post_send(on.qps[0], &wr, &bad), 0);
}

static void test_a_program_that_sleeps_is_told_of_a_completion(void **state)
{
	void *cq_context = NULL;
	struct ibv_cq *cq;
	struct ibv_wc wc;

	(void)state;
	connect_queue_pairs();
	memset(memory[0], 0x5a, sizeof(memory[0]));
	memset(memory[1], 0, sizeof(memory[1]));
	assert_int_equal(ibv_req_notify_cq(on.cq, 0), 0);
	post_write(on.mrs[1]->rkey);
	assert_int_equal(ibv_get_cq_event(on.channel, &cq, &cq_context), 0);
	assert_ptr_equal(cq, on.cq);
	assert_ptr_equal(cq_context, &on);
	ibv_ack_cq_events(cq, 1);
	assert_int_equal(ibv_poll_cq(cq, 1, &wc), 1);
	assert_int_equal(wc.wr_id, 7);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_memory_equal(memory[0], memory[1], sizeof(memory[1]));
	assert_string_equal(other_verbs_called(), "");
	disconnect();
}

static struct ibv_wc wait_for_completion(void)
{
	struct ibv_wc wc;
	int count;

	do
		count = ibv_poll_cq(on.cq, 1, &wc);
	while (count == 0);
	assert_int_equal(count, 1);
	return wc;
}

static void bind_window(struct ibv_mw *mw, struct ibv_mr *mr, uint64_t length)
{
	struct ibv_mw_bind bind = { .wr_id = 8,
				    .send_flags = IBV_SEND_SIGNALED,
				    .bind_info = { .mr = mr,
						   .addr = (uintptr_t)memory[1],
						   .length = length,
						   .mw_access_flags = IBV_ACCESS_REMOTE_WRITE } };
	uint32_t before = mw->rkey;
	struct ibv_wc wc;

	assert_int_equal(ibv_bind_mw(on.qps[1], mw, &bind), 0);
	assert_int_not_equal(mw->rkey, before);
	assert_int_equal(mw->rkey >> 8, before >> 8);
	wc = wait_for_completion();
	assert_int_equal(wc.wr_id, 8);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_BIND_MW);
}

static void test_a_window_is_bound_and_taken_back(void **state)
{
	struct ibv_mw_bind zero_based = { .bind_info = { .mw_access_flags =
								 IBV_ACCESS_ZERO_BASED } };
	struct ibv_mr *mr;
	struct ibv_mw *mw;
	uint32_t before;

	(void)state;
	connect_queue_pairs();
	mr = ibv_reg_mr(on.pd, memory[1], sizeof(memory[1]),
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	mw = ibv_alloc_mw(on.pd, IBV_MW_TYPE_1);
	assert_non_null(mw);
	assert_ptr_equal(mw->context, on.context);
	assert_ptr_equal(mw->pd, on.pd);
	assert_int_equal(mw->type, IBV_MW_TYPE_1);
	before = mw->rkey;
	assert_int_equal(ibv_bind_mw(on.qps[1], mw, &zero_based), EINVAL);
	assert_int_equal(mw->rkey, before);

	bind_window(mw, mr, sizeof(memory[1]));
	assert_int_equal(ibv_dereg_mr(mr), EBUSY);
	memset(memory[0], 0x6b, sizeof(memory[0]));
	post_write(mw->rkey);
	assert_int_equal(wait_for_completion().status, IBV_WC_SUCCESS);
	assert_memory_equal(memory[0], memory[1], sizeof(memory[1]));
	bind_window(mw, mr, 0);
	post_write(mw->rkey);
	assert_int_equal(wait_for_completion().status, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	assert_string_equal(other_verbs_called(), "");
	disconnect();
}

/* ---- Extended connections ---- */

static struct {
	struct ibv_xrcd *xrcd;
	struct ibv_srq *srq;
	uint32_t srqn;
} extended;

static struct ibv_xrcd *open_domain(int fd, int oflags)
{
	struct ibv_xrcd_init_attr attr = { .comp_mask = IBV_XRCD_INIT_ATTR_FD |
							IBV_XRCD_INIT_ATTR_OFLAGS,
					   .fd = fd,
					   .oflags = oflags };

	errno = 0;
	return ibv_open_xrcd(on.context, &attr);
}

static void create_xrc_srq(void)
{
	struct ibv_srq_init_attr_ex attr = {
		.attr = { .max_wr = 4, .max_sge = 1 },
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC,
		.pd = on.pd,
		.xrcd = extended.xrcd,
		.cq = on.cq,
	};

	extended.srq = ibv_create_srq_ex(on.context, &attr);
	assert_non_null(extended.srq);
	assert_int_equal(ibv_get_srq_num(extended.srq, &extended.srqn), 0);
}

static void create_halves(void)
{
	struct ibv_qp_init_attr_ex send = {
		.send_cq = on.cq,
		.cap = { .max_send_wr = 4, .max_send_sge = 1 },
		.qp_type = IBV_QPT_XRC_SEND,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = on.pd,
		.send_ops_flags = IBV_QP_EX_WITH_SEND,
	};
	struct ibv_qp_init_attr_ex receive = { .qp_type = IBV_QPT_XRC_RECV,
					       .comp_mask = IBV_QP_INIT_ATTR_XRCD,
					       .xrcd = extended.xrcd };

	on.qps[0] = ibv_create_qp_ex(on.context, &send);
	on.qps[1] = ibv_create_qp_ex(on.context, &receive);
	assert_non_null(on.qps[0]);
	assert_non_null(on.qps[1]);
	connect_to(0, on.qps[1]);
	connect_to(1, on.qps[0]);
}

static void connect_extended(void)
{
	on.pd = ibv_alloc_pd(on.context);
	on.channel = ibv_create_comp_channel(on.context);
	on.cq = ibv_create_cq(on.context, 16, &on, on.channel, 0);
	extended.xrcd = open_domain(-1, O_CREAT);
	assert_non_null(extended.xrcd);
	for (unsigned i = 0; i < 2; i++)
		on.mrs[i] = ibv_reg_mr(on.pd, memory[i], sizeof(memory[i]),
				       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	create_xrc_srq();
	create_halves();
}

static void post_shared_receive(uint64_t wr_id)
{
	struct ibv_sge sge = { (uintptr_t)memory[1], sizeof(memory[1]), on.mrs[1]->lkey };
	struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 }, *bad;

	assert_int_equal(ibv_post_srq_recv(extended.srq, &wr, &bad), 0);
}

static void post_message(uint64_t wr_id, uint32_t srqn)
{
	struct ibv_sge sge = { (uintptr_t)memory[0], sizeof(memory[0]), on.mrs[0]->lkey };
	struct ibv_send_wr wr = { .wr_id = wr_id,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED,
				  .qp_type.xrc.remote_srqn = srqn };
	struct ibv_send_wr *bad;

	assert_int_equal(ibv_post_send(on.qps[0], &wr, &bad), 0);
}

static int build_message(uint64_t wr_id, bool has_target)
{
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(on.qps[0]);

	ibv_wr_start(ex);
	ex->wr_id = wr_id;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send(ex);
	if (has_target)
		ibv_wr_set_xrc_srqn(ex, extended.srqn);
	ibv_wr_set_sge(ex, on.mrs[0]->lkey, (uintptr_t)memory[0], sizeof(memory[0]));
	return ibv_wr_complete(ex);
}

/* Both completions, of which either may be the first. */
static void assert_arrives(uint64_t sent, uint64_t received)
{
	for (unsigned i = 0; i < 2; i++) {
		struct ibv_wc wc = wait_for_completion();
		bool is_receive = wc.opcode == IBV_WC_RECV;

		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_int_equal(wc.wr_id, is_receive ? received : sent);
		assert_int_equal(wc.qp_num, on.qps[is_receive]->qp_num);
		if (is_receive)
			assert_int_equal(wc.byte_len, sizeof(memory[0]));
	}
	assert_memory_equal(memory[0], memory[1], sizeof(memory[1]));
}

static void test_an_extended_connection_reaches_a_queue_by_its_number(void **state)
{
	struct ibv_async_event event;

	(void)state;
	connect_extended();
	memset(memory[0], 0x21, sizeof(memory[0]));
	post_shared_receive(5);
	post_message(6, extended.srqn);
	assert_arrives(6, 5);
	memset(memory[0], 0x22, sizeof(memory[0]));
	post_shared_receive(7);
	assert_int_equal(build_message(8, false), EINVAL);
	assert_int_equal(build_message(8, true), 0);
	assert_arrives(8, 7);

	assert_int_equal(ibv_close_xrcd(extended.xrcd), EBUSY);
	assert_int_equal(ibv_destroy_srq(extended.srq), 0);
	post_message(9, extended.srqn);
	assert_int_equal(wait_for_completion().status, IBV_WC_REM_INV_REQ_ERR);
	assert_int_equal(ibv_get_async_event(on.context, &event), 0);
	assert_int_equal(event.event_type, IBV_EVENT_QP_REQ_ERR);
	assert_ptr_equal(event.element.qp, on.qps[1]);
	ibv_ack_async_event(&event);
	assert_string_equal(other_verbs_called(), "");
	assert_int_equal(ibv_close_xrcd(extended.xrcd), EBUSY);
	disconnect();
	assert_int_equal(ibv_close_xrcd(extended.xrcd), 0);
}

static void test_both_halves_say_what_they_are(void **state)
{
	const int mask = IBV_QP_STATE;
	struct ibv_qp_init_attr init_attr;
	struct ibv_device_attr device;
	struct ibv_qp_attr attr;

	(void)state;
	connect_extended();
	assert_int_equal(ibv_query_qp(on.qps[0], &attr, mask, &init_attr), 0);
	assert_int_equal(init_attr.qp_type, IBV_QPT_XRC_SEND);
	assert_ptr_equal(init_attr.send_cq, on.cq);
	assert_null(init_attr.recv_cq);
	assert_int_equal(attr.dest_qp_num, on.qps[1]->qp_num);
	assert_int_equal(ibv_query_qp(on.qps[1], &attr, mask, &init_attr), 0);
	assert_int_equal(init_attr.qp_type, IBV_QPT_XRC_RECV);
	assert_null(init_attr.send_cq);
	assert_null(init_attr.srq);
	assert_int_equal(init_attr.cap.max_send_wr, 0);
	assert_int_equal(ibv_query_device(on.context, &device), 0);
	assert_true(device.device_cap_flags & IBV_DEVICE_XRC);
	assert_refused(ibv_open_qp(on.context, &(struct ibv_qp_open_attr){ 0 }));
	assert_int_equal(ibv_destroy_srq(extended.srq), 0);
	disconnect();
	assert_int_equal(ibv_close_xrcd(extended.xrcd), 0);
}

/* ---- Unreliable connections ---- */

#define UC_OPS                                                                            \
	(IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_WRITE | \
	 IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW)
#define IMM 0x12345678

static struct ibv_sge all_of(unsigned i)
{
	return (struct ibv_sge){ .addr = (uintptr_t)memory[i],
				 .length = sizeof(memory[i]),
				 .lkey = on.mrs[i]->lkey };
}

/* into: which memory. */
static void post_receive(unsigned into)
{
	struct ibv_sge sge = all_of(into);
	struct ibv_recv_wr wr = { .wr_id = 9, .sg_list = &sge, .num_sge = 1 }, *bad;

	assert_int_equal(on.qps[1]->srq ? ibv_post_srq_recv(on.qps[1]->srq, &wr, &bad)
					: ibv_post_recv(on.qps[1], &wr, &bad),
			 0);
}

static int post_operation(enum ibv_wr_opcode opcode)
{
	struct ibv_sge sge = all_of(0);
	struct ibv_send_wr wr = { .wr_id = 7, .sg_list = &sge, .num_sge = 1, .opcode = opcode };
	struct ibv_send_wr *bad;

	wr.imm_data = htonl(IMM);
	wr.wr.rdma.remote_addr = (uintptr_t)memory[1];
	wr.wr.rdma.rkey = on.mrs[1]->rkey;
	return ibv_post_send(on.qps[0], &wr, &bad);
}

static void stage(struct ibv_qp_ex *qp, enum ibv_wr_opcode opcode)
{
	uint64_t target = (uintptr_t)memory[1];

	if (opcode == IBV_WR_SEND)
		ibv_wr_send(qp);
	else if (opcode == IBV_WR_SEND_WITH_IMM)
		ibv_wr_send_imm(qp, htonl(IMM));
	else if (opcode == IBV_WR_RDMA_WRITE)
		ibv_wr_rdma_write(qp, on.mrs[1]->rkey, target);
	else
		ibv_wr_rdma_write_imm(qp, on.mrs[1]->rkey, target, htonl(IMM));
}

static int stage_operation(enum ibv_wr_opcode opcode)
{
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(on.qps[0]);

	ibv_wr_start(qp);
	qp->wr_id = 7;
	qp->wr_flags = IBV_SEND_SIGNALED;
	stage(qp, opcode);
	ibv_wr_set_sge(qp, on.mrs[0]->lkey, (uintptr_t)memory[0], sizeof(memory[0]));
	return ibv_wr_complete(qp);
}

/* A write says nothing at the other side. A message behind it does, which goes elsewhere. */
static void follow_write(void)
{
	post_receive(0);
	assert_int_equal(post_operation(IBV_WR_SEND), 0);
}

static void assert_receive_of(const struct ibv_wc *wc, enum ibv_wr_opcode opcode)
{
	bool is_write = opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
	bool has_imm = is_write || opcode == IBV_WR_SEND_WITH_IMM;

	assert_int_equal(wc->wr_id, 9);
	assert_int_equal(wc->opcode, is_write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV);
	assert_int_equal(wc->byte_len, sizeof(memory[0]));
	assert_int_equal(wc->qp_num, on.qps[1]->qp_num);
	assert_int_equal(wc->wc_flags, has_imm ? IBV_WC_WITH_IMM : 0);
	if (has_imm)
		assert_int_equal(wc->imm_data, htonl(IMM));
}

/* The two sides' completions come in any order. */
static void assert_done(enum ibv_wr_opcode opcode)
{
	for (unsigned left = opcode == IBV_WR_RDMA_WRITE ? 3 : 2; left > 0; left--) {
		struct ibv_wc wc = wait_for_completion();

		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		if (wc.opcode & IBV_WC_RECV)
			assert_receive_of(&wc, opcode);
		else
			assert_int_equal(wc.wr_id, 7);
	}
	assert_memory_equal(memory[1], memory[0], sizeof(memory[0]));
}

static void assert_all_operations(int (*request)(enum ibv_wr_opcode opcode))
{
	static const enum ibv_wr_opcode opcodes[] = { IBV_WR_SEND, IBV_WR_SEND_WITH_IMM,
						      IBV_WR_RDMA_WRITE,
						      IBV_WR_RDMA_WRITE_WITH_IMM };

	for (size_t i = 0; i < sizeof(opcodes) / sizeof(opcodes[0]); i++) {
		memset(memory[0], (int)i + 1, sizeof(memory[0]));
		memset(memory[1], 0, sizeof(memory[1]));
		if (opcodes[i] != IBV_WR_RDMA_WRITE)
			post_receive(1);
		assert_int_equal(request(opcodes[i]), 0);
		if (opcodes[i] == IBV_WR_RDMA_WRITE)
			follow_write();
		assert_done(opcodes[i]);
	}
}

static void test_an_unreliable_connection_has_its_operations(void **state)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;

	(void)state;
	create_objects();
	connect_as(init_attr(IBV_QPT_UC));
	assert_int_equal(ibv_query_qp(on.qps[0], &attr, IBV_QP_STATE, &init), 0);
	assert_int_equal(attr.qp_state, IBV_QPS_RTS);
	assert_int_equal(init.qp_type, IBV_QPT_UC);
	assert_all_operations(post_operation);
	assert_int_equal(post_operation(IBV_WR_RDMA_READ), EINVAL);
	assert_int_equal(post_operation(IBV_WR_SEND_WITH_INV), EINVAL);
	assert_int_equal(post_operation(IBV_WR_ATOMIC_FETCH_AND_ADD), EINVAL);
	assert_string_equal(other_verbs_called(), "");
	disconnect();
}

static void test_an_unreliable_connection_is_extended_and_shares_receives(void **state)
{
	struct ibv_srq_init_attr srq_attr = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_qp_init_attr_ex attr;

	(void)state;
	create_objects();
	attr = init_attr(IBV_QPT_UC);
	attr.srq = ibv_create_srq(on.pd, &srq_attr);
	attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	attr.send_ops_flags = UC_OPS | IBV_QP_EX_WITH_RDMA_READ;
	assert_null(ibv_create_qp_ex(on.context, &attr));
	assert_int_equal(errno, EOPNOTSUPP);
	attr.send_ops_flags = UC_OPS;
	connect_as(attr);
	assert_all_operations(stage_operation);
	destroy_queue_pairs();
	assert_int_equal(ibv_destroy_srq(attr.srq), 0);
	destroy_objects();
}

static void stage_bind(struct ibv_mw *mw, uint32_t rkey)
{
	const struct ibv_mw_bind_info info = { .mr = on.mrs[1],
					       .addr = (uintptr_t)memory[1],
					       .length = sizeof(memory[1]),
					       .mw_access_flags = IBV_ACCESS_REMOTE_WRITE };
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(on.qps[1]);

	ibv_wr_start(qp);
	qp->wr_id = 8;
	ibv_wr_bind_mw(qp, mw, rkey, &info);
	assert_int_equal(ibv_wr_complete(qp), 0);
}

static void stage_invalidation(uint32_t rkey)
{
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(on.qps[1]);

	ibv_wr_start(qp);
	qp->wr_id = 8;
	ibv_wr_local_inv(qp, rkey);
	assert_int_equal(ibv_wr_complete(qp), 0);
}

static void assert_local(enum ibv_wc_opcode opcode)
{
	struct ibv_wc wc = wait_for_completion();

	assert_int_equal(wc.wr_id, 8);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, opcode);
}

static void test_an_unreliable_connection_binds_windows(void **state)
{
	struct ibv_qp_init_attr_ex attr;
	struct ibv_mw *mw;
	uint32_t rkey;

	(void)state;
	create_objects();
	attr = init_attr(IBV_QPT_UC);
	attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	attr.send_ops_flags = UC_OPS;
	connect_as(attr);
	mw = ibv_alloc_mw(on.pd, IBV_MW_TYPE_2);
	rkey = ibv_inc_rkey(mw->rkey);
	stage_bind(mw, rkey);
	assert_local(IBV_WC_BIND_MW);
	memset(memory[0], 0x7c, sizeof(memory[0]));
	memset(memory[1], 0, sizeof(memory[1]));
	post_write(rkey);
	follow_write();
	assert_done(IBV_WR_RDMA_WRITE);
	stage_invalidation(rkey);
	assert_local(IBV_WC_LOCAL_INV);
	memset(memory[1], 0, sizeof(memory[1]));
	post_write(rkey);
	follow_write();
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(wait_for_completion().status, IBV_WC_SUCCESS);
	for (size_t i = 0; i < sizeof(memory[1]); i++)
		assert_int_equal(memory[1][i], 0);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	disconnect();
}

/* ---- Ends ---- */

static void test_an_event_of_a_queue_pair_is_read_and_acknowledged(void **state)
{
	struct ibv_async_event event;

	(void)state;
	connect_queue_pairs();
	post_write(0);
	assert_int_equal(ibv_get_async_event(on.context, &event), 0);
	assert_int_equal(event.event_type, IBV_EVENT_QP_ACCESS_ERR);
	assert_ptr_equal(event.element.qp, on.qps[1]);
	ibv_ack_async_event(&event);
	assert_string_equal(other_verbs_called(), "");
	disconnect();
}

static void test_a_context_that_is_closed_too_early_stops_its_queue_pairs(void **state)
{
	struct ibv_context *closed = on.context;

	(void)state;
	connect_queue_pairs();
	assert_int_equal(ibv_close_device(closed), 0);
	assert_int_equal(on.qps[0]->state, IBV_QPS_RESET);
	assert_int_equal(on.qps[1]->state, IBV_QPS_RESET);
	disconnect();
}

static void test_a_forked_child_ends_as_any_other(void **state)
{
	int status;
	pid_t child;

	(void)state;
	connect_queue_pairs();
	child = fork();
	if (child == 0)
		exit(7);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 7);
	post_write(on.mrs[1]->rkey);
	disconnect();
}

#define api_test(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		api_test(test_our_devices_stand_behind_those_of_others),
		api_test(test_our_devices_are_listed_if_the_others_cannot_be),
		api_test(test_a_device_has_a_name_and_a_guid_but_no_index),
		api_test(test_what_is_not_ours_goes_to_the_next_library),
		api_test(test_events_of_others_are_acknowledged_by_them),
		api_test(test_the_gid_table_is_the_addresses),
		api_test(test_entries_of_other_sizes_are_filled_as_far_as_they_go),
		api_test(test_there_is_one_partition_key),
		api_test(test_new_and_old_programs_can_ask_for_the_port),
		api_test(test_the_extended_attributes_fill_what_there_is_room_for),
		api_test(test_the_clock_is_that_of_completions),
		api_test(test_files_of_our_devices_do_not_exist),
		api_test(test_what_is_not_there_is_refused),
		api_test(test_what_is_not_there_is_refused_also_for_objects_that_cannot_be),
		api_test(test_attributes_that_mean_what_is_not_there_are_refused),
		api_test(test_memory_is_registered_in_each_way),
		api_test(test_a_parent_domain_is_used_as_a_domain),
		api_test(test_a_device_is_imported_with_its_domains_and_regions),
		api_test(test_a_device_of_another_process_is_not_imported),
		api_test(test_shared_receive_queues_of_the_basic_type_are_made),
		api_test(test_a_queue_pair_is_extended_if_it_was_made_so),
		api_test(test_a_program_that_sleeps_is_told_of_a_completion),
		api_test(test_a_window_is_bound_and_taken_back),
		api_test(test_an_extended_connection_reaches_a_queue_by_its_number),
		api_test(test_both_halves_say_what_they_are),
		api_test(test_an_unreliable_connection_has_its_operations),
		api_test(test_an_unreliable_connection_is_extended_and_shares_receives),
		api_test(test_an_unreliable_connection_binds_windows),
		api_test(test_an_event_of_a_queue_pair_is_read_and_acknowledged),
		api_test(test_a_context_that_is_closed_too_early_stops_its_queue_pairs),
		api_test(test_a_forked_child_ends_as_any_other),
	};

	return network_enter() ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}
