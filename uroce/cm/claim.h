/*
 * Claim: the right of a process to a service, that is a port space and a port. A port has one owner
 * among all processes of a network namespace, whatever their users; it is a name in the abstract
 * namespace of Unix sockets, so it ends with its process. Through it the owner of UDP port 4791
 * passes on the requests that come for the service.
 *
 * The name is "\0uroce/cm/<service id in hexadecimal>". What comes through it is a datagram that
 * holds the sender's address, the address that it was sent to, and the message; it is taken only
 * from processes of the same user or of root (SCM_CREDENTIALS), since it says who the sender was.
 * So a service is not reached through an owner of port 4791 that is another user's.
 */
#ifndef UR_CLAIM_H
#define UR_CLAIM_H

#include "../link/carrier.h"
#include "../wire/cm_message.h"

/*
 * Returns a descriptor, or -1 and errno: EADDRINUSE. Nothing comes through it before
 * ur_claim_listen: until then, requests are refused as if nobody had claimed the service.
 */
int ur_claim_open(uint64_t service_id);

/* From now on the descriptor is readable when requests have come. May be called again. */
void ur_claim_listen(int fd);
/* As before ur_claim_listen. What has come is dropped; who asks again is refused. */
void ur_claim_ignore(int fd, uint64_t service_id);

/* A request that came through the claim. */
struct ur_claimed {
	union ur_sockaddr from; /* its sender, UDP port included */
	union ur_sockaddr to;   /* the local address that it was sent to; port 0 */
	uint8_t mad[UR_MAD_SIZE];
};

/*
 * Without waiting. False: nothing there, or (the descriptor stays readable) too much that is
 * skipped, since it is malformed or from a stranger.
 */
bool ur_claim_read(int fd, struct ur_claimed *request);

/*
 * Passes a request on. Returns 0; ECONNREFUSED: nobody listens; EAGAIN: its process is too slow
 * (the system keeps about ten requests, net.unix.max_dgram_qlen); or another errno. Never blocks.
 */
int ur_claim_pass(uint64_t service_id, const struct ur_claimed *request);

#endif
