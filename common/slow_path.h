/*
 * Marks a function that is seldom called from one that often is: kept out of line, it leaves the
 * often called one without the registers and branches that only it needs.
 */
#ifndef RS_SLOW_PATH_H
#define RS_SLOW_PATH_H

#define RS_SLOW_PATH __attribute__((cold, noinline))

#endif
