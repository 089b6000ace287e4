# What root has made in a container for somebody who is not root becomes theirs: everything since the start, in the job
# directory, in NEMO_RUN_DIR, and beside its versions of artifacts. By the time of the inode's change: a copied file keeps the time of its content.
nemotron_give_outputs_away() {
  local folder folders=() began=$nemotron_status/began.$nemotron_task
  for folder in "${NEMOTRON_JOB_DIR-}" "${NEMO_RUN_DIR-}" ${nemotron_versions[@]+"${nemotron_versions[@]%/*}"}; do
    [ ! -d "$folder" ] || folders+=("$folder")
  done
  {
    if type -P find; then
      find -P "${folders[@]}" -mindepth 1 -xdev -uid 0 -cnewer "$began" -exec chown -h "$nemotron_owner" {} +
    else
      chown -RPh --from=0 "$nemotron_owner" "${NEMOTRON_JOB_DIR-}"
    fi
  } > /dev/null 2>&1 || nemotron_say "not all that root made could be given to its owner ($nemotron_owner)"
  rm -f "$began"
}
