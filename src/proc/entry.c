/* SPDX-License-Identifier: MIT */
#include "proc/entry.h"

_Thread_local struct uaio_entry uaio_entry
	__attribute__((tls_model("initial-exec"), visibility("hidden")));
