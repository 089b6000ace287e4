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
