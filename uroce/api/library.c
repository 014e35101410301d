#include "../cm/manager.h"
#include "../core/device.h"

/* The engines' threads still run: what they do is guarded by their devices' locks. */
__attribute__((destructor)) static void end(void)
{
	ur_cm_at_exit();
	ur_devices_at_exit();
}
