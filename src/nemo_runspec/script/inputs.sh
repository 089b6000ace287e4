# Inputs that a plan names as the newest version of an artifact: which one that is, is found out once, when the job starts,
# and this one is read from then on, whatever becomes the newest meanwhile; also when the job is started again.

# CONFIG NAME LATEST...: the first task notes each version, and names it in the configuration in the place of `latest`.
nemotron_find_inputs() {
  local config=$1 name latest version file
  shift
  while [ $# -gt 0 ]; do
    name=$1 latest=$2 file=$nemotron_status/input-$1
    shift 2
    [ ! -e "$file" ] || continue
    version=`readlink -- "$latest"` || continue # no link: nothing in the store was ever registered there
    case $version in */* | '' | *[!A-Za-z0-9._-]*) continue ;; esac
    version=${latest%/*}/$version
    nemotron_rename_in "$config" "$latest" "$version" || continue
    nemotron_record "$file" "name=$name" "path=$version"
  done
}

# FILE PATH OTHER: whole paths, and those below it. The names are such that sed takes them as they are, but for dots.
nemotron_rename_in() {
  [ -f "$1" ] || return 0
  nemotron_privately sed -e "s|${2//./\\.}\\([^A-Za-z0-9._-]\\)|$3\\1|g" -e "s|${2//./\\.}\$|$3|" "$1" > "$1.$$.tmp" &&
    nemotron_hand_over "$1.$$.tmp" && mv -f "$1.$$.tmp" "$1"
}

# VARIABLE NAME LATEST...: the same in a variable.
nemotron_name_inputs() {
  local variable=$1 value=${!1} version
  shift
  while [ $# -gt 0 ]; do
    if [ -f "$nemotron_status/input-$1" ]; then
      version=`nemotron_value "$nemotron_status/input-$1" path`
      [ "$value" != "$2" ] || value=$version
      value=${value//"$2/"/"$version/"}
    fi
    shift 2
  done
  printf -v "$variable" %s "$value"
}
