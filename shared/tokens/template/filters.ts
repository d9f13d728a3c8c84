import { toJsonText } from './json-text.ts';
import { replaceText, stripText, toTitle } from './methods.ts';
import { TemplateRuntimeError } from './syntax.ts';
import {
  type CallArguments,
  compare,
  isDictionary,
  isEqual,
  isIn,
  isTrue,
  lengthOf,
  Namespace,
  Tuple,
  toItems,
  toNumber,
  toText,
} from './values.ts';

/** An `is` test with the arguments after its name. */
type Test = (value: unknown, args: readonly unknown[]) => boolean;

const equal: Test = (value, [other]) => isEqual(value, other);
const unequal: Test = (value, [other]) => !isEqual(value, other);
const less: Test = (value, [other]) => compare(value, other) < 0;
const lessOrEqual: Test = (value, [other]) => compare(value, other) <= 0;
const greater: Test = (value, [other]) => compare(value, other) > 0;
const greaterOrEqual: Test = (value, [other]) => compare(value, other) >= 0;

const TESTS: Readonly<Record<string, Test>> = {
  defined: (value) => value !== undefined,
  undefined: (value) => value === undefined,
  none: (value) => value === null,
  null: (value) => value === null,
  string: (value) => typeof value === 'string',
  number: (value) => typeof value === 'number',
  integer: (value) => Number.isInteger(value),
  float: (value) => typeof value === 'number' && !Number.isInteger(value),
  boolean: (value) => typeof value === 'boolean',
  true: (value) => value === true,
  false: (value) => value === false,
  mapping: (value) => isDictionary(value) || value instanceof Namespace,
  iterable: (value) => typeof value === 'string' || Array.isArray(value) || isDictionary(value),
  sequence: (value) => typeof value === 'string' || Array.isArray(value) || isDictionary(value),
  callable: (value) => typeof value === 'function',
  odd: (value) => Math.abs(toNumber(value, 'odd') % 2) === 1,
  even: (value) => toNumber(value, 'even') % 2 === 0,
  divisibleby: (value, [by]) => toNumber(value, 'divisibleby') % toNumber(by, 'divisibleby') === 0,
  upper: (value) => toText(value) === toText(value).toUpperCase(),
  lower: (value) => toText(value) === toText(value).toLowerCase(),
  in: (value, [container]) => isIn(value, container),
  sameas: (value, [other]) => value === other,
  startingwith: (value, [part]) => toText(value).startsWith(toText(part)),
  endingwith: (value, [part]) => toText(value).endsWith(toText(part)),
  eq: equal,
  equalto: equal,
  '==': equal,
  ne: unequal,
  '!=': unequal,
  lt: less,
  lessthan: less,
  '<': less,
  le: lessOrEqual,
  '<=': lessOrEqual,
  gt: greater,
  greaterthan: greater,
  '>': greater,
  ge: greaterOrEqual,
  '>=': greaterOrEqual,
};

/** The test `name`, or undefined. */
export function findTest(name: string): Test | undefined {
  return Object.hasOwn(TESTS, name) ? TESTS[name] : undefined;
}

type Filter = (value: unknown, args: CallArguments) => unknown;

const argument = ({ positional, named }: CallArguments, index: number, name: string): unknown =>
  named.has(name) ? named.get(name) : positional[index];

const text =
  (change: (value: string) => unknown): Filter =>
  (value) =>
    change(toText(value));

const defaultFilter: Filter = (value, args) => {
  const isMissing = value === undefined || (isTrue(argument(args, 1, 'boolean')) && !isTrue(value));
  return isMissing ? (argument(args, 0, 'default_value') ?? '') : value;
};

const FILTERS: Readonly<Record<string, Filter>> = {
  length: lengthOf,
  count: lengthOf,
  string: toText,
  safe: (value) => value,
  upper: text((value) => value.toUpperCase()),
  lower: text((value) => value.toLowerCase()),
  title: text(toTitle),
  capitalize: text((value) => value.charAt(0).toUpperCase() + value.slice(1).toLowerCase()),
  trim: (value, args) => stripText(toText(value), argument(args, 0, 'chars'), true, true),
  replace: (value, args) =>
    replaceText(
      toText(value),
      toText(argument(args, 0, 'old')),
      toText(argument(args, 1, 'new')),
      argument(args, 2, 'count'),
    ),
  indent: indentText,
  escape: text(escapeHtml),
  e: text(escapeHtml),
  wordcount: text((value) => value.split(/\s+/).filter((word) => word !== '').length),
  default: defaultFilter,
  d: defaultFilter,
  tojson: toJsonText,
  first: (value) => toItems(value)[0],
  last: (value) => toItems(value).at(-1),
  list: (value) => [...toItems(value)],
  reverse: (value) =>
    typeof value === 'string' ? Array.from(value).reverse().join('') : [...toItems(value)].reverse(),
  join: (value, args) => {
    const items = itemsBy(value, argument(args, 1, 'attribute'));
    return items.map(toText).join(toText(argument(args, 0, 'd')));
  },
  unique: (value) => uniqueItems(toItems(value)),
  sort: sortItems,
  items: (value) => (value === undefined ? [] : entriesOf(value, 'items')),
  dictsort: (value) =>
    entriesOf(value, 'dictsort').sort(([a], [b]) => compare(toText(a).toLowerCase(), toText(b).toLowerCase())),
  map: mapItems,
  select: (value, args) => toItems(value).filter(testOf(args, 0)),
  reject: (value, args) => toItems(value).filter((item) => !testOf(args, 0)(item)),
  selectattr: (value, args) => toItems(value).filter(attributeTestOf(args)),
  rejectattr: (value, args) => toItems(value).filter((item) => !attributeTestOf(args)(item)),
  sum: (value, args) => {
    const numbers = itemsBy(value, argument(args, 0, 'attribute'));
    return numbers.reduce((sum: number, item) => sum + toNumber(item, 'sum'), 0);
  },
  min: (value) => toItems(value).reduce((least, item) => (compare(item, least) < 0 ? item : least)),
  max: (value) => toItems(value).reduce((most, item) => (compare(item, most) > 0 ? item : most)),
  batch: (value, args) => batchItems(toItems(value), toNumber(argument(args, 0, 'linecount'), 'batch')),
  groupby: groupItems,
  int: (value, args) => parseNumber(value, Number(argument(args, 0, 'default') ?? 0), Math.trunc),
  float: (value, args) => parseNumber(value, Number(argument(args, 0, 'default') ?? 0), (number) => number),
  abs: (value) => Math.abs(toNumber(value, 'abs')),
  round: (value, args) => {
    const scale = 10 ** Number(argument(args, 0, 'precision') ?? 0);
    return Math.round(toNumber(value, 'round') * scale) / scale;
  },
  urlencode: text(encodeURIComponent),
};

/** The filter `name`, or undefined. */
export function findFilter(name: string): Filter | undefined {
  return Object.hasOwn(FILTERS, name) ? FILTERS[name] : undefined;
}

/** `a.b.0` of `item`; undefined where a step is missing. */
function attributeOf(item: unknown, path: unknown): unknown {
  return toText(path)
    .split('.')
    .reduce<unknown>((value, step) => {
      if (Array.isArray(value)) return value[Number(step)];
      return isDictionary(value) && Object.hasOwn(value, step) ? value[step] : undefined;
    }, item);
}

/** The items, or of each the attribute that is asked for. */
function itemsBy(value: unknown, attribute: unknown): readonly unknown[] {
  const items = toItems(value);
  return attribute === undefined ? items : items.map((item) => attributeOf(item, attribute));
}

function entriesOf(value: unknown, filter: string): unknown[][] {
  if (isDictionary(value)) return Object.entries(value).map((entry) => Tuple.of(...entry));
  throw new TemplateRuntimeError(`${filter} needs a mapping`);
}

function mapItems(value: unknown, args: CallArguments): unknown {
  const attribute = args.named.get('attribute');
  const fallback = args.named.get('default');
  if (attribute !== undefined) return toItems(value).map((item) => attributeOf(item, attribute) ?? fallback);
  const [name, ...positional] = args.positional;
  const filter = findFilter(toText(name));
  if (filter === undefined) throw new TemplateRuntimeError(`map: unknown filter ${toText(name)}`);
  return toItems(value).map((item) => filter(item, { positional, named: args.named }));
}

/** The test named by the argument at `from`, with the arguments after it; without one, truth. */
function testOf({ positional }: CallArguments, from: number): (item: unknown) => boolean {
  const name = positional[from];
  if (name === undefined) return isTrue;
  const test = findTest(toText(name));
  if (test === undefined) throw new TemplateRuntimeError(`unknown test ${toText(name)}`);
  const rest = positional.slice(from + 1);
  return (item) => test(item, rest);
}

function attributeTestOf(args: CallArguments): (item: unknown) => boolean {
  const test = testOf(args, 1);
  return (item) => test(attributeOf(item, args.positional[0]));
}

/** The first of each kind of equal items. Lists and mappings are compared with each other, all else is looked up. */
function uniqueItems(items: readonly unknown[]): readonly unknown[] {
  const seen = new Set<unknown>();
  const compound: unknown[] = [];
  return items.filter((item) => {
    if (seen.has(item) || (typeof item === 'object' && compound.some((other) => isEqual(other, item)))) return false;
    seen.add(item);
    if (typeof item === 'object' && item !== null) compound.push(item);
    return true;
  });
}

function sortItems(value: unknown, args: CallArguments): unknown {
  const attribute = argument(args, 2, 'attribute');
  const key = (item: unknown): unknown => {
    const by = attribute === undefined ? item : attributeOf(item, attribute);
    return typeof by === 'string' && !isTrue(argument(args, 1, 'case_sensitive')) ? by.toLowerCase() : by;
  };
  const sorted = [...toItems(value)].sort((left, right) => compare(key(left), key(right)));
  return isTrue(argument(args, 0, 'reverse')) ? sorted.reverse() : sorted;
}

function groupItems(value: unknown, args: CallArguments): unknown {
  const attribute = argument(args, 0, 'attribute');
  const groups = new Map<string, unknown[]>();
  for (const item of toItems(value)) {
    const key = toText(attributeOf(item, attribute));
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [item]);
    else group.push(item);
  }
  return [...groups].sort(([left], [right]) => compare(left, right)).map((group) => Tuple.of<unknown>(...group));
}

function batchItems(items: readonly unknown[], size: number): unknown {
  const batches: (readonly unknown[])[] = [];
  for (let at = 0; at < items.length && size >= 1; at += size) batches.push(items.slice(at, at + size));
  return batches;
}

function indentText(value: unknown, args: CallArguments): string {
  const width = argument(args, 0, 'width') ?? 4;
  const prefix = typeof width === 'number' ? ' '.repeat(width) : toText(width);
  const isFirstIndented = isTrue(argument(args, 1, 'first'));
  const areBlankIndented = isTrue(argument(args, 2, 'blank'));
  const lines = toText(value).split('\n');
  const change = (line: string, at: number): string =>
    (at === 0 && !isFirstIndented) || (line === '' && at > 0 && !areBlankIndented) ? line : prefix + line;
  return lines.map(change).join('\n');
}

function parseNumber(value: unknown, fallback: number, finish: (number: number) => number): number {
  const number = typeof value === 'string' && value.trim() === '' ? Number.NaN : Number(value ?? Number.NaN);
  return Number.isFinite(number) ? finish(number) : fallback;
}

function escapeHtml(value: string): string {
  const entities: Readonly<Record<string, string>> = {
    '&': '&amp;',
    '<': '&lt;',
    '>': '&gt;',
    '"': '&#34;',
    "'": '&#39;',
  };
  return value.replace(/[&<>"']/g, (char) => entities[char]!);
}
