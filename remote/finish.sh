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

# h_finish: the end, on disk, in the room that was kept for it under the name f.TOKEN: that name is on disk already, and readers know it from the
# start record. It becomes `finish` when nobody waits any more. With a verify command the command's own end is made durable first.
h_finish() {
    h_verify=-
    [ -z "$h_s_verify" ] || h_verify_run
    h_status "$h_raw"
    h_final=$h_val
    h_reason_now
    h_oom=-
    [ "$h_final" -eq 0 ] || [ "$h_oom0" = - ] || { h_val=- && h_oom_file "$h_oom_path" && h_oom=$((h_val - h_oom0)); }
    h_now
    h_rec="1 finish id=$h_id store=$h_sid token=$h_token status=$h_final raw=$h_raw reason=$h_reason signal=$h_signal verify=$h_verify"
    h_rec="$h_rec out=$h_size_out err=$h_size_err out_complete=$h_whole_out err_complete=$h_whole_err oom=$h_oom survivors=$h_left"
    h_rec="$h_rec timeout_requested=$h_by_timeout cancel_requested=$h_by_cancel t0=$h_t0 t1=$h_t1 up0=$h_up0 up1=$h_up1 end"
    # the channel's side reads it while it goes to the disk, and says it when it is there
    h_put "rec $h_rec$h_nl"
    h_put "$h_rec$h_nl" 1<>"$h_dir/f.$h_token" || h_room=
    if [ -n "$h_room" ] && h_sync "$h_dir/f.$h_token"; then
        h_put "end$h_nl"
    else
        # `end` means on disk: who asks later is told what is there then
        h_put "say state state=unknown$h_nl"
    fi
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

# h_leave: what nobody waits for: files of the dispatch go away, the digests are made.
h_leave() {
    {
        exec </dev/null >/dev/null 6>&- 7>&-
        [ -n "$h_room" ] && mv "$h_dir/f.$h_token" "$h_dir/finish" || h_room=
        h_sweep
        h_digests
    } &
    exit 0
}

# h_sweep: removes this dispatch's own files, nobody else's. `h` stays: whoever measured a size before it was made may look for it late.
h_sweep() {
    h_sweep_of "$h_dir" "$h_token" $h_room
}

# h_sweep_of DIRECTORY TOKEN [f]: f.TOKEN stays where it is the only name of the end.
h_sweep_of() {
    h_d=$1 h_t=$2 h_e=${3-}
    set --
    for h_x in o e v a s j y b u in $h_e; do
        set -- "$@" "$h_d/$h_x.$h_t"
    done
    rm -f "$@"
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
