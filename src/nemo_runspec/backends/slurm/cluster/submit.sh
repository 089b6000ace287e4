# One submission of one job, alone. Answers with `found` (its id, it was there), `absent` (it is not, and `only_look` is
# set), `made` (sbatch's answer), `busy` (nothing was done, and why), `dropped` (of several by its name, the later ones),
# and what exists where it is refused.

# What a login shell has set for sbatch and srun would win over the script's own lines, or reach the job's tasks: all of
# it goes, but what names the cluster, and what the script leaves open.
for variable in ${!SBATCH_@} ${!SLURM_@} ${!SRUN_@}; do
  case $variable in
    SLURM_CONF | SLURM_CONF_SERVER | SLURM_CLUSTERS | SLURM_JWT | SLURM_TIME_FORMAT | SBATCH_CLUSTERS) ;;
    SBATCH_ACCOUNT | SBATCH_PARTITION | SBATCH_QOS | SBATCH_CONSTRAINT | SBATCH_RESERVATION | SBATCH_WCKEY)
      option=${variable#SBATCH_}
      ! grep -q -i -- "^#SBATCH --$option\b" "$script" 2> /dev/null || unset "$variable"
      ;;
    *) unset "$variable" ;;
  esac
done
unset $hidden

# Its ids by its name; fails where Slurm does not answer. The file is ours; a job that has begun has left its gates.
# What sbatch refuses may be listed nevertheless, as FAILED with the reason BadConstraints and no node: that is no job.
find_it() {
  local said gate
  if [ -s "$job/.slurm_id" ]; then cat "$job/.slurm_id"; return 0; fi
  said=$(timeout "$seconds" squeue --me --noheader --states=all --name="$name" --format='%F %r' 2>&1 < /dev/null 9>&-) || {
    section busy 1 "$said"
    return 1
  }
  said=$(sed -n '/ BadConstraints$/d; s/ .*//p' <<< "$said")
  if [ -z "$said" ]; then
    for gate in "$job"/status/gates-*; do said=${gate##*/gates-} said=${said%%-*}; break; done
  fi
  [ -n "$said" ] || said=$(timeout "$seconds" sacct --name="$name" --starttime=now-7days --allocations --noheader --parsable2 --format=JobID,State,NodeList 2> /dev/null < /dev/null 9>&- | sed '/|FAILED|None assigned$/d; s/|.*//')
  [ -z "$said" ] || printf '%s\n' "$said" | sed 's/_.*//' | sort -n -u
}

keep_id() { printf '%s\n' "$1" > "$job/.slurm_id.$$" && mv -f "$job/.slurm_id.$$" "$job/.slurm_id"; }

# Several by its name, as after an answer that was lost: the first one stays.
settle() {
  local first=$1
  shift
  [ $# -eq 0 ] || section dropped 0 "$(timeout "$seconds" scancel "$@" 2>&1 < /dev/null; echo "$*")"
  keep_id "$first"
  section found 0 "$first"
}

say_what_exists() {
  section partitions 0 "$(timeout "$seconds" sinfo --noheader --summarize --format="%R$field%l$field%D$field%G$field%a" 2>&1 < /dev/null)"
  section accounts 0 "$(timeout "$seconds" sacctmgr --noheader --parsable2 show associations user="$(id -un)" format=account,partition,qos < /dev/null 2> /dev/null | tr '|' "$field")"
}

# Where another holds the lock, nothing can be known; where the file system has none, the jobs are counted afterwards.
lock() {
  type -P flock > /dev/null && { exec 9>> "$job/.submit"; } 2> /dev/null || return 0
  flock -w 60 9
  [ $? -ne 1 ] || { section busy 1 'another process submits this job'; return 1; }
}

# A controller that answers again may still have in hand what an sbatch that was not heard of has sent.
find_it_twice() {
  ids=$(find_it) || { printf '%s\n' "$ids"; return 1; }
  [ -z "$ids" ] || return 0
  [ "$grace" -gt 0 ] || [ -s "$job/.submit" ] || return 0
  sleep "$pause"
  ids=$(find_it) || { printf '%s\n' "$ids"; return 1; }
}

if ! cd "$job" 2> /dev/null && [ -z "$only_look" ]; then
  section made 1 "the job's directory is gone: $job"
  exit 0
fi
lock && find_it_twice || exit 0
if [ -n "$ids" ]; then settle $ids; exit 0; fi
if [ -n "$only_look" ]; then section absent 0; exit 0; fi

# The lock goes with sbatch: it holds while sbatch lives, even where this script was killed. Who comes next reads in the
# lock's file that a submission was begun; one that was refused is none.
{ echo begun >> .submit; } 2> /dev/null
said=$(timeout 90 "${command[@]}" 2>&1 < /dev/null)
code=$?
section made "$code" "$said"
[ "$code" -ne 0 ] || keep_id "$(grep -E -x '[0-9]+(;[^ ]+)?' <<< "$said" | tail -n 1)"
if [ "$code" -eq 0 ] && [ "$grace" -gt 0 ]; then
  mv -f .slurm_id .slurm_id.made
  ids=$(find_it) && settle $ids || mv -f .slurm_id.made .slurm_id
  rm -f .slurm_id.made
fi
