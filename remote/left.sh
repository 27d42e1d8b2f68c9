# shellcheck shell=sh
#@ all more
# left.sh: where a command's output ends that left something over which holds a stream.
#
# A sentinel is written behind the command's last byte and looked for in the file: what is left over is noted, not waited for.

# h_later SECONDS: one `late`, where the ticker says it no longer.
h_later() {
    ! h_living "$h_ticker" || kill "$h_ticker"
    h_x=$1
    [ "$h_sleepm" = part ] || h_x=1
    {
        exec </dev/null >/dev/null 7>&-
        sleep "$h_x"
        h_put "late -$h_nl" >&6
    } &
    h_ticker=$!
}

# h_mend: drainers that are gone before the streams were closed were killed; what is in the FIFOs is still there.
h_mend() {
    h_living "$h_drainer_out" || { h_killed="$h_killed out"; h_drain out 3 part; }
    h_living "$h_drainer_err" || { h_killed="$h_killed err"; h_drain err 4 part; }
}

# h_look_after NAME PID: a drainer that is gone has said its word before, unless it was killed; so we say `gone` behind it.
h_look_after() {
    eval "[ -n \"\$h_size_$1\" ]" || h_living "$2" || h_put "gone $1$h_nl" >&6
}

# h_gone NAME LETTER: its word has not come, so it was killed.
h_gone() {
    eval "[ -z \"\$h_size_$1\" ]" || return 0
    h_killed="$h_killed $1"
    h_redrain "$1" "$2"
}

# h_nobody: both drainers and the ticker are dead. What has not come to its end is drained anew; where that cannot be: the size as seen.
h_nobody() {
    h_gone out o && h_gone err e && return 0
    h_size_now out; h_size_out=${h_size_out:-$h_val}
    h_size_now err; h_size_err=${h_size_err:-$h_val}
}

# h_redrain NAME LETTER: another drainer in the place of one that was killed.
h_redrain() {
    [ -p "$h_dir/$2.$h_token" ] || return 1
    exec 3<>"$h_dir/$2.$h_token"
    h_drain "$1" 3 part
    exec 3>&-
}

# h_last_reader: the copying child of a drainer that was killed may read on, and so may one that was put in its place before us. Returns when
# neither has our stdin as his.
h_last_reader() {
    h_stat self
    while h_read_by; do h_short; done
}

h_read_by() {
    set +f
    for h_x in /proc/[0-9]*; do
        [ "$h_x/fd/0" -ef /proc/self/fd/0 ] && [ "${h_x#/proc/}" -lt "$h_pid" ] || continue
        set -f
        return 0
    done
    set -f
    return 1
}

# h_look: are the sentinels in the files? Where nothing moves any more without one: the size as seen, not complete.
h_look() {
    h_seen=$h_quiet_size h_quiet_size=
    [ -n "$h_size_out" ] || h_seek out || h_waited out
    [ -n "$h_size_err" ] || h_seek err || h_waited err
    [ "$h_seen" = "$h_quiet_size" ] || [ "$h_looks" -gt 200 ] || h_first=$h_looks
    [ $((h_looks - h_first)) -lt 20 ] || h_give_up
}

h_waited() {
    h_size_now "$1"
    h_quiet_size="$h_quiet_size $1 $h_val"
}

h_give_up() {
    # shellcheck disable=SC2086 # pairs of a name and a size
    set -- $h_quiet_size
    while [ $# -gt 1 ]; do
        eval "h_size_$1=\$2"
        shift 2
    done
}

# h_mark_all: counts what is left over, and writes the sentinels. Before that, whoever copies to the channel is told to copy no further.
h_mark_all() {
    h_looks=0 h_first=0 h_quiet_size='' h_scan=''
    # shellcheck disable=SC2034 # read by name in h_seek
    h_base_out='' h_base_err=''
    h_count "$h_id"
    h_left=$h_val
    true >"$h_dir/h.$h_token" || return 0
    [ -n "$h_size_out" ] || h_mark out o
    [ -n "$h_size_err" ] || h_mark err e
}

# h_mark NAME LETTER: in a process of its own, for a full pipe that nobody drains would hold us.
h_mark() {
    h_size_now "$1"
    eval "h_base_$1=\$h_val"
    {
        exec </dev/null >/dev/null 6>&- 7>&-
        h_put "@$h_token end of $1@" 1<>"$h_dir/$2.$h_token"
    } &
}

# h_seek NAME: looks for the sentinel behind the size at which it was written, on and on while there is more.
h_seek() {
    eval "h_base=\$h_base_$1"
    [ -n "$h_base" ] || return 1
    h_seek_piece "$1"
    while [ "$h_val" = more ]; do
        h_base=$((h_base + 299900))
        h_seek_piece "$1"
    done
    [ "$h_val" = found ] || return 1
    eval "h_size_$1=\$((h_base + \${#h_found})) h_whole_$1=yes"
}

# h_seek_piece NAME: h_val is `found`, with what stands before the sentinel in h_found, `more` where the piece is full, or `none`. Bytes that a
# variable cannot hold are turned into dots, one for one.
h_seek_piece() {
    h_found=$({ h_skip 3 "$h_base"; head -c 300000 <&3; } 3<"$h_dir/$1" | tr -c '@a-z0-9 ' '[.*]')
    h_val=none
    [ "${#h_found}" -lt 300000 ] || h_val='more'
    case $h_found in
        *"@$h_token end of $1@"*)
            h_found=${h_found%%"@$h_token end of $1@"*}
            h_val=found
            ;;
    esac
}

# h_skip FD BYTES: sets the file offset of a descriptor (3 or above) without reading what lies before.
h_skip() {
    [ "$2" -gt 0 ] || return 0
    dd bs=65536 count=0 iflag=skip_bytes skip="$2" <&"$1" 2>/dev/null
    h_offset "$1"
    [ "$h_pos" = "$2" ] || [ "$h_pos" = - ] || dd bs=$(($2 - h_pos)) count=0 skip=1 <&"$1" 2>/dev/null
}
