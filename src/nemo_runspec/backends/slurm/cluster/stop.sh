# Jobs and tasks of arrays are ended, removed, let go on: functions, of which one is called.

# SECTION SLURM: answers, and succeeds, where a job was submitted to another Slurm than this one, `here`.
is_elsewhere() {
  [ -n "$2" ] && [ -n "$here" ] && [ "$2" != "$here" ] || return 1
  section "$1" 1 "this is cluster $here, and the job was submitted to $2"
}

# WORD: whether it is the id of a job or of a task of an array: nothing else is ever asked about or cancelled.
is_job() { [[ $1 =~ ^[0-9]+(_[0-9]+)?$ ]]; }

# SECTION NAME CALLED: answers, and succeeds, where the job that has this id now has another name: a cluster whose state
# was lost counts from 1 again.
is_another() {
  [ -n "$2" ] && [ -n "$3" ] && [ "$2" != "$3" ] || return 1
  section "$1" 33 "this id is that of another job now, '$3', which is left alone"
}

# KEY: what squeue says of `id`, in `said` a line of NUMBER, TASK, STATE and NAME for each task; `where` are the options
# that name its cluster. Answers, and fails, where there is nothing more to do: it is over, of another Slurm, not known.
look_at() {
  if ! is_job "$id"; then section "$1" 1 "no job id: $id"; return 1; fi
  ! is_elsewhere "$1" "$slurm" || return
  where=()
  [ -z "$cluster" ] || where=(--clusters="$cluster")
  hear timeout "$seconds" squeue "${where[@]}" --noheader --array --states=all --jobs="$id" \
    --format=$'%F\037%K\037%T\037%j' < /dev/null
  code=$?
  [ "$code" -ne 0 ] || return 0
  [[ $said$errors != *'Invalid job id specified'* ]] || code=0 said=over errors=
  section "$1" "$code" "$said" "$errors"
  return 1
}

# STATUS SAID: whether scancel refused only because the job has ended since squeue was asked. Seen with 22.05; 229 is
# 2021 (already done) in eight bits.
has_ended_since() { [[ $1 -eq 229 || $2 == *'Invalid job id specified'* || $2 == *'already completing'* ]]; }

# FOLDER: leaves in a job's folder who wants it to stop. With that its batch shell does not have it requeued.
leave_wish() {
  local file=$1/status/cancelled
  [ -d "$1" ] && [ ! -e "$file" ] || return 0
  (
    umask 077
    mkdir -p "$1/status"
    # Whole, or where the disk is full without a name.
    { printf '%s\n' "$by" > "$file.$$" && mv -f "$file.$$" "$file"; } || { rm -f "$file.$$"; : > "$file"; }
  ) 2> /dev/null
}

# Reads lines of ID, CLUSTER, DIRECTORY, a word for others, the name of the Slurm it is in, and the job's own name there;
# `hard` and `by` are set.
# Answers with what was done for each id.
stop_jobs() {
  here=$(slurm_name)
  while IFS=$'\037' read -r id cluster folder _ slurm name; do
    look_at "$id;$cluster" || continue
    alive=
    running=yes
    while IFS=$'\037' read -r number _ state called; do
      [[ $number == "${id%%_*}" ]] || continue # something else was said
      ! is_another "$id;$cluster" "$name" "$called" || continue 2
      [[ ! $state =~ ^($unsettled)$ ]] || alive=yes
      [[ $state == RUNNING || ! $state =~ ^($unsettled)$ ]] || running=
    done <<< "$said"
    if [ -z "$alive" ]; then section "$id;$cluster" 0 over; continue; fi
    leave_wish "$folder"
    begun=("$folder"/status/gates-*)
    signal=() done=ended
    if [ -z "$hard" ] && [ -n "$running" ] && [ "${#begun[@]}" -gt 0 ]; then
      signal=(--batch --signal=TERM) done=asked
      # On a full disk there is no wish to be read: without this, a command that ends with a failure would be tried again.
      timeout "$seconds" scontrol "${where[@]}" update "JobId=$id" Requeue=0 > /dev/null 2>&1 < /dev/null
    fi
    hear timeout "$seconds" scancel "${where[@]}" "${signal[@]}" "$id" < /dev/null
    code=$?
    ! has_ended_since "$code" "$errors" || code=0
    section "$id;$cluster" "$code" "${said:-$done}" "$errors"
  done
}

# NUMBER...: as scancel and scontrol take them.
listed() { local IFS=,; echo "[$*]"; }

# WORD...: scancel. Seen with 22.05: while tasks of the array wait, a signal to one that runs is sent and yet answered by
# "Job can not be altered now, try again later"; scancel tries again after 5 s, and a task may have ended meanwhile.
cancel() {
  local said errors status
  hear timeout 60 scancel "${where[@]}" "$@" < /dev/null
  status=$?
  [ "$status" -ne 0 ] || return 0
  has_ended_since "$status" "$errors" || code=$status
  words+=${words:+$'\n'}${errors:-$said}
}

# Reads lines of ARRAY, CLUSTER, DIRECTORY, task numbers, the name of the Slurm it is in, and the array's own name
# there; `hard` and `by` are set. Answers with what was done for each.
stop_tasks() {
  here=$(slurm_name)
  while IFS=$'\037' read -r id cluster folder wanted slurm name; do
    look_at "$id" || continue
    unset state
    declare -A state=()
    while IFS=$'\037' read -r number task word called; do
      [[ $number != "$id" ]] || ! is_another "$id" "$name" "$called" || continue 2
      [[ $number == "$id" && $task =~ ^[0-9]+$ && $word =~ ^($unsettled)$ ]] && state[$task]=$word # else something else was said
    done <<< "$said"
    at_once=() asked=() left=${#state[@]}
    for task in $wanted; do
      [ -n "${state[$task]-}" ] || continue
      left=$((left - 1))
      leave_wish "$folder/members/$task"
      begun=("$folder/members/$task"/status/gates-*)
      if [ -n "$hard" ] || [ "${state[$task]}" != RUNNING ] || [ "${#begun[@]}" -eq 0 ]; then
        at_once+=("$task")
      else
        asked+=("$task")
      fi
    done
    words='' code=0
    if [ "${#at_once[@]}" -gt 0 ]; then
      which=${id}_$(listed "${at_once[@]}")
      [ "$left" -gt 0 ] || [ "${#asked[@]}" -gt 0 ] || which=$id
      cancel "$which"
    fi
    if [ "${#asked[@]}" -gt 0 ]; then
      which=${id}_$(listed "${asked[@]}")
      # As for a job by itself: see stop_jobs.
      timeout "$seconds" scontrol "${where[@]}" update "JobId=$which" Requeue=0 > /dev/null 2>&1 < /dev/null
      cancel --batch --signal=TERM "$which"
    fi
    section "$id" "$code" '' "$words"
  done
}

# Reads lines of DIRECTORY of an array and a task's number: removes what is the task's, with the last task all.
remove_tasks() {
  while IFS=$'\037' read -r folder task; do
    case $folder in *..* | [!/]*) continue ;; */jobs/*) ;; *) continue ;; esac
    rm -rf -- "$folder/members/$task" || exit
    rmdir -- "$folder/members" 2> /dev/null && { rm -rf -- "$folder" || exit; }
  done
  exit 0
}

# A job that its health check has left held goes on without the nodes that the file `held` names.
release_held() {
  [ -s "$held" ] || exit 0
  nodes=$(cat "$held")
  said=$(timeout 20 squeue --noheader --states=all --jobs="$id" --format=$'%F\037%T\037%r') || exit 1
  state=$(sed -n "s/^${id%%_*}\x1f//p" <<< "$said" | tail -n 1)
  case $state in
    PENDING$'\037'JobHeldUser)
      timeout 20 scontrol update "JobId=$id" "ExcNodeList=$nodes" && timeout 20 scontrol release "$id" || exit 1
      ;;
    '' | COMPLETING*) exit 0 ;;
  esac
  rm -f "$held"
  section excluded 0 "$nodes"
}
