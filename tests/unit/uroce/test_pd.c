/*
 * Protection domains, and what stands for one.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../../../uroce/core/ah.h"
#include "../../../uroce/core/cq.h"
#include "../../../uroce/core/mw.h"
#include "../../../uroce/core/srq.h"
#include "core_surroundings.h"

/* What an allocator was asked for, and what it does. */
static struct {
	enum { GIVES, GIVES_NONE, LEAVES_IT } behaviour;
	unsigned allocations;
	unsigned frees;
	struct ibv_pd *pd;
	void *pd_context;
	uint64_t allocated_type;
	uint64_t freed_type;
} program;

static char memory[4096];

static void *allocate(struct ibv_pd *pd, void *pd_context, size_t size, size_t alignment,
		      uint64_t resource_type)
{
	void *made;

	program.pd = pd;
	program.pd_context = pd_context;
	program.allocated_type = resource_type;
	if (program.behaviour == GIVES_NONE)
		return NULL;
	if (program.behaviour == LEAVES_IT)
		return IBV_ALLOCATOR_USE_DEFAULT;
	assert_true(size > 0);
	made = aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
	memset(made, 0xee, size);
	program.allocations++;
	return made;
}

static void release(struct ibv_pd *pd, void *pd_context, void *made, uint64_t resource_type)
{
	assert_ptr_equal(pd, program.pd);
	assert_ptr_equal(pd_context, program.pd_context);
	assert_non_null(made);
	program.freed_type = resource_type;
	program.frees++;
	free(made);
}

static struct ibv_parent_domain_init_attr with_allocators(void)
{
	return (struct ibv_parent_domain_init_attr){
		.pd = &core.pd->verbs,
		.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
			     IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT,
		.alloc = allocate,
		.free = release,
		.pd_context = &program,
	};
}

static struct ur_pd *create_parent(void)
{
	struct ibv_parent_domain_init_attr attr = with_allocators();
	struct ur_pd *parent = ur_parent_domain_alloc(core.context, &attr);

	assert_non_null(parent);
	return parent;
}

static struct ur_srq *create_srq(struct ur_pd *pd)
{
	return ur_srq_create(pd, NULL, &(struct ibv_srq_attr){ .max_wr = 4, .max_sge = 2 });
}

static int set_up(void **state)
{
	memset(&program, 0, sizeof(program));
	return core_set_up(state);
}

/* ---- Handles ---- */

static void test_each_domain_has_a_number_of_its_own(void **state)
{
	struct ur_pd *other = ur_pd_alloc(core.context);

	(void)state;
	assert_int_not_equal(core.pd->verbs.handle, other->verbs.handle);
	assert_int_equal(ur_pd_dealloc(other), 0);
}

static void test_a_domain_is_imported_by_its_number(void **state)
{
	struct ur_context *context = ur_context_open(&core.device);
	struct ur_pd *imported = ur_pd_import(context, core.pd->verbs.handle);
	struct ur_srq *srq;

	(void)state;
	assert_non_null(imported);
	assert_ptr_equal(imported->verbs.context, &context->verbs.context);
	assert_int_equal(imported->verbs.handle, core.pd->verbs.handle);
	assert_int_equal(ur_pd_dealloc(core.pd), EBUSY);
	assert_int_equal(ur_context_close(context), EBUSY);

	/* What is made with it outlives it. */
	srq = create_srq(imported);
	assert_ptr_equal(srq->pd, core.pd);
	assert_int_equal(ur_pd_dealloc(imported), 0);
	assert_int_equal(ur_pd_dealloc(core.pd), EBUSY);
	assert_int_equal(ur_srq_destroy(srq), 0);
	assert_int_equal(core.pd->objects, 0);
	assert_int_equal(ur_context_close(context), 0);
}

static void test_a_number_that_no_domain_has_is_not_imported(void **state)
{
	struct ur_pd *other = ur_pd_alloc(core.context);
	uint32_t handle = other->verbs.handle;

	(void)state;
	assert_int_equal(ur_pd_dealloc(other), 0);
	errno = 0;
	assert_null(ur_pd_import(core.context, handle));
	assert_int_equal(errno, EINVAL);
}

/* ---- Parent domains ---- */

static void test_a_parent_domain_protects_as_the_one_behind_it(void **state)
{
	struct ur_pd *parent = create_parent();
	struct ur_pd *grandparent = ur_parent_domain_alloc(
		core.context, &(struct ibv_parent_domain_init_attr){ .pd = &parent->verbs });
	struct ur_mr *mr = ur_mr_register(parent, memory, 8, UR_NO_IOVA, IBV_ACCESS_LOCAL_WRITE);
	struct ur_mw *mw = ur_mw_alloc(grandparent, IBV_MW_TYPE_1);

	(void)state;
	assert_ptr_equal(mr->verbs.pd, &parent->verbs);
	assert_ptr_equal(mr->pd, core.pd);
	assert_ptr_equal(mw->verbs.pd, &grandparent->verbs);
	assert_ptr_equal(mw->pd, core.pd);
	assert_int_equal(parent->verbs.handle, core.pd->verbs.handle);
	pthread_mutex_lock(&core.device.lock);
	assert_ptr_equal(ur_mr_resolve(&core.device, core.pd, mr->verbs.lkey, (uintptr_t)memory, 8,
				       IBV_ACCESS_LOCAL_WRITE),
			 memory);
	pthread_mutex_unlock(&core.device.lock);
	assert_int_equal(ur_mr_reregister(mr, IBV_REREG_MR_CHANGE_PD, grandparent, NULL, 0, 0), 0);
	assert_ptr_equal(mr->pd, core.pd);
	assert_int_equal(ur_pd_dealloc(core.pd), EBUSY);
	assert_int_equal(ur_mw_dealloc(mw), 0);
	assert_int_equal(ur_mr_deregister(mr), 0);
	assert_int_equal(ur_pd_dealloc(core.pd), EBUSY);
	assert_int_equal(ur_pd_dealloc(parent), 0);
	assert_int_equal(ur_pd_dealloc(grandparent), 0);
	assert_int_equal(core.pd->objects, 0);
}

static void test_impossible_parent_domains_are_refused(void **state)
{
	struct ur_context *context = ur_context_open(&core.device);
	struct ur_pd *foreign = ur_pd_alloc(context);
	struct ur_td *foreign_td = ur_td_alloc(context, &(struct ibv_td_init_attr){ 0 });
	struct ibv_parent_domain_init_attr attrs[6];
	static const int errors[6] = { EINVAL, EINVAL, EINVAL, EINVAL, EINVAL, EOPNOTSUPP };

	(void)state;
	for (unsigned i = 0; i < 6; i++)
		attrs[i] = with_allocators();
	attrs[0].pd = NULL;
	attrs[1].pd = &foreign->verbs;
	attrs[2].td = &foreign_td->verbs;
	attrs[3].alloc = NULL;
	attrs[4].free = NULL;
	attrs[5].comp_mask |= 4;
	for (unsigned i = 0; i < 6; i++) {
		errno = 0;
		assert_null(ur_parent_domain_alloc(core.context, &attrs[i]));
		assert_int_equal(errno, errors[i]);
	}
	errno = 0;
	assert_null(ur_td_alloc(context, &(struct ibv_td_init_attr){ .comp_mask = 1 }));
	assert_int_equal(errno, EOPNOTSUPP);
	assert_int_equal(ur_td_dealloc(foreign_td), 0);
	assert_int_equal(ur_pd_dealloc(foreign), 0);
	assert_int_equal(ur_context_close(context), 0);
}

static void test_a_thread_domain_stays_while_a_parent_domain_is_left(void **state)
{
	struct ur_td *td = ur_td_alloc(core.context, &(struct ibv_td_init_attr){ 0 });
	struct ur_pd *parent = ur_parent_domain_alloc(
		core.context,
		&(struct ibv_parent_domain_init_attr){ .pd = &core.pd->verbs, .td = &td->verbs });

	(void)state;
	assert_ptr_equal(td->verbs.context, &core.context->verbs.context);
	assert_int_equal(ur_td_dealloc(td), EBUSY);
	assert_int_equal(ur_pd_dealloc(parent), 0);
	assert_int_equal(ur_td_dealloc(td), 0);
}

/* ---- Memory from the program ---- */

static void test_queues_get_their_memory_from_the_program(void **state)
{
	struct ur_pd *parent = create_parent();
	struct ur_srq *srq = create_srq(parent);
	struct ibv_recv_wr wr = { .wr_id = 7 }, *bad;

	(void)state;
	assert_int_equal(program.allocations, 1);
	assert_ptr_equal(program.pd, &parent->verbs);
	assert_ptr_equal(program.pd_context, &program);
	assert_int_equal(program.allocated_type, UR_BLOCK_SRQ);
	assert_int_equal(srq->queue.wr_ids[0], 0);
	assert_int_equal(ur_srq_post(&srq->verbs, &wr, &bad), 0);
	assert_int_equal(ur_srq_modify(srq, &(struct ibv_srq_attr){ .max_wr = 8 }, IBV_SRQ_MAX_WR),
			 0);
	assert_int_equal(program.allocations, 2);
	assert_int_equal(program.frees, 1);
	assert_int_equal(srq->queue.count, 1);
	assert_int_equal(ur_pd_dealloc(parent), EBUSY);
	assert_int_equal(ur_srq_destroy(srq), 0);
	assert_int_equal(program.frees, 2);
	assert_int_equal(program.freed_type, UR_BLOCK_SRQ);
	assert_int_equal(ur_pd_dealloc(parent), 0);
}

static void test_a_completion_queue_can_have_a_parent_domain(void **state)
{
	struct ur_pd *parent = create_parent();
	struct ibv_cq_init_attr_ex attr = { .cqe = 4,
					    .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD,
					    .parent_domain = &parent->verbs };
	struct ur_cq *cq = ur_cq_create(core.context, 4, NULL, NULL, 0, &attr);

	(void)state;
	assert_non_null(cq);
	assert_int_equal(program.allocations, 1);
	assert_int_equal(program.allocated_type, UR_BLOCK_CQ);
	ur_cq_push(cq, &(struct ibv_wc){ .wr_id = 3 }, false);
	assert_int_equal(ur_cq_resize(cq, 16), 0);
	assert_int_equal(program.allocations, 2);
	assert_int_equal(program.frees, 1);
	assert_int_equal(cq->count, 1);
	assert_int_equal(ur_pd_dealloc(parent), EBUSY);
	assert_int_equal(ur_cq_destroy(cq), 0);
	assert_int_equal(program.frees, 2);
	assert_int_equal(ur_pd_dealloc(parent), 0);

	attr.parent_domain = NULL;
	errno = 0;
	assert_null(ur_cq_create(core.context, 4, NULL, NULL, 0, &attr));
	assert_int_equal(errno, EINVAL);
}

static void test_an_allocator_can_leave_it_or_have_none(void **state)
{
	struct ur_pd *parent = create_parent();
	struct ur_srq *srq;

	(void)state;
	program.behaviour = LEAVES_IT;
	srq = create_srq(parent);
	assert_non_null(srq);
	assert_int_equal(ur_srq_destroy(srq), 0);
	assert_int_equal(program.frees, 0);
	program.behaviour = GIVES_NONE;
	errno = 0;
	assert_null(create_srq(parent));
	assert_int_equal(errno, ENOMEM);
	assert_int_equal(program.frees, 0);
	assert_int_equal(ur_pd_dealloc(parent), 0);
}

#define pd_test(name) cmocka_unit_test_setup_teardown(name, set_up, core_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		pd_test(test_each_domain_has_a_number_of_its_own),
		pd_test(test_a_domain_is_imported_by_its_number),
		pd_test(test_a_number_that_no_domain_has_is_not_imported),
		pd_test(test_a_parent_domain_protects_as_the_one_behind_it),
		pd_test(test_impossible_parent_domains_are_refused),
		pd_test(test_a_thread_domain_stays_while_a_parent_domain_is_left),
		pd_test(test_queues_get_their_memory_from_the_program),
		pd_test(test_a_completion_queue_can_have_a_parent_domain),
		pd_test(test_an_allocator_can_leave_it_or_have_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
