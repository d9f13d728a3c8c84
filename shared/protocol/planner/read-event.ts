import { createHash } from 'node:crypto';
import { isRecord } from '../../records/index.ts';
import { PLANNER_EVENT, type PlannerEvent, type PlannerSignal } from './events.ts';
import { PLANNER_EVENT_VERSION } from './topics.ts';

/** Longest event in bytes of JSON: every queue takes as many. */
export const PLANNER_EVENT_BYTES_MAX = 256 * 1024;

export type ReadEvent =
  | { readonly kind: 'event'; readonly event: PlannerEvent }
  /** Must not be retried: it will never be readable. */
  | { readonly kind: 'refused'; readonly problem: string };

/** Reads an event of any sender. A refusal names the field. */
export function readPlannerEvent(raw: unknown): ReadEvent {
  if (!isRecord(raw)) return refused('it is not a record');
  const { v, type } = raw;
  if (v !== PLANNER_EVENT_VERSION) {
    return refused(`version ${shown(v)} of ${shown(type)} is not known; this planner reads ${PLANNER_EVENT_VERSION}`);
  }
  const result = PLANNER_EVENT.safeParse(raw);
  if (result.success) return { kind: 'event', event: result.data };
  const [issue] = result.error.issues;
  const field = issue?.path.join('.') || 'it';
  return refused(`${shown(type)}: ${field}: ${issue?.message ?? 'not as expected'}`);
}

/** Does the same as `readPlannerEvent` with the text of a message. */
export function readPlannerText(text: string): ReadEvent {
  if (Buffer.byteLength(text) > PLANNER_EVENT_BYTES_MAX) {
    return refused(`it has more than ${PLANNER_EVENT_BYTES_MAX} bytes`);
  }
  try {
    return readPlannerEvent(JSON.parse(text));
  } catch {
    return refused('it is not JSON');
  }
}

/** Returns the sender of an event; the numbers of each sender grow. */
export function sourceOf(event: PlannerSignal): string {
  return 'worker_id' in event && !('source' in event) ? event.worker_id : (event as { source: string }).source;
}

/**
 * Returns the name of a model's events and state, `namespace#model`: visible ASCII, at most 128 characters, so that
 * every queue takes it. Other characters are percent-encoded. A longer name becomes its beginning and a digest of the
 * whole.
 */
export function groupOf({ namespace, model }: Pick<PlannerEvent, 'namespace' | 'model'>): string {
  const group = [namespace, model].map((part) => encodeURIComponent(part).replaceAll('%2F', '/')).join('#');
  if (group.length <= GROUP_MAX) return group;
  const digest = createHash('sha256').update(group).digest('hex').slice(0, 32);
  return `${group.slice(0, GROUP_MAX - digest.length - 1)}~${digest}`;
}

const GROUP_MAX = 128;

/** Returns the SHA-256 of an event's name in hex. Two events of the same name are the same event, sent twice. */
export function deduplicationIdOf(event: PlannerSignal): string {
  const parts = [event.type, event.namespace, event.model, sourceOf(event), event.epoch, event.seq];
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex');
}

function refused(problem: string): ReadEvent {
  return { kind: 'refused', problem: `planner event refused: ${problem}` };
}

function shown(value: unknown): string {
  return (JSON.stringify(value) ?? 'undefined').slice(0, 80);
}
