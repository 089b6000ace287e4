# A job where there is no Python: one process on one node; its variables and secrets, TERM, exit code and record. What
# takes more than that ends the job, with that as its reason.
nemotron_status=$nemotron_root/status nemotron_child='' nemotron_told='' nemotron_began=`date +%s`

# CODE PHASE REASON
nemotron_end() {
  trap '' TERM INT HUP USR1 USR2
  [ -z "$3" ] || printf 'nemotron: %s (exit code %s)\n' "$3" "$1" >&2
  if [ "$1$nemotron_told" = 0 ]; then nemotron_publish; fi
  mkdir -p -m 700 "$nemotron_status"
  (umask 077 && printf '{"node": 0, "host": "%s", "phase": "%s", "exit_code": %s, "received": "%s", "attempt": %s, "reason": "%s", "reason_code": "%s", "started": %s, "ended": %s}\n' \
    "`cat /proc/sys/kernel/hostname`" "$2" "$1" "$nemotron_told" "$nemotron_restarts" "$3" "${3:+image}" "$nemotron_began" \
    "`date +%s`" > "$nemotron_status/.node-0") && mv -f "$nemotron_status/.node-0" "$nemotron_status/node-0"
  [ "$EUID" -ne 0 ] || chown --reference="$nemotron_root" "$nemotron_status" "$nemotron_status/node-0" 2> /dev/null
  [ -z "$nemotron_gates" ] || kill "$nemotron_watcher" 2> /dev/null
  [ -n "$nemotron_gates" ] || rm -f "$nemotron_root/secrets.env"
  rm -f "$nemotron_status/phase"
  exit "$1"
}

nemotron_publish() {
  local path
  for path in "${nemotron_versions[@]}"; do
    [ ! -d "$path" ] || { ln -sfn -- "${path##*/}" "${path%/*}/.latest" && mv -f -T -- "${path%/*}/.latest" "${path%/*}/latest"; }
  done
}

# Puts the rank before every line, and hides the values of secrets as they are.
nemotron_pass() {
  local line name
  trap '' TERM INT HUP USR1 USR2
  while IFS= read -r line || [ -n "$line" ]; do
    for name in $nemotron_hidden; do [ "${#name}" -lt 6 ] || [ -z "${!name-}" ] || line=${line//"${!name}"/******}; done
    printf '[rank0] %s\n' "$line" || :
  done
}

nemotron_tell() {
  nemotron_told=$1
  [ -n "$nemotron_child" ] || nemotron_end 143 start ''
  [ -n "$nemotron_gates" ] || kill -s "$1" -- "-$nemotron_child" 2> /dev/null || : # Slurm has told every process
}

# On Slurm, what the batch script leaves is for the command.
nemotron_watch() {
  local number=1
  while sleep 1; do
    while [ -f "$nemotron_gates/told.$number" ]; do
      kill -s "`cat "$nemotron_gates/told.$number"`" -- "-$nemotron_child"
      number=$((number + 1))
    done
  done
}

set +e
nemotron_restarts=0 nemotron_node_rank=0 nemotron_why='' nemotron_gates=''
for nemotron_word in "${nemotron_words[@]}"; do
  case $nemotron_word in
    restarts=*) nemotron_restarts=${nemotron_word#*=} ;;
    attempt=*) nemotron_gates=$nemotron_status/gates-${nemotron_word#*=} ;;
    nodes=1 | tasks=1 | nodes= | tasks=) ;;
    nodes=* | tasks=*) nemotron_why='several nodes or tasks' ;;
  esac
done
case $nemotron_values in *'"launch": "direct"'*) ;; *) nemotron_why='its launcher' ;; esac
case $nemotron_values in *'"stall": {'*) nemotron_why=stall_timeout ;; esac
[ -z "$nemotron_why" ] || nemotron_end 1 start "the image has no python3 (3.6 or later), which $nemotron_why needs"
for nemotron_word in TERM INT HUP USR1 USR2; do trap "nemotron_tell $nemotron_word" "$nemotron_word"; done
if [ -f "$nemotron_root/secrets.env" ]; then . "$nemotron_root/secrets.env"; fi
case $nemotron_values in *'"requeues"'*) ;; *) nemotron_gates='' && rm -f "$nemotron_root/secrets.env" ;; esac
mkdir -p -m 700 "$nemotron_status"
nemotron_word=${nemotron_values#*'"name": "'}
export NEMOTRON_ALONE=1 NEMOTRON_JOB_NAME=${nemotron_word%%'"'*} NEMOTRON_JOB_DIR=$nemotron_root NEMOTRON_NUM_NODES=1 NEMOTRON_NODE_RANK=0
export NEMOTRON_METRICS_FILE=$nemotron_root/metrics.jsonl NEMOTRON_NODE_IPS=127.0.0.1 NNODES=1 NODE_RANK=0 WORLD_SIZE=1
exec 8> >(nemotron_pass)
nemotron_reader=$!
set -m
bash "$nemotron_script" --shell 9> "$nemotron_status/phase" < /dev/null &
nemotron_child=$!
set +m
[ -z "$nemotron_gates" ] || { nemotron_watch 2> /dev/null & nemotron_watcher=$!; }
exec 8>&-
while wait "$nemotron_child"; nemotron_code=$?; [ "$nemotron_code" -gt 128 ] && kill -0 "$nemotron_child" 2> /dev/null; do :; done
for ((nemotron_word = 0; nemotron_word < 100; nemotron_word++)); do kill -0 "$nemotron_reader" 2> /dev/null || break; sleep 0.05; done
if grep -q ready "$nemotron_status/phase"; then nemotron_end "$nemotron_code" command ''; fi
[ "$nemotron_code" -ne 0 ] || nemotron_code=1
nemotron_end "$nemotron_code" setup "node 0 failed in its setup"
