# A job where there is no Python: one process on one node; its variables and secrets, signals, exit code and record. What
# takes more than that ends the job, with that as its reason. At most 60 lines: what grows here belongs in the supervisor.
nemotron_status=$nemotron_root/status nemotron_child='' nemotron_told='' nemotron_began=`date +%s` nemotron_watcher='' nemotron_number=1

# CODE PHASE REASON
nemotron_end() {
  trap '' TERM INT HUP USR1 USR2
  [ -z "$3" ] || printf 'nemotron: %s (exit code %s)\n' "$3" "$1" >&2
  for nemotron_word in "${nemotron_versions[@]}"; do # what it has made becomes the newest of its artifact
    [ "$1$nemotron_told" = 0 ] && [ -d "$nemotron_word" ] && ln -sfn -- "${nemotron_word##*/}" "${nemotron_word%/*}/.latest" &&
      mv -f -T -- "${nemotron_word%/*}/.latest" "${nemotron_word%/*}/latest"
  done
  mkdir -p -m 700 "$nemotron_status"
  (umask 077 && printf '{"node": 0, "host": "%s", "phase": "%s", "exit_code": %s, "received": "%s", "attempt": %s, "reason": "%s", "reason_code": "%s", "started": %s, "ended": %s}\n' \
    "`cat /proc/sys/kernel/hostname`" "$2" "$1" "$nemotron_told" "$nemotron_restarts" "$3" "${3:+image}" "$nemotron_began" \
    "`date +%s`" > "$nemotron_status/.node-0") && mv -f "$nemotron_status/.node-0" "$nemotron_status/node-0"
  [ "$EUID" -ne 0 ] || chown --reference="$nemotron_root" "$nemotron_status" "$nemotron_status/node-0" 2> /dev/null
  if [ -n "$nemotron_gates" ]; then kill $nemotron_watcher 2> /dev/null; else rm -f "$nemotron_root/secrets.env"; fi
  exit "$1"
}

# Puts the rank before every line, and hides the values of secrets as they are.
nemotron_pass() {
  trap '' TERM INT HUP USR1 USR2
  while IFS= read -r line || [ -n "$line" ]; do
    for name in $nemotron_hidden; do [ "${#name}" -lt 6 ] || [ -z "${!name-}" ] || line=${line//"${!name}"/******}; done
    printf '[rank0] %s\n' "$line" || :
  done
}

# Slurm has told every process of the task by itself.
nemotron_tell() {
  nemotron_told=$1 nemotron_heard=1
  [ -n "$nemotron_child" ] || nemotron_end 143 start ''
  [ -n "$nemotron_gates" ] || kill -s "$1" -- "-$nemotron_child" 2> /dev/null || :
}

# On Slurm: what the batch script leaves is for the command.
nemotron_watch() {
  while sleep 1; do
    [ ! -f "$nemotron_gates/told.$nemotron_number" ] || { kill -s "`cat "$nemotron_gates/told.$nemotron_number"`" -- "-$nemotron_child"; ((nemotron_number++)); }
  done
}

# Whether there is something to wait for: the child, or its status, which bash 5.2 may lose as a signal comes.
nemotron_is_there() { kill -0 "$nemotron_child" 2> /dev/null || ! jobs -rp | grep -qx "$nemotron_child"; }

set +e
for nemotron_word in "${nemotron_words[@]}"; do declare "nemotron_is_${nemotron_word%%=*}=${nemotron_word#*=}"; done
nemotron_restarts=${nemotron_is_restarts:-0} nemotron_gates='' nemotron_why='' nemotron_name=${nemotron_values#*'"name": "'}
[ "${nemotron_is_nodes:-1} ${nemotron_is_tasks:-1}" = '1 1' ] || nemotron_why='several nodes or tasks'
case $nemotron_values in *'"launch": "direct"'*) ;; *) nemotron_why='its launcher' ;; esac
case $nemotron_values in *'"stall": {'*) nemotron_why=stall_timeout ;; esac
[ -z "$nemotron_why" ] || nemotron_end 1 start "the image has no python3 (3.6 or later), which $nemotron_why needs"
for nemotron_word in TERM INT HUP USR1 USR2; do trap "nemotron_tell $nemotron_word" "$nemotron_word"; done
[ ! -f "$nemotron_root/secrets.env" ] || . "$nemotron_root/secrets.env"
case $nemotron_values in # another attempt needs the secrets again
  *'"requeues"'*) nemotron_gates=$nemotron_status/gates-$nemotron_is_attempt ;;
  *) rm -f "$nemotron_root/secrets.env" ;;
esac
mkdir -p -m 700 "$nemotron_status"
export NEMOTRON_ALONE=1 NEMOTRON_JOB_NAME=${nemotron_name%%'"'*} NEMOTRON_JOB_DIR=$nemotron_root NEMOTRON_NUM_NODES=1 NEMOTRON_NODE_RANK=0
export NEMOTRON_METRICS_FILE=$nemotron_root/metrics.jsonl NEMOTRON_NODE_IPS=127.0.0.1 NNODES=1 NODE_RANK=0 WORLD_SIZE=1
exec 8> >(nemotron_pass)
nemotron_reader=$!; set -m
bash "$nemotron_script" --shell 9> "$nemotron_status/phase" < /dev/null & nemotron_child=$!
set +m
[ -z "$nemotron_gates" ] || { nemotron_watch 2> /dev/null & nemotron_watcher=$!; }
exec 8>&-
while nemotron_heard='' && wait "$nemotron_child"; nemotron_code=$?; [ -n "$nemotron_heard" ] && nemotron_is_there; do :; done
for ((nemotron_word = 0; nemotron_word < 100; nemotron_word++)); do kill -0 "$nemotron_reader" 2> /dev/null || break; sleep 0.05; done
if grep -qs ready "$nemotron_status/phase"; then nemotron_end "$nemotron_code" command ''; fi
nemotron_end "$((nemotron_code ? nemotron_code : 1))" setup "node 0 failed in its setup"
