import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { systemClock } from '../../../shared/clock/index.ts';
import type { Fleet } from '../fleet.ts';
import { freePort } from '../free-port.ts';
import { type SpawnedProcess, spawnProgram } from '../spawn-node.ts';
import { waitUntil } from '../wait-until.ts';
import { FakeApiServer, type JudgedCall } from './api-server.ts';
import { sliceOf } from './cluster.ts';
import { environmentOf, type Manifest, type ManifestContainer, readManifests, workloadsOf } from './manifests.ts';
import { FakeWorkloads } from './workloads.ts';

const NAMESPACE = 'serving';
/** Interval between two rounds of readiness probes, in milliseconds. */
const PROBE_MS = 200;
const START_MS_MAX = 90_000;
/** Variables with ports of a container, which this machine replaces by free ones. */
const PORTS = [
  ...['DYN_HTTP_PORT', 'STATOR_GRPC_PORT', 'DYN_TCP_RPC_PORT', 'DYN_SYSTEM_PORT', 'PLANNER_PROMETHEUS_PORT'],
  'STATOR_ENDPOINT_PICKER_PORT',
];
const FLEETS = 'fleets.json';
/** Folder of certificates in containers, and one of this machine whose certificate is its own authority. */
const NATS_FILES = '/etc/nats';
const CERTIFICATE = fileURLToPath(new URL('../../fixtures/tls/first', import.meta.url));
const PLACE = 'leaderworkerset.sigs.k8s.io/worker-index';

type Env = Readonly<Record<string, string>>;
type Workload = ReturnType<typeof workloadsOf>[number];

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
 * A workload without a number of replicas begins with one, and then has as many as a planner sets.
 */
export class ChartCluster {
  readonly pods: RunningPod[] = [];
  /** Rights that the processes used, as `ACCOUNT VERB RESOURCE`. */
  readonly used = new Set<string>();
  readonly #api: FakeApiServer;
  readonly #manifests: readonly Manifest[];
  readonly #fleet: Fleet;
  readonly #workloads: FakeWorkloads;
  readonly #others: SpawnedProcess[] = [];
  #probing: NodeJS.Timeout | undefined;

  private constructor(api: FakeApiServer, manifests: readonly Manifest[], fleet: Fleet) {
    this.#api = api;
    this.#manifests = manifests;
    this.#fleet = fleet;
    this.#workloads = new FakeWorkloads(api, { clock: systemClock, namespace: NAMESPACE });
    api.judge = (call) => this.#judge(call);
  }

  /** @param secret keys of the Secret. Resolves when all pods are ready. */
  static async start(text: string, secret: Env, fleet: Fleet): Promise<ChartCluster> {
    const cluster = new ChartCluster(await FakeApiServer.start(), readManifests(text), fleet);
    const nats = await cluster.#startNats(secret);
    const containers = workloadsOf(cluster.#manifests);
    for (const workload of new Set(containers.map(({ name }) => name))) {
      const parts = containers.filter(({ name }) => name === workload);
      const [first] = parts;
      if (first?.pod.serviceAccountName === undefined) continue; // NATS
      if (first.replicas === undefined || first.groupSize !== undefined) {
        await cluster.#followReplicas(parts, { ...secret, nats });
        continue;
      }
      for (let at = 0; at < first.replicas; at++) {
        for (const part of parts) await cluster.#startPod(part, nameOf(part, at), { ...secret, nats });
      }
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

  /** Names of the pods of a workload that a planner scales, without those that end. */
  podsOf(workload: string): readonly string[] {
    return this.#workloads.podsOf(workload);
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
  #judge({ verb, resource, token: account = '', name, isApply }: JudgedCall): number | undefined {
    const needed = isApply ? ['patch', 'create'] : [verb];
    const rights = needed.map((each) => `${account} ${each} ${resource}`);
    for (const right of rights) this.used.add(right);
    const rules = this.#manifests.flatMap(({ rules = [] }) => rules);
    const isNamed = rules.every(
      ({ resources, resourceNames }) =>
        resources[0] !== resource || resourceNames === undefined || resourceNames.some((each) => each === name),
    );
    return isNamed && rights.every((right) => this.granted.includes(right)) ? undefined : 403;
  }

  /**
   * Starts and ends processes as the number of replicas of a workload says, beginning with one.
   * @param parts its pods: of a group the first one, and the others
   */
  async #followReplicas(parts: readonly Workload[], facts: Env): Promise<void> {
    const started = new Map<string, Promise<RunningPod>>();
    const [workload] = parts;
    if (workload === undefined) return;
    this.#api.store('pods', NAMESPACE).listen(({ before, after, last }) => {
      const { name, labels } = last.metadata;
      if (labels?.app !== workload.name) return;
      const { [PLACE]: place = '0' } = labels;
      const part = parts.find(({ isFirst }) => isFirst === (place === '0')) ?? workload;
      const group = { LWS_LEADER_ADDRESS: '127.0.0.1', LWS_GROUP_SIZE: `${part.groupSize}`, LWS_WORKER_INDEX: place };
      if (before === undefined) started.set(name, this.#startPod(part, name, { ...facts, ...group }));
      const isEnding = before?.metadata.deletionTimestamp === undefined && after?.metadata.deletionTimestamp;
      if (isEnding) void started.get(name)?.then((pod) => this.#endPod(pod));
    });
    const { name, replicas = 1, groupSize, labels } = workload;
    if (groupSize === undefined) this.#workloads.addDeployment(name, replicas, labels);
    else this.#workloads.addGroups(name, replicas, groupSize, labels);
    await Promise.all(started.values());
  }

  async #endPod({ name, process }: RunningPod): Promise<void> {
    process.signal('SIGTERM');
    await process.exited;
    this.#workloads.removePod(name);
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
      .replaceAll(`${NATS_FILES}/tls`, CERTIFICATE)
      .replace('port: 4222', `port: ${port}`)
      .replace('8222', String(monitor));
    const binary = process.env.STATOR_TEST_NATS_BIN ?? '';
    const path = `${dirname(binary)}:${process.env.PATH}`;
    const env = { ...environmentOf(workload.container, secret), PATH: path };
    const server = spawnProgram('/bin/sh', ['-c', script], { env });
    this.#others.push(server);
    await server.waitForOutput(/Server is ready/, START_MS_MAX);
    return `localhost:${port}`;
  }

  async #startPod({ name: workload, labels, pod, container }: Workload, name: string, facts: Env): Promise<RunningPod> {
    const pods = this.#api.store('pods', NAMESPACE);
    const { uid } = (pods.get(name) ?? pods.set(name, { metadata: { labels } })).metadata;
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
      NATS_SERVER: env.NATS_SERVER?.replace(/(?<=:\/\/).*/, facts.nats ?? ''),
      ...(env.NATS_TLS_CA_CERT_PATH === undefined ? {} : { NATS_TLS_CA_CERT_PATH: `${CERTIFICATE}.crt` }),
      HOME: this.#fleet.temporary,
      STATOR_ARTIFACTS_CACHE_DIR: join(this.#fleet.temporary, name),
      DYN_TCP_RPC_HOST: '127.0.0.1',
      ...this.#plannerFiles(workload),
      ...(env.DYN_HTTP_PORT === undefined ? { DYN_SYSTEM_HOST: '127.0.0.1' } : { DYN_HTTP_HOST: '127.0.0.1' }),
    };
    const args = container.args.map((text) => text.replaceAll(/\$\((\w+)\)/g, (_, variable) => facts[variable] ?? ''));
    const process = this.#fleet.spawn(args, { ...env, ...here });
    const running = { name, uid, labels, container, process, ports };
    this.pods.push(running);
    return running;
  }

  /** Writes the fleets of a planner into a file of this machine. Other workloads have none. */
  #plannerFiles(workload: string): Env {
    const maps = this.#manifests.filter(({ kind, metadata }) => kind === 'ConfigMap' && metadata.name === workload);
    const text = maps[0]?.data?.[FLEETS];
    if (text === undefined) return {};
    const folder = join(this.#fleet.temporary, workload);
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, FLEETS), text);
    const files = { STATOR_PLANNER_FLEETS: join(folder, FLEETS), STATOR_PLANNER_DIR: join(folder, 'planner') };
    return { ...files, STATOR_PLANNER_METRICS_HOST: '127.0.0.1' };
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
      const selecting = services.filter(({ spec }) =>
        Object.entries(spec.selector ?? {}).every(([label, value]) => pod.labels[label] === value),
      );
      if (selecting.length === 0) continue;
      const ready = await isReady(pod);
      const slice = sliceOf([{ name: pod.name, uid: pod.uid, isReady: ready }]);
      this.#workloads.setReady(pod.name, ready);
      for (const { metadata } of selecting) {
        const name = `${metadata.name}-${pod.name}`;
        const store = this.#api.store('endpointslices', NAMESPACE);
        const before = store.get(name) as { readonly endpoints?: unknown } | undefined;
        if (JSON.stringify(before?.endpoints) === JSON.stringify(slice.endpoints)) continue;
        store.set(name, { ...slice, metadata: { labels: metadata.labels ?? {} } });
      }
    }
  }
}

/** Returns the name of a pod, or of a further container of one, which this machine runs as a pod. */
function nameOf({ name, container }: Workload, at: number): string {
  return container.name === 'main' ? `${name}-${at}` : `${name}-${at}-${container.name}`;
}

async function isReady({ container, ports }: RunningPod): Promise<boolean> {
  const { httpGet: probe } = container.readinessProbe;
  const port = container.ports?.find(({ name }) => name === probe?.port)?.containerPort ?? 0;
  const url = `http://127.0.0.1:${ports.get(port)}${probe?.path}`;
  return fetch(url, { signal: AbortSignal.timeout(5000) }).then(
    ({ ok }) => ok,
    () => false, // it does not listen yet, or any more
  );
}
