# Reads lines of ID, CLUSTER, DIRECTORY, a word for others, and the name of the Slurm it is in; `hard` and `by` are set.
# Answers with what was done for each id.
here=$(slurm_name)
while IFS=$'\037' read -r id cluster folder _ slurm; do
  if [ -n "$slurm" ] && [ -n "$here" ] && [ "$slurm" != "$here" ]; then
    section "$id;$cluster" 1 "this is cluster $here, and the job was submitted to $slurm"
    continue
  fi
  where=()
  [ -z "$cluster" ] || where=(--clusters="$cluster")
  states=$(timeout "$seconds" squeue "${where[@]}" --noheader --array --states=all --jobs="$id" --format=%T 2>&1 < /dev/null)
  code=$?
  if [ "$code" -ne 0 ] && [[ $states != *'Invalid job id specified'* ]]; then
    section "$id;$cluster" "$code" "$states"
    continue
  fi
  alive=
  running=yes
  for state in $states; do
    [[ ! $state =~ ^($unsettled)$ ]] || alive=yes
    [[ $state == RUNNING || ! $state =~ ^($unsettled)$ ]] || running=
  done
  if [ "$code" -ne 0 ] || [ -z "$alive" ]; then section "$id;$cluster" 0 over; continue; fi
  if [ -n "$folder" ] && [ -d "$folder" ] && [ ! -e "$folder/status/cancelled" ]; then
    (umask 077; mkdir -p "$folder/status"; printf '%s\n' "$by" > "$folder/status/cancelled") 2> /dev/null
  fi
  begun=("$folder"/status/gates-*)
  if [ -n "$hard" ] || [ -z "$running" ] || [ "${#begun[@]}" -eq 0 ]; then
    said=$(timeout "$seconds" scancel "${where[@]}" "$id" 2>&1 < /dev/null)
    section "$id;$cluster" $? "${said:-ended}"
    continue
  fi
  # Without this, the batch script would have a job requeued whose command ended with a failure, and `retries` are left.
  timeout "$seconds" scontrol "${where[@]}" update "JobId=$id" Requeue=0 > /dev/null 2>&1 < /dev/null
  said=$(timeout "$seconds" scancel "${where[@]}" --batch --signal=TERM "$id" 2>&1 < /dev/null)
  section "$id;$cluster" $? "${said:-asked}"
done
