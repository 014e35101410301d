#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <string.h>

#include "../../../uroce/wire/cm_message.h"
#include "../../../uroce/wire/packet.h"
#include "pcap_reader.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Where things stand in a datagram. */
#define BODY      24
#define REQ_MTU   (BODY + 50)
#define REJ_INFO  (BODY + 9)
#define SIDR_INFO (BODY + 5)

#define SERVER_GID "\0\0\0\0\0\0\0\0\0\0\xff\xff\x0a\x4d\0\x01"
#define CLIENT_GID "\0\0\0\0\0\0\0\0\0\0\xff\xff\x0a\x4d\0\x02"
#define SERVER_IP  "\0\0\0\0\0\0\0\0\0\0\0\0\x0a\x4d\0\x01"
#define CLIENT_IP  "\0\0\0\0\0\0\0\0\0\0\0\0\x0a\x4d\0\x02"

/* Sizes of private data by kind. */
static const struct {
	uint16_t kind;
	const char *name;
	size_t room;
} kinds[] = {
	{ UR_CM_REQ, "REQ", 92 },
	{ UR_CM_MRA, "MRA", 222 },
	{ UR_CM_REJ, "REJ", 148 },
	{ UR_CM_REP, "REP", 196 },
	{ UR_CM_RTU, "RTU", 224 },
	{ UR_CM_DREQ, "DREQ", 220 },
	{ UR_CM_DREP, "DREP", 224 },
	{ UR_CM_SIDR_REQ, "SIDR_REQ", 216 },
	{ UR_CM_SIDR_REP, "SIDR_REP", 136 },
	{ UR_CM_LAP, "LAP", 168 },
	{ UR_CM_APR, "APR", 148 },
};

static struct pcap vectors;

static int read_vectors(void **state)
{
	(void)state;
	return pcap_add_folder(&vectors, VECTORS_FOLDER) ? 0 : -1;
}

static int free_vectors(void **state)
{
	(void)state;
	pcap_free(&vectors);
	return 0;
}

static void assert_decodes(const uint8_t *mad, struct ur_cm_message *message)
{
	assert_int_equal(ur_cm_decode(mad, UR_MAD_SIZE, message), UR_CM_DECODED);
}

/* The management datagram in a packet, or NULL. */
static const uint8_t *mad_in(const struct pcap_packet *vector)
{
	struct ur_packet packet;

	if (ur_packet_decode(vector->data, vector->length, &packet) != UR_DECODED ||
	    packet.opcode != UR_UD_SEND_ONLY || packet.dest_qpn != UR_GSI_QPN)
		return NULL;
	assert_int_equal(packet.payload_length, UR_MAD_SIZE);
	assert_int_equal(packet.qkey, UR_GSI_QKEY);
	return packet.payload;
}

/* The message of a kind and transaction in the captures, one that is there. */
static struct ur_cm_message captured(uint16_t kind, uint64_t transaction_id)
{
	struct ur_cm_message message;

	for (size_t i = 0; i < vectors.count; i++) {
		const uint8_t *mad = mad_in(&vectors.packets[i]);

		if (!mad)
			continue;
		assert_decodes(mad, &message);
		if (message.kind == kind && message.transaction_id == transaction_id)
			return message;
	}
	fail_msg("no message of kind %#x", kind);
	abort();
}

static void test_every_message_of_the_kernel_becomes_the_same_again(void **state)
{
	(void)state;
	for (size_t i = 0; i < vectors.count; i++) {
		const uint8_t *mad = mad_in(&vectors.packets[i]);
		struct ur_cm_message message;
		uint8_t again[UR_MAD_SIZE];

		if (!mad)
			continue;
		assert_decodes(mad, &message);
		ur_cm_encode(&message, again);
		assert_memory_equal(again, mad, UR_MAD_SIZE);
	}
}

static void test_the_vectors_hold_all_kinds_that_the_kernel_sent(void **state)
{
	static const size_t expected[COUNT(kinds)] = { 7, 0, 1, 6, 6, 6, 6, 1, 1, 0, 0 };
	size_t counts[COUNT(kinds)] = { 0 };

	(void)state;
	for (size_t i = 0; i < vectors.count; i++) {
		const uint8_t *mad = mad_in(&vectors.packets[i]);
		struct ur_cm_message message;

		if (!mad)
			continue;
		assert_decodes(mad, &message);
		counts[message.kind - UR_CM_REQ]++;
	}
	assert_memory_equal(counts, expected, sizeof(counts));
}

/* The values of this and the next tests are what tshark shows of the captures. */
static void test_a_request_has_its_fields_in_their_places(void **state)
{
	struct ur_cm_message message = captured(UR_CM_REQ, 0x2122e219a);
	const struct ur_cm_req *req = &message.req;

	(void)state;
	assert_int_equal(message.local_id, 0x9a212e12);
	assert_int_equal(message.remote_id, 0);
	assert_int_equal(message.private_length, 92);
	assert_int_equal(req->service_id, 0x1061c06);
	assert_int_equal(req->ca_guid, 0x505400fffe00000b);
	assert_int_equal(req->qkey, 0);
	assert_int_equal(req->qpn, 0x16);
	assert_int_equal(req->psn, 0xe2c741);
	assert_int_equal(req->responder_resources, 1);
	assert_int_equal(req->initiator_depth, 1);
	assert_int_equal(req->remote_timeout, 20);
	assert_int_equal(req->local_timeout, 20);
	assert_int_equal(req->transport, UR_CM_RC);
	assert_false(req->flow_control);
	assert_int_equal(req->retry_count, 7);
	assert_int_equal(req->rnr_retry_count, 7);
	assert_int_equal(req->max_cm_retries, 15);
	assert_int_equal(req->pkey, 0xffff);
	assert_int_equal(req->path_mtu, IBV_MTU_4096);
	assert_false(req->srq);
}

static void test_a_request_has_the_fields_of_its_path_in_their_places(void **state)
{
	struct ur_cm_message message = captured(UR_CM_REQ, 0x2122e219a);
	const struct ur_cm_path *path = &message.req.path;

	(void)state;
	assert_int_equal(path->local_lid, 0xffff);
	assert_int_equal(path->remote_lid, 0xffff);
	assert_memory_equal(path->local_gid, CLIENT_GID, 16);
	assert_memory_equal(path->remote_gid, SERVER_GID, 16);
	/* Of these two tshark 4.0 shows something else: it reads fewer bytes than the four they are in. */
	assert_int_equal(path->flow_label, 0x44757);
	assert_int_equal(path->rate, 0);
	assert_int_equal(path->traffic_class, 0);
	assert_int_equal(path->hop_limit, 64);
	assert_int_equal(path->sl, 0);
	assert_false(path->subnet_local);
	assert_int_equal(path->ack_timeout, 19);
}

static void test_a_request_has_ip_addresses_before_the_private_data(void **state)
{
	struct ur_cm_message message = captured(UR_CM_REQ, 0x2122e219a);
	struct ur_cm_ip_header header;
	uint8_t encoded[UR_CM_IP_HEADER_SIZE];

	(void)state;
	assert_true(ur_cm_ip_header_decode(message.private_data, &header));
	assert_int_equal(header.ip_version, 4);
	assert_int_equal(header.source_port, 0xa68f);
	assert_memory_equal(header.source, CLIENT_IP, 16);
	assert_memory_equal(header.dest, SERVER_IP, 16);
	ur_cm_ip_header_encode(&header, encoded);
	assert_memory_equal(encoded, message.private_data, sizeof(encoded));
}

static void test_a_reply_has_its_fields_in_their_places(void **state)
{
	struct ur_cm_message message = captured(UR_CM_REP, 0x2122e219b);
	const struct ur_cm_rep *rep = &message.rep;

	(void)state;
	assert_int_equal(message.local_id, 0xe76cd734);
	assert_int_equal(message.remote_id, 0x9b212e12);
	assert_int_equal(rep->qkey, 0);
	assert_int_equal(rep->qpn, 0x17);
	assert_int_equal(rep->psn, 0xab141f);
	assert_int_equal(rep->responder_resources, 4);
	assert_int_equal(rep->initiator_depth, 4);
	assert_int_equal(rep->target_ack_delay, 15);
	assert_int_equal(rep->failover, 0);
	assert_false(rep->flow_control);
	assert_int_equal(rep->rnr_retry_count, 1);
	assert_false(rep->srq);
	assert_int_equal(rep->ca_guid, 0x505400fffe00000a);
	assert_memory_equal(message.private_data, "\x00\x00\x56\x19\x05\x4e\xf0\x00", 8);
}

static void test_a_rejection_has_its_fields_in_their_places(void **state)
{
	struct ur_cm_message message = captured(UR_CM_REJ, 0x2122e219d);

	(void)state;
	assert_int_equal(message.local_id, 0);
	assert_int_equal(message.remote_id, 0x9d212e12);
	assert_int_equal(message.rej.message, 0);
	assert_int_equal(message.rej.reason, UR_CM_INVALID_SERVICE_ID);
	assert_int_equal(message.rej.info_length, 0);
}

static void test_other_messages_have_their_fields_in_their_places(void **state)
{
	struct ur_cm_message rtu = captured(UR_CM_RTU, 0x2122e219a);
	struct ur_cm_message dreq = captured(UR_CM_DREQ, 0x2122e219a);
	struct ur_cm_message drep = captured(UR_CM_DREP, 0x2122e219a);

	(void)state;
	assert_int_equal(rtu.local_id, 0x9a212e12);
	assert_int_equal(rtu.remote_id, 0xe56cd734);
	assert_int_equal(dreq.local_id, 0x9a212e12);
	assert_int_equal(dreq.remote_id, 0xe56cd734);
	assert_int_equal(dreq.dreq.remote_qpn, 0x16);
	assert_int_equal(drep.local_id, 0xe56cd734);
	assert_int_equal(drep.remote_id, 0x9a212e12);
}

static void test_service_resolution_has_its_fields_in_their_places(void **state)
{
	struct ur_cm_message request = captured(UR_CM_SIDR_REQ, 0x2122e219e);
	struct ur_cm_message reply = captured(UR_CM_SIDR_REP, 0x2122e219e);
	struct ur_cm_ip_header header;

	(void)state;
	assert_int_equal(request.local_id, 0x9e212e12);
	assert_int_equal(request.sidr_req.pkey, 0xffff);
	assert_int_equal(request.sidr_req.service_id, 0x1111c06);
	assert_true(ur_cm_ip_header_decode(request.private_data, &header));
	assert_int_equal(header.source_port, 0xe679);
	assert_int_equal(reply.local_id, 0x9e212e12);
	assert_int_equal(reply.remote_id, 0);
	assert_int_equal(reply.sidr_rep.status, 0);
	assert_int_equal(reply.sidr_rep.info_length, 0);
	assert_int_equal(reply.sidr_rep.qpn, 0x1a);
	assert_int_equal(reply.sidr_rep.service_id, 0x1111c06);
	assert_int_equal(reply.sidr_rep.qkey, 0x1234567);
}

/* ---- Without captures: each bit at its place, also those that the kernel leaves zero ---- */

/* A message, and the bytes that it is made of behind the header; the rest are zeros. */
static void assert_encodes(const struct ur_cm_message *message, const void *body, size_t size)
{
	static const uint8_t header[BODY] = { 1, 7, 2, 3, [8] = 1, 2, 3, 4, 5, 6, 7, 8 };
	uint8_t expected[UR_MAD_SIZE] = { 0 }, mad[UR_MAD_SIZE];
	struct ur_cm_message again;

	memcpy(expected, header, sizeof(header));
	expected[17] = (uint8_t)message->kind;
	memcpy(expected + BODY, body, size);
	memset(mad, 0xa5, sizeof(mad));
	ur_cm_encode(message, mad);
	assert_memory_equal(mad, expected, sizeof(mad));
	assert_decodes(mad, &again);
	ur_cm_encode(&again, mad);
	assert_memory_equal(mad, expected, sizeof(mad));
}

#define MESSAGE(the_kind, ...)                                                                    \
	&(struct ur_cm_message)                                                                   \
	{                                                                                         \
		.kind = (the_kind), .transaction_id = 0x0102030405060708, .local_id = 0x11223344, \
		__VA_ARGS__                                                                       \
	}

#define BYTES(text) text, sizeof(text) - 1

#define GID_A  "abcdefghijklmnop"
#define GID_B  "ABCDEFGHIJKLMNOP"
#define ZEROS4 "\0\0\0\0"
#define IDS    "\x11\x22\x33\x44\x55\x66\x77\x88"

static void test_a_request_is_put_together_bit_by_bit(void **state)
{
	(void)state;
	assert_encodes(MESSAGE(UR_CM_REQ, .req = { .service_id = 0x0a0b0c0d0e0f1011,
						   .ca_guid = 0x2122232425262728,
						   .qkey = 0x31323334,
						   .qpn = 0x414243,
						   .psn = 0x515253,
						   .responder_resources = 0x44,
						   .initiator_depth = 0x45,
						   .remote_timeout = 17,
						   .local_timeout = 18,
						   .transport = UR_CM_EXTENDED,
						   .extended_transport = 5,
						   .flow_control = true,
						   .retry_count = 5,
						   .rnr_retry_count = 3,
						   .max_cm_retries = 9,
						   .pkey = 0x6162,
						   .path_mtu = IBV_MTU_1024,
						   .srq = true,
						   .path = { .local_lid = 0x7172,
							     .remote_lid = 0x7374,
							     .local_gid = GID_A,
							     .remote_gid = GID_B,
							     .flow_label = 0x81828,
							     .rate = 0x2a,
							     .traffic_class = 0x91,
							     .hop_limit = 0x92,
							     .sl = 0xa,
							     .subnet_local = true,
							     .ack_timeout = 19 } }),
		       BYTES("\x11\x22\x33\x44" ZEROS4 "\x0a\x0b\x0c\x0d\x0e\x0f\x10\x11"
			     "\x21\x22\x23\x24\x25\x26\x27\x28" ZEROS4 "\x31\x32\x33\x34"
			     "\x41\x42\x43\x44\0\0\0\x45\0\0\0\x8f\x51\x52\x53\x95"
			     "\x61\x62\x33\x9d\x71\x72\x73\x74" GID_A GID_B "\x81\x82\x80\x2a"
			     "\x91\x92\xa8\x98"));
}

static void test_a_reply_is_put_together_bit_by_bit(void **state)
{
	(void)state;
	assert_encodes(MESSAGE(UR_CM_REP, .remote_id = 0x55667788,
			       .rep = { .qkey = 0x31323334,
					.qpn = 0x414243,
					.eecn = 0x717273,
					.psn = 0x515253,
					.responder_resources = 0x61,
					.initiator_depth = 0x62,
					.target_ack_delay = 19,
					.failover = 2,
					.flow_control = true,
					.rnr_retry_count = 5,
					.srq = true,
					.ca_guid = 0x2122232425262728 }),
		       BYTES(IDS "\x31\x32\x33\x34\x41\x42\x43\0\x71\x72\x73\0\x51\x52\x53\0"
				 "\x61\x62\x9d\xb0\x21\x22\x23\x24\x25\x26\x27\x28"));
}

static void test_short_messages_are_put_together_bit_by_bit(void **state)
{
	(void)state;
	assert_encodes(MESSAGE(UR_CM_MRA, .remote_id = 0x55667788,
			       .mra = { .message = 2, .service_timeout = 19 }),
		       BYTES(IDS "\x80\x98"));
	assert_encodes(MESSAGE(UR_CM_REJ, .remote_id = 0x55667788,
			       .rej = { .message = 1,
					.reason = 0x1234,
					.info_length = 16,
					.info = GID_A }),
		       BYTES(IDS "\x40\x20\x12\x34" GID_A));
	assert_encodes(MESSAGE(UR_CM_DREQ, .remote_id = 0x55667788,
			       .dreq = { .remote_qpn = 0x414243 }),
		       BYTES(IDS "\x41\x42\x43"));
	assert_encodes(MESSAGE(UR_CM_SIDR_REQ,
			       .sidr_req = { .pkey = 0x6162, .service_id = 0x0a0b0c0d0e0f1011 }),
		       BYTES("\x11\x22\x33\x44\x61\x62\0\0\x0a\x0b\x0c\x0d\x0e\x0f\x10\x11"));
	assert_encodes(MESSAGE(UR_CM_SIDR_REP, .sidr_rep = { .status = 4,
							     .info_length = 16,
							     .qpn = 0x414243,
							     .qkey = 0x31323334,
							     .service_id = 0x0a0b0c0d0e0f1011,
							     .info = GID_A }),
		       BYTES("\x11\x22\x33\x44\x04\x10\0\0\x41\x42\x43\0"
			     "\x0a\x0b\x0c\x0d\x0e\x0f\x10\x11\x31\x32\x33\x34" GID_A));
}

static void test_alternate_paths_are_put_together_bit_by_bit(void **state)
{
	(void)state;
	assert_encodes(MESSAGE(UR_CM_LAP, .remote_id = 0x55667788,
			       .lap = { .remote_qpn = 0x414243,
					.remote_timeout = 17,
					.path = { .local_lid = 0x7172,
						  .remote_lid = 0x7374,
						  .local_gid = GID_A,
						  .remote_gid = GID_B,
						  .flow_label = 0x81828,
						  .rate = 0x2a,
						  .traffic_class = 0x91,
						  .hop_limit = 0x92,
						  .sl = 0xa,
						  .subnet_local = true,
						  .ack_timeout = 19 } }),
		       BYTES(IDS ZEROS4 "\x41\x42\x43\x88" ZEROS4 "\x71\x72\x73\x74" GID_A GID_B
					"\x81\x82\x80\x91\x92\x2a\xa8\x98"));
	assert_encodes(MESSAGE(UR_CM_APR, .remote_id = 0x55667788,
			       .apr = { .info_length = 16, .status = 2, .info = GID_A }),
		       BYTES(IDS "\x10\x02\0\0" GID_A));
}

static void test_numbers_wider_than_their_field_do_not_touch_what_stands_around_it(void **state)
{
	(void)state;
	assert_encodes(MESSAGE(UR_CM_DREQ, .remote_id = 0x55667788,
			       .dreq = { .remote_qpn = 0xff414243 }),
		       BYTES(IDS "\x41\x42\x43"));
	assert_encodes(MESSAGE(UR_CM_MRA, .remote_id = 0x55667788,
			       .mra = { .message = 0xfe, .service_timeout = 0xf3 }),
		       BYTES(IDS "\x80\x98"));
}

static void test_reserved_bits_are_not_looked_at(void **state)
{
	uint8_t mad[UR_MAD_SIZE];
	struct ur_cm_message message, again;

	(void)state;
	message = captured(UR_CM_REP, 0x2122e219a);
	ur_cm_encode(&message, mad);
	mad[BODY + 15] = mad[BODY + 19] = mad[BODY + 23] = 0xff;
	mad[BODY + 27] |= 0x0f;
	assert_decodes(mad, &again);
	assert_memory_equal(&again, &message, sizeof(again));
}

static void test_each_kind_has_a_name_and_room(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(kinds); i++) {
		assert_string_equal(ur_cm_kind_name(kinds[i].kind), kinds[i].name);
		assert_int_equal(ur_cm_private_room(kinds[i].kind), kinds[i].room);
		assert_true(kinds[i].room <= UR_CM_MAX_PRIVATE);
	}
}

static void test_another_kind_has_neither(void **state)
{
	static const uint16_t others[] = { 0, UR_CM_REQ - 1, UR_CM_APR + 1, 0xffff };

	(void)state;
	for (size_t i = 0; i < COUNT(others); i++) {
		assert_string_equal(ur_cm_kind_name(others[i]), "?");
		assert_int_equal(ur_cm_private_room(others[i]), 0);
	}
}

static void test_private_data_fills_the_message_to_its_end(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(kinds); i++) {
		struct ur_cm_message message = { .kind = kinds[i].kind }, again;
		uint8_t mad[UR_MAD_SIZE];

		if (message.kind == UR_CM_REQ)
			message.req.path_mtu = IBV_MTU_256;
		message.private_length = kinds[i].room;
		memset(message.private_data, 0xc3, kinds[i].room);
		ur_cm_encode(&message, mad);
		assert_int_equal(mad[UR_MAD_SIZE - kinds[i].room - 1], 0);
		for (size_t at = UR_MAD_SIZE - kinds[i].room; at < UR_MAD_SIZE; at++)
			assert_int_equal(mad[at], 0xc3);
		assert_decodes(mad, &again);
		assert_int_equal(again.private_length, kinds[i].room);
		assert_memory_equal(again.private_data, message.private_data, kinds[i].room);
	}
}

/* ---- Refusals ---- */

/* What becomes of the kernel's message with one byte changed. */
static enum ur_cm_decode_result decode_changed(uint16_t kind, uint64_t transaction_id, size_t at,
					       uint8_t value)
{
	struct ur_cm_message message = captured(kind, transaction_id);
	uint8_t mad[UR_MAD_SIZE];

	ur_cm_encode(&message, mad);
	mad[at] = value;
	return ur_cm_decode(mad, sizeof(mad), &message);
}

static enum ur_cm_decode_result decode_changed_req(size_t at, uint8_t value)
{
	return decode_changed(UR_CM_REQ, 0x2122e219a, at, value);
}

static void test_another_length_is_refused(void **state)
{
	struct ur_cm_message message = captured(UR_CM_REQ, 0x2122e219a);
	uint8_t longer[UR_MAD_SIZE + 1];

	(void)state;
	ur_cm_encode(&message, longer);
	assert_int_equal(ur_cm_decode(longer, sizeof(longer), &message), UR_CM_NO_MAD);
	for (size_t length = 0; length < UR_MAD_SIZE; length++) {
		/* Of the exact size, so that reading beyond it is found. */
		uint8_t *shorter = malloc(length ? length : 1);

		assert_non_null(shorter);
		memcpy(shorter, longer, length);
		assert_int_equal(ur_cm_decode(shorter, length, &message), UR_CM_NO_MAD);
		free(shorter);
	}
}

static void test_another_base_version_is_refused(void **state)
{
	(void)state;
	assert_int_equal(decode_changed_req(0, 0), UR_CM_NO_MAD);
	assert_int_equal(decode_changed_req(0, 2), UR_CM_NO_MAD);
}

static void test_another_class_or_class_version_is_refused(void **state)
{
	(void)state;
	assert_int_equal(decode_changed_req(1, 3), UR_CM_OTHER_CLASS);
	assert_int_equal(decode_changed_req(2, 1), UR_CM_OTHER_CLASS);
}

static void test_another_method_is_refused(void **state)
{
	(void)state;
	assert_int_equal(decode_changed_req(3, 1), UR_CM_OTHER_METHOD);
	assert_int_equal(decode_changed_req(3, 0x83), UR_CM_OTHER_METHOD);
}

static void test_a_kind_that_is_not_known_is_refused(void **state)
{
	(void)state;
	assert_int_equal(decode_changed_req(17, UR_CM_REQ - 1), UR_CM_UNKNOWN_KIND);
	assert_int_equal(decode_changed_req(17, UR_CM_APR + 1), UR_CM_UNKNOWN_KIND);
	assert_int_equal(decode_changed_req(16, 1), UR_CM_UNKNOWN_KIND);
}

static void test_an_mtu_that_there_is_not_is_refused(void **state)
{
	(void)state;
	for (uint8_t mtu = 0; mtu < 16; mtu++)
		assert_int_equal(decode_changed_req(REQ_MTU, (uint8_t)(mtu << 4)),
				 mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096 ? UR_CM_DECODED
									   : UR_CM_BAD_FIELD);
}

static void test_information_beyond_its_room_is_refused(void **state)
{
	(void)state;
	assert_int_equal(decode_changed(UR_CM_REJ, 0x2122e219d, REJ_INFO, 72 << 1), UR_CM_DECODED);
	assert_int_equal(decode_changed(UR_CM_REJ, 0x2122e219d, REJ_INFO, 73 << 1),
			 UR_CM_BAD_FIELD);
	assert_int_equal(decode_changed(UR_CM_SIDR_REP, 0x2122e219e, SIDR_INFO, 72), UR_CM_DECODED);
	assert_int_equal(decode_changed(UR_CM_SIDR_REP, 0x2122e219e, SIDR_INFO, 73),
			 UR_CM_BAD_FIELD);
}

static void test_ip_addresses_of_version_6_stand_whole(void **state)
{
	static const uint8_t expected[UR_CM_IP_HEADER_SIZE + 1] = "\0\x60\x12\x34" GID_A GID_B;
	struct ur_cm_ip_header header = {
		.ip_version = 6, .source_port = 0x1234, .source = GID_A, .dest = GID_B
	};
	struct ur_cm_ip_header again;
	uint8_t encoded[UR_CM_IP_HEADER_SIZE];

	(void)state;
	ur_cm_ip_header_encode(&header, encoded);
	assert_memory_equal(encoded, expected, sizeof(encoded));
	assert_true(ur_cm_ip_header_decode(encoded, &again));
	assert_int_equal(again.ip_version, 6);
	assert_int_equal(again.source_port, 0x1234);
	assert_memory_equal(again.source, GID_A, 16);
	assert_memory_equal(again.dest, GID_B, 16);
}

static void test_an_ip_header_of_another_version_is_refused(void **state)
{
	uint8_t data[UR_CM_IP_HEADER_SIZE] = { 0 };
	struct ur_cm_ip_header header;

	(void)state;
	for (unsigned version = 0; version < 16; version++) {
		/* The reserved bits beside it are not looked at. */
		data[1] = (uint8_t)(version << 4 | 0xf);
		assert_int_equal(ur_cm_ip_header_decode(data, &header),
				 version == 4 || version == 6);
	}
	data[1] = 0x40;
	for (data[0] = 1; data[0] != 0; data[0] = (uint8_t)(data[0] << 1))
		assert_false(ur_cm_ip_header_decode(data, &header));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_message_of_the_kernel_becomes_the_same_again),
		cmocka_unit_test(test_the_vectors_hold_all_kinds_that_the_kernel_sent),
		cmocka_unit_test(test_a_request_has_its_fields_in_their_places),
		cmocka_unit_test(test_a_request_has_the_fields_of_its_path_in_their_places),
		cmocka_unit_test(test_a_request_has_ip_addresses_before_the_private_data),
		cmocka_unit_test(test_a_reply_has_its_fields_in_their_places),
		cmocka_unit_test(test_a_rejection_has_its_fields_in_their_places),
		cmocka_unit_test(test_other_messages_have_their_fields_in_their_places),
		cmocka_unit_test(test_service_resolution_has_its_fields_in_their_places),
		cmocka_unit_test(test_a_request_is_put_together_bit_by_bit),
		cmocka_unit_test(test_a_reply_is_put_together_bit_by_bit),
		cmocka_unit_test(test_short_messages_are_put_together_bit_by_bit),
		cmocka_unit_test(test_alternate_paths_are_put_together_bit_by_bit),
		cmocka_unit_test(
			test_numbers_wider_than_their_field_do_not_touch_what_stands_around_it),
		cmocka_unit_test(test_reserved_bits_are_not_looked_at),
		cmocka_unit_test(test_each_kind_has_a_name_and_room),
		cmocka_unit_test(test_another_kind_has_neither),
		cmocka_unit_test(test_private_data_fills_the_message_to_its_end),
		cmocka_unit_test(test_another_length_is_refused),
		cmocka_unit_test(test_another_base_version_is_refused),
		cmocka_unit_test(test_another_class_or_class_version_is_refused),
		cmocka_unit_test(test_another_method_is_refused),
		cmocka_unit_test(test_a_kind_that_is_not_known_is_refused),
		cmocka_unit_test(test_an_mtu_that_there_is_not_is_refused),
		cmocka_unit_test(test_information_beyond_its_room_is_refused),
		cmocka_unit_test(test_ip_addresses_of_version_6_stand_whole),
		cmocka_unit_test(test_an_ip_header_of_another_version_is_refused),
	};

	return cmocka_run_group_tests(tests, read_vectors, free_vectors);
}
