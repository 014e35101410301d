#include "status.h"

#include <errno.h>

static const struct {
	const char *name;
	const char *text;
} statuses[RS_STATUS_COUNT] = {
#define STATUS(code, words) [code] = { #code, words }
	STATUS(RS_OK, "success"),
	STATUS(RS_IN_PROGRESS, "in progress"),
	STATUS(RS_ERR_UNKNOWN, "unknown error"),
	STATUS(RS_ERR_INVALID_VALUE, "invalid value"),
	STATUS(RS_ERR_BAD_STATE, "not allowed in this state"),
	STATUS(RS_ERR_NOT_FOUND, "not found"),
	STATUS(RS_ERR_NOT_SUPPORTED, "not supported"),
	STATUS(RS_ERR_NOT_PERMITTED, "not permitted by the system or by access flags"),
	STATUS(RS_ERR_NO_MEMORY, "out of memory"),
	STATUS(RS_ERR_FULL, "nothing left in a pool of fixed size"),
	STATUS(RS_ERR_IN_USE, "still in use"),
	STATUS(RS_ERR_TOO_BIG, "too big for the room there is"),
	STATUS(RS_ERR_TIMED_OUT, "timed out"),
	STATUS(RS_ERR_INTERRUPTED, "interrupted by the user"),
	STATUS(RS_ERR_IO, "input or output failed"),
	STATUS(RS_ERR_BAD_DESCRIPTOR, "bad descriptor"),
	STATUS(RS_ERR_BAD_DATA, "the peer's data is not what was expected"),
	STATUS(RS_ERR_UNREACHABLE, "the peer cannot be reached"),
	STATUS(RS_ERR_REJECTED, "the peer refused the connection"),
	STATUS(RS_ERR_DISCONNECTED, "the connection has ended"),
	STATUS(RS_ERR_FLUSHED, "flushed: the connection ended while it was in flight"),
	STATUS(RS_ERR_RETRY_EXCEEDED, "retries exceeded: the peer does not answer"),
	STATUS(RS_ERR_RNR_RETRY_EXCEEDED,
	       "receiver-not-ready retries exceeded: the peer submitted no receive"),
	STATUS(RS_ERR_LOCAL_LENGTH, "local length error: longer than the buffers for it"),
	STATUS(RS_ERR_LOCAL_PROTECTION,
	       "local protection error: a local buffer is not registered for this access"),
	STATUS(RS_ERR_LOCAL_OPERATION, "local operation error: the device rejects the request"),
	STATUS(RS_ERR_REMOTE_ACCESS,
	       "remote access error: the peer's memory does not permit this access"),
	STATUS(RS_ERR_REMOTE_INVALID, "remote invalid request: the peer rejects the request"),
	STATUS(RS_ERR_REMOTE_OPERATION, "remote operation error: the peer's device failed"),
	STATUS(RS_ERR_DEVICE_FATAL, "the device has failed or was removed"),
#undef STATUS
};

const char *rs_status_name(enum rs_status status)
{
	return (unsigned)status < RS_STATUS_COUNT ? statuses[status].name : "RS_ERR_UNKNOWN";
}

const char *rs_status_text(enum rs_status status)
{
	return (unsigned)status < RS_STATUS_COUNT ? statuses[status].text : "unknown error";
}

enum rs_status rs_status_from_errno(int error)
{
	switch (error) {
	case 0:
		return RS_OK;
	case EINVAL:
	case ERANGE:
		return RS_ERR_INVALID_VALUE;
	case ENOENT:
	case ENODEV:
	case ENXIO:
		return RS_ERR_NOT_FOUND;
	case EOPNOTSUPP:
	case ENOSYS:
	case EPROTONOSUPPORT:
		return RS_ERR_NOT_SUPPORTED;
	case EPERM:
	case EACCES:
	case EROFS:
	case ELOOP:
		return RS_ERR_NOT_PERMITTED;
	case ENOMEM:
		return RS_ERR_NO_MEMORY;
	case ENOSPC:
	case EAGAIN:
	case EMFILE:
	case ENFILE:
		return RS_ERR_FULL;
	case EBUSY:
	case EADDRINUSE:
	case EEXIST:
		return RS_ERR_IN_USE;
	case E2BIG:
	case EMSGSIZE:
	case EOVERFLOW:
	case ENAMETOOLONG:
		return RS_ERR_TOO_BIG;
	case ETIMEDOUT:
		return RS_ERR_TIMED_OUT;
	case EINTR:
	case ECANCELED:
		return RS_ERR_INTERRUPTED;
	case EIO:
	case EPIPE:
	case EISDIR:
	case ENOTDIR:
		return RS_ERR_IO;
	case EHOSTUNREACH:
	case ENETUNREACH:
	case EADDRNOTAVAIL:
		return RS_ERR_UNREACHABLE;
	case ECONNREFUSED:
		return RS_ERR_REJECTED;
	case ECONNRESET:
	case ENOTCONN:
		return RS_ERR_DISCONNECTED;
	default:
		return RS_ERR_UNKNOWN;
	}
}

enum rs_status rs_status_from_wc(enum ibv_wc_status wc_status)
{
	switch (wc_status) {
	case IBV_WC_SUCCESS:
		return RS_OK;
	case IBV_WC_LOC_LEN_ERR:
		return RS_ERR_LOCAL_LENGTH;
	case IBV_WC_LOC_PROT_ERR:
	case IBV_WC_LOC_ACCESS_ERR:
	case IBV_WC_MW_BIND_ERR:
		return RS_ERR_LOCAL_PROTECTION;
	case IBV_WC_LOC_QP_OP_ERR:
	case IBV_WC_LOC_EEC_OP_ERR:
	case IBV_WC_LOC_RDD_VIOL_ERR:
	case IBV_WC_INV_EECN_ERR:
	case IBV_WC_INV_EEC_STATE_ERR:
		return RS_ERR_LOCAL_OPERATION;
	case IBV_WC_WR_FLUSH_ERR:
		return RS_ERR_FLUSHED;
	case IBV_WC_REM_ACCESS_ERR:
		return RS_ERR_REMOTE_ACCESS;
	case IBV_WC_REM_INV_REQ_ERR:
	case IBV_WC_REM_INV_RD_REQ_ERR:
	case IBV_WC_BAD_RESP_ERR:
		return RS_ERR_REMOTE_INVALID;
	case IBV_WC_REM_OP_ERR:
		return RS_ERR_REMOTE_OPERATION;
	case IBV_WC_REM_ABORT_ERR:
		return RS_ERR_DISCONNECTED;
	case IBV_WC_RETRY_EXC_ERR:
	case IBV_WC_RESP_TIMEOUT_ERR:
		return RS_ERR_RETRY_EXCEEDED;
	case IBV_WC_RNR_RETRY_EXC_ERR:
		return RS_ERR_RNR_RETRY_EXCEEDED;
	case IBV_WC_FATAL_ERR:
		return RS_ERR_DEVICE_FATAL;
	default:
		return RS_ERR_UNKNOWN;
	}
}

enum rs_status rs_status_from_cm_event(enum rdma_cm_event_type event, int event_status)
{
	switch (event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
	case RDMA_CM_EVENT_CONNECT_REQUEST:
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
	case RDMA_CM_EVENT_ESTABLISHED:
	case RDMA_CM_EVENT_MULTICAST_JOIN:
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		return RS_OK;
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
	case RDMA_CM_EVENT_UNREACHABLE:
		return event_status == -ETIMEDOUT ? RS_ERR_TIMED_OUT : RS_ERR_UNREACHABLE;
	case RDMA_CM_EVENT_REJECTED:
		return RS_ERR_REJECTED;
	case RDMA_CM_EVENT_DISCONNECTED:
	case RDMA_CM_EVENT_ADDR_CHANGE:
		return RS_ERR_DISCONNECTED;
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		return RS_ERR_DEVICE_FATAL;
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_MULTICAST_ERROR:
	default:
		return event_status < 0 ? rs_status_from_errno(-event_status) : RS_ERR_UNKNOWN;
	}
}
