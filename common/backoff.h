/*
 * Backoff: the pauses between two looks at something that announces no change (memory that a device
 * writes to, a value at the peer): none at first, then longer and longer ones, so that a short wait
 * is short and a long one leaves the core to others.
 */
#ifndef RS_BACKOFF_H
#define RS_BACKOFF_H

/* All zero: before the first look. */
struct rs_backoff {
	unsigned looks;
};

/*
 * How long to pause before the next look, microseconds: 0 for the first looks (let the processor
 * spin), then 50, growing to 1000.
 */
unsigned rs_backoff_next(struct rs_backoff *backoff);

#endif
