#include "connection.h"

#include <errno.h>
#include <stdlib.h>

#include "../link/address.h"

/* ---- Events ---- */

int ur_connection_put_event(struct ur_cm_connection *connection, enum ur_cm_event_kind kind,
			    const struct ur_cm_message *message)
{
	struct ur_pending_event *event = calloc(1, sizeof(*event));
	struct ur_pending_event **end = &connection->first_event;

	if (!event)
		return ENOMEM;
	event->kind = kind;
	event->has_message = message;
	if (message)
		event->message = *message;
	while (*end)
		end = &(*end)->next;
	*end = event;
	return 0;
}

struct ur_pending_event *ur_connection_take_event(struct ur_cm_connection *connection)
{
	struct ur_pending_event *event = connection->first_event;

	if (event)
		connection->first_event = event->next;
	return event;
}

void ur_connection_drop_events(struct ur_cm_connection *connection)
{
	while (connection->first_event)
		free(ur_connection_take_event(connection));
}

/* ---- Table ---- */

static unsigned hash_number(uint32_t number)
{
	return (unsigned)(number * UINT32_C(2654435761) >> 22);
}

static uint32_t fold_address(const union ur_sockaddr *address)
{
	uint32_t words[4];

	if (ur_address_is_ipv4(address))
		return address->v4.sin_addr.s_addr;
	memcpy(words, &address->v6.sin6_addr, sizeof(words));
	return words[0] ^ words[1] ^ words[2] ^ words[3];
}

static unsigned hash_peer(const union ur_sockaddr *peer, uint32_t number)
{
	return hash_number(number ^ hash_number(fold_address(peer)));
}

static unsigned hash_of(const struct ur_cm_connection *connection, enum ur_connection_key key)
{
	const union ur_sockaddr *peer = &connection->route.dest;

	switch (key) {
	case UR_BY_REQUEST:
		return hash_peer(peer, connection->endpoint.remote_id);
	case UR_BY_QPN:
		return hash_peer(peer, connection->endpoint.remote_qpn);
	default:
		return hash_number(connection->endpoint.local_id);
	}
}

void ur_connection_add(struct ur_connection_table *table, struct ur_cm_connection *connection,
		       enum ur_connection_key key)
{
	struct ur_cm_connection **bucket = &table->buckets[key][hash_of(connection, key)];

	connection->next_by[key] = *bucket;
	connection->known_by[key] = true;
	*bucket = connection;
}

static void remove_by(struct ur_connection_table *table, struct ur_cm_connection *connection,
		      enum ur_connection_key key)
{
	struct ur_cm_connection **link = &table->buckets[key][hash_of(connection, key)];

	while (*link != connection)
		link = &(*link)->next_by[key];
	*link = connection->next_by[key];
	connection->known_by[key] = false;
}

void ur_connection_remove(struct ur_connection_table *table, struct ur_cm_connection *connection)
{
	for (enum ur_connection_key key = 0; key < UR_CONNECTION_KEYS; key++)
		if (connection->known_by[key])
			remove_by(table, connection, key);
}

struct ur_cm_connection *ur_connection_find(const struct ur_connection_table *table, uint32_t id)
{
	struct ur_cm_connection *found = table->buckets[UR_BY_ID][hash_number(id)];

	while (found && found->endpoint.local_id != id)
		found = found->next_by[UR_BY_ID];
	return found;
}

static bool is_of_peer(const struct ur_cm_connection *connection, const union ur_sockaddr *peer)
{
	return ur_address_same_host(&connection->route.dest, peer);
}

struct ur_cm_connection *ur_connection_find_request(const struct ur_connection_table *table,
						    const union ur_sockaddr *peer,
						    uint32_t remote_id, bool is_datagram)
{
	struct ur_cm_connection *found = table->buckets[UR_BY_REQUEST][hash_peer(peer, remote_id)];

	while (found && !(found->endpoint.remote_id == remote_id && is_of_peer(found, peer) &&
			  found->is_datagram == is_datagram))
		found = found->next_by[UR_BY_REQUEST];
	return found;
}

struct ur_cm_connection *ur_connection_find_live(const struct ur_connection_table *table,
						 const union ur_sockaddr *peer, uint32_t qpn)
{
	struct ur_cm_connection *found = table->buckets[UR_BY_QPN][hash_peer(peer, qpn)];

	while (found && !(found->endpoint.remote_qpn == qpn && is_of_peer(found, peer) &&
			  ur_endpoint_is_live(&found->endpoint)))
		found = found->next_by[UR_BY_QPN];
	return found;
}

struct ur_cm_connection *ur_connection_next(const struct ur_connection_table *table,
					    const struct ur_cm_connection *connection)
{
	unsigned bucket = 0;

	if (connection && connection->next_by[UR_BY_ID])
		return connection->next_by[UR_BY_ID];
	if (connection)
		bucket = hash_of(connection, UR_BY_ID) + 1;
	while (bucket < UR_CONNECTION_BUCKETS && !table->buckets[UR_BY_ID][bucket])
		bucket++;
	return bucket < UR_CONNECTION_BUCKETS ? table->buckets[UR_BY_ID][bucket] : NULL;
}
