# shellcheck shell=sh
# collect.sh: where the command's output ends.

# h_collect: sets h_size_out, h_size_err and h_whole_out, h_whole_err (yes, no) and h_left (processes left, `-` unknown).
# Without anything left the drainers come to their end at once. Where something holds a stream, a sentinel marks the command's end in it.
h_collect() {
    h_size_out='' h_size_err='' h_whole_out=no h_whole_err=no h_left=-
    h_job=''
    { read -r h_job h_x; } <"$h_dir/j.$h_token" || h_job=''
    if [ -n "$h_job" ] && kill -0 -"$h_job"; then
        h_left_over
    else
        { sleep 1; h_put "late late$h_nl" >&6; } </dev/null >/dev/null 7>&- &
        h_later=$!
        h_events 2
        [ -n "$h_size_out" ] && [ -n "$h_size_err" ] && kill "$h_later" || h_left_over
    fi
}

# h_events N: waits for N words of the drainers, or for `late`.
h_events() {
    h_n=$1
    while [ "$h_n" -gt 0 ] && read -r h_x h_y <&6; do
        h_n=$((h_n - 1))
        [ "$h_x" != late ] || return 0
        h_size "$h_dir/$h_x"
        eval "h_size_$h_x=\$h_val"
        [ "$h_y" != whole ] || eval "h_whole_$h_x=yes"
    done
}

# h_left_over: something of the command lives on. It is noted, not waited for.
h_left_over() {
    h_scan=
    h_carried "$h_id"
    h_x=$h_scan h_left=0
    while :; do
        case $h_x in
            *"${h_nl}HARNESS_EXECUTION_ID=$h_id$h_nl"*) h_left=$((h_left + 1)) h_x=$h_nl${h_x#*"${h_nl}HARNESS_EXECUTION_ID=$h_id$h_nl"} ;;
            *) break ;;
        esac
    done
    [ -n "$h_size_out" ] || h_sentinel out o
    [ -n "$h_size_err" ] || h_sentinel err e
}

# h_sentinel NAME LETTER: the command's output ends where the sentinel stands in the file. It is looked for behind what was there before it was
# written, for a second; not found: the size as seen, not complete.
h_sentinel() {
    h_mark="@$h_token end of $1@"
    h_size "$h_dir/$1"
    h_base=$h_val
    { h_put "$h_mark" 1<>"$h_dir/$2.$h_token"; } </dev/null 6>&- 7>&- &
    h_tries=20
    while [ "$h_tries" -gt 0 ]; do
        h_seek "$h_dir/$1" && return 0
        h_tries=$((h_tries - 1))
        h_short
    done
    h_size "$h_dir/$1"
    eval "h_size_$1=\$h_val"
}

# h_seek FILE: looks for h_mark behind h_base. Bytes that a variable cannot hold are turned into dots; one byte stays one byte.
h_seek() {
    h_x=$(
        {
            h_skip 3 "$h_base"
            head -c 300000 <&3
        } 3<"$1" | tr -c '@a-z0-9 ' '[.*]'
    )
    case $h_x in *"$h_mark"*) ;; *) return 1 ;; esac
    h_x=${h_x%%"$h_mark"*}
    eval "h_size_${1##*/}=\$((h_base + \${#h_x})) h_whole_${1##*/}=yes"
}

# h_skip FD BYTES: sets the file offset of a descriptor without reading what lies before.
h_skip() {
    [ "$2" -gt 0 ] || return 0
    dd bs=65536 count=0 iflag=skip_bytes skip="$2" <&"$1" 2>/dev/null
    h_offset "$1"
    [ "$h_pos" = "$2" ] || [ "$h_pos" = - ] || dd bs="$2" count=0 skip=1 <&"$1" 2>/dev/null
}

