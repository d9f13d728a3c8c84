import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort } from './free-port.ts';
import { type SpawnedProcess, spawnProgram } from './spawn-node.ts';
import { waitUntil } from './wait-until.ts';

/** A nats-server with JetStream on disk, for one suite. */
export interface NatsServer {
  readonly url: string;
  /** URL for clients over WebSocket. */
  readonly webSocketUrl: string;
  readonly port: number;
  /** Kills it with SIGKILL, like a crash. The data on disk stays. */
  kill(): Promise<void>;
  /** Starts it again on the same ports, with the data on disk. */
  restart(): Promise<void>;
  /** Answers nothing until `thaw`, like a machine that hangs. */
  freeze(): void;
  thaw(): void;
  /** Ends it and removes its data. Idempotent. */
  stop(): Promise<void>;
}

export interface NatsServerOptions {
  /** @default true */
  readonly isStarted?: boolean;
  /** Limit of JetStream on disk. @default 1 GiB */
  readonly storeBytesMax?: number;
  /** TLS of its WebSocket port: a `tls { ... }` block of its configuration file. @default no TLS */
  readonly webSocketTls?: string;
  /** Further lines of its configuration file, e.g. `authorization { token: "t" }`. */
  readonly configuration?: string;
}

/** Whether the set-up found or made a nats-server. */
export function hasNatsServer(): boolean {
  return Boolean(process.env.STATOR_TEST_NATS_BIN);
}

/** Starts a nats-server on 127.0.0.1 and waits until it listens. */
export async function startNatsServer(options: NatsServerOptions = {}): Promise<NatsServer> {
  const { isStarted = true, storeBytesMax = 1 << 30, configuration = '', webSocketTls } = options;
  const binary = process.env.STATOR_TEST_NATS_BIN;
  if (!binary) throw new Error('STATOR_TEST_NATS_BIN is not set: run through vitest, whose set-up finds nats-server');
  const folder = await mkdtemp(join(tmpdir(), 'stator-nats-'));
  const [port, webSocketPort] = [await freePort(), await freePort()];
  const file = join(folder, 'nats.conf');
  await writeFile(
    file,
    [
      `listen: "127.0.0.1:${port}"`,
      `jetstream { store_dir: "${join(folder, 'data')}", max_file_store: ${storeBytesMax}, max_memory_store: 64M }`,
      `websocket { listen: "127.0.0.1:${webSocketPort}", ${webSocketTls ?? 'no_tls: true'} }`,
      configuration,
    ].join('\n'),
  );
  let server: SpawnedProcess | undefined;
  const start = async (): Promise<void> => {
    const started = spawnProgram(binary, ['-c', file]);
    server = started;
    const what = `nats-server on port ${port}`;
    await waitUntil(() => started.stderr().includes('Server is ready'), { what }).catch((error: Error) => {
      throw new Error(`${error.message}\n${started.stderr()}`);
    });
  };
  if (isStarted) await start();
  return {
    url: `nats://127.0.0.1:${port}`,
    webSocketUrl: `${webSocketTls === undefined ? 'ws' : 'wss'}://127.0.0.1:${webSocketPort}`,
    port,
    kill: async () => server?.kill(),
    restart: async () => {
      await server?.kill();
      await start();
    },
    freeze: () => server?.signal('SIGSTOP'),
    thaw: () => server?.signal('SIGCONT'),
    stop: async () => {
      await server?.kill();
      await rm(folder, { recursive: true, force: true });
    },
  };
}
