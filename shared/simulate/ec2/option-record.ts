import { BLOCK_ENDS_EARLY_MS, type Pool } from '../../planner/index.ts';
import { START_PHASES } from './conditions.ts';
import type { Ec2Scaling, SimulatedOption } from './ec2-scaling.ts';
import type { OptionPoint, PhaseTimes } from './ledger.ts';

/** Counts and costs of one option at the end. */
export interface OptionRecord {
  readonly pool: Pool;
  readonly option: string;
  /** Most instances that served at once. */
  readonly servingMax: number;
  /** Hours of instances that ran, from the moment that EC2 had them. */
  readonly instanceHours: number;
  /** Hours of instances that waited in the warm pool. */
  readonly warmHours: number;
  readonly gpuHours: number;
  readonly dollars: number;
  /** Instances that EC2 launched, and starts from the warm pool. */
  readonly launches: number;
  readonly warmStarts: number;
  /** Launches called off before they served. */
  readonly calledOff: number;
  /** Launches and starts that failed, by code. */
  readonly failedLaunches: Readonly<Record<string, number>>;
  /** Instances that had notice to leave. */
  readonly interruptions: number;
  /** Requests that went on elsewhere because their instance was taken away. */
  readonly movedStreams: number;
  /** Starts that came to serve, and their mean seconds by phase. */
  readonly starts: number;
  readonly startSeconds: number;
  readonly phaseSeconds: PhaseTimes;
  /** The option at each tick. */
  readonly points: readonly OptionPoint[];
}

/** Returns the counts and costs of each option. */
export function optionRecords({ options, beginsAtMs }: Ec2Scaling, durationMs: number): readonly OptionRecord[] {
  return options.map((option) => recordOf(option, blockMs(option, beginsAtMs, durationMs)));
}

function recordOf({ pool, group }: SimulatedOption, paidBlockMs: number): OptionRecord {
  const { ledger, spec, conditions } = group;
  const { launches, warmStarts, calledOff, failures, interruptions, moved, starts, phaseSeconds, points } = ledger;
  const { running, warm } = ledger.hours;
  const warmGpus = spec.warmPool?.state === 'Running' ? warm : 0;
  return {
    pool,
    option: spec.id,
    servingMax: points.reduce((most, { serving }) => Math.max(most, serving), 0),
    instanceHours: running,
    warmHours: warm,
    gpuHours: (running + warmGpus) * spec.gpusPerInstance,
    dollars: ledger.dollars(spec, conditions, paidBlockMs),
    launches,
    warmStarts,
    calledOff,
    failedLaunches: { ...failures },
    interruptions,
    movedStreams: moved,
    starts,
    startSeconds: START_PHASES.reduce((total, phase) => total + phaseSeconds[phase], 0),
    phaseSeconds,
    points,
  };
}

/** Returns how long a capacity block was paid for within the simulation. */
function blockMs({ group: { spec } }: SimulatedOption, beginsAtMs: number, durationMs: number): number {
  const endsMs = spec.endsAt === undefined ? durationMs : Date.parse(spec.endsAt) - BLOCK_ENDS_EARLY_MS - beginsAtMs;
  return Math.max(0, Math.min(durationMs, endsMs));
}
