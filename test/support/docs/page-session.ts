import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { waitUntil } from '../wait-until.ts';
import type { FreshClone } from './fresh-clone.ts';
import { PROTOC, toolchainEnvironment } from './toolchains.ts';

const BUILTIN_MODEL = fileURLToPath(new URL('../../../shared/artifacts/builtin-model', import.meta.url));
const COMMAND_MS_MAX = 100_000;
const STOP_MS_MAX = 15_000;
/**
 * The shell function `npx`, which skips the half second of npx's own search. The test of the installed package covers
 * that search.
 */
const NPX = 'npx() { if [ "$1" = stator ]; then shift; node bin/stator.js "$@"; else command npx "$@"; fi; }';

/** The kind of a command, which decides how a session runs it. */
type Kind =
  /** An assignment that counts for the rest of the page. */
  | 'setting'
  /** A command that runs everything on the port of the page. It replaces all running commands. */
  | 'local'
  /** A command that serves that port. It replaces the previous one. */
  | 'frontend'
  | 'worker'
  | 'planner'
  /** A command that talks through its standard input. */
  | 'chat'
  /** A command that ends by itself, and needs what runs. */
  | 'client';

interface Running {
  readonly kind: Kind;
  readonly child: ChildProcess;
  readonly output: () => string;
}

const FRONTENDS = ['npx stator frontend', 'npx stator grpc', 'python -m dynamo.frontend'];
const WORKERS = ['npx stator worker', 'python -m dynamo.mocker'];

/** `export NAME=VALUE`, several in one line, with a comment behind it. */
const SETTING = /^(?:export )?(?:[A-Z_]+=(?:'[^']*'|"[^"]*"|\$\([^)]*\)|[^\s$]*) *)+(?:#.*)?$/;
const ASSIGNED = /([A-Z_]+)=\$\(([^)]*)\)/g;

/** Local ports for the ports that pages name. */
export interface PagePorts {
  /** Port for 8000, on which the page serves. */
  readonly http: number;
  /** Port for 8001, of a server that speaks the OpenAI API. */
  readonly engine: number;
  /** Ports for others, such as 5557 and 5558, in this order. */
  readonly others: ReadonlyMap<string, number>;
}

/** Types the commands of one page in order, as a reader with several terminals would. */
export class PageSession {
  readonly #clone: FreshClone;
  readonly #ports: PagePorts;
  readonly #given: Readonly<Record<string, string>>;
  readonly #folder = mkdtempSync(join(tmpdir(), 'stator-docs-'));
  readonly #settings: string[] = [];
  #running: Running[] = [];

  /**
   * @param given variables of the reader's machine, such as addresses of servers
   */
  constructor(clone: FreshClone, ports: PagePorts, given: Readonly<Record<string, string>> = {}) {
    this.#clone = clone;
    this.#ports = ports;
    this.#given = given;
    // Stands in for the model that the README tells the reader to download.
    mkdirSync(join(this.#folder, 'models'));
    cpSync(BUILTIN_MODEL, join(this.#folder, 'models/Qwen3-0.6B'), { recursive: true });
  }

  /** Saves a file of the page under the name in its first line. Returns the name without its folder. */
  save(text: string): string {
    const name = text.match(/^(?:\/\/|#) (\S+\.(?:mjs|py|go))\n/)?.[1];
    if (name === undefined) throw new Error('the first line of a program names its file, such as // parrot.mjs');
    const path = join(this.#clone.root, name);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, this.#mapped(text));
    return basename(name);
  }

  /** Runs one command. Resolves when it has succeeded, or when it serves. */
  async run(command: string): Promise<void> {
    const kind = this.#kindOf(command);
    if (kind === 'setting') {
      this.#settings.push(`export ${await this.#evaluated(command.replace(/^export /, ''))}`);
      return;
    }
    if (kind === 'client') return void (await this.#runToEnd(command, ''));
    await this.#makeRoomFor(kind);
    if (kind === 'chat') return void (await this.#runToEnd(command, 'What are you?\n'));
    const running = this.#start(kind, command);
    this.#running.push(running);
    await this.#untilServing(running, command);
  }

  /** Waits, after the last command of a block, until its workers and frontend have discovered each other. */
  async settle(): Promise<void> {
    const kinds = this.#running.map(({ kind }) => kind);
    if (!kinds.includes('frontend') || !kinds.includes('worker')) return;
    const found = async () => (await this.#models()).length > 0;
    await waitUntil(found, { timeoutMs: 20_000, pollMs: 50, what: 'the frontend serves the workers' });
  }

  async close(): Promise<void> {
    await this.#stop(() => true);
    rmSync(this.#folder, { recursive: true, force: true });
  }

  #kindOf(command: string): Kind {
    if (SETTING.test(command)) return 'setting';
    const program =
      command.match(/(?:^|&& |\w=\S+ )(npm start|npx stator \w+|node \S+|python -m dynamo\.\w+)/)?.[1] ?? '';
    if (program === 'npm start' || program === 'npx stator local') {
      return / (-i|--interactive)\b/.test(command) ? 'chat' : 'local';
    }
    if (FRONTENDS.includes(program)) return 'frontend';
    if (WORKERS.includes(program)) return 'worker';
    if (program === 'npx stator planner' && !/planner (explain|report)/.test(command)) return 'planner';
    if (!program.startsWith('node ')) return 'client';
    const source = readFileSync(join(this.#clone.root, program.slice(5)), 'utf8');
    if (source.includes('createFrontend(')) return 'frontend';
    return source.includes('defineWorker(') ? 'worker' : 'client';
  }

  /** Returns the assignments, after it has run each `$(command)` in them once. */
  async #evaluated(assignments: string): Promise<string> {
    let evaluated = this.#mapped(assignments);
    for (const [whole, name, command = ''] of assignments.matchAll(ASSIGNED)) {
      evaluated = evaluated.replace(this.#mapped(whole), `${name}='${(await this.#runToEnd(command, '')).trim()}'`);
    }
    return evaluated;
  }

  /** Replaces the ports and folders of pages, which everything on a machine shares. */
  #mapped(text: string): string {
    const { http, engine, others } = this.#ports;
    const ports = new Map([['8000', http], ['8001', engine], ...others]);
    return text
      .replaceAll(/\b\d{4}\b/g, (digits) => `${ports.get(digits) ?? digits}`)
      .replaceAll('/tmp/stator-', join(this.#folder, 'tmp-'));
  }

  #environment(): NodeJS.ProcessEnv {
    const outside = Object.entries(process.env).filter(([name]) => !/^(DYN|STATOR|AWS|VITEST|npm)_|^NODE_/.test(name));
    const places = { HOME: this.#folder, XDG_STATE_HOME: join(this.#folder, 'state'), TMPDIR: this.#folder };
    const own = { ...places, PORT: `${this.#ports.http}`, NO_COLOR: '1' };
    return {
      ...Object.fromEntries(outside),
      ...own,
      ...toolchainEnvironment(),
      DYN_HTTP_PORT: `${this.#ports.http}`,
      ...this.#given,
    };
  }

  #start(kind: Kind, command: string): Running {
    // A status that is not 2xx fails the command.
    const curl = 'curl() { command curl --silent --show-error --fail-with-body --max-time 30 "$@"; }';
    const script = [this.#clone.npmFunction, NPX, PROTOC, curl, ...this.#settings, this.#mapped(command)].join('\n');
    const child = spawn('sh', ['-c', script], {
      cwd: this.#clone.root,
      env: this.#environment(),
      stdio: ['pipe', 'pipe', 'pipe'],
      detached: true, // its own group, so that one signal ends all of it
    });
    let output = '';
    for (const stream of [child.stdout, child.stderr]) {
      stream?.setEncoding('utf8').on('data', (text: string) => {
        output += text;
      });
    }
    child.stdin?.on('error', () => {}); // it need not read its input
    return { kind, child, output: () => output };
  }

  /** Returns its standard output. */
  async #runToEnd(command: string, input: string): Promise<string> {
    const source = command.match(/node (\S+\.mjs)/)?.[1];
    const asked = source === undefined ? command : readFileSync(join(this.#clone.root, source), 'utf8');
    await this.#untilModel(asked.match(/"?model"?: ?['"]([^'"]+)['"]/)?.[1]);
    const { child, output } = this.#start('client', command);
    let stdout = '';
    child.stdout?.on('data', (text: string) => {
      stdout += text;
    });
    child.stdin?.end(input);
    const deadline = setTimeout(() => endGroup(child, 'SIGKILL'), COMMAND_MS_MAX);
    const [code] = (await once(child, 'close')) as [number | null];
    clearTimeout(deadline);
    if (code !== 0) throw new Error(`${command}\nended with ${code ?? 'a time-out'}:\n${output()}\n${this.#outputs()}`);
    return stdout;
  }

  async #makeRoomFor(kind: Kind): Promise<void> {
    if (kind === 'local' || kind === 'chat') await this.#stop(() => true);
    if (kind === 'frontend') await this.#stop((running) => running.kind !== 'worker');
    if (kind === 'planner') await this.#stop((running) => running.kind === 'planner');
  }

  async #untilServing({ kind, child, output }: Running, command: string): Promise<void> {
    const serves = async () => {
      if (child.exitCode !== null) return 'ended' as const;
      if (kind === 'worker') return /worker is ready|worker\(s\) created and running/.test(output());
      if (kind === 'planner') return /planning law=/.test(output());
      return (await this.#models()).length >= (kind === 'local' ? 1 : 0);
    };
    const outcome = await waitUntil(serves, { timeoutMs: COMMAND_MS_MAX, pollMs: 50, what: command }).catch(
      (error: Error) => error.message,
    );
    if (outcome !== true) throw new Error(`${command}\n${outcome}:\n${output()}`);
  }

  async #untilModel(name: string | undefined): Promise<void> {
    if (name === undefined) return;
    const what = `${name} is served`;
    await waitUntil(async () => (await this.#models()).includes(name), { timeoutMs: 20_000, pollMs: 50, what });
  }

  async #models(): Promise<readonly string[]> {
    const [, key = 'none'] = this.#settings.join('\n').match(/\bAPI_KEY='([^']+)'/) ?? [];
    const headers = { authorization: `Bearer ${key}` };
    const response = await fetch(`http://127.0.0.1:${this.#ports.http}/v1/models`, { headers });
    if (!response.ok) throw new Error(`status ${response.status}`);
    const { data } = (await response.json()) as { data: readonly { id: string }[] };
    return data.map(({ id }) => id);
  }

  async #stop(wanted: (running: Running) => boolean): Promise<void> {
    const ending = this.#running.filter(wanted);
    this.#running = this.#running.filter((running) => !ending.includes(running));
    await Promise.all(ending.map(({ child }) => stopGroup(child)));
  }

  #outputs(): string {
    return this.#running.map(({ kind, output }) => `--- ${kind}\n${output()}`).join('\n');
  }
}

function endGroup({ pid }: ChildProcess, signal: NodeJS.Signals): void {
  try {
    if (pid !== undefined) process.kill(-pid, signal);
  } catch {
    // all of it has ended
  }
}

/** Ends a command with everything that it started, as Ctrl-C does. */
async function stopGroup(child: ChildProcess): Promise<void> {
  const isOver = child.exitCode !== null || child.signalCode !== null ? undefined : once(child, 'close');
  endGroup(child, 'SIGINT');
  const deadline = setTimeout(() => endGroup(child, 'SIGKILL'), STOP_MS_MAX);
  await isOver;
  clearTimeout(deadline);
  endGroup(child, 'SIGKILL');
}
