/* SPDX-License-Identifier: MIT */
/*
 * Support for processes whose C library is not the one for which this library was built
 *
 * Programs of all kinds inherit LD_PRELOAD. If the library imported a function that is
 * missing, a program built for musl would not start. So functions that only glibc has
 * are weak symbols: if a function is missing, its address is NULL.
 *
 * Tested by test/run/strangers.py.
 */
#ifndef UAIO_BASE_LIBC_H
#define UAIO_BASE_LIBC_H

#include <features.h> /* defines __GLIBC__ */
#include <stdbool.h>

/* only in glibc */
extern const char *gnu_get_libc_version(void) __attribute__((weak));

/*
 * Return: whether this process has the C library for which this library was built.
 */
static inline bool uaio_libc_is_ours(void)
{
#ifdef __GLIBC__
	return gnu_get_libc_version;
#else
	return !gnu_get_libc_version;
#endif
}

/*
 * In glibc, pthread_atfork() and at_quick_exit() are not exported: each object gets a
 * static copy, which calls the two functions declared below. An object with such a copy
 * could not be loaded with another C library. So this library has no copy, but calls
 * the functions below itself, through weak symbols. Other C libraries export
 * pthread_atfork() and at_quick_exit() normally.
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
 * pthread_cleanup_push() and pthread_cleanup_pop() for a library that was built for glibc
 * and is loaded with musl. glibc's macros of these names use functions that musl lacks.
 * So the library itself calls the functions of musl's macros; glibc exports functions of
 * the same names for old programs. In both C libraries these functions call the pushed
 * handler if the thread is cancelled or exits; glibc also does so if siglongjmp() leaves
 * the stack frame.
 */
struct uaio_other_cleanup {
	/* buffer for musl, which uses three of these words */
	void *words[4];
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
	/* glibc passes an argument to `call` in a register; `call` ignores it. */
	if (__cxa_at_quick_exit)
		(void)__cxa_at_quick_exit((void (*)(void *))call, __dso_handle);
	else if (uaio_other_at_quick_exit)
		(void)uaio_other_at_quick_exit(call);
}

#endif /* UAIO_BASE_LIBC_H */
