# shellcheck shell=sh
#@ all front super
# main.sh: the verbs. The call on the last line is the only thing that runs when this text is read: a text that was cut does nothing.

h_main() {
    [ "$#" -eq 4 ] || return 0
    h_init "$1" "$2" "$4"
    h_is hex "$4" || return 0
    case $3 in
        run) h_run ;;
        supervise) h_supervise ;;
        follow) h_follow ;;
        check) h_check ;;
        alone) h_alone ;;
        *) h_main_answer "$3" ;;
    esac
}

h_main_answer() {
    h_streams=apart
    [ -e /proc/self/fd/2 ] && [ ! /proc/self/fd/1 -ef /proc/self/fd/2 ] || h_streams=joined
    exec 2>/dev/null
    umask 077
    case $1 in
        install) h_install "${h_new-}" ;;
        contact) h_contact ;;
        probe) h_probe ;;
        fence | cancel | list | gc) "h_$1_verb" ;;
        *)
            h_begin_answer
            h_error verb
            h_end_answer
            ;;
    esac
}

h_main "$@"
