import { exactMember, keysInOrder } from '../../protocol/index.ts';
import { spendItems } from './budget.ts';
import { type Dictionary, Tuple } from './values.ts';

/** Returns the keys in the order of the text that the value was read from. */
export function keysOf(value: Dictionary): readonly string[] {
  const keys = keysInOrder(value);
  spendItems(keys.length);
  return keys;
}

/** Returns a member or item; a number keeps the digits that it was written with. */
export function memberOf(container: Dictionary, key: string): unknown {
  return exactMember(container, key, container[key]);
}

/** Returns pairs of key and member in the order of the text that the value was read from. */
export function entriesOf(value: Dictionary): unknown[][] {
  const isByNumber = NUMBERED.has(value);
  return keysOf(value).map((key) => Tuple.of<unknown>(isByNumber ? Number(key) : key, memberOf(value, key)));
}

/** Mappings that a template writes with numbers as keys. */
const NUMBERED = new WeakSet<object>();

/** Makes a mapping of members whose keys are texts. @param isByNumber whether the template sees the keys as numbers */
export function dictionaryOf(members: readonly (readonly [string, unknown])[], isByNumber: boolean): Dictionary {
  const made = Object.fromEntries(members);
  if (isByNumber) NUMBERED.add(made);
  return made;
}

/** Returns the keys as values: as texts, or as numbers if the template wrote numbers. */
export function keyValues(value: Dictionary): readonly unknown[] {
  return NUMBERED.has(value) ? keysOf(value).map(Number) : keysOf(value);
}
