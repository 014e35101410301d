#include "support.h"

#include <stdint.h>
#include <string.h>

#include "buf.h"

/* The fixture's instance is not needed here, its maps and inventory are. */

static void test_a_buffer_for_data_is_full_and_one_for_room_is_empty(void **state)
{
	struct fixture *fixture = *state;
	struct rs_buf *data = fixture_data(fixture, 8, 16);
	struct rs_buf *room = fixture_room(fixture, 8, 16);

	assert_ptr_equal(rs_buf_data(data), fixture->memory + 8);
	assert_int_equal(rs_buf_data_length(data), 16);
	assert_int_equal(rs_buf_chain_room(data), 0);
	assert_int_equal(rs_buf_address(room), (uintptr_t)fixture->memory + 8);
	assert_int_equal(rs_buf_length(room), 16);
	assert_int_equal(rs_buf_data_length(room), 0);
	assert_int_equal(rs_buf_chain_room(room), 16);
	assert_false(rs_buf_is_remote(data));
	rs_buf_unref(data);
	rs_buf_unref(room);
}

static void test_a_buffer_lies_within_its_map(void **state)
{
	struct fixture *fixture = *state;
	uint64_t start = (uintptr_t)fixture->memory;
	uint64_t end = start + FIXTURE_MEMORY;
	struct rs_buf *buf;

	assert_ok(
		rs_buf_get_by_data(fixture->inventory, fixture->mmap, start, FIXTURE_MEMORY, &buf));
	rs_buf_unref(buf);
	assert_ok(rs_buf_get_by_data(fixture->inventory, fixture->mmap, end, 0, &buf));
	rs_buf_unref(buf);
	assert_status(rs_buf_get_by_data(fixture->inventory, fixture->mmap, start - 1, 1, &buf),
		      RS_ERR_INVALID_VALUE);
	assert_status(rs_buf_get_by_data(fixture->inventory, fixture->mmap, end, 1, &buf),
		      RS_ERR_INVALID_VALUE);
	assert_status(rs_buf_get_by_data(fixture->inventory, fixture->mmap, start + 1,
					 FIXTURE_MEMORY, &buf),
		      RS_ERR_INVALID_VALUE);
	assert_status(rs_buf_get_by_data(fixture->inventory, fixture->mmap, start + 1, SIZE_MAX,
					 &buf),
		      RS_ERR_INVALID_VALUE);
	assert_status(rs_buf_get_by_data(fixture->inventory, fixture->mmap, UINT64_MAX, 2, &buf),
		      RS_ERR_INVALID_VALUE);
	assert_int_equal(rs_buf_inventory_available(fixture->inventory), FIXTURE_BUFS);
}

static void test_an_inventory_has_only_so_many_buffers(void **state)
{
	struct fixture *fixture = *state;
	struct rs_buf *bufs[FIXTURE_BUFS], *one_more;

	for (int i = 0; i < FIXTURE_BUFS; i++)
		bufs[i] = fixture_data(fixture, 0, 1);
	assert_int_equal(rs_buf_inventory_available(fixture->inventory), 0);
	assert_status(rs_buf_get_by_data(fixture->inventory, fixture->mmap,
					 (uintptr_t)fixture->memory, 1, &one_more),
		      RS_ERR_FULL);
	rs_buf_unref(bufs[3]);
	bufs[3] = fixture_data(fixture, 0, 1);
	for (int i = 0; i < FIXTURE_BUFS; i++)
		rs_buf_unref(bufs[i]);
}

static void test_an_inventory_that_is_not_started_gives_no_buffers(void **state)
{
	struct fixture *fixture = *state;
	struct rs_buf_inventory *inventory;
	struct rs_buf *buf;

	assert_ok(rs_buf_inventory_create(1, &inventory));
	assert_status(rs_buf_get_by_data(inventory, fixture->mmap, (uintptr_t)fixture->memory, 1,
					 &buf),
		      RS_ERR_BAD_STATE);
	assert_status(rs_buf_inventory_stop(inventory), RS_ERR_BAD_STATE);
	assert_ok(rs_buf_inventory_start(inventory));
	assert_status(rs_buf_inventory_start(inventory), RS_ERR_BAD_STATE);
	assert_ok(rs_buf_inventory_stop(inventory));
	assert_ok(rs_buf_inventory_destroy(inventory));
	assert_ok(rs_buf_inventory_destroy(NULL));
}

static void test_an_inventory_with_buffers_out_can_be_neither_stopped_nor_destroyed(void **state)
{
	struct fixture *fixture = *state;
	struct rs_buf *buf = fixture_data(fixture, 0, 1);

	assert_status(rs_buf_inventory_stop(fixture->inventory), RS_ERR_IN_USE);
	assert_status(rs_buf_inventory_destroy(fixture->inventory), RS_ERR_IN_USE);
	rs_buf_unref(buf);
	assert_ok(rs_buf_inventory_stop(fixture->inventory));
}

static void test_an_inventory_of_impossible_size_is_refused(void **state)
{
	struct rs_buf_inventory *inventory;

	(void)state;
	assert_status(rs_buf_inventory_create(0, &inventory), RS_ERR_INVALID_VALUE);
	assert_status(rs_buf_inventory_create(SIZE_MAX, &inventory), RS_ERR_INVALID_VALUE);
	assert_status(rs_buf_inventory_create(SIZE_MAX / 2, &inventory), RS_ERR_INVALID_VALUE);
}

static void test_a_map_that_is_not_started_gives_no_buffers(void **state)
{
	struct fixture *fixture = *state;
	struct rs_mmap *mmap;
	struct rs_buf *buf;

	assert_ok(rs_mmap_create(&mmap));
	assert_status(rs_buf_get_by_data(fixture->inventory, mmap, 0, 0, &buf), RS_ERR_BAD_STATE);
	assert_ok(rs_mmap_set_memrange(mmap, fixture->memory, 16));
	assert_status(rs_buf_get_by_data(fixture->inventory, mmap, (uintptr_t)fixture->memory, 16,
					 &buf),
		      RS_ERR_BAD_STATE);
	assert_ok(rs_mmap_destroy(mmap));
}

static void test_a_buffer_holds_its_map(void **state)
{
	struct fixture *fixture = *state;
	struct rs_buf *buf = fixture_data(fixture, 0, 1);

	assert_status(rs_mmap_stop(fixture->mmap), RS_ERR_IN_USE);
	rs_buf_unref(buf);
	assert_ok(rs_mmap_stop(fixture->mmap));
}

static void test_a_buffer_goes_back_with_its_last_reference(void **state)
{
	struct fixture *fixture = *state;
	struct rs_buf *buf = fixture_data(fixture, 0, 1);

	rs_buf_ref(buf);
	rs_buf_unref(buf);
	assert_int_equal(rs_buf_inventory_available(fixture->inventory), FIXTURE_BUFS - 1);
	rs_buf_unref(buf);
	assert_int_equal(rs_buf_inventory_available(fixture->inventory), FIXTURE_BUFS);
	rs_buf_ref(NULL);
	rs_buf_unref(NULL);
}

static void test_data_can_be_set_within_the_buffer_only(void **state)
{
	struct fixture *fixture = *state;
	struct rs_buf *buf = fixture_room(fixture, 100, 50);
	uint64_t start = rs_buf_address(buf);

	assert_ok(rs_buf_set_data(buf, start + 10, 20));
	assert_int_equal(rs_buf_data_length(buf), 20);
	assert_ptr_equal(rs_buf_data(buf), fixture->memory + 110);
	assert_int_equal(rs_buf_chain_room(buf), 20);
	assert_status(rs_buf_set_data(buf, start - 1, 1), RS_ERR_INVALID_VALUE);
	assert_status(rs_buf_set_data(buf, start + 10, 41), RS_ERR_INVALID_VALUE);
	assert_status(rs_buf_set_data(buf, start + 51, 0), RS_ERR_INVALID_VALUE);
	assert_int_equal(rs_buf_data_length(buf), 20);
	rs_buf_reset_data_length(buf);
	assert_int_equal(rs_buf_data_length(buf), 0);
	assert_int_equal(rs_buf_chain_room(buf), 50);
	rs_buf_unref(buf);
}

/* count: in, the entries that there are; out, those in use, whose lengths must add up. */
static enum rs_status gather(struct rs_buf *head, const struct rs_device *device,
			     struct ibv_sge *sges, int *count)
{
	struct rs_sge_list list = { .sges = sges, .room = *count };
	enum rs_status status = rs_buf_gather(head, device, &list);

	*count = list.count;
	if (status == RS_OK)
		assert_int_equal(list.length, rs_buf_chain_data_length(head));
	return status;
}

static enum rs_status scatter(struct rs_buf *head, size_t length, const struct rs_device *device,
			      struct ibv_sge *sges, int *count)
{
	struct rs_sge_list list = { .sges = sges, .room = *count };
	enum rs_status status = rs_buf_scatter(head, length, device, &list);

	*count = list.count;
	if (status == RS_OK)
		assert_int_equal(list.length, length);
	return status;
}

static void test_a_chain_is_gathered_in_order_without_its_empty_parts(void **state)
{
	struct fixture *fixture = *state;
	struct rs_buf *head = fixture_data(fixture, 100, 10);
	struct ibv_sge sges[4];
	uint32_t lkey;
	int count = 4;

	assert_ok(rs_buf_chain(head, fixture_room(fixture, 200, 10)));
	assert_ok(rs_buf_chain(head, fixture_data(fixture, 0, 30)));
	assert_int_equal(rs_buf_chain_data_length(head), 40);
	assert_ok(gather(head, fixture->device, sges, &count));
	assert_int_equal(count, 2);
	assert_int_equal(sges[0].addr, (uintptr_t)fixture->memory + 100);
	assert_int_equal(sges[0].length, 10);
	assert_int_equal(sges[1].addr, (uintptr_t)fixture->memory);
	assert_int_equal(sges[1].length, 30);
	assert_ok(rs_mmap_local_key(fixture->mmap, fixture->device, &lkey));
	assert_int_equal(sges[1].lkey, lkey);
	rs_buf_unref(head);
}

static void test_no_buffer_is_gathered_and_scattered_as_nothing(void **state)
{
	struct fixture *fixture = *state;
	struct ibv_sge sges[1];
	int count = 1;

	assert_ok(gather(NULL, fixture->device, sges, &count));
	assert_int_equal(count, 0);
	count = 1;
	assert_ok(scatter(NULL, 0, fixture->device, sges, &count));
	assert_int_equal(count, 0);
	count = 1;
	assert_status(scatter(NULL, 1, fixture->device, sges, &count), RS_ERR_TOO_BIG);
}

/* 10 bytes of room behind 5 of data, no room, 20 bytes of room. */
static struct rs_buf *make_room_chain(struct fixture *fixture)
{
	struct rs_buf *head = fixture_room(fixture, 0, 15);

	assert_ok(rs_buf_set_data(head, rs_buf_address(head), 5));
	assert_ok(rs_buf_chain(head, fixture_data(fixture, 100, 7)));
	assert_ok(rs_buf_chain(head, fixture_room(fixture, 200, 20)));
	return head;
}

static void test_a_chain_is_scattered_into_its_room_and_no_further(void **state)
{
	struct fixture *fixture = *state;
	struct rs_buf *head = make_room_chain(fixture);
	struct ibv_sge sges[3];
	int count = 3;

	assert_int_equal(rs_buf_chain_room(head), 30);
	assert_ok(scatter(head, 12, fixture->device, sges, &count));
	assert_int_equal(count, 2);
	assert_int_equal(sges[0].addr, (uintptr_t)fixture->memory + 5);
	assert_int_equal(sges[0].length, 10);
	assert_int_equal(sges[1].addr, (uintptr_t)fixture->memory + 200);
	assert_int_equal(sges[1].length, 2);
	count = 3;
	assert_ok(scatter(head, 10, fixture->device, sges, &count));
	assert_int_equal(count, 1);
	count = 3;
	assert_ok(scatter(head, 30, fixture->device, sges, &count));
	assert_int_equal(count, 2);
	count = 3;
	assert_status(scatter(head, 31, fixture->device, sges, &count), RS_ERR_TOO_BIG);
	rs_buf_unref(head);
}

static void test_more_pieces_than_entries_are_too_big(void **state)
{
	struct fixture *fixture = *state;
	struct rs_buf *head = fixture_data(fixture, 0, 1);
	struct rs_buf *room = make_room_chain(fixture);
	struct ibv_sge sges[2];
	int count = 2;

	assert_ok(rs_buf_chain(head, fixture_data(fixture, 10, 1)));
	assert_ok(gather(head, fixture->device, sges, &count));
	count = 2;
	assert_ok(rs_buf_chain(head, fixture_data(fixture, 20, 1)));
	assert_status(gather(head, fixture->device, sges, &count), RS_ERR_TOO_BIG);
	count = 1;
	assert_status(scatter(room, 11, fixture->device, sges, &count), RS_ERR_TOO_BIG);
	rs_buf_unref(head);
	rs_buf_unref(room);
}

static void test_received_bytes_grow_the_data_along_the_chain(void **state)
{
	struct fixture *fixture = *state;
	struct rs_buf *head = make_room_chain(fixture);
	struct rs_buf *last = rs_buf_next(rs_buf_next(head));

	rs_buf_fill(head, 4);
	assert_int_equal(rs_buf_data_length(head), 9);
	assert_int_equal(rs_buf_data_length(last), 0);
	rs_buf_fill(head, 8);
	assert_int_equal(rs_buf_data_length(head), 15);
	assert_int_equal(rs_buf_data_length(rs_buf_next(head)), 7);
	assert_int_equal(rs_buf_data_length(last), 2);
	assert_int_equal(rs_buf_chain_data_length(head), 24);
	assert_int_equal(rs_buf_chain_room(head), 18);
	assert_null(rs_buf_next(last));
	rs_buf_unref(head);
}

static void test_a_chain_goes_back_with_its_head(void **state)
{
	struct fixture *fixture = *state;
	struct rs_buf *head = fixture_data(fixture, 0, 1);
	struct rs_buf *tail = fixture_data(fixture, 1, 1);

	assert_ok(rs_buf_chain(tail, fixture_data(fixture, 2, 1)));
	assert_ok(rs_buf_chain(head, tail));
	rs_buf_ref(head);
	rs_buf_unref(head);
	assert_int_equal(rs_buf_inventory_available(fixture->inventory), FIXTURE_BUFS - 3);
	rs_buf_unref(head);
	assert_int_equal(rs_buf_inventory_available(fixture->inventory), FIXTURE_BUFS);
}

static void test_what_cannot_be_chained_is_refused(void **state)
{
	struct fixture *fixture = *state;
	struct rs_buf *head = fixture_data(fixture, 0, 1);
	struct rs_buf *tail = fixture_data(fixture, 1, 1);
	struct rs_buf *shared = fixture_data(fixture, 2, 1);
	struct rs_buf *remote = fixture_peer_data(fixture, 0, 1);

	rs_buf_ref(shared);
	assert_ok(rs_buf_chain(head, tail));
	assert_status(rs_buf_chain(head, head), RS_ERR_INVALID_VALUE);
	assert_status(rs_buf_chain(head, tail), RS_ERR_INVALID_VALUE);
	assert_status(rs_buf_chain(tail, head), RS_ERR_INVALID_VALUE);
	assert_status(rs_buf_chain(tail, shared), RS_ERR_INVALID_VALUE);
	assert_status(rs_buf_chain(head, shared), RS_ERR_INVALID_VALUE);
	assert_status(rs_buf_chain(head, remote), RS_ERR_INVALID_VALUE);
	assert_status(rs_buf_chain(remote, shared), RS_ERR_INVALID_VALUE);
	rs_buf_unref(shared);
	assert_ok(rs_buf_chain(head, shared));
	rs_buf_unref(head);
	rs_buf_unref(remote);
}

static void test_a_remote_buffer_stands_for_the_peers_memory(void **state)
{
	struct fixture *fixture = *state;
	struct rs_buf *buf = fixture_peer_data(fixture, 16, 32);
	uint64_t address;
	size_t length;
	uint32_t rkey;

	assert_true(rs_buf_is_remote(buf));
	assert_null(rs_buf_data(buf));
	assert_ok(rs_buf_remote_data(buf, &address, &length, &rkey));
	assert_int_equal(address, PEER_ADDRESS + 16);
	assert_int_equal(length, 32);
	assert_int_equal(rkey, PEER_RKEY);
	assert_ok(rs_buf_set_data(buf, PEER_ADDRESS + 16, 12));
	assert_ok(rs_buf_remote_room(buf, &address, &length, &rkey));
	assert_int_equal(address, PEER_ADDRESS + 28);
	assert_int_equal(length, 20);
	rs_buf_unref(buf);
}

static void test_local_and_remote_are_not_mixed_up(void **state)
{
	struct fixture *fixture = *state;
	struct rs_buf *local = fixture_data(fixture, 0, 8);
	struct rs_buf *remote = fixture_peer_data(fixture, 0, 8);
	struct ibv_sge sges[1];
	uint64_t address;
	size_t length;
	uint32_t rkey;
	int count = 1;

	assert_status(rs_buf_remote_data(local, &address, &length, &rkey), RS_ERR_INVALID_VALUE);
	assert_status(rs_buf_remote_room(local, &address, &length, &rkey), RS_ERR_INVALID_VALUE);
	assert_status(rs_buf_remote_data(NULL, &address, &length, &rkey), RS_ERR_INVALID_VALUE);
	assert_status(rs_buf_remote_room(NULL, &address, &length, &rkey), RS_ERR_INVALID_VALUE);
	assert_status(gather(remote, fixture->device, sges, &count), RS_ERR_INVALID_VALUE);
	rs_buf_unref(local);
	rs_buf_unref(remote);
}

static void test_a_buffer_that_was_given_back_is_refused(void **state)
{
	struct fixture *fixture = *state;
	struct rs_buf *local = fixture_data(fixture, 0, 8);
	struct rs_buf *remote = fixture_peer_data(fixture, 0, 8);
	struct ibv_sge sges[1];
	uint64_t address;
	size_t length;
	uint32_t rkey;
	int count = 1;

	rs_buf_unref(local);
	rs_buf_unref(remote);
	assert_status(gather(local, fixture->device, sges, &count), RS_ERR_INVALID_VALUE);
	assert_status(scatter(local, 1, fixture->device, sges, &count), RS_ERR_INVALID_VALUE);
	assert_status(rs_buf_remote_data(remote, &address, &length, &rkey), RS_ERR_INVALID_VALUE);
	assert_status(rs_buf_remote_room(remote, &address, &length, &rkey), RS_ERR_INVALID_VALUE);
}

#define buf_test(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		buf_test(test_a_buffer_for_data_is_full_and_one_for_room_is_empty),
		buf_test(test_a_buffer_lies_within_its_map),
		buf_test(test_an_inventory_has_only_so_many_buffers),
		buf_test(test_an_inventory_that_is_not_started_gives_no_buffers),
		buf_test(test_an_inventory_with_buffers_out_can_be_neither_stopped_nor_destroyed),
		buf_test(test_an_inventory_of_impossible_size_is_refused),
		buf_test(test_a_map_that_is_not_started_gives_no_buffers),
		buf_test(test_a_buffer_holds_its_map),
		buf_test(test_a_buffer_goes_back_with_its_last_reference),
		buf_test(test_data_can_be_set_within_the_buffer_only),
		buf_test(test_a_chain_is_gathered_in_order_without_its_empty_parts),
		buf_test(test_no_buffer_is_gathered_and_scattered_as_nothing),
		buf_test(test_a_chain_is_scattered_into_its_room_and_no_further),
		buf_test(test_more_pieces_than_entries_are_too_big),
		buf_test(test_received_bytes_grow_the_data_along_the_chain),
		buf_test(test_a_chain_goes_back_with_its_head),
		buf_test(test_what_cannot_be_chained_is_refused),
		buf_test(test_a_remote_buffer_stands_for_the_peers_memory),
		buf_test(test_local_and_remote_are_not_mixed_up),
		buf_test(test_a_buffer_that_was_given_back_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
