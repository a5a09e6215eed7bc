/* SPDX-License-Identifier: MIT */
/*
 * Symbol versions
 *
 * UAIO_SYMVER(function, "name@NODE") gives an exported function a versioned name; "@@"
 * makes it the default version. GCC has an attribute that also works with -flto; clang
 * ignores the attribute and needs the assembler's directive.
 */
#ifndef UAIO_BASE_SYMVER_H
#define UAIO_BASE_SYMVER_H

#define UAIO_EXPORT __attribute__((visibility("default")))

#if defined(__clang__)
#define UAIO_SYMVER(function, version) \
	__asm__(".symver " #function ", " version)
#else
#define UAIO_SYMVER(function, version)       \
	extern __typeof__(function) function \
		__attribute__((symver(version), visibility("default")))
#endif

#endif /* UAIO_BASE_SYMVER_H */
