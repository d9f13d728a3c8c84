import { isTrue } from './values.ts';

/** Arguments of a call inside a template. */
export interface CallArguments {
  readonly positional: readonly unknown[];
  readonly named: ReadonlyMap<string, unknown>;
}

/** A macro, a global function or a bound method. */
export type TemplateFunction = (args: CallArguments) => unknown;

/** Returns the argument at `index`, or the one called `name`. */
export function argument({ positional, named }: CallArguments, index: number, name: string): unknown {
  return named.has(name) ? named.get(name) : positional[index];
}

export function flagOf(args: CallArguments, index: number, name: string, fallback = false): boolean {
  const value = argument(args, index, name);
  return value === undefined ? fallback : isTrue(value);
}
