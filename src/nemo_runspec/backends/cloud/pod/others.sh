# What node 0 does because there are others: a PyTorchJob ends with its master, and outputs are whole only once all nodes
# have made theirs. Every node shows that it lives: its file alive.N is touched again and again. At its end the file
# becomes over.N.CODE; a rename needs no room on a full disk. Clocks of machines are not compared.

nemotron_pod_live() {
  nemotron_pod_lost=${NEMOTRON_LOST_SECONDS:-300} nemotron_pod_beat='' nemotron_pod_missing=' '
  nemotron_pod_alive=$nemotron_pod_gates/alive.$nemotron_pod_index
  [ "$nemotron_pod_count" -gt 1 ] || return 0
  rm -f "$nemotron_pod_gates/over.$nemotron_pod_index".*
  set -m
  {
    trap '' TERM INT HUP
    : > "$nemotron_pod_alive"
    while kill -0 $$; do
      touch -c "$nemotron_pod_alive"
      sleep $((nemotron_pod_lost / 30 + 1))
    done
  } > /dev/null 2>&1 < /dev/null &
  nemotron_pod_beat=$!
  set +m
  disown "$nemotron_pod_beat"
}

# CODE: nothing of this node runs any more, and all has been said.
nemotron_pod_over() {
  [ -n "$nemotron_pod_beat" ] || return 0
  kill -KILL -- "-$nemotron_pod_beat"
  mv -f "$nemotron_pod_alive" "$nemotron_pod_gates/over.$nemotron_pod_index.$1" ||
    : > "$nemotron_pod_gates/over.$nemotron_pod_index.$1"
} 2> /dev/null

# command|end CODE: node 0, which ends with CODE so far, waits until all others have ended their commands, or altogether.
# Its status is CODE, else that of the first of them that has failed. After its own failure it waits only for the sake of
# outputs: the others' commands are ended within 40 s then (nemotron_watch), and their outputs may be copied yet.
# Told to stop it waits for no command any more, but for uploads as for its own, as long as the platform lets it.
nemotron_pod_others() {
  local node code=$2 limit=''
  [ "$nemotron_pod_index" -eq 0 ] && [ "$nemotron_pod_count" -gt 1 ] || return "$code"
  [ "$code" -eq 0 ] || [ -n "$nemotron_pod_copies" ] || return "$code"
  for ((node = 1; node < nemotron_pod_count; node++)); do
    if [[ $nemotron_pod_missing != *" $node "* ]]; then nemotron_pod_heed "$1"; fi
  done
  return "$code"
}

# command|end: waits for one of them, `node`; sets `code` and `limit` of nemotron_pod_others.
nemotron_pod_heed() {
  [ "$code" -eq 0 ] || [ "$1" = end ] || limit=${limit:-$((SECONDS + 120))}
  nemotron_pod_await "nemotron_pod_$1" "$node" "$limit"
  if [ "$code" -eq 0 ] && [ "$nemotron_pod_other" != 0 ]; then
    nemotron_pod_follow "$node"
    code=$nemotron_pod_other
  fi
}

# NODE: why this node fails with that one; all others may know, which would wait for it.
nemotron_pod_follow() {
  nemotron_pod_reason="node $1 failed: exit code $nemotron_pod_other" nemotron_pod_blames=$1
  if [ -n "$nemotron_pod_other" ]; then return 0; fi
  if [ -n "$nemotron_pod_told" ]; then
    nemotron_pod_other=143
    nemotron_pod_reason="the job was told to stop (SIG$nemotron_pod_told) before node $1 had ended" nemotron_pod_blames=''
    return 0
  fi
  nemotron_pod_other=1 nemotron_pod_reason="node $1 failed: it has shown no sign of life for $nemotron_pod_lost s"
  nemotron_pod_say "$nemotron_pod_reason"
  nemotron_pod_tell_failure 1 "$nemotron_pod_reason"
}

# QUESTION NODE LIMIT: asks until there is an answer, which is an exit code. None: this node was told to stop while the
# other's command runs, the other has shown no sign of life for long, or it is later than LIMIT (as SECONDS counts; ''
# for no such limit). Such a node is not asked again.
nemotron_pod_await() {
  local seen='' now since=$SECONDS alive=$nemotron_pod_gates/alive.$2
  while :; do
    ls "$nemotron_pod_status" "$nemotron_pod_gates" > /dev/null 2>&1 # a network file system looks again
    nemotron_pod_other=`"$1" "$2"`
    [ -z "$nemotron_pod_other" ] || return 0
    now=`{ : < "$alive" && stat -c %Y "$alive"; } 2> /dev/null` # reading it makes a network file system look at it
    if [ "$now" != "$seen" ]; then seen=$now since=$SECONDS; fi
    if { [ "$1" = nemotron_pod_command ] && [ -n "$nemotron_pod_told" ]; } ||
      [ $((SECONDS - since)) -ge "$nemotron_pod_lost" ] || { [ -n "$3" ] && [ "$SECONDS" -ge "$3" ]; }; then
      nemotron_pod_missing+="$2 "
      return 0
    fi
    sleep 0.5
  done
}

# NODE: the exit code of its command, or of what failed before it; nothing as long as it runs.
nemotron_pod_command() {
  local marker=$nemotron_pod_status/node-$1 failed=$nemotron_pod_gates/failed.$1
  if [ -f "$marker" ] && [ "`nemotron_value "$marker" attempt`" = "$nemotron_pod_attempt" ] && nemotron_pod_began "$1"
  then
    nemotron_value "$marker" exit_code
  elif [ -f "$failed" ]; then
    nemotron_value "$failed" exit_code
  else
    nemotron_pod_end "$1"
  fi
} 2> /dev/null

# NODE: whether it has begun in this life of the job; until then its marker is of another one.
nemotron_pod_began() {
  [ "$nemotron_pod_life" -le 1 ] || [ -e "$nemotron_pod_gates/alive.$1" ] || [ -n "`nemotron_pod_end "$1"`" ]
}

# NODE: the exit code of its pod, which has copied its outputs too.
nemotron_pod_end() {
  local file
  for file in "$nemotron_pod_gates/over.$1."*[0-9]; do
    [ ! -e "$file" ] || printf '%s' "${file##*.}"
  done
}
