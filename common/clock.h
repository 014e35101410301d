/*
 * Clock: time that never goes back, for deadlines.
 */
#ifndef RS_CLOCK_H
#define RS_CLOCK_H

#include <stdint.h>

/* Milliseconds since some start. */
int64_t rs_clock_ms(void);

#endif
