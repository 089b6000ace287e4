# Which Slurm this is, in small letters; nothing where that is not known.
slurm_name() {
  local file name= found='s/^[[:space:]]*ClusterName[[:space:]]*=[[:space:]]*"*\([^[:space:]"#]*\).*/\1/Ip'
  for file in "${SLURM_CONF:-/etc/slurm/slurm.conf}" /run/slurm/conf/slurm.conf; do
    [ -n "$name" ] || name=$(sed -n "$found" "$file" 2> /dev/null | tail -n 1)
  done
  # The file may include others or be on another machine: then the controller is asked.
  [ -n "$name" ] || name=$(timeout 10 scontrol show config 2> /dev/null < /dev/null | sed -n "$found")
  printf '%s' "${name,,}"
}
