import { asRecord, type UnknownRecord } from '../../records/index.ts';
import { gpusOfPod, type PodGpus } from './gpus.ts';
import type { Labels } from './selectors.ts';
import { GROUP_LABELS } from './workload.ts';

/**
 * Annotation by which a ReplicaSet chooses the pods that it ends first, and the lowest value that it takes: no pod of
 * another value goes before one of this.
 */
export const DELETION_COST = 'controller.kubernetes.io/pod-deletion-cost';
export const LOWEST_COST = -2_147_483_647;

/** A pod, as far as a planner reads it. */
export interface Pod {
  readonly name: string;
  readonly uid: string;
  readonly labels: Labels;
  readonly gpus: PodGpus;
  readonly createdMs: number;
  readonly phase: string;
  /** Its end was ordered. */
  readonly isTerminating: boolean;
  readonly isReady: boolean;
  /** Whether it is not ready, but was since one of its containers has started. */
  readonly wasReady: boolean;
  /** Whether a container of it has started more than once. */
  readonly hasRestarted: boolean;
  /** Time of the last change of its readiness. */
  readonly readyChangedMs: number | undefined;
  /** Whether it has a node. */
  readonly isAssigned: boolean;
  readonly scheduledMs: number | undefined;
  /** Reason of the scheduler, if no node has room for it. */
  readonly unschedulable: string | undefined;
  /** Why a container of it does not run, or why the scheduler leaves it out. */
  readonly waiting: Waiting | undefined;
  readonly deletionCost: number;
  /** Template of its ReplicaSet or group. */
  readonly template: string | undefined;
  /** Place of its group in a LeaderWorkerSet, and its own place in the group. */
  readonly group: number | undefined;
  readonly place: number | undefined;
}

/** Reason of Kubernetes, such as `ImagePullBackOff`, with its words. */
export interface Waiting {
  readonly code: string;
  readonly message: string | undefined;
}

const TEMPLATES = ['pod-template-hash', 'leaderworkerset.sigs.k8s.io/template-revision-hash'];

/** Returns what a planner reads of a pod; undefined for an object without a name or uid. */
export function readPod(object: UnknownRecord): Pod | undefined {
  const metadata = asRecord(object.metadata) ?? {};
  const { name, uid, deletionTimestamp, creationTimestamp } = metadata;
  if (typeof name !== 'string' || typeof uid !== 'string') return undefined;
  const status = asRecord(object.status) ?? {};
  const labels = asRecord(metadata.labels) ?? {};
  const [ready, scheduled] = [conditionOf(status, 'Ready'), conditionOf(status, 'PodScheduled')];
  const isUnschedulable = scheduled?.status === 'False' && scheduled.reason === 'Unschedulable';
  const template = TEMPLATES.map((label) => labels[label]).find((value) => typeof value === 'string');
  return {
    name,
    uid,
    labels: labels as Labels,
    gpus: gpusOfPod(object),
    createdMs: timeOf(creationTimestamp) ?? 0,
    phase: typeof status.phase === 'string' ? status.phase : 'Pending',
    isTerminating: deletionTimestamp !== undefined,
    isReady: ready?.status === 'True',
    wasReady: wasReady(status, ready),
    hasRestarted: containersOf(status).some(({ restartCount }) => Number(restartCount) > 0),
    readyChangedMs: timeOf(ready?.lastTransitionTime),
    isAssigned: Boolean(asRecord(object.spec)?.nodeName),
    scheduledMs: scheduled?.status === 'True' ? timeOf(scheduled.lastTransitionTime) : undefined,
    unschedulable: isUnschedulable ? textOf(scheduled.message) : undefined,
    waiting: waitingOf(status, scheduled),
    deletionCost: costOf(asRecord(metadata.annotations)?.[DELETION_COST]),
    template: template as string | undefined,
    group: indexOf(labels[GROUP_LABELS.group]),
    place: indexOf(labels[GROUP_LABELS.pod]),
  };
}

/** Returns whether a controller counts a pod: one whose end was ordered, or that has ended, is replaced. */
export function isActive({ isTerminating, phase }: Pod): boolean {
  return !isTerminating && phase !== 'Failed' && phase !== 'Succeeded';
}

function conditionOf({ conditions }: UnknownRecord, type: string): UnknownRecord | undefined {
  const all = Array.isArray(conditions) ? conditions.map((each) => asRecord(each) ?? {}) : [];
  return all.find((each) => each.type === type);
}

function containersOf({ containerStatuses }: UnknownRecord): readonly UnknownRecord[] {
  return Array.isArray(containerStatuses) ? containerStatuses.map((each) => asRecord(each) ?? {}) : [];
}

/** A container that starts in order names no reason but these. */
const IN_ORDER = new Set(['ContainerCreating', 'PodInitializing']);

function waitingOf(status: UnknownRecord, scheduled: UnknownRecord | undefined): Waiting | undefined {
  const containers = [status.initContainerStatuses, status.containerStatuses].flatMap((containerStatuses) =>
    containersOf({ containerStatuses }),
  );
  const states = containers.map(({ state }) => asRecord(asRecord(state)?.waiting) ?? {});
  const gate = scheduled?.status === 'False' ? [scheduled] : [];
  const all = [...states.filter(({ reason }) => !IN_ORDER.has(String(reason))), ...gate, ...states];
  const found = all.find(({ reason }) => typeof reason === 'string' && reason !== '');
  if (found === undefined) return undefined;
  return { code: String(found.reason), message: typeof found.message === 'string' ? found.message : undefined };
}

/** A pod that has never been ready is not ready since before its containers started. */
function wasReady(status: UnknownRecord, ready: UnknownRecord | undefined): boolean {
  const changedMs = timeOf(ready?.lastTransitionTime);
  if (ready?.status === 'True' || changedMs === undefined) return false;
  return containersOf(status).some(({ started, state }) => {
    const startedMs = timeOf(asRecord(asRecord(state)?.running)?.startedAt);
    return started === true && startedMs !== undefined && startedMs < changedMs;
  });
}

function timeOf(value: unknown): number | undefined {
  const ms = typeof value === 'string' ? Date.parse(value) : Number.NaN;
  return Number.isNaN(ms) ? undefined : ms;
}

/** A value that is no number counts as none, as the controller does. */
function costOf(value: unknown): number {
  return typeof value === 'string' && /^-?\d{1,10}$/.test(value) ? Number(value) : 0;
}

function indexOf(value: unknown): number | undefined {
  return typeof value === 'string' && /^\d{1,9}$/.test(value) ? Number(value) : undefined;
}

function textOf(value: unknown): string {
  return typeof value === 'string' && value !== '' ? value : 'Unschedulable';
}
