import { type MetricRegistry, OVERFLOW_LABEL } from './registry.ts';

/** What operators see of API keys. */
export interface AccessMetrics {
  /** A request was not let in. */
  refused(reason: string): void;
  /** The store of keys was asked. */
  read(outcome: 'found' | 'unknown' | 'failed'): void;
  /** A request that generates was let in. */
  admitted(owner: string): void;
  /** Tokens of prompts and answers were used. */
  spent(owner: string, tokens: number): void;
}

/** Owners with series of their own; the others share one. */
const OWNERS_MAX = 100;

/** The metrics of API keys, in `registry`. */
export function createAccessMetrics(registry: MetricRegistry): AccessMetrics {
  const name = (rest: string): string => `stator_frontend_${rest}`;
  const refused = registry.counter(name('access_refused_total'), 'Requests that were not let in.', ['reason']);
  const reads = registry.counter(name('key_reads_total'), 'Reads of the store of API keys.', ['outcome']);
  const requests = registry.counter(name('owner_requests_total'), 'Requests for generating, by the owner of the key.', [
    'owner',
  ]);
  const tokens = registry.counter(
    name('owner_tokens_total'),
    'Tokens of prompts and answers, by the owner of the key.',
    ['owner'],
  );
  const owners = new Set<string>();
  const labelOf = (owner: string): string => {
    if (owners.has(owner)) return owner;
    if (owners.size >= OWNERS_MAX) return OVERFLOW_LABEL;
    owners.add(owner);
    return owner;
  };
  return {
    refused: (reason) => refused.with(reason).add(),
    read: (outcome) => reads.with(outcome).add(),
    admitted: (owner) => requests.with(labelOf(owner)).add(),
    spent: (owner, amount) => tokens.with(labelOf(owner)).add(amount),
  };
}
