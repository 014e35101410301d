#include "qp_attr.h"

#include <errno.h>
#include <stdbool.h>

#include "../wire/packet.h"
#include "device.h"

#define STATES (IBV_QPS_ERR + 1)

#define MAX_TIMER     31 /* 5 bits: timeout, min_rnr_timer */
#define MAX_RETRY_CNT 7  /* 3 bits: retry_cnt, rnr_retry */

#define ACCESS_FLAGS                                                                 \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
	 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED |     \
	 IBV_ACCESS_ON_DEMAND | IBV_ACCESS_HUGETLB | IBV_ACCESS_OPTIONAL_RANGE)

enum service { RC, XRC_SEND, XRC_RECV, UC, UD, GSI, SERVICES };

#define OF(service) (1U << (service))
#define RELIABLE    (OF(RC) | OF(XRC_SEND) | OF(XRC_RECV))
#define ALL         (RELIABLE | OF(UC) | OF(UD) | OF(GSI))

struct transition {
	unsigned services; /* for which it exists */
	int required[SERVICES];
	int optional[SERVICES];
};

/* [from][to]; what is not named does not exist. */
static const struct transition transitions[STATES][STATES] = {
	[IBV_QPS_RESET] = {
		[IBV_QPS_RESET] = { .services = ALL },
		[IBV_QPS_INIT] = {
			.services = ALL,
			.required = {
				[RC] = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
				[XRC_SEND] = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
				[XRC_RECV] = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
				[UC] = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
				[UD] = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY,
				[GSI] = IBV_QP_PKEY_INDEX | IBV_QP_QKEY,
			},
		},
	},
	[IBV_QPS_INIT] = {
		[IBV_QPS_RESET] = { .services = ALL },
		[IBV_QPS_ERR] = { .services = ALL },
		[IBV_QPS_INIT] = {
			.services = ALL,
			.optional = {
				[RC] = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
				[XRC_SEND] = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
				[XRC_RECV] = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
				[UC] = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
				[UD] = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY,
				[GSI] = IBV_QP_PKEY_INDEX | IBV_QP_QKEY,
			},
		},
		[IBV_QPS_RTR] = {
			.services = ALL,
			.required = {
				[RC] = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				       IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				       IBV_QP_MIN_RNR_TIMER,
				[XRC_SEND] = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
					     IBV_QP_RQ_PSN,
				[XRC_RECV] = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
					     IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
					     IBV_QP_MIN_RNR_TIMER,
				[UC] = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				       IBV_QP_RQ_PSN,
			},
			.optional = {
				[RC] = IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX,
				[XRC_SEND] = IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS |
					     IBV_QP_PKEY_INDEX,
				[XRC_RECV] = IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS |
					     IBV_QP_PKEY_INDEX,
				[UC] = IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX,
				[UD] = IBV_QP_PKEY_INDEX | IBV_QP_QKEY,
				[GSI] = IBV_QP_PKEY_INDEX | IBV_QP_QKEY,
			},
		},
	},
	[IBV_QPS_RTR] = {
		[IBV_QPS_RESET] = { .services = ALL },
		[IBV_QPS_ERR] = { .services = ALL },
		[IBV_QPS_RTS] = {
			.services = ALL,
			.required = {
				[RC] = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				       IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC,
				[XRC_SEND] = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
					     IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC,
				[XRC_RECV] = IBV_QP_TIMEOUT | IBV_QP_SQ_PSN,
				[UC] = IBV_QP_SQ_PSN,
				[UD] = IBV_QP_SQ_PSN,
				[GSI] = IBV_QP_SQ_PSN,
			},
			.optional = {
				[RC] = IBV_QP_CUR_STATE | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS |
				       IBV_QP_MIN_RNR_TIMER | IBV_QP_PATH_MIG_STATE,
				[XRC_SEND] = IBV_QP_CUR_STATE | IBV_QP_ALT_PATH |
					     IBV_QP_ACCESS_FLAGS | IBV_QP_PATH_MIG_STATE,
				[XRC_RECV] = IBV_QP_CUR_STATE | IBV_QP_ALT_PATH |
					     IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER |
					     IBV_QP_PATH_MIG_STATE,
				[UC] = IBV_QP_CUR_STATE | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS |
				       IBV_QP_PATH_MIG_STATE,
				[UD] = IBV_QP_CUR_STATE | IBV_QP_QKEY,
				[GSI] = IBV_QP_CUR_STATE | IBV_QP_QKEY,
			},
		},
	},
	[IBV_QPS_RTS] = {
		[IBV_QPS_RESET] = { .services = ALL },
		[IBV_QPS_ERR] = { .services = ALL },
		[IBV_QPS_RTS] = {
			.services = ALL,
			.optional = {
				[RC] = IBV_QP_CUR_STATE | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS |
				       IBV_QP_MIN_RNR_TIMER | IBV_QP_PATH_MIG_STATE,
				[XRC_SEND] = IBV_QP_CUR_STATE | IBV_QP_ALT_PATH |
					     IBV_QP_ACCESS_FLAGS | IBV_QP_PATH_MIG_STATE,
				[XRC_RECV] = IBV_QP_CUR_STATE | IBV_QP_ALT_PATH |
					     IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER |
					     IBV_QP_PATH_MIG_STATE,
				[UC] = IBV_QP_CUR_STATE | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS |
				       IBV_QP_PATH_MIG_STATE,
				[UD] = IBV_QP_CUR_STATE | IBV_QP_QKEY,
				[GSI] = IBV_QP_CUR_STATE | IBV_QP_QKEY,
			},
		},
		[IBV_QPS_SQD] = {
			.services = ALL,
			.optional = {
				[RC] = IBV_QP_EN_SQD_ASYNC_NOTIFY,
				[XRC_SEND] = IBV_QP_EN_SQD_ASYNC_NOTIFY,
				[XRC_RECV] = IBV_QP_EN_SQD_ASYNC_NOTIFY,
				[UC] = IBV_QP_EN_SQD_ASYNC_NOTIFY,
				[UD] = IBV_QP_EN_SQD_ASYNC_NOTIFY,
				[GSI] = IBV_QP_EN_SQD_ASYNC_NOTIFY,
			},
		},
	},
	[IBV_QPS_SQD] = {
		[IBV_QPS_RESET] = { .services = ALL },
		[IBV_QPS_ERR] = { .services = ALL },
		[IBV_QPS_RTS] = {
			.services = ALL,
			.optional = {
				[RC] = IBV_QP_CUR_STATE | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS |
				       IBV_QP_MIN_RNR_TIMER | IBV_QP_PATH_MIG_STATE,
				[XRC_SEND] = IBV_QP_CUR_STATE | IBV_QP_ALT_PATH |
					     IBV_QP_ACCESS_FLAGS | IBV_QP_PATH_MIG_STATE,
				[XRC_RECV] = IBV_QP_CUR_STATE | IBV_QP_ALT_PATH |
					     IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER |
					     IBV_QP_PATH_MIG_STATE,
				[UC] = IBV_QP_CUR_STATE | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS |
				       IBV_QP_PATH_MIG_STATE,
				[UD] = IBV_QP_CUR_STATE | IBV_QP_QKEY,
				[GSI] = IBV_QP_CUR_STATE | IBV_QP_QKEY,
			},
		},
		[IBV_QPS_SQD] = {
			.services = ALL,
			.optional = {
				[RC] = IBV_QP_PORT | IBV_QP_AV | IBV_QP_TIMEOUT |
				       IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				       IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC |
				       IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX |
				       IBV_QP_MIN_RNR_TIMER | IBV_QP_PATH_MIG_STATE,
				[XRC_SEND] = IBV_QP_PORT | IBV_QP_AV | IBV_QP_TIMEOUT |
					     IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
					     IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_ALT_PATH |
					     IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX |
					     IBV_QP_PATH_MIG_STATE,
				[XRC_RECV] = IBV_QP_PORT | IBV_QP_AV | IBV_QP_TIMEOUT |
					     IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_ALT_PATH |
					     IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX |
					     IBV_QP_MIN_RNR_TIMER | IBV_QP_PATH_MIG_STATE,
				[UC] = IBV_QP_AV | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS |
				       IBV_QP_PKEY_INDEX | IBV_QP_PATH_MIG_STATE,
				[UD] = IBV_QP_PKEY_INDEX | IBV_QP_QKEY,
				[GSI] = IBV_QP_PKEY_INDEX | IBV_QP_QKEY,
			},
		},
	},
	/* An error ends the sending of a reliable connection and its receiving at once: no SQE. */
	[IBV_QPS_SQE] = {
		[IBV_QPS_RESET] = { .services = ALL & ~RELIABLE },
		[IBV_QPS_ERR] = { .services = ALL & ~RELIABLE },
		[IBV_QPS_RTS] = {
			.services = ALL & ~RELIABLE,
			.optional = {
				[UC] = IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS,
				[UD] = IBV_QP_CUR_STATE | IBV_QP_QKEY,
				[GSI] = IBV_QP_CUR_STATE | IBV_QP_QKEY,
			},
		},
	},
	[IBV_QPS_ERR] = {
		[IBV_QPS_RESET] = { .services = ALL },
		[IBV_QPS_ERR] = { .services = ALL },
	},
};

static enum service service_of(enum ibv_qp_type type)
{
	switch ((int)type) {
	case IBV_QPT_RC:
		return RC;
	case IBV_QPT_XRC_SEND:
		return XRC_SEND;
	case IBV_QPT_XRC_RECV:
		return XRC_RECV;
	case IBV_QPT_UC:
		return UC;
	case IBV_QPT_UD:
		return UD;
	case (int)UR_QPT_GSI:
		return GSI;
	default:
		return SERVICES;
	}
}

int ur_qp_attr_check_mask(enum ibv_qp_type type, enum ibv_qp_state from, enum ibv_qp_state to,
			  int mask)
{
	enum service service = service_of(type);
	const struct transition *transition;
	int required;

	if (service == SERVICES || (unsigned)from >= STATES || (unsigned)to >= STATES)
		return EINVAL;
	transition = &transitions[from][to];
	required = transition->required[service];
	if (!(transition->services & OF(service)) || (mask & required) != required ||
	    mask & ~(required | transition->optional[service] | IBV_QP_STATE))
		return EINVAL;
	return 0;
}

/* There is one port, with one partition key. */
static bool is_place_valid(const struct ibv_qp_attr *attr, int mask)
{
	return !(mask & IBV_QP_PKEY_INDEX && attr->pkey_index != 0) &&
	       !(mask & IBV_QP_PORT && attr->port_num != 1) &&
	       !(mask & IBV_QP_ACCESS_FLAGS && attr->qp_access_flags & ~(unsigned)ACCESS_FLAGS);
}

static bool is_receiving_valid(const struct ibv_qp_attr *attr, int mask, enum ibv_mtu max_mtu)
{
	return !(mask & IBV_QP_PATH_MTU &&
		 (attr->path_mtu < IBV_MTU_256 || attr->path_mtu > max_mtu)) &&
	       !(mask & IBV_QP_DEST_QPN && attr->dest_qp_num > UR_24_BITS) &&
	       !(mask & IBV_QP_MAX_DEST_RD_ATOMIC && attr->max_dest_rd_atomic > UR_MAX_RD_ATOMIC) &&
	       !(mask & IBV_QP_MIN_RNR_TIMER && attr->min_rnr_timer > MAX_TIMER);
}

static bool is_sending_valid(const struct ibv_qp_attr *attr, int mask)
{
	return !(mask & IBV_QP_MAX_QP_RD_ATOMIC && attr->max_rd_atomic > UR_MAX_RD_ATOMIC) &&
	       !(mask & IBV_QP_TIMEOUT && attr->timeout > MAX_TIMER) &&
	       !(mask & IBV_QP_RETRY_CNT && attr->retry_cnt > MAX_RETRY_CNT) &&
	       !(mask & IBV_QP_RNR_RETRY && attr->rnr_retry > MAX_RETRY_CNT);
}

int ur_qp_attr_check_values(const struct ibv_qp_attr *attr, int mask, enum ibv_mtu max_mtu)
{
	if (mask & IBV_QP_ALT_PATH)
		return EOPNOTSUPP;
	if (mask & IBV_QP_PATH_MIG_STATE && attr->path_mig_state != IBV_MIG_MIGRATED)
		return EOPNOTSUPP;
	return is_place_valid(attr, mask) && is_receiving_valid(attr, mask, max_mtu) &&
			       is_sending_valid(attr, mask)
		       ? 0
		       : EINVAL;
}

void ur_qp_attr_copy(struct ibv_qp_attr *to, const struct ibv_qp_attr *from, int mask)
{
	if (mask & IBV_QP_EN_SQD_ASYNC_NOTIFY)
		to->en_sqd_async_notify = from->en_sqd_async_notify;
	if (mask & IBV_QP_ACCESS_FLAGS)
		to->qp_access_flags = from->qp_access_flags;
	if (mask & IBV_QP_PKEY_INDEX)
		to->pkey_index = from->pkey_index;
	if (mask & IBV_QP_PORT)
		to->port_num = from->port_num;
	if (mask & IBV_QP_QKEY)
		to->qkey = from->qkey;
	if (mask & IBV_QP_AV)
		to->ah_attr = from->ah_attr;
	if (mask & IBV_QP_PATH_MTU)
		to->path_mtu = from->path_mtu;
	if (mask & IBV_QP_TIMEOUT)
		to->timeout = from->timeout;
	if (mask & IBV_QP_RETRY_CNT)
		to->retry_cnt = from->retry_cnt;
	if (mask & IBV_QP_RNR_RETRY)
		to->rnr_retry = from->rnr_retry;
	if (mask & IBV_QP_RQ_PSN)
		to->rq_psn = from->rq_psn & UR_24_BITS;
	if (mask & IBV_QP_MAX_QP_RD_ATOMIC)
		to->max_rd_atomic = from->max_rd_atomic;
	if (mask & IBV_QP_MIN_RNR_TIMER)
		to->min_rnr_timer = from->min_rnr_timer;
	if (mask & IBV_QP_SQ_PSN)
		to->sq_psn = from->sq_psn & UR_24_BITS;
	if (mask & IBV_QP_MAX_DEST_RD_ATOMIC)
		to->max_dest_rd_atomic = from->max_dest_rd_atomic;
	if (mask & IBV_QP_PATH_MIG_STATE)
		to->path_mig_state = from->path_mig_state;
	if (mask & IBV_QP_DEST_QPN)
		to->dest_qp_num = from->dest_qp_num;
}
