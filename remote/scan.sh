# shellcheck shell=sh
#@ all more
# scan.sh: looks for processes of an execution.

# h_carried ID: whether a process of this account carries the execution in its environment. One scan an answer: it costs milliseconds.
h_carried() {
    if [ -z "${h_scan-}" ]; then
        set +f
        h_scan=$(cat /proc/[0-9]*/environ 2>/dev/null | tr '\000' '\n' | grep '^HARNESS_EXECUTION_ID=')
        set -f
        h_scan="$h_nl$h_scan$h_nl"
    fi
    case $h_scan in *"${h_nl}HARNESS_EXECUTION_ID=$1$h_nl"*) ;; *) return 1 ;; esac
}

# h_count ID: h_val is how many processes of this account carry the execution.
h_count() {
    h_val=0
    h_carried "$1" || return 0
    h_x=$h_scan
    while :; do
        case $h_x in
            *"${h_nl}HARNESS_EXECUTION_ID=$1$h_nl"*) h_val=$((h_val + 1)) h_x=$h_nl${h_x#*"${h_nl}HARNESS_EXECUTION_ID=$1$h_nl"} ;;
            *) return 0 ;;
        esac
    done
}
