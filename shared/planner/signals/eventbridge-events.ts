import {
  type InterruptionKind,
  PLANNER_EVENT_VERSION,
  type PlannerEventOf,
  type PlannerSignal,
  type PoolName,
} from '../../protocol/index.ts';
import { asRecord } from '../../records/index.ts';
import { failedTypes, launchFailureCode } from './launch-codes.ts';

/** Model and pool of the workers of an Auto Scaling group. */
export interface GroupPlace {
  readonly namespace: string;
  readonly model: string;
  readonly component: PoolName;
}

/** Knowledge of the fleets, as they were observed last: translating an event costs no call. */
export interface FleetPlaces {
  /** Returns undefined for a group that no planner scales. */
  ofGroup(group: string): GroupPlace | undefined;
  /** Returns the group of an instance; undefined for one of no group. */
  groupOf(instanceId: string): string | undefined;
  /** Returns the instances that run in a capacity reservation. */
  inReservation(reservationId: string): readonly string[];
}

export type Translated =
  | { readonly kind: 'signals'; readonly signals: readonly PlannerSignal[] }
  /** An event of another fleet, or one that says nothing to a planner. The caller counts it by its name. */
  | { readonly kind: 'unknown'; readonly what: string }
  /** Not an event of EventBridge: perhaps a planner's own. */
  | { readonly kind: 'other' };

/** "Spot Instance interruption notices": the notice comes two minutes before EC2 takes the instance. */
export const SPOT_NOTICE_MS = 120_000;
/** "Monitor Capacity Blocks using EventBridge": instances begin to end 30 minutes before the block does. */
export const BLOCK_ENDS_EARLY_MS = 1_800_000;
const ENTITIES_MAX = 256;
const TYPES_MAX = 64;
const HEALTH_CODES = /^AWS_EC2_(?:PERSISTENT_)?INSTANCE_(?:RETIREMENT|STOP|TERMINATION)_/;
const NAME_CHARACTERS_MAX = 120;

interface BusEvent {
  readonly id: string;
  readonly type: string;
  readonly source: string;
  /** Unix milliseconds; 0 for an event without a time, which says nothing. */
  readonly atMs: number;
  readonly detail: Readonly<Record<string, unknown>>;
  readonly resources: readonly string[];
}

/**
 * Translates an event of EventBridge to signals of planners. Pure: an event that comes twice gives the same signals,
 * which count once. The shapes are those of "Amazon EC2 Auto Scaling event reference", "Spot Instance interruption
 * notices", "EC2 instance rebalance recommendations", "Monitor Capacity Blocks using EventBridge" and "Amazon
 * EventBridge event schema for AWS Health".
 */
export function toSignals(body: unknown, places: FleetPlaces): Translated {
  const event = readEvent(body);
  if (event === undefined) return { kind: 'other' };
  const signals = event.atMs === 0 ? undefined : signalsOf(event, places);
  return signals === undefined || signals.length === 0
    ? { kind: 'unknown', what: `${event.source}: ${event.type}`.slice(0, NAME_CHARACTERS_MAX) }
    : { kind: 'signals', signals };
}

/** Returns the instances and the capacity reservation that an event names. */
export function namedBy(body: unknown): { readonly instances: readonly string[]; readonly reservationId?: string } {
  const event = readEvent(body);
  if (event === undefined) return { instances: [] };
  const reservationId = reservationOf(event);
  return { instances: instancesOf(event), ...(reservationId === undefined ? {} : { reservationId }) };
}

function readEvent(body: unknown): BusEvent | undefined {
  const record = asRecord(body);
  // The documented examples of capacity blocks write the name with an underscore.
  const type = record?.['detail-type'] ?? record?.detail_type;
  const { source, detail, id = record?.customer_event_id } = record ?? {};
  const known = asRecord(detail);
  if (typeof type !== 'string' || typeof source !== 'string' || known === undefined) return undefined;
  if (typeof id !== 'string' || id.length === 0 || id.length > 128) return undefined;
  return { id, type, source, detail: known, atMs: timeOf(record?.time) ?? 0, resources: textsOf(record?.resources) };
}

function signalsOf(event: BusEvent, places: FleetPlaces): readonly PlannerSignal[] | undefined {
  if (event.source === 'aws.autoscaling') return ofAutoScaling(event, places);
  if (isBlockEnd(event)) return ofBlock(event, places);
  const kind = interruptionOf(event);
  if (kind === undefined) return undefined;
  return interruptionsOf(event, kind, { ids: instancesOf(event), deadlineMs: deadlineOf(event, kind), places });
}

function ofAutoScaling(event: BusEvent, places: FleetPlaces): readonly PlannerSignal[] | undefined {
  const { type, detail } = event;
  const group = textOf(detail.AutoScalingGroupName);
  const place = group === undefined ? undefined : places.ofGroup(group);
  if (group === undefined || place === undefined) return undefined;
  switch (type) {
    case 'EC2 Instance Launch Unsuccessful':
      return [failureOf(event, group, place)];
    case 'EC2 Instance-terminate Lifecycle Action': {
      const ids = instancesOf(event);
      return interruptionsOf(event, 'termination', { ids, places: { ...places, groupOf: () => group } });
    }
    case 'EC2 Instance Launch Successful':
    case 'EC2 Instance Terminate Successful':
    case 'EC2 Instance Terminate Unsuccessful':
    case 'EC2 Instance-launch Lifecycle Action':
      return [tickOf(event, group, place)];
    default:
      return type.startsWith('EC2 Auto Scaling Instance Refresh ') ? [tickOf(event, group, place)] : undefined;
  }
}

/** A fleet has changed in a way that its environment describes better than the event: the planner looks again. */
function tickOf(event: BusEvent, group: string, place: GroupPlace): PlannerEventOf<'tick'> {
  const { namespace, model } = place;
  return { type: 'tick', namespace, model, ...origin(event, group), at: event.atMs };
}

function failureOf(event: BusEvent, group: string, place: GroupPlace): PlannerEventOf<'capacity.failed'> {
  const { detail, atMs: at, id } = event;
  const message = textOf(detail.StatusMessage) ?? '';
  const zone = textOf(asRecord(detail.Details)?.['Availability Zone']);
  const activity = textOf(detail.ActivityId) ?? id;
  return {
    type: 'capacity.failed',
    ...place,
    ...origin(event, `${group}/${activity}`),
    code: launchFailureCode(message),
    instance_types: failedTypes(message).slice(0, TYPES_MAX),
    ...(zone === undefined ? {} : { zone }),
    activity_id: activity,
    at,
  };
}

function ofBlock(event: BusEvent, places: FleetPlaces): readonly PlannerSignal[] {
  const reservation = reservationOf(event);
  const endsMs = timeOf(event.detail['end-date']);
  const ids = reservation === undefined ? [] : places.inReservation(reservation);
  const deadlineMs = endsMs === undefined ? undefined : endsMs - BLOCK_ENDS_EARLY_MS;
  return interruptionsOf(event, 'block-end', { ids, deadlineMs, places });
}

function interruptionsOf(
  event: BusEvent,
  kind: InterruptionKind,
  of: { readonly ids: readonly string[]; readonly deadlineMs?: number | undefined; readonly places: FleetPlaces },
): readonly PlannerEventOf<'capacity.interrupt'>[] {
  const { ids, deadlineMs, places } = of;
  return ids.flatMap((id) => {
    const group = places.groupOf(id);
    const place = group === undefined ? undefined : places.ofGroup(group);
    if (place === undefined) return [];
    const deadline = deadlineMs === undefined ? {} : { deadline_at: deadlineMs };
    const common = { ...place, ...origin(event, `${kind}/${id}`), instance_id: id, kind, ...deadline };
    return [{ type: 'capacity.interrupt' as const, ...common, at: event.atMs }];
  });
}

/** Returns the identity of the signals of an event: the event is their epoch, so that a repetition counts once. */
function origin({ id }: BusEvent, source: string) {
  return { v: PLANNER_EVENT_VERSION, source: source.slice(-128), epoch: id, seq: 0 } as const;
}

function interruptionOf({ source, type, detail }: BusEvent): InterruptionKind | undefined {
  if (source === 'aws.health') return HEALTH_CODES.test(textOf(detail.eventTypeCode) ?? '') ? 'retirement' : undefined;
  if (source !== 'aws.ec2') return undefined;
  switch (type) {
    case 'EC2 Spot Instance Interruption Warning':
      return 'spot-warning';
    case 'EC2 Instance Rebalance Recommendation':
      return 'rebalance';
    case 'EC2 Capacity Reservation Instance Interruption Warning':
      return detail['instance-lifecycle'] === 'capacity-block' ? 'block-end' : 'spot-warning';
    case 'EC2 Interruptible Capacity Reservation Instance Interruption Warning':
      return 'spot-warning'; // it ends in two minutes, as a Spot Instance does
    default:
      return undefined;
  }
}

/** The name as the page has it in its list of events, and as its examples have it. */
function isBlockEnd({ source, type }: BusEvent): boolean {
  return source === 'aws.ec2' && /^Capacity Block (?:Reservation )?Expiration Warning$/.test(type);
}

function reservationOf({ detail }: BusEvent): string | undefined {
  return textOf(detail['capacity-reservation-id']);
}

function deadlineOf({ detail, atMs }: BusEvent, kind: InterruptionKind): number | undefined {
  const stated = timeOf(detail['instance-termination-time']);
  if (kind === 'retirement') return timeOf(detail.startTime);
  return stated ?? (kind === 'spot-warning' ? atMs + SPOT_NOTICE_MS : undefined);
}

function instancesOf({ detail, resources }: BusEvent): readonly string[] {
  const one = textOf(detail['instance-id']) ?? textOf(detail.EC2InstanceId);
  if (one !== undefined) return [one];
  const entities = Array.isArray(detail.affectedEntities) ? detail.affectedEntities : [];
  const named = entities.map((entity) => textOf(asRecord(entity)?.entityValue));
  const all = [...named, ...resources.map((resource) => resource.split('/').at(-1))];
  const ids = all.filter((id): id is string => id !== undefined && /^i-[0-9a-z]{8,32}$/.test(id));
  return [...new Set(ids)].slice(0, ENTITIES_MAX);
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' && value.length > 0 && value.length <= 4096 ? value : undefined;
}

function textsOf(value: unknown): readonly string[] {
  const values: readonly unknown[] = Array.isArray(value) ? value : [value];
  return values.slice(0, ENTITIES_MAX).flatMap((each) => textOf(each) ?? []);
}

/** Returns a time in Unix milliseconds: ISO, or as AWS Health writes it, `Fri, 10 Mar 2023 12:03:38 GMT`. */
function timeOf(value: unknown): number | undefined {
  const ms = typeof value === 'string' ? Date.parse(value) : Number.NaN;
  return Number.isFinite(ms) && ms >= 1e12 && ms <= 1e13 ? ms : undefined;
}
