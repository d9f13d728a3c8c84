import { modelsGibOf } from '../../settings/index.ts';
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
  /** Template of claims by which it gets its GPUs. @default it counts them as a resource of the node */
  readonly claimTemplate?: string | undefined;
  /** EFA interfaces. @default 0 */
  readonly efaInterfaces?: number;
  /** Folder of a bucket that it copies to `WEIGHTS_FOLDER` before it starts. @default none */
  readonly copied?: string | undefined;
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

const MODELS_FOLDER = '/models';
/** Folder of a pod into which it copies its weights. */
export const WEIGHTS_FOLDER = `${MODELS_FOLDER}/weights`;

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
    HF_HOME: MODELS_FOLDER,
    USER: 'stator', // PyTorch asks for the name of its user, which the image does not have
  };
}

/** Returns the template of the pods of a workload. The Helm chart has the same, for discovery in Kubernetes. */
export function workerPod(props: WorkerPodProps): object {
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
      ...(props.isGroup ? {} : { topologySpreadConstraints: [zoneSpread(props)] }),
      terminationGracePeriodSeconds: props.drainSecs + STOP_SECS,
      ...(props.claimTemplate === undefined
        ? {}
        : { resourceClaims: [{ name: CLAIM, resourceClaimTemplateName: props.claimTemplate }] }),
      ...(props.copied === undefined ? {} : { initContainers: [copier(props, props.copied)] }),
      containers: [container(props)],
      volumes: [
        { name: 'tmp', emptyDir: { sizeLimit: '32Gi' } },
        { name: 'shm', emptyDir: { medium: 'Memory', sizeLimit: '8Gi' } },
        { name: 'models', emptyDir: { sizeLimit: `${modelsGibOf(props.diskGib, props.perNode)}Gi` } },
      ],
    },
  };
}

/**
 * Returns how pods spread over zones: by whole nodes. Karpenter takes such a wish for a must as long as it can start
 * nodes. It would start one for each pod if they spread over machines, or pod by pod over zones, and leave the other
 * GPUs of each idle.
 */
function zoneSpread({ perNode, labels }: WorkerPodProps): object {
  return {
    maxSkew: perNode,
    topologyKey: 'topology.kubernetes.io/zone',
    whenUnsatisfiable: 'ScheduleAnyway',
    labelSelector: { matchLabels: labels },
    matchLabelKeys: ['pod-template-hash'],
  };
}

/** Name of the claim of GPUs within a pod. */
const CLAIM = 'gpus';
const SECURITY = {
  allowPrivilegeEscalation: false,
  readOnlyRootFilesystem: true,
  capabilities: { drop: ['ALL'] },
} as const;
const TMP = { name: 'tmp', mountPath: '/tmp' } as const;
const MODELS = { name: 'models', mountPath: MODELS_FOLDER } as const;

/** Returns the container that copies the weights. It has the variables of the worker: region and place of its home. */
function copier({ image, environment }: WorkerPodProps, uri: string): object {
  const needed = ['AWS_REGION', 'HOME'].flatMap((name) => {
    const value = environment[name];
    return value === undefined ? [] : [{ name, value }];
  });
  return {
    name: 'weights',
    image,
    imagePullPolicy: 'IfNotPresent',
    args: ['artifacts', 'fetch', uri, WEIGHTS_FOLDER],
    env: needed,
    resources: { requests: { cpu: '1', memory: '1Gi' }, limits: { memory: '2Gi' } },
    securityContext: SECURITY,
    volumeMounts: [TMP, MODELS],
  };
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
      // Kubernetes copies the label from the node since 1.35. Without it, the variable is empty.
      { name: 'POD_ZONE', valueFrom: { fieldRef: { fieldPath: `metadata.labels['topology.kubernetes.io/zone']` } } },
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
    securityContext: SECURITY,
    volumeMounts: [TMP, { name: 'shm', mountPath: '/dev/shm' }, MODELS],
  };
}

/**
 * Returns what a pod asks for: its part of the node. Memory is not shared, so the limit is what it asks for. A pod that
 * asks for huge pages would get no node from Karpenter or Auto Mode.
 */
function resourcesOf({ gpus, claimTemplate, efaInterfaces = 0, perNode, node }: WorkerPodProps): object {
  const cpu = `${Math.floor((SHARE.cpu * 1000 * node.vcpus) / perNode)}m`;
  const memory = `${Math.max(1, Math.floor((SHARE.memory * node.memoryGib) / perNode))}Gi`;
  const hasClaims = claimTemplate !== undefined;
  return {
    requests: { cpu, memory },
    limits: {
      memory,
      ...(hasClaims ? {} : { 'nvidia.com/gpu': gpus }),
      ...(efaInterfaces === 0 ? {} : { 'vpc.amazonaws.com/efa': efaInterfaces }),
    },
    ...(hasClaims ? { claims: [{ name: CLAIM }] } : {}),
  };
}
