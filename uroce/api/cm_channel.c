/*
 * Event channels and events of the connection manager.
 */
#include "../cm/multicast.h"

#include "cm.h"

/* ---- Channels ---- */

UR_EXPORT struct rdma_event_channel *rdma_create_event_channel(void)
{
	struct ur_event_channel *channel;

	if (!ur_cm_is_ours())
		return UR_FORWARD(NULL, rdma_create_event_channel);
	channel = ur_event_channel_open();
	return channel ? &channel->verbs : NULL;
}

UR_EXPORT void rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
	if (!ur_cm_is_ours())
		UR_FORWARD_VOID(rdma_destroy_event_channel, channel);
	else if (channel)
		ur_event_channel_close((struct ur_event_channel *)channel);
}

/* ---- What is to be done before the program gets an event; false: it does not get it ---- */

/* The id is where the listener is now; that of a synchronous one has its own channel. */
static bool place_request(struct ur_event *event)
{
	struct ur_cm_id *listener = ur_id_of(event->verbs.listen_id);
	struct ur_cm_id *id = ur_id_of(event->verbs.id);
	bool own = ur_id_is_synchronous(listener);

	if (ur_id_move(id, own ? NULL : listener->events.channel) != 0) {
		ur_id_destroy(id);
		return false;
	}
	ur_cm_note_read(id->connection);
	return true;
}

/* One whose queue pair the program has made itself says rdma_establish when that is ready. */
static bool follow_response(struct ur_event *event)
{
	struct ur_cm_id *id = ur_id_of(event->verbs.id);
	int error;

	if (!id->verbs.qp)
		return true;
	error = ur_cm_confirm(id);
	event->verbs.event = error ? RDMA_CM_EVENT_CONNECT_ERROR : RDMA_CM_EVENT_ESTABLISHED;
	event->verbs.status = -error;
	return true;
}

static bool follow_rejection(struct ur_event *event)
{
	struct ur_cm_id *id = ur_id_of(event->verbs.id);

	if (id->state == UR_ID_FAILED)
		return false;
	ur_cm_make_erroneous(id);
	return true;
}

static bool follow_join(struct ur_event *event)
{
	int error = ur_membership_attach(ur_membership_of(event), event->verbs.id->qp);

	if (error) {
		event->verbs.event = RDMA_CM_EVENT_MULTICAST_ERROR;
		event->verbs.status = -error;
	}
	return true;
}

static bool prepare(struct ur_event *event)
{
	switch (event->verbs.event) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		return place_request(event);
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
		return follow_response(event);
	case RDMA_CM_EVENT_REJECTED:
		return follow_rejection(event);
	case RDMA_CM_EVENT_DISCONNECTED:
		return ur_id_of(event->verbs.id)->state != UR_ID_FAILED;
	case RDMA_CM_EVENT_MULTICAST_JOIN:
		return follow_join(event);
	default:
		return true;
	}
}

/* ---- Events ---- */

struct ur_event *ur_cm_read_event(struct ur_event_channel *channel)
{
	struct ur_event *event = ur_event_read(channel);

	while (event && !prepare(event)) {
		ur_event_acknowledge(event);
		event = ur_event_read(channel);
	}
	return event;
}

UR_EXPORT int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
	struct ur_event *read;

	if (!ur_cm_is_ours())
		return UR_FORWARD(-1, rdma_get_cm_event, channel, event);
	if (!channel || !event)
		return ur_cm_result(EINVAL);
	read = ur_cm_read_event((struct ur_event_channel *)channel);
	if (!read)
		return -1;
	*event = &read->verbs;
	return 0;
}

UR_EXPORT int rdma_ack_cm_event(struct rdma_cm_event *event)
{
	if (!ur_cm_is_ours())
		return UR_FORWARD(-1, rdma_ack_cm_event, event);
	if (!event)
		return ur_cm_result(EINVAL);
	ur_event_acknowledge((struct ur_event *)event);
	return 0;
}

void ur_cm_forget_event(struct rdma_cm_id *id)
{
	if (id->event)
		ur_event_acknowledge((struct ur_event *)id->event);
	id->event = NULL;
}

/* As an errno. */
static int status_of(const struct rdma_cm_event *event)
{
	if (event->event == RDMA_CM_EVENT_REJECTED)
		return ECONNREFUSED;
	return event->status < 0 ? -event->status : event->status;
}

int ur_cm_complete(struct ur_cm_id *id)
{
	struct ur_event *event;

	if (!ur_id_is_synchronous(id))
		return 0;
	ur_cm_forget_event(&id->verbs);
	event = ur_cm_read_event(id->events.channel);
	if (!event)
		return -1;
	id->verbs.event = &event->verbs;
	return ur_cm_result(status_of(&event->verbs));
}

UR_EXPORT const char *rdma_event_str(enum rdma_cm_event_type type)
{
	static const char *const names[] = {
		"RDMA_CM_EVENT_ADDR_RESOLVED",   "RDMA_CM_EVENT_ADDR_ERROR",
		"RDMA_CM_EVENT_ROUTE_RESOLVED",  "RDMA_CM_EVENT_ROUTE_ERROR",
		"RDMA_CM_EVENT_CONNECT_REQUEST", "RDMA_CM_EVENT_CONNECT_RESPONSE",
		"RDMA_CM_EVENT_CONNECT_ERROR",   "RDMA_CM_EVENT_UNREACHABLE",
		"RDMA_CM_EVENT_REJECTED",        "RDMA_CM_EVENT_ESTABLISHED",
		"RDMA_CM_EVENT_DISCONNECTED",    "RDMA_CM_EVENT_DEVICE_REMOVAL",
		"RDMA_CM_EVENT_MULTICAST_JOIN",  "RDMA_CM_EVENT_MULTICAST_ERROR",
		"RDMA_CM_EVENT_ADDR_CHANGE",     "RDMA_CM_EVENT_TIMEWAIT_EXIT",
	};

	return type < sizeof(names) / sizeof(names[0]) ? names[type] : "UNKNOWN EVENT";
}
