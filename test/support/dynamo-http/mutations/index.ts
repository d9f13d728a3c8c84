import type { Exchange } from '../exchange.ts';
import { judge } from '../judge.ts';
import { type Mutation, ofAnswer } from './edit.ts';
import { ERRORS } from './errors.ts';
import { FRAMING } from './framing.ts';
import { STREAMS } from './streams.ts';
import { VALUES } from './values.ts';

/** What a runner that sees what it claims must notice. */
export const MUTATIONS: readonly Mutation[] = [...FRAMING, ...ERRORS, ...STREAMS, ...VALUES];

/** Takes an answer apart and puts it together again: what this changes, no mutation may be blamed for. */
export const NO_MUTATION: Mutation = ofAnswer('none', () => true);

/** What became of one mutation. */
export interface Outcome {
  readonly mutation: string;
  /** Exchanges that it could be made in. */
  readonly changed: number;
  /** Ids of those in which nobody noticed it. */
  readonly unnoticed: readonly string[];
}

/** Makes `mutation` in every exchange and judges it anew. The exchanges must have passed as they were. */
export function outcomeOf(mutation: Mutation, exchanges: readonly Exchange[]): Outcome {
  const changed = exchanges.flatMap((exchange) => mutation.apply(exchange) ?? []);
  const unnoticed = changed.filter((exchange) => judge(exchange).length === 0).map(({ row }) => row.id);
  return { mutation: mutation.name, changed: changed.length, unnoticed };
}
