# What pod.sh does, as process 1 of its container. Before this stand its constants and functions:
#   nemotron_pod_downsample (a program), nemotron_pod_dir, _count, _data (1 where there is data to fetch), _copies (1 where outputs are copied away), _outputs
#   (NAME and PATH by turns), _versions (PATHs), nemotron_pod_prepare (the profile's commands), nemotron_pod_place (who and
#   where this node is), nemotron_pod_told (the signal that has come, which the first lines' traps note).

nemotron_pod_say() { printf 'nemotron: %s\n' "$*"; }

# Where this node stands, before anything can fail; then all that is written goes to its log too.
nemotron_pod_begin() {
  local given=${LEPTON_JOB_WORKER_INDEX:-${PET_NODE_RANK:-${RANK-}}}
  case $given in '' | *[!0-9]*) given=0 ;; esac
  [ "$nemotron_pod_count" -gt 1 ] || given=0
  nemotron_pod_index=$given nemotron_pod_attempt=${NEMOTRON_POD_ATTEMPT:-0}
  nemotron_pod_child='' nemotron_pod_group='' nemotron_pod_forking='' nemotron_pod_signals=0 nemotron_pod_watch='' nemotron_pod_phase=start
  nemotron_pod_log=$nemotron_pod_dir/logs/node-$nemotron_pod_index.log nemotron_pod_tee=''
  nemotron_pod_status=$nemotron_pod_dir/status
  nemotron_pod_oom=`nemotron_oom_kills`
  (umask 077 && mkdir -p "$nemotron_pod_dir/logs" "$nemotron_pod_status") || :
  nemotron_pod_count_lives
  nemotron_pod_gates=$nemotron_pod_status/gates-$NEMOTRON_POD_LIFE
  (umask 077 && mkdir -p "$nemotron_pod_gates") || :
  rm -f "$nemotron_pod_status/node-$nemotron_pod_index"
  nemotron_pod_live
  exec 3>&1
  if { : >> "$nemotron_pod_log"; } 2> /dev/null; then
    nemotron_pod_before=`wc -l < "$nemotron_pod_log"`
    exec > >(trap '' TERM INT HUP && exec tee -a "$nemotron_pod_log") 2>&1
    nemotron_pod_tee=$!
  else
    nemotron_pod_log=''
    exec 2>&1
    nemotron_pod_say "the log cannot be kept in $nemotron_pod_dir/logs: it is only what the platform has"
  fi
  trap 'nemotron_pod_signal TERM' TERM
  trap 'nemotron_pod_signal INT' INT
  [ -z "$nemotron_pod_told" ] || nemotron_pod_signal "$nemotron_pod_told" # it came while all this was made
}

# A platform may run all pods of a job anew, such as after a preemption, and it is the same attempt. What the nodes told
# each other before, that they are here or have failed, must not be taken for news: each life has gates of its own.
nemotron_pod_count_lives() {
  local file=$nemotron_pod_status/lives-$nemotron_pod_attempt.$nemotron_pod_index
  { (umask 077 && printf . >> "$file") && nemotron_pod_life=$((`wc -c < "$file"`)); } 2> /dev/null || nemotron_pod_life=1
  export NEMOTRON_POD_LIFE=$nemotron_pod_attempt
  [ "$nemotron_pod_life" -le 1 ] || NEMOTRON_POD_LIFE+=.$nemotron_pod_life
}

# NAME: notes a signal and passes it on as nemotron_pod_run was told. While that forks, nothing is started here: `$!` would
# be another's, and `set -m` over; it passes on what has come then.
nemotron_pod_signal() {
  nemotron_pod_told=$1
  nemotron_pod_signals=$((nemotron_pod_signals + 1))
  [ -z "$nemotron_pod_forking" ] || return 0
  [ -n "$nemotron_pod_watch" ] || nemotron_pod_say_stopping
  if [ -n "$nemotron_pod_child" ] && [ "$nemotron_pod_group" != none ]; then
    kill -TERM -- "$nemotron_pod_group$nemotron_pod_child" 2> /dev/null || :
  fi
}

# The platform kills what does not end in time, and then nothing is said any more: so it is said before.
nemotron_pod_say_stopping() {
  local seconds=${NEMOTRON_STOP_SECONDS:-20}
  set -m
  {
    trap '' TERM INT
    sleep "$seconds"
    nemotron_pod_line "`nemotron_pod_mark 143 "it was told to stop (SIG$nemotron_pod_told) and still ran $seconds s later"`" >&3
  } > /dev/null 2>&1 < /dev/null &
  nemotron_pod_watch=$!
  set +m
  disown "$nemotron_pod_watch"
}

# GROUP COMMAND...: runs it in a process group of its own; its status, whatever signals come meanwhile.
# GROUP: a - where signals go to the whole group, nothing where this one process passes them on itself, `none` where it
# runs to its end, whether signals come meanwhile or have come before.
nemotron_pod_run() {
  [ -z "$nemotron_pod_told" ] || [ "$1" = none ] || return 143
  nemotron_pod_group=$1 nemotron_pod_forking=1
  shift
  set -m
  "$@" < /dev/null 3>&- &
  nemotron_pod_child=$!
  set +m
  nemotron_pod_forking=''
  [ -z "$nemotron_pod_told" ] || nemotron_pod_signal "$nemotron_pod_told" # it came before there was a child
  nemotron_await "$nemotron_pod_child" nemotron_pod_signals
  nemotron_pod_child=''
  return "$nemotron_ended"
}

# GROUP get|put OPTIONS: fetches inputs, or copies outputs away; its last words are kept as the reason.
nemotron_pod_move() {
  local code=0 said=$nemotron_pod_status/data-$nemotron_pod_index.said
  local ended=$nemotron_pod_status/data-$nemotron_pod_index.code
  if ! type -P python3 > /dev/null; then
    nemotron_pod_reason="the image has no python3, which inputs and outputs on S3 need" nemotron_pod_reason_code=image
    nemotron_pod_say "$nemotron_pod_reason"
    return 1
  fi
  rm -f "$ended"
  nemotron_pod_run "$1" nemotron_pod_data "$2" "$said" "$ended" "${@:3}" || code=$?
  [ ! -s "$ended" ] || code=`cat "$ended"` # its status may have been missed, see nemotron_is_missed
  if [ "$code" -ne 0 ]; then
    nemotron_pod_reason=`tail -n 1 "$said" 2> /dev/null`
    nemotron_pod_reason=${nemotron_pod_reason#nemotron: }
  fi
  rm -f "$said" "$ended"
  return "$code"
}

# get|put SAID ENDED OPTIONS: the files take its last words, and its status.
nemotron_pod_data() {
  local code
  {
    python3 "$nemotron_pod_dir/data.pyz" "$1" "$nemotron_pod_dir/data.json" \
      --node "$nemotron_pod_index" "${@:4}" 2>&1 >&4 | tee "$2"
    code=${PIPESTATUS[0]}
  } 4>&1
  printf '%s\n' "$code" > "$3"
  return "$code"
}

# REASON [CODE [REASON_CODE]]: ends this node before its job script, and tells the others, which would wait for it.
nemotron_pod_fail() {
  local code=${2:-1} reason=$1
  nemotron_pod_reason_code=${3-} nemotron_pod_blames=''
  if [ -n "$nemotron_pod_told" ]; then
    code=143 reason="the job was told to stop (SIG$nemotron_pod_told) before it had started" nemotron_pod_reason_code=''
  fi
  nemotron_pod_say "$reason (exit code $code)"
  nemotron_pod_tell_failure "$code" "node $nemotron_pod_index failed: $reason"
  nemotron_pod_finish "$code" start "$reason"
}

# CODE REASON: ends the job scripts of the other nodes, as a job script that has failed does.
nemotron_pod_tell_failure() {
  local file=$nemotron_pod_gates/failed.$nemotron_pod_index
  {
    (umask 077 && printf '%s\n' "exit_code=$1" "reason=$2" "node=${nemotron_pod_blames:-$nemotron_pod_index}" > "$file.$$.tmp") && mv -f "$file.$$.tmp" "$file"
  } 2> /dev/null || :
}

# CODE PHASE REASON: the last lines, and the end. nemotron_pod_reason_code and nemotron_pod_blames go with the reason.
nemotron_pod_finish() {
  local code=$1 tries=0
  trap '' TERM INT HUP
  exec >&3 2>&1
  while [ -n "$nemotron_pod_tee" ] && kill -0 "$nemotron_pod_tee" 2> /dev/null && [ "$tries" -lt 100 ]; do
    sleep 0.05 # a process that was left behind may hold the pipe open: its last lines get five seconds
    tries=$((tries + 1))
  done
  [ -z "$nemotron_pod_watch" ] || kill -KILL -- "-$nemotron_pod_watch" 2> /dev/null || :
  if [ -n "$nemotron_pod_log" ] && [ -n "`tail -c 1 "$nemotron_pod_log"`" ]; then nemotron_pod_line ''; fi
  [ "$nemotron_pod_index" -ne 0 ] || nemotron_pod_results "$code"
  nemotron_pod_line "`nemotron_pod_mark "$code" "$3" "$2"`" # also to the node's own log: some are read from there
  nemotron_pod_over "$code"
  exit "$code"
}

# TEXT: a line for the platform's log and for the node's own, which count as one.
nemotron_pod_line() {
  [ -z "$nemotron_pod_log" ] || printf '%s\n' "$1" 2> /dev/null >> "$nemotron_pod_log" || :
  printf '%s\n' "$1"
}

# What node 0 has to say of the job's results.
nemotron_pod_results() {
  local number name file=$nemotron_pod_dir/metrics.jsonl line
  for ((number = 0; number < ${#nemotron_pod_outputs[@]}; number += 2)); do
    name=${nemotron_pod_outputs[number]}
    [ ! -e "${nemotron_pod_outputs[number + 1]}" ] || nemotron_pod_line "nemotron-output: $name ${nemotron_pod_outputs[number + 1]}"
  done
  for line in "$nemotron_pod_status"/input-*; do
    [ ! -f "$line" ] || nemotron_pod_line "nemotron-input: ${line##*/input-} `nemotron_value "$line" path`"
  done
  [ -s "$file" ] || return 0
  if type -P python3 > /dev/null; then
    python3 -I -S -c "$nemotron_pod_downsample" "$file" --packed 2> /dev/null | while read -r line; do
      nemotron_pod_line "nemotron-metrics: $line"
    done
    return 0
  fi
  nemotron_pod_say "the image has no python3: of the metrics only the last line, and that of val_loss, is known"
  line=`grep '"val_loss"' "$file" 2> /dev/null | tail -n 1` # which not every line has
  [ -z "$line" ] || nemotron_pod_line "nemotron-metrics: ${line:0:4000}"
  line=`tail -n 1 "$file"`
  [ -z "$line" ] || nemotron_pod_line "nemotron-metrics: ${line:0:4000}"
}

# CODE REASON [PHASE]: the line of the end. What the job script has written down of its end says more than a status.
nemotron_pod_mark() {
  local marker=$nemotron_pod_status/node-$nemotron_pod_index signal='' rank='' oom=0 phase=${3:-$nemotron_pod_phase}
  local received=$nemotron_pod_told lines='' host=${NEMOTRON_NODE_NAME-} ended=''
  [ -n "$host" ] || read -r host < /proc/sys/kernel/hostname
  if [ -f "$marker" ]; then
    signal=`nemotron_value "$marker" signal` rank=`nemotron_value "$marker" rank`
    oom=`nemotron_value "$marker" oom` ended=`nemotron_value "$marker" ended`
  elif [ "`nemotron_oom_kills`" -gt "$nemotron_pod_oom" ]; then
    oom=1
  fi
  [ -n "$ended" ] || ended=`nemotron_now`
  [ -z "$nemotron_pod_log" ] || lines=$((`wc -l < "$nemotron_pod_log"` - nemotron_pod_before))
  printf 'nemotron-end: node=%s attempt=%s exit_code=%s signal=%s rank=%s oom=%s phase=%s received=%s lines=%s node_name=%s ended=%s reason_code=%s blames=%s reason=%s\n' \
    "$nemotron_pod_index" "$nemotron_pod_attempt" "$1" "$signal" "$rank" "$oom" "$phase" "$received" "$lines" \
    "${host// /_}" "$ended" "$nemotron_pod_reason_code" "$nemotron_pod_blames" "${2//$'\n'/ }"
}

# What a job that has succeeded on all nodes has made becomes the newest version of its artifact.
nemotron_pod_publish() {
  local said
  said=`nemotron_register ${nemotron_pod_versions[@]+"${nemotron_pod_versions[@]}"}`
  [ -z "$said" ] || nemotron_pod_say "$said"
}

nemotron_pod_main() {
  local code=0 marker reason='' reason_code='' blames='' phase=command step before
  nemotron_pod_reason='' nemotron_pod_reason_code='' nemotron_pod_blames=''
  nemotron_pod_begin
  nemotron_pod_place
  nemotron_pod_run - nemotron_pod_prepare || nemotron_pod_fail "a command of pre_launch_commands failed" "$?" pre_launch
  if [ -n "$nemotron_pod_data" ]; then
    nemotron_pod_move - get ||
      nemotron_pod_fail "inputs: ${nemotron_pod_reason:-they could not be fetched}" 1 "${nemotron_pod_reason_code:-inputs}"
  fi
  nemotron_pod_phase=command
  nemotron_pod_run '' bash "$nemotron_pod_dir/job.sh" || code=$?
  marker=$nemotron_pod_status/node-$nemotron_pod_index
  if [ -f "$marker" ]; then
    reason=`nemotron_value "$marker" reason` phase=`nemotron_value "$marker" phase`
    reason_code=`nemotron_value "$marker" reason_code` blames=`nemotron_value "$marker" blames`
    # The status of its process may have been missed; where they are two, it was killed after it had said its end.
    [ -z "$nemotron_pod_told" ] || code=`nemotron_value "$marker" exit_code`
  elif [ "$code" -ne 0 ]; then
    reason="the job script ended without a word (status $code)"
    [ -z "$nemotron_pod_told" ] || reason="the job was told to stop (SIG$nemotron_pod_told)"
    nemotron_pod_tell_failure "$code" "node $nemotron_pod_index failed: $reason"
  fi
  for step in 'nemotron_pod_others command' nemotron_pod_put 'nemotron_pod_others end'; do
    nemotron_pod_reason='' nemotron_pod_reason_code='' nemotron_pod_blames='' before=$code
    $step "$before" || code=$?
    if [ "$before" -ne 0 ]; then
      code=$before
    elif [ "$code" -ne 0 ]; then
      reason=$nemotron_pod_reason reason_code=$nemotron_pod_reason_code blames=$nemotron_pod_blames
    fi
  done
  if [ "$code" -eq 0 ] && [ "$nemotron_pod_index" -eq 0 ]; then nemotron_pod_publish; fi
  nemotron_pod_reason_code=$reason_code nemotron_pod_blames=$blames
  nemotron_pod_finish "$code" "$phase" "$reason"
}

# CODE: copies outputs, also when the job was told to stop, before or meanwhile, for as long as the platform lets it.
nemotron_pod_put() {
  local code=0
  [ -n "$nemotron_pod_copies" ] || return 0
  nemotron_pod_move none put --status "$1" || code=1
  [ "$code" -eq 0 ] || nemotron_pod_reason="outputs: ${nemotron_pod_reason:-they could not be copied}" \
    nemotron_pod_reason_code=${nemotron_pod_reason_code:-outputs}
  return "$code"
}

# INDEX COUNT: names of variables; this node must be one of those that were planned.
nemotron_pod_check() {
  case ${!1} in *[!0-9]*) nemotron_pod_fail "$1 is no number: ${!1}" ;; esac
  if [ -n "$2" ] && [ "${!2}" != "$nemotron_pod_count" ]; then
    nemotron_pod_fail "the platform has started ${!2} pods ($2) for a job of $nemotron_pod_count nodes"
  fi
  [ "${!1}" -lt "$nemotron_pod_count" ] ||
    nemotron_pod_fail "this is pod ${!1} ($1, from 0) of a job of $nemotron_pod_count nodes"
}
