# A job where there is no Python: one process on one node; its variables and secrets, signals, exit code and record. What
# takes more than that ends the job, with that as its reason. At most 60 lines: what grows here belongs in the supervisor.
nemotron_status=$nemotron_root/status nemotron_child='' nemotron_told='' nemotron_watcher='' nemotron_reader='' nemotron_number=1 nemotron_restarts=0
nemotron_began=`date +%s` nemotron_gates='' nemotron_why='' && set +e && mkdir -p -m 700 "$nemotron_status"

# CODE PHASE REASON REASON_CODE
nemotron_end() {
  trap '' TERM INT HUP USR1 USR2; [ -z "$3" ] || printf 'nemotron: %s (exit code %s)\n' "$3" "$1" >&2
  for nemotron_word in "${nemotron_versions[@]}"; do # what it has made becomes the newest of its artifact
    [ "$1$nemotron_told" = 0 ] && [ -d "$nemotron_word" ] && ln -sfn -- "${nemotron_word##*/}" "${nemotron_word%/*}/.latest" &&
      mv -f -T -- "${nemotron_word%/*}/.latest" "${nemotron_word%/*}/latest"
  done
  (umask 077 && printf '{"node": 0, "host": "%s", "phase": "%s", "exit_code": %s, "received": "%s", "attempt": %s, "reason": "%s", "reason_code": "%s", "started": %s, "ended": %s}\n' \
    "`cat /proc/sys/kernel/hostname`" "$2" "$1" "$nemotron_told" "$nemotron_restarts" "$3" "${4-}" "$nemotron_began" \
    "`date +%s`" > "$nemotron_status/.node-0") && mv -f "$nemotron_status/.node-0" "$nemotron_status/node-0"
  [ "$EUID" -ne 0 ] || chown --reference="$nemotron_root" "$nemotron_status" "$nemotron_status/node-0" 2> /dev/null
  if [ -n "$nemotron_gates" ]; then kill $nemotron_watcher 2> /dev/null; else rm -f "$nemotron_root/secrets.env"; fi
  exit "$1"
}

# Hides the values of secrets as they are, puts the rank before lines that look like ours, keeps what a bar was at last.
nemotron_pass() {
  trap '' TERM INT HUP USR1 USR2
  while IFS= read -r line || [ -n "$line" ]; do
    for name in $nemotron_hidden; do [ "${#name}" -lt 6 ] || [ -z "${!name-}" ] || line=${line//"${!name}"/******}; done
    line=${line%$'\r'} line=${line##*$'\r'}; [[ $line != nemotron* ]] || line="[rank0] $line"; printf '%s\n' "$line" || :
  done
}

# NAME: what is for the command is kept until there is one. Later, Slurm has told every process of the task by itself.
nemotron_tell() {
  nemotron_told=${nemotron_told:-$1} nemotron_heard=1
  case $1$nemotron_child in
    USR1 | USR2) nemotron_early+=" $1" ;;
    # A child may be there whose number is not known yet.
    TERM | INT | HUP) [ "$!" = "$nemotron_reader" ] || kill -KILL -- "-$!" 2> /dev/null; nemotron_told=$1 && nemotron_end $((128 + `kill -l "$1"`)) start "the job was told to stop (SIG$1)" ;;
    *) [ -n "$nemotron_gates" ] || nemotron_give "$1" & ;;
  esac
}

# NAME: to the command. USR1 and USR2 would end a program that still starts: they wait until it does something about them.
nemotron_give() {
  trap '' TERM INT HUP USR1 USR2; case $1 in USR1) bits='[2367abef]..' ;; USR2) bits='[89abcdef]..' ;; *) bits='' ;; esac # of a mask in hexadecimal digits
  for ((try = 0; try < 600; try++)); do nemotron_heeds "$bits"; [ $? -eq 1 ] && sleep 0.1 || break; done
  kill -s "$1" -- "-$nemotron_child"
} 2> /dev/null

# MASK: whether the child is there, and no copy of this shell still, and does something about such a signal. The shell of a
# line always does, so that it outlives it: its line may have a trap as soon as it has started a program.
nemotron_heeds() { [ "`cat /proc/$$/cmdline`" != "`cat "/proc/$nemotron_child/cmdline"`" ] && grep -q "^Sig[BIC].*$1$" "/proc/$nemotron_child/status" || return
  [ -z "$1" ] || ! grep -q -e --shell "/proc/$nemotron_child/cmdline" || grep -qs "^PPid:.$nemotron_child$" /proc/[0-9]*/status || return 1; }

# FILE: on Slurm, what the batch script leaves in FILE1, FILE2 and so on is for the command.
nemotron_watch() {
  while sleep 1; do [ ! -f "$1$nemotron_number" ] || { nemotron_give "`cat "$1$nemotron_number"`" & ((nemotron_number++)); }; done
}

# Whether there is something to wait for: the child, or its status, which bash 5.2 may lose as a signal comes.
nemotron_is_there() { kill -0 "$nemotron_child" 2> /dev/null || ! jobs -rp | grep -qx "$nemotron_child"; }

for nemotron_word in TERM INT HUP USR1 USR2; do trap "nemotron_tell $nemotron_word" "$nemotron_word"; done; for nemotron_word in "${nemotron_words[@]}"; do declare "nemotron_is_${nemotron_word%%=*}=${nemotron_word#*=}"; done
nemotron_restarts=${nemotron_is_restarts:-0} nemotron_name=${nemotron_values#*'"name": "'} nemotron_gpus=${nemotron_values#*'"gpus_per_node": '} && nemotron_gpus=${nemotron_gpus%%[!0-9]*}
nemotron_come=$nemotron_early nemotron_early='' && for nemotron_word in $nemotron_come; do nemotron_tell "$nemotron_word"; done
[ "${nemotron_is_nodes:-1} ${nemotron_is_tasks:-1}" = '1 1' ] || nemotron_why='several nodes or tasks'
case $nemotron_values in *'"stall": {'*) nemotron_why=stall_timeout ;; *'"launch": "direct"'*) ;; *) nemotron_why='its launcher' ;; esac
[ -z "$nemotron_why" ] || nemotron_end 1 start "the image has no python3 (3.6 or later), which $nemotron_why needs" image
[ ! -f "$nemotron_root/secrets.env" ] || . "$nemotron_root/secrets.env" # another attempt needs the secrets again
case $nemotron_values in *'"requeues"'*) nemotron_gates=$nemotron_status/gates-$nemotron_is_attempt ;; *) rm -f "$nemotron_root/secrets.env" ;; esac
export NEMOTRON_ALONE=1 NEMOTRON_JOB_NAME=${nemotron_name%%'"'*} NEMOTRON_JOB_DIR=$nemotron_root NEMOTRON_NUM_NODES=1 NEMOTRON_NODE_RANK=0
export NEMOTRON_METRICS_FILE=$nemotron_root/metrics.jsonl NEMOTRON_NODE_IPS=127.0.0.1 NEMOTRON_GPUS_PER_NODE=${nemotron_gpus:-0} NNODES=1 NODE_RANK=0 WORLD_SIZE=1
{ nemotron_word=`ulimit -Hn` && [ "$nemotron_word" -lt 1048576 ] || nemotron_word=1048576; ulimit -Sn "$nemotron_word"; } 2> /dev/null # as open_files.py
exec 8> >(nemotron_pass) && nemotron_reader=$! && set -m
bash "$nemotron_script" --shell 9> "$nemotron_status/phase" 7< /dev/null < /dev/null & nemotron_child=$!
set +m; exec 8>&-; for nemotron_word in $nemotron_early; do nemotron_give "$nemotron_word" & done
[ -z "$nemotron_gates" ] || { nemotron_watch "$nemotron_gates/told." 2> /dev/null & nemotron_watcher=$!; }
while nemotron_heard='' && wait "$nemotron_child"; nemotron_code=$?; [ -n "$nemotron_heard" ] && nemotron_is_there; do :; done
for ((nemotron_word = 0; nemotron_word < 100; nemotron_word++)); do kill -0 "$nemotron_reader" 2> /dev/null || break; sleep 0.05; done
! grep -qs ready "$nemotron_status/phase" || nemotron_end "$nemotron_code" command ''
nemotron_end "$((nemotron_code ? nemotron_code : 1))" setup "node 0 failed in its setup"
