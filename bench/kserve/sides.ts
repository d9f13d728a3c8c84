import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { Client, credentials } from '@grpc/grpc-js';
import { freePort } from '../../test/support/free-port.ts';
import { ProcessGroup, waitUntil } from '../processes.ts';
import { askUnary, messageOf } from './load.ts';

/** One gRPC server under measurement. */
export interface KserveSide {
  readonly name: SideName;
  readonly client: Client;
  readonly pid: number;
  /** From the spawn to the first good answer, with workers that stood already. */
  readonly readyMs: number;
  stop(): Promise<void>;
}

/** `before` is another build of this product. */
export type SideName = 'stator' | 'dynamo' | 'floor' | 'before';

export interface KserveSideOptions {
  /** Speedup of the mock workers. */
  readonly speedup: number;
  /** Tokens that a request generates: Dynamo takes the number from its template, Stator from the request. */
  readonly maxTokens: number;
  /** Model of the first successful answer. */
  readonly model: 'bench' | 'echo';
  readonly modelFolder: string;
  /** Folder with a Python environment that holds the real Dynamo. */
  readonly dynamoFolder: string | undefined;
  /** Folder with `stator.js` of another build. */
  readonly beforeFolder?: string | undefined;
  /** Environment of our own processes besides the usual. */
  readonly env?: Readonly<Record<string, string>>;
}

const PLANES = ['--discovery-backend', 'file', '--request-plane', 'tcp', '--event-plane', 'zmq'];

/** Starts a server and its workers, and waits for its first good answer. */
export async function startKserveSide(name: SideName, options: KserveSideOptions): Promise<KserveSide> {
  const folder = await mkdtemp(join(tmpdir(), `stator-bench-kserve-${name}-`));
  const group = new ProcessGroup(folder);
  const port = await freePort();
  const client = new Client(`127.0.0.1:${port}`, credentials.createInsecure(), {
    'grpc.max_receive_message_length': -1,
    'grpc.use_local_subchannel_pool': 1,
    'grpc.initial_reconnect_backoff_ms': 20,
    'grpc.max_reconnect_backoff_ms': 50,
  });
  const end = async (): Promise<void> => {
    client.close();
    await group.stop();
  };
  const stop = async (): Promise<void> => {
    await end();
    await rm(folder, { recursive: true, force: true });
  };
  try {
    const { pid, startedMs } = await START[name](group, folder, port, options);
    const message = messageOf(options.model, { maxTokens: 1 });
    await waitUntil(`${name} (logs in ${folder})`, 60_000, async () => {
      const path = name === 'floor' ? 'ServerLive' : 'ModelInfer';
      return (await askUnary(client, path, message)) !== undefined;
    });
    return { name, client, pid, readyMs: performance.now() - startedMs, stop };
  } catch (error) {
    await end();
    throw error;
  }
}

interface Started {
  readonly pid: number;
  readonly startedMs: number;
}

type Start = (group: ProcessGroup, folder: string, port: number, options: KserveSideOptions) => Promise<Started>;

/** Our own server, from the build in `dist`. */
function startOurs(dist: (options: KserveSideOptions) => string): Start {
  return async (group, folder, port, options) => {
    const { speedup, model, modelFolder, env: more } = options;
    const env = { DYN_FILE_KV: join(folder, 'kv'), DYN_LOG: 'warn', ...more };
    if (model === 'echo') {
      group.start('echo', process.execPath, ['bench/kserve/echo-worker.mjs', ...PLANES], env);
    } else {
      const flags = ['--model-path', modelFolder, '--model-name', model, ...paceFlags(speedup)];
      for (const at of [0, 1])
        group.start(
          `worker-${at}`,
          join(dist(options), 'stator.js'),
          ['worker', '--engine', 'mocker', ...flags, ...PLANES],
          env,
        );
    }
    await waitUntil(`a worker in ${folder}`, 30_000, async () => existsSync(join(folder, 'kv')));
    await new Promise((resolved) => setTimeout(resolved, 3000)); // workers stand before the server is started
    const metricsPort = await freePort();
    const flags = ['grpc', '--http-host', '127.0.0.1', '--http-port', String(port)];
    const ports = ['--grpc-metrics-port', String(metricsPort)];
    const startedMs = performance.now();
    const { pid } = group.start('frontend', join(dist(options), 'stator.js'), [...flags, ...ports, ...PLANES], env);
    return { pid, startedMs };
  };
}

const START: Readonly<Record<SideName, Start>> = {
  stator: startOurs(() => 'dist'),
  before: startOurs(({ beforeFolder }) => beforeFolder ?? 'dist'),
  async dynamo(group, folder, port, { speedup, maxTokens, model, modelFolder, dynamoFolder }) {
    const python = join(resolve(dynamoFolder ?? ''), 'venv/bin/python');
    if (!existsSync(python)) throw new Error(`no Dynamo in ${dynamoFolder}: ${python} is missing`);
    await mkdir(join(folder, 'kv'));
    const template = join(folder, 'template.json');
    await writeFile(template, JSON.stringify({ model, temperature: 0.7, max_completion_tokens: maxTokens }));
    const env = { DYN_FILE_KV: join(folder, 'kv'), HF_HUB_OFFLINE: '1', DYN_LOG: 'error' };
    if (model === 'echo') group.start('echo', python, ['bench/kserve/dynamo_side.py', 'echo'], env);
    else {
      const flags = ['--model-path', modelFolder, '--model-name', model, '--num-workers', '2', ...paceFlags(speedup)];
      group.start('mocker', python, ['-m', 'dynamo.mocker', ...flags, ...PLANES], env);
    }
    const metricsPort = await freePort();
    const flags = ['--kserve-grpc-server', '--http-port', String(port), '--grpc-metrics-port', String(metricsPort)];
    const script = ['bench/kserve/dynamo_side.py', 'frontend', template];
    const startedMs = performance.now();
    const { pid } = group.start('frontend', python, [...script, ...flags, ...PLANES], env);
    return { pid, startedMs };
  },
  async floor(group, _folder, port) {
    const startedMs = performance.now();
    const { pid } = group.start('floor', process.execPath, [process.argv[1] ?? '', '--floor', String(port)]);
    return { pid, startedMs };
  },
};

function paceFlags(speedup: number): readonly string[] {
  return ['--speedup-ratio', String(speedup), '--max-num-seqs', '1024'];
}
