import { choice, type DefaultFacts, decimal, EDGES, FLEET, folder, LASTING_FLEET, text } from '../row.ts';

const NOT_A_BACKEND = 'not built: use dynamodb (needs STATOR_DISCOVERY_TABLE), file or mem';

/** `dyn://{namespace}.backend.generate`, with the role of a prefill or encode worker instead; a suffix is part of the namespace. */
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
  discoveryBackend: choice({
    flags: ['--discovery-backend'],
    env: ['DYN_DISCOVERY_BACKEND'],
    values: ['dynamodb', 'file', 'mem'],
    refused: { etcd: NOT_A_BACKEND, kubernetes: NOT_A_BACKEND },
    decide: (facts) =>
      facts.process === 'local' ? 'file' : facts.read('discoveryTable') === undefined ? 'mem' : 'dynamodb',
    defaultText: 'dynamodb with a table, else mem; stator local: file',
    usedBy: FLEET,
    source: 'Dynamo: etcd',
    about: 'Service discovery.',
  }),
  namespace: text({
    flags: ['--namespace'],
    env: ['DYN_NAMESPACE'],
    defaultFor: { worker: 'dynamo' },
    defaultText: 'unset = all; worker: dynamo',
    usedBy: FLEET,
    source: 'Dynamo',
    about: 'Frontend: exact namespace of models. Worker: its own namespace.',
  }),
  namespacePrefix: text({
    flags: ['--namespace-prefix'],
    env: ['DYN_NAMESPACE_PREFIX'],
    usedBy: EDGES,
    source: 'Dynamo',
    about: 'Namespace prefix of models; wins over --namespace.',
  }),
  namespaceWorkerSuffix: text({
    env: ['DYN_NAMESPACE_WORKER_SUFFIX'],
    usedBy: ['worker', 'router'],
    source: '1.6.1',
    about: "Appended as -suffix to the worker's namespace.",
  }),
  fileKv: folder({
    env: ['DYN_FILE_KV'],
    written: true,
    defaultText: 'temporary folder/dynamo_store_kv-UID, for this user alone; stator local makes one for each run',
    usedBy: LASTING_FLEET,
    source: '1.6.1',
    about: 'Root of the file back end; stator local makes a private one.',
  }),
  endpoint: text({
    flags: ['--endpoint'],
    env: ['DYN_ENDPOINT'],
    allowed: 'dyn:// optional',
    decide: workerEndpoint,
    defaultText: 'dyn://{namespace}.backend.generate; prefill: dyn://{namespace}.prefill.generate',
    usedBy: ['worker'],
    source: '1.6.1',
    about: "Worker's endpoint name.",
  }),
  leaseTtlSecs: decimal({
    env: ['STATOR_LEASE_TTL_SECS'],
    min: 0.2,
    max: 300,
    unit: 's',
    default: 10,
    usedBy: FLEET,
    source: 'Stator',
    about: "Lease of instances and of the router's lease holder.",
  }),
};
