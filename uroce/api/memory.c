/*
 * Protection domains, memory regions and memory windows.
 */
#include "../core/mr.h"
#include "../core/mw.h"
#include "../core/pd.h"
#include "../core/qp.h"
#include "api.h"
#include "operations.h"

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

UR_EXPORT struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	struct ur_pd *pd;

	if (!ur_has_ours(context))
		return UR_FORWARD(NULL, ibv_alloc_pd, context);
	pd = ur_pd_alloc(ur_context_of(context));
	return pd ? &pd->verbs : NULL;
}

UR_EXPORT int ibv_dealloc_pd(struct ibv_pd *pd)
{
	if (!ur_has_ours(pd->context))
		return UR_FORWARD(ENOSYS, ibv_dealloc_pd, pd);
	return ur_pd_dealloc((struct ur_pd *)pd);
}

UR_EXPORT struct ibv_pd *ibv_import_pd(struct ibv_context *context, uint32_t handle)
{
	struct ur_pd *pd;

	if (!ur_has_ours(context))
		return UR_FORWARD(NULL, ibv_import_pd, context, handle);
	pd = ur_pd_import(ur_context_of(context), handle);
	return pd ? &pd->verbs : NULL;
}

UR_EXPORT void ibv_unimport_pd(struct ibv_pd *pd)
{
	if (!ur_has_ours(pd->context))
		UR_FORWARD_VOID(ibv_unimport_pd, pd);
	else if (((struct ur_pd *)pd)->imported)
		ur_pd_dealloc((struct ur_pd *)pd);
}

struct ibv_td *ur_alloc_td(struct ibv_context *context, struct ibv_td_init_attr *attr)
{
	struct ur_td *td = ur_td_alloc(ur_context_of(context), attr);

	return td ? &td->verbs : NULL;
}

int ur_dealloc_td(struct ibv_td *td)
{
	return ur_td_dealloc((struct ur_td *)td);
}

struct ibv_pd *ur_alloc_parent_domain(struct ibv_context *context,
				      struct ibv_parent_domain_init_attr *attr)
{
	struct ur_pd *pd = ur_parent_domain_alloc(ur_context_of(context), attr);

	return pd ? &pd->verbs : NULL;
}

static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
			     unsigned access)
{
	struct ur_mr *mr = ur_mr_register((struct ur_pd *)pd, addr, length, iova, access);

	return mr ? &mr->verbs : NULL;
}

/* An address that no byte can have must not be taken for none. */
static struct ibv_mr *reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				  unsigned access)
{
	if (iova != UR_NO_IOVA)
		return reg_mr(pd, addr, length, iova, access);
	errno = EINVAL;
	return NULL;
}

UR_EXPORT struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	if (!ur_has_ours(pd->context))
		return UR_FORWARD(NULL, ibv_reg_mr, pd, addr, length, access);
	return reg_mr(pd, addr, length, UR_NO_IOVA, (unsigned)access);
}

UR_EXPORT struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length,
					 uint64_t iova, int access)
{
	if (!ur_has_ours(pd->context))
		return UR_FORWARD(NULL, ibv_reg_mr_iova, pd, addr, length, iova, access);
	return reg_mr_iova(pd, addr, length, iova, (unsigned)access);
}

UR_EXPORT struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length,
					  uint64_t iova, unsigned access)
{
	if (!ur_has_ours(pd->context))
		return UR_FORWARD(NULL, ibv_reg_mr_iova2, pd, addr, length, iova, access);
	return reg_mr_iova(pd, addr, length, iova, access);
}

UR_EXPORT int ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr,
			   size_t length, int access)
{
	if (!ur_has_ours(mr->context))
		return UR_FORWARD(IBV_REREG_MR_ERR_INPUT, ibv_rereg_mr, mr, flags, pd, addr, length,
				  access);
	return ur_mr_reregister((struct ur_mr *)mr, flags, (struct ur_pd *)pd, addr, length,
				(unsigned)access);
}

UR_EXPORT int ibv_dereg_mr(struct ibv_mr *mr)
{
	if (!ur_has_ours(mr->context))
		return UR_FORWARD(ENOSYS, ibv_dereg_mr, mr);
	return ur_mr_deregister((struct ur_mr *)mr);
}

UR_EXPORT struct ibv_mr *ibv_import_mr(struct ibv_pd *pd, uint32_t handle)
{
	struct ur_mr *mr;

	if (!ur_has_ours(pd->context))
		return UR_FORWARD(NULL, ibv_import_mr, pd, handle);
	mr = ur_mr_import((struct ur_pd *)pd, handle);
	return mr ? &mr->verbs : NULL;
}

UR_EXPORT void ibv_unimport_mr(struct ibv_mr *mr)
{
	if (!ur_has_ours(mr->context))
		UR_FORWARD_VOID(ibv_unimport_mr, mr);
	else
		ur_mr_unimport((struct ur_mr *)mr);
}

/* ---- Windows ---- */

struct ibv_mw *ur_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	struct ur_mw *mw = ur_mw_alloc((struct ur_pd *)pd, type);

	return mw ? &mw->verbs : NULL;
}

int ur_dealloc_mw(struct ibv_mw *mw)
{
	return ur_mw_dealloc((struct ur_mw *)mw);
}

/* The program has the new key at once, to send it behind the bind. */
int ur_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
	struct ibv_send_wr wr = {
		.wr_id = bind->wr_id,
		.opcode = IBV_WR_BIND_MW,
		.send_flags = bind->send_flags,
		.bind_mw = { .mw = mw,
			     .rkey = ur_mw_next_key(mw->rkey),
			     .bind_info = bind->bind_info },
	};
	struct ibv_send_wr *bad_wr;
	int error = ur_qp_post_send(qp, &wr, &bad_wr);

	if (!error)
		mw->rkey = wr.bind_mw.rkey;
	return error;
}
