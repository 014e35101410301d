/*
 * Knocker: finds out that no process at a peer's address has the port that its messages go to. The
 * system there then answers by ICMP "port unreachable", of which the link's sockets hear nothing: so
 * it has a socket of its own (IP_RECVERR). It sends a message that nobody answers, an MRA, with the ids
 * of a connection. The system quotes it, so who does not know these ids cannot forge what is heard.
 */
#ifndef UR_KNOCKER_H
#define UR_KNOCKER_H

#include "../link/carrier.h"
#include "../wire/cm_message.h"

struct ur_knocker {
	struct ur_knocker *next;
	int fd;                   /* readable, or in error: there is something to hear */
	union ur_sockaddr source; /* with its port, which the system has chosen */
};

/* From a local address (its port does not matter). NULL and errno: it cannot be. */
struct ur_knocker *ur_knocker_open(const union ur_sockaddr *source);
/* NULL is allowed. */
void ur_knocker_close(struct ur_knocker *knocker);

/* To an address with its port. What cannot be sent is lost. */
void ur_knocker_send(const struct ur_knocker *knocker, const union ur_sockaddr *dest,
		     uint32_t local_id, uint32_t remote_id);

/*
 * What the system has reported: that nobody has dest's port. message: what was sent. False:
 * nothing more.
 */
bool ur_knocker_hear(const struct ur_knocker *knocker, union ur_sockaddr *dest,
		     struct ur_cm_message *message);

#endif
