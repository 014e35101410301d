/*
 * RDMA CM client: connects with the server by its address, sends its text, and gets it back. Each
 * call waits until it is done; there is no event to read, and librdmacm makes the queue pair and
 * brings it up. (R-CM-4)
 */
#define LOG_MODULE "rdma_cm_client"

#include "rdma_cm_client_sample.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "address.h"
#include "log.h"
#include "rdma_cm_common.h"

/* Statuses of a rejection, as InfiniBand numbers them. */
enum { NOBODY_LISTENS = 8, SERVER_REFUSES = 28 };

/* Bytes that a server can reject with. */
#define MAX_REASON 148

/* Finds the device through which the server is reached, and makes a queue pair on it. */
static struct rdma_cm_id *create_endpoint(union rs_address *server)
{
	struct rdma_addrinfo hints = {
		.ai_family = server->any.sa_family,
		.ai_qp_type = IBV_QPT_RC,
		.ai_port_space = RDMA_PS_TCP,
		.ai_dst_len = server->any.sa_family == AF_INET ? sizeof(server->ipv4)
							       : sizeof(server->ipv6),
		.ai_dst_addr = &server->any,
	};
	struct ibv_qp_init_attr qp = rdma_cm_qp;
	char text[RS_ADDRESS_TEXT_SIZE];
	struct rdma_addrinfo *info;
	struct rdma_cm_id *id = NULL;

	if (rdma_getaddrinfo(NULL, NULL, &hints, &info) != 0) {
		LOG_FAILED_CALL(errno, "is there an RDMA device, and the module rdma_ucm loaded?",
				"rdma_getaddrinfo(%s)", rs_address_text(&server->any, text));
		return NULL;
	}
	if (rdma_create_ep(&id, info, NULL, &qp) != 0)
		LOG_FAILED_CALL(errno, "is there a route to it from an RDMA device?",
				"rdma_create_ep(%s)", rs_address_text(&server->any, text));
	rdma_freeaddrinfo(info);
	return id;
}

/* event: the one that rdma_connect has waited for, or NULL. */
static void explain_rejection(const struct rdma_cm_event *event, char cause[MAX_REASON + 1])
{
	cause[0] = '\0';
	if (!event || event->event != RDMA_CM_EVENT_REJECTED)
		return;
	if (event->status == NOBODY_LISTENS)
		strcpy(cause, "no program listens there");
	else if (event->status == SERVER_REFUSES && event->param.conn.private_data_len > 0)
		snprintf(cause, MAX_REASON + 1, "%.*s", event->param.conn.private_data_len,
			 (const char *)event->param.conn.private_data);
}

static bool connect_to_server(struct rdma_cm_id *id)
{
	struct rdma_conn_param param = rdma_cm_param;
	char text[RS_ADDRESS_TEXT_SIZE], cause[MAX_REASON + 1];
	int error;

	rs_address_text(rdma_get_peer_addr(id), text);
	LOG_INFO("connecting with %s", text);
	if (rdma_connect(id, &param) == 0)
		return true;
	error = errno;
	explain_rejection(id->event, cause);
	LOG_FAILED_CALL(error, cause, "rdma_connect(%s)", text);
	return false;
}

static bool send_text(struct rdma_cm_id *id, const struct rdma_cm_message *text)
{
	return rdma_cm_print("Sending", text) && rdma_cm_send(id, text);
}

static bool receive_answer(struct rdma_cm_id *id, struct rdma_cm_message *answer)
{
	LOG_INFO("waiting for the answer of rdma_cm_server");
	return rdma_cm_receive(id, answer) && rdma_cm_print("Answered by the server", answer);
}

static bool talk(struct rdma_cm_id *id, const struct rdma_cm_message *text,
		 struct rdma_cm_message *answer)
{
	bool done = send_text(id, text) && receive_answer(id, answer);

	return rdma_cm_disconnect(id) && done;
}

static bool exchange_texts(struct rdma_cm_id *id, const char *own_text)
{
	struct rdma_cm_message text = { .length = strlen(own_text) }, answer = { .length = 0 };
	bool done;

	memcpy(text.text, own_text, text.length);
	done = rdma_cm_register(id, &text) && rdma_cm_register(id, &answer) &&
	       rdma_cm_post_receive(id, &answer) && connect_to_server(id) &&
	       talk(id, &text, &answer);
	rdma_cm_deregister(&answer);
	rdma_cm_deregister(&text);
	return done;
}

int rdma_cm_client(const struct options *options)
{
	union rs_address server;
	struct rdma_cm_id *id;
	bool done;

	if (rs_address_parse(options->server_address, options->server_address_type,
			     options->listen_port, &server) != RS_OK)
		return EXIT_STATUS_FAILURE;
	id = create_endpoint(&server);
	if (!id)
		return EXIT_STATUS_FAILURE;
	done = exchange_texts(id, options->text);
	rdma_destroy_ep(id);
	return done ? EXIT_STATUS_OK : EXIT_STATUS_FAILURE;
}
