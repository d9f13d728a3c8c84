import { asRecord, type UnknownRecord } from '../../records/index.ts';

/** API group, version and plural of the objects in which processes register. */
const WORKER_API = 'apis/nvidia.com/v1alpha1';
export const WORKER_KIND = { apiVersion: 'nvidia.com/v1alpha1', kind: 'DynamoWorkerMetadata' } as const;
export const LEASE_KIND = { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease' } as const;

/** Label of the slices and pods that take part. Dynamo's operator sets it, and its processes select by it. */
export const DISCOVERED = 'nvidia.com/dynamo-discovery-enabled=true';
/** Label of the leases that carry loads, and the annotation that has them. */
export const LOADS_LABEL = 'stator/loads';
export const LOADS_SELECTOR = `${LOADS_LABEL}=true`;
/** Annotation with the order to a process to drain. */
export const ORDER_ANNOTATION = 'stator/drain-order';
/** Annotation with the name of the container that stands for its pod. */
const MAIN_CONTAINER_ANNOTATION = 'nvidia.com/dynamo-main-container-name';
export const MAIN_CONTAINER = 'main';

/** Paths of the lists in a namespace. */
export function pathsIn(namespace: string) {
  const at = `namespaces/${encodeURIComponent(namespace)}`;
  return {
    workers: `/${WORKER_API}/${at}/dynamoworkermetadatas`,
    slices: `/apis/discovery.k8s.io/v1/${at}/endpointslices`,
    pods: `/api/v1/${at}/pods`,
    leases: `/apis/coordination.k8s.io/v1/${at}/leases`,
  } as const;
}

/** Name of the object of a process: that of its pod, or of a container that does not stand for the pod. */
export function workerName(pod: string, container: string | undefined, main: string): string {
  return container === undefined || container === main ? pod : `${pod}-${container}`;
}

export function metadataOf(object: UnknownRecord): UnknownRecord {
  return asRecord(object.metadata) ?? {};
}

export function nameOf(object: UnknownRecord): string {
  const { name } = metadataOf(object);
  return typeof name === 'string' ? name : '';
}

/** An annotation of an object; undefined if there is none. */
export function annotationOf(object: UnknownRecord, annotation: string): string | undefined {
  const value = asRecord(metadataOf(object).annotations)?.[annotation];
  return typeof value === 'string' ? value : undefined;
}

/** Names of ready processes, each with the uid of its pod. */
export type ReadyNames = ReadonlyMap<string, string>;

/** Returns the ready pods of an EndpointSlice. A pod without a uid could be an earlier one of the same name. */
export function readyInSlice(slice: UnknownRecord): ReadyNames {
  const ready = new Map<string, string>();
  for (const endpoint of listOf(slice.endpoints)) {
    const { name, uid } = asRecord(endpoint.targetRef) ?? {};
    if (asRecord(endpoint.conditions)?.ready === true && isText(name) && isText(uid)) ready.set(name, uid);
  }
  return ready;
}

/** Returns the objects of the ready containers of a pod. */
export function readyInPod(pod: UnknownRecord): ReadyNames {
  const ready = new Map<string, string>();
  const { name, uid } = metadataOf(pod);
  if (!isText(name) || !isText(uid)) return ready;
  const main = annotationOf(pod, MAIN_CONTAINER_ANNOTATION)?.trim() || MAIN_CONTAINER;
  for (const container of listOf(asRecord(pod.status)?.containerStatuses)) {
    if (container.ready === true && isText(container.name)) ready.set(workerName(name, container.name, main), uid);
  }
  return ready;
}

/** Uid of the pod that owns an object; undefined if none does. */
export function podUidOf(object: UnknownRecord): string | undefined {
  const owner = listOf(metadataOf(object).ownerReferences).find(({ kind }) => kind === 'Pod');
  return isText(owner?.uid) ? owner.uid : undefined;
}

/** Data of the object of a process; undefined if it has none. */
export function dataOf(worker: UnknownRecord): UnknownRecord | undefined {
  return asRecord(asRecord(worker.spec)?.data);
}

/** A part of the data that Stator's processes write. */
export interface OwnData {
  /** Id of the process: a container that starts again has another one. */
  readonly process: string;
  /** Texts of its records, by bucket and key. */
  readonly records: UnknownRecord;
}

export function ownDataOf(worker: UnknownRecord): OwnData | undefined {
  const { process, records } = asRecord(dataOf(worker)?.stator) ?? {};
  return isText(process) ? { process, records: asRecord(records) ?? {} } : undefined;
}

function listOf(value: unknown): readonly UnknownRecord[] {
  return Array.isArray(value) ? value.map((each) => asRecord(each) ?? {}) : [];
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value !== '';
}
