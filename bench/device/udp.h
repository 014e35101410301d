/*
 * What UDP alone can do on loopback: the limit of a device that is built on it. Segmentation and
 * its reverse are left to the kernel (UDP_SEGMENT, UDP_GRO), and the receiver acknowledges so that
 * nothing is lost.
 */
#ifndef UDP_H
#define UDP_H

#include <stdbool.h>
#include <stdint.h>

#include "peer.h"
#include "run.h"
#include "status.h"

struct udp {
	int fd;
	bool is_client;
	unsigned window; /* batches that are not acknowledged, at most */
	char *buffer;
	struct peer *watched;
};

/* Does the same in the other process. On failure, too, it must be closed. */
enum rs_status udp_open(struct udp *udp, bool is_client, struct peer *peer);
void udp_close(struct udp *udp);

enum rs_status udp_run(struct udp *udp, const struct run *run);

#endif
