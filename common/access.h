/*
 * What may be done with memory, and by whom. A map's access is what its registration grants, an
 * instance's is what its queue pairs let the peer do; the peer needs both. Sets of these are passed
 * as uint32_t.
 */
#ifndef RS_ACCESS_H
#define RS_ACCESS_H

#include <infiniband/verbs.h>

/* The values are those of enum ibv_access_flags. */
enum rs_access {
	RS_ACCESS_LOCAL_READ_ONLY = 0,
	RS_ACCESS_LOCAL_READ_WRITE = IBV_ACCESS_LOCAL_WRITE,
	RS_ACCESS_REMOTE_WRITE = IBV_ACCESS_REMOTE_WRITE,
	RS_ACCESS_REMOTE_READ = IBV_ACCESS_REMOTE_READ,
	RS_ACCESS_REMOTE_ATOMIC = IBV_ACCESS_REMOTE_ATOMIC,
	RS_ACCESS_ALL = RS_ACCESS_LOCAL_READ_WRITE | RS_ACCESS_REMOTE_WRITE |
			RS_ACCESS_REMOTE_READ | RS_ACCESS_REMOTE_ATOMIC
};

#endif
