import { readJson } from '../../protocol/index.ts';
import { spendChars, spendFor, spendItems, spendText } from './budget.ts';
import { toJsonText } from './json-text.ts';
import { TemplateRuntimeError } from './syntax.ts';
import {
  argument,
  centerText,
  encodeUrl,
  escapeHtml,
  flagOf,
  formatPercent,
  indentText,
  joinItems,
  replaceText,
  stripText,
  toTitle,
  truncateText,
  wrapWords,
} from './texts.ts';
import {
  type CallArguments,
  compare,
  entriesOf,
  isDictionary,
  isEqual,
  isIn,
  isNumber,
  isTrue,
  isWhole,
  lengthOf,
  memberOf,
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
  number: (value) => isNumber(value) || typeof value === 'boolean', // as in Python
  integer: isWhole,
  float: (value) => isNumber(value) && !isWhole(value),
  boolean: (value) => typeof value === 'boolean',
  true: (value) => value === true,
  false: (value) => value === false,
  mapping: (value) => isDictionary(value) || value instanceof Namespace,
  iterable: (value) => typeof value === 'string' || Array.isArray(value) || isDictionary(value),
  sequence: (value) => typeof value === 'string' || Array.isArray(value) || isDictionary(value),
  callable: (value) => typeof value === 'function',
  escaped: () => false,
  filter: (value) => findFilter(toText(value)) !== undefined,
  test: (value) => findTest(toText(value)) !== undefined,
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

/** The test `name`, or undefined. It counts the reading of its value. */
export function findTest(name: string): Test | undefined {
  return Object.hasOwn(TESTS, name) ? counted(TESTS[name]!) : undefined;
}

function counted<Args, Result>(apply: (value: unknown, args: Args) => Result): (value: unknown, args: Args) => Result {
  return (value, args) => {
    spendFor(value);
    return apply(value, args);
  };
}

type Filter = (value: unknown, args: CallArguments) => unknown;

const text =
  (change: (value: string) => unknown): Filter =>
  (value) =>
    changed(change(toText(value)));

/** Counts a text that was made. */
function changed(value: unknown): unknown {
  if (typeof value === 'string') spendText(value.length);
  return value;
}

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
  indent: (value, args) =>
    indentText(toText(value), argument(args, 0, 'width'), flagOf(args, 1, 'first'), flagOf(args, 2, 'blank')),
  escape: (value) => escapeHtml(toText(value)),
  e: (value) => escapeHtml(toText(value)),
  forceescape: (value) => escapeHtml(toText(value)),
  striptags: text((value) =>
    value
      .replace(/<[^<>]*>/g, '')
      .replace(/\s+/g, ' ')
      .trim(),
  ),
  center: (value, args) => centerText(toText(value), argument(args, 0, 'width') ?? 80, ' '),
  truncate: (value, args) =>
    truncateText(
      toText(value),
      toNumber(argument(args, 0, 'length') ?? 255, 'truncate'),
      flagOf(args, 1, 'killwords'),
      toText(argument(args, 2, 'end') ?? '...'),
      toNumber(argument(args, 3, 'leeway') ?? 5, 'truncate'),
    ),
  wordwrap: (value, args) =>
    wrapWords(
      toText(value),
      toNumber(argument(args, 0, 'width') ?? 79, 'wordwrap'),
      flagOf(args, 1, 'break_long_words', true),
      toText(argument(args, 2, 'wrapstring') ?? '\n'),
    ),
  format: (value, { positional, named }) => formatPercent(toText(value), positional, named),
  wordcount: (value) => toText(value).match(/\S+/g)?.length ?? 0,
  default: defaultFilter,
  d: defaultFilter,
  tojson: toJsonText,
  fromjson: parseJson,
  from_json: parseJson,
  pprint: toText,
  first: (value) => toItems(value)[0],
  last: (value) => toItems(value).at(-1),
  list: copyOf,
  random: (value) => toItems(value)[0], // every replica makes the same prompt
  reverse: (value) => (typeof value === 'string' ? copyOf(value).reverse().join('') : copyOf(value).reverse()),
  attr: (value, args) =>
    value instanceof Namespace ? value.members.get(toText(argument(args, 0, 'name'))) : undefined,
  join: (value, args) => joinItems(itemsBy(value, argument(args, 1, 'attribute')), toText(argument(args, 0, 'd'))),
  unique: (value) => uniqueItems(toItems(value)),
  sort: sortItems,
  items: (value) => (value === undefined ? [] : membersOf(value, 'items')),
  dictsort: sortMembers,
  map: mapItems,
  select: (value, args) => toItems(value).filter(testOf(args, 0)),
  reject: (value, args) => toItems(value).filter((item) => !testOf(args, 0)(item)),
  selectattr: (value, args) => toItems(value).filter(attributeTestOf(args)),
  rejectattr: (value, args) => toItems(value).filter((item) => !attributeTestOf(args)(item)),
  sum: (value, args) => {
    const numbers = itemsBy(value, argument(args, 0, 'attribute'));
    return numbers.reduce((sum: number, item) => sum + toNumber(item, 'sum'), 0);
  },
  min: (value, args) => extreme(value, args, (order) => order < 0),
  max: (value, args) => extreme(value, args, (order) => order > 0),
  batch: (value, args) =>
    batchItems(toItems(value), toNumber(argument(args, 0, 'linecount'), 'batch'), argument(args, 1, 'fill_with')),
  slice: (value, args) =>
    sliceInto(toItems(value), toNumber(argument(args, 0, 'slices'), 'slice'), argument(args, 1, 'fill_with')),
  groupby: groupItems,
  int: (value, args) => parseNumber(value, argument(args, 0, 'default') ?? 0, Math.trunc),
  float: (value, args) => parseNumber(value, argument(args, 0, 'default') ?? 0, (number) => number),
  abs: (value) => Math.abs(toNumber(value, 'abs')),
  round: (value, args) => {
    const scale = 10 ** numberOf(argument(args, 0, 'precision') ?? 0);
    return Math.round(toNumber(value, 'round') * scale) / scale;
  },
  urlencode: (value) =>
    encodeUrl(value, isDictionary(value) ? entriesOf(value) : Array.isArray(value) ? value.map(toItems) : undefined),
  filesizeformat: (value, args) => fileSize(toNumber(value, 'filesizeformat'), flagOf(args, 0, 'binary')),
  xmlattr: (value) => joinItems(membersOf(value, 'xmlattr').filter(isShown).map(attributeText), ''),
};

/** The filter `name`, or undefined. It counts the reading of its value. */
export function findFilter(name: string): Filter | undefined {
  return Object.hasOwn(FILTERS, name) ? counted(FILTERS[name]!) : undefined;
}

function copyOf(value: unknown): unknown[] {
  const items = toItems(value);
  spendItems(items.length);
  return [...items];
}

/** The value that a JSON text says. */
function parseJson(value: unknown): unknown {
  const json = toText(value);
  spendItems(json.length / 8);
  try {
    return readJson(json);
  } catch {
    throw new TemplateRuntimeError('fromjson: no JSON');
  }
}

/** `a.b.0` of `item`; undefined where a step is missing. */
function attributeOf(item: unknown, path: unknown): unknown {
  const steps = toText(path);
  spendChars(steps.length);
  return steps.split('.').reduce<unknown>((value, step) => {
    if (Array.isArray(value)) return value[Number(step)];
    if (value instanceof Namespace) return value.members.get(step);
    return isDictionary(value) && Object.hasOwn(value, step) ? memberOf(value, step) : undefined;
  }, item);
}

/** The items, or of each the attribute that is asked for. */
function itemsBy(value: unknown, attribute: unknown): readonly unknown[] {
  const items = toItems(value);
  if (attribute === undefined) return items;
  spendItems(items.length);
  return items.map((item) => attributeOf(item, attribute));
}

function membersOf(value: unknown, filter: string): unknown[][] {
  if (isDictionary(value)) return entriesOf(value);
  throw new TemplateRuntimeError(`${filter} needs a mapping`);
}

/** Sorted by `keyOf`; comparing takes steps, each key is made once. */
function sortedBy<T>(items: readonly T[], isReversed: boolean, keyOf: (item: T) => unknown): T[] {
  spendItems(items.length * Math.ceil(Math.log2(items.length + 2)));
  const sorted = items
    .map((item) => ({ item, key: keyOf(item) }))
    .sort((left, right) => (isReversed ? compareKeys(right.key, left.key) : compareKeys(left.key, right.key)));
  return sorted.map(({ item }) => item);
}

/** Lists and tuples item by item. */
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

function sortMembers(value: unknown, args: CallArguments): unknown {
  const at = argument(args, 1, 'by') === 'value' ? 1 : 0;
  const isCaseSensitive = flagOf(args, 0, 'case_sensitive');
  return sortedBy(membersOf(value, 'dictsort'), flagOf(args, 2, 'reverse'), (pair) =>
    foldedKey(pair[at], isCaseSensitive),
  );
}

function extreme(value: unknown, args: CallArguments, isBetter: (order: number) => boolean): unknown {
  const isCaseSensitive = flagOf(args, 0, 'case_sensitive');
  const attribute = argument(args, 1, 'attribute');
  const key = (item: unknown): unknown =>
    foldedKey(attribute === undefined ? item : attributeOf(item, attribute), isCaseSensitive);
  const [first, ...rest] = copyOf(value);
  return rest.reduce((best, item) => (isBetter(compareKeys(key(item), key(best))) ? item : best), first);
}

function isShown([, value]: readonly unknown[]): boolean {
  return value !== undefined && value !== null;
}

function attributeText([key, value]: readonly unknown[]): string {
  return ` ${escapeHtml(toText(key))}="${escapeHtml(toText(value))}"`;
}

function fileSize(bytes: number, isBinary: boolean): string {
  const base = isBinary ? 1024 : 1000;
  const units = isBinary ? ['KiB', 'MiB', 'GiB', 'TiB', 'PiB'] : ['kB', 'MB', 'GB', 'TB', 'PB'];
  if (bytes < base) return bytes === 1 ? '1 Byte' : `${Math.trunc(bytes)} Bytes`;
  const power = Math.min(units.length, Math.floor(Math.log(bytes) / Math.log(base)));
  return `${(bytes / base ** power).toFixed(1)} ${units[power - 1]}`;
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

function sortItems(value: unknown, args: CallArguments): unknown {
  const attribute = argument(args, 2, 'attribute');
  const isCaseSensitive = flagOf(args, 1, 'case_sensitive');
  const names = attribute === undefined ? [undefined] : toText(attribute).split(',');
  return sortedBy(toItems(value), flagOf(args, 0, 'reverse'), (item) => {
    const keys = names.map((name) => foldedKey(name === undefined ? item : attributeOf(item, name), isCaseSensitive));
    return keys.length === 1 ? keys[0] : keys;
  });
}

function groupItems(value: unknown, args: CallArguments): unknown {
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

function batchItems(items: readonly unknown[], size: number, filler: unknown): unknown {
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

/** `count` lists, the first of them one item longer where it does not come out even. */
function sliceInto(items: readonly unknown[], count: number, filler: unknown): unknown {
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

function parseNumber(value: unknown, fallback: unknown, finish: (number: number) => number): number {
  const number = numberOf(value);
  return Number.isFinite(number) ? finish(number) : numberOf(fallback);
}

/** What a text or a number says; NaN of all else. */
function numberOf(value: unknown): number {
  if (typeof value === 'string') return value.trim() === '' ? Number.NaN : Number(value);
  return isNumber(value) || typeof value === 'boolean' ? toNumber(value, 'a number') : Number.NaN;
}
