# Reads lines of ARRAY, CLUSTER, DIRECTORY, task numbers, the name of the Slurm it is in, and the array's own name
# there; `hard` and `by` are set. Answers with what was done for each.
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

here=$(slurm_name)
while IFS=$'\037' read -r id cluster folder wanted slurm name; do
  if ! is_job "$id"; then section "$id" 1 "no job id: $id"; continue; fi
  ! is_elsewhere "$id" "$slurm" || continue
  where=()
  [ -z "$cluster" ] || where=(--clusters="$cluster")
  hear timeout "$seconds" squeue "${where[@]}" --noheader --array --states=all --jobs="$id" --format=$'%F\037%K\037%T\037%j' < /dev/null
  code=$?
  if [ "$code" -ne 0 ]; then
    [[ $said$errors != *'Invalid job id specified'* ]] && section "$id" "$code" "$said" "$errors" || section "$id" 0 over
    continue
  fi
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
    # As for a job by itself: see stop.sh.
    timeout "$seconds" scontrol "${where[@]}" update "JobId=$which" Requeue=0 > /dev/null 2>&1 < /dev/null
    cancel --batch --signal=TERM "$which"
  fi
  section "$id" "$code" '' "$words"
done
