set +e
shopt -u failglob; shopt -s nullglob
export LC_ALL=C SLURM_TIME_FORMAT=%s
unset CDPATH GREP_OPTIONS ${!SQUEUE_@} ${!SACCT_@} ${!SCANCEL_@} ${!SINFO_@}
# NAME CODE [TEXT [ERRORS]]: ERRORS is what came on an error stream.
section() {
  local line=$'\n'
  printf '\036%s\037%s\n' "$1" "$2"
  [ -z "${3-}" ] || printf '%s\n' "$3"
  [ -z "${4-}" ] || printf '\035%s\n' "${4//$line/$line$'\035'}"
}
# COMMAND...: leaves in `said` what it writes, and in `errors` what it writes to its error stream; ends as it does. What
# comes there, from it or from what it leaves running, is never part of an answer, nor in the middle of one.
hear() {
  local both head
  both=$(
    exec 3>&1
    said=$("$@" 2>&3 3>&-)
    printf '\035%s %s\n%s\035' "$?" "${#said}" "$said"
  )
  errors=${both%%$'\035'*} both=${both#*$'\035'}
  head=${both%%$'\n'*} both=${both#*$'\n'}
  said=${both:0:${head#* }} errors+=${both:${head#* }+1}
  return "${head% *}"
}
