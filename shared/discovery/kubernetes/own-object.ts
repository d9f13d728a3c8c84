import { dataWith, type StoredRecord } from './dynamo-data.ts';
import type { PodIdentity } from './identity.ts';
import { LEASE_KIND, LOADS_LABEL, ORDER_ANNOTATION, WORKER_KIND } from './objects.ts';

/** Name under which Stator's processes own the fields that they apply. */
export const FIELD_MANAGER = 'stator';
/** Annotation of a lease with the packed loads, base64. */
export const LOADS_ANNOTATION = 'stator/loads';

/** Returns the name of the lease with the loads of a process. */
export function loadsName(objectName: string): string {
  return `stator-loads-${objectName}`;
}

/** Returns the name of the object of the process whose loads a lease has; undefined for another lease. */
export function objectOfLoads(leaseName: string): string | undefined {
  const prefix = loadsName('');
  return leaseName.startsWith(prefix) ? leaseName.slice(prefix.length) : undefined;
}

/**
 * Returns the object of a process. Dynamo's processes read the parts of the data that they know, and leave out the
 * rest. Stator's records are texts, so that they arrive as they were written.
 */
export function ownObject(
  name: string,
  identity: PodIdentity,
  process: string,
  records: ReadonlyMap<string, StoredRecord>,
): object {
  const metadata = { name, ownerReferences: ownersOf(identity) };
  return { ...WORKER_KIND, metadata, spec: { data: dataWith(process, records) } };
}

/** Returns the lease that carries packed loads. */
export function loadsLease(name: string, identity: PodIdentity, loads: Uint8Array): object {
  return {
    ...LEASE_KIND,
    metadata: {
      name,
      ownerReferences: ownersOf(identity),
      labels: { [LOADS_LABEL]: 'true' },
      annotations: { [LOADS_ANNOTATION]: Buffer.from(loads).toString('base64') },
    },
    spec: {},
  };
}

/** Returns the change of an object that orders its process to drain. */
export function orderPatch(process: string, order: string): object {
  return { metadata: { annotations: { [ORDER_ANNOTATION]: `${process} ${order}` } } };
}

/** Returns the order to a process in the annotation; undefined if it is to an earlier process of the same container. */
export function orderTo(process: string, annotation: string | undefined): string | undefined {
  const prefix = `${process} `;
  return annotation?.startsWith(prefix) ? annotation.slice(prefix.length) : undefined;
}

/** The pod owns what its processes write, so that the cluster removes it with the pod. */
function ownersOf({ name, uid }: PodIdentity): readonly object[] {
  return [{ apiVersion: 'v1', kind: 'Pod', name, uid, controller: false, blockOwnerDeletion: false }];
}
