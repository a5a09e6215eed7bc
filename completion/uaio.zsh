#compdef uaio
# SPDX-License-Identifier: MIT
#
# Completion of uaio for zsh. What it offers is what uaio says of itself, so it is
# as new as the command.

# Set reply to what follows an option of `uaio run` in a description of
# _arguments. Given a wrong value, uaio names those it takes; it names none of a
# number, and takes any as a file.
_uaio_values() {
	local said="${$(uaio run $1=\? 2>&1)##*: expected }"
	case $said in
	(*which command*) reply=_files ;;
	(*' or '[a-z0-9_]##) reply="(${${said//,/}/ or / })" ;;
	(*) reply=' ' ;;
	esac
}

_uaio() {
	local subcommand=$words[2] line option value text
	local -a lines found

	setopt localoptions extendedglob
	if (( CURRENT == 2 )); then
		found=(${(f)"$(uaio help | sed -n 's/^  uaio \([a-z]*\) .*/\1/p')"})
		compadd -- $found --help --version
		return
	fi
	lines=(${(f)"$(uaio $subcommand --help 2>/dev/null)"})
	for line in ${(M)lines:#  (-?, |)--*}; do
		[[ $line =~ '(--[a-z-]+)(\[=[A-Z]+\]| [^ a-z]+)? +(UAIO_[A-Z_]+  +)?(.*)' ]] || continue
		option=$match[1] value=${match[2]} text=${match[4]//[\[\]:]/ }
		reply=_files
		[[ $subcommand != run || -z $value ]] || _uaio_values $option
		case $value in
		('') found+=("${option}[$text]") ;;
		(\[*) found+=("$option=-[$text]::value:$reply") ;;
		(*) found+=("$option=[$text]:value:$reply") ;;
		esac
	done
	shift words
	(( CURRENT-- ))
	if [[ $subcommand == (run|trace|check) ]]; then
		_arguments -A '-*' $found '(-)1:command: _command_names -e' \
			'*:: : _normal'
	else
		_arguments $found '*: : _files'
	fi
}

_uaio "$@"
