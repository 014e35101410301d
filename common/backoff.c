#include "backoff.h"

#define SPINNING_LOOKS 1000
#define FIRST_PAUSE_US 50U
#define LAST_PAUSE_US  1000

unsigned rs_backoff_next(struct rs_backoff *backoff)
{
	unsigned pause;

	if (backoff->looks < SPINNING_LOOKS) {
		backoff->looks++;
		return 0;
	}
	pause = FIRST_PAUSE_US << (backoff->looks - SPINNING_LOOKS);
	/* From here on it is always the same, and no longer counted. */
	if (pause >= LAST_PAUSE_US)
		return LAST_PAUSE_US;
	backoff->looks++;
	return pause;
}
