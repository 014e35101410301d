/*
 * Stands behind liburoce as the real librdmacm: notes which of its functions was called.
 */
#include "other_cm.h"

#include <rdma/rdma_verbs.h>
#include <rdma/rsocket.h>

static const char *called = "";

const char *other_cm_called(void)
{
	const char *name = called;

	called = "";
	return name;
}

#define OTHER(type, name, ...)  \
	type name(__VA_ARGS__)  \
	{                       \
		called = #name; \
		return (type)0; \
	}

#define OTHER_VOID(name, ...)   \
	void name(__VA_ARGS__)  \
	{                       \
		called = #name; \
	}

#pragma GCC diagnostic ignored "-Wunused-parameter"

#define ID      struct rdma_cm_id *id
#define CHANNEL struct rdma_event_channel *channel

OTHER(struct rdma_event_channel *, rdma_create_event_channel, void)
OTHER_VOID(rdma_destroy_event_channel, CHANNEL)
OTHER(int, rdma_get_cm_event, CHANNEL, struct rdma_cm_event **event)
OTHER(int, rdma_ack_cm_event, struct rdma_cm_event *event)
OTHER(int, rdma_create_id, CHANNEL, struct rdma_cm_id **id, void *context, enum rdma_port_space ps)
OTHER(int, rdma_create_ep, struct rdma_cm_id **id, struct rdma_addrinfo *res, struct ibv_pd *pd,
      struct ibv_qp_init_attr *attr)
OTHER_VOID(rdma_destroy_ep, ID)
OTHER(int, rdma_destroy_id, ID)
OTHER(int, rdma_migrate_id, ID, CHANNEL)
OTHER(int, rdma_bind_addr, ID, struct sockaddr *addr)
OTHER(int, rdma_resolve_addr, ID, struct sockaddr *src, struct sockaddr *dst, int timeout)
OTHER(int, rdma_resolve_route, ID, int timeout)
OTHER(int, rdma_create_qp, ID, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
OTHER(int, rdma_create_qp_ex, ID, struct ibv_qp_init_attr_ex *attr)
OTHER_VOID(rdma_destroy_qp, ID)
OTHER(int, rdma_create_srq, ID, struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
OTHER(int, rdma_create_srq_ex, ID, struct ibv_srq_init_attr_ex *attr)
OTHER_VOID(rdma_destroy_srq, ID)
OTHER(int, rdma_init_qp_attr, ID, struct ibv_qp_attr *attr, int *mask)
OTHER(int, rdma_connect, ID, struct rdma_conn_param *param)
OTHER(int, rdma_establish, ID)
OTHER(int, rdma_listen, ID, int backlog)
OTHER(int, rdma_get_request, ID, struct rdma_cm_id **request)
OTHER(int, rdma_accept, ID, struct rdma_conn_param *param)
OTHER(int, rdma_reject, ID, const void *data, uint8_t length)
OTHER(int, rdma_reject_ece, ID, const void *data, uint8_t length)
OTHER(int, rdma_notify, ID, enum ibv_event_type event)
OTHER(int, rdma_disconnect, ID)
OTHER(int, rdma_join_multicast, ID, struct sockaddr *addr, void *context)
OTHER(int, rdma_join_multicast_ex, ID, struct rdma_cm_join_mc_attr_ex *attr, void *context)
OTHER(int, rdma_leave_multicast, ID, struct sockaddr *addr)
OTHER(int, rdma_set_option, ID, int level, int name, void *value, size_t length)
OTHER(int, rdma_set_local_ece, ID, struct ibv_ece *ece)
OTHER(int, rdma_get_remote_ece, ID, struct ibv_ece *ece)
OTHER(__be16, rdma_get_src_port, ID)
OTHER(__be16, rdma_get_dst_port, ID)
OTHER(struct ibv_context **, rdma_get_devices, int *count)
OTHER_VOID(rdma_free_devices, struct ibv_context **list)
OTHER(int, rdma_getaddrinfo, const char *node, const char *service,
      const struct rdma_addrinfo *hints, struct rdma_addrinfo **res)
OTHER_VOID(rdma_freeaddrinfo, struct rdma_addrinfo *res)
OTHER(int, rsocket, int domain, int type, int protocol)
