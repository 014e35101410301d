/*
 * Listener: who wants requests for a service, and how the one is found that a request is for.
 */
#ifndef UR_LISTENER_H
#define UR_LISTENER_H

#include "manager.h"

struct ur_cm_listener {
	struct ur_cm_listener *next;
	uint64_t service_id;
	union ur_sockaddr address;
	ur_cm_event_fn event;
	void *user_data;
	/* Requests; unanswered: those that were read, too. */
	unsigned backlog, unread, unanswered;
	unsigned process;           /* that it is of, see manager.c */
	int fd;                     /* the claim's; belongs to the port */
	struct ur_device **devices; /* that it holds open */
	unsigned device_count;
};

/* The best of a list for requests that come to the local address: see ur_cm_listen. NULL: none. */
struct ur_cm_listener *ur_listener_find(struct ur_cm_listener *first, uint64_t service_id,
					const union ur_sockaddr *local);

/* One with that claim. NULL: none. */
struct ur_cm_listener *ur_listener_find_fd(struct ur_cm_listener *first, int fd);

/* What a program's wish becomes. */
unsigned ur_listener_limit(int backlog);

#endif
