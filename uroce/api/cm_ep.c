/*
 * Endpoints: ids that come with all that stands in the result of rdma_getaddrinfo.
 */
#include <stdlib.h>
#include <string.h>

#include "cm.h"

/* What programs without a channel wait at most; nothing here takes as long. */
#define TIMEOUT_MS 2000

/* Its queue pairs are made like this one; NULL: the program makes them. */
static int set_qp_init_attr(struct ur_cm_id *id, const struct ibv_qp_init_attr *attr)
{
	if (!attr)
		return 0;
	id->qp_init_attr = malloc(sizeof(*attr));
	if (!id->qp_init_attr)
		return ENOMEM;
	*id->qp_init_attr = *attr;
	id->qp_init_attr->qp_type = id->verbs.qp_type;
	return 0;
}

static int make_passive(struct rdma_cm_id *id, const struct rdma_addrinfo *from, struct ibv_pd *pd,
			const struct ibv_qp_init_attr *attr)
{
	int error = set_qp_init_attr(ur_id_of(id), attr);

	if (error)
		return ur_cm_result(error);
	if (pd)
		id->pd = pd;
	return rdma_bind_addr(id, from->ai_src_addr);
}

static int set_connect_data(struct ur_cm_id *id, const struct rdma_addrinfo *to)
{
	if (to->ai_connect_len == 0)
		return 0;
	if (!to->ai_connect || to->ai_connect_len > sizeof(id->connect_data))
		return EINVAL;
	memcpy(id->connect_data, to->ai_connect, to->ai_connect_len);
	id->connect_length = to->ai_connect_len;
	return 0;
}

static int make_active(struct rdma_cm_id *id, const struct rdma_addrinfo *to, struct ibv_pd *pd,
		       struct ibv_qp_init_attr *attr)
{
	int error = set_connect_data(ur_id_of(id), to);

	if (error)
		return ur_cm_result(error);
	if (rdma_resolve_addr(id, to->ai_src_addr, to->ai_dst_addr, TIMEOUT_MS) != 0 ||
	    rdma_resolve_route(id, TIMEOUT_MS) != 0)
		return -1;
	if (!attr)
		return 0;
	attr->qp_type = id->qp_type;
	return rdma_create_qp(id, pd, attr);
}

static int create_ep(struct rdma_cm_id **id, const struct rdma_addrinfo *res, struct ibv_pd *pd,
		     struct ibv_qp_init_attr *attr)
{
	struct rdma_cm_id *created;
	int error, made;

	if (!res)
		return ur_cm_result(EINVAL);
	error = ur_cm_create_id(NULL, &created, NULL, (enum rdma_port_space)res->ai_port_space,
				(enum ibv_qp_type)res->ai_qp_type);
	if (error)
		return ur_cm_result(error);
	made = res->ai_flags & RAI_PASSIVE ? make_passive(created, res, pd, attr)
					   : make_active(created, res, pd, attr);
	if (made != 0)
		goto err_id;
	*id = created;
	return 0;

err_id:
	error = errno;
	rdma_destroy_ep(created);
	return ur_cm_result(error);
}

UR_EXPORT int rdma_create_ep(struct rdma_cm_id **id, struct rdma_addrinfo *res, struct ibv_pd *pd,
			     struct ibv_qp_init_attr *qp_init_attr)
{
	if (!ur_cm_is_ours())
		return UR_FORWARD(-1, rdma_create_ep, id, res, pd, qp_init_attr);
	return id ? create_ep(id, res, pd, qp_init_attr) : ur_cm_result(EINVAL);
}

UR_EXPORT void rdma_destroy_ep(struct rdma_cm_id *id)
{
	if (!ur_cm_is_ours()) {
		UR_FORWARD_VOID(rdma_destroy_ep, id);
		return;
	}
	rdma_destroy_qp(id);
	rdma_destroy_srq(id);
	rdma_destroy_id(id);
}

/* The queue pair that was asked for with the listener. */
static int create_wanted_qp(const struct ur_cm_id *listener, struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr;

	if (!listener->qp_init_attr)
		return 0;
	attr = *listener->qp_init_attr;
	return rdma_create_qp(id, listener->verbs.pd, &attr);
}

static int get_request(struct ur_cm_id *listener, struct rdma_cm_id **id)
{
	struct ur_event *event;

	ur_cm_forget_event(&listener->verbs);
	event = ur_cm_read_event(listener->events.channel);
	if (!event)
		return -1;
	/* A listener has no others. */
	if (create_wanted_qp(listener, event->verbs.id) != 0) {
		listener->verbs.event = &event->verbs;
		return -1;
	}
	*id = event->verbs.id;
	(*id)->event = &event->verbs;
	return 0;
}

UR_EXPORT int rdma_get_request(struct rdma_cm_id *listen, struct rdma_cm_id **id)
{
	if (!ur_cm_is_ours())
		return UR_FORWARD(-1, rdma_get_request, listen, id);
	if (!listen || !id || !ur_id_is_synchronous(ur_id_of(listen)) ||
	    !ur_id_of(listen)->listener)
		return ur_cm_result(EINVAL);
	return get_request(ur_id_of(listen), id);
}
