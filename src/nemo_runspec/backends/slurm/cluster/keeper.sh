# PARENT PAUSE ROUNDS: stays on the login node while a job below that folder has a file of secrets, and removes the files of
# jobs that Slurm has no more: a job that is cancelled while it waits never runs a line that could. One for each folder.
# A job is over where Slurm answers twice without it, ROUNDS times PAUSE seconds apart. One that was never submitted has a day.
parent=$1 pause=$2 rounds=$3 round=0
cd / || exit
exec 9< "$parent" || exit
flock -n 9 2> /dev/null
case $? in
  0) last='' ;;
  1) exit ;; # another one is here
  *) last=1440 ;; # a file system without locks: not for ever then
esac
declare -A absent=()
shopt -s nullglob

# Its ids in the queue; fails where Slurm does not answer.
queue() { timeout 60 squeue --me --noheader --format='|%F|%j|' 2> /dev/null < /dev/null; }

# FOLDER FILE: whether the job of this folder is still in the queue, or may come into it.
is_wanted() {
  local id=
  read -r id 2> /dev/null < "$1/.slurm_id"
  id=${id%%;*}
  case $id in
    '' | *[!0-9]*) [[ $queue == *"${1##*/}|"* ]] || [ -z "`find "$2" -mmin +1440 2> /dev/null`" ] ;;
    *) [[ $queue == *"|$id|"* ]] ;;
  esac
}

while [ -d "$parent" ]; do
  files=("$parent"/*/secrets.env "$parent"/*/members/*/secrets.env)
  [ "${#files[@]}" -gt 0 ] || exit 0
  [ -z "$last" ] || [ "$round" -lt "$last" ] || exit 0
  if [ $((round % rounds)) -eq 0 ] && queue=`queue`; then
    for file in "${files[@]}"; do
      folder=${file%/secrets.env} folder=${folder%/members/*}
      if is_wanted "$folder" "$file"; then
        unset "absent[$file]"
      elif [ "${absent[$file]-}" ]; then
        rm -f -- "$file" || : > "$file"
      else
        absent[$file]=yes
      fi
    done
  fi
  sleep "$pause"
  round=$((round + 1))
done
