import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort } from '../test/support/free-port.ts';
import { ProcessGroup, waitUntil } from './processes.ts';

/** How fast the mock workers of a side run. */
export interface Pace {
  readonly speedup: number;
  readonly decodeSpeedup: number;
  readonly maxNumSeqs: number;
  /** For the floor, which has no worker. */
  readonly msPerToken: number;
}

export interface SideOptions {
  readonly pace: Pace;
  readonly modelFolder: string;
  readonly modelName: string;
  /** Folder with a Python environment that holds the real Dynamo. */
  readonly dynamoFolder: string | undefined;
  /** Router mode of Stator's frontend. @default 'round-robin' */
  readonly routerMode?: 'round-robin' | 'kv';
  /** Environment of our own frontend besides the usual. */
  readonly frontendEnv?: Readonly<Record<string, string>>;
}

/** One server under measurement. */
export interface Side {
  readonly name: string;
  readonly url: string;
  readonly frontendPid: number;
  stop(): Promise<void>;
}

/** `mixed` is Stator's frontend before Dynamo's workers, and `mixed floor` a bare server before them. */
export type SideName = 'stator' | 'dynamo' | 'mixed' | 'floor' | 'mixed floor';

export async function startSide(name: SideName, options: SideOptions): Promise<Side> {
  const folder = await mkdtemp(join(tmpdir(), `stator-bench-${name.replace(' ', '-')}-`));
  const group = new ProcessGroup(folder);
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const frontendPid = await START[name](group, folder, port, options);
  const side: Side = {
    name,
    url,
    frontendPid,
    stop: async () => {
      await group.stop();
      await rm(folder, { recursive: true, force: true });
    },
  };
  try {
    await waitUntil(`${name} (logs in ${folder})`, 60_000, () => answers(url, options.modelName));
  } catch (error) {
    await group.stop();
    throw error;
  }
  return side;
}

type Start = (group: ProcessGroup, folder: string, port: number, options: SideOptions) => Promise<number>;

const START: Readonly<Record<SideName, Start>> = {
  async stator(group, folder, port, options) {
    const { pace, modelFolder, modelName } = options;
    const model = ['--model-path', modelFolder, '--model-name', modelName];
    const worker = ['worker', '--engine', 'mocker', ...model, ...paceFlags(pace), ...PLANES];
    const env = { DYN_FILE_KV: join(folder, 'kv'), DYN_LOG: 'warn' };
    for (const at of [0, 1]) group.start(`worker-${at}`, 'dist/stator.js', worker, env);
    return startStatorFrontend(group, folder, port, options);
  },
  async dynamo(group, folder, port, options) {
    const { python, env } = await startDynamoWorkers(group, folder, options);
    const host = ['--http-host', '127.0.0.1', '--http-port', String(port)];
    const frontend = ['-m', 'dynamo.frontend', ...host, '--router-mode', 'round-robin', ...PLANES];
    return group.start('frontend', python, frontend, env).pid;
  },
  async mixed(group, folder, port, options) {
    await startDynamoWorkers(group, folder, options);
    return startStatorFrontend(group, folder, port, options);
  },
  async floor(group, _folder, port, { pace }) {
    return group.start('floor', process.execPath, ['dist/bench-floor.js', String(port), String(pace.msPerToken)]).pid;
  },
  async 'mixed floor'(group, folder, port, options) {
    await startDynamoWorkers(group, folder, options);
    const server = ['dist/bench-mixed-floor.js', String(port), join(folder, 'kv')];
    return group.start('mixed-floor', process.execPath, server).pid;
  },
};

const PLANES = ['--discovery-backend', 'file', '--request-plane', 'tcp', '--event-plane', 'zmq'];

function startStatorFrontend(
  group: ProcessGroup,
  folder: string,
  port: number,
  { frontendEnv, routerMode = 'round-robin' }: SideOptions,
): number {
  const env = { DYN_FILE_KV: join(folder, 'kv'), DYN_LOG: 'warn', ...frontendEnv };
  const host = ['--http-host', '127.0.0.1', '--http-port', String(port)];
  return group.start('frontend', 'dist/stator.js', ['frontend', ...host, '--router-mode', routerMode, ...PLANES], env)
    .pid;
}

/** Starts two mock workers of Dynamo in one process. */
async function startDynamoWorkers(
  group: ProcessGroup,
  folder: string,
  { pace, modelFolder, modelName, dynamoFolder }: SideOptions,
) {
  const python = join(dynamoFolder ?? '', 'venv/bin/python');
  if (!existsSync(python)) throw new Error(`no Dynamo in ${dynamoFolder}: ${python} is missing`);
  await mkdir(join(folder, 'kv'));
  const env = { DYN_FILE_KV: join(folder, 'kv'), HF_HUB_OFFLINE: '1', DYN_LOG: 'error' };
  const model = ['--model-path', modelFolder, '--model-name', modelName, '--num-workers', '2'];
  group.start('mocker', python, ['-m', 'dynamo.mocker', ...model, ...paceFlags(pace), ...PLANES], env);
  return { python, env };
}

function paceFlags({ speedup, decodeSpeedup, maxNumSeqs }: Pace): string[] {
  return [
    '--speedup-ratio',
    String(speedup),
    '--decode-speedup-ratio',
    String(decodeSpeedup),
    '--max-num-seqs',
    String(maxNumSeqs),
  ];
}

async function answers(url: string, model: string): Promise<boolean> {
  try {
    const response = await fetch(`${url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ model, messages: [{ role: 'user', content: 'hi' }], max_tokens: 1 }),
      signal: AbortSignal.timeout(2000),
    });
    await response.arrayBuffer();
    return response.ok;
  } catch {
    return false; // not listening yet
  }
}
