import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { constants } from 'node:os';
import { type Clock, systemClock } from '../shared/clock/index.ts';
import { ConfigError, type Process, type ResolvedConfig, renderSettingsJson } from '../shared/config/index.ts';
import { reasonOf } from '../shared/errors/index.ts';
import { tellUntold } from '../shared/telemetry/index.ts';

/** A process as the system describes it. */
interface ProcessFacts {
  readonly parentPid: number;
  /** Command line, with blanks between its words. */
  readonly command: string;
}

const LOOK_MS = 500;

/**
 * Command line of a shell. `npm start` and `npx stator` run this program in one, which may have replaced itself by it.
 */
const SHELL = /^(?:\S*\/)?-?(?:ba|da|a|z|k)?sh /;

const RUNNER = /^(?:\S*node\S* )?(?:\S*\/)?(?:p?np[mx]|yarn)(?:-cli)?(?:\.c?js)? /;

const STOP_SIGNALS = ['SIGTERM', 'SIGINT', 'SIGHUP'] as const;
/**
 * Time in which two SIGINTs count as one, in milliseconds. Ctrl-C reaches every process of the terminal, and npm
 * forwards its own to this process.
 */
const REPEAT_MS = 1000;

/**
 * Resolves with the reason why the process must end. It is the name of the first SIGTERM, SIGINT or SIGHUP, the end of
 * the parent with an IPC channel, or the end of the npm that started this process. A later signal ends the process at
 * once with the exit code that shells expect.
 * @param interruptTaken once it aborts, SIGINT is for other code: Ctrl-C then does not mean the end
 */
export function stopSignal(interruptTaken?: AbortSignal): Promise<string> {
  return new Promise((resolve) => {
    let stoppedMs: number | undefined;
    const stop = (reason: string): void => {
      stoppedMs ??= systemClock.nowMs();
      tellUntold(); // the process may be killed before it has ended
      resolve(reason);
    };
    const onSignal = (signal: NodeJS.Signals): void => {
      if (stoppedMs === undefined) stop(signal);
      else if (systemClock.nowMs() - stoppedMs > REPEAT_MS) process.exit(128 + constants.signals[signal]);
    };
    for (const signal of STOP_SIGNALS) process.on(signal, onSignal);
    interruptTaken?.addEventListener('abort', () => process.off('SIGINT', onSignal), { once: true });
    watchNpm(systemClock, () => stop('end of npm'));
    const onParentGone = (): void => stop('end of the parent channel');
    process.once('disconnect', onParentGone);
    if (process.connected === false) onParentGone(); // the parent closed it early; undefined = no channel
    // Listening keeps the channel open, and an open channel keeps the process alive. A process that has drained must be
    // free to end.
    process.channel?.unref();
  });
}

/**
 * Calls `onGone` once the npm (npx, pnpm, yarn) that has started this process is gone. npm forwards signals to a shell
 * that keeps them for itself, and forwards nothing when it is killed. A user who ends npm means the process that it
 * runs. Never calls in a process that another program has started: a service, or a process in the background, outlives
 * its shell.
 */
function watchNpm(clock: Clock, onGone: () => void): void {
  if (process.env.npm_execpath === undefined) return; // no npm is among the parents
  const parent = process.ppid;
  const runner = findRunner(parent);
  if (runner === undefined) return;
  const timer = clock.every(LOOK_MS, () => {
    if (process.ppid === parent && isAlive(runner)) return;
    timer.cancel();
    onGone();
  });
}

/** Finds the parent, or the parent of the shell in between. */
function findRunner(parentPid: number): number | undefined {
  const parent = factsOf(parentPid);
  if (parent === undefined) return undefined;
  if (!SHELL.test(parent.command)) return RUNNER.test(parent.command) ? parentPid : undefined;
  const above = factsOf(parent.parentPid);
  return above !== undefined && RUNNER.test(above.command) ? parent.parentPid : undefined;
}

function factsOf(pid: number): ProcessFacts | undefined {
  try {
    return existsSync('/proc/self/stat') ? readProc(pid) : readPs(pid); // slim images lack ps, other systems /proc
  } catch {
    return undefined; // it has ended, or this user may not see it
  }
}

function readProc(pid: number): ProcessFacts {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  const [, parentPid] = stat.slice(stat.lastIndexOf(')') + 2).split(' '); // the name in brackets may have blanks
  const command = readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ');
  return { parentPid: Number(parentPid), command };
}

function readPs(pid: number): ProcessFacts {
  const line = execFileSync('ps', ['-o', 'ppid=,command=', '-p', String(pid)], { encoding: 'utf8' }).trim();
  const at = line.indexOf(' ');
  return { parentPid: Number(line.slice(0, at)), command: `${line.slice(at).trim()} ` };
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'; // another user's process, but alive
  }
}

/** A process that serves and can be drained. */
interface Drainable {
  drain(): Promise<void>;
}

/**
 * Runs the life of a worker process: starts it, and then calls `serve`. If a signal comes before that, it cancels the
 * start and closes what has started. Resolves with the exit code.
 * @param serve gets the running process and the reason to end, and drains
 */
export async function serveUntilStopped<Running extends Drainable>(
  start: (signal: AbortSignal) => Promise<Running>,
  serve: (running: Running, stopped: Promise<string>) => Promise<number>,
): Promise<number> {
  const stopped = stopSignal();
  const starting = new AbortController();
  const ready = start(starting.signal);
  const first = await Promise.race([ready, stopped]);
  if (typeof first !== 'string') return serve(first, stopped);
  starting.abort(new Error(first));
  await ready.then((running) => running.drain()).catch(() => undefined); // a cancelled start may have failed
  return 0;
}

const IDLE_WAKE_MS = 3_600_000;

/**
 * Keeps the process alive until `work` settles, and settles as it does. The timers of services do not keep it alive, so
 * a process that only waits, for example for an engine, would end early.
 */
export async function stayAlive<T>(work: () => Promise<T>): Promise<T> {
  const alive = setInterval(() => {}, IDLE_WAKE_MS);
  try {
    return await work();
  } finally {
    clearInterval(alive);
  }
}

/**
 * Writes the effective settings to the file of `--dump-config-to`, for commands that have that flag.
 * @throws Error with one line that names the flag
 */
export async function dumpConfig<P extends Process>(config: ResolvedConfig<P>): Promise<void> {
  const settings: object = config.settings;
  const path = 'dumpConfigTo' in settings ? settings.dumpConfigTo : undefined;
  if (typeof path !== 'string') return;
  try {
    await writeFile(path, renderSettingsJson(config));
  } catch (thrown) {
    throw new Error(`cannot write --dump-config-to ${path}: ${reasonOf(thrown)}; name a file in a writable folder`);
  }
}

/**
 * Writes lines on stderr. A message with line ends stays one line: plain text, or one JSON object if machines read the
 * logs.
 */
export function report(level: 'warning' | 'error', lines: readonly string[], jsonl = false): void {
  for (const line of lines.map((text) => text.replaceAll(/\s*\n\s*/g, ' '))) {
    const time = new Date().toISOString();
    const record = { time, level: level === 'warning' ? 'WARN' : 'ERROR', target: 'config', message: line };
    process.stderr.write(
      jsonl ? `${JSON.stringify(record)}\n` : `stator: ${level === 'warning' ? 'warning: ' : ''}${line}\n`,
    );
  }
}

/** Exit code for mistakes on the command line or in the settings. */
export const USAGE_EXIT = 2;
const FAILURE_EXIT = 1;
/** Errors of mistakes, by name: the commands that need them load the rooms that throw them. */
const USAGE_ERRORS: readonly string[] = ['UsageError', 'KvRouterConfigError'];

/** Writes on stderr why the process ends, one line for each problem, and returns the exit code. */
export function exitCodeOf(thrown: unknown): number {
  if (thrown instanceof ConfigError) {
    report('error', thrown.problems);
    return USAGE_EXIT;
  }
  report('error', [reasonOf(thrown).split('\n')[0] ?? 'failed']);
  return thrown instanceof Error && USAGE_ERRORS.includes(thrown.name) ? USAGE_EXIT : FAILURE_EXIT;
}
