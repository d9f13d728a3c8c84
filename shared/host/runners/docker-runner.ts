import { type ChildProcess, spawn } from 'node:child_process';
import type { Clock } from '../../clock/index.ts';
import { forAtMost } from '../../concurrency/index.ts';
import { OutputTail } from './followed-file.ts';
import type { ReplicaEnd, ReplicaRunner, ReplicaSpec, RunningReplica } from './types.ts';

interface DockerRunnerOptions {
  readonly image: string;
  readonly clock: Clock;
  /** Longest drain of a worker, in seconds; the daemon waits a minute more before it kills a container. */
  readonly drainSecs: number;
  /** Folders of this machine that containers see under the same path. */
  readonly volumes: readonly { readonly path: string; readonly isReadOnly: boolean }[];
}

/** Longest wait for an answer of the daemon to a short command. */
const COMMAND_MS_MAX = 60_000;
const LATER_THAN_DRAIN_SECS = 60;
/** Pause before a daemon that broke off is asked again. */
const RETRY_MS = 1000;
/** Answers in a row that the daemon owes before its containers count as ended. */
const AWAY_MAX = 60;
/** Messages of `docker inspect` for a container that does not exist, and of a machine without the program. */
const NO_CONTAINER = /no such (object|container)|ENOENT/i;
const OUTPUT_CHARS_MAX = 64 * 1024;

interface CommandEnd {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/**
 * Runs workers as containers, by the command `docker`. A container outlives the agent. The network, the IPC namespace
 * and locked memory are those of the machine, because engines exchange blocks by shared memory and RDMA.
 */
export class DockerRunner implements ReplicaRunner {
  readonly kind = 'docker';
  readonly #options: DockerRunnerOptions;

  constructor(options: DockerRunnerOptions) {
    this.#options = options;
  }

  async prepare(onProgress: () => void, signal: AbortSignal): Promise<void> {
    const { image } = this.#options;
    const found = await this.#docker(['image', 'inspect', '--format', '{{.Id}}', image]);
    if (found.code === 0) return; // an image of the AMI, or of the boot before
    const { code, stderr } = await outputOf(spawnDocker(['pull', image], {}, signal), onProgress);
    signal.throwIfAborted();
    if (code !== 0) throw new Error(`docker pull ${image}: ${lastLine(stderr)}`);
  }

  async start(spec: ReplicaSpec, onOutput: (text: string) => void): Promise<RunningReplica> {
    const name = nameOf(spec.index);
    await this.#docker(['rm', '--force', name]); // one that has ended, whose name is still taken
    const { code, stderr } = await this.#docker(this.#runArguments(name, spec), spec.env);
    if (code !== 0) {
      const end = { code: code ?? undefined, reason: `docker run: ${lastLine(stderr)}` };
      return { name, ended: Promise.resolve(end), signal: async () => {}, release: () => {} };
    }
    return this.#follow(name, onOutput, []);
  }

  async adopt(index: number, onOutput: (text: string) => void): Promise<RunningReplica | undefined> {
    const name = nameOf(index);
    const since = new Date(this.#options.clock.wallMs()).toISOString(); // of the daemon, which runs on this machine
    return (await this.#isRunning(name)) ? this.#follow(name, onOutput, ['--since', since]) : undefined;
  }

  /** The values of variables do not appear in the list of processes: docker takes them from its own environment. */
  #runArguments(name: string, { args, env, gpus }: ReplicaSpec): readonly string[] {
    const { image, drainSecs, volumes } = this.#options;
    const devices = gpus.length === 1 ? `device=${gpus[0]}` : `"device=${gpus.join(',')}"`;
    return [
      'run',
      '--detach',
      ...['--name', name],
      ...['--log-driver', 'local'], // rotates by itself
      ...(gpus.length === 0 ? [] : ['--gpus', devices]),
      ...['--network', 'host', '--ipc', 'host', '--ulimit', 'memlock=-1'],
      ...['--stop-timeout', String(Math.ceil(drainSecs) + LATER_THAN_DRAIN_SECS)],
      ...Object.keys(env).flatMap((variable) => ['--env', variable]),
      ...volumes.flatMap(({ path, isReadOnly }) => ['--volume', `${path}:${path}${isReadOnly ? ':ro' : ''}`]),
      image,
      'worker',
      ...args,
    ];
  }

  #follow(name: string, onOutput: (text: string) => void, logArguments: readonly string[]): RunningReplica {
    const tail = new OutputTail();
    const logs = spawnDocker(['logs', '--follow', ...logArguments, name]);
    const logsEnded = outputOf(logs, (text) => {
      tail.push(text);
      onOutput(text);
    });
    let waiting: ChildProcess | undefined;
    let isReleased = false;
    const wait = async (): Promise<ReplicaEnd> => {
      for (let away = 0; !isReleased && away < AWAY_MAX; await this.#options.clock.sleep(RETRY_MS)) {
        waiting = spawnDocker(['wait', name]);
        const { code, stdout } = await outputOf(waiting, () => {});
        const exit = Number(stdout.trim());
        if (code === 0 && stdout.trim() !== '' && Number.isInteger(exit)) return this.#endOf(exit, tail, logsEnded);
        if (isReleased) break;
        // The daemon restarts, or the container is gone.
        const isRunning = await this.#isRunning(name).catch(() => undefined);
        if (isRunning === false) break;
        away = isRunning ? 0 : away + 1;
      }
      return this.#endOf(undefined, tail, logsEnded);
    };
    return {
      name,
      ended: wait(),
      signal: async (signal) => {
        const { code, stderr } = await this.#docker(['kill', '--signal', signal, name]);
        if (code !== 0 && (await this.#isRunning(name))) throw new Error(`docker kill ${name}: ${lastLine(stderr)}`);
      },
      release: () => {
        isReleased = true;
        waiting?.kill('SIGKILL');
        logs.kill('SIGKILL');
      },
    };
  }

  async #endOf(code: number | undefined, tail: OutputTail, logsEnded: Promise<unknown>): Promise<ReplicaEnd> {
    await forAtMost({ clock: this.#options.clock, timeoutMs: RETRY_MS }, () => logsEnded);
    return { code, reason: `ended with ${code ?? 'an unknown code'}: ${tail.lines}` };
  }

  /** Whether a container runs. @throws Error if the daemon does not say */
  async #isRunning(name: string): Promise<boolean> {
    const { code, stdout, stderr } = await this.#docker(['inspect', '--format', '{{.State.Running}}', name]);
    if (code === 0) return stdout.trim() === 'true';
    if (NO_CONTAINER.test(stderr)) return false;
    throw new Error(`docker inspect ${name}: ${lastLine(stderr)}`);
  }

  /** Runs a short command; kills it if it takes too long, which counts as its failure. */
  async #docker(args: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<CommandEnd> {
    const child = spawnDocker(args, env);
    let isLate = false;
    const timer = this.#options.clock.after(COMMAND_MS_MAX, () => {
      isLate = true;
      child.kill('SIGKILL');
    });
    const end = await outputOf(child, () => {}); // never rejects
    timer.cancel();
    return isLate ? { ...end, stderr: `no answer within ${COMMAND_MS_MAX / 1000} s` } : end;
  }
}

function nameOf(index: number): string {
  return `stator-worker-${index}`;
}

function spawnDocker(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
  signal?: AbortSignal,
): ChildProcess {
  return spawn('docker', args, { stdio: ['ignore', 'pipe', 'pipe'], env: { ...process.env, ...env }, signal });
}

/**
 * Resolves with what a command wrote, when it has ended. Never rejects: a missing program and an aborted signal are
 * ends too.
 */
function outputOf(child: ChildProcess, onText: (text: string) => void): Promise<CommandEnd> {
  return new Promise((resolve) => {
    const output = { stdout: '', stderr: '' };
    for (const name of ['stdout', 'stderr'] as const) {
      child[name]?.setEncoding('utf8').on('data', (text: string) => {
        output[name] = (output[name] + text).slice(-OUTPUT_CHARS_MAX);
        onText(text);
      });
    }
    child.once('error', (error) => resolve({ ...output, code: null, stderr: error.message }));
    child.once('close', (code) => resolve({ ...output, code }));
  });
}

function lastLine(text: string): string {
  return text.trim().split('\n').at(-1) ?? '';
}
