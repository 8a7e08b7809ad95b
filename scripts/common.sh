# Sourced by the other scripts: how the tests run, and the servers and tools that they start, installed
# without starting any system service.

# The tests wait for leases and servers far more than they compute, so several programs of tests run side by side, and
# in each of them more tests than there are cores.
test_lanes=${POLYLOCK_TEST_LANES:-2}
export RUST_TEST_THREADS=${RUST_TEST_THREADS:-$(($(nproc) * 3 / 2))}

# Servers that are written in Go collect garbage less often, and do not look for work on several cores at once.
test_environment='GOMAXPROCS=1 GOGC=400'

# Where MySQL is, or will be; also for tests of a copy of the workspace.
export LOCK_TESTKIT_MYSQL=${LOCK_TESTKIT_MYSQL:-$PWD/target/servers/mysql}

# Servers keep their data in memory where there is room: a disk that is still writing what was just
# compiled holds their commits up for a second and more.
if [ -z "${TMPDIR:-}" ] && [ -w /dev/shm ] && [ "$(df --output=avail -k /dev/shm | tail -1)" -gt 8000000 ]; then
    export TMPDIR=/dev/shm
fi

# Debian keeps some servers where the path of a user does not lead.
PATH=$PATH:/usr/local/sbin:/usr/sbin

# Says what is done, and does it.
step() {
    printf '\n== %s (%ss)\n' "$1" "$SECONDS"
    shift
    "$@"
}

# program:Debian package
servers='redis-server:redis-server redis-cli:redis-tools openssl:openssl faketime:faketime
    mariadbd:mariadb-server-core mariadb-install-db:mariadb-server-core mariadb:mariadb-client-core
    java:default-jre-headless etcd:etcd-server etcdctl:etcd-client protoc:protobuf-compiler'

# file:Debian package, for what is no program
libraries='/usr/share/java/zookeeper.jar:libzookeeper-java /usr/share/java/slf4j-simple.jar:libslf4j-java
    /usr/lib/python3/dist-packages/kazoo/__init__.py:python3-kazoo
    /usr/share/java/curator-recipes.jar:libcurator-recipes-java'

# The driver of lock-etcd is generated with these, unless they are elsewhere.
[ -n "${PROTOC_INCLUDE:-}" ] || libraries+=' /usr/include/google/protobuf/descriptor.proto:libprotobuf-dev'

install_servers() {
    local missing=() server library
    for server in $servers; do
        command -v "${server%%:*}" >/dev/null || missing+=("${server##*:}")
    done
    for library in $libraries; do
        [ -e "${library%%:*}" ] || missing+=("${library##*:}")
    done
    [ ${#missing[@]} -gt 0 ] || return 0

    local as_root=()
    if [ "$(id -u)" -ne 0 ]; then
        as_root=(sudo)
    fi
    if ! command -v apt-get >/dev/null || { [ ${#as_root[@]} -gt 0 ] && ! command -v sudo >/dev/null; }; then
        echo "Please install: ${missing[*]} (the programs have to be on the PATH), then run this again." >&2
        return 1
    fi
    # Debian starts a service when it is installed, unless this file says that it may not.
    local policy=/usr/sbin/policy-rc.d ours=
    if [ ! -e "$policy" ]; then
        ours=yes
        printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee "$policy" >/dev/null
        "${as_root[@]}" chmod +x "$policy"
    fi
    local status=0
    "${as_root[@]}" apt-get update -qq &&
        "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
            apt-get install -y -qq --no-install-recommends "${missing[@]}" </dev/null >/dev/null || status=$?
    if [ -n "$ours" ]; then
        "${as_root[@]}" rm -f "$policy"
    fi
    return "$status"
}

# Tests leave MySQL out, loudly, where it cannot be fetched. Debian has it in its unstable suite only.
install_mysql() {
    local complaint
    [ ! -x "$LOCK_TESTKIT_MYSQL/run" ] || return 0
    if ! complaint=$({ scripts/fetch-servers sid "$LOCK_TESTKIT_MYSQL" mysql-server-core &&
        "$LOCK_TESTKIT_MYSQL/run" mysqld --no-defaults --version; } 2>&1); then
        rm -rf "$LOCK_TESTKIT_MYSQL"
        echo "NO MYSQL, so nothing is tested on it: $(head -n 1 <<<"$complaint")" >&2
    fi
}

# Runs the tests that `cargo test` with these arguments would, doctests aside. The kits, which keep a machine busy, are
# one lane; the others, which wait most of the time, are the rest.
run_tests() {
    local programs kits='/(conformance|kit)-[0-9a-f]+$' lists lane lanes=() outcome=0
    # In the reverse order of their names, by which the longest do not come last.
    programs=$(cargo test --quiet --no-run --message-format=json "$@" |
        sed -n 's|.*"manifest_path":"\([^"]*\)/Cargo.toml".*"profile":{[^}]*"test":true}.*"executable":"\([^"]*\)".*|\1 \2|p' |
        sort --reverse)
    [ -n "$programs" ] || return 1
    # Servers whose data is on a disk would wait behind all that was just compiled.
    sync
    lists=$(mktemp -d)
    grep -E "$kits" <<<"$programs" >"$lists/kits" || true
    grep -vE "$kits" <<<"$programs" >"$lists/others" || true
    for lane in $(seq 2 "$test_lanes"); do
        (
            # What runs in the background does not hear of an interrupt otherwise.
            trap - INT
            if [ "$lane" = 2 ]; then
                run_programs "$lists" kits others
            else
                run_programs "$lists" others kits
            fi
        ) &
        lanes+=($!)
    done
    run_programs "$lists" others kits || outcome=1
    for lane in "${lanes[@]}"; do
        wait "$lane" || outcome=1
    done
    rm -r "$lists"
    return "$outcome"
}

# Runs the programs of tests that stand in files of the directory $1: first those in $2, then those in $3. What one has
# printed is shown when it has ended.
run_programs() {
    local directory program said outcome=0
    while read -r directory program < <(take_line "$@"); do
        if ! said=$(cd "$directory" && env $test_environment "$program" --quiet 2>&1); then
            outcome=1
        fi
        (
            flock 9
            printf '%s\n%s\n' "$program" "$said"
        ) 9>"$1/printing"
    done
    return "$outcome"
}

# Takes the first line out of the first file that has one; in the directory $1, where others do so too.
take_line() {
    (
        flock 9
        cd "$1"
        for list in "${@:2}"; do
            if [ -s "$list" ]; then
                head -n 1 "$list"
                sed -i 1d "$list"
                break
            fi
        done
    ) 9>"$1/taking"
}

# The first line of what a program says of itself, or that it is missing.
version() {
    local said
    said=$("$@" 2>/dev/null | head -n 1) || true
    echo "${said:-$1 is not installed}"
}

# What results depend on, as items of a list.
machine() {
    echo "- machine: $(sed -n 's/^model name\s*: //p' /proc/cpuinfo | head -n 1), $(nproc) cores, $(awk '/^MemTotal/ { printf "%.0f GB", $2 / 1e6 }' /proc/meminfo), Linux $(uname -r)"
}

versions() {
    local zookeeper
    zookeeper=$(dpkg-query --show --showformat '${Version}' libzookeeper-java 2>/dev/null || true)
    cat <<TEXT
- built by: $(rustc --version), release
- Redis: $(version redis-server --version)
- MariaDB: $(version mariadbd --version)
- etcd: $(version etcd --version)
- ZooKeeper: ${zookeeper:-not installed}
TEXT
}
