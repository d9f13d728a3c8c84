import type { ReceivedMessage } from '../../planes/index.ts';
import { PLANNER_EVENT_BYTES_MAX, type PlannerSignal, readPlannerText } from '../../protocol/index.ts';
import type { ForwardPass } from '../forward-pass/metrics.ts';
import { teach } from '../planner.ts';
import { roundSample } from '../record/fleet-sample.ts';
import type { Translated } from '../signals/eventbridge-events.ts';
import type { DecisionRecord, PlannerStore, TickRecord } from '../store/types.ts';
import type { PerPool } from '../types.ts';
import type { SentSignal } from './apply-signal.ts';
import { type Decided, decide, type NewDecision } from './decide.ts';
import { type ModelState, packState, startModel, unpackState } from './model-state.ts';
import { takeSample } from './note-sample.ts';
import type { DecideOptions, LawTick } from './tick-law.ts';

export interface BatchOptions extends DecideOptions {
  readonly store: PlannerStore;
  readonly group: string;
  /** Passes that were measured before; a model without any state begins with them. @default none */
  readonly profile?: PerPool<readonly (readonly ForwardPass[])[]> | undefined;
  /**
   * Receives the problem of each message that can never be read. Such a message is acknowledged, so that it does not
   * block others.
   */
  onRefused?(problem: string): void;
  /** Translates the body of a message that is an event of an environment. @default none is */
  translate?: Translate | undefined;
  /** Receives the name of each event of an environment that says nothing to a planner. It is acknowledged. */
  onUnknown?(what: string): void;
  /** Receives each signal that was read. */
  onRead?(signal: PlannerSignal): void;
}

/** Returns the signals of an event of an environment: see `toSignals`. */
type Translate = (body: unknown) => Translated;

export interface BatchOutcome extends Omit<Decided, 'state'> {
  /** The decision to carry out, as it was stored. */
  readonly record?: DecisionRecord | undefined;
  /** Times that another planner was faster. */
  readonly conflicts: number;
}

const TRIES = 4;
/** Seconds between two stored ticks that say the same. */
const TOLD_EVERY_S = 60;
/**
 * Seconds by which the state of a model begins before its first signal, so that an urgent first signal causes a tick.
 */
const BEFORE_FIRST_S = 1;

/** Several planners of one model wrote at once, again and again. The queue must hand out the batch again. */
export class PlannerConflict extends Error {
  override readonly name = 'PlannerConflict';
}

/** Reads the signals of a queue's messages. */
export function readMessages(
  messages: readonly Pick<ReceivedMessage, 'body' | 'sentAtMs'>[],
  {
    onRefused = () => {},
    onUnknown = () => {},
    translate,
  }: Pick<BatchOptions, 'onRefused' | 'onUnknown' | 'translate'> = {},
): readonly SentSignal[] {
  return messages.flatMap(({ body, sentAtMs }) => {
    const translated = translate?.(parsed(body)) ?? { kind: 'other' };
    if (translated.kind === 'unknown') onUnknown(translated.what);
    if (translated.kind === 'signals')
      return translated.signals.map((signal) => ({ signal, sentAtS: sentAtMs / 1000 }));
    if (translated.kind !== 'other') return [];
    const read = readPlannerText(body);
    if (read.kind === 'event' && read.event.type !== 'scale.decision') {
      return [{ signal: read.event, sentAtS: sentAtMs / 1000 }];
    }
    onRefused(read.kind === 'event' ? 'planner event refused: a planner does not take decisions' : read.problem);
    return [];
  });
}

function parsed(text: string): unknown {
  if (Buffer.byteLength(text) > PLANNER_EVENT_BYTES_MAX) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined; // the reader of planner events says so
  }
}

/**
 * Handles one batch of a model's messages: reads the state from the store, applies the signals, asks the law if a tick
 * is due, and writes state and decision as one. A second run with the same messages changes nothing.
 * @throws PlannerConflict
 */
export async function handleBatch(
  messages: readonly Pick<ReceivedMessage, 'body' | 'sentAtMs'>[],
  options: BatchOptions,
  signal: AbortSignal,
): Promise<BatchOutcome> {
  const signals = readMessages(messages, options);
  for (const each of signals) options.onRead?.(each.signal);
  return await handleSignals(signals, options, signal);
}

/** Does the same as `handleBatch`, with signals that were read already. */
export async function handleSignals(
  signals: readonly SentSignal[],
  options: BatchOptions,
  signal: AbortSignal,
): Promise<BatchOutcome> {
  const { store, group } = options;
  for (let conflicts = 0; conflicts < TRIES; conflicts++) {
    const stored = await store.readState(group, signal);
    const before = stored === undefined ? beginModel(signals, options) : unpackState(stored.state);
    const { state, report, tick, decision } = decide(before, signals, options);
    if (report.taken === 0) return { report, conflicts };
    const record = decision && tick && toRecord(decision, tick);
    if (tick !== undefined) state.latest = { reason: tick.effect.reason, figures: figuresOf(tick) };
    // Before the state is packed, which then knows whether the tick is stored.
    const toldTick = tick && isTold(state, tick) ? toTickRecord(state, tick) : undefined;
    const commit = {
      version: stored?.version ?? 0,
      state: packState(state),
      decision: record,
      tick: toldTick,
    };
    if (await store.commit(group, commit, signal)) return { report, tick, decision, record, conflicts };
  }
  throw new PlannerConflict(`${group}: another planner was faster ${TRIES} times`);
}

/**
 * Returns whether the tick is stored for people, and notes in `state` that it is. Its reason must differ from that of
 * the last stored tick in more than its numbers, or that tick must be a minute old.
 */
function isTold(state: ModelState, { atS, effect }: LawTick): boolean {
  const reason = effect.reason.replace(/\d+(\.\d+)?/g, '#');
  const { told } = state;
  if (told !== undefined && told.reason === reason && atS - told.atS < TOLD_EVERY_S) return false;
  state.told = { reason, atS };
  return true;
}

function beginModel(signals: readonly SentSignal[], { planner, profile = {} }: BatchOptions): ModelState {
  const state = startModel(firstOf(signals) - BEFORE_FIRST_S);
  state.planner = teach(state.planner, planner.config, profile);
  return state;
}

function firstOf(signals: readonly SentSignal[]): number {
  return Math.min(...signals.map(({ sentAtS }) => sentAtS));
}

function toRecord(decision: NewDecision, tick: LawTick): DecisionRecord {
  const { decisionId, targets, previous, reason, isAdvisory, configHash } = decision;
  return {
    decisionId,
    status: isAdvisory ? 'ADVISORY' : 'PENDING',
    targets,
    previous,
    reason,
    isAdvisory,
    configHash,
    decidedAtMs: Math.round(tick.atS * 1000),
    figures: figuresOf(tick),
  };
}

/** Returns a tick as it is stored, with the sample of `state`, which begins anew. */
function toTickRecord(state: ModelState, tick: LawTick): TickRecord {
  const sample = takeSample(state);
  const record = { atMs: Math.round(tick.atS * 1000), reason: tick.effect.reason, figures: figuresOf(tick) };
  return sample === undefined ? record : { ...record, sample: roundSample(sample) };
}

/** Returns the numbers behind a tick by name, for people. */
function figuresOf({ counts, started, seconds, effect, ...rest }: LawTick): Readonly<Record<string, number | string>> {
  const figures: Record<string, number | string> = {};
  const put = (name: string, value: number | string | undefined): void => {
    if (value !== undefined) figures[name] = typeof value === 'number' ? Number(value.toPrecision(6)) : value;
  };
  for (const [pool, { ready, starting, failing = 0 }] of Object.entries(counts)) {
    if (ready + starting === 0) continue;
    put(`${pool}_ready`, ready);
    put(`${pool}_starting`, starting);
    if (failing > 0) put(`${pool}_failing`, failing);
  }
  for (const [pool, count] of Object.entries(rest.leaving ?? {})) if (count > 0) put(`${pool}_leaving`, count);
  put('requests_per_second', started === undefined ? undefined : started / Math.max(seconds, 1e-3));
  put('running', rest.running);
  put('held', rest.held);
  put('input_tokens', rest.isl);
  put('output_tokens', rest.osl);
  put('ttft_ms', rest.ttftMs);
  put('itl_ms', rest.itlMs);
  for (const [pool, decision] of Object.entries(effect.rate?.pools ?? {})) {
    put(`${pool}_need`, decision.need);
    put(`${pool}_forecast`, decision.forecast);
    put(`${pool}_capacity`, decision.perEngine);
    put(`${pool}_limited_by`, decision.limitedBy);
  }
  put('load_reason', effect.loops?.load?.reason);
  put('throughput_reason', effect.loops?.throughput?.reason);
  return figures;
}
