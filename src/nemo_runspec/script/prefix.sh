# RANK: puts "[rankN] " before every line, and gives it on at once. A carriage return ends a line too, so that progress
# bars are seen. The loop is for jobs that have no Python, and reads what one that could not start or died has left.
nemotron_prefix() {
  local tag="[rank$1] "
  { set +x; } 2> /dev/null
  nemotron_be_deaf
  if type -P python3 > /dev/null; then
    NEMOTRON_GIVEN=$nemotron_given python3 -I -S -c "$nemotron_prefix_program" "$tag" $nemotron_hidden 2> /dev/null
  elif type -P python > /dev/null; then
    NEMOTRON_GIVEN=$nemotron_given python -I -S -c "$nemotron_prefix_program" "$tag" $nemotron_hidden 2> /dev/null
  fi
  nemotron_prefix_slowly "$tag"
}

# LINE: of nemotron_prefix_slowly, whose lines and bytes it counts. What the log has no room for is given on too.
nemotron_give() {
  lines=$((lines + 1)) size=$((size + ${#1} + 1))
  printf '%s\n' "$1" 2> /dev/null || :
}

# LINES BYTES: adds to what was given on; the file was made when there was room for it, and is written to in place.
nemotron_note_given() {
  local lines=0 size=0 rest
  { read -r lines size rest < "$nemotron_given" && cat <<< "$((lines + $1)) $((size + $2)) " 1<> "$nemotron_given"; } \
    2> /dev/null || :
}

# TAG: some 2 MB/s. Every line is one write, so that the lines of several ranks do not mix.
nemotron_prefix_slowly() {
  local LC_ALL=C tag=$1 chunk='' held='' line='' end='' status=0 name part secrets=() lines=0 size=0
  for name in $nemotron_hidden; do
    nemotron_is_weak "${!name-}" || nemotron_forms "${!name-}"
  done
  while [ "$status" -eq 0 ] || [ "$status" -gt 128 ]; do
    status=0
    IFS= read -r -N 4096 -t 0.2 chunk || status=$?
    if [[ $end == $'\r' && -n $line && -z $held && $chunk == $'\n'* ]]; then
      chunk=${chunk:1}
      end=''
    fi
    chunk=${chunk//$'\r\n'/$'\n'}
    while [[ $chunk == *[$'\r\n']* ]]; do
      line=${chunk%%[$'\r\n']*}
      end=${chunk:${#line}:1}
      chunk=${chunk:${#line}+1}
      line=$held$line
      held=''
      for part in "${secrets[@]}"; do line=${line//"$part"/******}; done
      [[ -z $line && $end == $'\r' ]] || nemotron_give "$tag$line"
    done
    held+=$chunk
  done
  for part in "${secrets[@]}"; do held=${held//"$part"/******}; done
  [ -z "$held" ] || nemotron_give "$tag$held"
  [ "$lines" -eq 0 ] || nemotron_note_given "$lines" "$size"
}

# VALUE: true where it cannot be told from ordinary text, as forms.py decides it.
nemotron_is_weak() {
  local plain=${1,,} rest=''
  plain=${plain#"${plain%%[![:space:]]*}"}
  plain=${plain%"${plain##*[![:space:]]}"}
  rest=${plain//"${plain:0:1}"/}
  rest=${rest//"${rest:0:1}"/}
  [ "${#plain}" -lt 6 ] || [ -z "$rest" ] || [[ " $nemotron_common " == *" $plain "* ]] ||
    [[ ${#plain} -lt 8 && $plain != *[!0-9]* ]]
}

# VALUE: adds to `secrets` what of forms.py can be had without Python: the lines of it, JSON, URLs, hex, and base64
# wherever it begins in what is encoded.
nemotron_forms() {
  local value=$1 LC_ALL=C digits=ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/
  local number=0 char='' code=0 form='' url='' low='' hex='' json='' bytes=() before=0 pending=0 kept=0
  while IFS= read -r form || [ -n "$form" ]; do
    [ "${#form}" -lt 6 ] || secrets+=("$form")
  done <<< "$value"
  for ((number = 0; number < ${#value}; number++)); do
    char=${value:number:1}
    printf -v code %d "'$char"
    code=$((code & 255))
    bytes+=("$code")
    printf -v form %02x "$code"
    hex+=$form
    case $char in
      [a-zA-Z0-9_.~-]) url+=$char low+=$char ;;
      *) url+=%${form^^} low+=%$form ;;
    esac
    case $char in
      [\"\\]) json+=\\$char ;;
      $'\n') json+='\n' ;;
      $'\t') json+='\t' ;;
      *) json+=$char ;;
    esac
  done
  secrets+=("$url" "$low" "$json" "$hex" "${hex^^}")
  for before in 0 1 2; do
    form='' kept=0 pending=$((before * 8))
    for code in '' "${bytes[@]}"; do
      if [ -n "$code" ]; then kept=$(((kept << 8 | code) & 0xffff)) pending=$((pending + 8)); fi
      while [ "$pending" -ge 6 ]; do
        pending=$((pending - 6))
        form+=${digits:kept >> pending & 63:1}
      done
    done
    form=${form:before + (before > 0)}
    secrets+=("$form")
    form=${form//+/-}
    secrets+=("${form//\//_}")
  done
}
