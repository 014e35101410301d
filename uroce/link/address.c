#include "address.h"

#include <arpa/inet.h>
#include <stdio.h>

const char *ur_address_text(const union ur_sockaddr *address, char text[UR_ADDRESS_TEXT_SIZE])
{
	char name[INET6_ADDRSTRLEN];
	const void *bytes = ur_address_is_ipv4(address) ? (const void *)&address->v4.sin_addr
							: &address->v6.sin6_addr;

	inet_ntop(address->any.sa_family, bytes, name, sizeof(name));
	snprintf(text, UR_ADDRESS_TEXT_SIZE, "%s port %u", name, ur_address_port(address));
	return text;
}
