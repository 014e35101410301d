/*
 * What a uroce device does not have. The real library must not see its objects, so these are here
 * as well.
 */
#include "api.h"

static int refuse(void)
{
	errno = EOPNOTSUPP;
	return EOPNOTSUPP;
}

static void *refuse_object(void)
{
	errno = EOPNOTSUPP;
	return NULL;
}

UR_EXPORT struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length,
					   uint64_t iova, int fd, int access)
{
	if (!ur_has_ours(pd->context))
		return UR_FORWARD(NULL, ibv_reg_dmabuf_mr, pd, offset, length, iova, fd, access);
	return refuse_object();
}

UR_EXPORT struct ibv_dm *ibv_import_dm(struct ibv_context *context, uint32_t handle)
{
	if (!ur_has_ours(context))
		return UR_FORWARD(NULL, ibv_import_dm, context, handle);
	return refuse_object();
}

UR_EXPORT void ibv_unimport_dm(struct ibv_dm *dm)
{
	if (!ur_has_ours(dm->context))
		UR_FORWARD_VOID(ibv_unimport_dm, dm);
}

UR_EXPORT int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	if (!ur_has_ours(qp->context))
		return UR_FORWARD(ENOSYS, ibv_query_ece, qp, ece);
	return refuse();
}

UR_EXPORT int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	if (!ur_has_ours(qp->context))
		return UR_FORWARD(ENOSYS, ibv_set_ece, qp, ece);
	return refuse();
}

UR_EXPORT int ibv_resolve_eth_l2_from_gid(struct ibv_context *context, struct ibv_ah_attr *attr,
					  uint8_t mac[ETHERNET_LL_SIZE], uint16_t *vid)
{
	if (!ur_has_ours(context))
		return UR_FORWARD(ENOSYS, ibv_resolve_eth_l2_from_gid, context, attr, mac, vid);
	return refuse();
}
