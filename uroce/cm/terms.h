/*
 * Terms: what the two sides of a connection tell each other of their queue pairs and addresses,
 * and what follows for the attributes of the own one.
 */
#ifndef UR_TERMS_H
#define UR_TERMS_H

#include "connection.h"

/* 24 bits, not 0: for sequence numbers and identifiers. */
uint32_t ur_terms_random(void);

/* ---- Messages ---- */

/* Private data behind that which there is. Returns 0 or EMSGSIZE. */
int ur_terms_add_data(struct ur_cm_message *message, const void *data, size_t length);
/* Private data of a REQ or SIDR_REQ, with the header of IP addressing. Returns 0 or EMSGSIZE. */
int ur_terms_add_request_data(struct ur_cm_message *message, const struct ur_cm_route *route,
			      const void *data, size_t length);

/* Whether a request's header says of the way what is so; route: back. */
bool ur_terms_is_right(const struct ur_cm_ip_header *header, const struct ur_cm_route *route);

void ur_terms_make_req(const struct ur_cm_connection *connection, uint64_t service_id,
		       const struct ur_cm_params *params, struct ur_cm_req *req);
void ur_terms_make_rep(const struct ur_cm_connection *connection, const struct ur_cm_params *params,
		       struct ur_cm_rep *rep);

/* ---- Queue pair ---- */

/* What the route says, and what is chosen here. */
void ur_terms_begin(struct ur_cm_connection *connection);
/* What the program says, in a REQ or a REP. */
void ur_terms_take_params(struct ur_cm_connection *connection, const struct ur_cm_params *params);
/* What the peer says. */
void ur_terms_take_req(struct ur_cm_connection *connection, const struct ur_cm_req *req);
void ur_terms_take_rep(struct ur_cm_connection *connection, const struct ur_cm_rep *rep);

/* See ur_cm_qp_attr. */
int ur_terms_attr(const struct ur_cm_connection *connection, struct ibv_qp_attr *attr, int *mask);

#endif
