/* SPDX-License-Identifier: MIT */
/*
 * Notifies a client that a request is complete, by a signal or by a call of a function
 *
 * As in glibc, a signal is queued for the process, with si_code SI_ASYNCIO and the
 * client's value. If too many signals are already queued, the signal is sent by kill(),
 * without the value. A function is called by a thread that does nothing else
 * (callback.h).
 *
 * Tested by test-posix.c and test/posix/.
 */
#include <errno.h>
#include <sched.h>
#include <stdint.h>
#include <string.h>

#include "base/list.h"
#include "base/sys.h"
#include "options/options.h"
#include "proc/entry.h"
#include "proc/handlers.h"
#include "posix/callback.h"
#include "posix/note.h"

/* Only glibc has these functions (base/libc.h). */
extern int pthread_attr_getaffinity_np(const pthread_attr_t *attr, size_t bytes,
				       cpu_set_t *cpus) __attribute__((weak));
extern int pthread_attr_setaffinity_np(pthread_attr_t *attr, size_t bytes,
				       const cpu_set_t *cpus)
	__attribute__((weak));

enum { SIGNALS_MAX = 64, BITS_OF_WORD = 8 * sizeof(unsigned long) };

enum uaio_posix_notice_kind uaio_posix_notice_kind(const struct sigevent *event)
{
	if (!event)
		return UAIO_POSIX_SILENT;
	switch (event->sigev_notify) {
	case SIGEV_THREAD: return UAIO_POSIX_CALLBACK;
	case SIGEV_SIGNAL:
		/*
		 * Signal 0 is never sent: kill() uses it only to test for permission.
		 */
		if (event->sigev_signo == 0)
			return UAIO_POSIX_SILENT;
		return event->sigev_signo < 0 ||
				       event->sigev_signo > SIGNALS_MAX
			       ? UAIO_POSIX_IMPOSSIBLE
			       : UAIO_POSIX_SIGNAL;
	default: return UAIO_POSIX_SILENT;
	}
}

/*
 * Copy the processors of the thread attributes.
 * Return: whether the attributes set processors.
 */
static bool copy_cpus(pthread_attr_t *to, const pthread_attr_t *from)
{
	/*
	 * If the attributes set no processors, glibc sets all bits. Otherwise it clears
	 * the last word: no processor of any kernel has so high a number.
	 */
	unsigned long words[UAIO_CPUS_MAX / BITS_OF_WORD + 1], in_all = ~0ul;
	cpu_set_t *cpus = (cpu_set_t *)words;

	if (!pthread_attr_getaffinity_np ||
	    pthread_attr_getaffinity_np(from, sizeof(words), cpus))
		return false;
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		in_all &= words[i];
	return ~in_all &&
	       pthread_attr_setaffinity_np(to, sizeof(words), cpus) == 0;
}

/*
 * Copy the thread attributes, because the client may destroy them after it has
 * submitted.
 */
static int copy_attr(pthread_attr_t *to, const pthread_attr_t *from,
		     bool *ret_has_cpus)
{
	struct sched_param param;
	size_t bytes;
	void *stack;
	int value;

	if (pthread_attr_init(to))
		return -EAGAIN;
	(void)pthread_attr_setdetachstate(to, PTHREAD_CREATE_DETACHED);
	/*
	 * If the attributes set no stack, the reported address plus the reported size is
	 * 0.
	 */
	if (pthread_attr_getstack(from, &stack, &bytes) == 0 &&
	    (uintptr_t)stack + bytes != 0)
		(void)pthread_attr_setstack(to, stack, bytes);
	else if (pthread_attr_getstacksize(from, &bytes) == 0)
		(void)pthread_attr_setstacksize(to, bytes);
	if (pthread_attr_getguardsize(from, &bytes) == 0)
		(void)pthread_attr_setguardsize(to, bytes);
	if (pthread_attr_getinheritsched(from, &value) == 0)
		(void)pthread_attr_setinheritsched(to, value);
	if (pthread_attr_getschedpolicy(from, &value) == 0)
		(void)pthread_attr_setschedpolicy(to, value);
	if (pthread_attr_getschedparam(from, &param) == 0)
		(void)pthread_attr_setschedparam(to, &param);
	if (pthread_attr_getscope(from, &value) == 0)
		(void)pthread_attr_setscope(to, value);
	*ret_has_cpus = copy_cpus(to, from);
	return 0;
}

int uaio_posix_notice_init(struct uaio_posix_notice *notice,
			   const struct sigevent *event)
{
	notice->kind = uaio_posix_notice_kind(event);
	notice->has_attr = false;
	if (notice->kind == UAIO_POSIX_SILENT)
		return 0;
	notice->signo = event->sigev_signo;
	notice->value = event->sigev_value;
	if (notice->kind != UAIO_POSIX_CALLBACK)
		return 0;
	notice->function = event->sigev_notify_function;
	if (event->sigev_notify_attributes &&
	    copy_attr(&notice->attr, event->sigev_notify_attributes,
		      &notice->has_cpus) < 0)
		return -EAGAIN;
	notice->has_attr = event->sigev_notify_attributes;
	return 0;
}

void uaio_posix_notice_fini(struct uaio_posix_notice *notice)
{
	if (notice->has_attr)
		(void)pthread_attr_destroy(&notice->attr);
	notice->has_attr = false;
}

static void queue_signal(int signo, union sigval value)
{
	int pid = sys_getpid();
	siginfo_t info;

	memset(&info, 0, sizeof(info));
	info.si_signo = signo;
	info.si_code = SI_ASYNCIO;
	info.si_pid = pid;
	info.si_uid = (uid_t)sys_getuid();
	info.si_value = value;
	/*
	 * If this fails with EAGAIN, too many signals are queued. Then use kill(),
	 * whose signal needs no memory in the kernel.
	 */
	if (sys_rt_sigqueueinfo(pid, signo, &info) < 0)
		(void)sys_kill(pid, signo);
}

/*
 * Send the signal, after releasing the notice: the signal handler may leave by
 * siglongjmp().
 */
static void release_and_send(struct uaio_posix_notice *notice)
{
	int signo = notice->signo;
	union sigval value = notice->value;

	notice->release(notice);
	queue_signal(signo, value);
}

static void send_by_pool(union sigval arg)
{
	release_and_send(arg.sival_ptr);
}

/*
 * Called when the call of send_by_pool() begins. Do not release the notice yet:
 * send_by_pool() has yet to read it.
 */
static void keep(struct uaio_callback *callback)
{
	(void)callback;
}

static void notify_by_signal(struct uaio_posix_notice *notice)
{
	/*
	 * Send the signal here if its handler cannot interrupt the library: this thread
	 * is outside the library, or is a thread of the library, which blocks all
	 * signals; or the handler is deferred; or the signal has no handler.
	 */
	if (!uaio_is_inside() || uaio_is_own_thread() ||
	    !uaio_handlers_may_interrupt(notice->signo)) {
		release_and_send(notice);
		return;
	}
	notice->callback = (struct uaio_callback){
		.function = send_by_pool,
		.value.sival_ptr = notice,
		.begins = keep,
		.blocks_signals = true,
	};
	/*
	 * If no thread can be created, send the signal here: a program that waits for
	 * it might never call the library again.
	 */
	if (uaio_callback_try(&notice->callback) < 0)
		release_and_send(notice);
}

static void release_notice(struct uaio_callback *callback)
{
	struct uaio_posix_notice *notice =
		container_of(callback, struct uaio_posix_notice, callback);

	notice->release(notice);
}

static void notify_by_call(struct uaio_posix_notice *notice)
{
	pthread_attr_t attr;

	notice->callback = (struct uaio_callback){
		.function = notice->function,
		.value = notice->value,
		.begins = release_notice,
		.has_cpus = notice->has_attr && notice->has_cpus,
	};
	if (!notice->has_attr) {
		uaio_callback(&notice->callback, NULL);
		return;
	}
	/* Copy the attributes: once the call begins, the notice may be freed. */
	attr = notice->attr;
	notice->has_attr = false;
	uaio_callback(&notice->callback, &attr);
	(void)pthread_attr_destroy(&attr);
}

void uaio_posix_notify(struct uaio_posix_notice *notice)
{
	if (notice->kind == UAIO_POSIX_CALLBACK)
		notify_by_call(notice);
	else if (notice->kind == UAIO_POSIX_SIGNAL)
		notify_by_signal(notice);
	else
		notice->release(notice);
}
