import { exactMember, keysInOrder } from '../../protocol/index.ts';
import { spendItems } from './budget.ts';
import { type Dictionary, Tuple } from './values.ts';

/** Keys in the order of the text that the value was read from. */
export function keysOf(value: Dictionary): readonly string[] {
  const keys = keysInOrder(value);
  spendItems(keys.length);
  return keys;
}

/** The member or item, a number as it was written. */
export function memberOf(container: Dictionary, key: string): unknown {
  return exactMember(container, key, container[key]);
}

/** Pairs of key and member in the order of the text that the value was read from. */
export function entriesOf(value: Dictionary): unknown[][] {
  const isByNumber = NUMBERED.has(value);
  return keysOf(value).map((key) => Tuple.of<unknown>(isByNumber ? Number(key) : key, memberOf(value, key)));
}

/** Mappings that a template writes with numbers for keys. */
const NUMBERED = new WeakSet<object>();

/** A mapping of members whose keys are known. @param isByNumber they are numbers to the template */
export function dictionaryOf(members: readonly (readonly [string, unknown])[], isByNumber: boolean): Dictionary {
  const made = Object.fromEntries(members);
  if (isByNumber) NUMBERED.add(made);
  return made;
}

/** The keys as values: texts, or the numbers that they are. */
export function keyValues(value: Dictionary): readonly unknown[] {
  return NUMBERED.has(value) ? keysOf(value).map(Number) : keysOf(value);
}
