#define LOG_MODULE program_invocation_short_name

#include "rdma_cm_common.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>

#include "log.h"
#include "text.h"

/* 7 would mean for ever, to some devices even where no answer comes. */
#define RETRIES 6

const struct ibv_qp_init_attr rdma_cm_qp = {
	.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
	.qp_type = IBV_QPT_RC,
	.sq_sig_all = 1,
};

const struct rdma_conn_param rdma_cm_param = {
	.retry_count = RETRIES,
	.rnr_retry_count = RETRIES,
};

/* ---- Memory ---- */

bool rdma_cm_register(struct rdma_cm_id *id, struct rdma_cm_message *message)
{
	message->mr = rdma_reg_msgs(id, message->text, sizeof(message->text));
	if (!message->mr)
		LOG_FAILED_CALL(errno, NULL, "rdma_reg_msgs()");
	return message->mr != NULL;
}

void rdma_cm_deregister(struct rdma_cm_message *message)
{
	if (message->mr && rdma_dereg_mr(message->mr) != 0)
		LOG_FAILED_CALL(errno, NULL, "rdma_dereg_mr()");
}

/* ---- Messages ---- */

bool rdma_cm_post_receive(struct rdma_cm_id *id, struct rdma_cm_message *message)
{
	int error = ibv_req_notify_cq(id->recv_cq, 0);

	if (error) {
		LOG_FAILED_CALL(error, NULL, "ibv_req_notify_cq()");
		return false;
	}
	if (rdma_post_recv(id, NULL, message->text, sizeof(message->text), message->mr) != 0) {
		LOG_FAILED_CALL(errno, NULL, "rdma_post_recv()");
		return false;
	}
	return true;
}

/* found: how many completions there were, or -1. */
static bool check_completion(const char *what, int found, const struct ibv_wc *wc)
{
	if (found < 0) {
		LOG_FAILED_CALL(errno, NULL, "waiting for the %s", what);
		return false;
	}
	if (found == 0) {
		LOG_ERROR("%s failed: the peer has ended the connection", what);
		return false;
	}
	if (wc->status != IBV_WC_SUCCESS)
		LOG_ERROR("%s failed: %s", what, ibv_wc_status_str(wc->status));
	return wc->status == IBV_WC_SUCCESS;
}

/* Once connected, the channel's next event is that of the end. */
static bool completes_before_the_end(struct rdma_cm_id *id)
{
	struct pollfd either[] = { { .fd = id->recv_cq_channel->fd, .events = POLLIN },
				   { .fd = id->channel->fd, .events = POLLIN } };

	while (poll(either, 2, -1) < 0 && errno == EINTR)
		;
	return either[0].revents != 0;
}

/*
 * rdma_get_recv_comp alone would wait for ever if the peer goes, since it looks at no events. What
 * came before the end counts.
 */
bool rdma_cm_receive(struct rdma_cm_id *id, struct rdma_cm_message *message)
{
	struct ibv_wc wc;
	int found = completes_before_the_end(id) ? rdma_get_recv_comp(id, &wc)
						 : ibv_poll_cq(id->recv_cq, 1, &wc);

	if (!check_completion("receive", found, &wc))
		return false;
	message->length = wc.byte_len;
	return true;
}

bool rdma_cm_send(struct rdma_cm_id *id, const struct rdma_cm_message *message)
{
	char *text = (char *)(uintptr_t)message->text;
	struct ibv_wc wc;

	if (rdma_post_send(id, NULL, text, message->length, message->mr, 0) != 0) {
		LOG_FAILED_CALL(errno, NULL, "rdma_post_send()");
		return false;
	}
	return check_completion("send", rdma_get_send_comp(id, &wc), &wc);
}

/* ---- The end ---- */

bool rdma_cm_disconnect(struct rdma_cm_id *id)
{
	if (rdma_disconnect(id) == 0)
		return true;
	LOG_FAILED_CALL(errno, NULL, "rdma_disconnect()");
	return false;
}

bool rdma_cm_print(const char *label, const struct rdma_cm_message *message)
{
	char printable[RS_TEXT_ESCAPED_SIZE(OPTIONS_MAX_TEXT)];

	rs_text_escape(message->text, message->length, printable, sizeof(printable));
	printf("%s: %s\n", label, printable);
	if (fflush(stdout) == 0)
		return true;
	LOG_FAILED_SYSTEM_CALL(errno, "printing the text");
	return false;
}
