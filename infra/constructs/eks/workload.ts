import type { KubeObject } from './objects.ts';
import { startSecsMax, type WorkerPodProps, workerPod } from './worker-pod.ts';

export interface WorkloadProps extends Omit<WorkerPodProps, 'arguments'> {
  readonly name: string;
  readonly namespace: string;
  /** Nodes of a replica. More than one make a group of pods, of which only the first one serves. */
  readonly nodes: number;
  /** Whether there is a node for one more replica, so that an update starts a pod before it ends one. */
  readonly hasSpare: boolean;
  /** Returns the arguments of a pod by its place in the group. */
  argumentsOf(place: 'leader' | 'follower'): readonly string[];
}

/**
 * Seconds beyond the longest start after which Kubernetes calls a rollout stuck: its node starts, its image arrives.
 */
const ROLLOUT_MARGIN_SECS = 600;

/**
 * Returns the workload of one option. It names no number of replicas: a planner sets it, and applying the manifest
 * again must not change it.
 */
export function workload(props: WorkloadProps): KubeObject {
  return props.nodes === 1 ? deployment(props) : leaderWorkerSet(props);
}

/** Returns the kind of an option's workload and its name, as a planner names it. */
export function referenceOf({ name, nodes }: Pick<WorkloadProps, 'name' | 'nodes'>): string {
  return `${nodes === 1 ? 'Deployment' : 'LeaderWorkerSet'}/${name}`;
}

function deployment(props: WorkloadProps): KubeObject {
  const { name, namespace, labels } = props;
  return {
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: { name, namespace, labels },
    spec: {
      progressDeadlineSeconds: startSecsMax(props) + ROLLOUT_MARGIN_SECS,
      strategy: { type: 'RollingUpdate', rollingUpdate: rolloutOf(props) },
      selector: { matchLabels: labels },
      template: workerPod({ ...props, arguments: props.argumentsOf('leader') }),
    },
  };
}

/** A pod that ends takes its group with it: an engine does not survive the loss of a node. */
function leaderWorkerSet(props: WorkloadProps): KubeObject {
  const { name, namespace, labels, nodes } = props;
  return {
    apiVersion: 'leaderworkerset.x-k8s.io/v1',
    kind: 'LeaderWorkerSet',
    metadata: { name, namespace, labels },
    spec: {
      startupPolicy: 'LeaderCreated',
      rolloutStrategy: {
        type: 'RollingUpdate',
        rollingUpdateConfiguration: rolloutOf(props),
      },
      leaderWorkerTemplate: {
        size: nodes,
        restartPolicy: 'RecreateGroupOnPodRestart',
        leaderTemplate: workerPod({ ...props, arguments: props.argumentsOf('leader') }),
        workerTemplate: workerPod({ ...props, arguments: props.argumentsOf('follower') }),
      },
    },
  };
}

/** Returns how an update replaces replicas: one by one. Without a spare node, the old one must end first. */
function rolloutOf({ hasSpare }: WorkloadProps): object {
  return hasSpare ? { maxUnavailable: 0, maxSurge: 1 } : { maxUnavailable: 1, maxSurge: 0 };
}

/**
 * Returns the name of the template of a workload's claims. Kubernetes lets no template change, so another number of
 * GPUs is another template.
 */
export function claimTemplateOf(workloadName: string, gpus: number): string {
  return `${workloadName}-gpus-${gpus}`;
}

/** Returns the template of the claims by which the pods of a workload get their GPUs. */
export function claimTemplate({ name: workloadName, namespace, labels, gpus }: WorkloadProps): KubeObject {
  const name = claimTemplateOf(workloadName, gpus);
  const exactly = { deviceClassName: 'gpu.nvidia.com', allocationMode: 'ExactCount', count: gpus };
  return {
    apiVersion: 'resource.k8s.io/v1',
    kind: 'ResourceClaimTemplate',
    metadata: { name, namespace, labels },
    spec: { spec: { devices: { requests: [{ name: 'gpus', exactly }] } } },
  };
}

/** Returns the budget that lets one pod of an option be evicted at a time. */
export function disruptionBudget({ name, namespace, labels }: WorkloadProps): KubeObject {
  return {
    apiVersion: 'policy/v1',
    kind: 'PodDisruptionBudget',
    metadata: { name, namespace, labels },
    spec: { maxUnavailable: 1, unhealthyPodEvictionPolicy: 'AlwaysAllow', selector: { matchLabels: labels } },
  };
}
