import type { Settings } from './settings.ts';

/** Streams at a time that the function of production serves, unless the file says otherwise. */
const CONCURRENCY_MAX = 200;

/**
 * The settings as production takes them: with a ceiling on what its function can cost, and on what it takes of the
 * account from other functions. `account` has none but the account's own.
 */
export function forProduction(settings: Settings): Settings {
  const { edges } = settings;
  const { concurrencyMax = CONCURRENCY_MAX } = edges.function;
  return { ...settings, edges: { ...edges, function: { ...edges.function, concurrencyMax } } };
}

/** Reserved concurrency of the function; undefined if it shares that of the account. */
export function reservedConcurrency({ edges }: Pick<Settings, 'edges'>): number | undefined {
  const { concurrencyMax } = edges.function;
  return concurrencyMax === 'account' ? undefined : concurrencyMax;
}
