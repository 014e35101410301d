/*
 * General services: what comes to and goes from a device's queue pair 1. It is one for all
 * processes on an address: packets for it come to the owner of UDP port 4791, who looks whose they
 * are. The upper 8 bits of a communication id are the number of the process that made it (see
 * link.h), so answers find their process as packets for queue pairs do (by an envelope); requests
 * go to the process that has claimed the service (see claim.h).
 */
#ifndef UR_GSI_H
#define UR_GSI_H

#include "../core/device.h"
#include "../wire/cm_message.h"

/*
 * A packet for queue pair 1, from the link (device's lock held). For this process: it goes to the
 * connection manager. For another: it is passed on. For nobody: it is answered if ur_gsi_refusal
 * knows how, else dropped. Never blocks, allocates nothing.
 */
void ur_gsi_receive(struct ur_device *device, const struct ur_packet *packet,
		    const struct ur_path *from);

/* That a message is in, without it. psn: 24 bits. */
struct ur_packet ur_gsi_packet(uint32_t psn);

/* Sends a message to the queue pair 1 at path (UDP port 4791). Device open, its lock not held. */
void ur_gsi_send(struct ur_device *device, const struct ur_path *path,
		 const struct ur_cm_message *message);

/* The same, but not if somebody holds the lock for ms. Returns whether it was sent. */
bool ur_gsi_try_send(struct ur_device *device, const struct ur_path *path,
		     const struct ur_cm_message *message, unsigned ms);

/* The same with the device's lock held; sent at the next flush. */
void ur_gsi_send_locked(struct ur_device *device, const struct ur_path *path,
			const struct ur_cm_message *message);

/*
 * What a message of or for a connection or service that nobody knows is answered by, as by the
 * kernel, so that its sender does not wait in vain: REQ by REJ (invalid service id), REP by REJ
 * (invalid communication id), DREQ by DREP, SIDR_REQ by SIDR_REP (not supported), and as the
 * specification says, LAP by APR (invalid communication id). False: by nothing.
 */
bool ur_gsi_refusal(const struct ur_cm_message *message, struct ur_cm_message *refusal);

/*
 * ---- What it asks of the connection manager ----
 *
 * Called with the device's lock held, by any thread that moves packets: they wait for no device.
 */

/* Whether this process listens for requests for the service that come to that address. */
bool ur_cm_serves(uint64_t service_id, const union ur_sockaddr *local);

/*
 * A message for this process: a request for a service that it serves, or one whose communication id
 * has its number. Copies what it keeps. False: the connection manager is not in use; else it
 * answers messages for connections that it does not know.
 */
bool ur_cm_input(struct ur_device *device, const struct ur_path *from,
		 const struct ur_cm_message *message);

#endif
