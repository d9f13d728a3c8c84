import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Fleet } from '../fleet.ts';
import { freePort } from '../free-port.ts';
import { type SpawnedProcess, spawnProgram } from '../spawn-node.ts';
import { waitUntil } from '../wait-until.ts';
import { FakeApiServer } from './api-server.ts';
import { sliceOf } from './cluster.ts';
import { environmentOf, type Manifest, type ManifestContainer, readManifests, workloadsOf } from './manifests.ts';

const NAMESPACE = 'serving';
/** Interval between two rounds of readiness probes, in milliseconds. */
const PROBE_MS = 200;
const START_MS_MAX = 90_000;
/** Variables with ports of a container, which this machine replaces by free ones. */
const PORTS = ['DYN_HTTP_PORT', 'STATOR_GRPC_PORT', 'DYN_TCP_RPC_PORT', 'DYN_SYSTEM_PORT'];

type Env = Readonly<Record<string, string>>;

/** A pod of which the process runs on this machine. */
interface RunningPod {
  readonly name: string;
  readonly uid: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly container: ManifestContainer;
  readonly process: SpawnedProcess;
  /** Ports of this machine by those of the container. */
  readonly ports: ReadonlyMap<number, number>;
}

/**
 * Runs what a manifest starts as processes of this machine, with a fake API server. The server enforces the roles of
 * the manifest. A pod is ready once its readiness probe passes, and is in the slices of the services that select it.
 */
export class ChartCluster {
  readonly pods: RunningPod[] = [];
  /** Rights that the processes used, as `ACCOUNT VERB RESOURCE`. */
  readonly used = new Set<string>();
  readonly #api: FakeApiServer;
  readonly #manifests: readonly Manifest[];
  readonly #fleet: Fleet;
  readonly #others: SpawnedProcess[] = [];
  #probing: NodeJS.Timeout | undefined;

  private constructor(api: FakeApiServer, manifests: readonly Manifest[], fleet: Fleet) {
    this.#api = api;
    this.#manifests = manifests;
    this.#fleet = fleet;
    api.judge = ({ verb, resource, token = '' }) => this.#judge(token, verb, resource);
  }

  /** @param secret keys of the Secret. Resolves when all pods are ready. */
  static async start(text: string, secret: Env, fleet: Fleet): Promise<ChartCluster> {
    const cluster = new ChartCluster(await FakeApiServer.start(), readManifests(text), fleet);
    const nats = await cluster.#startNats(secret);
    for (const workload of workloadsOf(cluster.#manifests)) {
      if (workload.pod.serviceAccountName === undefined) continue; // NATS
      for (let at = 0; at < workload.replicas; at++) await cluster.#startPod(workload, at, { ...secret, nats });
    }
    cluster.#probing = setInterval(() => void cluster.#probe(), PROBE_MS);
    await waitUntil(async () => (await Promise.all(cluster.pods.map(isReady))).every(Boolean), {
      what: 'pods that are ready',
      timeoutMs: START_MS_MAX,
    });
    return cluster;
  }

  /** Returns the URL of a port of the first pod of a component. */
  urlOf(component: string, port: number): string {
    const pod = this.pods.find(({ labels }) => labels['app.kubernetes.io/component'] === component);
    return `http://127.0.0.1:${pod?.ports.get(port)}`;
  }

  /** Rights of the manifest, as `ACCOUNT VERB RESOURCE`. */
  get granted(): readonly string[] {
    return this.#manifests.flatMap(({ kind, metadata: { name }, rules = [] }) =>
      kind === 'Role'
        ? rules.flatMap(({ resources, verbs }) => verbs.map((verb) => `${name} ${verb} ${resources[0]}`))
        : [],
    );
  }

  async close(): Promise<void> {
    clearInterval(this.#probing);
    await Promise.all([...this.pods.map(({ process }) => process.kill()), ...this.#others.map((each) => each.kill())]);
    await this.#api.close();
  }

  /** An apply needs the right to create, because it creates the object if there is none. */
  #judge(account: string, verb: string, resource: string): number | undefined {
    const needed = verb === 'patch' ? ['patch', 'create'] : [verb];
    const rights = needed.map((each) => `${account} ${each} ${resource}`);
    for (const right of rights) this.used.add(right);
    return rights.every((right) => this.granted.includes(right)) ? undefined : 403;
  }

  /** Starts the server as its container does, in a folder and on a port of this machine. Returns its address. */
  async #startNats(secret: Env): Promise<string> {
    const workload = workloadsOf(this.#manifests).find(({ pod }) => pod.serviceAccountName === undefined);
    if (workload === undefined) throw new Error('the manifest starts no NATS server');
    const folder = join(this.#fleet.temporary, 'nats');
    mkdirSync(folder);
    const [port, monitor] = [await freePort(), await freePort()];
    const script = (workload.container.args[0] ?? '')
      .replaceAll('/data', folder)
      .replace('port: 4222', `port: ${port}`)
      .replace('8222', String(monitor));
    const binary = process.env.STATOR_TEST_NATS_BIN ?? '';
    const path = `${dirname(binary)}:${process.env.PATH}`;
    const env = { ...environmentOf(workload.container, secret), PATH: path };
    const server = spawnProgram('/bin/sh', ['-c', script], { env });
    this.#others.push(server);
    await server.waitForOutput(/Server is ready/, START_MS_MAX);
    return `nats://127.0.0.1:${port}`;
  }

  async #startPod(
    { name: workload, labels, pod, container }: ReturnType<typeof workloadsOf>[number],
    at: number,
    facts: Env,
  ) {
    const name = `${workload}-${at}`;
    const { uid } = this.#api.store('pods', NAMESPACE).set(name, { metadata: { labels } }).metadata;
    const fields = { 'metadata.name': name, 'metadata.uid': uid, 'metadata.namespace': NAMESPACE };
    const env: Record<string, string> = environmentOf(container, { ...facts, ...fields });
    const ports = new Map<number, number>();
    for (const variable of PORTS) {
      if (env[variable] === undefined) continue;
      const port = await freePort();
      ports.set(Number(env[variable]), port);
      env[variable] = String(port);
    }
    const here = {
      KUBECONFIG: this.#kubeconfigOf(pod.serviceAccountName ?? ''),
      NATS_SERVER: facts.nats,
      HOME: this.#fleet.temporary,
      STATOR_ARTIFACTS_CACHE_DIR: join(this.#fleet.temporary, name),
      DYN_TCP_RPC_HOST: '127.0.0.1',
      ...(env.DYN_HTTP_HOST === undefined ? { DYN_SYSTEM_HOST: '127.0.0.1' } : { DYN_HTTP_HOST: '127.0.0.1' }),
    };
    const process = this.#fleet.spawn(container.args, { ...env, ...here });
    this.pods.push({ name, uid, labels, container, process, ports });
  }

  #kubeconfigOf(account: string): string {
    const path = join(this.#fleet.temporary, `${account}.json`);
    const config = {
      'current-context': 'here',
      contexts: [{ name: 'here', context: { cluster: 'here', user: 'here', namespace: NAMESPACE } }],
      clusters: [{ name: 'here', cluster: { server: `http://127.0.0.1:${this.#api.port}` } }],
      users: [{ name: 'here', user: { token: account } }],
    };
    writeFileSync(path, JSON.stringify(config));
    return path;
  }

  /** Writes the readiness of each pod into the slices of its services, as the kubelet and the cluster do. */
  async #probe(): Promise<void> {
    const services = this.#manifests.filter(({ kind }) => kind === 'Service');
    for (const pod of this.pods) {
      const slice = sliceOf([{ name: pod.name, uid: pod.uid, isReady: await isReady(pod) }]);
      for (const { metadata, spec } of services) {
        const selector = Object.entries(spec.selector ?? {});
        if (!selector.every(([label, value]) => pod.labels[label] === value)) continue;
        const name = `${metadata.name}-${pod.name}`;
        const store = this.#api.store('endpointslices', NAMESPACE);
        const before = store.get(name) as { readonly endpoints?: unknown } | undefined;
        if (JSON.stringify(before?.endpoints) === JSON.stringify(slice.endpoints)) continue;
        store.set(name, { ...slice, metadata: { labels: metadata.labels ?? {} } });
      }
    }
  }
}

async function isReady({ container, ports }: RunningPod): Promise<boolean> {
  const probe = container.readinessProbe.httpGet;
  const port = container.ports.find(({ name }) => name === probe?.port)?.containerPort ?? 0;
  const url = `http://127.0.0.1:${ports.get(port)}${probe?.path}`;
  return fetch(url, { signal: AbortSignal.timeout(5000) }).then(
    ({ ok }) => ok,
    () => false, // it does not listen yet, or any more
  );
}
