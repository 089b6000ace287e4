# Functions of the batch shell; batch.py says what for. What Slurm says and does here was seen with 22.05.

nemotron_before=() nemotron_beside=()
nemotron_shared=${SLURM_ARRAY_TASK_ID-} # the tasks of an array share the job's directory

nemotron_note() { printf 'nemotron: %s\n' "$*"; }

# FILE LINE...: appears whole or not at all, for the job's owner alone.
nemotron_put() {
  local file=$1
  shift
  (
    nemotron_be_deaf
    umask 077 && mkdir -p "${file%/*}" && printf '%s\n' "$@" > "$file.$$.tmp" && mv -f "$file.$$.tmp" "$file"
  )
}

# WORD...: of squeue; sets nemotron_answer. A signal to all may end it (`timeout` hears it though this shell is deaf), and
# a busy controller refuse: it is asked again, unless it was silent.
nemotron_ask() {
  local code try
  for try in 1 2 3; do
    [ "$try" -eq 1 ] || sleep 1
    code=0
    nemotron_answer=`
      unset ${!SQUEUE_@}
      SLURM_TIME_FORMAT=%s timeout 20 squeue --noheader "$@" 2> /dev/null < /dev/null
    ` || code=$?
    [ "$code" -ne 0 ] || return 0
    nemotron_answer=''
    [ "$code" -ne 124 ] || return 0
  done
}

# What Slurm says of this job. Of a job that it ends, the state is COMPLETING whatever the cause; the cause is in the
# reason (TimeLimit), the time of preemption, or the count of restarts, which is higher once it is to start again.
nemotron_look() {
  local fields='State:|,Reason:|,PreemptTime:|,RestartCnt:|,EndTime:|'
  nemotron_ask --states=all --jobs="$nemotron_id" --Format="$fields"
  nemotron_rest=''
  # A site's wrapper may say something before or after it.
  [[ ! $nemotron_answer =~ (^|$'\n')([A-Z_]+\|([^|$'\n']*\|){4}) ]] || nemotron_rest=${BASH_REMATCH[2]}
  nemotron_next nemotron_state
  nemotron_next nemotron_why
  nemotron_next nemotron_preempted
  nemotron_next nemotron_starts
  nemotron_next nemotron_ends
}

# NAME: sets the variable to what comes before the next | of nemotron_rest. A `read` would do: but what a trap reads takes
# away the time limit of the `read -t` that the signal has interrupted, which then waits for ever (bash 5.2).
nemotron_next() {
  printf -v "$1" %s "${nemotron_rest%%|*}"
  case $nemotron_rest in *'|'*) nemotron_rest=${nemotron_rest#*|} ;; *) nemotron_rest='' ;; esac
}

# NAME: has the job script hand a signal to the command, on every node, also one that is not there yet.
nemotron_tell() {
  local number=1
  while [ -e "$nemotron_gates/told.$number" ]; do number=$((number + 1)); done
  nemotron_put "$nemotron_gates/told.$number" "$1"
}

# requeue|stop REASON: what becomes of the job once its step is over. The first word stays.
nemotron_verdict() { [ -e "$nemotron_gates/verdict" ] || nemotron_put "$nemotron_gates/verdict" "$1 $2"; }

# NAME: a signal for the command, or with TERM the word that Slurm ends the job: KILL follows within KillWait (30 s).
nemotron_batch_signal() {
  nemotron_signals=$((nemotron_signals + 1))
  nemotron_look
  if nemotron_is_ending; then
    nemotron_settle 143
    return
  fi
  nemotron_note "SIG$1 came and is handed to the command"
  nemotron_tell "$1"
  if [ "$nemotron_phase" != over ] && nemotron_is_near "$1"; then nemotron_interrupted="SIG$1 before the time limit"; fi
}

# NAME: whether a signal is the one before the time limit, or before a preemption, and not one that somebody sent.
# Slurm sends it up to a minute early.
nemotron_is_near() {
  if [ -z "$nemotron_state" ]; then
    [ "$1" = "$nemotron_signal" ]
  else
    nemotron_is_preempted || [[ $nemotron_lead -gt 0 && $nemotron_ends == *[0-9] ]] &&
      [ $((nemotron_ends - `date +%s`)) -le $((nemotron_lead + 90)) ]
  fi
}

# Whether Slurm ends the job or has done so. A job that is told of its time limit is RUNNING, or SIGNALING just then.
nemotron_is_ending() {
  case $nemotron_state in
    COMPLET* | CANCELLED* | FAILED | TIMEOUT | DEADLINE | PREEMPTED | OUT_OF_MEMORY | *_FAIL | PENDING | REQUEUE*) ;;
    *) return 1 ;;
  esac
}

# Whether what becomes of this attempt is settled already, or somebody wants it to be over.
nemotron_is_told_to_end() { [ -n "$nemotron_fate" ] || [ -e "$nemotron_job/status/cancelled" ]; }

# Whether this attempt is, not one before.
nemotron_is_preempted() { [[ $nemotron_preempted =~ ^[0-9]+$ ]] && [ "$nemotron_preempted" -ge "$nemotron_began" ]; }

# Whether the job has been put back into the queue since this attempt began.
nemotron_is_put_back() { [[ $nemotron_starts == *[0-9] ]] && [ "$nemotron_starts" -gt "$nemotron_restarts" ]; }

# CODE: decides what becomes of the job after this attempt, and does it. Once.
nemotron_settle() {
  nemotron_be_deaf # first: a signal's handler may settle within another's
  [ -z "$nemotron_fate" ] || return 0
  nemotron_decide "$1"
  nemotron_tell_fate "$1"
  case $nemotron_fate in
    over | slurm) ;;
    *)
      if ! nemotron_requeue; then
        nemotron_unfinished=124
        nemotron_set over "$nemotron_reason, but it cannot be requeued"
        nemotron_tell_fate "$1"
        # Of a Slurm that is silent nobody knows what it has done: a job that is back needs its secrets.
        [ -n "$nemotron_state" ] || return 0
      fi
      ;;
  esac
  [ "$nemotron_fate" != over ] || nemotron_forget
}

nemotron_requeue() { nemotron_insist scontrol requeue "$nemotron_id"; }

# COMMAND...: scontrol or scancel, three times where it must be: a busy controller does not answer at once, and what it
# has not answered it may have done.
nemotron_insist() {
  local try
  for try in 1 2 3; do
    [ "$try" -eq 1 ] || sleep 2
    "$@" && return 0
    case "$1 $2" in
      'scontrol requeue'*)
        nemotron_look
        ! nemotron_is_put_back || return 0
        ;;
    esac
  done
  return 1
}

# CODE: of this attempt.
nemotron_tell_fate() {
  local code=$1
  [ "$code" -ne 0 ] || code=${nemotron_unfinished:-0}
  (
    umask 077 && mkdir -p "$nemotron_job/status" &&
      printf 'attempt=%s exit_code=%s fate=%s ended=%s reason_code=%s reason=%s\n' "$nemotron_restarts" "$code" \
        "$nemotron_fate" "`date +%s`" "$nemotron_reason_code" "$nemotron_reason" >> "$nemotron_attempts"
  )
  nemotron_note "attempt $((nemotron_restarts + 1)): $nemotron_reason"
}

# CODE: sets nemotron_fate, nemotron_reason, and the exit code of a job that is not done although its command says 0.
nemotron_decide() {
  local verdict='' by interrupted=$nemotron_interrupted
  [ ! -f "$nemotron_gates/verdict" ] || verdict=`cat "$nemotron_gates/verdict"`
  [ "$nemotron_why" != TimeLimit ] || interrupted='its time limit was reached'
  ! nemotron_is_preempted || interrupted='it was preempted'
  if [ -e "$nemotron_job/status/cancelled" ]; then
    by=`head -n 1 "$nemotron_job/status/cancelled"`
    nemotron_set over "cancelled by $by" cancelled
  elif nemotron_is_put_back; then
    nemotron_set slurm 'Slurm starts the job again'
  elif [ -n "$verdict" ]; then
    nemotron_by_verdict "${verdict%% *}" "${verdict#* }"
  elif [ -n "$interrupted" ]; then
    nemotron_by_resume "$1" "$interrupted"
  elif nemotron_is_ending; then
    nemotron_set over 'Slurm ended the job' slurm
  elif nemotron_is_unbegun; then
    nemotron_unfinished=1
    nemotron_by_retries 'setup_lines ended the batch script before its command' setup_lines
  elif [ "$1" -eq 0 ]; then
    nemotron_set over 'done' done
  else
    nemotron_by_retries "exit code $1"
  fi
}

# Whether the job's own step was never asked for. The profile's lines may have put another srun before ours.
nemotron_is_unbegun() {
  [ "$nemotron_phase" = begin ] && { [ -n "$nemotron_shared" ] || ! compgen -G "$nemotron_job/status/node-*" > /dev/null; }
}

# REASON [REASON_CODE]
nemotron_by_retries() {
  if [ "`nemotron_count retried`" -lt "$nemotron_retries" ]; then
    nemotron_set retried "$1; the job is tried again ($nemotron_retries retries)"
  else
    nemotron_set over "$1" "${2-}"
  fi
}

# requeue|stop REASON
nemotron_by_verdict() {
  if [ "$1" = requeue ]; then nemotron_set requeued "$2"; else nemotron_set over "$2"; fi
}

# CODE REASON: an attempt that was cut short is continued, whatever its command's exit code says, and where it may not
# be, the job is not done. Without `resume`, a command that ends with 0 before Slurm ends it says that it is.
nemotron_by_resume() {
  if [ -z "$nemotron_resume" ]; then
    if nemotron_is_ending; then nemotron_unfinished=124; fi
    if [ "$1$nemotron_unfinished" = 0 ]; then nemotron_set over "done, though cut short: $2" cut_short; else nemotron_set over "$2"; fi
  elif [ $((nemotron_restarts - `nemotron_count retried` - `nemotron_count requeued`)) -ge "$nemotron_max_restarts" ]; then
    nemotron_unfinished=124
    nemotron_set over "$2; max_restarts = $nemotron_max_restarts is reached" restarts
  else
    nemotron_set continued "$2; the job is continued"
  fi
}

# FATE REASON [REASON_CODE]: the code is what decides (script/markers.py), the reason is for people.
nemotron_set() {
  nemotron_fate=$1
  nemotron_reason=$2
  nemotron_reason_code=${3-}
}

# CODE ZERO: has the nodes' records say what the job script could not know: why the job is over, and ZERO for 0. Without
# a record, there is one of the first node then.
nemotron_mark() {
  local file found=''
  [ -z "$nemotron_shared" ] || return 0
  for file in "$nemotron_job"/status/node-*; do
    [[ -f $file && $file != *.tmp ]] || continue
    nemotron_put_record "$file" "$2"
    found=1
  done
  [ -n "$found" ] || nemotron_put "$nemotron_job/status/node-0" "`nemotron_record 0 "${SLURMD_NODENAME-}" "$1" \
    "$nemotron_restarts" "$nemotron_reason" "$nemotron_reason_code" "$nemotron_began"`"
}

# NODE HOST CODE ATTEMPT REASON REASON_CODE BEGAN: of a node whose job script has left none.
nemotron_record() {
  printf '{"node": %s, "host": "%s", "phase": "start", "exit_code": %s, "attempt": %s, "reason": "%s", "reason_code": "%s", ' \
    "$1" "$2" "$3" "$4" "`nemotron_json "$5"`" "$6"
  printf '"started": %s, "ended": %s}' "$7" "`date +%s`"
}

# TEXT: as it stands in JSON between quotes.
nemotron_json() { printf %s "$1" | tr '\000-\037' ' ' | sed 's/[\\"]/\\&/g'; }

# FILE ZERO
nemotron_put_record() {
  local record
  record=`cat "$1"`
  record=${record/'"exit_code": 0,'/'"exit_code": '"$2,"}
  case $record in
    *'"reason": "",'*)
      record=${record/'"reason": ""'/'"reason": "'"`nemotron_json "$nemotron_reason"`"'"'}
      record=${record/'"reason_code": ""'/'"reason_code": "'"$nemotron_reason_code"'"'}
      ;;
  esac
  nemotron_put "$1" "$record"
}

# FATE: how many attempts had it.
nemotron_count() {
  local count=0 line
  if [ -f "$nemotron_attempts" ]; then
    while IFS= read -r line; do [[ $line != *" fate=$1 "* ]] || count=$((count + 1)); done < "$nemotron_attempts"
  fi
  printf '%s' "$count"
}

# The job is over: its secrets go; those of an array with its last task.
nemotron_forget() {
  local over
  if [ -n "$nemotron_shared" ]; then
    nemotron_put "$nemotron_job/status/over-$SLURM_ARRAY_TASK_ID"
    over=("$nemotron_job"/status/over-*[0-9])
    [ "${#over[@]}" -ge "${SLURM_ARRAY_TASK_COUNT:-1}" ] || return 0
  fi
  rm -f "$nemotron_job/secrets.env" || : > "$nemotron_job/secrets.env"
}

# WORD...: Slurm's srun; the job's own step stands beside the shell, which hears signals while it waits.
srun() {
  case ${!#} in
    */"$nemotron_script") nemotron_step "$@" ;;
    *) command srun "$@" ;;
  esac
}

# WORD...: TERM is not srun's: it would send it to the step, which Slurm sends it too.
nemotron_step() {
  local hook before code beside=() traced=$-
  { set +vx; } 2> /dev/null
  nemotron_phase=step
  for hook in "${nemotron_before[@]}"; do
    if [ -z "$nemotron_fate${code-}" ]; then "$hook" "$@" || code=$?; fi
  done
  [ -z "$nemotron_fate" ] || code=143 # Slurm has ended what stood before the step: nothing is begun any more
  if [ -z "${code-}" ]; then
    nemotron_separate "$@"
    (trap '' TERM && exec srun "${nemotron_words[@]}") &
    nemotron_child=$!
    for hook in "${nemotron_beside[@]}"; do
      "$hook" "$nemotron_child" &
      beside+=($!)
    done
    nemotron_await "$nemotron_child" nemotron_signals
    code=$nemotron_ended
    [ "${#beside[@]}" -eq 0 ] || kill -KILL "${beside[@]}" 2> /dev/null
  fi
  nemotron_phase=over
  TORCHX_MAX_RETRIES=0
  case $traced in *x*) set -vx ;; esac
  return "$code"
}

# WORD...: of several tasks, each writes a log of its own (`_TASK` before `.out`). Into one file of all, srun puts what
# comes from several nodes in pieces of 1024 bytes, in the midst of lines.
nemotron_separate() {
  local word
  nemotron_words=()
  for word in "$@"; do
    case $word in
      "$nemotron_job"/log-*.out)
        [ "${SLURM_NTASKS:-1}" -eq 1 ] && [ "${SLURM_NNODES:-1}" -eq 1 ] || word=${word%.out}_%t.out
        ;;
    esac
    nemotron_words+=("$word")
  done
}

# CODE
nemotron_batch_end() {
  local code=$1 zero=0
  set +e
  trap - EXIT
  nemotron_be_deaf
  # A success that nothing came before needs no question.
  [ "$code$nemotron_resume" = 0 ] || nemotron_look
  nemotron_settle "$code"
  if [ "$nemotron_fate" = over ]; then
    [ "$code" -ne 0 ] || code=${nemotron_unfinished:-0} zero=${nemotron_unfinished:-0}
    if [ -n "$nemotron_unfinished" ] || [ "$nemotron_reason_code" = cut_short ]; then nemotron_mark "$code" "$zero"; fi
    if [ "$code" -eq 0 ]; then nemotron_publish; fi
  fi
  exit "$code"
}

# What the job has made becomes the newest version of its artifact. The tasks of an array of the user's own make one
# version together: that is registered once all have ended well, by whoever asks.
nemotron_publish() {
  local said
  case $nemotron_reason_code in 'done' | cut_short) ;; *) return 0 ;; esac
  [[ -z $nemotron_shared && -f $nemotron_job/versions.sh ]] || return 0
  . "$nemotron_job/versions.sh"
  said=`nemotron_register "${nemotron_versions[@]}"`
  [ -z "$said" ] || nemotron_note "$said"
}

nemotron_batch_begin() {
  local name
  nemotron_id=$SLURM_JOB_ID nemotron_restarts=${SLURM_RESTART_COUNT:-0} nemotron_attempts=$nemotron_job/status/attempts
  if [ -n "${SLURM_ARRAY_TASK_ID-}" ]; then
    nemotron_id=${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID
    [ -z "$nemotron_shared" ] || nemotron_attempts+=-$SLURM_ARRAY_TASK_ID
  fi
  nemotron_gates=$nemotron_job/status/gates-$SLURM_JOB_ID-$nemotron_restarts
  nemotron_began=`date +%s` nemotron_phase=begin nemotron_signals=0 nemotron_fate='' nemotron_reason='' nemotron_reason_code='' nemotron_interrupted='' nemotron_child=''
  nemotron_unfinished='' nemotron_state='' nemotron_why='' nemotron_preempted='' nemotron_starts='' nemotron_ends=''
  NEMOTRON_ATTEMPTS=$((nemotron_retries + 1))
  [ -z "$nemotron_resume" ] || NEMOTRON_ATTEMPTS=$((NEMOTRON_ATTEMPTS + nemotron_max_restarts))
  export NEMOTRON_ATTEMPTS
  # A trap is read line by line: of it the log shows the first alone, so that a job's last lines are its own.
  trap '{ nemotron_code=$?; set +vx; } 2> /dev/null
    nemotron_batch_end "$nemotron_code"' EXIT
  for name in TERM INT HUP USR1 USR2; do
    # shellcheck disable=SC2064
    trap "{ set +x; } 2> /dev/null"$'\n'"nemotron_batch_signal $name" "$name"
  done
  if [ "$nemotron_restarts" -gt 0 ]; then nemotron_again; fi
}

# What an earlier attempt has left is not believed. One that was cancelled while it waited does not start.
nemotron_again() {
  nemotron_note "attempt $((nemotron_restarts + 1))"
  [ -n "$nemotron_shared" ] || rm -f "$nemotron_job"/status/{node,rank}-*
  if [ -e "$nemotron_job/status/cancelled" ]; then
    scancel "$nemotron_id"
    exit 1
  fi
}
