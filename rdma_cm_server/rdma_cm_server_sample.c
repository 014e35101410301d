/*
 * RDMA CM server: waits for one client, receives its text, and sends it back. Each call waits until
 * it is done; there is no event to read, and librdmacm makes the queue pair and brings it up.
 * (R-CM-4)
 */
#define LOG_MODULE "rdma_cm_server"

#include "rdma_cm_server_sample.h"

#include <errno.h>

#include "address.h"
#include "log.h"
#include "rdma_cm_common.h"

/* Requests that may wait; one is answered. */
#define BACKLOG 1

/* No other program may have the port at some address: the kernel has words of its own for that. */
static bool is_taken(int error)
{
	return error == EADDRINUSE || error == EADDRNOTAVAIL;
}

/* Binds the port, and says how the queue pair of a client is to be. */
static struct rdma_cm_id *create_listener(uint16_t port)
{
	union rs_address any;
	struct rdma_addrinfo hints = {
		.ai_flags = RAI_PASSIVE,
		.ai_family = AF_INET6,
		.ai_qp_type = IBV_QPT_RC,
		.ai_port_space = RDMA_PS_TCP,
		.ai_src_len = sizeof(any.ipv6),
		.ai_src_addr = &any.any,
	};
	struct ibv_qp_init_attr qp = rdma_cm_qp;
	struct rdma_addrinfo *info;
	struct rdma_cm_id *listener = NULL;

	rs_address_any(port, &any);
	if (rdma_getaddrinfo(NULL, NULL, &hints, &info) != 0) {
		LOG_FAILED_CALL(errno, "is there an RDMA device, and the module rdma_ucm loaded?",
				"rdma_getaddrinfo(port %u)", port);
		return NULL;
	}
	if (rdma_create_ep(&listener, info, NULL, &qp) != 0)
		LOG_FAILED_CALL(errno, is_taken(errno) ? "another program listens there" : NULL,
				"rdma_create_ep(port %u)", port);
	rdma_freeaddrinfo(info);
	return listener;
}

/* NULL: there is none. */
static struct rdma_cm_id *wait_for_client(struct rdma_cm_id *listener, uint16_t port)
{
	struct rdma_cm_id *id;

	if (rdma_listen(listener, BACKLOG) != 0) {
		LOG_FAILED_CALL(errno, NULL, "rdma_listen(port %u)", port);
		return NULL;
	}
	LOG_INFO("waiting for rdma_cm_client at port %u of all addresses", port);
	if (rdma_get_request(listener, &id) != 0) {
		LOG_FAILED_CALL(errno, NULL, "rdma_get_request()");
		return NULL;
	}
	return id;
}

static bool accept_client(struct rdma_cm_id *id)
{
	struct rdma_conn_param param = rdma_cm_param;
	char text[RS_ADDRESS_TEXT_SIZE];

	rs_address_text(rdma_get_peer_addr(id), text);
	if (rdma_accept(id, &param) != 0) {
		LOG_FAILED_CALL(errno, NULL, "rdma_accept(%s)", text);
		return false;
	}
	LOG_INFO("connected with %s", text);
	return true;
}

static bool talk(struct rdma_cm_id *id, struct rdma_cm_message *text)
{
	bool done = rdma_cm_receive(id, text) && rdma_cm_print("Received", text) &&
		    rdma_cm_send(id, text);

	return rdma_cm_disconnect(id) && done;
}

static bool answer(struct rdma_cm_id *id)
{
	struct rdma_cm_message text = { .length = 0 };
	bool done;

	done = rdma_cm_register(id, &text) && rdma_cm_post_receive(id, &text) &&
	       accept_client(id) && talk(id, &text);
	rdma_cm_deregister(&text);
	return done;
}

static bool serve(struct rdma_cm_id *listener, uint16_t port)
{
	struct rdma_cm_id *id = wait_for_client(listener, port);
	bool done;

	if (!id)
		return false;
	done = answer(id);
	rdma_destroy_ep(id);
	return done;
}

int rdma_cm_server(const struct options *options)
{
	struct rdma_cm_id *listener = create_listener(options->listen_port);
	bool done;

	if (!listener)
		return EXIT_STATUS_FAILURE;
	done = serve(listener, options->listen_port);
	rdma_destroy_ep(listener);
	return done ? EXIT_STATUS_OK : EXIT_STATUS_FAILURE;
}
