import type { ReceivedMessage } from '../../planes/index.ts';
import { readPlannerText } from '../../protocol/index.ts';
import type { ForwardPass } from '../forward-pass/metrics.ts';
import { teach } from '../planner.ts';
import type { DecisionRecord, LookRecord, PlannerStore } from '../store/types.ts';
import type { PerPool } from '../types.ts';
import { type Decided, type DecideOptions, decide, type Look, type NewDecision } from './decide.ts';
import type { SentSignal } from './fold.ts';
import { type ModelState, packState, startModel, unpackState } from './model-state.ts';

export interface BatchOptions extends DecideOptions {
  readonly store: PlannerStore;
  readonly group: string;
  /** Passes that were measured before, which a model that nothing is known of yet begins with. @default none */
  readonly profile?: PerPool<readonly (readonly ForwardPass[])[]> | undefined;
  /** Told of each message that can never be read: it is acknowledged all the same, so that it blocks nobody. */
  onRefused?(problem: string): void;
}

export interface BatchOutcome extends Omit<Decided, 'state'> {
  /** What is to be applied, as it was kept. */
  readonly record?: DecisionRecord | undefined;
  /** Messages that can never be read. */
  readonly refused: number;
  /** Others were faster, so often. */
  readonly conflicts: number;
}

const TRIES = 4;
/** A model begins so long before it is first heard of, so that what cannot wait is looked at with the first signal. */
const BEFORE_FIRST_S = 1;

/** Several planners of one model were at it at once, again and again: the batch is to be handed out anew. */
export class PlannerConflict extends Error {
  override readonly name = 'PlannerConflict';
}

/** The signals of messages, as a queue gave them. */
export function readMessages(
  messages: readonly Pick<ReceivedMessage, 'body' | 'sentAtMs'>[],
  onRefused: (problem: string) => void = () => {},
): readonly SentSignal[] {
  return messages.flatMap(({ body, sentAtMs }) => {
    const read = readPlannerText(body);
    if (read.kind === 'event' && read.event.type !== 'scale.decision') {
      return [{ signal: read.event, sentAtS: sentAtMs / 1000 }];
    }
    onRefused(
      read.kind === 'event' ? 'planner event refused: a decision is nothing that a planner is told' : read.problem,
    );
    return [];
  });
}

/**
 * One batch of a model's messages: state from the store, signals folded in, the law asked where it is time, state and decision
 * written as one. Whoever runs it again with the same messages changes nothing. @throws PlannerConflict
 */
export async function handleBatch(
  messages: readonly Pick<ReceivedMessage, 'body' | 'sentAtMs'>[],
  options: BatchOptions,
  signal: AbortSignal,
): Promise<BatchOutcome> {
  let refused = 0;
  const signals = readMessages(messages, (problem) => {
    refused++;
    options.onRefused?.(problem);
  });
  return { ...(await handleSignals(signals, options, signal)), refused };
}

/** As `handleBatch`, for signals that were read already. */
export async function handleSignals(
  signals: readonly SentSignal[],
  options: BatchOptions,
  signal: AbortSignal,
): Promise<BatchOutcome> {
  const { store, group } = options;
  for (let conflicts = 0; conflicts < TRIES; conflicts++) {
    const stored = await store.readState(group, signal);
    const before = stored === undefined ? beginModel(signals, options) : unpackState(stored.state);
    const { state, report, look, decision } = decide(before, signals, options);
    if (report.taken === 0) return { report, refused: 0, conflicts };
    const record = decision && look && toRecord(decision, look);
    const commit = {
      version: stored?.version ?? 0,
      state: packState(state),
      decision: record,
      look: look && toLook(look),
    };
    if (await store.commit(group, commit, signal)) return { report, look, decision, record, refused: 0, conflicts };
  }
  throw new PlannerConflict(`${group}: ${TRIES} times another planner was faster`);
}

function beginModel(signals: readonly SentSignal[], { planner, profile = {} }: BatchOptions): ModelState {
  const state = startModel(firstOf(signals) - BEFORE_FIRST_S);
  state.planner = teach(state.planner, planner.config, profile);
  return state;
}

function firstOf(signals: readonly SentSignal[]): number {
  return Math.min(...signals.map(({ sentAtS }) => sentAtS));
}

function toRecord(decision: NewDecision, look: Look): DecisionRecord {
  const { decisionId, targets, previous, reason, isAdvisory, configHash } = decision;
  return {
    decisionId,
    status: isAdvisory ? 'ADVISORY' : 'PENDING',
    targets,
    previous,
    reason,
    isAdvisory,
    configHash,
    decidedAtMs: Math.round(look.atS * 1000),
    figures: figuresOf(look),
  };
}

function toLook(look: Look): LookRecord {
  return { atMs: Math.round(look.atS * 1000), reason: look.effect.reason, figures: figuresOf(look) };
}

/** The numbers behind a look, by name, for people. */
export function figuresOf({
  counts,
  started,
  seconds,
  effect,
  ...rest
}: Look): Readonly<Record<string, number | string>> {
  const figures: Record<string, number | string> = {};
  const put = (name: string, value: number | string | undefined): void => {
    if (value !== undefined) figures[name] = typeof value === 'number' ? Number(value.toPrecision(6)) : value;
  };
  for (const [pool, { ready, starting }] of Object.entries(counts)) {
    if (ready + starting === 0) continue;
    put(`${pool}_ready`, ready);
    put(`${pool}_starting`, starting);
  }
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
