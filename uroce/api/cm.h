/*
 * What the functions of librdmacm share. Each is named as there. Either all of a process's ids are
 * uroce's or none: a program hands over ids and channels before they have to do with a device, and
 * what the real library keeps behind them is its own. cm_functions.txt lists all of its functions.
 */
#ifndef UR_CM_H
#define UR_CM_H

#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#include "../cm/id.h"
#include "api.h"

/*
 * Whether ids are ours, decided once: not if there is a real device, unless UROCE_CM=1. Else the
 * next library has the function.
 */
bool ur_cm_is_ours(void);

/* What functions of librdmacm return for 0 or an errno. */
static inline int ur_cm_result(int error)
{
	if (!error)
		return 0;
	errno = error;
	return -1;
}

/*
 * rdma_create_id for any type of queue pair. channel NULL: a synchronous one. Returns 0 or an
 * errno.
 */
int ur_cm_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
		    enum rdma_port_space port_space, enum ibv_qp_type qp_type);

/* Acknowledges the event that the last call of a synchronous id has left. */
void ur_cm_forget_event(struct rdma_cm_id *id);

/*
 * The end of a call that began something: a synchronous id waits for the event of it, which stays
 * in id->event until the next call. Returns 0, or -1 and errno: what the event says.
 */
int ur_cm_complete(struct ur_cm_id *id);

/* As a program gets it: the queue pair has followed, so that it can be used. NULL and errno. */
struct ur_event *ur_cm_read_event(struct ur_event_channel *channel);

/*
 * Makes the queue pair ready to send and says so to the peer: answers the REP. Returns 0 or an
 * errno.
 */
int ur_cm_confirm(struct ur_cm_id *id);

/* ---- Queue pairs; 0 or an errno, and nothing to do if the program has made its own ---- */

/* The attributes for attr->qp_state. */
int ur_cm_id_qp_attr(struct ur_cm_id *id, struct ibv_qp_attr *attr, int *mask);

/* Limits: those of the id are set, where not what the manager says. */
int ur_cm_make_ready(struct ur_cm_id *id, bool with_limits);

int ur_cm_make_erroneous(struct ur_cm_id *id);

#endif
