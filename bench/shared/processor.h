/*
 * Where the two processes run: each on a processor of its own, so that the two, when both poll, do
 * not take turns on one at the scheduler's pace, and do not move in the middle of a round.
 */
#ifndef PROCESSOR_H
#define PROCESSOR_H

/* Binds this process to the index-th (0 or 1) of the processors that it may use, if those are more
 * than one. */
void processor_bind(unsigned index);

#endif
