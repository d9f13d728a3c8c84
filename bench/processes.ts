import { type ChildProcess, spawn } from 'node:child_process';
import { openSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** Processes of one benchmark side, all ended together. */
export class ProcessGroup {
  readonly #children: ChildProcess[] = [];
  readonly #logFolder: string;

  constructor(logFolder: string) {
    this.#logFolder = logFolder;
  }

  start(
    name: string,
    command: string,
    args: readonly string[],
    env: Readonly<Record<string, string>> = {},
  ): ChildProcess & { pid: number } {
    const log = openSync(join(this.#logFolder, `${name}.log`), 'a');
    const child = spawn(command, args, { stdio: ['ignore', log, log], env: { ...process.env, ...env } });
    this.#children.push(child);
    if (child.pid === undefined) throw new Error(`cannot start ${command}`);
    return child as ChildProcess & { pid: number };
  }

  async stop(): Promise<void> {
    await Promise.all(this.#children.map(end));
    this.#children.length = 0;
  }
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const closed = new Promise((resolve) => child.once('exit', resolve));
  child.kill('SIGTERM');
  const impatient = setTimeout(() => child.kill('SIGKILL'), 8000);
  await closed;
  clearTimeout(impatient);
}

/** Resident memory of a process in MiB, from the kernel: `VmRSS` now, `VmHWM` at most. */
export function residentMiB(pid: number, field: 'VmRSS' | 'VmHWM' = 'VmRSS'): number {
  const match = new RegExp(`${field}:\\s+(\\d+) kB`).exec(readFileSync(`/proc/${pid}/status`, 'utf8'));
  return match === null ? Number.NaN : Number(match[1]) / 1024;
}

/** Open sockets of a process. */
export function openSockets(pid: number): number {
  const links = readFileSync(`/proc/${pid}/net/sockstat`, 'utf8');
  return Number(/TCP: inuse (\d+)/.exec(links)?.[1] ?? Number.NaN);
}

export async function waitUntil(what: string, timeoutMs: number, isDone: () => Promise<boolean>): Promise<void> {
  const deadline = performance.now() + timeoutMs;
  while (!(await isDone())) {
    if (performance.now() > deadline) throw new Error(`${what}: not within ${timeoutMs} ms`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}
