import { type ChildProcess, spawn } from 'node:child_process';
import type { Clock } from '../../clock/index.ts';
import { forAtMost } from '../../concurrency/index.ts';
import { RootCause } from './root-cause.ts';

/** Length at which a line is cut: progress bars and dumps do not belong in logs. */
const LINE_CHARS_MAX = 4096;

/** Splits the output of a process into lines. A line that ends only in CR (progress bars) counts, too. */
class OutputLines {
  readonly #onLine: (line: string) => void;
  #rest = '';

  constructor(onLine: (line: string) => void) {
    this.#onLine = onLine;
  }

  push(text: string): void {
    const lines = (this.#rest + text).split(/\r\n|\n|\r/);
    this.#rest = (lines.pop() ?? '').slice(0, LINE_CHARS_MAX);
    for (const line of lines) if (line !== '') this.#onLine(line.slice(0, LINE_CHARS_MAX));
  }

  end(): void {
    if (this.#rest !== '') this.#onLine(this.#rest);
    this.#rest = '';
  }
}

/** Returns the level of a line in an engine's output: engines written in Python name the level near its start. */
export function levelOfLine(line: string): 'info' | 'warn' | 'error' {
  const head = line.slice(0, 120);
  if (/\b(ERROR|CRITICAL|FATAL)\b|^Traceback \(/.test(head)) return 'error';
  return /\bWARN(ING)?\b/.test(head) ? 'warn' : 'info';
}

/** Command that starts an engine. */
export interface LaunchCommand {
  /** Program, looked up in `PATH`. */
  readonly program: string;
  readonly args: readonly string[];
  /** Variables added to the environment of this process. */
  readonly env: Readonly<Record<string, string>>;
}

interface EngineProcessOptions {
  readonly command: LaunchCommand;
  readonly clock: Clock;
  /** Takes every line that the engine writes. */
  onLine(line: string): void;
}

/** End of a process. */
export interface ProcessEnd {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  /** Description, with the cause if the output shows it, otherwise with its last lines. */
  readonly reason: string;
  /** Last lines of output. */
  readonly tail: readonly string[];
}

const TAIL_LINES = 20;
/** Time after SIGKILL after which a process is given up: it hangs in the kernel. */
const KILL_WAIT_MS = 5000;
/** Time in which the output of a process may still arrive after its end. */
const OUTPUT_WAIT_MS = 1000;

/**
 * Script of the shell that becomes the engine (`exec` keeps its process id, and with it the process group). A watcher
 * waits on the pipe of descriptor 3, whose other end only this process holds, and kills the group when the pipe closes.
 * So no engine outlives a sidecar, however that ends: an engine has several processes, and orphans keep GPU memory and
 * ports.
 */
const GUARDED_EXEC = `
(
  trap '' HUP INT TERM
  exec 0</dev/null 1>/dev/null 2>/dev/null
  read -r _ <&3
  kill -s KILL -- -$$
) &
exec "$@" 3<&-
`;

/** Engine in a process group of its own. */
export class EngineProcess {
  /** Resolves when the engine's first process has ended, for whatever reason, and its output has been read. */
  readonly ended: Promise<ProcessEnd>;
  readonly #options: EngineProcessOptions;
  readonly #child: ChildProcess;
  readonly #tail: string[] = [];
  readonly #cause = new RootCause();
  #hasEnded = false;

  constructor(options: EngineProcessOptions) {
    const { command } = options;
    this.#options = options;
    this.#child = spawn('/bin/sh', ['-c', GUARDED_EXEC, 'engine', command.program, ...command.args], {
      detached: true, // a session and a process group of its own: signals to this process's group do not reach it
      stdio: ['ignore', 'pipe', 'pipe', 'pipe'],
      env: { ...process.env, ...command.env },
    });
    this.#readOutput();
    const closed = new Promise<void>((resolve) => this.#child.once('close', () => resolve()));
    this.ended = new Promise((resolve) => {
      const end = async (code: number | null, signal: NodeJS.Signals | null, what: string): Promise<void> => {
        if (this.#hasEnded) return;
        this.#hasEnded = true;
        this.#killGroup(); // its other processes are useless without it
        await forAtMost({ clock: options.clock, timeoutMs: OUTPUT_WAIT_MS }, () => closed);
        resolve({ code, signal, reason: this.#describe(what), tail: this.#tail });
      };
      this.#child.once('error', (error) => void end(null, null, `cannot be started (${error.message})`));
      this.#child.once('exit', (code, signal) => void end(code, signal, `ended with ${code ?? signal}`));
    });
  }

  /** For tests: tells which process it is. */
  get pid(): number | undefined {
    return this.#child.pid;
  }

  /** Asks the engine to end, and kills its whole group if it has not ended within `graceMs`. Idempotent. */
  async stop(graceMs: number): Promise<void> {
    if (!this.#hasEnded) {
      this.#child.kill('SIGTERM');
      await this.endedWithin(graceMs);
    }
    this.#killGroup();
    await this.endedWithin(KILL_WAIT_MS);
  }

  /** Returns how it ended; undefined if it has not within `limitMs`. */
  async endedWithin(limitMs: number): Promise<ProcessEnd | undefined> {
    const limit = { clock: this.#options.clock, timeoutMs: limitMs };
    return (await forAtMost(limit, () => this.ended)) ? this.ended : undefined;
  }

  #readOutput(): void {
    const lines = new OutputLines((line) => {
      this.#cause.read(line);
      this.#tail.push(line);
      if (this.#tail.length > TAIL_LINES) this.#tail.shift();
      this.#options.onLine(line);
    });
    for (const stream of [this.#child.stdout, this.#child.stderr]) {
      stream?.setEncoding('utf8').on('data', (text: string) => lines.push(text));
      stream?.once('end', () => lines.end());
    }
    // The pipe stays open for the watcher; nothing is written to it, and it must not keep this process alive.
    const guard = this.#child.stdio[3];
    guard?.on('error', () => {}); // the watcher is gone, and with it the group
    if (guard !== null && guard !== undefined && 'unref' in guard) (guard as { unref(): void }).unref();
  }

  #killGroup(): void {
    const { pid } = this.#child;
    if (pid === undefined) return;
    try {
      process.kill(-pid, 'SIGKILL');
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error; // the group has no process left
    }
  }

  #describe(what: string): string {
    const said = this.#tail.filter((line) => line.trim() !== '').slice(-3);
    const why = this.#cause.find() ?? said.join(' | ');
    const { program } = this.#options.command;
    return why === '' ? `${program} ${what}` : `${program} ${what}: ${why}`;
  }
}
