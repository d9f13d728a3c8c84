import { GPU_TAINT } from './nodes.ts';

/** Ports of a worker. The security group of workers opens them to functions and edges. */
const PORTS = { plane: 8800, status: 9100 } as const;
/** Seconds between two looks of each probe. */
const PROBE_SECS = { startup: 5, liveness: 10, readiness: 2 } as const;
/** Seconds for an engine to stop after its drain. */
const STOP_SECS = 60;
/** Seconds that an engine which is down gets to come back. */
const ENGINE_BACK_SECS = 120;
/** Seconds after which streams of a stopping worker move to another one, if the drain is not shorter. */
const MOVE_SECS = 60;
/** Start that takes as many times the usual one has failed. */
const START_FACTOR = 2;

/** Share of a node's cores and memory that its pods ask for. Kubernetes and its agents need the rest. */
const SHARE = { cpu: 0.75, memory: 0.75 } as const;

export interface WorkerPodProps {
  readonly image: string;
  /** Arguments of `stator worker`. */
  readonly arguments: readonly string[];
  /** Variables beside those of the pod. */
  readonly environment: Readonly<Record<string, string>>;
  readonly labels: Readonly<Record<string, string>>;
  readonly serviceAccount: string;
  /** Node pool whose nodes may run it. */
  readonly nodePool: string;
  readonly gpus: number;
  /** Pods that share a node. */
  readonly perNode: number;
  /** Whether several pods make up a worker. They stay near each other. */
  readonly isGroup: boolean;
  /** Disk of the node, GiB. */
  readonly diskGib: number;
  /** Cores and memory of the smallest type of node. */
  readonly node: { readonly vcpus: number; readonly memoryGib: number };
  /** Usual time of a start, in seconds. */
  readonly startSecs: number;
  readonly drainSecs: number;
}

/** Returns the longest time that a start may take, in seconds. */
export function startSecsMax({ startSecs }: Pick<WorkerPodProps, 'startSecs'>): number {
  return START_FACTOR * startSecs;
}

/** Returns the variables of a worker that follow from its place in a pod. Kubernetes fills in the name of the pod. */
export function podEnvironment({ startSecs, drainSecs }: Pick<WorkerPodProps, 'startSecs' | 'drainSecs'>) {
  return {
    DYN_TCP_RPC_PORT: String(PORTS.plane),
    DYN_SYSTEM_PORT: String(PORTS.status),
    DYN_GRACEFUL_SHUTDOWN_GRACE_PERIOD_SECS: String(Math.min(MOVE_SECS, drainSecs)),
    DYN_RUNTIME_GRACEFUL_SHUTDOWN_TIMEOUT_SECS: String(drainSecs),
    STATOR_ENGINE_START_TIMEOUT_SECS: String(startSecsMax({ startSecs })),
    HOME: '/tmp',
    HF_HOME: '/models',
    USER: 'stator', // PyTorch asks for the name of its user, which the image does not have
  };
}

/** Returns the template of the pods of a workload. The Helm chart has the same, for discovery in Kubernetes. */
export function workerPod(props: WorkerPodProps): object {
  const spread = (topologyKey: string) => ({
    maxSkew: 1,
    topologyKey,
    whenUnsatisfiable: 'ScheduleAnyway',
    labelSelector: { matchLabels: props.labels },
    matchLabelKeys: ['pod-template-hash'],
  });
  return {
    metadata: { labels: props.labels, annotations: { 'karpenter.sh/do-not-disrupt': 'true' } },
    spec: {
      serviceAccountName: props.serviceAccount,
      automountServiceAccountToken: false, // it asks AWS, and not the API of Kubernetes
      enableServiceLinks: false,
      securityContext: {
        runAsNonRoot: true,
        runAsUser: 1000,
        runAsGroup: 1000,
        fsGroup: 1000,
        fsGroupChangePolicy: 'OnRootMismatch',
        seccompProfile: { type: 'RuntimeDefault' },
      },
      nodeSelector: { 'karpenter.sh/nodepool': props.nodePool },
      tolerations: [{ key: GPU_TAINT.key, operator: 'Exists', effect: GPU_TAINT.effect }],
      ...(props.isGroup
        ? {}
        : {
            topologySpreadConstraints: [spread('topology.kubernetes.io/zone'), spread('kubernetes.io/hostname')],
          }),
      terminationGracePeriodSeconds: props.drainSecs + STOP_SECS,
      containers: [container(props)],
      volumes: [
        { name: 'tmp', emptyDir: { sizeLimit: '32Gi' } },
        { name: 'shm', emptyDir: { medium: 'Memory', sizeLimit: '8Gi' } },
        { name: 'models', emptyDir: { sizeLimit: `${modelsGibOf(props)}Gi` } },
      ],
    },
  };
}

/** GiB of a node's disk for its system, images and other files of pods. */
const SYSTEM_GIB = 64;

/** Returns the size of the volume for downloads: a pod's part of the disk. */
function modelsGibOf({ diskGib, perNode }: WorkerPodProps): number {
  return Math.floor((diskGib - SYSTEM_GIB) / perNode);
}

function container(props: WorkerPodProps): object {
  const looks = (secs: number, every: number) => Math.ceil(secs / every);
  const health = { path: '/health', port: 'status' };
  return {
    name: 'main',
    image: props.image,
    imagePullPolicy: 'IfNotPresent',
    args: ['worker', ...props.arguments],
    env: [
      { name: 'POD_NAME', valueFrom: { fieldRef: { fieldPath: 'metadata.name' } } },
      ...Object.entries(props.environment).map(([name, value]) => ({ name, value })),
    ],
    ports: Object.entries(PORTS).map(([name, containerPort]) => ({ name, containerPort })),
    startupProbe: {
      httpGet: health,
      periodSeconds: PROBE_SECS.startup,
      failureThreshold: looks(startSecsMax(props), PROBE_SECS.startup),
    },
    // /live fails while the engine is down, but not while a worker drains.
    livenessProbe: {
      httpGet: { path: '/live', port: 'status' },
      periodSeconds: PROBE_SECS.liveness,
      timeoutSeconds: 5,
      failureThreshold: looks(ENGINE_BACK_SECS, PROBE_SECS.liveness),
    },
    readinessProbe: { httpGet: health, periodSeconds: PROBE_SECS.readiness, timeoutSeconds: 2, failureThreshold: 2 },
    resources: resourcesOf(props),
    securityContext: {
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ['ALL'] },
    },
    volumeMounts: [
      { name: 'tmp', mountPath: '/tmp' },
      { name: 'shm', mountPath: '/dev/shm' },
      { name: 'models', mountPath: '/models' },
    ],
  };
}

/** Returns what a pod asks for: its part of the node. Memory is not shared, so the limit is what it asks for. */
function resourcesOf({ gpus, perNode, node }: WorkerPodProps): object {
  const cpu = `${Math.floor((SHARE.cpu * 1000 * node.vcpus) / perNode)}m`;
  const memory = `${Math.max(1, Math.floor((SHARE.memory * node.memoryGib) / perNode))}Gi`;
  return { requests: { cpu, memory }, limits: { memory, 'nvidia.com/gpu': gpus } };
}
