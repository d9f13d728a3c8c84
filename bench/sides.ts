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

export type SideName = 'stator' | 'dynamo' | 'floor';

export async function startSide(name: SideName, options: SideOptions): Promise<Side> {
  const folder = await mkdtemp(join(tmpdir(), `stator-bench-${name}-`));
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
  async stator(group, folder, port, { pace, modelFolder, modelName, frontendEnv, routerMode = 'round-robin' }) {
    const env = { DYN_FILE_KV: join(folder, 'kv'), DYN_LOG: 'warn' };
    const planes = ['--discovery-backend', 'file', '--request-plane', 'tcp', '--event-plane', 'zmq'];
    const worker = [
      'worker',
      '--engine',
      'mocker',
      '--model-path',
      modelFolder,
      '--model-name',
      modelName,
      ...paceFlags(pace),
      ...planes,
    ];
    for (const at of [0, 1]) group.start(`worker-${at}`, 'dist/stator.js', worker, env);
    const frontend = [
      'frontend',
      '--http-host',
      '127.0.0.1',
      '--http-port',
      String(port),
      '--router-mode',
      routerMode,
      ...planes,
    ];
    return group.start('frontend', 'dist/stator.js', frontend, { ...env, ...frontendEnv }).pid;
  },
  async dynamo(group, folder, port, { pace, modelFolder, modelName, dynamoFolder }) {
    const python = join(dynamoFolder ?? '', 'venv/bin/python');
    if (!existsSync(python)) throw new Error(`no Dynamo in ${dynamoFolder}: ${python} is missing`);
    await mkdir(join(folder, 'kv'));
    const env = { DYN_FILE_KV: join(folder, 'kv'), HF_HUB_OFFLINE: '1', DYN_LOG: 'error' };
    const planes = ['--discovery-backend', 'file', '--request-plane', 'tcp', '--event-plane', 'zmq'];
    group.start(
      'mocker',
      python,
      [
        '-m',
        'dynamo.mocker',
        '--model-path',
        modelFolder,
        '--model-name',
        modelName,
        '--num-workers',
        '2',
        ...paceFlags(pace),
        ...planes,
      ],
      env,
    );
    return group.start(
      'frontend',
      python,
      [
        '-m',
        'dynamo.frontend',
        '--http-host',
        '127.0.0.1',
        '--http-port',
        String(port),
        '--router-mode',
        'round-robin',
        ...planes,
      ],
      env,
    ).pid;
  },
  async floor(group, _folder, port, { pace }) {
    return group.start('floor', process.execPath, ['dist/bench-floor.js', String(port), String(pace.msPerToken)]).pid;
  },
};

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
