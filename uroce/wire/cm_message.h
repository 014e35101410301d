/*
 * Messages of the connection manager: management datagrams of 256 bytes between the queue pairs 1
 * of two devices (InfiniBand specification volume 1, chapters 12 and 13.4), with the private data
 * of IP addressing in front of the program's where the RDMA connection manager is used (annex A11).
 */
#ifndef UR_CM_MESSAGE_H
#define UR_CM_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define UR_MAD_SIZE 256
#define UR_GSI_QPN  1
#define UR_GSI_QKEY 0x80010000U

/* The attribute identifiers. */
enum ur_cm_kind {
	UR_CM_REQ = 0x10,
	UR_CM_MRA = 0x11,
	UR_CM_REJ = 0x12,
	UR_CM_REP = 0x13,
	UR_CM_RTU = 0x14,
	UR_CM_DREQ = 0x15,
	UR_CM_DREP = 0x16,
	UR_CM_SIDR_REQ = 0x17,
	UR_CM_SIDR_REP = 0x18,
	UR_CM_LAP = 0x19,
	UR_CM_APR = 0x1a,
};

/* "REQ" and the like, for logs; "?" for one that is not known. */
const char *ur_cm_kind_name(uint16_t kind);

/* Room for private data in the messages; UR_CM_MAX_PRIVATE in any. 0: kind is not known. */
#define UR_CM_MAX_PRIVATE 224
size_t ur_cm_private_room(uint16_t kind);

/* Transport services of a REQ. */
enum { UR_CM_RC, UR_CM_UC, UR_CM_RD, UR_CM_EXTENDED };
/* Of an extended one, which. */
enum { UR_CM_XRC = 1 };

/* Reasons of a REJ (section 12.6.7.2), but those of reliable datagrams and of alternate paths. */
enum ur_cm_reason {
	UR_CM_NO_QP = 1,
	UR_CM_NO_RESOURCES = 3,
	UR_CM_TIMEOUT,
	UR_CM_UNSUPPORTED,
	UR_CM_INVALID_COMM_ID,
	UR_CM_INVALID_COMM_INSTANCE,
	UR_CM_INVALID_SERVICE_ID,
	UR_CM_INVALID_TRANSPORT,
	UR_CM_STALE_CONNECTION,
	UR_CM_INVALID_GID = 12,
	UR_CM_INVALID_LID,
	UR_CM_INVALID_SL,
	UR_CM_INVALID_TRAFFIC_CLASS,
	UR_CM_INVALID_HOP_LIMIT,
	UR_CM_INVALID_RATE,
	UR_CM_CM_REDIRECT = 24, /* ask the connection manager at the place in info */
	UR_CM_REDIRECT,         /* ask for the port in info */
	UR_CM_INVALID_MTU,
	UR_CM_TOO_FEW_RESOURCES, /* fewer responder resources than were asked for */
	UR_CM_CONSUMER,          /* the program said no; its private data may say why */
	UR_CM_INVALID_RNR_RETRY,
	UR_CM_DUPLICATE_COMM_ID,
	UR_CM_INVALID_CLASS_VERSION,
	UR_CM_INVALID_FLOW_LABEL,
	UR_CM_VENDOR_OPTION = 35, /* is not supported */
};

struct ur_cm_path {
	uint16_t local_lid, remote_lid;
	uint8_t local_gid[16], remote_gid[16];
	uint32_t flow_label;
	uint8_t rate, traffic_class, hop_limit, sl;
	bool subnet_local;
	uint8_t ack_timeout; /* exponent */
};

struct ur_cm_req {
	uint64_t service_id;
	uint64_t ca_guid;
	uint32_t qkey, qpn;
	uint32_t psn; /* at which the receiver of this begins to send */
	uint8_t responder_resources, initiator_depth;
	uint8_t remote_timeout, local_timeout; /* of CM responses, exponents of 4.096 us */
	uint8_t transport, extended_transport;
	bool flow_control;
	uint8_t retry_count, rnr_retry_count, max_cm_retries;
	uint16_t pkey;
	uint8_t path_mtu; /* enum ibv_mtu */
	bool srq;
	struct ur_cm_path path; /* the primary one; there is no alternate one */
};

struct ur_cm_rep {
	uint32_t qkey, qpn;
	uint32_t eecn; /* of an extended connection: the queue pair's number, in the place of qpn */
	uint32_t psn;  /* as in a REQ */
	uint8_t responder_resources, initiator_depth, target_ack_delay;
	uint8_t failover; /* 2 bits */
	bool flow_control;
	uint8_t rnr_retry_count;
	bool srq;
	uint64_t ca_guid;
};

static inline uint32_t ur_cm_rep_qpn(const struct ur_cm_rep *rep)
{
	return rep->qpn ? rep->qpn : rep->eecn;
}

struct ur_cm_rej {
	uint8_t message;     /* that it answers: 0 REQ, 1 REP, 2 another one or none */
	uint16_t reason;     /* enum ur_cm_reason, or another */
	uint8_t info_length; /* what of info means something */
	uint8_t info[72];
};

struct ur_cm_mra {
	uint8_t message;         /* 0 REQ, 1 REP, 2 LAP */
	uint8_t service_timeout; /* exponent of 4.096 us */
};

struct ur_cm_dreq {
	uint32_t remote_qpn;
};

/* An alternate path for a connection. Its receiver answers by an APR. */
struct ur_cm_lap {
	uint32_t remote_qpn;
	uint8_t remote_timeout; /* of the answer, exponent of 4.096 us */
	struct ur_cm_path path;
};

/* Status of an APR (section 12.8.2), but those that say what is wrong with the path. */
enum ur_cm_path_status {
	UR_CM_PATH_LOADED,
	UR_CM_PATH_INVALID_COMM_ID, /* there is no such connection */
	UR_CM_PATH_UNSUPPORTED,     /* nobody has alternate paths here */
};

struct ur_cm_apr {
	uint8_t info_length;
	uint8_t status; /* enum ur_cm_path_status, or another */
	uint8_t info[72];
};

struct ur_cm_sidr_req {
	uint16_t pkey;
	uint64_t service_id;
};

struct ur_cm_sidr_rep {
	uint8_t status; /* 0 there, 1 not supported, 2 rejected, 3 no QP, 4 redirected, 5 other version */
	uint8_t info_length;
	uint32_t qpn, qkey;
	uint64_t service_id;
	uint8_t info[72];
};

/*
 * A message taken apart, or one to be put together. Numbers are in host order; of one that is wider
 * than its field the lower bits are sent. What has no member here is sent as zeros, and not looked
 * at when it comes.
 */
struct ur_cm_message {
	uint16_t kind;
	uint64_t transaction_id;
	uint32_t local_id;  /* the sender's communication id; of SIDR messages the request id */
	uint32_t remote_id; /* the receiver's; 0 in REQ and SIDR messages, which have none */
	union {
		struct ur_cm_req req;
		struct ur_cm_rep rep;
		struct ur_cm_rej rej;
		struct ur_cm_mra mra;
		struct ur_cm_dreq dreq;
		struct ur_cm_sidr_req sidr_req;
		struct ur_cm_sidr_rep sidr_rep;
		struct ur_cm_lap lap;
		struct ur_cm_apr apr;
	};
	size_t private_length; /* when decoded: all the room that the kind has */
	uint8_t private_data[UR_CM_MAX_PRIVATE];
};

enum ur_cm_decode_result {
	UR_CM_DECODED,
	UR_CM_NO_MAD,       /* not 256 bytes, or another base version */
	UR_CM_OTHER_CLASS,  /* not the connection manager's class and version */
	UR_CM_OTHER_METHOD, /* not Send */
	UR_CM_UNKNOWN_KIND,
	UR_CM_BAD_FIELD, /* of a value that it cannot have: an MTU, an info_length beyond its room */
};

/* Reads nothing outside of data. On failure *message is not defined; else its padding is zeros. */
enum ur_cm_decode_result ur_cm_decode(const void *data, size_t length,
				      struct ur_cm_message *message);

/*
 * kind must be known, and private_length at most ur_cm_private_room(kind) (asserted); the rest of
 * the room is zeros.
 */
void ur_cm_encode(const struct ur_cm_message *message, uint8_t mad[UR_MAD_SIZE]);

/* ---- IP addressing ---- */

#define UR_CM_IP_HEADER_SIZE 36

/* In front of the program's private data in REQ and SIDR_REQ. */
struct ur_cm_ip_header {
	uint8_t ip_version;           /* 4 or 6 */
	uint16_t source_port;         /* host order */
	uint8_t source[16], dest[16]; /* IPv4 in the last four bytes, zeros before (unchecked) */
};

/* False: of another version than 0.0, or of no IP version that there is. */
bool ur_cm_ip_header_decode(const uint8_t data[UR_CM_IP_HEADER_SIZE],
			    struct ur_cm_ip_header *header);
void ur_cm_ip_header_encode(const struct ur_cm_ip_header *header,
			    uint8_t data[UR_CM_IP_HEADER_SIZE]);

#endif
