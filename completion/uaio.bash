# SPDX-License-Identifier: MIT
#
# Completion of uaio for bash. What it offers is what uaio says of itself, so it
# is as new as the command.

_uaio_subcommands() {
	uaio help 2>/dev/null | sed -n 's/^  uaio \([a-z]*\) .*/\1/p'
}

# Of a subcommand.
_uaio_options() {
	uaio "$1" --help 2>/dev/null |
		sed -n 's/^  \(-[a-zA-Z], \)\{0,1\}\(--[a-z-]*\).*/\2/p'
}

# Whether the option of a subcommand wants the next word.
_uaio_wants_word() {
	uaio "$1" --help 2>/dev/null |
		grep -qE "^  (-[a-zA-Z], )?$2 [^ ]|^  $2, --[a-z-]* [^ ]"
}

# The words that an option of `uaio run` takes. Given a wrong value, uaio names
# them; it names none of a number, and takes any as a file.
_uaio_values() {
	local said
	said=$(uaio run "$1=?" 2>&1 | sed -n 's/.*: expected //p')
	case $said in
	"") compgen -f -- "$2" ;;
	*" or "[a-z0-9_]*) compgen -W "${said//,/ }" -X or -- "$2" ;;
	esac
}

# The place of the command that `uaio run`, `trace` or `check` is to start; of the cursor if
# that is where it would be, and nothing if the cursor is in the options.
_uaio_command() {
	local at=2
	while ((at < COMP_CWORD)); do
		case ${COMP_WORDS[at]} in
		--) echo $((at + 1)) && return ;;
		-*)
			if [ "${COMP_WORDS[at + 1]}" = = ]; then
				at=$((at + 3))
			elif _uaio_wants_word "${COMP_WORDS[1]}" "${COMP_WORDS[at]}"; then
				at=$((at + 2))
			else
				at=$((at + 1))
			fi
			;;
		*) echo "$at" && return ;;
		esac
	done
	((at > COMP_CWORD)) || [[ ${COMP_WORDS[at]} == [-=]* ]] || echo "$at"
}

_uaio() {
	local word=${COMP_WORDS[COMP_CWORD]} subcommand=${COMP_WORDS[1]}
	local before=${COMP_WORDS[COMP_CWORD - 1]} option= at=

	if ((COMP_CWORD == 1)); then
		mapfile -t COMPREPLY < <(compgen -W \
			"$(_uaio_subcommands) --help --version" -- "$word")
		return
	fi
	case $subcommand in
	run | trace | check) at=$(_uaio_command) ;;
	esac
	if [ -n "$at" ] && ((at < COMP_CWORD)) && declare -F _command_offset >/dev/null; then
		_command_offset "$at"
		return
	fi
	if [ "$word" = = ]; then
		option=$before word=
	elif [ "$before" = = ]; then
		option=${COMP_WORDS[COMP_CWORD - 2]}
	elif [[ $before == -* ]] && _uaio_wants_word "$subcommand" "$before"; then
		option=$before
	fi
	if [ -n "$at" ] && ((at == COMP_CWORD)); then
		mapfile -t COMPREPLY < <(compgen -c -- "$word")
	elif [ -n "$option" ] && [ "$subcommand" = run ]; then
		mapfile -t COMPREPLY < <(_uaio_values "$option" "$word")
	elif [ -z "$at" ] && [[ $word == -* ]]; then
		mapfile -t COMPREPLY < <(compgen -W \
			"$(_uaio_options "$subcommand")" -- "$word")
	else
		mapfile -t COMPREPLY < <(compgen -f -- "$word")
	fi
}

complete -F _uaio uaio
