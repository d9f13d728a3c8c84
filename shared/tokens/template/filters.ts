import { readJson } from '../../protocol/index.ts';
import { spendFor, spendItems } from './budget.ts';
import { argument, type CallArguments, flagOf } from './call-arguments.ts';
import { entriesOf } from './dictionaries.ts';
import { centerText, formatPercent } from './format-text.ts';
import {
  attributeOf,
  batchItems,
  copyOf,
  extreme,
  groupItems,
  itemsBy,
  membersOf,
  sliceInto,
  sortItems,
  sortMembers,
  uniqueItems,
} from './items.ts';
import { toJsonText } from './json-text.ts';
import { compare, isEqual, isIn, toNumber } from './operations.ts';
import { toText } from './printed-values.ts';
import { lengthOf, toItems } from './sequences.ts';
import { TemplateRuntimeError } from './syntax.ts';
import {
  capitalize,
  encodeUrl,
  escapeHtml,
  indentText,
  joinItems,
  made,
  replaceText,
  stripTags,
  stripText,
  toTitle,
  truncateText,
  wrapWords,
} from './texts.ts';
import { isDictionary, isNumber, isTrue, isWhole, Namespace } from './values.ts';

/** Test of an `is` expression, with the arguments after its name. */
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

/** Returns the test `name`, or undefined. The test counts the steps of reading its value. */
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
  (change: (value: string) => string): Filter =>
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
  upper: text((value) => made(value.toUpperCase())),
  lower: text((value) => made(value.toLowerCase())),
  title: text(toTitle),
  capitalize: text(capitalize),
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
  escape: text(escapeHtml),
  e: text(escapeHtml),
  forceescape: text(escapeHtml),
  striptags: text(stripTags),
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
  random: (value) => toItems(value)[0], // so that every replica makes the same prompt
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

/** Returns the filter `name`, or undefined. The filter counts the steps of reading its value. */
export function findFilter(name: string): Filter | undefined {
  return Object.hasOwn(FILTERS, name) ? counted(FILTERS[name]!) : undefined;
}

/** Parses a JSON text. */
function parseJson(value: unknown): unknown {
  const json = toText(value);
  spendItems(json.length / 8);
  try {
    return readJson(json);
  } catch {
    throw new TemplateRuntimeError('fromjson: no JSON');
  }
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

/** Returns the test named by the argument at `from`, with the arguments after it; without a name, the test of truth. */
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

function parseNumber(value: unknown, fallback: unknown, finish: (number: number) => number): number {
  const number = numberOf(value);
  return Number.isFinite(number) ? finish(number) : numberOf(fallback);
}

/** Returns the number in a text or a number; NaN for anything else. */
function numberOf(value: unknown): number {
  if (typeof value === 'string') return value.trim() === '' ? Number.NaN : Number(value);
  return isNumber(value) || typeof value === 'boolean' ? toNumber(value, 'a number') : Number.NaN;
}
