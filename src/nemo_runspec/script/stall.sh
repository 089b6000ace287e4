# A watchdog for commands that hang: it ends the job once neither its log nor its metrics have grown for as long as told,
# and has every process of the command say first where it is.
#
# Told by: nemotron_stall_seconds, nemotron_stall_action (stop or requeue), and the files that must grow:
# nemotron_stall_log (a pattern), nemotron_stall_metrics.
#
# The stacks are those of py-spy where the job has it: it only looks. Else ABRT makes Python write the stacks of all its
# threads and end, where it has PYTHONFAULTHANDLER (docs.python.org, faulthandler).
export PYTHONFAULTHANDLER=${PYTHONFAULTHANDLER-1}

# GROUP: of every task, beside its command; task 0 alone looks at the files. Time that the whole job was suspended for
# does not count, so neither does a pause much longer than the watchdog's own.
nemotron_stall_watch() {
  local tick=$((nemotron_stall_seconds / 10)) idle=0 seen='' now before=$SECONDS
  nemotron_be_deaf # the platform may signal every process of the job
  [ "$tick" -le 10 ] || tick=10
  [ "$tick" -ge 1 ] || tick=1
  nemotron_write "$nemotron_gates/watched.$nemotron_task"
  until [ -f "$nemotron_gates/stalled" ]; do
    sleep "$tick" > /dev/null 2>&1
    if [ "$nemotron_task" -ne 0 ]; then
      ls "$nemotron_gates" > /dev/null # a network file system looks again only when the folder is read
      continue
    fi
    now=`nemotron_stall_sizes`
    idle=$((idle + (SECONDS - before > 3 * tick ? tick : SECONDS - before)))
    before=$SECONDS
    if [ "$now" != "$seen" ] || [ -z "$now" ]; then
      seen=$now idle=0
    elif [ "$idle" -ge "$nemotron_stall_seconds" ]; then
      nemotron_stall_decide
    fi
  done
  nemotron_stall_end "$1"
}

# For all tasks: what becomes of the job, and why.
nemotron_stall_decide() {
  local reason="no progress for $nemotron_stall_seconds s (stall_timeout)" action=$nemotron_stall_action times=0
  if [ "$action" = requeue ]; then
    printf '%s\n' "$nemotron_attempt" >> "$nemotron_status/stalls"
    times=`wc -l < "$nemotron_status/stalls"`
  fi
  if [ "$times" -gt 3 ]; then reason+=', after 3 other tries' action=stop; fi
  nemotron_record "$nemotron_gates/stalled" "action=$action" "reason=$reason"
}

# The sizes of what must grow; nothing where there is no such file: then nothing can be said of the job.
nemotron_stall_sizes() {
  local file IFS='' # the pattern alone is expanded: a path may hold spaces
  # shellcheck disable=SC2086
  for file in $nemotron_stall_log "$nemotron_stall_metrics"; do
    [ ! -f "$file" ] || stat -L -c '%n %s' -- "$file"
  done 2> /dev/null
}

# GROUP: the stacks on every node at once, then the end.
nemotron_stall_end() {
  local pids
  nemotron_stall_together ready 30
  pids=`nemotron_stall_processes "$1"`
  nemotron_say "node $nemotron_node: `nemotron_value "$nemotron_gates/stalled" reason`: it is ended; its processes' stacks:"
  nemotron_stall_stacks "$1" $pids
  nemotron_stall_together stacked 30
  kill -TERM -- "-$1" 2> /dev/null
  sleep 30 > /dev/null 2>&1
  kill -KILL -- "-$1" $pids 2> /dev/null
}

# WHAT SECONDS: until every task that has a watchdog has come as far.
nemotron_stall_together() {
  local file waited=0
  nemotron_write "$nemotron_gates/$1.$nemotron_task"
  for file in "$nemotron_gates"/watched.*; do
    until [ -e "$nemotron_gates/$1.${file##*.}" ] || [ "$waited" -ge $((2 * $2)) ]; do
      sleep 0.5 > /dev/null 2>&1
      waited=$((waited + 1))
      ls "$nemotron_gates" > /dev/null
    done
  done
}

# GROUP: every process of the command, those in sessions of their own (as torchrun's ranks are) among them.
nemotron_stall_processes() {
  local stat rest pid parent group more=1 tree=" $1 " parents='' _
  for stat in /proc/[0-9]*/stat; do
    { IFS= read -r rest < "$stat"; } 2> /dev/null || continue
    pid=${rest%% *} rest=${rest##*) }
    read -r _ parent group _ <<< "$rest"
    parents+="$pid $parent"$'\n'
    [ "$group" != "$1" ] || [ "$pid" = "$1" ] || tree+="$pid "
  done
  while [ "$more" -eq 1 ]; do
    more=0
    while read -r pid parent; do
      if [[ $tree != *" $pid "* && $tree == *" $parent "* ]]; then tree+="$pid " more=1; fi
    done <<< "${parents%$'\n'}"
  done
  printf '%s\n' "$tree"
}

# GROUP PID...: the stacks of those that are the user's Python, all taken at the same time.
nemotron_stall_stacks() {
  local pid draft=$nemotron_gates/stacks.$nemotron_task asked=() left=()
  shift
  for pid in "$@"; do
    ! nemotron_stall_is_python "$pid" || asked+=("$pid")
  done
  for pid in "${asked[@]}"; do
    nemotron_stall_look "$pid" > "$draft.$pid" 2> /dev/null &
  done
  wait
  for pid in "${asked[@]}"; do
    if [ -s "$draft.$pid" ]; then cat "$draft.$pid" >&2; else left+=("$pid"); fi
    rm -f "$draft.$pid"
  done
  nemotron_stall_abort "${left[@]}"
}

# PID...: at once, as the first to end makes torchrun end the others; and without a file of all their memory, which may
# take longer than all else.
nemotron_stall_abort() {
  local pid
  [ $# -gt 0 ] || return 0
  for pid in "$@"; do prlimit --pid "$pid" --core=0 > /dev/null 2>&1; done
  kill -ABRT "$@" 2> /dev/null
  sleep 3 > /dev/null 2>&1
}

# PID: what py-spy sees, behind the rank of whose process it is, as in the rest of the log; nothing where it fails.
nemotron_stall_look() {
  local said rank
  type -P py-spy > /dev/null || return
  said=`timeout -k 1 15 py-spy dump --pid "$1" < /dev/null` || return
  rank=`tr '\0' '\n' < "/proc/$1/environ" | sed -n 's/^RANK=//p'`
  said=${said//$'\n'/$'\n'"[rank${rank:-0}] "}
  printf '%s\n' "[rank${rank:-0}] $said"
}

# PID: not torchrun itself, nor what puts the rank before the lines of the log.
nemotron_stall_is_python() {
  local words
  case `readlink "/proc/$1/exe" 2> /dev/null` in */python*) ;; *) return 1 ;; esac
  { words=`tr '\0' ' ' < "/proc/$1/cmdline"`; } 2> /dev/null || return 1
  case ${words#* } in '-I -S -c '* | '-m torch.distributed.run '*) return 1 ;; esac
}

# Ends the script as a timeout does (man timeout). `verdict` is for the platform's side of the job.
nemotron_stall_finish() {
  local action
  nemotron_reason=`nemotron_value "$nemotron_gates/stalled" reason`
  action=`nemotron_value "$nemotron_gates/stalled" action`
  nemotron_reason_code=stall
  [ "$nemotron_task" -ne 0 ] || nemotron_record "$nemotron_gates/verdict" "$action $nemotron_reason"
  exit 124
}
