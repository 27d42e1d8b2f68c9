# shellcheck shell=sh
#@ all super
# finish.sh: the records of the end.

# h_status RAW: h_val is 0-255 with 128+n for signal n, h_signal its name where this shell proves that it was a signal.
h_status() {
    h_val=$1 h_signal=-
    if [ "$1" -ge 384 ]; then
        h_val=$(($1 - 256))
    elif [ "$1" -ge 256 ]; then
        h_val=$(($1 - 128))
    else
        return 0
    fi
    h_signal=$(kill -l $((h_val - 128)))
    h_signal=${h_signal#SIG}
    case $h_signal in '' | *[!A-Z0-9+-]*) h_signal=- ;; esac
}

# h_finish: the end, on disk. With a verify command the command's own end is made durable first.
h_finish() {
    h_verify=-
    [ -z "$h_s_verify" ] || h_verify_run
    h_status "$h_raw"
    h_final=$h_val
    h_reason_now
    h_now
    h_rec="1 finish id=$h_id store=$h_sid token=$h_token status=$h_final raw=$h_raw reason=$h_reason signal=$h_signal verify=$h_verify"
    h_rec="$h_rec out=$h_size_out err=$h_size_err out_complete=$h_whole_out err_complete=$h_whole_err oom=$h_oom survivors=$h_left"
    h_rec="$h_rec timeout_requested=$h_by_timeout cancel_requested=$h_by_cancel t0=$h_t0 t1=$h_t1 up0=$h_up0 up1=$h_up1 end"
    h_publish "$h_rec"
    h_put "end $h_rec$h_nl"
}

# h_reason_now: `timeout` or `cancel` only where the raw status is the signal that was sent; else `exit`.
h_reason_now() {
    h_reason=exit h_by_timeout=no h_by_cancel=no h_z=
    [ -e "$h_dir/y.$h_token" ] || return 0
    while read -r h_x h_y; do
        case $h_x in timeout) h_by_timeout=yes ;; cancel) h_by_cancel=yes ;; *) continue ;; esac
        case $h_final:$h_y in 143: | 137:KILL) [ -n "$h_z" ] || h_z=$h_x ;; esac
    done <"$h_dir/y.$h_token"
    [ -z "$h_z" ] || h_reason=$h_z
}

# h_publish RECORD: writes it into the room that was kept, and links it to `finish`: the first one stays. On disk when it returns.
h_publish() {
    h_put "$1$h_nl" 1<>"$h_dir/f.$h_token"
    ln "$h_dir/f.$h_token" "$h_dir/finish"
    h_sync "$h_dir/finish" "$h_dir"
}

# h_verify_run: h_verify is the status of the verify command, `-` if it was stopped.
h_verify_run() {
    h_now
    h_write "$h_dir/b.$h_token" "1 ended id=$h_id store=$h_sid token=$h_token raw=$h_raw out=$h_size_out err=$h_size_err wall=$h_wall up=$h_up end"
    ln "$h_dir/b.$h_token" "$h_dir/ended"
    h_sync "$h_dir/ended" "$h_dir"
    h_watch "${h_q_timeout:-600}" verify
    h_launch "$h_s_verify" /dev/null /dev/null /dev/null
    h_unwatch
    h_status "$h_rc"
    h_verify=$h_val
    case $h_verify in 143 | 137) ! h_asked ' verify cancel ' || h_verify=- ;; esac
}

# h_asked WORDS: whether a signal was asked for one of these reasons.
h_asked() {
    [ -e "$h_dir/y.$h_token" ] || return 1
    while read -r h_x h_y; do
        case $1 in *" $h_x "*) return 0 ;; esac
    done <"$h_dir/y.$h_token"
    return 1
}

# h_close REASON: we have the gate and will not run.
h_close() {
    h_y=$1
    if h_record "$h_dir/go" go; then
        h_field "$h_rec" by
        [ "$h_val" != front ] || h_y=sync
    elif [ "$1" = cancel ] && [ ! -e "$h_dir/go" ]; then
        h_y=space
    fi
    h_now
    h_not_started
    h_publish "$h_rec"
    # drainers wait at the FIFOs: they are let go, and find no name once we have closed them
    exec 3<>"$h_dir/o.$h_token" 4<>"$h_dir/e.$h_token"
    h_say "not-started reason=$h_y"
}

# h_not_started: h_rec is the finish of a start that was closed. There is no status; the field is 125 and counts for nothing.
h_not_started() {
    h_rec="1 finish id=$h_id store=$h_sid token=$h_token status=125 raw=- reason=not-started signal=- verify=- out=0 err=0 out_complete=yes"
    h_rec="$h_rec err_complete=yes oom=- survivors=0 timeout_requested=no cancel_requested=no t0=$h_wall t1=$h_wall up0=$h_up up1=$h_up end"
}

# h_leave: what nobody waits for: files of the dispatch go away, the digests are made.
h_leave() {
    {
        exec </dev/null >/dev/null 6>&- 7>&-
        h_sweep
        h_digests
    } &
    exit 0
}

h_digests() {
    h_digest out "$h_size_out"
    h_z=$h_val
    h_digest err "$h_size_err"
    h_write "$h_dir/digest" "1 digest id=$h_id token=$h_token out=$h_z err=$h_val end"
}

h_digest() {
    h_val=e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855
    [ "$2" -gt 0 ] || return 0
    h_size "$h_dir/$1"
    if [ "$h_val" -eq "$2" ]; then
        h_sha "$h_dir/$1"
    else
        h_val=$(head -c "$2" <"$h_dir/$1" | sha256sum)
        h_val=${h_val%% *}
        [ "${#h_val}" -eq 64 ] || h_val=-
    fi
}

# h_sha FILE: h_val is its SHA-256, `-` where the host has no tool for it.
h_sha() {
    case $h_sham in
        sha256sum) h_val=$(sha256sum <"$1") ;;
        shasum) h_val=$(shasum -a 256 <"$1") ;;
        openssl) h_val=$(openssl dgst -sha256 -r <"$1") ;;
        *) h_val=- ;;
    esac 2>/dev/null
    h_val=${h_val%% *}
    case $h_val in *[!0-9a-f]* | '') h_val=- ;; esac
}
