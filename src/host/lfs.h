/* SPDX-License-Identifier: MIT */
/*
 * Lets files of host/ define functions whose names end in 64 (for large files)
 *
 * glibc has functions of these names. In musl the names are macros for the functions without
 * 64, and its loader binds older programs' references to musl only. The library defines the
 * functions with either C library, so this header undefines the macros.
 *
 * Include it after all other headers.
 */
#ifndef UAIO_HOST_LFS_H
#define UAIO_HOST_LFS_H

#include <sys/types.h>

#undef open64
#undef openat64
#undef fopen64
#undef freopen64
#undef fcntl64
#undef mmap64
#undef aio_read64
#undef aio_write64
#undef aio_fsync64
#undef aio_error64
#undef aio_return64
#undef aio_suspend64
#undef aio_cancel64
#undef lio_listio64

#endif /* UAIO_HOST_LFS_H */
