#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../../../uroce/core/mr.h"
#include "core_surroundings.h"

#define PAGE       4096
#define ALL_REMOTE (IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)

/* Four pages: readable and writable, only readable, not there, readable and writable. */
static char *memory;
enum { WRITABLE, READABLE, MISSING, BEHIND };

/* A system before Linux 5.14, where memory cannot be populated. */
static bool is_old_system;

int madvise(void *addr, size_t length, int advice)
{
	if (is_old_system && (advice == MADV_POPULATE_READ || advice == MADV_POPULATE_WRITE)) {
		errno = EINVAL;
		return -1;
	}
	return (int)syscall(SYS_madvise, addr, length, advice);
}

static int set_up(void **state)
{
	is_old_system = false;
	memory = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED || mprotect(memory + READABLE * PAGE, PAGE, PROT_READ) != 0 ||
	    munmap(memory + MISSING * PAGE, PAGE) != 0)
		return -1;
	return core_set_up(state);
}

static int tear_down(void **state)
{
	munmap(memory, 4 * PAGE);
	return core_tear_down(state);
}

static struct ur_mr *try_to_register(unsigned page, size_t length, unsigned access)
{
	return ur_mr_register(core.pd, memory + page * PAGE, length, UR_NO_IOVA, access);
}

/* length bytes at the start of the writable page. */
static struct ur_mr *register_some(size_t length, unsigned access)
{
	struct ur_mr *mr = try_to_register(WRITABLE, length, access);

	assert_non_null(mr);
	return mr;
}

static void deregister(struct ur_mr *mr)
{
	assert_int_equal(ur_mr_deregister(mr), 0);
}

static void *resolve(uint32_t key, uint64_t address, uint64_t length, unsigned access)
{
	void *found;

	pthread_mutex_lock(&core.device.lock);
	found = ur_mr_resolve(&core.device, core.pd, key, address, length, access);
	pthread_mutex_unlock(&core.device.lock);
	return found;
}

static void *resolve_local(const struct ur_mr *mr, uint64_t address, uint64_t length)
{
	return resolve(mr->verbs.lkey, address, length, 0);
}

/* ---- Resolving ---- */

static void test_a_region_holds_its_range_and_nothing_beyond(void **state)
{
	struct ur_mr *mr = register_some(100, 0);
	uint64_t start = (uintptr_t)memory;

	(void)state;
	assert_ptr_equal(resolve_local(mr, start, 100), memory);
	assert_ptr_equal(resolve_local(mr, start + 99, 1), memory + 99);
	assert_ptr_equal(resolve_local(mr, start + 100, 0), memory + 100);
	assert_null(resolve_local(mr, start - 1, 1));
	assert_null(resolve_local(mr, start - 1, 0));
	assert_null(resolve_local(mr, start, 101));
	assert_null(resolve_local(mr, start + 99, 2));
	assert_null(resolve_local(mr, start + 101, 0));
	assert_null(resolve_local(mr, start + 50, UINT64_MAX));
	assert_null(resolve_local(mr, start + 50, UINT64_MAX - start - 49));
	assert_null(resolve_local(mr, UINT64_MAX, 1));
	assert_null(resolve_local(mr, UINT64_MAX, 2));
	assert_null(resolve_local(mr, 0, UINT64_MAX));
	deregister(mr);
}

static void test_remote_access_is_what_was_permitted(void **state)
{
	static const unsigned each[] = { IBV_ACCESS_REMOTE_READ, IBV_ACCESS_REMOTE_WRITE,
					 IBV_ACCESS_REMOTE_ATOMIC };
	uint64_t start = (uintptr_t)memory;

	(void)state;
	for (unsigned permitted = 0; permitted < 8; permitted++) {
		unsigned access = IBV_ACCESS_LOCAL_WRITE;
		struct ur_mr *mr;

		for (unsigned i = 0; i < 3; i++)
			access |= permitted & 1U << i ? each[i] : 0;
		mr = register_some(8, access);
		for (unsigned i = 0; i < 3; i++)
			assert_ptr_equal(resolve(mr->verbs.rkey, start, 8, each[i]),
					 permitted & 1U << i ? memory : NULL);
		deregister(mr);
	}
}

static void test_local_writing_needs_permission_and_reading_does_not(void **state)
{
	struct ur_mr *mr = register_some(8, IBV_ACCESS_REMOTE_READ);
	uint64_t start = (uintptr_t)memory;

	(void)state;
	assert_non_null(resolve(mr->verbs.lkey, start, 8, 0));
	assert_null(resolve(mr->verbs.lkey, start, 8, IBV_ACCESS_LOCAL_WRITE));
	deregister(mr);
	mr = register_some(8, IBV_ACCESS_LOCAL_WRITE);
	assert_non_null(resolve(mr->verbs.lkey, start, 8, IBV_ACCESS_LOCAL_WRITE));
	deregister(mr);
}

static void test_a_region_belongs_to_its_protection_domain(void **state)
{
	struct ur_mr *mr = register_some(8, 0);
	struct ur_pd *other = ur_pd_alloc(core.context);

	(void)state;
	assert_null(ur_mr_resolve(&core.device, other, mr->verbs.lkey, (uintptr_t)memory, 8, 0));
	assert_int_equal(ur_pd_dealloc(other), 0);
	assert_int_equal(ur_pd_dealloc(core.pd), EBUSY);
	deregister(mr);
}

/* ---- Keys ---- */

static void test_keys_that_nobody_has_are_not_found(void **state)
{
	struct ur_mr *mr = register_some(8, 0);
	uint32_t key = mr->verbs.lkey;

	(void)state;
	assert_ptr_equal(ur_mr_find(&core.device, key), mr);
	assert_null(ur_mr_find(&core.device, key ^ 1));
	assert_null(ur_mr_find(&core.device, key ^ 0x100));
	assert_null(ur_mr_find(&core.device, 0));
	assert_null(ur_mr_find(&core.device, UINT32_MAX));
	assert_null(ur_mr_find(&core.device, key | 0xff000000));
	deregister(mr);
	assert_null(ur_mr_find(&core.device, key));
}

static void test_a_key_is_not_given_again_soon(void **state)
{
	enum { KEYS = 10000 };
	uint32_t *keys = calloc(KEYS, sizeof(*keys));
	bool *seen = calloc(1 << 24, sizeof(*seen));

	(void)state;
	assert_non_null(keys);
	assert_non_null(seen);
	for (unsigned i = 0; i < KEYS; i++) {
		struct ur_mr *mr = register_some(8, 0);

		keys[i] = mr->verbs.lkey;
		assert_int_not_equal(keys[i], 0);
		assert_int_equal(mr->verbs.rkey, keys[i]);
		assert_true(keys[i] < 1 << 24);
		assert_false(seen[keys[i]]);
		seen[keys[i]] = true;
		deregister(mr);
	}
	/* And the place it was at is used by others first. */
	for (unsigned i = 1; i < KEYS; i++)
		assert_int_not_equal(keys[i] >> 8, keys[i - 1] >> 8);
	free(seen);
	free(keys);
}

static void test_there_can_be_a_hundred_thousand_regions(void **state)
{
	enum { REGIONS = 100000 };
	struct ur_mr **mrs = calloc(REGIONS, sizeof(*mrs));

	(void)state;
	assert_non_null(mrs);
	for (unsigned i = 0; i < REGIONS; i++)
		mrs[i] = register_some(1 + i % PAGE, 0);
	for (unsigned i = 0; i < REGIONS; i++)
		assert_ptr_equal(ur_mr_find(&core.device, mrs[i]->verbs.lkey), mrs[i]);
	for (unsigned i = 0; i < REGIONS; i += 2)
		deregister(mrs[i]);
	for (unsigned i = 0; i < REGIONS; i += 2)
		mrs[i] = register_some(8, 0);
	for (unsigned i = 0; i < REGIONS; i++) {
		assert_ptr_equal(ur_mr_find(&core.device, mrs[i]->verbs.lkey), mrs[i]);
		deregister(mrs[i]);
	}
	assert_true(core.device.keys.capacity < 2 * REGIONS);
	free(mrs);
}

/* ---- What can be registered ---- */

static void test_impossible_regions_are_refused(void **state)
{
	const struct {
		size_t length;
		unsigned access;
		int error;
	} refused[] = {
		{ 0, 0, EINVAL },
		{ 8, IBV_ACCESS_REMOTE_WRITE, EINVAL },
		{ 8, IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_REMOTE_READ, EINVAL },
		{ 8, 1U << 12, EINVAL },
		{ 8, 1U << 31, EINVAL },
		{ 8, IBV_ACCESS_ON_DEMAND, EOPNOTSUPP },
		{ 8, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_HUGETLB, EOPNOTSUPP },
		{ UINT64_MAX, 0, EINVAL },
		{ UINT64_MAX - (uintptr_t)memory, 0, EFAULT },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		errno = 0;
		assert_null(try_to_register(WRITABLE, refused[i].length, refused[i].access));
		assert_int_equal(errno, refused[i].error);
	}
}

static void test_optional_flags_are_ignored(void **state)
{
	struct ur_mr *mr = register_some(8, ALL_REMOTE | IBV_ACCESS_LOCAL_WRITE |
						    IBV_ACCESS_RELAXED_ORDERING | 1U << 29);

	(void)state;
	assert_int_equal(mr->access, ALL_REMOTE | IBV_ACCESS_LOCAL_WRITE);
	deregister(mr);
}

static void assert_memory_is_checked(void)
{
	deregister(register_some(PAGE, IBV_ACCESS_LOCAL_WRITE));
	deregister(register_some(2 * PAGE, IBV_ACCESS_REMOTE_READ));
	assert_null(try_to_register(MISSING, 1, 0));
	assert_int_equal(errno, EFAULT);
	errno = 0;
	assert_null(try_to_register(WRITABLE, 2 * PAGE + 1, 0));
	assert_int_equal(errno, EFAULT);
	errno = 0;
	assert_null(try_to_register(READABLE, 3 * PAGE, 0));
	assert_int_equal(errno, EFAULT);
}

static void test_memory_must_be_there(void **state)
{
	(void)state;
	assert_memory_is_checked();
	errno = 0;
	assert_null(ur_mr_register(core.pd, NULL, PAGE, UR_NO_IOVA, 0));
	assert_int_equal(errno, EFAULT);
}

static void test_memory_must_be_there_on_old_systems(void **state)
{
	size_t large = 3000 * PAGE;
	char *pages = mmap(NULL, large, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ur_mr *mr;

	(void)state;
	is_old_system = true;
	assert_memory_is_checked();
	assert_ptr_not_equal(pages, MAP_FAILED);
	mr = ur_mr_register(core.pd, pages, large, UR_NO_IOVA, 0);
	assert_non_null(mr);
	deregister(mr);
	assert_int_equal(munmap(pages + large - PAGE, PAGE), 0);
	assert_null(ur_mr_register(core.pd, pages, large, UR_NO_IOVA, 0));
	assert_int_equal(errno, EFAULT);
	assert_int_equal(munmap(pages, large - PAGE), 0);
}

static void test_memory_must_be_writable_where_it_shall_be_written(void **state)
{
	static const unsigned writing[] = { IBV_ACCESS_LOCAL_WRITE,
					    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
					    IBV_ACCESS_MW_BIND };

	(void)state;
	deregister(try_to_register(READABLE, PAGE, IBV_ACCESS_REMOTE_READ));
	for (size_t i = 0; i < sizeof(writing) / sizeof(writing[0]); i++) {
		errno = 0;
		assert_null(try_to_register(READABLE, PAGE, writing[i]));
		assert_int_equal(errno, EFAULT);
		assert_null(try_to_register(WRITABLE, PAGE + 1, writing[i]));
	}
}

static void test_nothing_is_left_of_a_refused_region(void **state)
{
	(void)state;
	assert_null(try_to_register(MISSING, 1, 0));
	assert_int_equal(core.pd->objects, 0);
	assert_int_equal(core.device.keys.used, 0);
}

/* ---- Addresses ---- */

static void test_a_zero_based_region_begins_at_zero(void **state)
{
	struct ur_mr *mr =
		ur_mr_register(core.pd, memory + 3, 100, UR_NO_IOVA, IBV_ACCESS_ZERO_BASED);

	(void)state;
	assert_ptr_equal(resolve_local(mr, 0, 100), memory + 3);
	assert_ptr_equal(resolve_local(mr, 99, 1), memory + 102);
	assert_null(resolve_local(mr, 100, 1));
	assert_null(resolve_local(mr, (uintptr_t)memory + 3, 1));
	deregister(mr);
}

static void test_a_region_can_be_addressed_otherwise(void **state)
{
	uint64_t iova = UINT64_C(0x7000000000000000) + 16;
	struct ur_mr *mr = ur_mr_register(core.pd, memory + 16, 100, iova, 0);

	(void)state;
	assert_non_null(mr);
	assert_ptr_equal(resolve_local(mr, iova + 4, 96), memory + 20);
	assert_null(resolve_local(mr, iova + 5, 96));
	assert_null(resolve_local(mr, (uintptr_t)memory + 16, 1));
	assert_ptr_equal(mr->verbs.addr, memory + 16);
	deregister(mr);
}

static void test_an_address_that_page_tables_cannot_have_is_refused(void **state)
{
	(void)state;
	errno = 0;
	assert_null(ur_mr_register(core.pd, memory + 16, 100, 0x10000, 0));
	assert_int_equal(errno, EINVAL);
	errno = 0;
	assert_null(ur_mr_register(core.pd, memory, PAGE, UINT64_MAX - PAGE + 1, 0));
	assert_int_equal(errno, EINVAL);
}

/* ---- Registering again ---- */

static void test_location_access_and_domain_are_changed_as_named(void **state)
{
	struct ur_mr *mr = register_some(8, IBV_ACCESS_REMOTE_READ);
	struct ur_pd *other = ur_pd_alloc(core.context);
	uint32_t key = mr->verbs.lkey;
	uint64_t moved = (uintptr_t)memory + BEHIND * PAGE;

	(void)state;
	assert_int_equal(ur_mr_reregister(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL,
					  memory + BEHIND * PAGE, 100, 0),
			 0);
	assert_ptr_equal(mr->verbs.addr, memory + BEHIND * PAGE);
	assert_int_equal(mr->verbs.length, 100);
	assert_non_null(resolve(key, moved, 100, IBV_ACCESS_REMOTE_READ));
	assert_null(resolve_local(mr, (uintptr_t)memory, 8));

	assert_int_equal(ur_mr_reregister(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
					  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING),
			 0);
	assert_null(resolve(key, moved, 100, IBV_ACCESS_REMOTE_READ));
	assert_non_null(resolve(key, moved, 100, IBV_ACCESS_LOCAL_WRITE));

	assert_int_equal(ur_mr_reregister(mr, IBV_REREG_MR_CHANGE_PD, other, NULL, 0, 0), 0);
	assert_ptr_equal(mr->verbs.pd, &other->verbs);
	assert_null(resolve_local(mr, moved, 100));
	assert_int_equal(ur_pd_dealloc(other), EBUSY);
	assert_int_equal(core.pd->objects, 0);

	assert_int_equal(ur_mr_reregister(mr, IBV_REREG_MR_FLAGS_SUPPORTED, core.pd, memory + 1, 9,
					  IBV_ACCESS_ZERO_BASED),
			 0);
	assert_ptr_equal(resolve_local(mr, 0, 9), memory + 1);
	assert_int_equal(ur_pd_dealloc(other), 0);
	deregister(mr);
}

static void test_a_region_stays_as_it_was_if_it_cannot_be_changed(void **state)
{
	struct ur_context *context = ur_context_open(&core.device);
	struct ur_pd *foreign = ur_pd_alloc(context);
	struct ur_mr *mr = try_to_register(READABLE, 8, IBV_ACCESS_REMOTE_READ);
	const struct ur_mr before = *mr;
	const struct {
		int flags;
		struct ur_pd *pd;
		char *addr;
		size_t length;
		unsigned access;
		int error;
	} changes[] = {
		{ 0, NULL, NULL, 0, 0, EINVAL },
		{ 1 << 3, NULL, NULL, 0, 0, EINVAL },
		{ IBV_REREG_MR_CHANGE_PD, NULL, NULL, 0, 0, EINVAL },
		{ IBV_REREG_MR_CHANGE_PD, foreign, NULL, 0, 0, EINVAL },
		{ IBV_REREG_MR_CHANGE_PD, core.pd, NULL, 0, IBV_ACCESS_LOCAL_WRITE, EINVAL },
		{ IBV_REREG_MR_CHANGE_TRANSLATION, NULL, memory, 0, 0, EINVAL },
		{ IBV_REREG_MR_CHANGE_TRANSLATION, NULL, NULL, 8, 0, EFAULT },
		{ IBV_REREG_MR_CHANGE_TRANSLATION, NULL, memory, 3 * PAGE, 0, EFAULT },
		{ IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_LOCAL_WRITE, EFAULT },
		{ IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_REMOTE_WRITE, EINVAL },
		{ IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_ON_DEMAND, EOPNOTSUPP },
		{ IBV_REREG_MR_FLAGS_SUPPORTED, foreign, memory, 8, 0, EINVAL },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
		errno = 0;
		assert_int_equal(ur_mr_reregister(mr, changes[i].flags, changes[i].pd,
						  changes[i].addr, changes[i].length,
						  changes[i].access),
				 IBV_REREG_MR_ERR_INPUT);
		assert_int_equal(errno, changes[i].error);
		assert_memory_equal(mr, &before, sizeof(before));
		assert_int_equal(core.pd->objects, 1);
	}
	deregister(mr);
	assert_int_equal(ur_pd_dealloc(foreign), 0);
	assert_int_equal(ur_context_close(context), 0);
}

#define mr_test(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		mr_test(test_a_region_holds_its_range_and_nothing_beyond),
		mr_test(test_remote_access_is_what_was_permitted),
		mr_test(test_local_writing_needs_permission_and_reading_does_not),
		mr_test(test_a_region_belongs_to_its_protection_domain),
		mr_test(test_keys_that_nobody_has_are_not_found),
		mr_test(test_a_key_is_not_given_again_soon),
		mr_test(test_there_can_be_a_hundred_thousand_regions),
		mr_test(test_impossible_regions_are_refused),
		mr_test(test_optional_flags_are_ignored),
		mr_test(test_memory_must_be_there),
		mr_test(test_memory_must_be_there_on_old_systems),
		mr_test(test_memory_must_be_writable_where_it_shall_be_written),
		mr_test(test_nothing_is_left_of_a_refused_region),
		mr_test(test_a_zero_based_region_begins_at_zero),
		mr_test(test_a_region_can_be_addressed_otherwise),
		mr_test(test_an_address_that_page_tables_cannot_have_is_refused),
		mr_test(test_location_access_and_domain_are_changed_as_named),
		mr_test(test_a_region_stays_as_it_was_if_it_cannot_be_changed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
