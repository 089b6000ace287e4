# The start of every job script: it goes on in the supervisor, which comes back here for the lines of this job's own. In
# an image without python3 (3.6 or later), fallback.sh does the least that a job needs. So starts a pod's script too.
#
# Called with the words of the job script's own call. Told by: nemotron_root, the job's directory; nemotron_values, JSON;
# nemotron_words, KEY=VALUE, of which node this is; nemotron_hidden and nemotron_versions; nemotron_command. In a pod:
# nemotron_role. nemotron_early are the signals that have come so far, which the script's first line keeps.
case ${BASH_SOURCE[1]} in
  /*) nemotron_script=${BASH_SOURCE[1]} ;;
  *) nemotron_script=$PWD/${BASH_SOURCE[1]} ;;
esac

# In the shell that the supervisor has started: how far it is; a barrier; the end of its setup; the command.
nemotron_at() { printf 'at %s\n' "$1" >&9; }
nemotron_gate() {
  local answer
  printf '%s\n' "$1" >&9
  [ -n "${NEMOTRON_ALONE-}" ] || IFS= read -r answer <&9 || exit 1
}
# All nodes have run their startup commands. From here on its input is the command's.
nemotron_ready() { nemotron_gate ready; export NEMOTRON_SETUP_DONE=1; exec <&7 7<&-; }
# What the job appends to its metrics, and what it has made, is told to W&B by the package of its own Python.
nemotron_forward() {
  "${NEMOTRON_WANDB_PYTHON:-python}" "$nemotron_root/supervisor.py" forward "$nemotron_root" "$1" 8>&- 9>&- || :
}
# A node without the command of its own: until its supervisor ends it.
nemotron_follow() { exec sleep 999999999 8>&- 9>&-; }
nemotron_run() {
  exec >&8 2>&1 8>&- 9>&-
  nemotron_command
}

case ${1-} in
  --shell) export NEMOTRON_SETUP_DONE=0 && return ;;
  --command)
    nemotron_run
    exit
    ;;
  --rank | --ray) nemotron_role=${1#--} ;;
  *) nemotron_role=${nemotron_role:-node} ;;
esac

# Whether a program is Python 3.6 or later. Where its name says so, or another name of the same file, it need not be
# started for that: a start takes as long as all that comes here besides. A shim (mise) has all names, that of pip too.
nemotron_fits() {
  local path minor
  hash "$1" && path=${BASH_CMDS[$1]-$1} || return
  if [ ! "$path" -ef "${path%/*}/pip3" ]; then
    for minor in {6..40}; do [ ! "$path" -ef "${path%/*}/python3.$minor" ] || return 0; done
  fi
  ${nemotron_hold[@]+"${nemotron_hold[@]}"} "$path" -I -S -c 'import sys; sys.exit(sys.version_info < (3, 6))'
}

# Whether they wait already, as where nemotron has started this script itself: SigBlk of man 5 proc has a bit for each.
nemotron_waits() {
  local lines
  mapfile lines < /proc/self/status
  lines=${lines[*]}
  lines=${lines#*SigBlk:?}
  (((16#${lines%%$'\n'*} & 16#4a03) == 16#4a03)) # HUP, INT, USR1, USR2, TERM
} 2> /dev/null

# While Python starts, a signal would end it, and the kernel drops one for process 1: where env can (coreutils 8.31), they
# wait. Where it cannot, those that are for the command alone do at least not end the job.
nemotron_hold=(env --block-signal=TERM,INT,HUP,USR1,USR2)
if [[ $nemotron_role = ra* ]] || nemotron_waits || ! "${nemotron_hold[@]}" -i &> /dev/null; then nemotron_hold=(); fi
for nemotron_python in "${NEMOTRON_PYTHON-}" python3 /usr/libexec/platform-python python; do
  if [[ -n $nemotron_python && $OSTYPE = linux* ]] && { [[ $nemotron_role = ra* ]] || nemotron_fits "$nemotron_python"; } 2> /dev/null; then
    [[ $nemotron_role = ra* ]] || [ ${#nemotron_hold[@]} -gt 0 ] || nemotron_waits || trap '' USR1 USR2
    NEMOTRON_PYTHON=$nemotron_python exec ${nemotron_hold[@]+"${nemotron_hold[@]}"} "$nemotron_python" -I -S "$nemotron_root/supervisor.py" "$nemotron_role" \
      "$nemotron_script" "$nemotron_values" "root=$nemotron_root" "hidden=$nemotron_hidden" "${nemotron_versions[@]/#/version=}" \
      "${nemotron_words[@]}" "early=${nemotron_early-}"
  fi
done
case $nemotron_role in pod) . "$nemotron_root/fallback-pod.sh" ;; *) . "$nemotron_root/fallback.sh" ;; esac
