use super::*;

/// In a project below the home.
fn reason(line: &str) -> Option<String> {
    reason_in("/home/alice/project", line)
}

fn reason_in(cwd: &str, line: &str) -> Option<String> {
    floor(line, cwd.as_ref(), &["/home/alice".into()])
}

#[track_caller]
fn check_denied(lines: &[&str], because: &str) {
    for line in lines {
        let reason = reason(line);
        assert!(reason.as_ref().is_some_and(|reason| reason.contains(because)), "{line}: {reason:?}");
    }
}

#[track_caller]
fn check_passes(lines: &[&str]) {
    for line in lines {
        assert_eq!(reason(line), None, "{line}");
    }
}

#[test]
fn the_root_and_homes_are_never_wiped() {
    check_denied(
        &[
            "rm -rf /",
            "rm -rf /*",
            "rm -rf //",
            "rm -rf /.",
            "rm -rf /./",
            "rm -rf /tmp/..",
            "rm -rf /../",
            "rm -rf /*/",
            "rm -rf /*/*",
            "rm -rf /.*",
            "rm -rf /.[!.]* /*",
            "rm -rf /???",
            "rm -fr /",
            "rm -r -f /",
            "rm -f -R /",
            "rm -rfv /",
            "rm --recursive --force /",
            "rm --rec /",
            "rm / -rf",
            "rm -rf -- /",
            "rm -rf --no-preserve-root /",
            "rm -rf foo / bar",
            "rm -rf ~",
            "rm -rf ~/",
            "rm -rf ~/*",
            "rm -rf ~/.*",
            "rm -rf ~/{*,.*}",
            "rm -rf ~/.[!.]*",
            "rm -rf ~alice",
            "rm -rf ~root/",
            "rm -rf $HOME",
            "rm -rf \"$HOME\"",
            "rm -rf \"$HOME\"/*",
            "rm -rf ${HOME}/",
            "rm -rf \"${HOME}\"/*",
            "rm -rf ${HOME:?}/*",
            "rm -rf ${HOME%/}",
            "rm -rf /home",
            "rm -rf /home/*",
            "rm -rf /home/alice",
            "rm -rf /home/alice/",
            "rm -rf /home/al*",
            "rm -rf /home/bob/../alice",
            "rm -rf ~/project/..",
            "rm -rf {/,/tmp}",
            "rm -rf /{,tmp}",
            "rm -rf '/'",
            "rm -rf \"/\"",
            "rm -rf ''/",
            "rm -rf $'/'",
            "rm -rf $'\\x2f'",
            "rm -rf \\/",
            "rm \\\n -rf /",
            "\\rm -rf /",
            "'rm' -rf /",
            "r'm' -rf /",
            "/bin/rm -rf /",
            "{rm,-rf,/}",
            "rm${IFS}-rf${IFS}/",
            "rm -rf / 2>/dev/null",
            "2>/dev/null rm -rf /",
            "rm -rf />log",
        ],
        "would wipe",
    );
}

#[test]
fn where_the_command_starts_counts() {
    #[track_caller]
    fn check(cwd: &str, denied: &[&str], passes: &[&str]) {
        denied.iter().for_each(|line| assert!(reason_in(cwd, line).is_some(), "{cwd}: {line}"));
        passes.iter().for_each(|line| assert_eq!(reason_in(cwd, line), None, "{cwd}: {line}"));
    }
    let denied = ["rm -rf ..", "rm -rf ../*", "rm -rf \"$PWD/..\"", "cd .. && rm -rf *", "find .. -delete"];
    let more = ["rm -rf ../../alice", "rm -rf $(pwd)/..", "rm -rf ~+/..", "cd /; cd -; cd ..; rm -rf *"];
    let passes =
        ["rm -rf *", "rm -rf .", "rm -rf $PWD", "find . -delete", "rm -rf ../other", "cd src; rm -rf ../*"];
    check("/home/alice/project", &[&denied[..], &more].concat(), &passes);
    let denied = [
        "rm -rf *",
        "rm -rf .",
        "rm -rf ./*",
        "rm -rf $PWD",
        "rm -rf \"$PWD\"/*",
        "find . -delete",
        "find -delete",
    ];
    let passes = [
        "rm -rf build",
        "rm -f *.log",
        "rm -rf project/*",
        "rm -rf ./x/..//y",
        "rm -rf [0-9]*",
        "find . -name x -delete",
    ];
    check("/home/alice", &denied, &passes);
    let denied = ["rm -rf *", "find -delete", "dd if=x of=dev/sda", "rm -rf home", "rm -rf ./home/alice"];
    check("/", &denied, &["rm -rf tmp/x", "rm -rf tmp/*", "dd if=x of=dev/null"]);
    check("/dev", &["dd if=x of=sda", "cat x > sda"], &["dd if=x of=null", "cat x > null"]);
    check("/tmp", &["rm -rf ../home"], &["rm -rf *", "find . -delete"]);
    let homes = ["/home/alice".into(), "/data/alice".into()];
    for line in ["rm -rf /data/alice", "rm -rf /data", "rm -rf ~", "cd /data/alice && rm -rf *"] {
        assert!(floor(line, "/tmp".as_ref(), &homes).is_some(), "{line}");
    }
}

#[test]
fn as_the_shell_reads_it() {
    check_denied(
        &[
            "time { rm -rf /; }",
            "time -p { rm -rf /; }",
            "time -p -- rm -rf /",
            "coproc X { rm -rf /; }",
            "coproc { rm -rf /; }",
            "coproc X while :; do rm -rf /; done",
            "trap -- \"rm -rf /\" EXIT",
            "trap 'X=/ rm -rf /' EXIT",
            "f() for x in /; do rm -rf $x; done; f",
            "f() if :; then rm -rf /; fi; f",
            "{fd}>/dev/null rm -rf /",
            "A[1]=2 rm -rf /",
            "A[$i]+=2 rm -rf /",
            "cat <<$E\n\n$E\nrm -rf /",
            "cat <<\"E\"F\ntext\nEF\nrm -rf /",
            "echo ${x/$(rm -rf /)/}",
            "echo ${x:$(rm -rf /)}",
            "echo ${x[$(rm -rf /)]}",
            "echo \"${x#$(rm -rf /)}\"",
            "rm${x} -rf /",
            "${x}rm -rf /",
            "$BIN/rm -rf /",
            "su${x}do rm -rf /",
            "rm -rf /{a..z}*",
            "rm -rf /{z..a}*",
            "rm -rf /[[:alpha:]]*",
            "rm -rf /[a-z]*",
            "rm -rf /[]h]ome",
            "rm -rf /[^x]*",
            "rm -rf /[!]]*",
        ],
        "would wipe",
    );
}

#[test]
fn with_the_values_the_line_tells() {
    check_denied(
        &[
            "set -- /; rm -rf \"$1\"",
            "set -- /; rm -rf \"$@\"",
            "set x /; rm -rf $2",
            "set -- x /; shift; rm -rf \"$1\"",
            ": ${x:=/}; rm -rf $x",
            ": ${x=/}; rm -rf \"$x\"",
            "cd / && rm -rf ~+/*",
            "cd /; cd /tmp; rm -rf ~-/*",
            "cd /; cd /tmp; cd -; rm -rf *",
            "cd /; pushd /tmp; popd; rm -rf *",
            "unset DIR; rm -rf \"$DIR/\"",
            "a=(/); rm -rf \"${a[@]}\"",
            "a=(x /); rm -rf ${a[1]}",
            "a=(x); a+=(/); rm -rf ${a[@]}",
            "a[3]=/; rm -rf ${a[3]}",
            "a=(/*); rm -rf \"${a[@]}\"",
            "for d in /*; do rm -rf \"$d\"; done",
            "f() { rm -rf \"$1\"; }; f /",
            "f() { rm -rf \"$@\"; }; f x /",
            "f() { g \"$1\"; }; g() { rm -rf $1; }; f /",
            "f() { cd /; }; f; rm -rf *",
            "wipe() { for x in \"$@\"; do rm -rf \"$x\"; done; }; wipe ~",
            "bash -c 'rm -rf \"$1\"' _ /",
            "rm -rf $(echo /)",
            "cd / && rm -rf \"$(pwd)\"/*",
            "$(echo rm) -rf /",
            "rm -rf ${x[0]:-/}",
        ],
        "would wipe",
    );
    check_passes(&[
        "set -e; rm -rf \"$DIR\"/x",
        "set -- build; rm -rf \"$1\"",
        "unset DIR; read -r DIR; rm -rf \"$DIR/\"",
        "unset DIR; DIR=$(mktemp -d); rm -rf \"$DIR/\"",
        "f() { rm -rf \"$1\"; }; f build; f \"$DIR\"",
        "f() { f \"$1\"; }; f x",
        "files=(a b c); rm -rf \"${files[@]}\"",
        "for i in {1..1000000}; do echo $i; done",
        "rm -rf build/{a..c}",
        "cd src && cd - && rm -rf build/*",
        "pushd /; popd; rm -rf build",
        "time make test",
        "echo \"$(pwd)\" ~+",
    ]);
}

#[test]
fn what_feeds_a_shell_or_xargs() {
    check_denied(
        &[
            "echo / | xargs rm -rf",
            "echo / | xargs -n 1 -I{} rm -rf {}",
            "xargs rm -rf <<< /",
            "printf \"rm -rf /\\n\" | bash",
            "printf '%s\\n' 'rm -rf /' | sudo sh",
            "echo -e \"cd /\\nrm -rf *\" | bash",
            "bash -s x <<< \"rm -rf /\"",
            "bash -s / <<< 'rm -rf \"$1\"'",
            "bash /dev/stdin <<< 'rm -rf /'",
            ". /dev/stdin <<< 'rm -rf /'",
            "eval \"$(echo rm -rf /)\"",
            "$SHELL -c 'rm -rf /'",
        ],
        "would wipe",
    );
    check_passes(&[
        "git ls-files | xargs wc -l",
        "find . -name '*.o' | xargs rm -f",
        "echo build | xargs rm -rf",
        "echo 'rm -rf /' | wc -c",
        "printf 'rm -rf /\\n' > x.sh",
        "eval \"$(ssh-agent -s)\"",
    ]);
}

#[test]
fn behind_whatever_stands_before() {
    check_denied(
        &[
            "cd / && rm -rf *",
            "cd /; rm -rf *",
            "cd / && rm -rf .",
            "cd / && rm -rf ./*",
            "cd ~ && rm -rf *",
            "cd ~; rm -rf -- *",
            "cd && rm -rf *",
            "cd $HOME && rm -rf .[!.]* *",
            "cd /tmp && cd .. && rm -rf *",
            "cd ~/project && rm -rf ..",
            "cd / && rm -rf \"$PWD\"/*",
            "cd -P / || exit\nrm -rf *",
            "pushd /; rm -rf *",
            "cd /tmp && rm -rf /",
            "ls; rm -rf /",
            "ls && rm -rf /",
            "ls || rm -rf /",
            "ls | rm -rf /",
            "ls & rm -rf /",
            "ls\nrm -rf /",
            "rm -rf / &",
            "(rm -rf /)",
            "(cd / && rm -rf *)",
            "{ rm -rf /; }",
            "! rm -rf /",
            "if true; then rm -rf /; fi",
            "if true\nthen\nrm -rf /\nfi",
            "while rm -rf /; do :; done",
            "for i in 1; do rm -rf /; done",
            "for d in /tmp /; do rm -rf \"$d\"; done",
            "for d in /*; do rm -rf $d; done",
            "case x in x) rm -rf / ;; esac",
            "case x in (a|b) :;; *) rm -rf /;; esac",
            "f() { rm -rf /; }; f",
            "function f { rm -rf /; }",
            "f()\n{\n rm -rf /\n}",
            "x=$(rm -rf /)",
            "echo \"$(rm -rf /)\"",
            "echo `rm -rf /`",
            "echo \"`rm -rf /`\"",
            "echo $(echo $(rm -rf /))",
            "echo ${x:-$(rm -rf /)}",
            "cat <(rm -rf /)",
            "x=($(rm -rf /))",
            "echo $((1 + $(rm -rf /)))",
            "((x = 1 << 2))\nrm -rf /",
            "x=$((1<<2))\nrm -rf /",
            "cat <<E\n$(rm -rf /)\nE",
            "cat <<'E'\ntext\nE\nrm -rf /",
            "x=$(cat <<E\ntext\nE)\nrm -rf /",
            "echo \"${x:-'}\"; rm -rf / # '}\"",
            "echo a # comment\nrm -rf /",
            "echo a#'\nrm -rf /'; rm -rf /",
            "coproc rm -rf /",
            "rm -rf / 'unclosed",
            "X=/; rm -rf $X",
            "X=/; rm -rf \"$X\"*",
            "export X=/; rm -rf \"$X\"",
            "X=; rm -rf \"$X/\"",
            "rm -rf \"$1\"/*",
            "rm -rf ${X:-/}",
            "$SUDO rm -rf /",
            "$(which sudo) rm -rf /",
            "X='-rf /'; rm $X",
            "X='rm -rf /'; $X",
            "X=~; rm -rf $X",
        ],
        "would wipe",
    );
}

#[test]
fn through_other_commands() {
    check_denied(
        &[
            "sudo rm -rf /",
            "sudo -u root rm -rf /",
            "sudo -nu root rm -rf /",
            "sudo --user root -- rm -rf /",
            "sudo X=1 rm -rf /",
            "doas rm -rf /",
            "env rm -rf /",
            "env -i A=b rm -rf /",
            "env -u A rm -rf /",
            "env -S 'rm -rf /'",
            "A=b rm -rf /",
            "command rm -rf /",
            "exec rm -rf /",
            "nohup rm -rf / &",
            "nice -n 19 rm -rf /",
            "time -p rm -rf /",
            "timeout -s KILL 5 rm -rf /",
            "setsid -w rm -rf /",
            "busybox rm -rf /",
            "sudo env nice command rm -rf /",
            "bash -c 'rm -rf /'",
            "sh -ec 'rm -rf /'",
            "bash -euo pipefail -c 'rm -rf /'",
            "bash --norc -c 'rm -rf /'",
            "sudo bash -c \"rm -rf /\"",
            "bash -c \"bash -c 'rm -rf /'\"",
            "bash -c 'cd / && rm -rf *'",
            "cd / && bash -c 'rm -rf *'",
            "bash -c 'rm -rf \"$1\"/*'",
            "eval 'rm -rf /'",
            "eval rm -rf /",
            "eval \"X=/\"; rm -rf $X",
            "trap 'rm -rf /' EXIT",
            "su -c 'rm -rf /'",
            "su root --command='rm -rf /'",
            "bash <<'E'\nrm -rf /\nE",
            "bash <<< 'rm -rf /'",
            "echo 'rm -rf /' | sh",
            "echo rm -rf / | sudo bash",
            "cat <<'E' | sh\nrm -rf /\nE",
            "find / -delete",
            "find ~ -mindepth 1 -delete",
            "find / -type f -exec rm -f {} +",
            "find $HOME -name '*' -delete",
            "find / ! -name x -delete",
            "cd ~ && find -delete",
            "cd / && find . -exec rm -rf {} \\;",
            "env -iS 'rm -rf /'",
            "env -vS 'rm -rf' /",
            "env --split-string='rm -rf /'",
            "su -lc 'rm -rf /'",
            "su -c'rm -rf /'",
            "su - root -c 'rm -rf /'",
            "runuser -u root -- rm -rf /",
            "env -C / find . -delete",
            "env --chdir=/ rm -rf *",
            "sudo -D / find . -delete",
            "sudo -n --chdir / rm -rf .",
            "rbash -c 'rm -rf /'",
            "fish -c 'rm -rf /'",
            "mksh -c 'rm -rf /'",
            "flock /tmp/l rm -rf /",
            "flock -w 5 /tmp/l -c 'rm -rf /'",
            "flock /tmp/l rm -rf / -c x",
            "strace -f -o log rm -rf /",
            "watch -n 1 'rm -rf /'",
            "script -qc 'rm -rf /' log",
            "chroot /mnt rm -rf /",
            "unshare -rm rm -rf /",
            "nsenter -t 1 -m -- rm -rf /",
            "setpriv --reuid 0 rm -rf /",
            "prlimit --cpu=10 rm -rf /",
            "pkexec --user root rm -rf /",
            "find / -name '?*' -delete",
            "find / -name '*.*' -delete",
            "find / -size +0 -delete",
            "find / \\( -name x -o -true \\) -delete",
            "find / -name x -o -delete",
            "find / ! \\( -name x \\) -delete",
            "find / -delete -name x",
            "find / -regex '.*' -delete",
            "find -D tree / -delete",
        ],
        "would wipe",
    );
}

#[test]
fn what_only_looks_like_it_passes() {
    check_passes(&[
        "",
        "rm -rf ./build",
        "rm -rf build /tmp/x",
        "rm -rf *",
        "rm -rf .",
        "rm -rf ./*",
        "rm -rf \"$HOME/x\"",
        "rm -rf ~/x ~/.cache/x",
        "rm -rf ~/x/*",
        "rm -rf /home/alice/x",
        "rm -rf /home/bob/x",
        "rm -rf /tmp/*",
        "rm -rf /tmp/../tmp/x",
        "rm -rf /*/cache/x",
        "rm -rf '~'",
        "rm -rf \"~\"/x '/*'x",
        "rm -rf \"$DIR\"",
        "rm -rf \"$DIR\"/*",
        "rm -rf \"${TMPDIR:-/tmp}\"/x",
        "rm -rf $(mktemp -d)",
        "cd /tmp && rm -rf *",
        "cd ~/project && rm -rf *",
        "cd / && cd tmp && rm -rf *",
        "cd / && rm -rf tmp/x",
        "(cd /; ls); rm -rf *",
        "cd /; cd -; rm -rf *",
        "cd \"$X\" && rm -rf *",
        "X=/tmp; rm -rf $X/x",
        "f() { rm -rf \"$1\"/*; }; f x",
        "bash -c 'rm -rf \"$1\"/*' _ build",
        "echo 'rm -rf /'",
        "echo rm -rf /",
        "echo \"rm -rf /\" > notes",
        "git commit -m 'rm -rf /'",
        "git commit -m \"$(cat <<'E'\nit's rm -rf /\nE\n)\"",
        "grep -r 'rm -rf /' .",
        "cat <<'E' > x.sh\nrm -rf /\nE",
        "cat <<E\nrm -rf / \"'\nE\nls",
        "# rm -rf /",
        "ls # rm -rf /",
        "ls /",
        "ls ~/*",
        "command -v rm",
        "which rm /",
        "sudo ls /",
        "find / -name '*.pyc'",
        "find ~ -name '*.pyc' -delete",
        "find . -delete",
        "find /tmp/x -delete",
        "find ~ \\( -name '*.pyc' -o -name '*.pyo' \\) -delete",
        "find ~ \\( -type f -o -type l \\) -name '*.tmp' -delete",
        "find ~ -name node_modules -prune -o -name '*.log' -exec rm {} +",
        "find / -type d -o -name '*.core' -delete",
        "find / -type f -exec grep -l x {} + -o -name y -delete",
        "find ~ -name \"$pattern\" -delete",
        "find ~ -type d -empty -delete",
        "find ~ -mtime +30 -name '*.bak' -exec rm -f {} \\;",
        "sudo -u alice -D /srv ls",
        "env -C sub make",
        "su - postgres -c 'psql -l'",
        "flock /tmp/l make",
        "watch -n 5 git status",
        "strace -e trace=file ls /",
        "xargs -0 rm -f < list",
        "find / -type f -exec grep x {} +",
        "echo $((1 << 2)) $((x > 3)) | cat",
        "[[ a < b && $x =~ ^(a|b)$ ]] && echo y",
        "case $x in a) echo;; esac",
        "bash script.sh /",
        "for f in *.rs; do rm \"$f\"; done",
        "docker run --rm -v /:/host image ls",
        "rsync -a / /backup",
    ]);
}

#[test]
fn file_systems_are_not_made() {
    check_denied(
        &[
            "mkfs /dev/sda1",
            "mkfs.ext4 x.img",
            "sudo mkfs -t ext4 /dev/x",
            "/sbin/mkfs.xfs x",
            "ls; mke2fs x",
        ],
        "file system",
    );
    check_passes(&[
        "grep -r mkfs .",
        "man mkfs",
        "which mkfs.ext4",
        "command -v mkfs",
        "mkfs.ext4 --help",
        "sudo grep -r mkfs /etc",
        "echo mkfs",
        "apt-get install mkfs",
    ]);
}

#[test]
fn devices_are_not_written_to() {
    check_denied(
        &[
            "dd if=/dev/zero of=/dev/sda",
            "dd of=/dev/sda1 if=x bs=1M",
            "dd if=x of=\"/dev/disk2\"",
            "dd if=x of=/dev/$DISK",
            "dd if=x of=/dev/mapper/root",
            "dd if=x of=/dev/not-there",
            "dd if=x of=/dev/shm/x",
            "dd if=x of=/tmp/../dev/sda",
            "cd /dev && dd if=x of=sda",
            "D=/dev/sda; dd if=x of=$D",
            "dd if=x > /dev/sda",
            "sudo dd if=x of=/dev/nvme0n1",
            "cat x | sudo dd of=/dev/sdb",
            "cat x > /dev/sda",
            "echo x >> /dev/nvme0n1",
            "&>/dev/vda echo x",
            "{ dd if=x; } > /dev/foo",
            "(cat x) > /dev/foo",
            "cat x > /dev/sr0",
            "cat x > /dev/mtd0",
            "cat x > /dev/pmem0",
            "cat x > /dev/zram0",
            "cat x > \"/dev/$DISK\"",
        ],
        "device",
    );
    check_passes(&[
        "dd if=/dev/zero of=/dev/null",
        "dd if=x of=/dev/stdout",
        "dd if=x of=/dev/fd/1",
        "dd if=/dev/sda of=disk.img",
        "dd if=/dev/urandom of=./dev/x count=1",
        "dd if=x of=$OUT",
        "dd if=x > /dev/null 2>&1",
        "echo x > /dev/null",
        "echo x > /dev/tty",
        "echo x > /dev/tcp/localhost/80",
        "echo x > /dev/shm/x",
        "echo x > /dev/ttyUSB0",
        "echo x > /dev/stderr",
        "echo x >&2",
        "echo x > /dev/fd/2",
        "echo x > dev/sda",
        "echo x | tee /dev/tty",
        "cat < /dev/sda",
    ]);
}

#[test]
fn fork_bombs_are_refused() {
    check_denied(
        &[
            ":(){ :|:& };:",
            ":() { : | : & }; :",
            "bomb() { bomb | bomb & }; bomb",
            "function f { f | f & }; f",
            "function f() { f & f & }",
            "f()\n{\n f |\n f &\n}\nf",
            "f() ( f & f )",
            "f() { { f; f; } & }",
            "bash -c ':(){ :|:& };:'",
            "a(){ b|b& }; b(){ a|a& }; a",
            "a(){ b & b; }; b(){ a; }; a",
            "f(){ while :; do f & done; };f",
            "f(){ while true\ndo f & done; };f",
            "f(){ for ((;;)); do f & done; };f",
            "f(){ until false; do (f &) ; done; }",
        ],
        "fork bomb",
    );
    check_passes(&[
        "walk() { for f in \"$1\"/*; do walk \"$f\"; done; }; walk .",
        "fib() { echo $(( $(fib $(($1-1))) + $(fib $(($1-2))) )); }",
        "ls() { command ls \"$@\" | less; }",
        "echo ':(){ :|:& };:'",
        "serve() { server & }; serve",
        "walk() { for f in \"$1\"/*; do walk \"$f\" & done; wait; }; walk .",
        "retry() { while :; do try && break; done; }; retry &",
        "build() { test & lint & wait; }; test() { :; }; lint() { :; }; build",
    ]);
}

#[test]
fn what_can_not_be_judged_is_refused_and_nothing_takes_for_ever() {
    for (open, close) in
        [("$(", ")"), ("(", ")"), ("{ ", "; }"), ("${x:-", "}"), ("$((", "))"), ("$(( (", "")]
    {
        let line = format!("echo {}{}", open.repeat(20_000), close.repeat(20_000));
        let _ = reason(&line); // returns
    }
    check_denied(&[&format!("{}rm -rf /{}", "$(".repeat(70), ")".repeat(70))], "nested too deep");
    check_denied(&[&format!("echo {}", "{a,b}".repeat(30))], "nested too deep");
    check_denied(&[&format!("echo {}", "{a,".repeat(30_000) + &"}".repeat(30_000))], "nested too deep");
    check_denied(&[&":;".repeat(20_000)], "nested too deep");
    let chain: String = (0..5000).map(|at| format!("f{}() {{ f{at}; }};", at + 1)).collect();
    let doubling: String = (0..40).map(|at| format!("f{}() {{ f{at}; f{at}; }};", at + 1)).collect();
    let words = format!("f0() {{ g {}; }};{doubling}", "'' ".repeat(30_000));
    for line in [&chain, &doubling, &words, &format!("echo {}", "{a..z}".repeat(20_000))] {
        let _ = reason(line); // returns
    }
    for many in ["su ", "xargs ", "rm$x ", "flock -", "env -C / ", "find ( ", "eval ", "f() { f; }; f;"] {
        let _ = reason(&many.repeat(120_000 / many.len())); // returns
    }
    check_denied(&[&"a ".repeat(64 * 1024), &"'".repeat(1 << 20)], "too large");
    assert_eq!(reason(&"sudo ".repeat(25_000)), None);
    assert_eq!(reason(&"$x ".repeat(40_000)), None);
    let mut documents = String::new();
    for at in 0..70 {
        documents += &format!("{}bash <<E{at}\n", "(".repeat(40));
    }
    check_denied(&[&documents], "nested too deep");
    let variables: String = (0..3000).map(|at| format!("V{at}=$X; (W=1);")).collect();
    check_passes(&[&format!("X={}; {variables}", "x".repeat(4000))]);
    check_denied(&[&format!("X={}; echo {}", "x".repeat(4000), "$X ".repeat(30_000))], "too large");
    let doubling = format!("X=aaaa;{} rm -rf $X", "X=$X$X;".repeat(60));
    assert_eq!(reason(&doubling), None);
    assert_eq!(reason(&"{".repeat(100_000)), None);
    assert_eq!(reason(&"'".repeat(100_001)), None);
    check_denied(&[&format!("X={}; eval \"{}\"", "x".repeat(4000), "$X".repeat(40))], "too large");
}

#[test]
fn any_bytes_are_judged() {
    let alphabet = [
        "rm", " ", "-rf", "/", "'", "\"", "$(", "${", "((", ")", "}", "{", "`", "\\", "\n", "<<E", "E", "|",
        "&", ";", "case", "in", "#", "é", "$", "=", "(", "*", "~", "!", "<", ">", "[", ",", "function", "f",
    ];
    let mut random = 1_u64;
    for _ in 0..3000 {
        let line: String = (0..40)
            .map(|_| {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                alphabet[(random >> 33) as usize % alphabet.len()]
            })
            .collect();
        let _ = reason(&line); // returns, without a panic
        let _ = super::super::is_single_command(&line);
    }
}

#[test]
fn without_a_home_the_tilde_is_still_one() {
    assert!(floor("rm -rf ~", "/".as_ref(), &[]).is_some());
    assert!(floor("rm -rf \"$HOME\"/*", "/".as_ref(), &[]).is_some());
    assert_eq!(floor("rm -rf ~/x", "/".as_ref(), &[]), None);
}
