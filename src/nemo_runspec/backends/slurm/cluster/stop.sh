# Reads lines of ID, CLUSTER, DIRECTORY, a word for others, the name of the Slurm it is in, and the job's own name there;
# `hard` and `by` are set.
# Answers with what was done for each id.
here=$(slurm_name)
while IFS=$'\037' read -r id cluster folder _ slurm name; do
  if ! is_job "$id"; then section "$id;$cluster" 1 "no job id: $id"; continue; fi
  ! is_elsewhere "$id;$cluster" "$slurm" || continue
  where=()
  [ -z "$cluster" ] || where=(--clusters="$cluster")
  hear timeout "$seconds" squeue "${where[@]}" --noheader --array --states=all --jobs="$id" --format=$'%F\037%T\037%j' < /dev/null
  code=$?
  if [ "$code" -ne 0 ] && [[ $said$errors != *'Invalid job id specified'* ]]; then
    section "$id;$cluster" "$code" "$said" "$errors"
    continue
  fi
  alive=
  running=yes
  while IFS=$'\037' read -r number state called; do
    [[ $number == "${id%%_*}" ]] || continue # something else was said
    ! is_another "$id;$cluster" "$name" "$called" || continue 2
    [[ ! $state =~ ^($unsettled)$ ]] || alive=yes
    [[ $state == RUNNING || ! $state =~ ^($unsettled)$ ]] || running=
  done <<< "$said"
  if [ "$code" -ne 0 ] || [ -z "$alive" ]; then section "$id;$cluster" 0 over; continue; fi
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
