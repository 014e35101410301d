/*
 * From the address of a peer to the way there.
 */
#include "../link/address.h"
#include "cm.h"

/* Status: 0 or a negative errno. */
static int post(struct ur_cm_id *id, enum rdma_cm_event_type type, int status)
{
	struct ur_event *event = ur_event_create(type);

	if (!event)
		return ENOMEM;
	event->verbs.id = &id->verbs;
	event->verbs.status = status;
	ur_id_post(id, event);
	return 0;
}

/* ---- Addresses ---- */

/* One that is bound keeps its address, whatever source the program names. */
static int bind_source(struct ur_cm_id *id, struct sockaddr *src, sa_family_t family)
{
	union ur_sockaddr source = { .any.sa_family = family };

	if (src && !ur_id_read_address(src, &source))
		return EINVAL;
	if (id->state != UR_ID_IDLE)
		return 0;
	return ur_id_bind(id, &source);
}

/* That no device of ours is on the way is an event, as what takes longer to find out elsewhere. */
static int take_route(struct ur_cm_id *id, const union ur_sockaddr *dest)
{
	const union ur_sockaddr source = ur_id_source(id);
	struct ur_cm_route route;
	int error = ur_cm_route(&source, dest, &route);

	if (error == ENODEV)
		return post(id, RDMA_CM_EVENT_ADDR_ERROR, -error);
	if (!error)
		error = ur_id_set_route(id, &route);
	if (error)
		return error;
	id->state = UR_ID_ADDR_RESOLVED;
	return post(id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
}

static int resolve_addr(struct ur_cm_id *id, struct sockaddr *src, struct sockaddr *dst)
{
	union ur_sockaddr dest;
	int error;

	if (!id || !ur_id_read_address(dst, &dest))
		return EINVAL;
	error = bind_source(id, src, dest.any.sa_family);
	if (error)
		return error;
	return id->state == UR_ID_BOUND ? take_route(id, &dest) : EINVAL;
}

UR_EXPORT int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *src_addr,
				struct sockaddr *dst_addr, int timeout_ms)
{
	int error;

	if (!ur_cm_is_ours())
		return UR_FORWARD(-1, rdma_resolve_addr, id, src_addr, dst_addr, timeout_ms);
	error = resolve_addr(ur_id_of(id), src_addr, dst_addr);
	return error ? ur_cm_result(error) : ur_cm_complete(ur_id_of(id));
}

/* ---- Routes ---- */

static int resolve_route(struct ur_cm_id *id)
{
	int error;

	if (!id || !ur_id_advance(id, UR_ID_ADDR_RESOLVED, UR_ID_ROUTE_RESOLVED))
		return EINVAL;
	error = ur_id_set_path_record(id);
	if (!error)
		error = post(id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	return error;
}

UR_EXPORT int rdma_resolve_route(struct rdma_cm_id *id, int timeout_ms)
{
	int error;

	if (!ur_cm_is_ours())
		return UR_FORWARD(-1, rdma_resolve_route, id, timeout_ms);
	error = resolve_route(ur_id_of(id));
	return error ? ur_cm_result(error) : ur_cm_complete(ur_id_of(id));
}
