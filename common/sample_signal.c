#include "sample_impl.h"

#include <errno.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "clock.h"
#include "log.h"

/* After the signal that stops a sample, how much later one more ends it at once. */
#define IMPATIENCE_MS 1000

static sigset_t ending_signals(void)
{
	struct sigaction hangup;
	sigset_t signals;

	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	/* nohup has it ignored, and so it stays. */
	if (sigaction(SIGHUP, NULL, &hangup) == 0 && hangup.sa_handler != SIG_IGN)
		sigaddset(&signals, SIGHUP);
	return signals;
}

void sample_catch_signals(struct sample *sample)
{
	sigset_t signals = ending_signals();

	signal(SIGPIPE, SIG_IGN); /* writing to a pipe without a reader fails, and says so */
	sigprocmask(SIG_BLOCK, &signals, &sample->signals_before);
	sample->signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
	if (sample->signal_fd < 0)
		sample_record(sample, LOG_FAILED_SYSTEM_CALL(errno, "signalfd()"));
}

/*
 * One more signal, from a user for whom stopping takes too long, ends the program as it would any
 * other. But several may come at once: a terminal that closes, or timeout(1), sends two.
 */
static void give_up_if_slow(struct sample *sample, int number)
{
	if (rs_clock_ms() - sample->signal_time < IMPATIENCE_MS)
		return;
	sigprocmask(SIG_SETMASK, &sample->signals_before, NULL);
	raise(number);
}

void sample_on_signal(int fd, void *sample_data)
{
	struct sample *sample = sample_data;
	struct signalfd_siginfo info;

	if (read(fd, &info, sizeof(info)) != sizeof(info))
		return;
	if (sample->signal) {
		give_up_if_slow(sample, (int)info.ssi_signo);
		return;
	}
	sample->signal = (int)info.ssi_signo;
	sample->signal_time = rs_clock_ms();
	LOG_INFO("stopping: %s", strsignal(sample->signal));
	if (sample->asks_for_signal)
		sample->on_answer(sample);
	sample_record(sample, RS_ERR_INTERRUPTED);
}

/* Those that came meanwhile would end the program now, in place of its exit status. */
void sample_release_signals(struct sample *sample)
{
	struct signalfd_siginfo info;

	if (sample->signal_fd >= 0) {
		while (read(sample->signal_fd, &info, sizeof(info)) == sizeof(info))
			;
		close(sample->signal_fd);
	}
	sigprocmask(SIG_SETMASK, &sample->signals_before, NULL);
}
