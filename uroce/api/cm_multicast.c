/*
 * Multicast groups of ids.
 */
#include "../cm/multicast.h"

#include "cm.h"

static int join(struct ur_cm_id *id, const struct sockaddr *addr, uint32_t flag, void *context)
{
	union ur_sockaddr address;

	if (!id || !ur_id_read_address(addr, &address) || flag >= RDMA_MC_JOIN_FLAG_RESERVED)
		return EINVAL;
	return ur_id_join(id, &address, flag == RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER, context);
}

static int join_and_wait(struct rdma_cm_id *id, const struct sockaddr *addr, uint32_t flag,
			 void *context)
{
	int error = join(ur_id_of(id), addr, flag, context);

	return error ? ur_cm_result(error) : ur_cm_complete(ur_id_of(id));
}

UR_EXPORT int rdma_join_multicast(struct rdma_cm_id *id, struct sockaddr *addr, void *context)
{
	if (!ur_cm_is_ours())
		return UR_FORWARD(-1, rdma_join_multicast, id, addr, context);
	return join_and_wait(id, addr, RDMA_MC_JOIN_FLAG_FULLMEMBER, context);
}

UR_EXPORT int rdma_join_multicast_ex(struct rdma_cm_id *id, struct rdma_cm_join_mc_attr_ex *attr,
				     void *context)
{
	const uint32_t needed = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS;

	if (!ur_cm_is_ours())
		return UR_FORWARD(-1, rdma_join_multicast_ex, id, attr, context);
	if (!attr || (attr->comp_mask & needed) != needed)
		return ur_cm_result(EINVAL);
	if (attr->comp_mask & ~needed)
		return ur_cm_result(ENOTSUP);
	return join_and_wait(id, attr->addr, attr->join_flags, context);
}

static int leave(struct rdma_cm_id *id, const struct sockaddr *addr)
{
	union ur_sockaddr address;

	if (!id || !ur_id_read_address(addr, &address))
		return EINVAL;
	/* It may be of this group, and to leave waits for it. */
	if (ur_id_is_synchronous(ur_id_of(id)))
		ur_cm_forget_event(id);
	return ur_id_leave(ur_id_of(id), &address);
}

UR_EXPORT int rdma_leave_multicast(struct rdma_cm_id *id, struct sockaddr *addr)
{
	if (!ur_cm_is_ours())
		return UR_FORWARD(-1, rdma_leave_multicast, id, addr);
	return ur_cm_result(leave(id, addr));
}
