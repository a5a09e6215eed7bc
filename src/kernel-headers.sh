#!/bin/sh
# SPDX-License-Identifier: MIT
# kernel-headers.sh DIR CPU: makes the folder DIR, with links to this machine's headers
# of the kernel, and to nothing of its C library: for compilers that have another one.
set -eu
dir=$1 cpu=$2
for asm in "/usr/include/$cpu-linux-gnu/asm" /usr/include/asm; do
	[ -d "$asm" ] && break
done
[ -d /usr/include/linux ] && [ -d "$asm" ] || {
	echo "the headers of the kernel are missing: linux/fs.h, asm/unistd.h" >&2
	exit 1
}
rm -rf "$dir"
mkdir -p "$dir"
ln -s /usr/include/linux /usr/include/asm-generic "$dir"
ln -s "$asm" "$dir/asm"
