# The health check as the batch script does it: asks every node of the allocation, in the job's own environment, before
# the command; names the bad ones, has Slurm stay away from them, and puts the job back into the queue.
#
# Seen with Slurm 22.05, as root and as a plain user: ExcNodeList of a running job cannot be changed ("Job is no longer
# pending execution"). It can once the job is put back and held, by the very batch script that Slurm is ending then:
# there is KillWait (30 s by default) before it is killed, and some 20 ms are needed.

# WORD...: of the job's own step, see batch.py.
nemotron_health() {
  local started=$SECONDS
  ! nemotron_is_told_to_end || return 1
  nemotron_health_nodes=(`nemotron_health_names "$SLURM_JOB_NODELIST"`)
  nemotron_health_folder=$nemotron_job/status/health-$SLURM_JOB_ID-$nemotron_restarts
  declare -gA nemotron_health_at=() nemotron_health_bad=() nemotron_health_done=() nemotron_health_has=()
  declare -gA nemotron_health_reduce=() nemotron_health_votes=() nemotron_health_words=()
  nemotron_health_common=''
  nemotron_health_read_step "$@"
  rm -rf "$nemotron_health_folder"
  if nemotron_put "$nemotron_health_folder/begun" "$nemotron_id"; then
    nemotron_health_ask
    nemotron_health_judge
  else
    nemotron_health_blame "${nemotron_health_nodes[0]}" "the job's directory cannot be written: $nemotron_job"
  fi
  rm -rf "$nemotron_health_folder"
  [ "${#nemotron_health_bad[@]}" -eq 0 ] || nemotron_look
  # Where Slurm has ended the check, it is no node's fault that it did not answer.
  if nemotron_is_told_to_end || nemotron_is_ending; then return 1; fi
  if [ "${#nemotron_health_bad[@]}" -gt 0 ]; then nemotron_health_leave; else
    nemotron_health_tell "${#nemotron_health_nodes[@]} node(s) are fine, after $((SECONDS - started)) s"
  fi
}

# LIST: the names of nodes, such as those of `n[1-4]`, one on each line. What is said beside them is none.
nemotron_health_names() { scontrol show hostnames "$1" | grep -x '[A-Za-z0-9][A-Za-z0-9._-]*'; }

# LINE: for whoever follows the batch script's log, and for whoever follows the tasks'.
nemotron_health_tell() {
  nemotron_note "health check: $1"
  printf 'nemotron: health check: %s\n' "$1" >> "$nemotron_health_output"
}

# WORD...: the check's step has the options of the job's own, its container above all, but what they do with the output.
nemotron_health_read_step() {
  nemotron_health_srun=() nemotron_health_output=/dev/null
  nemotron_health_inside=${!#}
  nemotron_health_inside=${nemotron_health_inside%"/$nemotron_script"}
  while [ $# -gt 2 ]; do
    case $1 in
      --output)
        nemotron_health_output=${2//%j/$SLURM_JOB_ID}
        shift
        ;;
      --chdir) shift ;;
      --output=* | --error=* | --label | --wait=* | --kill-on-bad-exit=*) ;;
      *) nemotron_health_srun+=("$1") ;;
    esac
    shift
  done
}

# Runs the nodes' part as a step, until all have answered or their time is up.
nemotron_health_ask() {
  local answers step line part code until=$((SECONDS + 1800)) hurry=0 nodes=${#nemotron_health_nodes[@]}
  local patience=${NEMOTRON_HEALTH_SECONDS:-$nemotron_health_seconds}
  exec {answers}< <(nemotron_health_step "$nodes" "$((patience / 3))" 2> "$nemotron_health_folder/said")
  step=$!
  while [ "$SECONDS" -lt "$until" ] && [ "${#nemotron_health_done[@]}" -lt "$nodes" ]; do
    code=0
    IFS= read -r -t 1 -u "$answers" part || code=$?
    line+=$part
    if [ "$code" -le 128 ]; then # above it, there was nothing for a second
      nemotron_health_hear "$line"
      line=''
      [ "$code" -eq 0 ] || break # the step has ended
    fi
    nemotron_health_hurry
  done
  nemotron_health_end "$step"
  exec {answers}<&-
}

# A container may take long to start: the time runs from when the first node has begun. Once one is found to be bad, the
# others have a moment left to say that they are too.
nemotron_health_hurry() {
  if [ "$hurry" -eq 0 ] && [ "${#nemotron_health_at[@]}" -gt 0 ]; then
    until=$((SECONDS + patience)) hurry=1
  elif [ "$hurry" -eq 1 ]; then
    [ "${#nemotron_health_bad[@]}" -gt 0 ] || grep -q 'Exited with exit code' "$nemotron_health_folder/said" || return 0
    until=$((SECONDS + patience / 12)) hurry=2
  fi
}

# NODES SECONDS: becomes srun. The nodes read nothing of the check from the job's directory: it may be what is wrong.
nemotron_health_step() {
  unset SLURM_UNBUFFEREDIO # lines are to arrive whole
  exec srun "${nemotron_health_srun[@]}" --nodes="$1" --ntasks="$1" --ntasks-per-node=1 --wait=0 --kill-on-bad-exit=0 \
    --input=none bash -c "`cat "$nemotron_job/health.sh"`" nemotron-health "`cat "$nemotron_job/health.py"`" \
    "$nemotron_health_inside/status/${nemotron_health_folder##*/}" "$1" "$2"
}

# PID: a step that hangs is told twice, then it is left: the job's own end takes it away.
nemotron_health_end() {
  local tries
  for tries in TERM TERM KILL; do
    for _ in {1..10}; do
      kill -0 "$1" 2> /dev/null || return 0
      [ "${#nemotron_health_done[@]}" -eq "${#nemotron_health_nodes[@]}" ] || break
      sleep 0.2
    done
    kill -s "$tries" "$1" 2> /dev/null
    sleep 1
  done
}

# LINE: one of a node's, see node.sh; any other is passed on.
nemotron_health_hear() {
  local mark node word text
  IFS=$'\t' read -r mark node word text <<< "$1"
  if [ "$mark" != nemotron-health ]; then
    [ -z "$1" ] || printf '%s\n' "$1"
    return
  fi
  case $word in
    begun)
      nemotron_health_at[$node]='the first thing'
      nemotron_health_clock "$node" "$text"
      ;;
    at) nemotron_health_at[$node]=$text ;;
    bad) nemotron_health_blame "$node" "$text" ;;
    reduce) nemotron_health_reduce[$node]+="${nemotron_health_reduce[$node]:+; }$text" ;;
    accuse) nemotron_health_vote "$node" "${nemotron_health_nodes[${text%% *}]}" "${text#* }" ;;
    unasked) nemotron_note "health check: $node: not asked for: $text" ;;
    done) nemotron_health_done[$node]=1 ;;
    *) nemotron_health_has[$word,$node]=$text ;;
  esac
}

# NODE TEXT
nemotron_health_blame() { nemotron_health_bad[$1]+="${nemotron_health_bad[$1]:+; }$2"; }

# NODE TIME: its clock against the one here, in whole seconds; a line is here within a moment.
nemotron_health_clock() {
  local off=$(($2 - `date +%s`))
  [ "${off#-}" -le "${NEMOTRON_HEALTH_CLOCK:-60}" ] || nemotron_health_blame "$1" "its clock is off by $off s"
}

# WITNESS ACCUSED TEXT: a connection that fails counts against both of its ends, a little more against the one that was
# to answer.
nemotron_health_vote() {
  nemotron_health_votes[$1]=$((${nemotron_health_votes[$1]:-0} + 2))
  nemotron_health_votes[$2]=$((${nemotron_health_votes[$2]:-0} + 3))
  nemotron_health_words[$2]="$3 (says $1)"
}

# In this order: what a node says of itself; who has not answered; who lacks what others have; who is not reached; and
# whose sum is wrong. Each is asked only while none is found: a node that is bad makes others look bad.
nemotron_health_judge() {
  local judge
  for judge in nemotron_health_silent nemotron_health_lacking nemotron_health_alone nemotron_health_sums; do
    [ "${#nemotron_health_bad[@]}" -eq 0 ] || return 0
    "$judge"
  done
}

nemotron_health_silent() {
  local node
  if [ "${#nemotron_health_at[@]}" -eq 0 ]; then
    cat "$nemotron_health_folder/said" >&2
    nemotron_health_common='it could not be started on any node'
  fi
  for node in "${nemotron_health_nodes[@]}"; do
    [ -n "${nemotron_health_at[$node]-}" ] ||
      nemotron_health_blame "$node" "the check could not be started`nemotron_health_said_of "$node"`"
  done
  [ "${#nemotron_health_bad[@]}" -eq 0 ] || return 0 # who has begun may still wait for those
  for node in "${nemotron_health_nodes[@]}"; do
    [ -n "${nemotron_health_done[$node]-}" ] ||
      nemotron_health_blame "$node" "no answer while it was asked for: ${nemotron_health_at[$node]}"
  done
}

# NODE: what Slurm said of it: the line that most likely names the cause.
nemotron_health_said_of() {
  local lines line
  lines=`grep -w -e "$1" "$nemotron_health_folder/said" | grep -v -E 'Exited with|Terminated|CANCELLED|Killed'`
  line=`grep -i -E '\[ERROR\]|no such|not found|denied|timed out|unable|cannot|could not' <<< "$lines" | head -n 1`
  [ -n "$line" ] || line=${lines%%$'\n'*}
  [ -z "$line" ] || printf ' (%s)' "$line"
}

nemotron_health_lacking() {
  local what node best
  for what in python torch gpus network; do
    best=''
    for node in "${nemotron_health_nodes[@]}"; do best=${best:-${nemotron_health_has[$what,$node]-}}; done
    [ -n "$best" ] || continue
    for node in "${nemotron_health_nodes[@]}"; do
      [ -n "${nemotron_health_has[$what,$node]-}" ] || nemotron_health_blame "$node" "`nemotron_health_lack "$what"`"
    done
  done
}

nemotron_health_lack() {
  case $1 in
    gpus) echo 'there is no nvidia-smi, and on other nodes there is' ;;
    network) echo 'the check of the network fails, and on other nodes it does not' ;;
    torch) echo 'torch cannot be imported, and on other nodes it can' ;;
    *) echo "there is no $1, and on other nodes there is" ;;
  esac
}

nemotron_health_alone() {
  local node most=0
  for node in "${!nemotron_health_votes[@]}"; do
    [ "${nemotron_health_votes[$node]}" -le "$most" ] || most=${nemotron_health_votes[$node]}
  done
  [ "$most" -gt 0 ] || return 0
  for node in "${!nemotron_health_votes[@]}"; do
    [ "${nemotron_health_votes[$node]}" -eq "$most" ] || continue
    if [ -n "${nemotron_health_reduce[$node]-}" ]; then
      nemotron_health_blame "$node" "no all-reduce with it: ${nemotron_health_reduce[$node]}"
    else
      nemotron_health_blame "$node" "${nemotron_health_words[$node]:-reaches no other node}"
    fi
  done
}

nemotron_health_sums() {
  local node
  for node in "${!nemotron_health_reduce[@]}"; do
    nemotron_health_blame "$node" "all-reduce: ${nemotron_health_reduce[$node]}"
  done
}

# There are bad nodes: the job goes back into the queue without them, or fails. What is so on all of several nodes, or on
# all but the one this script runs on, is no node's fault.
nemotron_health_leave() {
  local node tries left all=${#nemotron_health_nodes[@]} file=$nemotron_job/status/bad-nodes
  for node in "${!nemotron_health_bad[@]}"; do nemotron_health_tell "bad node $node: ${nemotron_health_bad[$node]}"; done
  if [ "$all" -gt 2 ] && [ "${#nemotron_health_bad[@]}" -ge $((all - 1)) ]; then
    nemotron_health_common=${nemotron_health_common:-it is so on ${#nemotron_health_bad[@]} of $all nodes}
  fi
  if [ "$all" -gt 1 ] && [ -n "$nemotron_health_common" ]; then
    nemotron_health_fail "$nemotron_health_common"
    return 1
  fi
  for node in "${!nemotron_health_bad[@]}"; do
    printf '%s\t%s\t%s\n' "$node" "$nemotron_restarts" "${nemotron_health_bad[$node]}"
  done >> "$file"
  tries=`cut -f 2 "$file" | sort -u | wc -l`
  left=`nemotron_health_others`
  if [ "$tries" -gt 3 ]; then
    nemotron_health_fail 'given up after 3 other tries'
  elif [ "$left" -lt "$all" ]; then
    nemotron_health_fail "its partition has $left node(s) without the bad ones, and $all are needed"
  else
    nemotron_health_list=`nemotron_health_excluded | paste -s -d ,`
    nemotron_health_tell "the job goes back into the queue without $nemotron_health_list ($tries of at most 3 times)"
    nemotron_verdict requeue "health check: without $nemotron_health_list"
  fi
  return 1
}

# All nodes the job is to stay away from: those of the profile and of earlier tries, and the bad ones of now.
nemotron_health_excluded() {
  local before
  before=`scontrol show job "$nemotron_id" | sed -n 's/.*ExcNodeList=\([^ ]*\).*/\1/p' | sed 's/^(null)$//'`
  { [ -z "$before" ] || nemotron_health_names "$before"; printf '%s\n' "${!nemotron_health_bad[@]}"; } | sort -u
}

# How many nodes of the job's partition are left.
nemotron_health_others() {
  comm -23 <(sinfo --noheader --Node --partition="$SLURM_JOB_PARTITION" --format=%N | sort -u) <(nemotron_health_excluded) | wc -l
}

# Puts the job back, without the bad nodes. The file says which, should this script be killed before it is through.
nemotron_health_requeue() {
  local held=$nemotron_job/status/held
  nemotron_put "$held" "$nemotron_health_list" || return
  if ! nemotron_insist scontrol requeuehold "$nemotron_id"; then
    rm -f "$held"
    return 1
  fi
  nemotron_insist scontrol update "JobId=$nemotron_id" "ExcNodeList=$nemotron_health_list"
  nemotron_insist scontrol release "$nemotron_id" && rm -f "$held"
}

# WHY: an exit marker for each bad node, as the job script would have left it.
nemotron_health_fail() {
  local number node now
  now=`date +%s`
  nemotron_health_tell "the job fails: $1"
  for number in "${!nemotron_health_nodes[@]}"; do
    node=${nemotron_health_nodes[$number]}
    [ -n "${nemotron_health_bad[$node]-}" ] || continue
    nemotron_put "$nemotron_job/status/node-$number" "`nemotron_record "$number" "$node" 1 "$nemotron_restarts" \
      "health check: bad node $node: ${nemotron_health_bad[$node]} ($1)" health "$now"`"
  done
  nemotron_verdict stop "health check: $1"
}

# Instead of the plain one, for a job that is put back because of bad nodes.
nemotron_requeue() {
  if [ -n "$nemotron_health_list" ]; then nemotron_health_requeue; else nemotron_insist scontrol requeue "$nemotron_id"; fi
}

nemotron_health_list=''
nemotron_before+=(nemotron_health)
