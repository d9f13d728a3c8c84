import type { KubeObject, ObjectStore } from './object-store.ts';

interface WorkloadSpec {
  readonly replicas?: number;
  readonly selector?: { readonly matchLabels?: Readonly<Record<string, string>> };
}

interface SentScale {
  readonly metadata?: { readonly name?: string; readonly uid?: string; readonly resourceVersion?: string };
  readonly spec?: { readonly replicas?: number };
}

/** Answers a call to the scale of a workload: a change needs the version that it names, if it names one. */
export function answerScale(store: ObjectStore, name: string, verb: string, body: string) {
  const workload = store.get(name);
  if (workload === undefined) return refusal(404, 'NotFound', `"${name}" not found`);
  if (verb === 'get') return { status: 200, body: scaleOf(workload) };
  if (verb !== 'update') return refusal(405, 'MethodNotAllowed', 'the server does not allow this method');
  const { metadata = {}, spec = {} } = JSON.parse(body) as SentScale;
  const { uid, resourceVersion } = workload.metadata;
  const isStale = (metadata.resourceVersion ?? resourceVersion) !== resourceVersion || (metadata.uid ?? uid) !== uid;
  if (isStale) return refusal(409, 'Conflict', 'the object has been modified; please apply your changes to it');
  const { replicas = 0 } = spec;
  if (replicas < 0) return refusal(422, 'Invalid', 'spec.replicas: must be greater than or equal to 0');
  // A change that changes nothing makes no version.
  const isSame = specOf(workload).replicas === replicas;
  const changed = isSame ? workload : store.merge(name, { spec: { replicas } });
  return { status: 200, body: scaleOf(changed ?? workload) };
}

function scaleOf(workload: KubeObject): object {
  const { name, uid, resourceVersion, namespace } = workload.metadata;
  const { replicas = 1, selector } = specOf(workload);
  const labels = Object.entries(selector?.matchLabels ?? {}).map(([key, value]) => `${key}=${value}`);
  return {
    apiVersion: 'autoscaling/v1',
    kind: 'Scale',
    metadata: { name, namespace, uid, resourceVersion },
    spec: replicas === 0 ? {} : { replicas },
    status: { selector: labels.join() },
  };
}

function specOf(workload: KubeObject): WorkloadSpec {
  return (workload.spec ?? {}) as WorkloadSpec;
}

function refusal(code: number, reason: string, message: string) {
  return { status: code, body: { kind: 'Status', status: 'Failure', code, reason, message } };
}
