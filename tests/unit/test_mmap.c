#include "support.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "mmap.h"

static char memory[256];

struct maps {
	struct rs_device *first, *second;
	struct rs_mmap *mmap;
	unsigned live;
};

static int setup(void **state)
{
	static struct maps maps;

	fake_reset();
	log_capture();
	fake_add_device("a0");
	fake_add_device("b0");
	assert_ok(rs_device_open("a0", 0, &maps.first));
	assert_ok(rs_device_open("b0", 0, &maps.second));
	assert_ok(rs_mmap_create(&maps.mmap));
	maps.live = fake_live();
	*state = &maps;
	return 0;
}

static int teardown(void **state)
{
	struct maps *maps = *state;

	assert_ok(rs_mmap_destroy(maps->mmap));
	assert_int_equal(fake_live(), maps->live);
	assert_ok(rs_device_close(maps->first));
	assert_ok(rs_device_close(maps->second));
	assert_int_equal(fake_live(), 0);
	rs_log_set_sink(NULL, NULL);
	return 0;
}

static void configure(struct maps *maps, uint32_t access)
{
	assert_ok(rs_mmap_set_memrange(maps->mmap, memory, sizeof(memory)));
	assert_ok(rs_mmap_set_permissions(maps->mmap, access));
	assert_ok(rs_mmap_add_device(maps->mmap, maps->first));
	assert_ok(rs_mmap_add_device(maps->mmap, maps->second));
}

static void test_a_started_map_is_registered_with_every_device(void **state)
{
	struct maps *maps = *state;
	uint32_t first, second;

	configure(maps, RS_ACCESS_REMOTE_READ);
	assert_ok(rs_mmap_start(maps->mmap));
	assert_int_equal(fake_live(), maps->live + 2);
	assert_ok(rs_mmap_local_key(maps->mmap, maps->first, &first));
	assert_ok(rs_mmap_local_key(maps->mmap, maps->second, &second));
	assert_int_not_equal(first, second);
	assert_ok(rs_mmap_stop(maps->mmap));
	assert_int_equal(fake_live(), maps->live);
	assert_status(rs_mmap_local_key(maps->mmap, maps->first, &first), RS_ERR_INVALID_VALUE);
}

static void test_starting_unwinds_whichever_registration_fails(void **state)
{
	struct maps *maps = *state;
	unsigned skip;

	configure(maps, RS_ACCESS_ALL);
	for (skip = 0;; skip++) {
		enum rs_status status;
		uint32_t key;

		fake_fail_any(skip, ENOMEM);
		status = rs_mmap_start(maps->mmap);
		if (!fake_has_failed())
			break;
		assert_status(status, RS_ERR_NO_MEMORY);
		assert_int_equal(fake_live(), maps->live);
		assert_status(rs_mmap_local_key(maps->mmap, maps->first, &key),
			      RS_ERR_INVALID_VALUE);
		assert_ok(rs_mmap_start(maps->mmap));
		assert_ok(rs_mmap_stop(maps->mmap));
	}
	assert_int_equal(skip, 2);
	assert_logged("ibv_reg_mr(b0");
	assert_logged("over the limit of locked memory");
}

static void test_a_map_without_range_or_device_does_not_start(void **state)
{
	struct maps *maps = *state;

	assert_ok(rs_mmap_add_device(maps->mmap, maps->first));
	assert_status(rs_mmap_start(maps->mmap), RS_ERR_INVALID_VALUE);
	assert_ok(rs_mmap_destroy(maps->mmap));
	assert_ok(rs_mmap_create(&maps->mmap));
	assert_ok(rs_mmap_set_memrange(maps->mmap, memory, sizeof(memory)));
	assert_status(rs_mmap_start(maps->mmap), RS_ERR_INVALID_VALUE);
	assert_int_equal(fake_calls(FAKE_REG_MR), 0);
}

static void test_a_started_map_cannot_be_configured_or_started_again(void **state)
{
	struct maps *maps = *state;
	uint64_t address;
	size_t length;

	configure(maps, 0);
	assert_ok(rs_mmap_start(maps->mmap));
	assert_status(rs_mmap_set_memrange(maps->mmap, memory + 1, 1), RS_ERR_BAD_STATE);
	assert_status(rs_mmap_set_permissions(maps->mmap, RS_ACCESS_ALL), RS_ERR_BAD_STATE);
	assert_status(rs_mmap_add_device(maps->mmap, maps->first), RS_ERR_BAD_STATE);
	assert_status(rs_mmap_start(maps->mmap), RS_ERR_BAD_STATE);
	assert_int_equal(fake_live(), maps->live + 2);
	assert_ok(rs_mmap_get_memrange(maps->mmap, &address, &length));
	assert_int_equal(address, (uintptr_t)memory);
	assert_int_equal(length, sizeof(memory));
	assert_ok(rs_mmap_stop(maps->mmap));
	assert_ok(rs_mmap_set_memrange(maps->mmap, memory + 1, 1));
	assert_ok(rs_mmap_start(maps->mmap));
}

static void test_a_map_that_is_not_started_can_be_neither_stopped_exported_nor_held(void **state)
{
	struct maps *maps = *state;
	const char *line;
	uint64_t address;
	size_t length;

	assert_status(rs_mmap_get_memrange(maps->mmap, &address, &length), RS_ERR_BAD_STATE);
	configure(maps, 0);
	assert_status(rs_mmap_stop(maps->mmap), RS_ERR_BAD_STATE);
	assert_status(rs_mmap_export(maps->mmap, maps->first, &line), RS_ERR_BAD_STATE);
	assert_status(rs_mmap_hold(maps->mmap), RS_ERR_BAD_STATE);
}

static void test_a_map_that_buffers_refer_to_can_be_neither_stopped_nor_destroyed(void **state)
{
	struct maps *maps = *state;

	configure(maps, 0);
	assert_ok(rs_mmap_start(maps->mmap));
	assert_ok(rs_mmap_hold(maps->mmap));
	assert_status(rs_mmap_stop(maps->mmap), RS_ERR_IN_USE);
	assert_status(rs_mmap_destroy(maps->mmap), RS_ERR_IN_USE);
	assert_int_equal(fake_live(), maps->live + 2);
	rs_mmap_release(maps->mmap);
	assert_ok(rs_mmap_stop(maps->mmap));
}

static void test_impossible_ranges_are_refused(void **state)
{
	struct maps *maps = *state;

	assert_status(rs_mmap_set_memrange(maps->mmap, NULL, 1), RS_ERR_INVALID_VALUE);
	assert_status(rs_mmap_set_memrange(maps->mmap, memory, 0), RS_ERR_INVALID_VALUE);
	assert_status(rs_mmap_set_memrange(maps->mmap, memory, SIZE_MAX), RS_ERR_INVALID_VALUE);
}

static void test_remote_writes_need_local_write_as_well(void **state)
{
	struct maps *maps = *state;

	assert_status(rs_mmap_set_permissions(maps->mmap, RS_ACCESS_REMOTE_WRITE),
		      RS_ERR_INVALID_VALUE);
	assert_status(rs_mmap_set_permissions(maps->mmap, RS_ACCESS_REMOTE_ATOMIC),
		      RS_ERR_INVALID_VALUE);
	assert_ok(rs_mmap_set_permissions(maps->mmap, RS_ACCESS_REMOTE_READ));
	assert_ok(rs_mmap_set_permissions(maps->mmap,
					  RS_ACCESS_REMOTE_WRITE | RS_ACCESS_LOCAL_READ_WRITE));
	assert_status(rs_mmap_set_permissions(maps->mmap, 1U << 30), RS_ERR_INVALID_VALUE);
}

static void test_a_device_is_added_once_and_held_until_the_map_goes(void **state)
{
	struct maps *maps = *state;

	assert_ok(rs_mmap_add_device(maps->mmap, maps->first));
	assert_status(rs_mmap_add_device(maps->mmap, maps->first), RS_ERR_INVALID_VALUE);
	assert_status(rs_device_close(maps->first), RS_ERR_IN_USE);
}

static void test_only_so_many_devices_can_be_added(void **state)
{
	struct maps *maps = *state;
	struct rs_device *devices[RS_MMAP_MAX_DEVICES + 1];

	for (int i = 0; i <= RS_MMAP_MAX_DEVICES; i++) {
		assert_ok(rs_device_open("a0", 0, &devices[i]));
		assert_status(rs_mmap_add_device(maps->mmap, devices[i]),
			      i < RS_MMAP_MAX_DEVICES ? RS_OK : RS_ERR_FULL);
	}
	assert_ok(rs_mmap_destroy(maps->mmap));
	for (int i = 0; i <= RS_MMAP_MAX_DEVICES; i++)
		assert_ok(rs_device_close(devices[i]));
	assert_ok(rs_mmap_create(&maps->mmap));
}

static void test_destroying_a_started_map_stops_it(void **state)
{
	struct maps *maps = *state;

	configure(maps, 0);
	assert_ok(rs_mmap_start(maps->mmap));
	assert_ok(rs_mmap_destroy(maps->mmap));
	assert_int_equal(fake_live(), maps->live);
	assert_ok(rs_mmap_destroy(NULL));
	assert_ok(rs_mmap_create(&maps->mmap));
}

static void test_stopping_reports_a_failure_and_still_stops_the_rest(void **state)
{
	struct maps *maps = *state;

	configure(maps, 0);
	assert_ok(rs_mmap_start(maps->mmap));
	fake_fail_call(FAKE_DEREG_MR, 0, EBUSY);
	assert_status(rs_mmap_stop(maps->mmap), RS_ERR_IN_USE);
	assert_int_equal(fake_calls(FAKE_DEREG_MR), 2);
	assert_status(rs_mmap_stop(maps->mmap), RS_ERR_BAD_STATE);
}

static void test_an_exported_map_is_imported_by_the_peer(void **state)
{
	struct maps *maps = *state;
	struct rs_descriptor descriptor;
	struct rs_mmap *imported;
	const char *line;
	uint64_t address;
	uint32_t rkey;
	size_t length;

	configure(maps, RS_ACCESS_ALL);
	assert_ok(rs_mmap_start(maps->mmap));
	assert_ok(rs_mmap_export(maps->mmap, maps->second, &line));
	assert_ok(rs_descriptor_read(line, RS_DESCRIPTOR_MMAP, &descriptor));
	assert_int_equal(descriptor.mmap.access,
			 RS_ACCESS_REMOTE_READ | RS_ACCESS_REMOTE_WRITE | RS_ACCESS_REMOTE_ATOMIC);
	assert_ok(rs_mmap_create_from_export(line, &imported));
	assert_ok(rs_mmap_get_memrange(imported, &address, &length));
	assert_int_equal(address, (uintptr_t)memory);
	assert_int_equal(length, sizeof(memory));
	assert_ok(rs_mmap_remote_key(imported, &rkey));
	assert_int_equal(rkey, descriptor.mmap.rkey);
	assert_ok(rs_mmap_destroy(imported));
	assert_status(rs_mmap_remote_key(maps->mmap, &rkey), RS_ERR_INVALID_VALUE);
}

static void test_the_line_of_each_device_has_the_key_of_that_device(void **state)
{
	struct maps *maps = *state;
	const char *first, *second;

	configure(maps, 0);
	assert_ok(rs_mmap_start(maps->mmap));
	assert_ok(rs_mmap_export(maps->mmap, maps->first, &first));
	assert_ok(rs_mmap_export(maps->mmap, maps->second, &second));
	assert_string_not_equal(first, second);
	assert_non_null(strstr(first, "access=none"));
}

static void test_a_map_is_not_exported_through_a_device_that_it_does_not_know(void **state)
{
	struct maps *maps = *state;
	const char *line;

	assert_ok(rs_mmap_set_memrange(maps->mmap, memory, sizeof(memory)));
	assert_ok(rs_mmap_add_device(maps->mmap, maps->first));
	assert_ok(rs_mmap_start(maps->mmap));
	assert_status(rs_mmap_export(maps->mmap, maps->second, &line), RS_ERR_INVALID_VALUE);
}

static void test_a_remote_map_can_be_nothing_but_used_and_destroyed(void **state)
{
	struct maps *maps = *state;
	struct rs_mmap *remote;
	const char *line;
	uint32_t key;

	assert_ok(rs_mmap_create_from_export(peer_mmap_line(0x1000, 64, 7), &remote));
	assert_status(rs_mmap_set_memrange(remote, memory, 1), RS_ERR_BAD_STATE);
	assert_status(rs_mmap_set_permissions(remote, 0), RS_ERR_BAD_STATE);
	assert_status(rs_mmap_add_device(remote, maps->first), RS_ERR_BAD_STATE);
	assert_status(rs_mmap_start(remote), RS_ERR_BAD_STATE);
	assert_status(rs_mmap_stop(remote), RS_ERR_BAD_STATE);
	assert_status(rs_mmap_export(remote, maps->first, &line), RS_ERR_BAD_STATE);
	assert_status(rs_mmap_local_key(remote, maps->first, &key), RS_ERR_INVALID_VALUE);
	assert_ok(rs_mmap_hold(remote));
	assert_status(rs_mmap_destroy(remote), RS_ERR_IN_USE);
	rs_mmap_release(remote);
	assert_ok(rs_mmap_destroy(remote));
}

static void test_a_bad_line_makes_no_map(void **state)
{
	struct rs_mmap *remote = NULL;

	(void)state;
	assert_status(rs_mmap_create_from_export("rdma1 mmap", &remote), RS_ERR_BAD_DESCRIPTOR);
	assert_null(remote);
	assert_status(rs_mmap_create_from_export(peer_connection_line(1), &remote),
		      RS_ERR_BAD_DESCRIPTOR);
	assert_logged("this is a \"conn\" descriptor, wanted is a \"mmap\" descriptor");
}

#define mmap_test(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		mmap_test(test_a_started_map_is_registered_with_every_device),
		mmap_test(test_starting_unwinds_whichever_registration_fails),
		mmap_test(test_a_map_without_range_or_device_does_not_start),
		mmap_test(test_a_started_map_cannot_be_configured_or_started_again),
		mmap_test(test_a_map_that_is_not_started_can_be_neither_stopped_exported_nor_held),
		mmap_test(test_a_map_that_buffers_refer_to_can_be_neither_stopped_nor_destroyed),
		mmap_test(test_impossible_ranges_are_refused),
		mmap_test(test_remote_writes_need_local_write_as_well),
		mmap_test(test_a_device_is_added_once_and_held_until_the_map_goes),
		mmap_test(test_only_so_many_devices_can_be_added),
		mmap_test(test_destroying_a_started_map_stops_it),
		mmap_test(test_stopping_reports_a_failure_and_still_stops_the_rest),
		mmap_test(test_an_exported_map_is_imported_by_the_peer),
		mmap_test(test_the_line_of_each_device_has_the_key_of_that_device),
		mmap_test(test_a_map_is_not_exported_through_a_device_that_it_does_not_know),
		mmap_test(test_a_remote_map_can_be_nothing_but_used_and_destroyed),
		mmap_test(test_a_bad_line_makes_no_map),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
