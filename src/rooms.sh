#!/bin/sh
# SPDX-License-Identifier: MIT
# rooms.sh TREE SRC NAME...: makes the folder TREE, with a link to each of the
# rooms of SRC that are named; uaio.h is the installed header.
set -eu
tree=$1 src=$2
shift 2
rm -rf "$tree"
for name in "$@"; do
	mkdir -p "$tree/$(dirname "$name")"
	case $name in
	*.h) ln -s "$src/../include/$name" "$tree/$name" ;;
	*) ln -s "$src/$name" "$tree/$name" ;;
	esac
done
