import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort } from './free-port.ts';
import { type SpawnedProcess, spawnProgram } from './spawn-node.ts';
import { waitUntil } from './wait-until.ts';

/** One member of an etcd cluster. */
export interface EtcdMember {
  readonly url: string;
  readonly port: number;
  /** Kills it with SIGKILL, like a crash. The data on disk stays. */
  kill(): Promise<void>;
  /** Starts it again on the same ports. @param isEmpty without the data that it had */
  restart(isEmpty?: boolean): Promise<void>;
  /** Answers nothing until `thaw`, like a machine that hangs. */
  freeze(): void;
  thaw(): void;
  /** Calls a method of the API by HTTP and JSON, for example `kv/compaction`. Bytes are base64, numbers are texts. */
  call(method: string, body: object, token?: string): Promise<Readonly<Record<string, unknown>>>;
  /** Returns the messages that it has received so far, by the name of their method. */
  received(): Promise<Readonly<Record<string, number>>>;
}

/** An etcd cluster for one suite. */
export interface EtcdCluster {
  readonly members: readonly EtcdMember[];
  readonly urls: readonly string[];
  /** Ends it and removes its data. Idempotent. */
  stop(): Promise<void>;
}

export interface EtcdOptions {
  /** @default 1 */
  readonly members?: number;
  /** Further arguments of each member. */
  readonly arguments?: readonly string[];
  /** Scheme of the members' URLs for clients. @default http */
  readonly scheme?: 'http' | 'https';
}

/** Whether the set-up found or made an etcd. */
export function hasEtcd(): boolean {
  return Boolean(process.env.STATOR_TEST_ETCD_BIN);
}

/** Starts a cluster on 127.0.0.1 and waits until it has a leader. */
export async function startEtcd(options: EtcdOptions = {}): Promise<EtcdCluster> {
  const { members: count = 1, scheme = 'http', arguments: further = [] } = options;
  const binary = process.env.STATOR_TEST_ETCD_BIN;
  if (!binary) throw new Error('STATOR_TEST_ETCD_BIN is not set: run through vitest, whose set-up finds etcd');
  const folder = await mkdtemp(join(tmpdir(), 'stator-etcd-'));
  const ports: Ports[] = [];
  for (let at = 0; at < count; at++) {
    ports.push({ client: await freePort(), peer: await freePort(), health: await freePort() });
  }
  const cluster = ports.map(({ peer }, at) => `m${at}=http://127.0.0.1:${peer}`).join();
  const members = ports.map(({ client, peer, health }, at) => {
    const [url, peerUrl] = [`${scheme}://127.0.0.1:${client}`, `http://127.0.0.1:${peer}`];
    const args = [
      ...['--name', `m${at}`, '--logger=zap', '--log-level=error'],
      ...['--listen-client-urls', url, '--advertise-client-urls', url],
      ...['--listen-peer-urls', peerUrl, '--initial-advertise-peer-urls', peerUrl],
      ...['--initial-cluster', cluster, '--initial-cluster-token', `stator-${ports[0]?.peer}`],
      ...['--heartbeat-interval=50', '--election-timeout=500', '--grpc-keepalive-min-time=100ms'],
      '--strict-reconfig-check=false', // otherwise members may leave only after five seconds
      ...['--listen-metrics-urls', `http://127.0.0.1:${health}`],
      ...further,
    ];
    return new Member(binary, args, { url, port: client, health, data: join(folder, `m${at}`) });
  });
  await Promise.all(members.map((member) => member.restart()));
  return {
    members,
    urls: members.map(({ url }) => url),
    stop: async () => {
      await Promise.all(members.map((member) => member.kill()));
      await rm(folder, { recursive: true, force: true });
    },
  };
}

interface Ports {
  readonly client: number;
  readonly peer: number;
  readonly health: number;
}

interface MemberPlace {
  readonly url: string;
  readonly port: number;
  /** Port that tells whether it is healthy, without TLS. */
  readonly health: number;
  /** Folder of its data. */
  readonly data: string;
}

class Member implements EtcdMember {
  readonly url: string;
  readonly port: number;
  readonly #binary: string;
  readonly #args: readonly string[];
  readonly #place: MemberPlace;
  #process: SpawnedProcess | undefined;

  constructor(binary: string, args: readonly string[], place: MemberPlace) {
    this.#binary = binary;
    this.#args = args;
    this.#place = place;
    this.url = place.url;
    this.port = place.port;
  }

  async kill(): Promise<void> {
    await this.#process?.kill();
  }

  async restart(isEmpty = false): Promise<void> {
    await this.kill();
    const { data, health } = this.#place;
    if (isEmpty) await rm(data, { recursive: true, force: true });
    const started = spawnProgram(this.#binary, [...this.#args, '--data-dir', data]);
    this.#process = started;
    const isHealthy = async (): Promise<boolean> => (await fetch(`http://127.0.0.1:${health}/health`)).ok;
    await waitUntil(isHealthy, { what: `etcd on port ${this.port}`, timeoutMs: 20_000 }).catch((error: Error) => {
      throw new Error(`${error.message}\n${started.stderr()}`, { cause: error });
    });
  }

  async call(method: string, body: object, token?: string): Promise<Readonly<Record<string, unknown>>> {
    const headers = token === undefined ? {} : { authorization: token };
    const response = await fetch(`${this.url}/v3/${method}`, { method: 'POST', body: JSON.stringify(body), headers });
    if (!response.ok) throw new Error(`${method}: ${response.status} ${await response.text()}`);
    return (await response.json()) as Readonly<Record<string, unknown>>;
  }

  async received(): Promise<Readonly<Record<string, number>>> {
    const text = await (await fetch(`http://127.0.0.1:${this.#place.health}/metrics`)).text();
    const lines = text.matchAll(/^grpc_server_msg_received_total\{grpc_method="(\w+)".*\} (\d+)$/gm);
    return Object.fromEntries([...lines].map(([, name = '', count]) => [name, Number(count)]));
  }

  freeze(): void {
    this.#process?.signal('SIGSTOP');
  }

  thaw(): void {
    this.#process?.signal('SIGCONT');
  }
}
