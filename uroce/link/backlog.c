#include "backlog.h"

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <string.h>
#include <unistd.h>

#include "address.h"

struct request {
	struct nlmsghdr header;
	struct inet_diag_req_v2 body;
};

union answer {
	struct nlmsghdr header;
	char bytes[1024];
};

void ur_backlog_close(struct ur_backlog *backlog)
{
	if (backlog->state == UR_BACKLOG_OPEN)
		close(backlog->fd);
	backlog->state = UR_BACKLOG_CLOSED;
}

static void open_socket(struct ur_backlog *backlog)
{
	backlog->fd =
		socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
	backlog->state = backlog->fd < 0 ? UR_BACKLOG_UNAVAILABLE : UR_BACKLOG_OPEN;
}

static void put_address(const union ur_sockaddr *address, __be32 to[4])
{
	if (ur_address_is_ipv4(address))
		memcpy(to, &address->v4.sin_addr, sizeof(address->v4.sin_addr));
	else
		memcpy(to, &address->v6.sin6_addr, sizeof(address->v6.sin6_addr));
}

/* The socket is looked for as for a packet: source and destination are the packet's. */
static struct request make_request(const struct ur_flow *flow)
{
	bool is_ipv4 = ur_address_is_ipv4(&flow->dest);
	struct request request = {
		.header = { .nlmsg_len = sizeof(request),
			    .nlmsg_type = SOCK_DIAG_BY_FAMILY,
			    .nlmsg_flags = NLM_F_REQUEST },
		.body = { .sdiag_family = is_ipv4 ? AF_INET : AF_INET6,
			  .sdiag_protocol = IPPROTO_UDP,
			  .idiag_ext = 1 << (INET_DIAG_SKMEMINFO - 1),
			  .idiag_states = UINT32_MAX,
			  .id = { .idiag_sport = htons(ur_address_port(&flow->source)),
				  .idiag_dport = htons(ur_address_port(&flow->dest)),
				  .idiag_if = is_ipv4 ? 0 : flow->dest.v6.sin6_scope_id,
				  .idiag_cookie = { INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE } } },
	};

	put_address(&flow->source, request.body.id.idiag_src);
	put_address(&flow->dest, request.body.id.idiag_dst);
	return request;
}

static const struct rtattr *find_attribute(const union answer *answer, size_t size)
{
	const struct rtattr *attribute;
	size_t left;

	if (!NLMSG_OK(&answer->header, size) || answer->header.nlmsg_type != SOCK_DIAG_BY_FAMILY ||
	    answer->header.nlmsg_len < NLMSG_LENGTH(sizeof(struct inet_diag_msg)))
		return NULL;
	attribute =
		(const struct rtattr *)(answer->bytes + NLMSG_SPACE(sizeof(struct inet_diag_msg)));
	left = answer->header.nlmsg_len - NLMSG_LENGTH(sizeof(struct inet_diag_msg));
	for (; RTA_OK(attribute, left); attribute = RTA_NEXT(attribute, left))
		if (attribute->rta_type == INET_DIAG_SKMEMINFO)
			return attribute;
	return NULL;
}

/* Half of it is left free: what the system has on its way to there is not counted yet. */
static uint32_t limit_of(uint32_t buffer, uint32_t size)
{
	if (size < buffer / 2)
		return buffer / 2;
	return size < buffer ? buffer - size : 0;
}

static bool has_room(const union answer *answer, size_t answer_size, uint32_t size)
{
	const struct rtattr *attribute = find_attribute(answer, answer_size);
	uint32_t values[SK_MEMINFO_RCVBUF + 1];

	if (!attribute || RTA_PAYLOAD(attribute) < sizeof(values))
		return true;
	memcpy(values, RTA_DATA(attribute), sizeof(values));
	return values[SK_MEMINFO_RMEM_ALLOC] <= limit_of(values[SK_MEMINFO_RCVBUF], size);
}

/* The system answers before send returns. Returns the answer's size, or -1. */
static ssize_t ask(int fd, const struct request *request, union answer *answer)
{
	if (send(fd, request, sizeof(*request), 0) < 0)
		return -1;
	return recv(fd, answer, sizeof(*answer), 0);
}

bool ur_backlog_has_room(struct ur_backlog *backlog, const struct ur_flow *flow, uint32_t size)
{
	const struct request request = make_request(flow);
	union answer answer;
	ssize_t received;

	if (backlog->state == UR_BACKLOG_CLOSED)
		open_socket(backlog);
	if (backlog->state == UR_BACKLOG_UNAVAILABLE)
		return true;
	received = ask(backlog->fd, &request, &answer);
	if (received >= 0)
		return has_room(&answer, (size_t)received, size);
	ur_backlog_close(backlog);
	backlog->state = UR_BACKLOG_UNAVAILABLE;
	return true;
}
