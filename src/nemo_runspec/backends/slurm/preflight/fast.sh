# What can be seen of a submission before anything is sent: the programs, the options, the mounts, the image.
section tools 0
printf 'sbatch\037%s\n' "$(type -P sbatch)"
if type -P sbatch > /dev/null; then
  test_it "draft;${drafts[0]}" "${drafts[1]}" || { show_partitions; show_nodes; show_accounts; }
else
  ask login bash -lc 'type -P sbatch'
fi
for ((number = 0; number < ${#sources[@]}; number++)); do ask_path "mount;$number" "${sources[number]}"; done
[ -z "$image_path$registry" ] || ! type -P srun > /dev/null || ask_pyxis
[ -z "$image_path" ] || ask_path image "$image_path"
