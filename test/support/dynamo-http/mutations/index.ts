import type { Exchange } from '../exchange.ts';
import { judge } from '../judge.ts';
import { type Mutation, ofAnswer } from './edit.ts';
import { ERRORS } from './errors.ts';
import { FRAMING } from './framing.ts';
import { STREAMS } from './streams.ts';
import { VALUES } from './values.ts';

/** Faults that a sound runner must notice. */
export const MUTATIONS: readonly Mutation[] = [...FRAMING, ...ERRORS, ...STREAMS, ...VALUES];

/**
 * The mutation that takes an answer apart and puts it together again. Changes by this alone are not the fault of a
 * mutation.
 */
export const NO_MUTATION: Mutation = ofAnswer('none', () => true);

/** The outcome of one mutation. */
export interface Outcome {
  readonly mutation: string;
  /** Number of exchanges that it could change. */
  readonly changed: number;
  /** Ids of the exchanges in which the runner did not notice it. */
  readonly unnoticed: readonly string[];
}

/** Applies `mutation` to every exchange and judges each again. The exchanges must have passed unchanged. */
export function outcomeOf(mutation: Mutation, exchanges: readonly Exchange[]): Outcome {
  const changed = exchanges.flatMap((exchange) => mutation.apply(exchange) ?? []);
  const unnoticed = changed.filter((exchange) => judge(exchange).length === 0).map(({ row }) => row.id);
  return { mutation: mutation.name, changed: changed.length, unnoticed };
}
