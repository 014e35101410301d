/*
 * Status codes: what every function of this layer that can fail returns, and what a task ended
 * with.
 */
#ifndef RS_STATUS_H
#define RS_STATUS_H

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

enum rs_status {
	RS_OK = 0,
	RS_IN_PROGRESS,        /* begun; the end is reported from rs_pe_progress */
	RS_ERR_UNKNOWN,        /* an error without a code of its own */
	RS_ERR_INVALID_VALUE,  /* an argument is outside what is allowed */
	RS_ERR_BAD_STATE,      /* the call is not allowed in the object's state; nothing changed */
	RS_ERR_NOT_FOUND,      /* no such device, GID, file */
	RS_ERR_NOT_SUPPORTED,  /* the device or this build cannot do it */
	RS_ERR_NOT_PERMITTED,  /* the operating system or the access flags forbid it */
	RS_ERR_NO_MEMORY,      /* no memory, or less may be locked than asked for */
	RS_ERR_FULL,           /* a pool of fixed size has nothing left */
	RS_ERR_IN_USE,         /* something still refers to the object */
	RS_ERR_TOO_BIG,        /* more than the room there is */
	RS_ERR_TIMED_OUT,      /* it did not happen within the time given */
	RS_ERR_INTERRUPTED,    /* the user asked to stop (a signal) */
	RS_ERR_IO,             /* reading or writing failed */
	RS_ERR_BAD_DESCRIPTOR, /* a descriptor is damaged, or not the one wanted */
	RS_ERR_BAD_DATA,       /* data from the peer is not what this program expects */
	RS_ERR_UNREACHABLE,    /* no route to the peer, or nobody answers there */
	RS_ERR_REJECTED,       /* the peer refused the connection */
	RS_ERR_DISCONNECTED,   /* the connection has ended */
	RS_ERR_FLUSHED,        /* the task was in flight when its queue pair went to error */
	RS_ERR_RETRY_EXCEEDED, /* the peer acknowledged nothing in all retries */
	RS_ERR_RNR_RETRY_EXCEEDED, /* the peer had no receive ready in all retries */
	RS_ERR_LOCAL_LENGTH,       /* a message was longer than the buffers for it */
	RS_ERR_LOCAL_PROTECTION,   /* a local buffer is not registered for this access */
	RS_ERR_LOCAL_OPERATION,    /* the device could not process the request */
	RS_ERR_REMOTE_ACCESS,      /* the peer's memory does not permit this access */
	RS_ERR_REMOTE_INVALID,     /* the peer took the request for malformed */
	RS_ERR_REMOTE_OPERATION,   /* the peer's device failed on a valid request */
	RS_ERR_DEVICE_FATAL,       /* the device has failed or was removed */
	RS_STATUS_COUNT
};

/* The constant's name, "RS_ERR_FLUSHED". Never NULL. */
const char *rs_status_name(enum rs_status status);

/* The meaning in words, "flushed: the connection ended while it was in flight". Never NULL. */
const char *rs_status_text(enum rs_status status);

/* The status for an errno value (positive); 0 is RS_OK. */
enum rs_status rs_status_from_errno(int error);

/* The status for a work completion's. Source: man ibv_poll_cq. */
enum rs_status rs_status_from_wc(enum ibv_wc_status wc_status);

/*
 * The status for a connection manager event; RS_OK for those that report progress.
 * event_status: the event's status field. Source: man rdma_get_cm_event.
 */
enum rs_status rs_status_from_cm_event(enum rdma_cm_event_type event, int event_status);

#endif
