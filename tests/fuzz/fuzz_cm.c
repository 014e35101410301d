/*
 * libFuzzer target for ur_cm_decode and ur_cm_ip_header_decode: what is decoded must be encoded to
 * something that means the same.
 */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "../../uroce/wire/cm_message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_encoded(const struct ur_cm_message *message)
{
	struct ur_cm_message again;
	uint8_t mad[UR_MAD_SIZE];

	ur_cm_encode(message, mad);
	assert(ur_cm_decode(mad, sizeof(mad), &again) == UR_CM_DECODED);
	assert(memcmp(&again, message, sizeof(again)) == 0);
}

static void check_ip_header(const uint8_t data[UR_CM_IP_HEADER_SIZE])
{
	struct ur_cm_ip_header header, again;
	uint8_t encoded[UR_CM_IP_HEADER_SIZE];

	if (!ur_cm_ip_header_decode(data, &header))
		return;
	assert(header.ip_version == 4 || header.ip_version == 6);
	ur_cm_ip_header_encode(&header, encoded);
	assert(ur_cm_ip_header_decode(encoded, &again));
	assert(memcmp(&again, &header, sizeof(again)) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ur_cm_message message;

	if (ur_cm_decode(data, size, &message) != UR_CM_DECODED)
		return 0;
	assert(message.private_length == ur_cm_private_room(message.kind));
	check_encoded(&message);
	check_ip_header(message.private_data);
	return 0;
}
