/* SPDX-License-Identifier: MIT */
/*
 * Predicts whether the execution of a program will be secure: whether the kernel will
 * set AT_SECURE (getauxval(3)). The loader then ignores LD_PRELOAD. The kernel sets
 * AT_SECURE if a program gains privilege by being executed. A security module may also
 * set AT_SECURE, as SELinux does when the domain changes. This module does not predict
 * that.
 *
 * The rules are those of bprm_fill_uid() in the kernel's fs/exec.c and
 * cap_bprm_creds_from_file() in security/commoncap.c. An execution is secure:
 *
 *   - if the new effective user or group is not the caller's real one (so a program
 *     that is setuid to the calling user is not secure); or
 *   - if the real user is not root and the file gives capabilities.
 *
 * Setuid and setgid bits have no effect on a nosuid mount or with no_new_privs; file
 * capabilities have no effect on a nosuid mount.
 *
 * Tested by test/run/targets.py.
 */
#include "tool/common/target.h"

#include <endian.h>
#include <linux/capability.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

static uint64_t bounding_set(void)
{
	uint64_t set = 0;

	for (unsigned long cap = 0; cap < 64; cap++) {
		if (prctl(PR_CAPBSET_READ, cap, 0, 0, 0) == 1)
			set |= (uint64_t)1 << cap;
	}
	return set;
}

static uint64_t inheritable_set(void)
{
	struct __user_cap_header_struct header = {
		.version = _LINUX_CAPABILITY_VERSION_3,
	};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = { 0 };

	if (syscall(SYS_capget, &header, data) < 0)
		return 0;
	return (uint64_t)data[1].inheritable << 32 | data[0].inheritable;
}

/*
 * File capabilities of revision 3 are valid in one user namespace only. In that
 * namespace the kernel shows them as revision 2; in all other namespaces the kernel
 * ignores them. So only revisions 1 and 2 count.
 */
static bool gives_capabilities(const char *path)
{
	struct vfs_cap_data caps = { 0 };
	uint64_t permitted, inheritable;
	uint32_t magic;

	if (getxattr(path, "security.capability", &caps, sizeof(caps)) < 0)
		return false;
	magic = le32toh(caps.magic_etc);
	permitted = le32toh(caps.data[0].permitted);
	inheritable = le32toh(caps.data[0].inheritable);
	if ((magic & VFS_CAP_REVISION_MASK) == VFS_CAP_REVISION_2) {
		permitted |= (uint64_t)le32toh(caps.data[1].permitted) << 32;
		inheritable |= (uint64_t)le32toh(caps.data[1].inheritable)
			       << 32;
	} else if ((magic & VFS_CAP_REVISION_MASK) != VFS_CAP_REVISION_1) {
		return false;
	}
	return (magic & VFS_CAP_FLAGS_EFFECTIVE) ||
	       (permitted & bounding_set()) ||
	       (inheritable & inheritable_set());
}

#define FILE_ADVICE \
	"run a copy of it, or put 'uaio run' behind it ('sudo uaio run ...')"

static const struct uaio_secure changed_ids = {
	"would run with an effective id that is not the real one",
	"set the real user and group ids too",
};
static const struct uaio_secure setuid_file = { "is setuid", FILE_ADVICE };
static const struct uaio_secure setgid_file = { "is setgid", FILE_ADVICE };
static const struct uaio_secure capable_file = {
	"has file capabilities",
	FILE_ADVICE,
};

static bool is_on_suid_mount(const char *path)
{
	struct statvfs fs;

	return statvfs(path, &fs) == 0 && !(fs.f_flag & ST_NOSUID);
}

const struct uaio_secure *uaio_secure_if_executed(const char *path)
{
	/* S_ISGID without S_IXGRP does not mean setgid, but mandatory locking. */
	const mode_t setgid = S_ISGID | S_IXGRP;
	struct stat st;
	bool is_setuid = false, is_setgid = false;

	/*
	 * Make the system calls after stat() only if the setuid or setgid bit is set: a
	 * seccomp filter might kill this process for these calls.
	 */
	if (stat(path, &st) == 0 && st.st_mode & (S_ISUID | S_ISGID) &&
	    is_on_suid_mount(path) &&
	    prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 0) {
		is_setuid = st.st_mode & S_ISUID;
		is_setgid = (st.st_mode & setgid) == setgid;
	}

	if (is_setuid && st.st_uid != getuid())
		return &setuid_file;
	if (is_setgid && st.st_gid != getgid())
		return &setgid_file;
	if ((!is_setuid && geteuid() != getuid()) ||
	    (!is_setgid && getegid() != getgid()))
		return &changed_ids;
	if (getuid() != 0 && gives_capabilities(path) && is_on_suid_mount(path))
		return &capable_file;
	return NULL;
}
