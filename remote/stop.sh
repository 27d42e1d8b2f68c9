# shellcheck shell=sh
#@ all more
# stop.sh: signals for a command, and only for it.

# h_watch SECONDS REASON: ends the command's group after that time; nothing where SECONDS is empty. It goes on if we die.
h_watch() {
    h_watcher=
    [ -n "$1" ] || return 0
    {
        exec </dev/null >/dev/null 3>&- 4>&- 6>&- 7>&-
        h_nap "$1" && h_stop "$h_dir" "$h_token" "$2" "$h_q_grace"
    } &
    h_watcher=$!
}

# h_nap SECONDS: comes back when the time has passed by the clock of boot time, whatever ends the sleep; 1 where nothing on this host waits. Our
# end takes the sleep with it.
h_nap() {
    trap 'kill "$h_napper"; exit 0' TERM
    h_now
    h_from=$h_up h_failed=0 h_slack=0
    while h_missing "$1"; do
        if [ "$h_failed" -lt 4 ]; then sleep "$h_val" & else h_idle & fi
        h_napper=$!
        if wait "$h_napper"; then h_failed=0 h_slack=1; else h_failed=$((h_failed + 1)) h_slack=0; fi
        [ "$h_failed" -lt 100 ] || return 1
    done
}

# h_missing SECONDS: h_val is what is missing to so many seconds after h_from, as this host's `sleep` takes it; 1 where nothing is, or no more than
# the h_slack hundredths by which the clock may be behind. In hundredths only at the end: some shells count to 2^31.
h_missing() {
    h_now
    h_x=${1%%.*} h_y=00
    case $1 in *.*) h_y=${1#*.}00 ;; esac
    while :; do case $h_x in 0?*) h_x=${h_x#0} ;; *) break ;; esac; done
    [ "${#h_x}" -lt 10 ] || h_x=999999999
    h_y=${h_y%"${h_y#??}"}
    h_val=$((h_x - ${h_up%.*} + ${h_from%.*}))
    [ "$h_val" -lt 1000 ] || { h_val=$((h_val - 1)); return 0; }
    h_val=$((h_val * 100 + 1$h_y - 1${h_up#*.} + 1${h_from#*.} - 100))
    [ "$h_val" -gt "$h_slack" ] || return 1
    if [ "$h_sleepm" = part ]; then
        h_y=$((h_val % 100 + 100))
        h_val=$((h_val / 100)).${h_y#1}
    else
        h_val=$(((h_val + 99) / 100))
    fi
}

h_unwatch() {
    [ -z "$h_watcher" ] || kill "$h_watcher"
}

# h_stop DIRECTORY TOKEN REASON GRACE: TERM, and KILL after the grace, to the command's process group, while its first process is the one that
# was started. The reason is written down first. h_sent is the last signal that was sent.
h_stop() {
    h_sent=none h_tries=0
    until h_job_of "$1" "$2"; do
        # not there yet, or not there any more
        [ ! -e "$1/finish" ] && [ "$h_tries" -lt 20 ] || return 1
        h_tries=$((h_tries + 1))
        h_short
    done
    h_put "$3$h_nl" >>"$1/y.$2"
    kill -TERM -"$h_job" && h_sent=TERM
    h_wait_group "$4" "$1" "$2"
    if kill -0 -"$h_job" && h_same_group "$1" "$2"; then
        h_put "$3 KILL$h_nl" >>"$1/y.$2"
        kill -KILL -"$h_job" && h_sent=KILL
        h_wait_group 2 "$1" "$2"
    fi
    return 0
}

# h_job_of DIRECTORY TOKEN: h_job is the command's first process; 1 where it is not alive, or not the one that was started.
h_job_of() {
    h_job='' h_job_began=''
    { read -r h_job h_job_began h_x; } <"$1/j.$2" || return 1
    h_is number "$h_job" || return 1
    h_stat "$h_job" && [ "$h_began" = "$h_job_began" ] && [ "$h_state1" != Z ]
}

# h_same_group: the leader is still ours, or it is gone and a member carries the execution: a group lives on under its leader's number.
h_same_group() {
    h_job_of "$1" "$2" && return 0
    h_scan=''
    h_carried "${1##*/}"
}

# h_wait_group SECONDS DIRECTORY TOKEN: returns when the group h_job is gone, or the time is over. Dead processes that nobody has waited for are gone.
h_wait_group() {
    h_tries=$((${1%%.*} * 20 + 1))
    [ "$h_sleepm" = part ] || h_tries=$((${1%%.*} + 1))
    while [ "$h_tries" -gt 0 ] && kill -0 -"$h_job"; do
        h_tries=$((h_tries - 1))
        h_same_group "$2" "$3" || return 0
        h_short
    done
}

h_short() {
    if [ "$h_sleepm" = part ]; then sleep 0.05; else sleep 1; fi || h_idle
}
