/*
 * Engine: moves packets between the link and the queue pairs. It has a thread, so that a peer's reads
 * and writes are served while the program does something else, and while the program polls it works
 * in the program's thread, so that a message does not wait for a switch of threads: a poll that finds
 * nothing takes over, disarms the sockets, and the thread stays away until no poll came for
 * UR_LEASE_NS or the program asks to be notified.
 */
#ifndef UR_ENGINE_H
#define UR_ENGINE_H

#include <stdint.h>

#include "clock.h"

struct ur_device;
struct ur_engine;
struct ur_qp;

#define UR_LEASE_NS (2 * UR_NS_PER_MS)

/* Opens the link of the device and starts the thread. Returns 0 or an errno; logs why. */
int ur_engine_start(struct ur_device *device);
/* Ends the thread, sends what is left to send, closes the link. */
void ur_engine_stop(struct ur_device *device);

/* Handles what has arrived, in the thread that polls. Does nothing if another thread is at it. */
void ur_engine_poll(struct ur_device *device);

/*
 * The program goes to sleep: what arrives from now on is the thread's, at once. Call without the
 * device's lock.
 */
void ur_engine_hand_over(struct ur_device *device);

/* The process ends: sends what was put off. Waits 20 ms for one that holds the lock. */
void ur_engine_at_exit(struct ur_device *device);

/* ---- Device's lock held ---- */

/* Sends all that is queued and all that is due for an answer; at the end of a call that posts. */
void ur_engine_flush(struct ur_device *device);

/* The queue pair has a timer that ends at qp->deadline, or has none any more. */
void ur_engine_set_timer(struct ur_device *device, struct ur_qp *qp, uint64_t deadline);

/* The queue pair has something to acknowledge, or responses to go on with, at the next flush. */
void ur_engine_schedule(struct ur_device *device, struct ur_qp *qp);

/*
 * The queue pair is going, or starts anew: what is due is sent, and nothing points to it any more.
 */
void ur_engine_forget(struct ur_device *device, struct ur_qp *qp);

#endif
