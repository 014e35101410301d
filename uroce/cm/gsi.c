#include "gsi.h"

#include <errno.h>

#include "../core/engine.h"
#include "../core/timed_lock.h"
#include "../link/address.h"
#include "../link/batch.h"
#include "claim.h"

#define NUMBER_SHIFT 24

/* What a REJ says it answers, and the status of a SIDR_REP (see cm_message.h). */
enum { REJECTED_REQ, REJECTED_REP };
#define SERVICE_NOT_SUPPORTED 1

_Static_assert(UR_MAD_SIZE <= UR_BATCH_COPIED, "a message need not stay until the flush");

/* ---- Sending ---- */

/* The acknowledgement that it asks for does not exist; the kernel's sets the bit, too. */
struct ur_packet ur_gsi_packet(uint32_t psn)
{
	return (struct ur_packet){
		.opcode = UR_UD_SEND_ONLY,
		.ack_request = true,
		.pkey = UR_DEFAULT_PKEY,
		.dest_qpn = UR_GSI_QPN,
		.psn = psn,
		.qkey = UR_GSI_QKEY,
		.src_qpn = UR_GSI_QPN,
		.payload_length = UR_MAD_SIZE,
	};
}

void ur_gsi_send_locked(struct ur_device *device, const struct ur_path *path,
			const struct ur_cm_message *message)
{
	struct ur_carrier *carrier = ur_link_carrier(device->link);
	const struct ur_packet packet =
		ur_gsi_packet((uint32_t)device->counters.cm_sent++ & UR_24_BITS);
	uint8_t mad[UR_MAD_SIZE];
	const struct iovec payload = { mad, sizeof(mad) };
	const struct ur_tx tx = { .packet = &packet, .payload = &payload, .payload_count = 1 };

	ur_cm_encode(message, mad);
	carrier->send(carrier, path, &tx);
}

static void send_and_unlock(struct ur_device *device, const struct ur_path *path,
			    const struct ur_cm_message *message)
{
	ur_gsi_send_locked(device, path, message);
	ur_engine_flush(device);
	pthread_mutex_unlock(&device->lock);
}

void ur_gsi_send(struct ur_device *device, const struct ur_path *path,
		 const struct ur_cm_message *message)
{
	pthread_mutex_lock(&device->lock);
	send_and_unlock(device, path, message);
}

bool ur_gsi_try_send(struct ur_device *device, const struct ur_path *path,
		     const struct ur_cm_message *message, unsigned ms)
{
	if (!ur_lock_for(&device->lock, ms))
		return false;
	send_and_unlock(device, path, message);
	return true;
}

/* ---- For nobody ---- */

static void reject(struct ur_cm_message *refusal, uint8_t rejected, uint16_t reason)
{
	refusal->kind = UR_CM_REJ;
	refusal->rej.message = rejected;
	refusal->rej.reason = reason;
}

static void deny_service(struct ur_cm_message *refusal, const struct ur_cm_message *request)
{
	refusal->kind = UR_CM_SIDR_REP;
	refusal->local_id = request->local_id; /* the request's, which is all that it has */
	refusal->remote_id = 0;
	refusal->sidr_rep.status = SERVICE_NOT_SUPPORTED;
	refusal->sidr_rep.service_id = request->sidr_req.service_id;
}

bool ur_gsi_refusal(const struct ur_cm_message *message, struct ur_cm_message *refusal)
{
	*refusal = (struct ur_cm_message){ .transaction_id = message->transaction_id,
					   .local_id = message->remote_id,
					   .remote_id = message->local_id };
	switch (message->kind) {
	case UR_CM_REQ:
		reject(refusal, REJECTED_REQ, UR_CM_INVALID_SERVICE_ID);
		return true;
	case UR_CM_REP:
		reject(refusal, REJECTED_REP, UR_CM_INVALID_COMM_ID);
		return true;
	case UR_CM_DREQ:
		refusal->kind = UR_CM_DREP;
		return true;
	case UR_CM_SIDR_REQ:
		deny_service(refusal, message);
		return true;
	case UR_CM_LAP:
		refusal->kind = UR_CM_APR;
		refusal->apr.status = UR_CM_PATH_INVALID_COMM_ID;
		return true;
	default:
		return false;
	}
}

static void drop(struct ur_device *device)
{
	device->counters.cm_dropped++;
}

/* To port 4791, as that of a device's packets is another. */
static void refuse(struct ur_device *device, const struct ur_path *from,
		   const struct ur_cm_message *message)
{
	struct ur_path path = *from;
	struct ur_cm_message refusal;

	if (!ur_gsi_refusal(message, &refusal)) {
		drop(device);
		return;
	}
	ur_address_set_port(&path.remote, UR_UDP_PORT);
	ur_gsi_send_locked(device, &path, &refusal);
	device->counters.cm_refused++;
}

/* ---- Requests ---- */

static void pass_request(struct ur_device *device, const struct ur_path *from, uint64_t service_id,
			 const struct ur_claimed *request, const struct ur_cm_message *message)
{
	int error = ur_claim_pass(service_id, request);

	if (!error)
		device->counters.rx_forwarded++;
	else if (error == ECONNREFUSED)
		refuse(device, from, message);
	else
		drop(device);
}

static void receive_request(struct ur_device *device, const struct ur_path *from,
			    uint64_t service_id, const struct ur_packet *packet,
			    const struct ur_cm_message *message)
{
	struct ur_claimed request = { .from = from->remote };

	ur_device_address(device, from->gid_index, &request.to);
	memcpy(request.mad, packet->payload, sizeof(request.mad));
	if (!ur_cm_serves(service_id, &request.to))
		pass_request(device, from, service_id, &request, message);
	else if (!ur_cm_input(device, from, message))
		refuse(device, from, message);
}

/* ---- All else ---- */

/* The process that the message is for has made one of its ids. */
static uint8_t receiver_number(const struct ur_cm_message *message)
{
	uint32_t id = message->kind == UR_CM_SIDR_REP ? message->local_id : message->remote_id;

	return (uint8_t)(id >> NUMBER_SHIFT);
}

/* Whether the process is there is of interest only for what is refused otherwise. */
static bool pass_answer(struct ur_device *device, uint8_t number,
			const struct ur_cm_message *message)
{
	bool if_there = message->kind == UR_CM_REP || message->kind == UR_CM_DREQ ||
			message->kind == UR_CM_LAP;

	return ur_link_pass_on(device->link, number, if_there);
}

static void receive_answer(struct ur_device *device, const struct ur_path *from,
			   const struct ur_cm_message *message)
{
	uint8_t number = receiver_number(message);
	bool ours = number == ur_link_number(device->link);

	if (!(ours ? ur_cm_input(device, from, message) : pass_answer(device, number, message)))
		refuse(device, from, message);
}

/* ---- Receiving ---- */

static bool is_message(const struct ur_packet *packet, struct ur_cm_message *message)
{
	return packet->opcode == UR_UD_SEND_ONLY && packet->qkey == UR_GSI_QKEY &&
	       ur_cm_decode(packet->payload, packet->payload_length, message) == UR_CM_DECODED;
}

void ur_gsi_receive(struct ur_device *device, const struct ur_packet *packet,
		    const struct ur_path *from)
{
	struct ur_cm_message message;

	if (!is_message(packet, &message)) {
		device->counters.rx_unexpected++;
		return;
	}
	device->counters.cm_received++;
	if (message.kind == UR_CM_REQ)
		receive_request(device, from, message.req.service_id, packet, &message);
	else if (message.kind == UR_CM_SIDR_REQ)
		receive_request(device, from, message.sidr_req.service_id, packet, &message);
	else
		receive_answer(device, from, &message);
}
