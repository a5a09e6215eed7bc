/* SPDX-License-Identifier: MIT */
/*
 * Names of errors. Some C libraries and versions lack functions for them. Tested by
 * test/run/faults.py.
 */
#include "options/names.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

static const char *const names[] = {
	[EPERM] = "EPERM",
	[ENOENT] = "ENOENT",
	[ESRCH] = "ESRCH",
	[EINTR] = "EINTR",
	[EIO] = "EIO",
	[ENXIO] = "ENXIO",
	[E2BIG] = "E2BIG",
	[ENOEXEC] = "ENOEXEC",
	[EBADF] = "EBADF",
	[ECHILD] = "ECHILD",
	[EAGAIN] = "EAGAIN",
	[ENOMEM] = "ENOMEM",
	[EACCES] = "EACCES",
	[EFAULT] = "EFAULT",
	[ENOTBLK] = "ENOTBLK",
	[EBUSY] = "EBUSY",
	[EEXIST] = "EEXIST",
	[EXDEV] = "EXDEV",
	[ENODEV] = "ENODEV",
	[ENOTDIR] = "ENOTDIR",
	[EISDIR] = "EISDIR",
	[EINVAL] = "EINVAL",
	[ENFILE] = "ENFILE",
	[EMFILE] = "EMFILE",
	[ENOTTY] = "ENOTTY",
	[ETXTBSY] = "ETXTBSY",
	[EFBIG] = "EFBIG",
	[ENOSPC] = "ENOSPC",
	[ESPIPE] = "ESPIPE",
	[EROFS] = "EROFS",
	[EMLINK] = "EMLINK",
	[EPIPE] = "EPIPE",
	[EDOM] = "EDOM",
	[ERANGE] = "ERANGE",
	[EDEADLOCK] = "EDEADLOCK",
	[ENAMETOOLONG] = "ENAMETOOLONG",
	[ENOLCK] = "ENOLCK",
	[ENOSYS] = "ENOSYS",
	[ENOTEMPTY] = "ENOTEMPTY",
	[ELOOP] = "ELOOP",
	[ENOMSG] = "ENOMSG",
	[EIDRM] = "EIDRM",
	[ECHRNG] = "ECHRNG",
	[EL2NSYNC] = "EL2NSYNC",
	[EL3HLT] = "EL3HLT",
	[EL3RST] = "EL3RST",
	[ELNRNG] = "ELNRNG",
	[EUNATCH] = "EUNATCH",
	[ENOCSI] = "ENOCSI",
	[EL2HLT] = "EL2HLT",
	[EBADE] = "EBADE",
	[EBADR] = "EBADR",
	[EXFULL] = "EXFULL",
	[ENOANO] = "ENOANO",
	[EBADRQC] = "EBADRQC",
	[EBADSLT] = "EBADSLT",
	[EBFONT] = "EBFONT",
	[ENOSTR] = "ENOSTR",
	[ENODATA] = "ENODATA",
	[ETIME] = "ETIME",
	[ENOSR] = "ENOSR",
	[ENONET] = "ENONET",
	[ENOPKG] = "ENOPKG",
	[EREMOTE] = "EREMOTE",
	[ENOLINK] = "ENOLINK",
	[EADV] = "EADV",
	[ESRMNT] = "ESRMNT",
	[ECOMM] = "ECOMM",
	[EPROTO] = "EPROTO",
	[EMULTIHOP] = "EMULTIHOP",
	[EDOTDOT] = "EDOTDOT",
	[EBADMSG] = "EBADMSG",
	[EOVERFLOW] = "EOVERFLOW",
	[ENOTUNIQ] = "ENOTUNIQ",
	[EBADFD] = "EBADFD",
	[EREMCHG] = "EREMCHG",
	[ELIBACC] = "ELIBACC",
	[ELIBBAD] = "ELIBBAD",
	[ELIBSCN] = "ELIBSCN",
	[ELIBMAX] = "ELIBMAX",
	[ELIBEXEC] = "ELIBEXEC",
	[EILSEQ] = "EILSEQ",
	[ERESTART] = "ERESTART",
	[ESTRPIPE] = "ESTRPIPE",
	[EUSERS] = "EUSERS",
	[ENOTSOCK] = "ENOTSOCK",
	[EDESTADDRREQ] = "EDESTADDRREQ",
	[EMSGSIZE] = "EMSGSIZE",
	[EPROTOTYPE] = "EPROTOTYPE",
	[ENOPROTOOPT] = "ENOPROTOOPT",
	[EPROTONOSUPPORT] = "EPROTONOSUPPORT",
	[ESOCKTNOSUPPORT] = "ESOCKTNOSUPPORT",
	[ENOTSUP] = "ENOTSUP",
	[EPFNOSUPPORT] = "EPFNOSUPPORT",
	[EAFNOSUPPORT] = "EAFNOSUPPORT",
	[EADDRINUSE] = "EADDRINUSE",
	[EADDRNOTAVAIL] = "EADDRNOTAVAIL",
	[ENETDOWN] = "ENETDOWN",
	[ENETUNREACH] = "ENETUNREACH",
	[ENETRESET] = "ENETRESET",
	[ECONNABORTED] = "ECONNABORTED",
	[ECONNRESET] = "ECONNRESET",
	[ENOBUFS] = "ENOBUFS",
	[EISCONN] = "EISCONN",
	[ENOTCONN] = "ENOTCONN",
	[ESHUTDOWN] = "ESHUTDOWN",
	[ETOOMANYREFS] = "ETOOMANYREFS",
	[ETIMEDOUT] = "ETIMEDOUT",
	[ECONNREFUSED] = "ECONNREFUSED",
	[EHOSTDOWN] = "EHOSTDOWN",
	[EHOSTUNREACH] = "EHOSTUNREACH",
	[EALREADY] = "EALREADY",
	[EINPROGRESS] = "EINPROGRESS",
	[ESTALE] = "ESTALE",
	[EUCLEAN] = "EUCLEAN",
	[ENOTNAM] = "ENOTNAM",
	[ENAVAIL] = "ENAVAIL",
	[EISNAM] = "EISNAM",
	[EREMOTEIO] = "EREMOTEIO",
	[EDQUOT] = "EDQUOT",
	[ENOMEDIUM] = "ENOMEDIUM",
	[EMEDIUMTYPE] = "EMEDIUMTYPE",
	[ECANCELED] = "ECANCELED",
	[ENOKEY] = "ENOKEY",
	[EKEYEXPIRED] = "EKEYEXPIRED",
	[EKEYREVOKED] = "EKEYREVOKED",
	[EKEYREJECTED] = "EKEYREJECTED",
	[EOWNERDEAD] = "EOWNERDEAD",
	[ENOTRECOVERABLE] = "ENOTRECOVERABLE",
	[ERFKILL] = "ERFKILL",
};
enum { NR_NAMES = sizeof(names) / sizeof(names[0]) };

static const struct {
	const char *name;
	int error;
} synonyms[] = {
	{ "EWOULDBLOCK", EWOULDBLOCK },
	{ "EDEADLOCK", EDEADLOCK },
	{ "ENOTSUP", ENOTSUP },
};
enum { NR_SYNONYMS = sizeof(synonyms) / sizeof(synonyms[0]) };

static int is_name(const char *name, const char *text, size_t len)
{
	return strlen(name) == len && !strncasecmp(name, text, len);
}

int uaio_error_of(const char *name, size_t len)
{
	for (int i = 0; i < NR_NAMES; i++)
		if (names[i] && is_name(names[i], name, len))
			return i;
	for (int i = 0; i < NR_SYNONYMS; i++)
		if (is_name(synonyms[i].name, name, len))
			return synonyms[i].error;
	return 0;
}

const char *uaio_error_name(int error)
{
	return error > 0 && error < NR_NAMES ? names[error] : NULL;
}
