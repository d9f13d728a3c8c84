import { START_PHASES, type StartPhase } from '../../protocol/index.ts';
import type { Targets } from '../types.ts';

/**
 * States of a worker from the order of its machine to its end. `capacity`: its machine is ordered and does not exist.
 * `starting`: its machine exists, and nothing says how far the start is.
 */
export const WORKER_PHASES = ['capacity', 'starting', ...START_PHASES, 'serving', 'draining'] as const;

export type WorkerPhase = (typeof WORKER_PHASES)[number];

/** Latencies that were measured in some time. */
export interface LatencySample {
  readonly count: number;
  readonly sumMs: number;
  /** How many of `count` lie in ticks whose mean met the target. */
  readonly met: number;
  readonly targetMs: number;
}

/** One capacity option of a pool, or a pool without options, during some time. */
export interface OptionSample {
  /** Worker seconds by phase. */
  readonly workers: Partial<Readonly<Record<WorkerPhase, number>>>;
  /** GPU seconds of machines that exist. */
  readonly gpuSeconds: number;
  /** Code of its newest launch, if that failed. */
  readonly failing?: string | undefined;
}

/** Starts of machines that ended well. */
export interface StartSample {
  readonly count: number;
  /** Seconds by phase, over all of them. */
  readonly seconds: Partial<Readonly<Record<StartPhase, number>>>;
}

/** Something that happened to a machine. */
export interface FleetEvent {
  readonly atMs: number;
  /** Kind of an interruption, or `launch-failed`. */
  readonly kind: string;
  readonly pool: string;
  /** Machine, if there is one. */
  readonly instance?: string | undefined;
  /** Code of the environment, types of machines and zone of a launch that failed. */
  readonly about?: string | undefined;
  /** Time at which the machine ends, if it is known. */
  readonly deadlineMs?: number | undefined;
}

/** Sums of what a planner saw of a fleet between two stored ticks. Their size does not depend on that of the fleet. */
export interface FleetSample {
  /** Seconds until its tick. */
  readonly seconds: number;
  /** Seconds of these in which the demand was known. */
  readonly knownSeconds: number;
  /** Requests that began. */
  readonly started: number;
  /** Tokens of prompts and of answers. */
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly ttft: LatencySample;
  readonly itl: LatencySample;
  /** Most requests that were held at once. */
  readonly heldMax: number;
  /** Held requests and running ones, times seconds. */
  readonly heldSeconds: number;
  readonly runningSeconds: number;
  /** Decided workers at its end. */
  readonly targets: Targets;
  /** By pool and option, `decode/1-spot`; by pool if the pool has no options. */
  readonly options: Readonly<Record<string, OptionSample>>;
  /** Undefined: no machine has told of its start. */
  readonly starts?: StartSample | undefined;
  readonly events: readonly FleetEvent[];
  /** Events beyond `EVENTS_MAX`. */
  readonly eventsLeftOut: number;
}

/** Events of one sample; further ones are counted. */
export const EVENTS_MAX = 16;

/** Joins two samples of which the second one follows the first. */
export function joinSamples(one: FleetSample, next: FleetSample): FleetSample {
  const events = [...one.events, ...next.events];
  const keys = new Set([...Object.keys(one.options), ...Object.keys(next.options)]);
  const starts = joinStarts(one.starts, next.starts);
  return {
    seconds: one.seconds + next.seconds,
    knownSeconds: one.knownSeconds + next.knownSeconds,
    started: one.started + next.started,
    inputTokens: one.inputTokens + next.inputTokens,
    outputTokens: one.outputTokens + next.outputTokens,
    ttft: joinLatencies(one.ttft, next.ttft),
    itl: joinLatencies(one.itl, next.itl),
    heldMax: Math.max(one.heldMax, next.heldMax),
    heldSeconds: one.heldSeconds + next.heldSeconds,
    runningSeconds: one.runningSeconds + next.runningSeconds,
    targets: next.targets,
    options: Object.fromEntries([...keys].map((key) => [key, joinOptions(one.options[key], next.options[key])])),
    ...(starts === undefined ? {} : { starts }),
    events: events.slice(0, EVENTS_MAX),
    eventsLeftOut: one.eventsLeftOut + next.eventsLeftOut + Math.max(0, events.length - EVENTS_MAX),
  };
}

/** Joins the times of starts. */
export function joinStarts(one: StartSample | undefined, next: StartSample | undefined): StartSample | undefined {
  if (one === undefined || next === undefined) return one ?? next;
  const seconds = START_PHASES.map((phase) => {
    return [phase, (one.seconds[phase] ?? 0) + (next.seconds[phase] ?? 0)] as const;
  });
  const known = Object.fromEntries(seconds.filter(([, each]) => each > 0));
  return { count: one.count + next.count, seconds: known };
}

function joinLatencies(one: LatencySample, next: LatencySample): LatencySample {
  const [count, sumMs, met] = [one.count + next.count, one.sumMs + next.sumMs, one.met + next.met];
  return { count, sumMs, met, targetMs: next.targetMs };
}

const NO_OPTION: OptionSample = { workers: {}, gpuSeconds: 0 };

function joinOptions(one: OptionSample = NO_OPTION, next: OptionSample = NO_OPTION): OptionSample {
  const workers: Partial<Record<WorkerPhase, number>> = {};
  for (const phase of WORKER_PHASES) {
    const seconds = (one.workers[phase] ?? 0) + (next.workers[phase] ?? 0);
    if (seconds > 0) workers[phase] = seconds;
  }
  const failing = next.failing ?? one.failing;
  return { workers, gpuSeconds: one.gpuSeconds + next.gpuSeconds, ...(failing === undefined ? {} : { failing }) };
}

/** Returns a sample as a store keeps it, with six digits of each number. */
export function roundSample(sample: FleetSample): FleetSample {
  const rounded = (key: string, value: unknown): unknown =>
    typeof value === 'number' && !Number.isInteger(value) && !key.endsWith('Ms') ? Number(value.toPrecision(6)) : value;
  return JSON.parse(JSON.stringify(sample, rounded)) as FleetSample;
}
