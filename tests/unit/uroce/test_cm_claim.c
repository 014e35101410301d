#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../../uroce/cm/claim.h"
#include "../../../uroce/cm/port.h"
#include "network.h"

#define SPACE       0x106
#define OTHER_SPACE 0x111
#define PORT        7174
#define SERVICE     UR_CM_SERVICE_ID(SPACE, PORT)

#define STRANGER_UID 65534

static struct ur_claimed request_of(uint8_t byte)
{
	struct ur_claimed request = { .from = network_address("127.0.0.9", 4792),
				      .to = network_address("127.0.0.1", 0) };

	memset(request.mad, byte, sizeof(request.mad));
	return request;
}

static int pass(uint8_t byte)
{
	struct ur_claimed request = request_of(byte);

	return ur_claim_pass(SERVICE, &request);
}

static void assert_request(int fd, uint8_t byte)
{
	struct ur_claimed expected = request_of(byte), request;

	assert_true(ur_claim_read(fd, &request));
	assert_memory_equal(&request, &expected, sizeof(request));
}

static void assert_nothing(int fd)
{
	struct ur_claimed request;

	assert_false(ur_claim_read(fd, &request));
}

static int claim_and_listen(void)
{
	int fd = ur_claim_open(SERVICE);

	assert_true(fd >= 0);
	ur_claim_listen(fd);
	return fd;
}

static void assert_claimed(bool claimed)
{
	int fd = ur_claim_open(SERVICE);

	assert_int_equal(fd < 0, claimed);
	if (claimed)
		assert_int_equal(errno, EADDRINUSE);
	else
		close(fd);
}

/* ---- Other processes ---- */

/* One that does something, and then stays until it is ended. */
static pid_t start_process(bool (*work)(void))
{
	int done[2];
	bool good = false;
	pid_t pid;

	assert_int_equal(pipe(done), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		good = work();
		if (write(done[1], &good, sizeof(good)) == sizeof(good))
			pause();
		_exit(1);
	}
	assert_int_equal(read(done[0], &good, sizeof(good)), sizeof(good));
	assert_true(good);
	close(done[0]);
	close(done[1]);
	return pid;
}

static void end_process(pid_t pid)
{
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static bool claim(void)
{
	return ur_claim_open(SERVICE) >= 0;
}

static bool pass_as_stranger(void)
{
	return setuid(STRANGER_UID) == 0 && pass(1) == 0;
}

static bool pass_7(void)
{
	return pass(7) == 0;
}

/* What the parent takes the port of, and may give back while the child lives. */
static bool nothing(void)
{
	return true;
}

static bool take_port(void)
{
	uint16_t port = PORT;

	return ur_cm_take_port(SPACE, &port, false) == 0 && ur_cm_port_fd(SPACE, PORT) >= 0;
}

/* ---- Claims ---- */

static void test_a_service_is_claimed_once_until_the_claim_is_closed(void **state)
{
	int fd = ur_claim_open(SERVICE), other = ur_claim_open(SERVICE + 1);

	(void)state;
	assert_true(fd >= 0 && other >= 0);
	assert_claimed(true);
	close(fd);
	assert_claimed(false);
	close(other);
}

static void test_a_claim_of_another_process_ends_when_it_is_killed(void **state)
{
	pid_t pid = start_process(claim);

	(void)state;
	assert_claimed(true);
	end_process(pid);
	assert_claimed(false);
}

static void test_a_request_comes_through_as_it_was(void **state)
{
	int fd = claim_and_listen();
	pid_t pid = start_process(pass_7);

	(void)state;
	assert_request(fd, 7);
	assert_nothing(fd);
	assert_int_equal(pass(1), 0);
	assert_int_equal(pass(2), 0);
	assert_request(fd, 1);
	assert_request(fd, 2);
	assert_nothing(fd);
	end_process(pid);
	close(fd);
}

static void test_what_nobody_listens_for_is_refused(void **state)
{
	int fd;

	(void)state;
	assert_int_equal(pass(1), ECONNREFUSED);
	fd = ur_claim_open(SERVICE);
	assert_int_equal(pass(1), ECONNREFUSED);
	assert_nothing(fd);
	ur_claim_listen(fd);
	ur_claim_listen(fd);
	assert_int_equal(pass(2), 0);
	assert_request(fd, 2);
	close(fd);
	assert_int_equal(pass(3), ECONNREFUSED);
}

static void test_a_process_that_is_too_slow_keeps_nobody_waiting(void **state)
{
	int fd = claim_and_listen();
	unsigned passed = 0;
	int error;

	(void)state;
	while ((error = pass((uint8_t)passed)) == 0)
		passed++;
	assert_int_equal(error, EAGAIN);
	for (unsigned i = 0; i < passed; i++)
		assert_request(fd, (uint8_t)i);
	assert_nothing(fd);
	assert_int_equal(pass(1), 0);
	close(fd);
}

static void test_a_claim_is_not_inherited_by_programs_and_never_blocks(void **state)
{
	int fd = ur_claim_open(SERVICE);

	(void)state;
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
	close(fd);
}

/* ---- What is not taken ---- */

/* Sends anything, with a descriptor. */
static void send_raw(const void *data, size_t size)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	int length = snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, "uroce/cm/%llx",
			      (unsigned long long)SERVICE);
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = { .header = { .cmsg_len = CMSG_LEN(sizeof(int)),
				  .cmsg_level = SOL_SOCKET,
				  .cmsg_type = SCM_RIGHTS } };
	struct iovec piece = { (void *)(uintptr_t)data, size };
	const struct msghdr header = {
		.msg_name = &name,
		.msg_namelen =
			(socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1) + (socklen_t)length,
		.msg_iov = &piece,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};

	memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
	assert_int_equal(sendmsg(fd, &header, 0), size);
	close(fd);
}

/* What the system gives next. */
static int next_descriptor(void)
{
	int fd = dup(0);

	close(fd);
	return fd;
}

static void test_what_is_malformed_is_skipped(void **state)
{
	int fd = claim_and_listen(), next = next_descriptor();
	struct {
		struct ur_claimed request;
		char more;
	} long_request = { .request = request_of(1) };
	struct ur_claimed request = request_of(1);

	(void)state;
	send_raw(&request, 0);
	send_raw(&request, sizeof(request) - 1);
	send_raw(&long_request, sizeof(request) + 1);
	request.to = network_address("::1", 0);
	send_raw(&request, sizeof(request));
	request.from.any.sa_family = request.to.any.sa_family = AF_UNIX;
	send_raw(&request, sizeof(request));
	assert_int_equal(pass(2), 0);
	assert_request(fd, 2);
	assert_nothing(fd);
	assert_int_equal(next_descriptor(), next);
	close(fd);
}

static void test_a_flood_of_it_keeps_the_reader_no_longer_than_it_should(void **state)
{
	int fd = claim_and_listen();

	(void)state;
	for (unsigned i = 0; i < 8; i++)
		send_raw("", 1);
	assert_int_equal(pass(2), 0);
	assert_nothing(fd);
	assert_request(fd, 2);
	close(fd);
}

static void test_another_user_is_a_stranger(void **state)
{
	int fd;
	pid_t pid;

	(void)state;
	if (getuid() != 0)
		skip();
	fd = claim_and_listen();
	pid = start_process(pass_as_stranger);
	assert_int_equal(pass(2), 0);
	assert_request(fd, 2);
	assert_nothing(fd);
	end_process(pid);
	close(fd);
}

static void test_root_is_trusted_by_all(void **state)
{
	int fd;

	(void)state;
	if (getuid() != 0)
		skip();
	fd = claim_and_listen();
	assert_int_equal(pass(1), 0);
	assert_int_equal(seteuid(STRANGER_UID), 0);
	assert_request(fd, 1);
	assert_int_equal(seteuid(0), 0);
	close(fd);
}

static void test_who_runs_with_another_users_rights_trusts_both(void **state)
{
	int fd;
	pid_t pid;

	(void)state;
	if (getuid() != 0)
		skip();
	fd = claim_and_listen();
	pid = start_process(pass_as_stranger);
	assert_int_equal(setresuid(STRANGER_UID, 1, 0), 0);
	assert_request(fd, 1);
	assert_int_equal(setresuid(0, 0, 0), 0);
	end_process(pid);
	close(fd);
}

/* ---- Ports ---- */

static void take(uint16_t space, uint16_t port, bool shared, int expected)
{
	uint16_t taken = port;

	assert_int_equal(ur_cm_take_port(space, &taken, shared), expected);
	assert_int_equal(taken, port);
}

static uint16_t take_free(void)
{
	uint16_t port = 0;

	assert_int_equal(ur_cm_take_port(SPACE, &port, false), 0);
	assert_in_range(port, 32768, 60999);
	return port;
}

static void test_a_port_is_taken_once_in_each_space(void **state)
{
	(void)state;
	take(SPACE, PORT, false, 0);
	take(SPACE, PORT, false, EADDRINUSE);
	take(SPACE, PORT, true, EADDRINUSE);
	take(OTHER_SPACE, PORT, false, 0);
	ur_cm_give_port(SPACE, PORT);
	take(SPACE, PORT, true, 0);
	take(SPACE, PORT, false, EADDRINUSE);
	ur_cm_give_port(SPACE, PORT);
	ur_cm_give_port(OTHER_SPACE, PORT);
	assert_claimed(false);
}

static void test_a_shared_port_is_free_when_it_was_given_back_as_often_as_taken(void **state)
{
	(void)state;
	take(SPACE, PORT, true, 0);
	take(SPACE, PORT, true, 0);
	ur_cm_give_port(SPACE, PORT);
	assert_claimed(true);
	ur_cm_give_port(SPACE, PORT);
	assert_claimed(false);
	ur_cm_give_port(SPACE, PORT);
}

static void test_a_port_of_another_process_is_not_free(void **state)
{
	pid_t pid = start_process(take_port);

	(void)state;
	take(SPACE, PORT, false, EADDRINUSE);
	take(SPACE, PORT, true, EADDRINUSE);
	end_process(pid);
	take(SPACE, PORT, false, 0);
	ur_cm_give_port(SPACE, PORT);
}

static void test_free_ports_are_found(void **state)
{
	uint16_t ports[100];

	(void)state;
	for (unsigned i = 0; i < 100; i++) {
		ports[i] = take_free();
		for (unsigned j = 0; j < i; j++)
			assert_int_not_equal(ports[i], ports[j]);
	}
	for (unsigned i = 0; i < 100; i++)
		ur_cm_give_port(SPACE, ports[i]);
}

static void test_requests_come_once_the_port_is_listened_at(void **state)
{
	int fd;

	(void)state;
	assert_int_equal(ur_cm_port_fd(SPACE, PORT), -1);
	take(SPACE, PORT, false, 0);
	assert_int_equal(pass(1), ECONNREFUSED);
	fd = ur_cm_port_fd(SPACE, PORT);
	assert_int_equal(pass(2), 0);
	assert_int_equal(ur_cm_port_fd(SPACE, PORT), fd);
	assert_request(fd, 2);
	ur_cm_give_port(SPACE, PORT);
	assert_int_equal(pass(3), ECONNREFUSED);
}

static void test_no_requests_come_when_nobody_listens_any_more(void **state)
{
	int fd;

	(void)state;
	take(SPACE, PORT, false, 0);
	ur_cm_port_end_fd(SPACE, PORT);
	for (unsigned round = 0; round < 2; round++) {
		fd = ur_cm_port_fd(SPACE, PORT);
		assert_int_equal(ur_cm_port_fd(SPACE, PORT), fd);
		ur_cm_port_end_fd(SPACE, PORT);
		assert_int_equal(pass(1), 0);
		ur_cm_port_end_fd(SPACE, PORT);
		assert_nothing(fd);
		assert_int_equal(pass(2), ECONNREFUSED);
	}
	ur_cm_give_port(SPACE, PORT);
}

static void test_a_child_does_not_have_its_parents_ports(void **state)
{
	pid_t pid;

	(void)state;
	take(SPACE, PORT, false, 0);
	pid = start_process(nothing);
	assert_claimed(true);
	ur_cm_give_port(SPACE, PORT);
	assert_claimed(false);
	end_process(pid);
}

#define PORTS_OF_THREAD 200

static void *take_many(void *argument)
{
	bool *good = argument;

	for (unsigned i = 0; i < PORTS_OF_THREAD; i++) {
		uint16_t port = 0, same = PORT;

		*good &= ur_cm_take_port(SPACE, &port, false) == 0 &&
			 ur_cm_take_port(SPACE, &same, true) == 0;
		ur_cm_give_port(SPACE, port);
		ur_cm_give_port(SPACE, same);
	}
	return NULL;
}

static void test_threads_may_take_ports_at_the_same_time(void **state)
{
	pthread_t threads[4];
	bool good[4];

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		good[i] = true;
		assert_int_equal(pthread_create(&threads[i], NULL, take_many, &good[i]), 0);
	}
	for (unsigned i = 0; i < 4; i++) {
		pthread_join(threads[i], NULL);
		assert_true(good[i]);
	}
	assert_claimed(false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_service_is_claimed_once_until_the_claim_is_closed),
		cmocka_unit_test(test_a_claim_of_another_process_ends_when_it_is_killed),
		cmocka_unit_test(test_a_request_comes_through_as_it_was),
		cmocka_unit_test(test_what_nobody_listens_for_is_refused),
		cmocka_unit_test(test_a_process_that_is_too_slow_keeps_nobody_waiting),
		cmocka_unit_test(test_a_claim_is_not_inherited_by_programs_and_never_blocks),
		cmocka_unit_test(test_what_is_malformed_is_skipped),
		cmocka_unit_test(test_a_flood_of_it_keeps_the_reader_no_longer_than_it_should),
		cmocka_unit_test(test_another_user_is_a_stranger),
		cmocka_unit_test(test_root_is_trusted_by_all),
		cmocka_unit_test(test_who_runs_with_another_users_rights_trusts_both),
		cmocka_unit_test(test_a_port_is_taken_once_in_each_space),
		cmocka_unit_test(
			test_a_shared_port_is_free_when_it_was_given_back_as_often_as_taken),
		cmocka_unit_test(test_a_port_of_another_process_is_not_free),
		cmocka_unit_test(test_free_ports_are_found),
		cmocka_unit_test(test_requests_come_once_the_port_is_listened_at),
		cmocka_unit_test(test_no_requests_come_when_nobody_listens_any_more),
		cmocka_unit_test(test_a_child_does_not_have_its_parents_ports),
		cmocka_unit_test(test_threads_may_take_ports_at_the_same_time),
	};

	if (!network_enter())
		return 1;
	return cmocka_run_group_tests_name("cm claim", tests, NULL, NULL);
}
