/** Kinds of workloads that a planner scales. */
export const WORKLOAD_KINDS = ['Deployment', 'LeaderWorkerSet'] as const;
export type WorkloadKind = (typeof WORKLOAD_KINDS)[number];

/** An object of Kubernetes whose replicas are workers. */
export interface Workload {
  readonly kind: WorkloadKind;
  readonly name: string;
}

/** Labels of the pods of a LeaderWorkerSet: the set, the place of the group in it, and that of the pod in its group. */
export const GROUP_LABELS = {
  set: 'leaderworkerset.sigs.k8s.io/name',
  group: 'leaderworkerset.sigs.k8s.io/group-index',
  pod: 'leaderworkerset.sigs.k8s.io/worker-index',
} as const;

const APIS = {
  Deployment: 'apis/apps/v1/*/deployments',
  LeaderWorkerSet: 'apis/leaderworkerset.x-k8s.io/v1/*/leaderworkersets',
} as const satisfies Readonly<Record<WorkloadKind, string>>;

/** Returns the path of a workload's scale subresource. */
export function scalePath({ kind, name }: Workload, namespace: string): string {
  const list = APIS[kind].replace('*', `namespaces/${encodeURIComponent(namespace)}`);
  return `/${list}/${encodeURIComponent(name)}/scale`;
}

/** Returns the workload that `Deployment/name` or `LeaderWorkerSet/name` names; undefined for another text. */
export function parseWorkload(text: string): Workload | undefined {
  const [kindText, name, ...rest] = text.split('/');
  const kind = WORKLOAD_KINDS.find((each) => each === kindText);
  const isNamed = name !== undefined && /^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$/.test(name);
  return kind === undefined || !isNamed || rest.length > 0 ? undefined : { kind, name };
}
