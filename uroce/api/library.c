#include "../core/device.h"

/* The engines' threads still run: what they do is guarded by their devices' locks. */
__attribute__((destructor)) static void end(void)
{
	ur_devices_at_exit();
}
