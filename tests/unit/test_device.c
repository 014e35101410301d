#include "support.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "device.h"

#define ALL_OPS (RS_OP_BIT(RS_OP_COUNT) - 1)

static int setup(void **state)
{
	(void)state;
	fake_reset();
	log_capture();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	rs_log_set_sink(NULL, NULL);
	assert_int_equal(fake_live(), 0);
	return 0;
}

/* What rs_device_open chooses; closed again. */
static const char *opened_name(const char *name, uint32_t ops)
{
	static char opened[IBV_SYSFS_NAME_MAX];
	struct rs_device *device;

	assert_ok(rs_device_open(name, ops, &device));
	strcpy(opened, rs_device_info(device)->name);
	assert_ok(rs_device_close(device));
	return opened;
}

/* Puts the device where software ones are in sysfs. */
static void make_virtual(struct fake_device *device)
{
	temp_create();
	mkdir(temp_path("devices"), 0700);
	mkdir(temp_path("devices/virtual"), 0700);
	mkdir(temp_path("devices/virtual/rxe"), 0700);
	strcpy(device->verbs.ibdev_path, temp_path("devices/virtual/rxe"));
}

static void test_a_device_tells_its_name_port_and_capabilities(void **state)
{
	struct rs_device *device;

	(void)state;
	fake_add_device("mlx5_0");
	assert_ok(rs_device_open("mlx5_0", ALL_OPS, &device));
	assert_string_equal(rs_device_info(device)->name, "mlx5_0");
	assert_int_equal(rs_device_info(device)->port, 1);
	assert_true(rs_device_info(device)->active);
	assert_int_equal(rs_device_attr(device)->max_qp, 64);
	assert_int_equal(rs_device_port_attr(device)->active_mtu, IBV_MTU_1024);
	assert_ptr_equal(rs_device_pd(device)->context, rs_device_verbs(device));
	assert_ok(rs_device_close(device));
}

static void test_a_device_without_extended_queries_works_as_well(void **state)
{
	struct rs_device *device;

	(void)state;
	fake_add_device("old0")->legacy = true;
	assert_ok(rs_device_open("old0", ALL_OPS, &device));
	assert_int_equal(rs_device_attr(device)->max_qp, 64);
	assert_int_equal(rs_device_port_attr(device)->gid_tbl_len, 4);
	assert_ok(rs_device_close(device));
}

static void test_the_best_device_is_hardware_then_kernel_software_then_uroce(void **state)
{
	struct fake_device *hardware;

	(void)state;
	fake_add_device("uroce_lo");
	make_virtual(fake_add_device("rxe0"));
	hardware = fake_add_device("zz0");
	assert_string_equal(opened_name(NULL, 0), "zz0");
	hardware->ports[0].state = IBV_PORT_DOWN;
	assert_string_equal(opened_name(NULL, 0), "rxe0");
	assert_string_equal(opened_name("uroce_lo", 0), "uroce_lo");
	temp_remove();
}

static void test_the_list_is_sorted_best_first_and_by_name(void **state)
{
	struct rs_device_info *list;
	size_t count;

	(void)state;
	fake_add_device("a0")->ports[0].state = IBV_PORT_DOWN;
	fake_add_device("c0");
	fake_add_device("uroce_x");
	fake_add_device("b0");
	assert_ok(rs_device_list(&list, &count));
	assert_int_equal(count, 4);
	assert_string_equal(list[0].name, "b0");
	assert_string_equal(list[1].name, "c0");
	assert_string_equal(list[2].name, "uroce_x");
	assert_string_equal(list[3].name, "a0");
	assert_false(list[3].active);
	rs_device_list_free(list);
}

static void test_the_first_active_port_is_used(void **state)
{
	struct fake_device *fake = fake_add_device("two0");
	struct rs_device *device;

	(void)state;
	fake->port_count = 2;
	fake->ports[0].state = IBV_PORT_DOWN;
	fake->ports[1].lid = 17;
	assert_ok(rs_device_open("two0", 0, &device));
	assert_int_equal(rs_device_info(device)->port, 2);
	assert_int_equal(rs_device_port_attr(device)->lid, 17);
	assert_ok(rs_device_close(device));
}

static void test_a_device_that_cannot_do_the_operations_is_passed_over(void **state)
{
	struct fake_device *weak = fake_add_device("a0");
	struct fake_device *iwarp = fake_add_device("b0");
	struct rs_device_info *list;
	size_t count;

	(void)state;
	weak->atomic_cap = IBV_ATOMIC_NONE;
	weak->max_srq = 0;
	iwarp->verbs.transport_type = IBV_TRANSPORT_IWARP;
	fake_add_device("c0");
	assert_string_equal(opened_name(NULL, RS_OP_BIT(RS_OP_SEND)), "a0");
	assert_string_equal(opened_name(NULL, RS_OP_BIT(RS_OP_RECEIVE)), "c0");
	assert_string_equal(opened_name(NULL,
					RS_OP_BIT(RS_OP_RECEIVE) | RS_OP_BIT(RS_OP_SEND_IMMEDIATE)),
			    "c0");
	assert_ok(rs_device_list(&list, &count));
	assert_false(rs_device_supports(&list[0], RS_OP_FETCH_AND_ADD));
	assert_true(rs_device_supports(&list[0], RS_OP_READ));
	assert_true(rs_device_supports(&list[1], RS_OP_FETCH_AND_ADD));
	/* iWARP cannot connect by descriptors. */
	assert_string_equal(list[2].name, "b0");
	assert_int_equal(list[2].ops, 0);
	rs_device_list_free(list);
}

static void test_a_device_without_reliable_connections_can_do_nothing(void **state)
{
	struct rs_device *device;

	(void)state;
	fake_add_device("usnic0")->verbs.transport_type = IBV_TRANSPORT_USNIC;
	assert_status(rs_device_open("usnic0", RS_OP_BIT(RS_OP_SEND), &device),
		      RS_ERR_NOT_SUPPORTED);
	assert_logged("device usnic0 cannot do this: send over a reliable connection");
}

static void test_when_no_device_will_do_the_log_says_what_the_best_one_lacks(void **state)
{
	struct rs_device *device;

	(void)state;
	fake_add_device("a0")->atomic_cap = IBV_ATOMIC_NONE;
	assert_status(rs_device_open(NULL, ALL_OPS, &device), RS_ERR_NOT_SUPPORTED);
	assert_logged("device a0 cannot do this: compare-and-swap");
}

static void test_an_unknown_name_is_answered_with_the_names_there_are(void **state)
{
	struct rs_device *device;

	(void)state;
	fake_add_device("a0");
	fake_add_device("b0")->ports[0].state = IBV_PORT_DOWN;
	assert_status(rs_device_open("c0", 0, &device), RS_ERR_NOT_FOUND);
	assert_logged("no RDMA device \"c0\" on this machine; there is: a0, b0");
}

static void test_a_device_without_an_active_port_is_refused_with_advice(void **state)
{
	struct rs_device *device;

	(void)state;
	fake_add_device("a0")->ports[0].state = IBV_PORT_DOWN;
	assert_status(rs_device_open("a0", 0, &device), RS_ERR_NOT_FOUND);
	assert_status(rs_device_open(NULL, 0, &device), RS_ERR_NOT_FOUND);
	assert_int_equal(log_count("device a0 has no active port"), 2);
}

static void test_a_machine_without_devices_has_an_empty_list_and_advice(void **state)
{
	struct rs_device_info *list;
	struct rs_device *device;
	size_t count;

	(void)state;
	assert_ok(rs_device_list(&list, &count));
	assert_int_equal(count, 0);
	rs_device_list_free(list);
	/* No RDMA modules in the kernel. */
	fake_fail_always(FAKE_GET_DEVICE_LIST, ENOSYS);
	assert_ok(rs_device_list(&list, &count));
	assert_int_equal(count, 0);
	rs_device_list_free(list);
	assert_status(rs_device_open(NULL, 0, &device), RS_ERR_NOT_FOUND);
	assert_logged("no RDMA device on this machine; software ones: uroce");
	assert_status(rs_device_open("x0", 0, &device), RS_ERR_NOT_FOUND);
	assert_logged("(\"x0\" was asked for)");
}

static void test_a_device_that_does_not_open_is_left_out_of_the_list(void **state)
{
	struct rs_device_info *list;
	size_t count;

	(void)state;
	fake_add_device("a0");
	fake_add_device("b0");
	fake_fail_call(FAKE_OPEN_DEVICE, 0, EACCES);
	assert_ok(rs_device_list(&list, &count));
	assert_int_equal(count, 1);
	assert_string_equal(list[0].name, "b0");
	rs_device_list_free(list);
	assert_logged("ibv_open_device(a0) failed: Permission denied");
}

static void test_devices_none_of_which_opens_are_told_from_none(void **state)
{
	struct rs_device *device;

	(void)state;
	fake_add_device("a0");
	fake_fail_always(FAKE_OPEN_DEVICE, EACCES);
	assert_status(rs_device_open(NULL, 0, &device), RS_ERR_NOT_FOUND);
	assert_logged("no RDMA device of this machine can be opened: a0");
}

static void test_a_named_device_is_opened_and_no_other(void **state)
{
	struct rs_device *device;

	(void)state;
	fake_add_device("a0");
	fake_add_device("b0");
	/* The second one to be opened. */
	fake_fail_call(FAKE_OPEN_DEVICE, 1, EACCES);
	assert_ok(rs_device_open("b0", 0, &device));
	assert_ok(rs_device_close(device));
	assert_false(fake_has_failed());
}

static void test_opening_unwinds_whatever_call_fails(void **state)
{
	struct rs_device *device;
	unsigned skip;

	(void)state;
	fake_add_device("a0");
	for (skip = 0;; skip++) {
		enum rs_status status;

		fake_fail_any(skip, EIO);
		status = rs_device_open("a0", 0, &device);
		if (!fake_has_failed())
			break;
		assert_int_not_equal(status, RS_OK);
		assert_int_equal(fake_live(), 0);
		assert_string_equal(opened_name("a0", 0), "a0");
	}
	/* List, open, two queries, the protection domain. */
	assert_int_equal(skip, 5);
	assert_ok(rs_device_close(device));
}

static void test_a_failed_call_is_logged_once_with_its_status(void **state)
{
	struct rs_device *device;

	(void)state;
	fake_add_device("a0");
	fake_fail_call(FAKE_ALLOC_PD, 0, ENOMEM);
	assert_status(rs_device_open("a0", 0, &device), RS_ERR_NO_MEMORY);
	assert_int_equal(log_count("ibv_alloc_pd(a0) failed"), 1);
	assert_int_equal(log_count("error: "), 1);
}

static void test_a_device_that_is_held_cannot_be_closed(void **state)
{
	struct rs_device *device;

	(void)state;
	fake_add_device("a0");
	assert_ok(rs_device_open("a0", 0, &device));
	rs_device_hold(device);
	assert_status(rs_device_close(device), RS_ERR_IN_USE);
	assert_int_equal(fake_live(), 2);
	rs_device_release(device);
	assert_ok(rs_device_close(device));
	assert_ok(rs_device_close(NULL));
}

static void test_closing_reports_what_fails_and_still_frees(void **state)
{
	struct rs_device *device;

	(void)state;
	fake_add_device("a0");
	assert_ok(rs_device_open("a0", 0, &device));
	fake_fail_call(FAKE_DEALLOC_PD, 0, EBUSY);
	assert_status(rs_device_close(device), RS_ERR_IN_USE);
	assert_ok(rs_device_open("a0", 0, &device));
	fake_fail_call(FAKE_CLOSE_DEVICE, 0, EIO);
	assert_status(rs_device_close(device), RS_ERR_IO);
}

/* ---- GIDs ---- */

struct gid_case {
	const char *address;
	enum ibv_gid_type type;
};

/*
 * The index chosen in a table of these entries, one after the other; an empty address is an empty
 * entry.
 */
static int chosen_gid(const struct gid_case *cases, int count, int index)
{
	struct fake_device *fake;
	struct ibv_gid_entry entry = { .gid_index = 99 };
	struct rs_device *device;
	enum rs_status status;

	fake_reset();
	fake = fake_add_device("a0");
	memset(fake->ports[0].gids, 0, sizeof(fake->ports[0].gids));
	fake->ports[0].gid_count = count;
	for (int i = 0; i < count; i++)
		if (cases[i].address[0])
			fake_set_gid(&fake->ports[0], i, cases[i].address, cases[i].type);
	assert_ok(rs_device_open("a0", 0, &device));
	status = rs_device_choose_gid(device, index, &entry);
	assert_ok(rs_device_close(device));
	return status == RS_OK ? (int)entry.gid_index : -(int)status;
}

#define V1 IBV_GID_TYPE_ROCE_V1
#define V2 IBV_GID_TYPE_ROCE_V2
#define IB IBV_GID_TYPE_IB

static void test_the_best_gid_is_roce_v2_over_ipv4(void **state)
{
	static const struct gid_case table[] = { { "fe80::1", V1 },
						 { "fe80::1", V2 },
						 { "::ffff:192.0.2.1", V1 },
						 { "::ffff:192.0.2.1", V2 },
						 { "::ffff:192.0.2.2", V2 } };

	(void)state;
	assert_int_equal(chosen_gid(table, 5, -1), 3);
}

static void test_a_routable_ipv6_gid_is_better_than_a_link_local_one(void **state)
{
	static const struct gid_case table[] = { { "fe80::1", V2 },
						 { "", V2 },
						 { "2001:db8::1", V2 } };

	(void)state;
	assert_int_equal(chosen_gid(table, 3, -1), 2);
	assert_int_equal(chosen_gid(table, 1, -1), 0);
}

static void test_without_roce_v2_the_first_gid_is_taken(void **state)
{
	static const struct gid_case infiniband[] = { { "fe80::1", IB }, { "fe80::2", IB } };
	static const struct gid_case roce_v1[] = { { "", V1 }, { "fe80::1", V1 } };

	(void)state;
	assert_int_equal(chosen_gid(infiniband, 2, -1), 0);
	assert_int_equal(chosen_gid(roce_v1, 2, -1), 1);
}

static void test_a_gid_index_that_the_user_names_is_taken(void **state)
{
	static const struct gid_case table[] = { { "fe80::1", V1 }, { "::ffff:192.0.2.1", V2 } };

	(void)state;
	assert_int_equal(chosen_gid(table, 2, 0), 0);
	assert_int_equal(chosen_gid(table, 2, 1), 1);
}

static void test_an_empty_gid_entry_is_refused_with_a_list_of_the_others(void **state)
{
	static const struct gid_case table[] = { { "fe80::1", V1 },
						 { "", V2 },
						 { "::ffff:192.0.2.1", V2 } };

	(void)state;
	assert_int_equal(chosen_gid(table, 3, 1), -RS_ERR_NOT_FOUND);
	assert_logged("GID index 1 of device a0 is empty; there is: 0 (rocev1 fe80::1), "
		      "2 (rocev2 ::ffff:192.0.2.1)");
}

static void test_a_gid_index_outside_the_table_is_invalid(void **state)
{
	static const struct gid_case table[] = { { "fe80::1", V2 } };

	(void)state;
	assert_int_equal(chosen_gid(table, 1, 1), -RS_ERR_INVALID_VALUE);
	assert_logged("GID index 1 of device a0 is out of range; there is: 0 (rocev2 fe80::1)");
	assert_int_equal(chosen_gid(table, 1, 255), -RS_ERR_INVALID_VALUE);
}

static void test_a_port_without_gids_is_answered_with_advice(void **state)
{
	static const struct gid_case table[] = { { "", V2 } };

	(void)state;
	assert_int_equal(chosen_gid(table, 1, -1), -RS_ERR_NOT_FOUND);
	assert_logged("port 1 of device a0 has no GID: does its network interface have an address");
}

static void test_a_gid_table_that_cannot_be_read_is_an_error(void **state)
{
	struct ibv_gid_entry entry;
	struct rs_device *device;

	(void)state;
	fake_add_device("a0");
	assert_ok(rs_device_open("a0", 0, &device));
	fake_fail_call(FAKE_QUERY_GID, 1, EIO);
	assert_status(rs_device_choose_gid(device, -1, &entry), RS_ERR_IO);
	assert_logged("ibv_query_gid_ex(a0, port 1, index 1) failed");
	assert_ok(rs_device_close(device));
}

static void test_gids_and_their_types_have_texts(void **state)
{
	struct fake_port port = { 0 };
	char text[RS_GID_TEXT_SIZE];

	(void)state;
	fake_set_gid(&port, 0, "::ffff:192.0.2.1", V2);
	assert_string_equal(rs_gid_text(&port.gids[0].gid, text), "::ffff:192.0.2.1");
	assert_string_equal(rs_gid_type_name(IB), "ib");
	assert_string_equal(rs_gid_type_name(V1), "rocev1");
	assert_string_equal(rs_gid_type_name(V2), "rocev2");
}

static void test_operations_have_names(void **state)
{
	(void)state;
	assert_string_equal(rs_op_name(RS_OP_WRITE_IMMEDIATE), "write with immediate");
	assert_string_equal(rs_op_name((enum rs_op)RS_OP_COUNT), "unknown operation");
}

#define device_test(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		device_test(test_a_device_tells_its_name_port_and_capabilities),
		device_test(test_a_device_without_extended_queries_works_as_well),
		device_test(test_the_best_device_is_hardware_then_kernel_software_then_uroce),
		device_test(test_the_list_is_sorted_best_first_and_by_name),
		device_test(test_the_first_active_port_is_used),
		device_test(test_a_device_that_cannot_do_the_operations_is_passed_over),
		device_test(test_a_device_without_reliable_connections_can_do_nothing),
		device_test(test_when_no_device_will_do_the_log_says_what_the_best_one_lacks),
		device_test(test_an_unknown_name_is_answered_with_the_names_there_are),
		device_test(test_a_device_without_an_active_port_is_refused_with_advice),
		device_test(test_a_machine_without_devices_has_an_empty_list_and_advice),
		device_test(test_a_device_that_does_not_open_is_left_out_of_the_list),
		device_test(test_devices_none_of_which_opens_are_told_from_none),
		device_test(test_a_named_device_is_opened_and_no_other),
		device_test(test_opening_unwinds_whatever_call_fails),
		device_test(test_a_failed_call_is_logged_once_with_its_status),
		device_test(test_a_device_that_is_held_cannot_be_closed),
		device_test(test_closing_reports_what_fails_and_still_frees),
		device_test(test_the_best_gid_is_roce_v2_over_ipv4),
		device_test(test_a_routable_ipv6_gid_is_better_than_a_link_local_one),
		device_test(test_without_roce_v2_the_first_gid_is_taken),
		device_test(test_a_gid_index_that_the_user_names_is_taken),
		device_test(test_an_empty_gid_entry_is_refused_with_a_list_of_the_others),
		device_test(test_a_gid_index_outside_the_table_is_invalid),
		device_test(test_a_port_without_gids_is_answered_with_advice),
		device_test(test_a_gid_table_that_cannot_be_read_is_an_error),
		device_test(test_gids_and_their_types_have_texts),
		device_test(test_operations_have_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
