# Reads lines of ID, CLUSTER and DIRECTORY. Answers: what squeue says of all; what sacct says of those that squeue does
# not show as alive; what those have left in their directories. Associative arrays need keys: an empty one is no key.
declare -A listed=() alive=() waits=() in_array=() folders=()
asked=()
while IFS=$'\037' read -r id cluster folder; do
  listed["@$cluster"]+=,$id
  folders["$id;$cluster"]=$folder
  asked+=("$id;$cluster")
done

# CLUSTER IDS: the queue. One id is asked for by itself; of several, the controller sends this user's jobs only.
ask_queue() {
  local where=() said code me=--me id array task state partition rest
  [ -z "$1" ] || where=(--clusters="$1")
  [[ $2 == *,* ]] || me=
  said=$(timeout "$seconds" squeue "${where[@]}" --noheader --array $me --states=all --jobs="$2" --Format="$queue_fields" 2>&1 < /dev/null)
  code=$?
  section "queue;$1" "$code" "$said"
  while IFS=$'\037' read -r id array task state partition rest; do
    [[ -n $state ]] || continue # something else was said
    [[ $task == N/A ]] && array=$id || in_array["$array;$1"]=1
    [[ ! $state =~ ^($unsettled)$ ]] || alive["$array;$1"]=1 alive["${array}_$task;$1"]=1
    [[ $state != PENDING ]] || waits["$array;$1"]=$partition
  done <<< "$said"
}

# CLUSTER IDS
ask_accounts() {
  local where=() said code
  [ -z "$1" ] || where=(--clusters="$1")
  said=$(timeout "$seconds" sacct "${where[@]}" --noheader --parsable2 --delimiter=$'\037' --allocations --duplicates --jobs="$2" --format="$account_fields" 2>&1 < /dev/null)
  code=$?
  section "accounts;$1" "$code" "$said"
}

# KEY PARTITION: its place among the jobs that wait there, arrays counted once.
ask_place() {
  local said
  said=$(timeout "$seconds" squeue --noheader --states=PENDING --partition="$2" --sort=-p,i --format=%F 2> /dev/null < /dev/null)
  section "place;$1" $? "$(awk -v "id=${1%%[;_]*}" '!seen[$1]++ { n++ } $1 == id { print n; exit }' <<< "$said")"
}

# KEY DIRECTORY
show_remains() {
  local file line attempts=("$2"/status/gates-*)
  if [ ! -d "$2" ]; then section "remains;$1" 1; return; fi
  ls "$2/status" > /dev/null 2>&1 # a network file system looks again only when the folder is read
  section "remains;$1" 0
  for file in "$2"/status/node-* "$2/status/cancelled"; do
    [[ -f $file && $file != *.tmp ]] || continue
    while IFS= read -r line || [ -n "$line" ]; do printf '%s\037%s\n' "${file##*/}" "$line"; done < "$file"
  done
}

for cluster in "${!listed[@]}"; do ask_queue "${cluster#@}" "${listed[$cluster]#,}"; done
listed=()
for key in "${asked[@]}"; do
  [[ -n ${alive[$key]-} && -z ${in_array[$key]-} ]] || listed["@${key#*;}"]+=,${key%%;*}
done
for cluster in "${!listed[@]}"; do ask_accounts "${cluster#@}" "${listed[$cluster]#,}"; done
for key in "${asked[@]}"; do
  [[ -n ${alive[$key]-} || -z ${folders[$key]} ]] || show_remains "$key" "${folders[$key]}"
done
[ -z "$places" ] || for key in "${!waits[@]}"; do ask_place "$key" "${waits[$key]}"; done
