#include "multicast.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "../core/context.h"
#include "../core/interface.h"
#include "../core/qp.h"
#include "../link/address.h"

/* As Linux has it. */
#define HOP_LIMIT 64

/* Guards the memberships of all ids, but for their events. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- A process that is forked off ---- */

static void lock_all(void)
{
	pthread_mutex_lock(&lock);
}

static void unlock_all(void)
{
	pthread_mutex_unlock(&lock);
}

static void prepare_for_forks(void)
{
	pthread_atfork(lock_all, unlock_all, unlock_all);
}

/* ---- To join ---- */

static bool may_join(const struct ur_cm_id *id, const union ur_sockaddr *address)
{
	const union ibv_gid gid = ur_cm_gid_of(address);
	const union ur_sockaddr source = ur_id_source(id);

	return (id->state == UR_ID_BOUND || id->state == UR_ID_ADDR_RESOLVED) &&
	       ur_id_is_datagram(id) && id->verbs.verbs && ur_gid_is_group(&gid) &&
	       source.any.sa_family == address->any.sa_family;
}

static struct ibv_ah_attr ah_attr_of(const struct ur_cm_id *id, const union ibv_gid *gid)
{
	const struct ur_device *device = ur_context_of(id->verbs.verbs)->device;
	int sgid_index = ur_device_gid_index(device, &id->verbs.route.addr.addr.ibaddr.sgid);

	return (struct ibv_ah_attr){ .is_global = 1,
				     .port_num = id->verbs.port_num,
				     .grh = { .dgid = *gid,
					      .sgid_index = (uint8_t)sgid_index,
					      .traffic_class = id->traffic_class,
					      .hop_limit = HOP_LIMIT } };
}

static struct ur_event *make_event(struct ur_cm_id *id, const struct ur_membership *membership,
				   void *context)
{
	struct ur_event *event = ur_event_create(RDMA_CM_EVENT_MULTICAST_JOIN);
	struct rdma_ud_param *param;

	if (!event)
		return NULL;
	event->verbs.id = &id->verbs;
	param = &event->verbs.param.ud;
	param->private_data = context;
	param->ah_attr = ah_attr_of(id, &membership->gid);
	param->qp_num = UR_MULTICAST_QPN;
	param->qkey = RDMA_UDP_QKEY;
	return event;
}

static struct ur_membership *create(struct ur_cm_id *id, const union ur_sockaddr *address,
				    bool send_only)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct ur_membership *membership = calloc(1, sizeof(*membership));

	if (!membership)
		return NULL;
	pthread_once(&once, prepare_for_forks);
	membership->address = *address;
	membership->gid = ur_cm_gid_of(address);
	membership->send_only = send_only;
	ur_event_source_join(&membership->events, &id->events);
	pthread_mutex_lock(&lock);
	membership->next = id->memberships;
	id->memberships = membership;
	pthread_mutex_unlock(&lock);
	return membership;
}

int ur_id_join(struct ur_cm_id *id, const union ur_sockaddr *address, bool send_only, void *context)
{
	struct ur_membership *membership;
	struct ur_event *event;

	if (!may_join(id, address))
		return EINVAL;
	membership = create(id, address, send_only);
	if (!membership)
		return ENOMEM;
	event = make_event(id, membership, context);
	if (!event) {
		ur_id_leave(id, address);
		return ENOMEM;
	}
	if (!ur_event_post(&membership->events, event))
		free(event);
	return 0;
}

/* ---- Queue pairs ---- */

int ur_membership_attach(struct ur_membership *membership, struct ibv_qp *qp)
{
	int error = 0;

	if (!qp || membership->send_only)
		return 0;
	pthread_mutex_lock(&lock);
	if (!membership->left)
		error = ur_group_attach((struct ur_qp *)qp, &membership->gid);
	membership->attached = !membership->left && !error;
	pthread_mutex_unlock(&lock);
	return error;
}

/* Lock held. Fails where the program has detached it before. */
static void detach(const struct ur_cm_id *id, struct ur_membership *membership)
{
	if (membership->attached && id->verbs.qp)
		ur_group_detach((struct ur_qp *)id->verbs.qp, &membership->gid);
	membership->attached = false;
}

void ur_id_detach_all(struct ur_cm_id *id)
{
	pthread_mutex_lock(&lock);
	for (struct ur_membership *m = id->memberships; m; m = m->next)
		detach(id, m);
	pthread_mutex_unlock(&lock);
}

/* ---- To leave ---- */

/* Takes it out of the list. address: NULL, any of them. NULL: it is not there. */
static struct ur_membership *take(struct ur_cm_id *id, const union ur_sockaddr *address)
{
	struct ur_membership **link = &id->memberships, *found;

	pthread_mutex_lock(&lock);
	while (*link && address && !ur_address_same_host(&(*link)->address, address))
		link = &(*link)->next;
	found = *link;
	if (found) {
		*link = found->next;
		found->left = true;
		detach(id, found);
	}
	pthread_mutex_unlock(&lock);
	return found;
}

/* Who is reading an event of it may use it until that is acknowledged. */
static void end(struct ur_membership *membership)
{
	struct ur_event *event;

	while ((event = ur_event_withdraw(&membership->events)))
		free(event);
	ur_event_wait_acknowledged(&membership->events);
	ur_event_source_end(&membership->events);
	free(membership);
}

int ur_id_leave(struct ur_cm_id *id, const union ur_sockaddr *address)
{
	struct ur_membership *membership = take(id, address);

	if (!membership)
		return EADDRNOTAVAIL;
	end(membership);
	return 0;
}

void ur_id_leave_all(struct ur_cm_id *id)
{
	struct ur_membership *membership;

	while ((membership = take(id, NULL)))
		end(membership);
}

int ur_id_move_memberships(struct ur_cm_id *id)
{
	int error = 0;

	for (struct ur_membership *m = id->memberships; m && !error; m = m->next)
		error = ur_event_source_move(&m->events, id->events.channel);
	return error;
}
