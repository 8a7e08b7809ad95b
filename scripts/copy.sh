# Sourced by the scripts that break the sources on purpose: a copy of the workspace, in target/sabotage, which stays
# there so that the next run builds only what changed.

root=$PWD
place=${CARGO_TARGET_DIR:-$root/target}/sabotage
tree=$place/tree
export CARGO_TARGET_DIR=$place/build
mkdir -p "$tree" "$CARGO_TARGET_DIR"

# Makes the copy equal to the workspace. Only what differs is written, so that cargo sees by its
# time what has changed, also after a run that was stopped halfway.
copy() {
    local file
    git ls-files --cached --others --exclude-standard -z 2>/dev/null >"$place/files" ||
        find . -path ./target -prune -o -type f -printf '%P\0' >"$place/files"
    while IFS= read -r -d '' file; do
        if [ -f "$file" ] && ! cmp -s "$file" "$tree/$file"; then
            mkdir -p "$tree/$(dirname "$file")" && cp "$file" "$tree/$file"
        fi
    done <"$place/files"
    (cd "$tree" && find . -type f -printf '%P\0') | while IFS= read -r -d '' file; do
        [ -f "$file" ] || rm "$tree/$file"
    done
}

# Applies or (with -R) takes out a patch. Git must not look for a repository above the copy, where
# it would silently leave out what is not below the current directory.
apply() {
    (cd "$tree" && GIT_CEILING_DIRECTORIES=$place git apply "$@")
}
