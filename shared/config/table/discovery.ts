import { type DefaultFacts, edges, fleet, lastingFleet, rowsFor, worker } from '../row.ts';

/**
 * The discovery stores by name, with the processes that find each other there: those of many machines, of one machine,
 * or of one process. It decides what listeners bind, and which ports and planes are the defaults.
 */
export const DISCOVERY_STORES = {
  dynamodb: 'many machines',
  etcd: 'many machines',
  kubernetes: 'many machines',
  file: 'one machine',
  mem: 'one process',
} as const satisfies Readonly<Record<string, 'many machines' | 'one machine' | 'one process'>>;

export type DiscoveryStore = keyof typeof DISCOVERY_STORES;

const STORES = Object.keys(DISCOVERY_STORES) as readonly DiscoveryStore[]; // its own keys

/** Whether processes on several machines find each other in `store`. */
export function isOfManyMachines(store: DiscoveryStore): boolean {
  return DISCOVERY_STORES[store] === 'many machines';
}

/** Whether a process finds no other process in `store`. */
export function isOfOneProcess(store: DiscoveryStore): boolean {
  return DISCOVERY_STORES[store] === 'one process';
}

/** Names of the stores, for the texts of defaults. */
export const MANY_MACHINES = listed(STORES.filter(isOfManyMachines));
export const WITHIN_A_MACHINE = listed(STORES.filter((store) => !isOfManyMachines(store)));

function listed(names: readonly string[]): string {
  return [names.slice(0, -1).join(', '), ...names.slice(-1)].filter(Boolean).join(' and ');
}

/** Returns `many` if the chosen discovery store is for many machines, otherwise `one`. */
export function byMachines<T>(facts: DefaultFacts, many: T, one: T): T {
  return isOfManyMachines(facts.read('discoveryBackend') as DiscoveryStore) ? many : one; // a row above
}

/**
 * Returns `dyn://{namespace}.backend.generate`, with the role of a prefill or encode worker instead of `backend`; a
 * suffix is part of the namespace.
 */
function workerEndpoint(facts: DefaultFacts): string {
  const suffix = facts.read('namespaceWorkerSuffix');
  const namespace = `${facts.read('namespace')}${suffix === undefined ? '' : `-${suffix}`}`;
  const role = facts.read('disaggregationMode');
  const isPrefill = role === 'prefill' || facts.read('isPrefillWorker') === true;
  const isEncode = role === 'encode' || facts.read('multimodalEncodeWorker') === true;
  const component = isPrefill ? 'prefill' : isEncode ? 'encode' : 'backend';
  return `dyn://${namespace}.${component}.generate`;
}

/** Rows of "Discovery". */
export const discoveryRows = {
  discoveryBackend: fleet.choice({
    names: '--discovery-backend DYN_DISCOVERY_BACKEND',
    values: STORES,
    decide: (facts) => {
      if (facts.process !== 'local' && facts.read('discoveryTable') !== undefined) return 'dynamodb';
      return facts.process === 'function' ? 'mem' : 'file'; // a function runs alone on its machine
    },
    defaultText: 'dynamodb with a table, else file; stator local: file; function without a table: mem',
    source: 'Dynamo: etcd',
    about:
      'How processes find each other: on many machines (dynamodb, etcd, kubernetes), on one machine (file), or within one process (mem).',
  }),
  namespace: rowsFor(...fleet.usedBy, 'simulate').text({
    names: '--namespace DYN_NAMESPACE',
    defaultFor: { worker: 'dynamo' },
    defaultText: 'unset = all; worker: dynamo',
    source: 'Dynamo',
    about:
      'Frontend: exact namespace of models. Worker: its own namespace. Simulation: namespace of the fleet that it scales.',
  }),
  namespacePrefix: edges.text({
    names: '--namespace-prefix DYN_NAMESPACE_PREFIX',
    source: 'Dynamo',
    about: 'Namespace prefix of models; wins over --namespace.',
  }),
  namespaceWorkerSuffix: rowsFor('worker', 'router').text({
    names: 'DYN_NAMESPACE_WORKER_SUFFIX',
    about: "Appended as -suffix to the worker's namespace.",
  }),
  fileKv: lastingFleet.folder({
    names: 'DYN_FILE_KV',
    written: true,
    defaultText:
      '$XDG_STATE_HOME/stator/discovery/HOST, else ~/.local/state/stator/discovery/HOST (macOS: without HOST), for this user only; ' +
      'temporary folder/dynamo_store_kv-UID if that cannot be written; stator local makes one for each run',
    about: 'Root of the file back end: processes that share it find each other.',
  }),
  endpoint: worker.text({
    names: '--endpoint DYN_ENDPOINT',
    allowed: 'dyn:// optional',
    decide: workerEndpoint,
    defaultText: 'dyn://{namespace}.backend.generate; prefill: dyn://{namespace}.prefill.generate',
    about: "Worker's endpoint name.",
  }),
  leaseTtlSecs: fleet.decimal({
    names: 'STATOR_LEASE_TTL_SECS',
    range: { min: 0.2, max: 300, unit: 's' },
    default: 10,
    about: "Lease of instances and of the router's lease holder.",
  }),
};

/** Rows of "etcd". */
export const etcdRows = {
  etcdEndpoints: fleet.urls({
    names: 'ETCD_ENDPOINTS',
    schemes: ['http', 'https'],
    default: ['http://localhost:2379'],
    source: 'Dynamo',
    about: 'Members of the etcd cluster. A process asks one of them, and another one if that fails.',
  }),
  etcdLeaseTtlSecs: fleet.int({
    names: 'ETCD_LEASE_TTL',
    range: { min: 2, max: 300, unit: 's' },
    defaultText: 'STATOR_LEASE_TTL_SECS',
    source: 'Dynamo',
    about: 'Lease of instances in etcd.',
  }),
  etcdAuthUsername: fleet.text({
    names: 'ETCD_AUTH_USERNAME',
    note: 'both or none',
    source: 'Dynamo',
    about: 'User of etcd.',
  }),
  etcdAuthPassword: fleet.secret({
    names: 'ETCD_AUTH_PASSWORD',
    note: 'both or none',
    source: 'Dynamo',
    about: 'Password of the user of etcd.',
  }),
  etcdAuthCa: fleet.pem({
    names: 'ETCD_AUTH_CA',
    source: 'Dynamo',
    about: 'CA that verifies the members of etcd; needs https in ETCD_ENDPOINTS.',
  }),
  etcdAuthClientCert: fleet.pem({
    names: 'ETCD_AUTH_CLIENT_CERT',
    source: 'Dynamo',
    about: 'Client certificate for etcd.',
  }),
  etcdAuthClientKey: fleet.pem({
    names: 'ETCD_AUTH_CLIENT_KEY',
    source: 'Dynamo',
    about: 'Key of the client certificate.',
  }),
};

/** Rows of "Kubernetes". */
export const kubernetesRows = {
  kubeDiscoveryMode: fleet.choice({
    names: 'DYN_KUBE_DISCOVERY_MODE',
    values: ['pod', 'container'],
    default: 'pod',
    about: 'What registers and is ready: a pod (in EndpointSlices), or each container of a pod by itself.',
  }),
  podName: fleet.text({
    names: 'POD_NAME',
    defaultText: '/etc/podinfo/pod_name',
    about: 'Pod of this process. A process without it finds others in Kubernetes, but cannot register.',
  }),
  podUid: fleet.text({
    names: 'POD_UID',
    defaultText: '/etc/podinfo/pod_uid',
    about: 'Uid of the pod, which owns what the process writes.',
  }),
  podNamespace: fleet.text({
    names: 'POD_NAMESPACE',
    defaultText: '/etc/podinfo/pod_namespace, else that of the service account or the kubeconfig',
    about: 'Kubernetes namespace in which processes find each other.',
  }),
  containerName: fleet.text({
    names: 'CONTAINER_NAME',
    defaultText: "the pod's own",
    about: 'Container of this process, in mode container.',
  }),
  mainContainerName: fleet.text({
    names: 'DYN_MAIN_CONTAINER_NAME',
    default: 'main',
    about: 'Container that registers under the name of its pod, in mode container.',
  }),
};
