#include "id.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../core/log.h"
#include "../link/address.h"
#include "multicast.h"
#include "shared_context.h"

#define PKEY htons(0xffff)

/* As Linux says of RoCE: 4.096 us * 2^16 = 268 ms. */
#define PACKET_LIFE_TIME 16
#define EXACTLY          2 /* of the selectors in a path record */

/* ---- Life ---- */

static struct ur_cm_id *allocate(void *context, enum rdma_port_space port_space,
				 enum ibv_qp_type qp_type)
{
	struct ur_cm_id *id = calloc(1, sizeof(*id));

	if (!id)
		return NULL;
	id->verbs.context = context;
	id->verbs.ps = port_space;
	id->verbs.qp_type = qp_type;
	return id;
}

struct ur_cm_id *ur_id_create(struct ur_event_channel *channel, void *context,
			      enum rdma_port_space port_space, enum ibv_qp_type qp_type)
{
	struct ur_cm_id *id = allocate(context, port_space, qp_type);
	int error;

	if (!id)
		return NULL;
	error = ur_event_source_init(&id->events, channel);
	if (error)
		goto err_id;
	id->verbs.channel = &id->events.channel->verbs;
	return id;

err_id:
	free(id);
	errno = error;
	return NULL;
}

struct ur_cm_id *ur_id_create_passive(struct ur_cm_id *listener,
				      struct ur_cm_connection *connection)
{
	const struct rdma_cm_id *from = &listener->verbs;
	struct ur_cm_id *id = allocate(from->context, from->ps, from->qp_type);
	int error;

	if (!id)
		goto err_connection;
	ur_event_source_join(&id->events, &listener->events);
	id->connection = connection;
	id->passive = true;
	id->state = UR_ID_REQUESTED;
	id->traffic_class = listener->traffic_class;
	error = ur_id_set_route(id, ur_cm_route_of(connection));
	if (!error)
		error = ur_id_set_path_record(id);
	if (error)
		goto err_id;
	return id;

err_id:
	ur_id_destroy(id);
	errno = error;
	return NULL;
err_connection:
	ur_cm_release(connection);
	return NULL;
}

/* One that the program has not read. */
static void discard(struct ur_event *event)
{
	if (event->verbs.event == RDMA_CM_EVENT_CONNECT_REQUEST)
		ur_id_destroy(ur_id_of(event->verbs.id));
	free(event);
}

static void discard_events(struct ur_cm_id *id)
{
	struct ur_event *event;

	for (event = ur_event_withdraw(&id->events); event; event = ur_event_withdraw(&id->events))
		discard(event);
}

/* No events come any more. */
static void end_service(struct ur_cm_id *id)
{
	if (id->listener)
		ur_cm_unlisten(id->listener);
	if (id->connection)
		ur_cm_end(id->connection);
}

void ur_id_destroy(struct ur_cm_id *id)
{
	end_service(id);
	discard_events(id);
	if (id->verbs.event)
		ur_event_acknowledge((struct ur_event *)id->verbs.event);
	ur_id_leave_all(id);
	ur_event_wait_acknowledged(&id->events);
	/* Not before: who handles an event may still use it. */
	if (id->connection)
		ur_cm_release(id->connection);
	if (id->port && id->port_process == ur_cm_port_process())
		ur_cm_give_port((uint16_t)id->verbs.ps, id->port);
	ur_event_source_end(&id->events);
	free(id->verbs.route.path_rec);
	free(id->qp_init_attr);
	free(id);
}

int ur_id_move(struct ur_cm_id *id, struct ur_event_channel *channel)
{
	int error = ur_event_source_move(&id->events, channel);

	if (error)
		return error;
	id->verbs.channel = &id->events.channel->verbs;
	return ur_id_move_memberships(id);
}

void ur_id_post(struct ur_cm_id *id, struct ur_event *event)
{
	if (!ur_event_post(&id->events, event))
		discard(event);
}

/* ---- Addresses ---- */

bool ur_id_read_address(const struct sockaddr *from, union ur_sockaddr *to)
{
	*to = (union ur_sockaddr){ 0 };
	if (!from || (from->sa_family != AF_INET && from->sa_family != AF_INET6))
		return false;
	to->any.sa_family = from->sa_family;
	memcpy(to, from, ur_address_size(to));
	return true;
}

union ur_sockaddr ur_id_source(const struct ur_cm_id *id)
{
	union ur_sockaddr address;

	ur_id_read_address(&id->verbs.route.addr.src_addr, &address);
	return address;
}

static int set_device(struct ur_cm_id *id, struct ur_device *device,
		      const union ur_sockaddr *source)
{
	struct rdma_cm_id *verbs = &id->verbs;
	const struct ur_shared_context *shared;
	int error = ur_shared_context_get(device, &shared);

	if (error)
		return error;
	verbs->verbs = &shared->context->verbs.context;
	if (!verbs->pd)
		verbs->pd = &shared->pd->verbs;
	verbs->port_num = 1;
	verbs->route.addr.addr.ibaddr.sgid = ur_cm_gid_of(source);
	verbs->route.addr.addr.ibaddr.pkey = PKEY;
	return 0;
}

/* Why no device of ours has the address. */
static int explain(const union ur_sockaddr *address)
{
	union ur_sockaddr any_port = *address;
	int fd = socket(address->any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int error = ENODEV;

	if (fd < 0)
		return errno;
	ur_address_set_port(&any_port, 0);
	if (bind(fd, &any_port.any, ur_address_size(&any_port)) < 0)
		error = errno;
	close(fd);
	return error;
}

/*
 * One of the loopback interface has to be there, but names no device, as for the kernel:
 * libfabric takes the device of such an id, if it has one, for the only one that there is.
 */
static int choose_device(struct ur_cm_id *id, const union ur_sockaddr *address)
{
	struct ur_device *device = ur_cm_device_of(address);

	if (!device)
		return explain(address);
	return ur_address_is_loopback(address) ? 0 : set_device(id, device, address);
}

static int bind_to(struct ur_cm_id *id, const union ur_sockaddr *address)
{
	union ur_sockaddr source = *address;
	uint16_t port = ur_address_port(address);
	int error = ur_address_is_any(address) ? 0 : choose_device(id, address);

	if (!error)
		error = ur_cm_take_port((uint16_t)id->verbs.ps, &port, id->shares_port);
	if (error)
		return error;
	id->port = port;
	id->port_process = ur_cm_port_process();
	ur_address_set_port(&source, port);
	memcpy(&id->verbs.route.addr.src_storage, &source, sizeof(source));
	return 0;
}

int ur_id_bind(struct ur_cm_id *id, const union ur_sockaddr *address)
{
	int error;

	if (!ur_id_advance(id, UR_ID_IDLE, UR_ID_BOUND))
		return EINVAL;
	error = bind_to(id, address);
	if (error)
		id->state = UR_ID_IDLE;
	return error;
}

/* ---- Routes ---- */

int ur_id_set_route(struct ur_cm_id *id, const struct ur_cm_route *route)
{
	struct rdma_addr *addresses = &id->verbs.route.addr;
	int error = set_device(id, route->device, &route->source);

	if (error)
		return error;
	id->route = *route;
	memcpy(&addresses->src_storage, &route->source, sizeof(route->source));
	memcpy(&addresses->dst_storage, &route->dest, sizeof(route->dest));
	addresses->addr.ibaddr.dgid = ur_cm_gid_of(&route->dest);
	return 0;
}

int ur_id_set_path_record(struct ur_cm_id *id)
{
	struct rdma_route *route = &id->verbs.route;
	struct ibv_sa_path_rec *record = calloc(1, sizeof(*record));

	if (!record)
		return ENOMEM;
	*record = (struct ibv_sa_path_rec){
		.dgid = route->addr.addr.ibaddr.dgid,
		.sgid = route->addr.addr.ibaddr.sgid,
		.hop_limit = id->route.path.hop_limit,
		.traffic_class = id->traffic_class,
		.reversible = 1,
		.numb_path = 1,
		.pkey = PKEY,
		.mtu_selector = EXACTLY,
		.mtu = (uint8_t)id->route.device->mtu,
		.rate_selector = EXACTLY,
		.packet_life_time_selector = EXACTLY,
		.packet_life_time = id->has_ack_timeout && id->ack_timeout > 0
					    ? (uint8_t)(id->ack_timeout - 1)
					    : PACKET_LIFE_TIME,
	};
	route->path_rec = record;
	route->num_paths = 1;
	return 0;
}
