/* SPDX-License-Identifier: MIT */
/*
 * The C library that the library is loaded with
 *
 * LD_PRELOAD is inherited by programs of all kinds, and one that is built for musl
 * would not start if a function were missing that the library imports. So what only
 * glibc has is imported weakly; where it is missing, its address is NULL.
 *
 * Tested by test/run/strangers.py.
 */
#ifndef UAIO_BASE_LIBC_H
#define UAIO_BASE_LIBC_H

#include <features.h> /* __GLIBC__ */
#include <stdbool.h>

/* Only glibc has it. */
extern const char *gnu_get_libc_version(void) __attribute__((weak));

/* Return: whether it is the C library that this was built for. */
static inline bool uaio_libc_is_ours(void)
{
#ifdef __GLIBC__
	return gnu_get_libc_version;
#else
	return !gnu_get_libc_version;
#endif
}

/*
 * pthread_atfork() and at_quick_exit(). In glibc these are in a part that is linked
 * into each object and imports what they call strongly; so that is called here. Other
 * C libraries have them like any function.
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
 * pthread_cleanup_push() and pthread_cleanup_pop() of musl, for a library that was built
 * for glibc, whose own are macros of functions that only glibc has. In glibc functions of
 * these names are what it had before: siglongjmp() calls what they have pushed in the
 * frames that it leaves, as it does not for the macros.
 */
struct uaio_other_cleanup {
	void *words[4]; /* musl's: 3 */
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
	/* It is given an argument, which is in a register and not looked at. */
	if (__cxa_at_quick_exit)
		(void)__cxa_at_quick_exit((void (*)(void *))call, __dso_handle);
	else if (uaio_other_at_quick_exit)
		(void)uaio_other_at_quick_exit(call);
}

#endif /* UAIO_BASE_LIBC_H */
