# In the midst of a running job: becomes a command with the variables, the folder and the files of the job's own command.
#
# Called with the job's directory, the node's number, and the words of the command. The job's supervisor has left the
# process of its command in status/shell-N, and when that was started: its number may be another's by now.
nemotron_term=${TERM-} nemotron_tool=$(type -P nsenter) nemotron_shell=$1/status/shell-$2 nemotron_pid='' nemotron_began=''
cd -- "$1" 2> /dev/null
shift 2
[ ! -r "$nemotron_shell" ] || read -r nemotron_pid nemotron_began < "$nemotron_shell"

nemotron_is_there() {
  local stat fields
  [ -n "$nemotron_pid" ] && { stat=$(< "/proc/$nemotron_pid/stat"); } 2> /dev/null || return 1
  read -ra fields <<< "${stat##*) }" && [ "${fields[19]}" = "$nemotron_began" ]
}

# PROCESS: whether it has what startup commands have set. A command line of the profile's own is run by a shell that was
# started before them: the processes of the line have it.
nemotron_read() {
  nemotron_variables=()
  while IFS= read -r -d '' nemotron_word; do nemotron_variables+=("$nemotron_word"); done < "/proc/$1/environ" || return 1
  [[ " ${nemotron_variables[*]} " = *' NEMOTRON_SETUP_DONE=1 '* ]]
} 2> /dev/null

nemotron_take() {
  local word
  while IFS= read -r -d '' word; do unset "${word%%=*}"; done < /proc/self/environ
  for word in "${nemotron_variables[@]}"; do [[ ! $word =~ ^[A-Za-z_][A-Za-z0-9_]*= ]] || export "$word"; done
  [ -z "$nemotron_term" ] || export TERM="$nemotron_term"
} 2> /dev/null

nemotron_same() { [ "/proc/self/ns/$1" -ef "/proc/$nemotron_pid/ns/$1" ]; }

nemotron_enter=()
if nemotron_is_there; then
  for nemotron_word in $(< "/proc/$nemotron_pid/task/$nemotron_pid/children") "$nemotron_pid"; do
    ! nemotron_read "$nemotron_word" || break
  done 2> /dev/null
  if [ ${#nemotron_variables[@]} -eq 0 ]; then
    echo "nemotron: the variables of the job's process $nemotron_pid cannot be read: this has only its directory" >&2
  elif nemotron_same mnt; then
    nemotron_take
    cd -P "/proc/$nemotron_pid/cwd" 2> /dev/null
  elif [ -z "$nemotron_tool" ]; then
    echo "nemotron: the job is in a container, and its machine has no nsenter: this is outside, in the job's directory" >&2
  else
    nemotron_take
    nemotron_enter=("$nemotron_tool" "--target=$nemotron_pid" --mount --root --wd)
    nemotron_same user || nemotron_enter+=(--user --preserve-credentials)
  fi
else
  echo "nemotron: the job's command is not to be found here: this has only its directory" >&2
fi
exec "${nemotron_enter[@]}" "$@"
