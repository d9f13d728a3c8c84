import { spendChars, spendItems, spendText } from './budget.ts';
import { argument, type CallArguments, flagOf } from './call-arguments.ts';
import { entriesOf, memberOf } from './dictionaries.ts';
import { compare, isEqual } from './operations.ts';
import { toText } from './printed-values.ts';
import { toItems } from './sequences.ts';
import { TemplateRuntimeError } from './syntax.ts';
import { isDictionary, Namespace, Tuple } from './values.ts';

/** Copies the items of a value into a new list. */

export function copyOf(value: unknown): unknown[] {
  const items = toItems(value);
  spendItems(items.length);
  return [...items];
}

/** Returns the value at a path such as `a.b.0` of `item`; undefined if a step is missing. */
export function attributeOf(item: unknown, path: unknown): unknown {
  const steps = toText(path);
  spendChars(steps.length);
  return steps.split('.').reduce<unknown>((value, step) => {
    if (Array.isArray(value)) return value[Number(step)];
    if (value instanceof Namespace) return value.members.get(step);
    return isDictionary(value) && Object.hasOwn(value, step) ? memberOf(value, step) : undefined;
  }, item);
}

/** Returns the items, or the given attribute of each. */
export function itemsBy(value: unknown, attribute: unknown): readonly unknown[] {
  const items = toItems(value);
  if (attribute === undefined) return items;
  spendItems(items.length);
  return items.map((item) => attributeOf(item, attribute));
}

export function membersOf(value: unknown, filter: string): unknown[][] {
  if (isDictionary(value)) return entriesOf(value);
  throw new TemplateRuntimeError(`${filter} needs a mapping`);
}

/** Sorts by `keyOf`. Comparisons count as steps; the key of each item is computed once. */
function sortedBy<T>(items: readonly T[], isReversed: boolean, keyOf: (item: T) => unknown): T[] {
  spendItems(items.length * Math.ceil(Math.log2(items.length + 2)));
  const sorted = items
    .map((item) => ({ item, key: keyOf(item) }))
    .sort((left, right) => (isReversed ? compareKeys(right.key, left.key) : compareKeys(left.key, right.key)));
  return sorted.map(({ item }) => item);
}

/** Compares two keys; lists and tuples item by item. */
function compareKeys(left: unknown, right: unknown): number {
  if (!Array.isArray(left) || !Array.isArray(right)) return compare(left, right);
  for (let at = 0; at < Math.min(left.length, right.length); at++) {
    const order = isEqual(left[at], right[at]) ? 0 : compareKeys(left[at], right[at]);
    if (order !== 0) return order;
  }
  return left.length - right.length;
}

function foldedKey(value: unknown, isCaseSensitive: boolean): unknown {
  if (typeof value !== 'string' || isCaseSensitive) return value;
  spendText(value.length);
  return value.toLowerCase();
}

export function sortMembers(value: unknown, args: CallArguments): unknown {
  const at = argument(args, 1, 'by') === 'value' ? 1 : 0;
  const isCaseSensitive = flagOf(args, 0, 'case_sensitive');
  return sortedBy(membersOf(value, 'dictsort'), flagOf(args, 2, 'reverse'), (pair) =>
    foldedKey(pair[at], isCaseSensitive),
  );
}

export function extreme(value: unknown, args: CallArguments, isBetter: (order: number) => boolean): unknown {
  const isCaseSensitive = flagOf(args, 0, 'case_sensitive');
  const attribute = argument(args, 1, 'attribute');
  const key = (item: unknown): unknown =>
    foldedKey(attribute === undefined ? item : attributeOf(item, attribute), isCaseSensitive);
  const [first, ...rest] = copyOf(value);
  return rest.reduce((best, item) => (isBetter(compareKeys(key(item), key(best))) ? item : best), first);
}

/**
 * Returns the first of each group of equal items. Lists and mappings are compared one by one; other values are looked
 * up.
 */
export function uniqueItems(items: readonly unknown[]): readonly unknown[] {
  spendItems(items.length);
  const seen = new Set<unknown>();
  const compound: unknown[] = [];
  return items.filter((item) => {
    if (seen.has(item) || (typeof item === 'object' && compound.some((other) => isEqual(other, item)))) return false;
    seen.add(item);
    if (typeof item === 'object' && item !== null) compound.push(item);
    return true;
  });
}

export function sortItems(value: unknown, args: CallArguments): unknown {
  const attribute = argument(args, 2, 'attribute');
  const isCaseSensitive = flagOf(args, 1, 'case_sensitive');
  const names = attribute === undefined ? [undefined] : toText(attribute).split(',');
  return sortedBy(toItems(value), flagOf(args, 0, 'reverse'), (item) => {
    const keys = names.map((name) => foldedKey(name === undefined ? item : attributeOf(item, name), isCaseSensitive));
    return keys.length === 1 ? keys[0] : keys;
  });
}

export function groupItems(value: unknown, args: CallArguments): unknown {
  const attribute = argument(args, 0, 'attribute');
  const fallback = argument(args, 1, 'default');
  const groups = new Map<unknown, unknown[]>();
  for (const item of toItems(value)) {
    spendItems(1);
    const key = attributeOf(item, attribute) ?? fallback;
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [item]);
    else group.push(item);
  }
  return sortedBy([...groups], false, ([key]) => foldedKey(key, false)).map(([grouper, list]) =>
    Object.assign(Tuple.of<unknown>(grouper, list), { grouper, list }),
  );
}

export function batchItems(items: readonly unknown[], size: number, filler: unknown): unknown {
  const width = Math.trunc(size);
  const batches: unknown[][] = [];
  for (let at = 0; at < items.length && width >= 1; at += width) {
    const batch = items.slice(at, at + width);
    spendItems(batch.length);
    batches.push(batch);
  }
  const last = batches.at(-1);
  if (filler !== undefined && filler !== null && last !== undefined) {
    spendItems(width - last.length);
    while (last.length < width) last.push(filler);
  }
  return batches;
}

/** Splits items into `count` lists. If they do not divide evenly, the first lists are one item longer. */
export function sliceInto(items: readonly unknown[], count: number, filler: unknown): unknown {
  const slices = Math.max(1, Math.trunc(count));
  spendItems(slices + items.length);
  const short = Math.floor(items.length / slices);
  const longer = items.length % slices;
  let from = 0;
  return Array.from({ length: slices }, (_, at) => {
    const slice = items.slice(from, from + short + (at < longer ? 1 : 0));
    from += slice.length;
    if (filler !== undefined && filler !== null && at >= longer && longer > 0) slice.push(filler);
    return slice;
  });
}
