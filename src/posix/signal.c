/* SPDX-License-Identifier: MIT */
/* Tested by test-posix.c and test/posix/. */
#include "posix/signal.h"

#include <errno.h>
#include <string.h>

#include "base/slab.h"
#include "base/sys.h"
#include "proc/entry.h"
#include "posix/callback.h"

/* A signal that another thread sends. */
struct letter {
	struct uaio_slab_node node;
	struct uaio_callback callback;
	int signo;
	union sigval value;
};

static struct uaio_slab letters;

void uaio_posix_signals_init(void)
{
	uaio_slab_init(&letters, sizeof(struct letter), 4096);
}

static void notify(int signo, union sigval value)
{
	int pid = sys_getpid();
	siginfo_t info;

	memset(&info, 0, sizeof(info));
	info.si_signo = signo;
	info.si_code = SI_ASYNCIO;
	info.si_pid = pid;
	info.si_uid = (uid_t)sys_getuid();
	info.si_value = value;
	/* EAGAIN: too many are pending; a plain signal needs no room. */
	if (sys_rt_sigqueueinfo(pid, signo, &info) < 0)
		(void)sys_kill(pid, signo);
}

static void post_letter(union sigval arg)
{
	struct letter *letter = arg.sival_ptr;

	notify(letter->signo, letter->value);
	uaio_slab_put(&letters, letter);
}

/* The letter is put back once it is posted. */
static void keep(struct uaio_callback *callback)
{
	(void)callback;
}

void uaio_posix_signal(int signo, union sigval value)
{
	struct letter *letter;

	/* A thread of the library's blocks all signals: another one gets it. */
	if (!uaio_is_inside() || uaio_is_own_thread()) {
		notify(signo, value);
		return;
	}
	letter = uaio_slab_get(&letters);
	if (!letter) {
		notify(signo, value);
		return;
	}
	letter->signo = signo;
	letter->value = value;
	letter->callback.function = post_letter;
	letter->callback.value.sival_ptr = letter;
	letter->callback.begins = keep;
	letter->callback.is_own = true;
	uaio_callback(&letter->callback, NULL);
}
