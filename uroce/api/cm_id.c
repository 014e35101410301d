/*
 * Ids of the connection manager: their life, addresses and options.
 */
#include <stdlib.h>
#include <string.h>

#include "../cm/shared_context.h"
#include "../link/address.h"
#include "cm.h"

/* ---- Life ---- */

/* Only one port space has extended connections. */
static bool has_type(enum rdma_port_space port_space, enum ibv_qp_type type)
{
	bool is_extended = type == IBV_QPT_XRC_SEND || type == IBV_QPT_XRC_RECV;

	return type == IBV_QPT_RC || type == IBV_QPT_UD ||
	       (is_extended && port_space == RDMA_PS_IB);
}

int ur_cm_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
		    enum rdma_port_space port_space, enum ibv_qp_type qp_type)
{
	struct ur_cm_id *created;

	if (!id || (port_space != RDMA_PS_TCP && port_space != RDMA_PS_UDP &&
		    port_space != RDMA_PS_IB && port_space != RDMA_PS_IPOIB))
		return EINVAL;
	if (port_space == RDMA_PS_IPOIB || !has_type(port_space, qp_type))
		return EOPNOTSUPP;
	created = ur_id_create((struct ur_event_channel *)channel, context, port_space, qp_type);
	if (!created)
		return errno;
	*id = &created->verbs;
	return 0;
}

UR_EXPORT int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id,
			     void *context, enum rdma_port_space ps)
{
	if (!ur_cm_is_ours())
		return UR_FORWARD(-1, rdma_create_id, channel, id, context, ps);
	return ur_cm_result(ur_cm_create_id(channel, id, context, ps,
					    ps == RDMA_PS_UDP ? IBV_QPT_UD : IBV_QPT_RC));
}

UR_EXPORT int rdma_destroy_id(struct rdma_cm_id *id)
{
	if (!ur_cm_is_ours())
		return UR_FORWARD(-1, rdma_destroy_id, id);
	if (!id)
		return ur_cm_result(EINVAL);
	ur_id_destroy(ur_id_of(id));
	return 0;
}

/* A synchronous id cannot become one again. */
UR_EXPORT int rdma_migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *channel)
{
	if (!ur_cm_is_ours())
		return UR_FORWARD(-1, rdma_migrate_id, id, channel);
	if (!id || (!channel && ur_id_is_synchronous(ur_id_of(id))))
		return ur_cm_result(EINVAL);
	ur_cm_forget_event(id);
	return ur_cm_result(ur_id_move(ur_id_of(id), (struct ur_event_channel *)channel));
}

/* ---- Addresses ---- */

UR_EXPORT int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr)
{
	union ur_sockaddr address;

	if (!ur_cm_is_ours())
		return UR_FORWARD(-1, rdma_bind_addr, id, addr);
	if (!id || !ur_id_read_address(addr, &address))
		return ur_cm_result(EINVAL);
	return ur_cm_result(ur_id_bind(ur_id_of(id), &address));
}

static __be16 port_of(const struct sockaddr *addr)
{
	union ur_sockaddr address;

	return ur_id_read_address(addr, &address) ? htons(ur_address_port(&address)) : 0;
}

UR_EXPORT __be16 rdma_get_src_port(struct rdma_cm_id *id)
{
	if (!ur_cm_is_ours())
		return (__be16)UR_FORWARD(0, rdma_get_src_port, id);
	return port_of(&id->route.addr.src_addr);
}

UR_EXPORT __be16 rdma_get_dst_port(struct rdma_cm_id *id)
{
	if (!ur_cm_is_ours())
		return (__be16)UR_FORWARD(0, rdma_get_dst_port, id);
	return port_of(&id->route.addr.dst_addr);
}

/* ---- Options ---- */

/* To change what the port is taken with, or what requests are taken, is too late afterwards. */
static bool is_before_use(const struct ur_cm_id *id)
{
	return id->state == UR_ID_IDLE || id->state == UR_ID_BOUND;
}

static int set_flag(const struct ur_cm_id *id, bool *flag, const void *value, size_t length)
{
	int number;

	if (length != sizeof(number) || !is_before_use(id))
		return EINVAL;
	memcpy(&number, value, sizeof(number));
	*flag = number != 0;
	return 0;
}

static int set_byte(uint8_t *byte, const void *value, size_t length)
{
	if (length != sizeof(*byte))
		return EINVAL;
	*byte = *(const uint8_t *)value;
	return 0;
}

static int set_ack_timeout(struct ur_cm_id *id, const void *value, size_t length)
{
	uint8_t timeout;

	if (ur_id_is_datagram(id) || set_byte(&timeout, value, length) != 0 || timeout > 31)
		return EINVAL;
	id->ack_timeout = timeout;
	id->has_ack_timeout = true;
	return 0;
}

static int set_option(struct ur_cm_id *id, int option, const void *value, size_t length)
{
	switch (option) {
	case RDMA_OPTION_ID_TOS:
		return set_byte(&id->traffic_class, value, length);
	case RDMA_OPTION_ID_REUSEADDR:
		return set_flag(id, &id->shares_port, value, length);
	case RDMA_OPTION_ID_AFONLY:
		return set_flag(id, &id->own_family_only, value, length);
	case RDMA_OPTION_ID_ACK_TIMEOUT:
		return set_ack_timeout(id, value, length);
	default:
		return ENOSYS;
	}
}

UR_EXPORT int rdma_set_option(struct rdma_cm_id *id, int level, int optname, void *optval,
			      size_t optlen)
{
	if (!ur_cm_is_ours())
		return UR_FORWARD(-1, rdma_set_option, id, level, optname, optval, optlen);
	if (!id || !optval)
		return ur_cm_result(EINVAL);
	if (level == RDMA_OPTION_IB && optname == RDMA_OPTION_IB_PATH)
		return ur_cm_result(EOPNOTSUPP);
	if (level != RDMA_OPTION_ID)
		return ur_cm_result(ENOSYS);
	return ur_cm_result(set_option(ur_id_of(id), optname, optval, optlen));
}

/* ---- Devices ---- */

static int open_all(struct ur_device *const *devices, unsigned count, struct ibv_context **contexts)
{
	const struct ur_shared_context *shared;
	int error = 0;

	for (unsigned i = 0; i < count && !error; i++) {
		error = ur_shared_context_get(devices[i], &shared);
		if (!error)
			contexts[i] = &shared->context->verbs.context;
	}
	return error;
}

/* A NULL behind the last. Returns 0 or an errno. */
static int list_contexts(struct ibv_context ***list, unsigned *count)
{
	struct ur_device **devices;
	int error = ur_devices_scan(&devices, count);

	if (error)
		return error;
	error = ENOMEM;
	*list = calloc((size_t)*count + 1, sizeof(**list));
	if (*list)
		error = open_all(devices, *count, *list);
	if (error)
		free(*list);
	free(devices);
	return error;
}

UR_EXPORT struct ibv_context **rdma_get_devices(int *num_devices)
{
	struct ibv_context **list = NULL;
	unsigned count = 0;
	int error;

	if (!ur_cm_is_ours())
		return UR_FORWARD(NULL, rdma_get_devices, num_devices);
	error = list_contexts(&list, &count);
	if (num_devices)
		*num_devices = error ? 0 : (int)count;
	return ur_cm_result(error) == 0 ? list : NULL;
}

UR_EXPORT void rdma_free_devices(struct ibv_context **list)
{
	if (!ur_cm_is_ours())
		UR_FORWARD_VOID(rdma_free_devices, list);
	else
		free(list);
}
