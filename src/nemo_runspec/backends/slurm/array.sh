# One task of an array whose tasks are jobs of their own: its directory, its script and its log are its own too. The
# batch script is the same for all; what of its srun names the array's directory is made to name the task's.
nemotron_array=$nemotron_job
nemotron_task=members/$SLURM_ARRAY_TASK_ID
nemotron_job=$nemotron_array/$nemotron_task
nemotron_shared=''

# WORD...: Slurm's srun; the job's own step is this task's.
srun() {
  local root word words=() traced=$-
  case ${!#} in
    */"$nemotron_script") ;;
    *)
      command srun "$@"
      return
      ;;
  esac
  { set +vx; } 2> /dev/null
  root=${!#} root=${root%"/$nemotron_script"}
  for word in "$@"; do
    case $word in
      "$root/code" | "$root/$nemotron_script") word=$root/$nemotron_task${word#"$root"} ;;
      "$nemotron_array/log-$nemotron_name"_*) word=$nemotron_job/log-${nemotron_name}_${nemotron_id}_$nemotron_restarts.out ;;
    esac
    words+=("$word")
  done
  case $traced in *x*) set -vx ;; esac
  nemotron_step "${words[@]}"
}

# The task is over: its secrets go. Where one failure ends all, it ends the tasks that are left.
nemotron_forget() {
  rm -f "$nemotron_job/secrets.env" || : > "$nemotron_job/secrets.env"
  case $nemotron_reason_code in
    'done' | cut_short | cancelled | slurm) ;;
    *) [ -z "$nemotron_ends_all" ] || nemotron_end_others ;;
  esac
}

nemotron_end_others() {
  local task tasks
  nemotron_ask --array --jobs="$SLURM_ARRAY_JOB_ID" --format=%K
  tasks=`grep -x '[0-9][0-9]*' <<< "$nemotron_answer"` || tasks=''
  for task in $tasks; do
    [ "$task" != "$SLURM_ARRAY_TASK_ID" ] || continue
    nemotron_put "$nemotron_array/members/$task/status/cancelled" \
      "the sweep, as task $SLURM_ARRAY_TASK_ID of its array has failed"
  done
  tasks=`tr ' ' '\n' <<< "$tasks" | grep -v -x "$SLURM_ARRAY_TASK_ID" | paste -s -d ,`
  [ -z "$tasks" ] || nemotron_insist scancel "${SLURM_ARRAY_JOB_ID}_[$tasks]"
}

# For whoever looks in the task's own directory; and the array's number, for whoever looks for it by name.
nemotron_link() {
  local id=${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID
  (umask 077 && mkdir -p "$nemotron_job/status")
  ln -s -f -n "../../sbatch_${nemotron_name}_$id.out" "$nemotron_job/sbatch_${nemotron_name}_$id.out"
  grep -q -x -E '[0-9]+(;[^ ]+)?' "$nemotron_array/.slurm_id" || nemotron_put "$nemotron_array/.slurm_id" "$SLURM_ARRAY_JOB_ID"
}
nemotron_link 2> /dev/null
