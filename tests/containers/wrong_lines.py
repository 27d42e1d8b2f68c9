"""Lines that go wrong in a first session. PORT stands for the port of the Debian host."""

from __future__ import annotations

WRONG = [
    ("harness runn HOST -- true", 122, "no such command 'runn'", "harness run HOST -- true"),
    ("harness HOST -- uptime", 122, "no such command 'HOST'", "harness run HOST -- uptime"),
    ("harness run HOST uptime", 122, "there is no -- between HOST", "harness run HOST -- uptime"),
    ("harness run -- uptime", 122, "there is no HOST", "harness run --help"),
    ("harness run HOST --", 122, "there is no command after --", "harness run --help"),
    ("harness run --kee k HOST -- true", 122, "no such option '--kee'", "harness run --help"),
    ("harness run -L 1:a:2 HOST -- true", 122, "ssh's -L forwards something", "the same without -L"),
    (
        "harness run --class sometimes HOST -- true",
        122,
        "--class 'sometimes' is none of",
        "harness run --help",
    ),
    ("harness run --timeout soon HOST -- true", 122, "'soon' is no number of seconds", "harness run --help"),
    ("harness run HOST HOST -- true", 122, "HOST is named twice", "name it once"),
    ("harness run @wev -- true", 122, "there is no group @wev", "harness doctor --config"),
    ("harness run -o Foo=1 HOST -- true", 122, "-o Foo is not supported", "the options that count here"),
    (
        "harness run -o StrictHostKeyChecking=no HOST -- true",
        122,
        "StrictHostKeyChecking no is not supported",
        "the values that are: ask",
    ),
    ("harness run --secret-env A=hunter2 HOST -- true", 122, "never a value", "harness run --help"),
    ("harness run --secret-env A=env:NONE HOST -- true", 123, "the environment has no NONE", "export NONE"),
    ("harness run dbb1 -- true", 123, "dbb1: name-unknown: ", "ssh -G dbb1 shows what ssh makes of the name"),
    (
        "harness run --reconnect 0.1 -p 1 db1 -- true",
        123,
        "connection-refused: ops@127.0.0.1:1: Connection refused",
        "see whether ssh -p 1 ops@127.0.0.1 gets there",
    ),
    (
        "harness run -i ~/.ssh/none -o IdentitiesOnly=yes -F ~/keyless -p PORT -l ops 127.0.0.1 -- true",
        123,
        "identity-missing: ",
        "name a key that is there with -i FILE",
    ),
    (
        "harness run -i ~/.ssh/other -F ~/keyless -p PORT -l ops 127.0.0.1 -- true",
        123,
        "auth-failed: ops@127.0.0.1:PORT: login refused; tried: ",
        "see whether ssh -p PORT ops@127.0.0.1 gets in",
    ),
    (
        "harness run -i ~/.ssh/open -F ~/keyless -p PORT -l ops 127.0.0.1 -- true",
        123,
        "can be read by others (mode 0644) and is not used",
        "chmod 600 ",
    ),
    (
        "HARNESS_HOME=here harness run HOST -- true",
        122,
        "HARNESS_HOME=here is not an absolute path",
        "give the",
    ),
    (
        "HARNESS_HOME=/dev/null/x harness run HOST -- true",
        122,
        "/dev/null/x cannot be used: ",
        "set HARNESS_HOME",
    ),
    ("HARNESS_HOME=~/open harness run HOST -- true", 122, "/open can be read by others", "chmod 700 "),
    ("harness run --again ZZZZ HOST -- true", 122, "ZZZZ", "harness list"),
]
"""Lines that would send something: the line, the exit status, what was wrong, and what to do (its beginning)."""

LOOKING = [
    ("harness attach nope", "'nope' is no execution ID", "harness list"),
    ("harness output ZZZZ", "ZZZZ", "harness list"),
    ("harness show", "missing argument 'ID'", "harness show --help"),
    ("harness resolve @last --as maybe --why x", "--as 'maybe' is none of", "harness resolve --help"),
    ("harness list --foo", "no such option '--foo'", "harness list --help"),
    ("harness help foo", "there is no topic 'foo'", "harness help"),
    ("harness completion tcsh", "there is no script for 'tcsh'", "harness completion "),
]
"""Lines that only look, and change nothing: they are refused with 122, and nothing is said of sending."""
