# shellcheck shell=sh
#@ all super
# collect.sh: where the command's output ends. Without anything left of the command its drainers come to their end at once and say so; the other
# ways are in left.sh.

# h_collect: sets h_size_out, h_size_err, h_whole_out, h_whole_err (yes, no) and h_left (processes left over, `-` where none was looked for).
# Words on our own FIFO: of the drainers, of the ticker (`late`, `oom`, `new`), and our own `now`, `gone`: what was late before `now` does not count.
h_collect() {
    h_size_out='' h_size_err='' h_whole_out=no h_whole_err=no h_left=- h_looks=-3 h_job='' h_before=yes h_ended_late=no h_oom0=-
    h_put "now -$h_nl" >&6
    # the ticker is late only in the first two seconds
    [ $((${h_up1%.*} - ${h_up0%.*})) -lt 1 ] && h_living "$h_ticker" || { h_more && h_ended_late=yes && h_later 0.05; }
    { read -r h_job h_x; } <"$h_dir/j.$h_token" || h_job=''
    [ -z "$h_job" ] || ! kill -0 -"$h_job" || { h_more && h_mark_all; }
    # while we read we cannot be who writes: reading ends where everybody is dead who could say a word
    exec 4<"/proc/self/fd/6"
    while [ -z "$h_size_out" ] || [ -z "$h_size_err" ]; do
        exec 6>&-
        read -r h_x h_y <&4 || h_x=nobody
        exec 6<>"/proc/self/fd/4"
        case $h_x in
            now) h_before=no ;;
            late) [ "$h_before" = yes ] || h_late ;;
            out | err) h_drained "$h_x" "$h_y" ;;
            oom) h_oom0=${h_y%% *} h_oom_path=${h_y#* } ;;
            new) h_killed="$h_killed ${h_y% *}"; eval "h_drainer_${h_y% *}=\${h_y#* } h_size_${h_y% *}=" ;;
            nobody) h_more && h_nobody || break ;;
            gone) h_gone "$h_y" "${h_y%"${h_y#?}"}" ;;
        esac
    done
    exec 4<&-
    for h_x in $h_killed; do eval "h_whole_$h_x=no"; done
    ! h_living "$h_ticker" || kill "$h_ticker"
}

# h_late: the drainers are not at their end yet.
h_late() {
    h_more || return 0
    h_looks=$((h_looks + 1))
    h_look_after out "$h_drainer_out"
    h_look_after err "$h_drainer_err"
    if [ "$h_looks" -eq 0 ]; then
        h_mark_all
    elif [ "$h_looks" -gt 0 ]; then
        h_look
    fi
    [ "$h_looks" -lt 0 ] && [ "$h_ended_late" = no ] || h_later 0.05
}

# h_drained NAME whole|part: the stream's last writer is gone.
h_drained() {
    # a sentinel may have got through, too
    if [ "$h_looks" -ge 0 ] && h_seek "$1"; then return 0; fi
    h_size_now "$1" && [ "$2" = whole ] && eval "h_whole_$1=yes"
    eval "h_size_$1=\$h_val"
}

# h_size_now NAME: h_val is the size of that output; 0, and 1 is returned, where it cannot be told: what is not counted is not whole.
h_size_now() {
    h_size "$h_dir/$1"
    [ "$h_val" != - ] || { h_val=0; return 1; }
}
