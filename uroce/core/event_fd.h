/*
 * Event descriptor: what a program waits on for events, which stand in a list elsewhere. It is
 * readable while there are some: whoever adds one to the list adds a token here, and whoever wants
 * one takes a token first. (A token whose event was withdrawn meanwhile leads to an empty list:
 * take another.)
 */
#ifndef UR_EVENT_FD_H
#define UR_EVENT_FD_H

/* Returns the descriptor, or -1 and errno. */
int ur_event_fd_open(void);

void ur_event_fd_add(int fd);

/* Waits for a token unless the descriptor is non-blocking. Returns 0, or -1 and errno. */
int ur_event_fd_take(int fd);

/* Takes a token if there is one, without waiting whatever the descriptor's mode is. */
void ur_event_fd_withdraw(int fd);

#endif
