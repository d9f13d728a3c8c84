import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';

interface ProcessRow {
  readonly pid: number;
  readonly parentPid: number;
  /** State, one letter first. `Z` is a process that has ended and whose parent has not collected it. */
  readonly state: string;
}

/** Returns the running processes that `pid` started. */
export function childPids(pid: number): readonly number[] {
  return runningProcesses().flatMap((row) => (row.parentPid === pid ? [row.pid] : []));
}

export function isRunning(pid: number): boolean {
  return runningProcesses().some((row) => row.pid === pid);
}

function runningProcesses(): readonly ProcessRow[] {
  const rows = existsSync('/proc/self/stat') ? readProc() : readPs(); // slim images have no ps, other systems no /proc
  return rows.filter(({ state }) => !state.startsWith('Z'));
}

function readProc(): readonly ProcessRow[] {
  return readdirSync('/proc').flatMap((name) => {
    const row = /^\d+$/.test(name) ? readStat(Number(name)) : undefined;
    return row === undefined ? [] : [row];
  });
}

function readStat(pid: number): ProcessRow | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const [state = '', parentPid] = text.slice(text.lastIndexOf(')') + 2).split(' '); // the name may contain anything
    return { pid, parentPid: Number(parentPid), state };
  } catch {
    return undefined; // ended since the listing
  }
}

function readPs(): readonly ProcessRow[] {
  const lines = execFileSync('ps', ['-A', '-o', 'pid=,ppid=,stat='], { encoding: 'utf8' }).trim().split('\n');
  return lines.map((line) => {
    const [pid, parentPid, state = ''] = line.trim().split(/\s+/);
    return { pid: Number(pid), parentPid: Number(parentPid), state };
  });
}

/** Returns the CPU time of all threads of a process in milliseconds, or undefined if the system does not report it. */
export function cpuMsOf(pid: number): number | undefined {
  try {
    const nanoseconds = readdirSync(`/proc/${pid}/task`).map((thread) =>
      Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'utf8').split(' ')[0]),
    );
    return nanoseconds.reduce((sum, each) => sum + each, 0) / 1e6;
  } catch {
    return undefined; // no /proc, or the process has ended
  }
}
