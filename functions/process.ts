import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { constants } from 'node:os';
import { type Clock, systemClock } from '../shared/clock/index.ts';
import { ConfigError, type Process, type ResolvedConfig, renderSettingsJson } from '../shared/config/index.ts';
import { reasonOf } from '../shared/errors/index.ts';
import { tellUntold } from '../shared/telemetry/index.ts';

/** A process as the system tells of it. */
interface ProcessFacts {
  readonly parentPid: number;
  /** Command line, blanks between its words. */
  readonly command: string;
}

const LOOK_MS = 500;

/** `npm start` and `npx stator` run us in a shell, which may or may not have become us. */
const SHELL = /^(?:\S*\/)?-?(?:ba|da|a|z|k)?sh /;

const RUNNER = /^(?:\S*node\S* )?(?:\S*\/)?(?:p?np[mx]|yarn)(?:-cli)?(?:\.c?js)? /;

const STOP_SIGNALS = ['SIGTERM', 'SIGINT', 'SIGHUP'] as const;
/** Ctrl-C reaches every process of the terminal, and npm hands the one that it got on to us: that is one wish, not two. */
const REPEAT_MS = 1000;

/**
 * Resolves with what ends the process: the name of the first SIGTERM, SIGINT or SIGHUP, or that the parent which holds an IPC
 * channel closed it or is gone, or that the npm which started it is gone. A signal later than that ends the process at once
 * with the exit code that shells expect.
 * @param interruptTaken from when it aborts SIGINT is somebody else's to hear: Ctrl-C means something other than the end
 */
export function stopSignal(interruptTaken?: AbortSignal): Promise<string> {
  return new Promise((resolve) => {
    let stoppedMs: number | undefined;
    const stop = (reason: string): void => {
      stoppedMs ??= systemClock.nowMs();
      tellUntold(); // whoever stops us may not wait until we have ended
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
    if (process.connected === false) onParentGone(); // while this program was being loaded; undefined = never had one
    // Listening keeps the channel open, and an open channel the process alive: one that has drained must be free to end.
    process.channel?.unref();
  });
}

/**
 * Calls `onGone` once the npm (npx, pnpm, yarn) that has started this process is gone. They hand signals on to a shell that
 * keeps them for itself, and nothing at all when they are killed outright; whoever ends them means what they run. Never calls
 * in a process that somebody else has started: a service, or one that was put into the background, outlives its shell.
 */
function watchNpm(clock: Clock, onGone: () => void): void {
  if (process.env.npm_execpath === undefined) return; // nobody of that kind is above us
  const parent = process.ppid;
  const runner = findRunner(parent);
  if (runner === undefined) return;
  const timer = clock.every(LOOK_MS, () => {
    if (process.ppid === parent && isAlive(runner)) return;
    timer.cancel();
    onGone();
  });
}

/** The parent, or the parent of the shell in between. */
function findRunner(parentPid: number): number | undefined {
  const parent = factsOf(parentPid);
  if (parent === undefined) return undefined;
  if (!SHELL.test(parent.command)) return RUNNER.test(parent.command) ? parentPid : undefined;
  const above = factsOf(parent.parentPid);
  return above !== undefined && RUNNER.test(above.command) ? parent.parentPid : undefined;
}

function factsOf(pid: number): ProcessFacts | undefined {
  try {
    return existsSync('/proc/self/stat') ? readProc(pid) : readPs(pid); // slim images have no ps, other systems no /proc
  } catch {
    return undefined; // ended meanwhile, or not ours to see
  }
}

function readProc(pid: number): ProcessFacts {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  const [, parentPid] = stat.slice(stat.lastIndexOf(')') + 2).split(' '); // the name in brackets may hold anything
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
    return (error as NodeJS.ErrnoException).code === 'EPERM'; // somebody else's, but there
  }
}

/** What serves and can be drained. */
interface Drainable {
  drain(): Promise<void>;
}

/**
 * The life of a worker process: starts, and hands over to `serve` once it has; told to stop before that, it gives up and
 * cleans up what had started. Resolves with the exit code.
 * @param serve is given what serves and what ends the process, and drains
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
  await ready.then((running) => running.drain()).catch(() => undefined); // a start that was given up may well have failed
  return 0;
}

/**
 * Writes the effective settings where `--dump-config-to` says, for commands that have that flag.
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

/** Lines on stderr, each of them one line whatever a message quotes: plain, or one JSON object each where logs are read by machines. */
export function report(level: 'warning' | 'error', lines: readonly string[], jsonl = false): void {
  for (const line of lines.map((text) => text.replaceAll(/\s*\n\s*/g, ' '))) {
    const time = new Date().toISOString();
    const record = { time, level: level === 'warning' ? 'WARN' : 'ERROR', target: 'config', message: line };
    process.stderr.write(
      jsonl ? `${JSON.stringify(record)}\n` : `stator: ${level === 'warning' ? 'warning: ' : ''}${line}\n`,
    );
  }
}

/** Of mistakes on the command line or in the settings. */
export const USAGE_EXIT = 2;
const FAILURE_EXIT = 1;
/** By name: the rooms that throw them are loaded by the commands that need them. */
const USAGE_ERRORS: readonly string[] = ['UsageError', 'KvRouterConfigError'];

/** Says on stderr why the process ends, a line for each problem; the exit code. */
export function exitCodeOf(thrown: unknown): number {
  if (thrown instanceof ConfigError) {
    report('error', thrown.problems);
    return USAGE_EXIT;
  }
  report('error', [reasonOf(thrown).split('\n')[0] ?? 'failed']);
  return thrown instanceof Error && USAGE_ERRORS.includes(thrown.name) ? USAGE_EXIT : FAILURE_EXIT;
}
