#include "cm_message.h"

#include <assert.h>
#include <infiniband/verbs.h>
#include <string.h>

#define HEADER_SIZE 24

/* Bytes of the header that all management datagrams have; the rest of it is zeros. */
#define BASE_VERSION_AT   0
#define CLASS_AT          1
#define CLASS_VERSION_AT  2
#define METHOD_AT         3
#define TRANSACTION_ID_AT 8
#define ATTRIBUTE_ID_AT   16

#define BASE_VERSION  1
#define CLASS         7
#define CLASS_VERSION 2
#define METHOD_SEND   3

#define IP_HEADER_VERSION 0

/* Where a number or an array of bytes stands in a datagram, and in the structure of it. */
struct field {
	uint16_t bit, width; /* bit 0 is the highest of the first byte */
	uint16_t offset, size;
};

#define FIELD_OF(type, byte, first_bit, bits, member)                   \
	{                                                               \
		(byte) * 8 + (first_bit), bits, offsetof(type, member), \
			sizeof(((type *)NULL)->member)                  \
	}

#define FIELD(byte, first_bit, bits, member) \
	FIELD_OF(struct ur_cm_message, byte, first_bit, bits, member)

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

#define BOTH_IDS FIELD(0, 0, 32, local_id), FIELD(4, 0, 32, remote_id)

/* The tables of section 12.6, whose bytes count from the end of the header. */

static const struct field req_fields[] = {
	FIELD(0, 0, 32, local_id),
	FIELD(8, 0, 64, req.service_id),
	FIELD(16, 0, 64, req.ca_guid),
	FIELD(28, 0, 32, req.qkey),
	FIELD(32, 0, 24, req.qpn),
	FIELD(35, 0, 8, req.responder_resources),
	FIELD(39, 0, 8, req.initiator_depth),
	FIELD(43, 0, 5, req.remote_timeout),
	FIELD(43, 5, 2, req.transport),
	FIELD(43, 7, 1, req.flow_control),
	FIELD(44, 0, 24, req.psn),
	FIELD(47, 0, 5, req.local_timeout),
	FIELD(47, 5, 3, req.retry_count),
	FIELD(48, 0, 16, req.pkey),
	FIELD(50, 0, 4, req.path_mtu),
	FIELD(50, 5, 3, req.rnr_retry_count),
	FIELD(51, 0, 4, req.max_cm_retries),
	FIELD(51, 4, 1, req.srq),
	FIELD(51, 5, 3, req.extended_transport),
	FIELD(52, 0, 16, req.path.local_lid),
	FIELD(54, 0, 16, req.path.remote_lid),
	FIELD(56, 0, 128, req.path.local_gid),
	FIELD(72, 0, 128, req.path.remote_gid),
	FIELD(88, 0, 20, req.path.flow_label),
	FIELD(91, 2, 6, req.path.rate),
	FIELD(92, 0, 8, req.path.traffic_class),
	FIELD(93, 0, 8, req.path.hop_limit),
	FIELD(94, 0, 4, req.path.sl),
	FIELD(94, 4, 1, req.path.subnet_local),
	FIELD(95, 0, 5, req.path.ack_timeout),
};

static const struct field mra_fields[] = {
	BOTH_IDS,
	FIELD(8, 0, 2, mra.message),
	FIELD(9, 0, 5, mra.service_timeout),
};

static const struct field rej_fields[] = {
	BOTH_IDS,
	FIELD(8, 0, 2, rej.message),
	FIELD(9, 0, 7, rej.info_length),
	FIELD(10, 0, 16, rej.reason),
	FIELD(12, 0, 576, rej.info),
};

static const struct field rep_fields[] = {
	BOTH_IDS,
	FIELD(8, 0, 32, rep.qkey),
	FIELD(12, 0, 24, rep.qpn),
	FIELD(16, 0, 24, rep.eecn),
	FIELD(20, 0, 24, rep.psn),
	FIELD(24, 0, 8, rep.responder_resources),
	FIELD(25, 0, 8, rep.initiator_depth),
	FIELD(26, 0, 5, rep.target_ack_delay),
	FIELD(26, 5, 2, rep.failover),
	FIELD(26, 7, 1, rep.flow_control),
	FIELD(27, 0, 3, rep.rnr_retry_count),
	FIELD(27, 3, 1, rep.srq),
	FIELD(28, 0, 64, rep.ca_guid),
};

static const struct field only_ids[] = { BOTH_IDS };

static const struct field dreq_fields[] = {
	BOTH_IDS,
	FIELD(8, 0, 24, dreq.remote_qpn),
};

static const struct field sidr_req_fields[] = {
	FIELD(0, 0, 32, local_id),
	FIELD(4, 0, 16, sidr_req.pkey),
	FIELD(8, 0, 64, sidr_req.service_id),
};

static const struct field sidr_rep_fields[] = {
	FIELD(0, 0, 32, local_id),
	FIELD(4, 0, 8, sidr_rep.status),
	FIELD(5, 0, 8, sidr_rep.info_length),
	FIELD(8, 0, 24, sidr_rep.qpn),
	FIELD(12, 0, 64, sidr_rep.service_id),
	FIELD(20, 0, 32, sidr_rep.qkey),
	FIELD(24, 0, 576, sidr_rep.info),
};

static const struct field lap_fields[] = {
	BOTH_IDS,
	FIELD(12, 0, 24, lap.remote_qpn),
	FIELD(15, 0, 5, lap.remote_timeout),
	FIELD(20, 0, 16, lap.path.local_lid),
	FIELD(22, 0, 16, lap.path.remote_lid),
	FIELD(24, 0, 128, lap.path.local_gid),
	FIELD(40, 0, 128, lap.path.remote_gid),
	FIELD(56, 0, 20, lap.path.flow_label),
	FIELD(59, 0, 8, lap.path.traffic_class),
	FIELD(60, 0, 8, lap.path.hop_limit),
	FIELD(61, 2, 6, lap.path.rate),
	FIELD(62, 0, 4, lap.path.sl),
	FIELD(62, 4, 1, lap.path.subnet_local),
	FIELD(63, 0, 5, lap.path.ack_timeout),
};

static const struct field apr_fields[] = {
	BOTH_IDS,
	FIELD(8, 0, 8, apr.info_length),
	FIELD(9, 0, 8, apr.status),
	FIELD(12, 0, 576, apr.info),
};

#define FIRST_KIND UR_CM_REQ

/* The private data takes all that is left. */
static const struct kind {
	const char *name;
	const struct field *fields;
	size_t count;
	size_t private_at; /* from the end of the header */
} kinds[] = {
	[UR_CM_REQ - FIRST_KIND] = { "REQ", req_fields, COUNT(req_fields), 140 },
	[UR_CM_MRA - FIRST_KIND] = { "MRA", mra_fields, COUNT(mra_fields), 10 },
	[UR_CM_REJ - FIRST_KIND] = { "REJ", rej_fields, COUNT(rej_fields), 84 },
	[UR_CM_REP - FIRST_KIND] = { "REP", rep_fields, COUNT(rep_fields), 36 },
	[UR_CM_RTU - FIRST_KIND] = { "RTU", only_ids, COUNT(only_ids), 8 },
	[UR_CM_DREQ - FIRST_KIND] = { "DREQ", dreq_fields, COUNT(dreq_fields), 12 },
	[UR_CM_DREP - FIRST_KIND] = { "DREP", only_ids, COUNT(only_ids), 8 },
	[UR_CM_SIDR_REQ - FIRST_KIND] = { "SIDR_REQ", sidr_req_fields, COUNT(sidr_req_fields), 16 },
	[UR_CM_SIDR_REP - FIRST_KIND] = { "SIDR_REP", sidr_rep_fields, COUNT(sidr_rep_fields), 96 },
	[UR_CM_LAP - FIRST_KIND] = { "LAP", lap_fields, COUNT(lap_fields), 64 },
	[UR_CM_APR - FIRST_KIND] = { "APR", apr_fields, COUNT(apr_fields), 84 },
};

static const struct field ip_fields[] = {
	FIELD_OF(struct ur_cm_ip_header, 1, 0, 4, ip_version),
	FIELD_OF(struct ur_cm_ip_header, 2, 0, 16, source_port),
	FIELD_OF(struct ur_cm_ip_header, 4, 0, 128, source),
	FIELD_OF(struct ur_cm_ip_header, 20, 0, 128, dest),
};

static const struct kind *find_kind(uint16_t kind)
{
	if (kind < FIRST_KIND || kind - FIRST_KIND >= (int)COUNT(kinds))
		return NULL;
	return &kinds[kind - FIRST_KIND];
}

static size_t private_room(const struct kind *kind)
{
	return UR_MAD_SIZE - HEADER_SIZE - kind->private_at;
}

const char *ur_cm_kind_name(uint16_t kind)
{
	const struct kind *found = find_kind(kind);

	return found ? found->name : "?";
}

size_t ur_cm_private_room(uint16_t kind)
{
	const struct kind *found = find_kind(kind);

	return found ? private_room(found) : 0;
}

/* Bit by bit: there are few messages, and fields of any width at any place. */
static uint64_t read_bits(const uint8_t *data, unsigned bit, unsigned width)
{
	uint64_t value = 0;

	for (unsigned i = bit; i < bit + width; i++)
		value = value << 1 | (data[i / 8] >> (7 - i % 8) & 1);
	return value;
}

/* The bits were zeros. */
static void write_bits(uint8_t *data, unsigned bit, unsigned width, uint64_t value)
{
	for (unsigned i = bit + width; i-- > bit; value >>= 1)
		data[i / 8] |= (uint8_t)((value & 1) << (7 - i % 8));
}

static uint64_t load(const void *member, size_t size)
{
	switch (size) {
	case sizeof(uint8_t):
		return *(const uint8_t *)member;
	case sizeof(uint16_t):
		return *(const uint16_t *)member;
	case sizeof(uint32_t):
		return *(const uint32_t *)member;
	default:
		return *(const uint64_t *)member;
	}
}

static void store(void *member, size_t size, uint64_t value)
{
	switch (size) {
	case sizeof(uint8_t):
		*(uint8_t *)member = (uint8_t)value;
		break;
	case sizeof(uint16_t):
		*(uint16_t *)member = (uint16_t)value;
		break;
	case sizeof(uint32_t):
		*(uint32_t *)member = (uint32_t)value;
		break;
	default:
		*(uint64_t *)member = value;
	}
}

static bool is_array(const struct field *field)
{
	return field->size > sizeof(uint64_t);
}

static void decode_fields(const struct field *fields, size_t count, const uint8_t *data,
			  void *structure)
{
	for (const struct field *field = fields; field < fields + count; field++) {
		uint8_t *member = (uint8_t *)structure + field->offset;

		if (is_array(field))
			memcpy(member, data + field->bit / 8, field->size);
		else
			store(member, field->size, read_bits(data, field->bit, field->width));
	}
}

static void encode_fields(const struct field *fields, size_t count, const void *structure,
			  uint8_t *data)
{
	for (const struct field *field = fields; field < fields + count; field++) {
		const uint8_t *member = (const uint8_t *)structure + field->offset;

		if (is_array(field))
			memcpy(data + field->bit / 8, member, field->size);
		else
			write_bits(data, field->bit, field->width, load(member, field->size));
	}
}

static bool has_right_fields(const struct ur_cm_message *message)
{
	switch (message->kind) {
	case UR_CM_REQ:
		return message->req.path_mtu >= IBV_MTU_256 &&
		       message->req.path_mtu <= IBV_MTU_4096;
	case UR_CM_REJ:
		return message->rej.info_length <= sizeof(message->rej.info);
	case UR_CM_SIDR_REP:
		return message->sidr_rep.info_length <= sizeof(message->sidr_rep.info);
	case UR_CM_APR:
		return message->apr.info_length <= sizeof(message->apr.info);
	default:
		return true;
	}
}

static void decode_message(const struct kind *kind, const uint8_t *mad,
			   struct ur_cm_message *message)
{
	const uint8_t *body = mad + HEADER_SIZE;

	memset(message, 0, sizeof(*message));
	message->kind = (uint16_t)read_bits(mad, ATTRIBUTE_ID_AT * 8, 16);
	message->transaction_id = read_bits(mad, TRANSACTION_ID_AT * 8, 64);
	decode_fields(kind->fields, kind->count, body, message);
	message->private_length = private_room(kind);
	memcpy(message->private_data, body + kind->private_at, message->private_length);
}

enum ur_cm_decode_result ur_cm_decode(const void *data, size_t length,
				      struct ur_cm_message *message)
{
	const uint8_t *mad = data;
	const struct kind *kind;

	if (length != UR_MAD_SIZE || mad[BASE_VERSION_AT] != BASE_VERSION)
		return UR_CM_NO_MAD;
	if (mad[CLASS_AT] != CLASS || mad[CLASS_VERSION_AT] != CLASS_VERSION)
		return UR_CM_OTHER_CLASS;
	if (mad[METHOD_AT] != METHOD_SEND)
		return UR_CM_OTHER_METHOD;
	kind = find_kind((uint16_t)read_bits(mad, ATTRIBUTE_ID_AT * 8, 16));
	if (!kind)
		return UR_CM_UNKNOWN_KIND;
	decode_message(kind, mad, message);
	return has_right_fields(message) ? UR_CM_DECODED : UR_CM_BAD_FIELD;
}

void ur_cm_encode(const struct ur_cm_message *message, uint8_t mad[UR_MAD_SIZE])
{
	const struct kind *kind = find_kind(message->kind);
	uint8_t *body = mad + HEADER_SIZE;

	assert(kind && message->private_length <= private_room(kind));
	memset(mad, 0, UR_MAD_SIZE);
	mad[BASE_VERSION_AT] = BASE_VERSION;
	mad[CLASS_AT] = CLASS;
	mad[CLASS_VERSION_AT] = CLASS_VERSION;
	mad[METHOD_AT] = METHOD_SEND;
	write_bits(mad, TRANSACTION_ID_AT * 8, 64, message->transaction_id);
	write_bits(mad, ATTRIBUTE_ID_AT * 8, 16, message->kind);
	encode_fields(kind->fields, kind->count, message, body);
	memcpy(body + kind->private_at, message->private_data, message->private_length);
}

bool ur_cm_ip_header_decode(const uint8_t data[UR_CM_IP_HEADER_SIZE],
			    struct ur_cm_ip_header *header)
{
	memset(header, 0, sizeof(*header));
	decode_fields(ip_fields, COUNT(ip_fields), data, header);
	return data[0] == IP_HEADER_VERSION && (header->ip_version == 4 || header->ip_version == 6);
}

void ur_cm_ip_header_encode(const struct ur_cm_ip_header *header,
			    uint8_t data[UR_CM_IP_HEADER_SIZE])
{
	memset(data, 0, UR_CM_IP_HEADER_SIZE);
	encode_fields(ip_fields, COUNT(ip_fields), header, data);
}
