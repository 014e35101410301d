/*
 * Connections: to ask for them, to be asked, and to end them. Of datagrams: to ask who serves, and
 * to say so.
 */
#include <string.h>

#include "../link/address.h"
#include "cm.h"

/* Of a SIDR_REP. */
#define DATAGRAM_ACCEPTED 0
#define DATAGRAM_REJECTED 2

/* What Linux takes when the program names nothing. */
#define MOST_RETRIES 7

/* ---- Events of the manager ---- */

static void *copy_private(struct ur_event *event, const struct ur_cm_message *message,
			  size_t offset, uint8_t *length)
{
	*length = (uint8_t)(message->private_length - offset);
	memcpy(event->private_data, message->private_data + offset, *length);
	return event->private_data;
}

/*
 * To the own side, the peer's responder resources are those that it may initiate, and the other way
 * round.
 */
static void describe_request(struct ur_event *event, const struct ur_cm_message *message)
{
	const struct ur_cm_req *req = &message->req;
	struct rdma_conn_param *param = &event->verbs.param.conn;

	param->private_data =
		copy_private(event, message, UR_CM_IP_HEADER_SIZE, &param->private_data_len);
	param->responder_resources = req->initiator_depth;
	param->initiator_depth = req->responder_resources;
	param->flow_control = req->flow_control;
	param->retry_count = req->retry_count;
	param->rnr_retry_count = req->rnr_retry_count;
	param->srq = req->srq;
	param->qp_num = req->qpn;
}

static void describe_look_up(struct ur_event *event, const struct ur_cm_message *message)
{
	struct rdma_ud_param *param = &event->verbs.param.ud;

	param->private_data =
		copy_private(event, message, UR_CM_IP_HEADER_SIZE, &param->private_data_len);
}

static void describe_reply(struct ur_event *event, const struct ur_cm_message *message)
{
	const struct ur_cm_rep *rep = &message->rep;
	struct rdma_conn_param *param = &event->verbs.param.conn;

	param->private_data = copy_private(event, message, 0, &param->private_data_len);
	param->responder_resources = rep->initiator_depth;
	param->initiator_depth = rep->responder_resources;
	param->flow_control = rep->flow_control;
	param->rnr_retry_count = rep->rnr_retry_count;
	param->srq = rep->srq;
	param->qp_num = ur_cm_rep_qpn(rep);
}

static void describe_rejection(struct ur_event *event, const struct ur_cm_message *message)
{
	struct rdma_conn_param *param = &event->verbs.param.conn;

	event->verbs.status = message->rej.reason;
	param->private_data = copy_private(event, message, 0, &param->private_data_len);
}

static struct ibv_ah_attr ah_attr_of(const struct ur_cm_id *id)
{
	const struct ur_path *path = &id->route.path;

	return (struct ibv_ah_attr){ .is_global = 1,
				     .port_num = id->verbs.port_num,
				     .grh = { .dgid = id->verbs.route.addr.addr.ibaddr.dgid,
					      .sgid_index = path->gid_index,
					      .traffic_class = id->traffic_class,
					      .hop_limit = path->hop_limit } };
}

static void describe_answer(struct ur_event *event, const struct ur_cm_message *message)
{
	const struct ur_cm_sidr_rep *rep = &message->sidr_rep;
	struct rdma_ud_param *param = &event->verbs.param.ud;

	param->private_data = copy_private(event, message, 0, &param->private_data_len);
	if (rep->status != DATAGRAM_ACCEPTED) {
		event->verbs.event = RDMA_CM_EVENT_UNREACHABLE;
		event->verbs.status = rep->status;
		return;
	}
	param->ah_attr = ah_attr_of(ur_id_of(event->verbs.id));
	param->qp_num = rep->qpn;
	param->qkey = rep->qkey;
}

/* What programs are told; -1: nothing, since the active side says itself that it is established. */
static int type_of(const struct ur_cm_id *id, enum ur_cm_event_kind kind)
{
	switch (kind) {
	case UR_CM_EVENT_REPLIED:
		return RDMA_CM_EVENT_CONNECT_RESPONSE;
	case UR_CM_EVENT_ESTABLISHED:
		return id->passive ? RDMA_CM_EVENT_ESTABLISHED : -1;
	case UR_CM_EVENT_REJECTED:
		return RDMA_CM_EVENT_REJECTED;
	case UR_CM_EVENT_UNREACHABLE:
		return RDMA_CM_EVENT_UNREACHABLE;
	case UR_CM_EVENT_DISCONNECTED:
		return RDMA_CM_EVENT_DISCONNECTED;
	case UR_CM_EVENT_TIMEWAIT_EXIT:
		return RDMA_CM_EVENT_TIMEWAIT_EXIT;
	case UR_CM_EVENT_LOOKED_UP:
		return RDMA_CM_EVENT_ESTABLISHED;
	default:
		return -1;
	}
}

static void describe(struct ur_event *event, const struct ur_cm_event *from)
{
	switch (from->kind) {
	case UR_CM_EVENT_REPLIED:
		describe_reply(event, from->message);
		break;
	case UR_CM_EVENT_REJECTED:
		describe_rejection(event, from->message);
		break;
	case UR_CM_EVENT_UNREACHABLE:
		event->verbs.status = -ETIMEDOUT;
		break;
	case UR_CM_EVENT_LOOKED_UP:
		describe_answer(event, from->message);
		break;
	default:
		break;
	}
}

/* Of a connection that an id has. */
static void on_event(void *user_data, const struct ur_cm_event *from)
{
	struct ur_cm_id *id = user_data;
	int type = type_of(id, from->kind);
	struct ur_event *event = type < 0 ? NULL : ur_event_create((enum rdma_cm_event_type)type);

	/* The call that asks for the connection may not have returned yet. */
	id->connection = from->connection;
	if (from->kind == UR_CM_EVENT_ESTABLISHED)
		ur_id_advance(id, UR_ID_CONNECTING, UR_ID_CONNECTED);
	if (!event)
		return;
	event->verbs.id = &id->verbs;
	describe(event, from);
	ur_id_post(id, event);
}

/* ---- To be asked ---- */

static bool takes(const struct ur_cm_id *listener, const struct ur_cm_connection *connection)
{
	const union ur_sockaddr own = ur_id_source(listener);

	return !listener->own_family_only ||
	       ur_cm_route_of(connection)->source.any.sa_family == own.any.sa_family;
}

static void announce(struct ur_cm_id *listener, struct ur_cm_id *id, const struct ur_cm_event *from)
{
	struct ur_event *event = ur_event_create(RDMA_CM_EVENT_CONNECT_REQUEST);

	if (!event) {
		ur_id_destroy(id);
		return;
	}
	event->verbs.id = &id->verbs;
	event->verbs.listen_id = &listener->verbs;
	if (from->kind == UR_CM_EVENT_REQUESTED)
		describe_request(event, from->message);
	else
		describe_look_up(event, from->message);
	id->responder_resources = event->verbs.param.conn.responder_resources;
	id->initiator_depth = event->verbs.param.conn.initiator_depth;
	ur_id_post(listener, event);
}

/* Whether the peer asks for what the listener's queue pairs are. */
static bool has_right_type(const struct ur_cm_id *listener, const struct ur_cm_event *from)
{
	bool is_look_up = from->kind == UR_CM_EVENT_LOOK_UP;
	bool is_extended = !is_look_up && from->message->req.transport == UR_CM_EXTENDED;

	return is_look_up == ur_id_is_datagram(listener) &&
	       is_extended == ur_id_only_receives(listener);
}

static void on_request(void *user_data, const struct ur_cm_event *from)
{
	struct ur_cm_id *listener = user_data, *id;

	if (!takes(listener, from->connection) || !has_right_type(listener, from)) {
		ur_cm_release(from->connection);
		return;
	}
	id = ur_id_create_passive(listener, from->connection);
	if (id)
		announce(listener, id, from);
}

static int listen_on(struct ur_cm_id *id, int backlog)
{
	const union ur_sockaddr any = { .v4.sin_family = AF_INET };
	union ur_sockaddr address;
	int error = id->state == UR_ID_IDLE ? ur_id_bind(id, &any) : 0;

	if (error)
		return error;
	if (ur_id_only_sends(id) || !ur_id_advance(id, UR_ID_BOUND, UR_ID_LISTENING))
		return EINVAL;
	address = ur_id_source(id);
	error = ur_cm_listen((uint16_t)id->verbs.ps, &address, backlog, on_request, id,
			     &id->listener);
	if (error)
		id->state = UR_ID_BOUND;
	return error;
}

UR_EXPORT int rdma_listen(struct rdma_cm_id *id, int backlog)
{
	if (!ur_cm_is_ours())
		return UR_FORWARD(-1, rdma_listen, id, backlog);
	return ur_cm_result(id ? listen_on(ur_id_of(id), backlog) : EINVAL);
}

/* ---- What the program says of its queue pair ---- */

static bool is_valid(const struct ur_cm_id *id, const struct rdma_conn_param *param)
{
	if (!param)
		return ur_id_is_datagram(id) ? !id->passive || id->verbs.qp : id->verbs.qp != NULL;
	return ur_id_is_datagram(id) || ((param->responder_resources == RDMA_MAX_RESP_RES ||
					  param->responder_resources <= UR_MAX_RD_ATOMIC) &&
					 (param->initiator_depth == RDMA_MAX_INIT_DEPTH ||
					  param->initiator_depth <= UR_MAX_RD_ATOMIC));
}

static uint8_t lesser(uint8_t a, uint8_t b)
{
	return a < b ? a : b;
}

/* most: what there may be if the program names nothing. */
static void choose_limits(struct ur_cm_id *id, const struct rdma_conn_param *param,
			  uint8_t most_responder, uint8_t most_initiator)
{
	id->responder_resources = most_responder;
	id->initiator_depth = most_initiator;
	if (param && param->responder_resources != RDMA_MAX_RESP_RES)
		id->responder_resources = param->responder_resources;
	if (param && param->initiator_depth != RDMA_MAX_INIT_DEPTH)
		id->initiator_depth = param->initiator_depth;
}

static struct ur_cm_params make_params(const struct ur_cm_id *id,
				       const struct rdma_conn_param *param)
{
	const struct ibv_qp *qp = id->verbs.qp;
	struct ur_cm_params params = { .responder_resources = id->responder_resources,
				       .initiator_depth = id->initiator_depth,
				       .retry_count = MOST_RETRIES,
				       .rnr_retry_count = MOST_RETRIES,
				       .qkey = RDMA_UDP_QKEY,
				       .qp_type = (uint8_t)id->verbs.qp_type };

	if (param) {
		params.qpn = param->qp_num;
		params.srq = param->srq;
		params.flow_control = param->flow_control;
		params.retry_count = lesser(param->retry_count, MOST_RETRIES);
		params.rnr_retry_count = lesser(param->rnr_retry_count, MOST_RETRIES);
		params.private_data = param->private_data;
		params.private_length = param->private_data ? param->private_data_len : 0;
	}
	if (qp) {
		params.qpn = qp->qp_num;
		params.srq = qp->srq != NULL;
	}
	return params;
}

/* Private data that does not fit is an argument that is wrong. */
static int hide_size(int error)
{
	return error == EMSGSIZE ? EINVAL : error;
}

/* ---- To ask ---- */

/* The endpoint's data, and behind it the program's own. */
static void add_connect_data(const struct ur_cm_id *id, struct ur_cm_params *params,
			     uint8_t joined[UR_CM_MAX_PRIVATE + UINT8_MAX])
{
	if (id->connect_length == 0)
		return;
	memcpy(joined, id->connect_data, id->connect_length);
	if (params->private_length > 0)
		memcpy(joined + id->connect_length, params->private_data, params->private_length);
	params->private_data = joined;
	params->private_length += id->connect_length;
}

static int request(struct ur_cm_id *id, const struct rdma_conn_param *param)
{
	uint8_t joined[UR_CM_MAX_PRIVATE + UINT8_MAX];
	struct ur_cm_params params = make_params(id, param);
	uint16_t port_space = (uint16_t)id->verbs.ps;
	struct ur_cm_connection *connection;
	int error;

	add_connect_data(id, &params, joined);
	id->route.path.traffic_class = id->traffic_class;
	if (ur_id_is_datagram(id))
		error = ur_cm_look_up(port_space, &id->route, params.private_data,
				      params.private_length, on_event, id, &connection);
	else
		error = ur_cm_request(port_space, &id->route, &params, on_event, id, &connection);
	if (!error)
		id->connection = connection;
	return hide_size(error);
}

static int ask(struct ur_cm_id *id, const struct rdma_conn_param *param)
{
	int error;

	if (!id || !is_valid(id, param) || ur_id_only_receives(id) ||
	    !ur_id_advance(id, UR_ID_ROUTE_RESOLVED, UR_ID_CONNECTING))
		return EINVAL;
	choose_limits(id, param, UR_MAX_RD_ATOMIC, UR_MAX_RD_ATOMIC);
	error = request(id, param);
	if (error)
		id->state = UR_ID_ROUTE_RESOLVED;
	return error;
}

UR_EXPORT int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *conn_param)
{
	int error;

	if (!ur_cm_is_ours())
		return UR_FORWARD(-1, rdma_connect, id, conn_param);
	error = ask(ur_id_of(id), conn_param);
	return error ? ur_cm_result(error) : ur_cm_complete(ur_id_of(id));
}

int ur_cm_confirm(struct ur_cm_id *id)
{
	int error = ur_cm_make_ready(id, false);

	if (!error)
		error = ur_cm_ready(id->connection, NULL, 0);
	if (error) {
		id->state = UR_ID_FAILED;
		ur_cm_make_erroneous(id);
	}
	return error;
}

UR_EXPORT int rdma_establish(struct rdma_cm_id *id)
{
	if (!ur_cm_is_ours())
		return UR_FORWARD(-1, rdma_establish, id);
	if (!id || id->qp || !ur_id_of(id)->connection)
		return ur_cm_result(EINVAL);
	return ur_cm_result(ur_cm_ready(ur_id_of(id)->connection, NULL, 0));
}

/* ---- To answer ---- */

static int accept_connection(struct ur_cm_id *id, const struct rdma_conn_param *param)
{
	struct ur_cm_params params;
	int error;

	choose_limits(id, param, lesser(id->responder_resources, UR_MAX_RD_ATOMIC),
		      lesser(id->initiator_depth, UR_MAX_RD_ATOMIC));
	params = make_params(id, param);
	error = ur_cm_make_ready(id, true);
	if (!error)
		error = ur_cm_reply(id->connection, &params);
	if (error)
		ur_cm_make_erroneous(id);
	else
		ur_cm_adopt(id->connection, on_event, id);
	return error;
}

/* Nothing more comes from the peer. */
static int accept_datagrams(struct ur_cm_id *id, const struct rdma_conn_param *param)
{
	const struct ur_cm_params params = make_params(id, param);
	int error = ur_cm_answer(id->connection, DATAGRAM_ACCEPTED, &params);

	if (!error && ur_id_is_synchronous(id))
		ur_cm_forget_event(&id->verbs);
	return error;
}

static int accept_request(struct ur_cm_id *id, const struct rdma_conn_param *param)
{
	int error;

	if (!id || !is_valid(id, param) || !ur_id_advance(id, UR_ID_REQUESTED, UR_ID_CONNECTING))
		return EINVAL;
	error = ur_id_is_datagram(id) ? accept_datagrams(id, param) : accept_connection(id, param);
	if (error)
		id->state = UR_ID_REQUESTED;
	return hide_size(error);
}

UR_EXPORT int rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *conn_param)
{
	int error;

	if (!ur_cm_is_ours())
		return UR_FORWARD(-1, rdma_accept, id, conn_param);
	error = accept_request(ur_id_of(id), conn_param);
	if (error || ur_id_is_datagram(ur_id_of(id)))
		return ur_cm_result(error);
	return ur_cm_complete(ur_id_of(id));
}

static int reject(struct rdma_cm_id *verbs, uint16_t reason, const void *data, uint8_t length)
{
	struct ur_cm_id *id = ur_id_of(verbs);
	struct ur_cm_params params = { .private_data = data, .private_length = data ? length : 0 };

	if (!id || !id->connection)
		return EINVAL;
	if (ur_id_is_datagram(id))
		return hide_size(ur_cm_answer(id->connection, DATAGRAM_REJECTED, &params));
	return hide_size(
		ur_cm_reject(id->connection, reason, params.private_data, params.private_length));
}

UR_EXPORT int rdma_reject(struct rdma_cm_id *id, const void *private_data, uint8_t private_data_len)
{
	if (!ur_cm_is_ours())
		return UR_FORWARD(-1, rdma_reject, id, private_data, private_data_len);
	return ur_cm_result(reject(id, UR_CM_CONSUMER, private_data, private_data_len));
}

UR_EXPORT int rdma_reject_ece(struct rdma_cm_id *id, const void *private_data,
			      uint8_t private_data_len)
{
	if (!ur_cm_is_ours())
		return UR_FORWARD(-1, rdma_reject_ece, id, private_data, private_data_len);
	return ur_cm_result(reject(id, UR_CM_VENDOR_OPTION, private_data, private_data_len));
}

static int notify(struct ur_cm_id *id, enum ibv_event_type type)
{
	if (!id || !id->connection || type != IBV_EVENT_COMM_EST)
		return EINVAL;
	if (id->state == UR_ID_CONNECTED)
		return EISCONN;
	return ur_cm_established(id->connection);
}

UR_EXPORT int rdma_notify(struct rdma_cm_id *id, enum ibv_event_type event)
{
	if (!ur_cm_is_ours())
		return UR_FORWARD(-1, rdma_notify, id, event);
	return ur_cm_result(notify(ur_id_of(id), event));
}

/* ---- To end ---- */

/*
 * False: no event comes of it. That the connection is over already, or was never there, is no
 * error, as the peer may have been faster.
 */
static bool end_connection(struct ur_cm_id *id)
{
	return ur_cm_disconnect(id->connection) == 0 || ur_event_is_waiting(&id->events);
}

UR_EXPORT int rdma_disconnect(struct rdma_cm_id *id)
{
	int error;

	if (!ur_cm_is_ours())
		return UR_FORWARD(-1, rdma_disconnect, id);
	if (!id || !ur_id_of(id)->connection)
		return ur_cm_result(EINVAL);
	error = ur_cm_make_erroneous(ur_id_of(id));
	if (error)
		return ur_cm_result(error);
	return end_connection(ur_id_of(id)) ? ur_cm_complete(ur_id_of(id)) : 0;
}
