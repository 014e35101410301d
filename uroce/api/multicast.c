/*
 * Multicast groups. The local identifier (lid) means nothing on Ethernet.
 */
#include "../core/group.h"
#include "api.h"

UR_EXPORT int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	if (!ur_has_ours(qp->context))
		return UR_FORWARD(ENOSYS, ibv_attach_mcast, qp, gid, lid);
	return ur_group_attach((struct ur_qp *)qp, gid);
}

UR_EXPORT int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	if (!ur_has_ours(qp->context))
		return UR_FORWARD(ENOSYS, ibv_detach_mcast, qp, gid, lid);
	return ur_group_detach((struct ur_qp *)qp, gid);
}
