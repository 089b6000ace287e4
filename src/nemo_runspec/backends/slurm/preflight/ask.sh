# Looks at everything a job needs here, once.
me=$(id -un)
section host 0
printf '%s\037%s\037%s\037%s\037%s\n' "$me" "$HOSTNAME" "$HOME" "${BASH_VERSINFO[0]}.${BASH_VERSINFO[1]}" "$(date +%s)"
section tools 0
for tool in "${tools[@]}"; do printf '%s\037%s\n' "$tool" "$(type -P "$tool")"; done

ask_slurm() {
  local said errors number
  ask version sbatch --version || return # as with a SLURM_CONF that names no file: so it is with all of them
  ask_pyxis
  hear timeout "$seconds" scontrol ping < /dev/null
  section controller $? "$said" "$errors"
  [[ $said != *DOWN* || $said == *UP* ]] || return
  said=$(timeout "$seconds" scontrol show config 2> /dev/null < /dev/null | sed -n 's/^\(AccountingStorage[A-Za-z]*\) *= /\1\o37/p')
  section config 0 "$said"
  show_partitions || return
  show_nodes
  for ((number = 0; number < ${#drafts[@]}; number += 3)); do
    test_it "draft;${drafts[number]}" "${drafts[number + 1]}"
    [ -z "${drafts[number + 2]}" ] || test_it "unbilled;${drafts[number]}" "${drafts[number + 2]}"
  done
  show_accounts || return # slurmdbd hangs: neither will it answer the others
  # Each takes some 0.2 s.
  [ -z "$qos" ] || ask qos sacctmgr --noheader --parsable2 show qos format=name
  [ -n "$account" ] || ask default sacctmgr --noheader --parsable2 show user "$me" format=defaultaccount
  ask sacct sacct --noheader --parsable2 --allocations --starttime=now-1hours --format=JobID
}

if type -P sbatch > /dev/null; then
  ask_slurm
else
  ask login bash -lc 'type -P sbatch'
fi

ask_registry() {
  local said errors status realm service token
  # Its input is a configuration of curl's: nothing that lets us in stands in a command line.
  manifest() {
    timeout "$seconds" curl --silent --show-error --head --config - --header "Accept: $accept" "$registry"
  }
  let_in() { printf 'header = "Authorization: Bearer %s"\n' "$token" | manifest; }
  status_of() { sed -n 's/^HTTP\/[0-9.]* \([0-9]*\).*/\1/p' <<< "$1" | tail -n 1; }
  word_of() { sed -n 's/^[Ww][Ww][Ww]-[Aa]uthenticate: *Bearer.*'"$1"'="\([^"]*\)".*/\1/p' <<< "$said"; }
  hear manifest < /dev/null
  status=$(status_of "$said")
  if [ "$status" = 401 ]; then
    realm=$(word_of realm) service=$(word_of service)
    token=$([ -z "$realm" ] || timeout "$seconds" curl --silent --get --data-urlencode "service=$service" \
      --data-urlencode "scope=$scope" "$realm" 2> /dev/null | sed -n 's/.*"\(access_\)\{0,1\}token": *"\([^"]*\)".*/\2/p')
    if [ -n "$token" ]; then
      hear let_in
      status=$(status_of "$said")
    fi
  fi
  section image 0 "$status" "$errors"
}

nearest=$folder
while [ -n "$nearest" ] && [ ! -e "$nearest" ]; do nearest=${nearest%/*}; done
nearest=${nearest:-/}
ask folder bash -c '
  cd "$1" && probe=$(mktemp .nemotron-doctor.XXXXXX) && echo nemotron > "$probe"
  code=$?
  rm -f "$probe"
  exit $code
' _ "$nearest"
kind=$(timeout "$seconds" stat --file-system --format=%T -- "$nearest" 2> /dev/null)
section place 0
printf '%s\037%s\037%s\n' "$folder" "$nearest" "$kind"
ask room df -P -k -- "$nearest"
ask inodes df -P -i -- "$nearest"
if [ "$kind" = lustre ] && type -P lfs > /dev/null; then
  ask quota lfs quota -u "$me" "$nearest"
elif type -P quota > /dev/null; then
  ask quota quota -w
fi
for ((number = 0; number < ${#sources[@]}; number++)); do ask_path "mount;$number" "${sources[number]}"; done
if [ -n "$image_path" ]; then
  ask_path image "$image_path"
elif [ -n "$registry" ] && type -P curl > /dev/null; then
  ask_registry
fi
section end 0
printf '%s\037\n' "$(date +%s)"
