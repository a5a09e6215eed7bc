/* SPDX-License-Identifier: MIT */
/*
 * Table of the system calls that syscall(2) passes to uaio_host_syscall()
 *
 * Tested by test/abi/passthrough.c.
 */
#include <sys/syscall.h>

#include "host/host.h"

enum {
	NR_EPOLL_PWAIT2 = 441,
	NR_LANDLOCK_RESTRICT_SELF = 446,
	NR_LSM_SET_SELF_ATTR = 460,
	NR_CLOSE_RANGE = 436,
};

const uint8_t uaio_host_numbers[UAIO_HOST_NUMBERS] = {
	[SYS_io_setup] = 1,
	[SYS_io_destroy] = 1,
	[SYS_io_submit] = 1,
	[SYS_io_cancel] = 1,
	[SYS_io_getevents] = 1,
	[SYS_io_pgetevents] = 1,
	[SYS_io_uring_setup] = 1,
	[SYS_io_uring_enter] = 1,
	[SYS_io_uring_register] = 1,
	[SYS_mmap] = 1,
	[SYS_munmap] = 1,
	[SYS_mremap] = 1,
	[SYS_epoll_ctl] = 1,
	[SYS_epoll_pwait] = 1,
	[NR_EPOLL_PWAIT2] = 1,
	[SYS_ppoll] = 1,
	[SYS_pselect6] = 1,
#ifdef SYS_epoll_wait
	[SYS_epoll_wait] = 1,
	[SYS_poll] = 1,
	[SYS_select] = 1,
	[SYS_dup2] = 1,
#endif
	[SYS_close] = 1,
	[SYS_dup3] = 1,
	[NR_CLOSE_RANGE] = 1,
	[SYS_fcntl] = 1,
	[SYS_exit_group] = 1,
	[SYS_execve] = 1,
	[SYS_execveat] = 1,
	[SYS_prctl] = 1,
	[SYS_seccomp] = 1,
	/*
	 * system calls that change the identity of the calling thread (identity.c)
	 */
	[SYS_unshare] = 1,
	[SYS_setns] = 1,
	[SYS_setuid] = 1,
	[SYS_setgid] = 1,
	[SYS_setreuid] = 1,
	[SYS_setregid] = 1,
	[SYS_setresuid] = 1,
	[SYS_setresgid] = 1,
	[SYS_setgroups] = 1,
	[SYS_setfsuid] = 1,
	[SYS_setfsgid] = 1,
	[SYS_capset] = 1,
	[SYS_ioprio_set] = 1,
	[SYS_keyctl] = 1,
	[SYS_add_key] = 1,
	[SYS_request_key] = 1,
	[NR_LANDLOCK_RESTRICT_SELF] = 1,
	[NR_LSM_SET_SELF_ATTR] = 1,
};
