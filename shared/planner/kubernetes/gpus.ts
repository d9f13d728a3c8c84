import { asRecord, type UnknownRecord } from '../../records/index.ts';

/** Class of devices that the driver of NVIDIA installs for whole GPUs. */
const GPU_CLASS = 'gpu.nvidia.com';
/** Resources of containers that are GPUs: of the device plugin, and the one that Kubernetes derives from the class. */
const GPU_RESOURCES = ['nvidia.com/gpu', `deviceclass.resource.kubernetes.io/${GPU_CLASS}`];

/** GPUs of a pod, as far as the pod itself states them. */
export interface PodGpus {
  /** GPUs among the limits of its containers. */
  readonly limits: number;
  /** Names of the resource claims that were made for it. A claim that is not made yet has no name. */
  readonly claims: readonly string[];
  /** Names of resource claims that its template names, so that all pods of the template use the same devices. */
  readonly sharedClaims: readonly string[];
  /** Whether it has claims that are not made yet. */
  readonly hasOpenClaims: boolean;
}

/** GPUs of the replicas of a workload. */
export interface WorkloadGpus {
  /** GPUs that each replica has for itself. */
  readonly own: number;
  /** GPUs that all replicas use together. */
  readonly shared: number;
}

/** GPUs of a resource claim, by the name of the claim; undefined: not known before they are allocated. */
export type ClaimGpus = ReadonlyMap<string, number | undefined>;

/** Returns the GPUs that a pod states. */
export function gpusOfPod(object: UnknownRecord): PodGpus {
  const spec = asRecord(object.spec) ?? {};
  const made = new Map(
    recordsOf(asRecord(object.status)?.resourceClaimStatuses).map(({ name, resourceClaimName }) => [
      name,
      resourceClaimName,
    ]),
  );
  const stated = recordsOf(spec.resourceClaims);
  const isName = (name: unknown): name is string => typeof name === 'string';
  const sharedClaims = stated.map(({ resourceClaimName }) => resourceClaimName).filter(isName);
  const others = stated.filter(({ resourceClaimName }) => !isName(resourceClaimName));
  const claims = others.map(({ name }) => made.get(name)).filter(isName);
  return { limits: limitsOf(spec), claims, sharedClaims, hasOpenClaims: claims.length < others.length };
}

/** Containers run together, after those that initialize one after the other. Sidecars run from the beginning. */
function limitsOf({ containers, initContainers }: UnknownRecord): number {
  const sum = (all: readonly UnknownRecord[]): number => all.reduce((total, each) => total + limitOf(each), 0);
  const first = recordsOf(initContainers);
  const sidecars = first.filter(({ restartPolicy }) => restartPolicy === 'Always');
  return Math.max(sum([...recordsOf(containers), ...sidecars]), ...first.map(limitOf));
}

function limitOf({ resources }: UnknownRecord): number {
  const limits = asRecord(asRecord(resources)?.limits) ?? {};
  return GPU_RESOURCES.reduce((total, name) => total + wholeOf(limits[name]), 0);
}

/**
 * Returns the GPUs of a resource claim: those that were allocated, otherwise those that its requests count. It may ask
 * for all GPUs of a node, or for the first of several alternatives: then the allocation tells.
 */
export function gpusOfClaim({ spec, status }: UnknownRecord): number | undefined {
  const requests = recordsOf(asRecord(asRecord(spec)?.devices)?.requests);
  const allocation = asRecord(asRecord(status)?.allocation);
  if (allocation !== undefined) {
    const names = new Set(requests.flatMap(gpuRequestNames));
    const results = recordsOf(asRecord(allocation.devices)?.results);
    // A device with administrative access stays with the pod that has it.
    return results.filter(({ request, adminAccess }) => names.has(request) && adminAccess !== true).length;
  }
  const counts = requests.map(requestedOf);
  return counts.reduce<number | undefined>(
    (total, count) => (total === undefined || count === undefined ? undefined : total + count),
    0,
  );
}

/** Returns the names by which an allocation refers to a request of GPUs: that of an alternative has two parts. */
function gpuRequestNames({ name, exactly, firstAvailable }: UnknownRecord): readonly unknown[] {
  const isGpu = (request: UnknownRecord | undefined): boolean => request?.deviceClassName === GPU_CLASS;
  const alternatives = recordsOf(firstAvailable).filter(isGpu);
  return [...(isGpu(asRecord(exactly)) ? [name] : []), ...alternatives.map((each) => `${name}/${each.name}`)];
}

function requestedOf({ exactly, firstAvailable }: UnknownRecord): number | undefined {
  const { deviceClassName, allocationMode, count = 1, adminAccess } = asRecord(exactly) ?? {};
  if (recordsOf(firstAvailable).some((each) => each.deviceClassName === GPU_CLASS)) return undefined;
  if (deviceClassName !== GPU_CLASS || adminAccess === true) return 0;
  return allocationMode === 'All' ? undefined : wholeOf(count);
}

/** Returns the GPUs that pods which are one replica have for themselves; undefined while a claim is not known. */
export function gpusOfReplica(pods: readonly PodGpus[], claims: ClaimGpus): number | undefined {
  const claimed = gpusOfClaims(new Set(pods.flatMap((pod) => pod.claims)), claims);
  if (claimed === undefined || pods.some(({ hasOpenClaims }) => hasOpenClaims)) return undefined;
  return claimed + pods.reduce((total, { limits }) => total + limits, 0);
}

/** Returns the GPUs of claims together; undefined while those of one are not known. */
export function gpusOfClaims(names: ReadonlySet<string>, claims: ClaimGpus): number | undefined {
  const counts = [...names].map((name) => claims.get(name));
  if (counts.includes(undefined)) return undefined;
  return counts.reduce<number>((total, count = 0) => total + count, 0);
}

function recordsOf(value: unknown): readonly UnknownRecord[] {
  return Array.isArray(value) ? value.map((each) => asRecord(each) ?? {}) : [];
}

/** Extended resources are whole numbers; Kubernetes may write 1000 as `1k`. */
function wholeOf(value: unknown): number {
  const [, digits = '0', kilo] = /^(\d{1,9})(k?)$/.exec(String(value)) ?? [];
  return Number(digits) * (kilo === 'k' ? 1000 : 1);
}
