nemotron_say() { printf 'nemotron: %s\n' "$*" >&2; }

# COMMAND...: what it makes is for the job's owner alone; the umask of the user's own command stays as it is.
nemotron_privately() { (umask 077 && "$@"); }

# FILE [LINE...]: writes lines, or an empty file.
nemotron_write() {
  local file=$1
  shift
  if [ $# -eq 0 ]; then : > "$file"; else printf '%s\n' "$@" > "$file"; fi
}

# PATH...: what root makes in a container belongs to whom the status folder belongs: they read it on the host.
nemotron_hand_over() {
  [ "$EUID" -ne 0 ] || chown --reference="$nemotron_status" -- "$@" 2> /dev/null || :
}

# FILE LINE...: the file appears whole or not at all.
nemotron_record() {
  local file=$1
  shift
  nemotron_privately nemotron_write "$file.$$.tmp" "$@" || return
  nemotron_hand_over "$file.$$.tmp"
  mv -f "$file.$$.tmp" "$file"
}

# CODE: the signal that a shell's exit status stands for, or nothing.
nemotron_signal_of() {
  if [ "$1" -gt 128 ] && [ "$1" -le 192 ]; then printf '%s' "$(($1 - 128))"; fi
}

# RANK: runs the command of one rank and records how it ended. The command stays in this process group, where
# torchrun's and this script's signals reach it directly; this shell outlives them to write the record.
#
# An exit status of 128 + N alone does not tell a signal from an `exit`. Bash does: it names the signal that ended a
# foreground process on its error stream, except INT and PIPE (notify_of_job_status in its jobs.c).
nemotron_rank() {
  local nemotron_out nemotron_reader nemotron_code nemotron_signal='' nemotron_tries=0
  local nemotron_said=$nemotron_status/rank-$1.said nemotron_told=''
  set +e
  # A signal that comes before there is a command is kept for it: it is sent only once.
  trap 'nemotron_told=143' TERM
  trap 'nemotron_told=130' INT
  trap 'nemotron_told=129' HUP
  trap 'nemotron_told=138' USR1
  trap 'nemotron_told=140' USR2
  nemotron_given=$nemotron_status/given-$1
  nemotron_privately nemotron_write "$nemotron_given" '0 0                                         ' 2> /dev/null || :
  exec {nemotron_out}> >(nemotron_prefix "$1")
  nemotron_reader=$!
  nemotron_privately nemotron_write "$nemotron_said" 2> /dev/null || nemotron_said=/dev/null
  { (
    exec >&"$nemotron_out" 2>&1 {nemotron_out}>&-
    : > "$nemotron_said" # without what `set -x` said
    [ -z "$nemotron_told" ] || exit "$nemotron_told"
    set -eo pipefail
    nemotron_command
  ); } 2>> "$nemotron_said"
  nemotron_code=$?
  nemotron_be_deaf
  if [ -f "$nemotron_said" ]; then
    [ ! -s "$nemotron_said" ] || nemotron_signal=`nemotron_signal_of "$nemotron_code"`
    rm -f "$nemotron_said"
  fi
  nemotron_record "$nemotron_status/rank-$1" "rank=$1" "exit_code=$nemotron_code" \
    "signal=$nemotron_signal" "ended=`nemotron_now`"
  exec {nemotron_out}>&-
  # A process that the command left behind may hold the pipe open for ever: its last lines get five seconds.
  while kill -0 "$nemotron_reader" 2> /dev/null && [ "$nemotron_tries" -lt 100 ]; do
    sleep 0.05
    nemotron_tries=$((nemotron_tries + 1))
  done
  return "$nemotron_code"
}

# NAME NUMBER: passes a signal on, once, to the process group of the command; before there is one, ends the script.
# Where the platform signals every process of a task, the command has had it already.
nemotron_on_signal() {
  nemotron_received=$1
  nemotron_signals=$((nemotron_signals + 1))
  # It may come between the start of the command and the line that notes it.
  [ -z "$nemotron_launching" ] || [ "${!:-none}" = "$nemotron_launching" ] || nemotron_child=$!
  if [ -n "$nemotron_child" ]; then
    [ -n "$nemotron_signals_all" ] || kill -s "$1" -- "-$nemotron_child" 2> /dev/null || :
  else
    nemotron_be_deaf
    nemotron_reason="the job was told to stop (SIG$1)"
    nemotron_end $((128 + $2)) # an `exit` within the EXIT trap would end the script without its marker
  fi
}

# COMMAND...: runs it in a process group of its own and returns its status, whatever signals come meanwhile.
# Here and in nemotron_rank even locals have our prefix: bash exports a local whose name is a variable of the job.
nemotron_launch() {
  local nemotron_watcher='' nemotron_stall=''
  set -m
  nemotron_launching=${!:-none}
  "$@" < /dev/null &
  nemotron_child=$! nemotron_launching=''
  set +m
  if [ "$nemotron_tasks" -gt 1 ] || [ -n "$nemotron_requeues" ]; then
    nemotron_watch "$nemotron_child" > /dev/null 2>&1 &
    nemotron_watcher=$!
    disown "$nemotron_watcher" # bash would tell of its end
  fi
  if [ -n "${nemotron_stall_seconds-}" ]; then
    nemotron_stall_watch "$nemotron_child" > /dev/null &
    nemotron_stall=$!
    disown "$nemotron_stall"
  fi
  nemotron_await "$nemotron_child" nemotron_signals
  [ -z "$nemotron_watcher$nemotron_stall" ] || kill -KILL $nemotron_watcher $nemotron_stall 2> /dev/null || :
  return "$nemotron_ended"
}

# GROUP: hands the command here what the job is told from outside, and ends it once it has failed elsewhere:
# collectives and torchrun would wait for the others long.
nemotron_watch() {
  local failed told=1
  nemotron_be_deaf
  while sleep 2; do
    for failed in "$nemotron_gates"/told.*[0-9]; do
      [ -f "$nemotron_gates/told.$told" ] || continue
      ! nemotron_deliver "`cat "$nemotron_gates/told.$told"`" "$1" || told=$((told + 1))
    done
    for failed in "$nemotron_gates"/failed.*[0-9]; do
      [ -f "$failed" ] || continue
      sleep 5
      kill -TERM -- "-$1"
      sleep 30
      kill -KILL -- "-$1"
      return 0
    done
  done
}

# NAME GROUP: sends the command a signal. Under torchrun every rank gets it and torchrun does not: it would end its ranks
# 30 s later, or by USR1 itself. One that would end a torchrun that has no ranks yet waits for them.
nemotron_deliver() {
  local group found=''
  for group in `nemotron_rank_groups "$2"`; do
    kill -s "$1" -- "-$group" && found=1
  done
  [ -z "$found" ] || return 0
  case $nemotron_apart$1 in 1USR?) return 1 ;; esac
  kill -s "$1" -- "-$2"
  return 0
}

# PID: the process groups of the ranks that torchrun has started below a process.
nemotron_rank_groups() {
  local entry word words count
  [ -n "$nemotron_apart" ] || return 0
  for entry in /proc/[0-9]*; do
    words=()
    while IFS= read -r -d '' word; do words+=("$word"); done 2> /dev/null < "$entry/cmdline"
    count=${#words[@]}
    [ "$count" -ge 2 ] || continue
    if [ "${words[count - 1]}" = --rank ] && [ "${words[count - 2]}" = "$nemotron_script" ]; then
      nemotron_group_below "${entry#/proc/}" "$1"
    fi
  done
}

# PID ANCESTOR: the process, where it leads a group and descends from the other.
nemotron_group_below() {
  local parent group state above rest
  read -r state parent group rest <<< "`nemotron_stat "$1"`"
  [ "$group" = "$1" ] || return 0
  while [ "${parent:-0}" -gt 1 ]; do
    if [ "$parent" = "$2" ]; then
      printf '%s\n' "$1"
      return 0
    fi
    read -r state above rest <<< "`nemotron_stat "$parent"`"
    parent=$above
  done
}

# PID: its state, parent, group and so on (man 5 proc); a program's name may hold anything.
nemotron_stat() {
  local line
  { IFS= read -r line < "/proc/$1/stat"; } 2> /dev/null || :
  printf '%s' "${line##*) }"
}

# FIRST COUNT: the rank of this node that failed first, by time; torchrun stops the others afterwards.
nemotron_first_failure() {
  local LC_ALL=C rank ended first='' earliest=''
  for ((rank = $1; rank < $1 + $2; rank++)); do
    [ -f "$nemotron_status/rank-$rank" ] || continue
    [ "`nemotron_value "$nemotron_status/rank-$rank" exit_code`" != 0 ] || continue
    ended=`nemotron_value "$nemotron_status/rank-$rank" ended`
    if [ -z "$first" ] || [[ $ended < $earliest ]]; then
      first=$rank
      earliest=$ended
    fi
  done
  printf '%s' "$first"
}

# FIRST COUNT: adds up what this node's ranks have given to the log, and removes their notes.
nemotron_count_given() {
  local rank lines size rest
  for ((rank = $1; rank < $1 + $2; rank++)); do
    lines='' size=''
    { read -r lines size rest < "$nemotron_status/given-$rank"; } 2> /dev/null || :
    rm -f "$nemotron_status/given-$rank"
    case $lines-$size in *[!0-9-]* | -* | *-) continue ;; esac
    nemotron_lines=$((nemotron_lines + lines)) nemotron_size=$((nemotron_size + size))
  done
}

# STATUS FIRST COUNT: ends the script with the status of the rank that failed first: torchrun's own is always 1.
nemotron_finish() {
  local code=$1
  nemotron_be_deaf # nobody is left to hear one
  nemotron_finished=1
  nemotron_count_given "$2" "$3"
  if [ "$code" -ne 0 ]; then
    [ ! -f "$nemotron_gates/stalled" ] || nemotron_stall_finish
    [ "$nemotron_tasks" -eq 1 ] || nemotron_heed_failures
    nemotron_failed=`nemotron_first_failure "$2" "$3"`
    if [ -n "$nemotron_failed" ]; then
      code=`nemotron_value "$nemotron_status/rank-$nemotron_failed" exit_code`
      nemotron_signal=`nemotron_value "$nemotron_status/rank-$nemotron_failed" signal`
    fi
  fi
  exit "$code"
}

# Starts the records of this node and sees to it that its exit marker is written however the script ends.
nemotron_begin() {
  nemotron_phase=start nemotron_reason='' nemotron_reason_code='' nemotron_blames='' nemotron_failed='' nemotron_received='' nemotron_child='' nemotron_launching=''
  nemotron_finished='' nemotron_signal='' nemotron_apart=''
  nemotron_signals=0 nemotron_lines=0 nemotron_size=0
  nemotron_started=`nemotron_now`
  nemotron_marker=$nemotron_status/node-$nemotron_node
  [ "$nemotron_local" -eq 0 ] || nemotron_marker=$nemotron_marker.$nemotron_local
  nemotron_gates=$nemotron_status/gates-$nemotron_attempt
  nemotron_privately mkdir -p "$nemotron_status" "$nemotron_gates"
  nemotron_hand_over "$nemotron_gates"
  rm -f "$nemotron_marker"
  [ -z "$nemotron_ends_all" ] || nemotron_privately nemotron_write "$nemotron_gates/here.$nemotron_task"
  # Room for the exit marker on a disk that the job fills.
  nemotron_spare=$nemotron_status/spare-$nemotron_task
  nemotron_privately nemotron_write "$nemotron_spare" "`printf '%8191s' ''`" || :
  nemotron_oom_before=`nemotron_oom_kills`
  nemotron_owner=${NEMOTRON_OWNER-}
  unset NEMOTRON_OWNER
  [ "$EUID" -eq 0 ] || nemotron_owner=''
  [ -z "$nemotron_owner" ] || nemotron_write "$nemotron_status/began.$nemotron_task"
  trap nemotron_end EXIT
  trap 'nemotron_on_signal TERM 15' TERM
  trap 'nemotron_on_signal INT 2' INT
  trap 'nemotron_on_signal HUP 1' HUP
  trap 'nemotron_on_signal USR1 10' USR1
  trap 'nemotron_on_signal USR2 12' USR2
  if [ "$nemotron_task" -eq 0 ] && [ "$nemotron_restarts" -gt 0 ]; then nemotron_say_attempt; fi
}

# NEMOTRON_ATTEMPTS is the platform's, which may start a job more often than it was asked to.
nemotron_say_attempt() {
  local number=$((nemotron_restarts + 1)) most=${NEMOTRON_ATTEMPTS:-0}
  if [ "$number" -le "$most" ]; then number="$number of $most"; fi
  nemotron_say "attempt $number"
}

# [CODE]: ends the script, by default with the last status, and records how.
nemotron_end() {
  local code=${1-$?} oom=0 host reason
  nemotron_be_deaf # first
  trap - EXIT
  set +e
  rm -f "$nemotron_spare"
  host=`cat /proc/sys/kernel/hostname 2> /dev/null`
  [ "`nemotron_oom_kills`" -le "$nemotron_oom_before" ] || oom=1
  if [ "$code" -eq 0 ] && [ -z "$nemotron_finished" ]; then
    code=1
    nemotron_reason="node $nemotron_node: `nemotron_ended_early`"
  fi
  if [ "$code" -ne 0 ] && [ -z "$nemotron_reason" ]; then
    case $nemotron_phase in
      command) ;;
      setup*) nemotron_reason="node $nemotron_node failed in its $nemotron_phase" ;;
      *) nemotron_reason="node $nemotron_node failed before its command started" ;;
    esac
  fi
  [ -z "$nemotron_reason" ] || nemotron_say "$nemotron_reason (exit code $code)"
  reason=$nemotron_reason
  if [ "$code$nemotron_received" = 0 ]; then nemotron_publish; fi
  if [ "$code" -ne 0 ]; then
    [ -n "$nemotron_reason" ] || reason="node $nemotron_node failed${nemotron_failed:+ (rank $nemotron_failed)}"
    nemotron_record "$nemotron_gates/failed.$nemotron_task" "exit_code=$code" "reason=$reason" \
      "node=${nemotron_blames:-$nemotron_node}"
  fi
  nemotron_record "$nemotron_marker" "node=$nemotron_node" "host=$host" "phase=${nemotron_phase%%:*}" \
    "exit_code=$code" "signal=$nemotron_signal" "rank=$nemotron_failed" "oom=$oom" \
    "received=${nemotron_received:-`nemotron_last_told`}" "attempt=$nemotron_restarts" "lines=$nemotron_lines" "size=$nemotron_size" "reason=$nemotron_reason" \
    "reason_code=$nemotron_reason_code" "blames=$nemotron_blames" "started=$nemotron_started" "ended=`nemotron_now`"
  [ "$nemotron_task" -ne 0 ] || [ -n "$nemotron_requeues" ] || rm -f "$nemotron_secrets"
  if [ -n "$nemotron_ends_all" ]; then
    nemotron_privately nemotron_write "$nemotron_gates/ended.$nemotron_task"
    [ "$code" -eq 0 ] || nemotron_linger
  fi
  if [ "$code$nemotron_received" = 0 ] && [ "$nemotron_nodes" -gt 1 ]; then nemotron_publish; fi
  [ -z "$nemotron_owner" ] || nemotron_give_outputs_away
  exit "$code"
}

# The signal that the job was told of last, if any.
nemotron_last_told() {
  local number=1
  while [ -f "$nemotron_gates/told.$number" ]; do number=$((number + 1)); done
  [ "$number" -eq 1 ] || cat "$nemotron_gates/told.$((number - 1))"
}

# A task that has failed waits a minute for the records and last lines of the others, which the platform would end with
# it. They see that it has failed, and end within 40 s (nemotron_watch).
nemotron_linger() {
  local task waited=0
  for ((task = 0; task < nemotron_tasks; task++)); do
    [ -e "$nemotron_gates/here.$task" ] || continue
    until [ -e "$nemotron_gates/ended.$task" ]; do
      [ "$waited" -lt 120 ] || return 0
      sleep 0.5
      waited=$((waited + 1))
      ls "$nemotron_gates" > /dev/null # a network file system looks again only when the folder is read
    done
  done
}

# Which part of the script ended it with status 0 before the command had ended.
nemotron_ended_early() {
  case $nemotron_phase in
    command) printf 'the script ended before its command' ;;
    setup:*) printf 'setup ended the script before the command (%s)' "${nemotron_phase#setup: }" ;;
    setup) printf 'setup ended the script before the command' ;;
    *) printf 'the script ended before the command' ;;
  esac
}

# Reads the secrets untraced, where they came as a file.
nemotron_read_secrets() {
  case $- in *x*) nemotron_traced=1 ;; *) nemotron_traced='' ;; esac
  { set +x; } 2> /dev/null
  # shellcheck disable=SC1090
  if [ -f "$nemotron_secrets" ]; then . "$nemotron_secrets"; fi
  if [ -n "$nemotron_traced" ]; then set -x; fi
}

# A secret that stays on the disk is worse than a job that does not start.
nemotron_remove_secrets() {
  if ! rm -f "$nemotron_secrets" && ! : > "$nemotron_secrets"; then
    nemotron_reason="the file of secrets cannot be removed: $nemotron_secrets"
    exit 1
  fi
} 2> /dev/null

# NAME: waits until every task of the job is here; stops with the one that has failed before.
nemotron_gate() {
  local task waited=0
  [ "$nemotron_tasks" -gt 1 ] || return 0
  nemotron_privately nemotron_write "$nemotron_gates/$1.$nemotron_task"
  for ((task = 0; task < nemotron_tasks; task++)); do
    until [ -e "$nemotron_gates/$1.$task" ]; do
      nemotron_heed_failures
      if [ "$waited" -ge $((2 * ${NEMOTRON_BARRIER_SECONDS:-3600})) ]; then
        nemotron_reason="task $task of $nemotron_tasks did not reach '$1' within ${NEMOTRON_BARRIER_SECONDS:-3600} s"
        exit 1
      fi
      sleep 0.5
      waited=$((waited + 1))
      ls "$nemotron_gates" > /dev/null # a network file system looks again only when the folder is read
    done
  done
}

nemotron_heed_failures() {
  local failed
  for failed in "$nemotron_gates"/failed.*[0-9]; do # not a file.PID.tmp that is being written
    if [ -f "$failed" ]; then
      nemotron_reason=`nemotron_value "$failed" reason`
      nemotron_blames=`nemotron_value "$failed" node`
      exit "`nemotron_value "$failed" exit_code`"
    fi
  done
}

# A port below the ephemeral range where nothing listens on this node.
nemotron_free_port() {
  local port tries
  for ((tries = 0; tries < 50; tries++)); do
    port=$((20000 + RANDOM % 12000))
    if ! (exec 3<> "/dev/tcp/127.0.0.1/$port") 2> /dev/null; then break; fi
  done
  printf '%s' "$port"
}

# Every task tells its address, the first one the port too, and learns those of the others.
nemotron_meet() {
  local task node seen='' address=127.0.0.1 port
  [ "$nemotron_nodes" -eq 1 ] || address=`nemotron_address`
  port=${MASTER_PORT:-`nemotron_free_port`}
  nemotron_record "$nemotron_gates/address.$nemotron_task" "node=$nemotron_node" "address=$address" "port=$port"
  nemotron_gate met
  NEMOTRON_NODE_IPS=''
  for ((task = 0; task < nemotron_tasks; task++)); do
    node=`nemotron_value "$nemotron_gates/address.$task" node`
    if [[ " $seen " != *" $node "* ]]; then
      seen="$seen $node"
      NEMOTRON_NODE_IPS+=${NEMOTRON_NODE_IPS:+$'\n'}`nemotron_value "$nemotron_gates/address.$task" address`
    fi
  done
  MASTER_ADDR=${MASTER_ADDR:-${NEMOTRON_NODE_IPS%%$'\n'*}}
  MASTER_PORT=${MASTER_PORT:-`nemotron_value "$nemotron_gates/address.0" port`}
  export NEMOTRON_NODE_IPS MASTER_ADDR MASTER_PORT
}

# In pods: how the nodes but the first are reached, comma-separated. By name where the platform has one for each.
nemotron_tell_workers() {
  local workers=''
  if [ "$nemotron_nodes" -gt 1 ]; then
    workers=${NEMOTRON_NODE_IPS#*$'\n'}
    workers=${NEMOTRON_POD_WORKERS:-${workers//$'\n'/,}}
  fi
  export WORKER_ADDRS=$workers
}

# What the job has made becomes the newest version of its artifact, where nobody but this script sees that it ended well.
# Of several nodes the last one does it, before it says that it has ended; of two that end at once, both do afterwards.
nemotron_publish() {
  local node said
  for ((node = 0; node < nemotron_nodes; node++)); do
    [ "$node" -eq "$nemotron_node" ] || grep -qsx exit_code=0 "$nemotron_status/node-$node" || return 0
  done
  said=`nemotron_register ${nemotron_versions[@]+"${nemotron_versions[@]}"}`
  [ -z "$said" ] || nemotron_say "$said"
}
