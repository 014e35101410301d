#include "sample_impl.h"

#include <stdio.h>
#include <string.h>

#include "cm.h"
#include "hello.h"
#include "log.h"

#define MAX_REASON (RS_CM_MAX_REASON + 1)

/* ---- What the peer says of itself ---- */

static bool is_stranger(const struct program *program, const char *name)
{
	return program->stranger && strcmp(program->stranger, name) == 0;
}

/* Whether the peer's resource is of the kind that this program works on; or none, if it needs none. */
static bool has_resource(const struct program *program, const struct rs_hello *hello)
{
	struct rs_descriptor resource;
	char message[RS_DESCRIPTOR_MESSAGE_SIZE];

	if (!sample_peer_has_resource(program))
		return true;
	return hello->resource[0] &&
	       rs_descriptor_parse(hello->resource, &resource, message) == RS_OK &&
	       resource.kind == program->resource;
}

/* Takes what the peer has sent; or says what is wrong with it, in words for both sides' logs. */
static bool take_hello(struct sample *sample, const struct rs_connection *connection,
		       char reason[MAX_REASON])
{
	const struct program *program = sample->options->program;
	struct rs_hello hello;
	size_t length;
	const void *data = rs_connection_private_data(connection, &length);

	if (rs_hello_decode(data, length, &hello) != RS_OK) {
		snprintf(reason, MAX_REASON, "not a program of this suite; %s works with %s",
			 program->name, program->peer);
		return false;
	}
	if (is_stranger(program, hello.name)) {
		LOG_WARNING(RS_EXCHANGE_STRANGER_WARNING, hello.name);
	} else if (strcmp(hello.name, program->peer) != 0) {
		snprintf(reason, MAX_REASON, "%s works with %s, not with %s", program->name,
			 program->peer, hello.name);
		return false;
	}
	if (!has_resource(program, &hello)) {
		snprintf(reason, MAX_REASON, "%s has sent no \"%s\" descriptor", hello.name,
			 rs_descriptor_kind_name(program->resource));
		return false;
	}
	strcpy(sample->peer_resource[0], hello.resource);
	return true;
}

static bool make_hello(struct sample *sample, uint8_t hello[RS_HELLO_SIZE])
{
	sample_record(sample, rs_hello_encode(sample->options->program->name, sample->resource_line,
					      hello));
	return !sample_has_failed(sample);
}

/* ---- Events of connections ---- */

static bool is_server(const struct sample *sample)
{
	return sample->options->server_address == NULL;
}

/* The server knows who asks before it answers. */
static void on_requested(struct rs_connection *connection, void *sample_data)
{
	struct sample *sample = sample_data;
	char reason[MAX_REASON] = "all connections are taken, the server has begun";
	char text[RS_ADDRESS_TEXT_SIZE];
	uint8_t hello[RS_HELLO_SIZE];

	if (rs_ctx_state(sample->ctx) == RS_CTX_STARTING &&
	    take_hello(sample, connection, reason)) {
		if (make_hello(sample, hello))
			rs_connection_accept(connection, hello, sizeof(hello));
		return;
	}
	LOG_WARNING("%s is rejected: %s",
		    rs_address_text(rs_connection_peer_address(connection), text), reason);
	rs_connection_reject(connection, reason);
}

static void on_established(struct rs_connection *connection, void *sample_data)
{
	struct sample *sample = sample_data;
	char text[RS_ADDRESS_TEXT_SIZE], reason[MAX_REASON];

	if (!is_server(sample) && !take_hello(sample, connection, reason)) {
		LOG_ERROR("the server does not fit: %s", reason);
		sample_record(sample, RS_ERR_BAD_DESCRIPTOR);
		return;
	}
	sample->connections[rs_connection_id(connection)] = connection;
	LOG_INFO("connection %u: with %s", rs_connection_id(connection),
		 rs_address_text(rs_connection_peer_address(connection), text));
}

/* A server goes on with its other clients. */
static void lose_connection(struct sample *sample, struct rs_connection *connection)
{
	if (rs_ctx_state(sample->ctx) == RS_CTX_RUNNING && sample->options->num_connections > 1)
		sample_lose_messages(sample, connection);
}

static void on_disconnected(struct rs_connection *connection, void *sample_data)
{
	struct sample *sample = sample_data;

	LOG_INFO("connection %u: the peer has ended it", rs_connection_id(connection));
	if (sample->on_answer)
		sample->on_answer(sample);
	else
		lose_connection(sample, connection);
}

void sample_on_connection_failed(struct rs_connection *connection, enum rs_status reason,
				 void *sample_data)
{
	struct sample *sample = sample_data;

	LOG_WARNING("connection %u has failed: %s", rs_connection_id(connection),
		    rs_status_text(reason));
	if (sample->finishes)
		sample->on_answer(sample);
	else
		lose_connection(sample, connection);
}

const struct rs_connection_callbacks sample_connection_callbacks = {
	.requested = on_requested,
	.established = on_established,
	.disconnected = on_disconnected,
};

/* ---- Listen or connect ---- */

/* Where clients find this server: its device's address. */
static void say_where(const struct sample *sample)
{
	const struct options *options = sample->options;
	struct ibv_gid_entry entry;
	union rs_address address;
	char gid[RS_GID_TEXT_SIZE], text[RS_ADDRESS_TEXT_SIZE];

	if (rs_rdma_get_gid(sample->rdma, &entry) != RS_OK ||
	    rs_address_parse(rs_gid_text(&entry.gid, gid), RS_ADDRESS_GID, options->listen_port,
			     &address) != RS_OK)
		return;
	LOG_INFO("waiting for %u connection%s of %s, at %s", options->num_connections,
		 options->num_connections == 1 ? "" : "s", options->program->peer,
		 rs_address_text(&address.any, text));
}

static void listen_for_peers(struct sample *sample)
{
	sample_record(sample, rs_rdma_listen(sample->rdma, sample->options->listen_port));
	if (!sample_has_failed(sample))
		say_where(sample);
}

static void connect_to_server(struct sample *sample)
{
	struct rs_connection *connection;
	char text[RS_ADDRESS_TEXT_SIZE];
	uint8_t hello[RS_HELLO_SIZE];

	if (!make_hello(sample, hello))
		return;
	LOG_INFO("connecting with %s", rs_address_text(&sample->server_address.any, text));
	sample_record(sample, rs_rdma_connect_to_address(sample->rdma, &sample->server_address,
							 hello, sizeof(hello), &connection));
}

void sample_connect_by_address(struct sample *sample)
{
	if (sample_has_failed(sample))
		return;
	if (is_server(sample))
		listen_for_peers(sample);
	else
		connect_to_server(sample);
}

/* A client's device is the one that reaches the server. */
const char *sample_find_device(struct sample *sample, char name[IBV_SYSFS_NAME_MAX])
{
	const struct options *options = sample->options;

	if (!options->use_rdma_cm || is_server(sample))
		return options->device;
	sample_record(sample,
		      rs_address_parse(options->server_address, options->server_address_type,
				       options->listen_port, &sample->server_address));
	if (options->device || sample_has_failed(sample))
		return options->device;
	sample_record(sample, rs_cm_find_device(&sample->server_address, name));
	return name;
}
