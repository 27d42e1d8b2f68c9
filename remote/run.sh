# shellcheck shell=sh
#@ all front
# run.sh: the channel's side of `run`. It reads nothing from the channel: the supervisor does, in a session of its own, and tells us over
# a pipe what to say. We hold nothing that the command needs: when the channel goes, only we go.
#
# Lines on the pipe: `hi` (its text is whole), `in TOKEN PID DIR` (the request was read), `sync TICKS` (the gate is ours, not yet on disk), `won` (it is
# on disk, the command starts), `say TRAILER` (nothing runs), `rec RECORD` (what finish will say), `end` (it is on disk), `t` (time to look for output).

h_run() {
    # what this shell says about a supervisor that was killed must not come behind the trailer
    exec 9>&2 2>/dev/null
    {
        h_locale
        exec setsid sh "$h_bin/$h_sha.super" "$h_store" "$h_sha" supervise "$h_nonce" 9>&-
    } | h_front
}

# h_front: says what the supervisor told.
h_front() {
    exec 5<&0 3</dev/null 4</dev/null
    h_front_dir='' h_hello=no h_begun=no h_ticks=0 h_limit=0 h_rest=0 h_idle=0
    while IFS= read -r h_l <&5; do
        case $h_l in
            t) h_front_tick || return ;;
            hi) h_hello=yes ;;
            "in "*) h_front_in "${h_l#in }" ;;
            "sync "*) h_limit=${h_l#sync } ;;
            won) h_begin started; exec 3<"$h_front_dir/out" 4<"$h_front_dir/err" ;;
            "say "*) h_trail "${h_l#say }"; return ;;
            "rec "*) h_told=${h_l#rec 1 } ;;
            end) h_front_end "$h_told"; return ;;
        esac
    done
    h_front_alone
}

# h_front_in "TOKEN PID DIR"
h_front_in() {
    h_token=${1%% *} h_x=${1#* }
    h_super=${h_x%% *} h_front_dir=${h_x#* }
}

# h_begin WORD: the begin frame, on both streams.
h_begin() {
    h_put "$h_nl@$h_nonce begin $1$h_nl"
    h_put "$h_nl@$h_nonce begin $1$h_nl" >&9
    h_begun=yes
}

# h_trail TRAILER: the last line on stderr; with a frame before it where none was sent.
h_trail() {
    [ "$h_begun" = yes ] || h_begin answer
    h_put "$h_nl@$h_nonce $1 end$h_nl" >&9
}

# h_front_tick: looks for new output, the more seldom the longer it was quiet; 1 ends us.
h_front_tick() {
    if [ "$h_begun" = no ]; then
        h_ticks=$((h_ticks + 1))
        [ "$h_ticks" -lt "$h_limit" ] || h_front_hang
        return
    fi
    h_rest=$((h_rest - 1))
    [ "$h_rest" -lt 0 ] || return 0
    h_copy || return 1
    if [ "$h_moved" -gt 0 ]; then h_idle=0; else h_idle=$((h_idle + 1)); fi
    h_rest=$((h_idle / 20))
    [ "$h_rest" -le 3 ] || h_rest=3
}

# h_front_end RECORD: everything up to the recorded sizes, then the record as the trailer.
h_front_end() {
    h_moved=0
    h_field "$1" out
    h_copy_to 3 "$h_val" || return 1
    h_field "$1" err
    h_copy_to 4 "$h_val" >&9 || return 1
    h_trail "${1% end}"
}

# h_front_hang: thirty seconds and the marker is not on disk. Whoever takes `go` decides: with it in our hand nothing can run any more. The
# supervisor is ended, for the channel would wait for it.
h_front_hang() {
    h_write "$h_front_dir/u.$h_token" "1 go by=front token=$h_token end"
    ln "$h_front_dir/u.$h_token" "$h_front_dir/go" 2>/dev/null
    rm -f "$h_front_dir/u.$h_token"
    h_record "$h_front_dir/go" go
    if [ "$h_rec" = "1 go by=front token=$h_token end" ]; then
        h_trail "not-started reason=sync"
        [ ! "/proc/$h_super/fd/7" -ef "$h_front_dir/a.$h_token" ] || kill -KILL "$h_super"
    else
        h_front_alone
    fi
    return 1
}

# h_front_alone: the pipe has ended without a verdict, so the supervisor and all that it forked before the command are gone.
h_front_alone() {
    if [ "$h_hello" = no ]; then
        # its text is not whole: nothing was done, and the wrapper has to be installed
        h_put "$h_nl@$h_nonce missing$h_nl"
        return
    fi
    if [ -z "$h_front_dir" ]; then
        h_trail "refused reason=internal"
        return
    fi
    h_record "$h_front_dir/start" start
    case $h_rec in
        *" token=$h_token "*) ;;
        *) h_trail "refused reason=internal"; return ;;
    esac
    h_put "$h_token $h_begun $h_front_dir$h_nl" |
        sh "$h_bin/$h_sha" "$h_store" "$h_sha" alone "$h_nonce" 3<&3 4<&4 9>&9
}
