/* SPDX-License-Identifier: MIT */
/*
 * Support for processes whose C library is not the one that this library was built for
 *
 * Programs of all kinds inherit LD_PRELOAD. A program built for musl would not start if
 * a function that the library imports were missing. So functions that only glibc has
 * are imported weakly: if a function is missing, its address is NULL.
 *
 * Tested by test/run/strangers.py.
 */
#ifndef UAIO_BASE_LIBC_H
#define UAIO_BASE_LIBC_H

#include <features.h> /* defines __GLIBC__ */
#include <stdbool.h>

/* only in glibc */
extern const char *gnu_get_libc_version(void) __attribute__((weak));

/* Return: whether the process runs the C library that this library was built for. */
static inline bool uaio_libc_is_ours(void)
{
#ifdef __GLIBC__
	return gnu_get_libc_version;
#else
	return !gnu_get_libc_version;
#endif
}

/*
 * pthread_atfork() and at_quick_exit(). glibc links a static part of these into each
 * object, which strongly imports the two functions below. So this library calls the two
 * functions directly. Other C libraries export pthread_atfork() and at_quick_exit()
 * normally.
 */
extern void *__dso_handle __attribute__((visibility("hidden")));
extern int __register_atfork(void (*before)(void), void (*after)(void),
			     void (*in_child)(void), void *dso)
	__attribute__((weak));
extern int __cxa_at_quick_exit(void (*call)(void *), void *dso)
	__attribute__((weak));
extern int uaio_other_atfork(void (*before)(void), void (*after)(void),
			     void (*in_child)(void)) __asm__("pthread_atfork")
	__attribute__((weak));
extern int uaio_other_at_quick_exit(void (*call)(void)) __asm__("at_quick_exit")
	__attribute__((weak));

/*
 * pthread_cleanup_push() and pthread_cleanup_pop() as musl implements them, for a
 * library that was built for glibc. In glibc they are macros that use functions which
 * only glibc has. glibc also exports functions of musl's names, for old programs, but
 * with one difference: siglongjmp() calls the handlers that they have pushed in the
 * frames that it leaves.
 */
struct uaio_other_cleanup {
	void *words[4]; /* musl uses three of these */
};
extern void uaio_other_cleanup_push(struct uaio_other_cleanup *buffer,
				    void (*call)(void *),
				    void *arg) __asm__("_pthread_cleanup_push")
	__attribute__((weak));
extern void
uaio_other_cleanup_pop(struct uaio_other_cleanup *buffer,
		       int is_called) __asm__("_pthread_cleanup_pop")
	__attribute__((weak));

static inline void uaio_libc_atfork(void (*before)(void), void (*after)(void),
				    void (*in_child)(void))
{
	if (__register_atfork)
		(void)__register_atfork(before, after, in_child, __dso_handle);
	else if (uaio_other_atfork)
		(void)uaio_other_atfork(before, after, in_child);
}

static inline void uaio_libc_at_quick_exit(void (*call)(void))
{
	/* glibc passes call an argument, in a register, which call ignores. */
	if (__cxa_at_quick_exit)
		(void)__cxa_at_quick_exit((void (*)(void *))call, __dso_handle);
	else if (uaio_other_at_quick_exit)
		(void)uaio_other_at_quick_exit(call);
}

#endif /* UAIO_BASE_LIBC_H */
