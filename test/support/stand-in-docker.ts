import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/**
 * A program `docker` that runs the command of a container as a process of this machine. It writes the arguments of each
 * call to `calls`. A daemon would own the containers, so a process outlives the call that has started it.
 */
export interface StandInDocker {
  /** Folder for PATH. */
  readonly bin: string;
  /** Arguments of each call, in order. */
  calls(): readonly (readonly string[])[];
  /** Process groups of the containers that have not ended. */
  pids(): readonly number[];
  /** Makes `docker pull` fail that many times. */
  failPulls(count: number): void;
  /** Takes the daemon away, or brings it back. Containers go on. */
  setDaemon(isUp: boolean): void;
}

const SCRIPT = `#!/bin/sh
here=$(dirname "$0")
state="$here/containers"
{ for word in "$@"; do printf '%s\\037' "$word"; done; printf '\\n'; } >> "$here/calls"
verb=$1; shift
if [ -e "$here/down" ]; then echo "Cannot connect to the Docker daemon. Is the docker daemon running?" >&2; exit 1; fi
case "$verb" in
  image)
    if [ -e "$here/pulled" ]; then echo sha256:0; else echo "no such image" >&2; exit 1; fi ;;
  pull)
    left=$(cat "$here/pull-failures" 2>/dev/null || echo 0)
    if [ "$left" -gt 0 ]; then echo $((left - 1)) > "$here/pull-failures"; echo "toomanyrequests: slow down" >&2; exit 1; fi
    echo "0f3c: Pull complete"; : > "$here/pulled" ;;
  run)
    while [ $# -gt 0 ]; do
      case "$1" in
        --name) name=$2; shift 2 ;;
        --log-driver|--gpus|--network|--ipc|--ulimit|--stop-timeout|--env|--volume) shift 2 ;;
        --detach) shift ;;
        *) break ;;
      esac
    done
    shift # the image
    : > "$state/$name.log"
    setsid sh -c '"$@" >> "$0.log" 2>&1 & echo $! > "$0.child"; echo $$ > "$0.pid"; wait $!; echo $? > "$0.code"' "$state/$name" $STAND_IN_ENTRY "$@" </dev/null >/dev/null 2>&1 &
    until [ -s "$state/$name.pid" ]; do sleep 0.02; done
    echo "id-of-$name" ;;
  logs)
    for name; do :; done
    # Lines of the log have no times: --since begins where the log ended at the last inspect.
    case "$*" in *--since*) from=$(cat "$state/$name.seen") ;; *) from=0 ;; esac
    exec tail --pid="$(cat "$state/$name.pid")" -c "+$((from + 1))" -f "$state/$name.log" ;;
  wait)
    until [ -s "$state/$1.code" ]; do
      [ -e "$state/$1.pid" ] || { echo "no such container" >&2; exit 1; }
      [ -e "$here/down" ] && { echo "unexpected EOF" >&2; exit 1; }
      sleep 0.05
    done
    cat "$state/$1.code" ;;
  kill)
    [ -e "$state/$3.code" ] && { echo "container is not running" >&2; exit 1; }
    if [ "$2" = SIGKILL ]; then
      kill -KILL -"$(cat "$state/$3.pid")"; echo 137 > "$state/$3.code"
    else kill -TERM "$(cat "$state/$3.child")"; fi ;;
  inspect)
    for name; do :; done
    [ -e "$state/$name.pid" ] || { echo "no such object" >&2; exit 1; }
    wc -c < "$state/$name.log" > "$state/$name.seen"
    if [ -e "$state/$name.code" ]; then echo false; else echo true; fi ;;
  rm)
    for name; do :; done
    if [ -e "$state/$name.pid" ] && [ ! -e "$state/$name.code" ]; then kill -KILL -"$(cat "$state/$name.pid")"; fi
    rm -f "$state/$name.pid" "$state/$name.child" "$state/$name.log" "$state/$name.code" "$state/$name.seen" ;;
  *) echo "unknown command $verb" >&2; exit 1 ;;
esac
`;

/**
 * Writes the stand-in to a folder. Its caller puts the folder into PATH, and into STAND_IN_ENTRY the words that stand
 * for the entry point of the image.
 */
export function standInDocker(folder: string): StandInDocker {
  const bin = join(folder, 'docker-bin');
  mkdirSync(join(bin, 'containers'), { recursive: true });
  writeFileSync(join(bin, 'docker'), SCRIPT);
  chmodSync(join(bin, 'docker'), 0o755);
  return {
    bin,
    calls: () => {
      const path = join(bin, 'calls');
      if (!existsSync(path)) return [];
      const lines = readFileSync(path, 'utf8')
        .split('\n')
        .filter((line) => line !== '');
      return lines.map((line) => line.split('\x1f').slice(0, -1));
    },
    pids: () => {
      const state = join(bin, 'containers');
      const running = readdirSync(state).filter(
        (name) => name.endsWith('.pid') && !existsSync(join(state, name.replace(/pid$/, 'code'))),
      );
      return running.map((name) => Number(readFileSync(join(state, name), 'utf8')));
    },
    failPulls: (count) => writeFileSync(join(bin, 'pull-failures'), String(count)),
    setDaemon: (isUp) => (isUp ? rmSync(join(bin, 'down'), { force: true }) : writeFileSync(join(bin, 'down'), '')),
  };
}
