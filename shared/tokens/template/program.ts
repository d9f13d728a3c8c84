import { spend, spendItems, spendText } from './budget.ts';
import type { CallArguments, TemplateFunction } from './call-arguments.ts';
import { compileCounted } from './compile-statement.ts';
import { keysOf, memberOf } from './dictionaries.ts';
import { toNumber } from './operations.ts';
import { toText } from './printed-values.ts';
import { Scope } from './scope.ts';
import { type Node, TemplateRuntimeError } from './syntax.ts';
import { isDictionary, Namespace } from './values.ts';

/** A compiled template. */
export interface TemplateProgram {
  /** Renders variables to text. @throws TemplateRuntimeError */
  readonly render: (variables: Readonly<Record<string, unknown>>, nowMs: number) => string;
  /** Steps that count for one pass over the whole template. */
  readonly steps: number;
}

/** Compiles a parsed template. @throws TemplateSyntaxError naming what is not supported */
export function compileNodes(nodes: readonly Node[]): TemplateProgram {
  const [block, steps] = compileCounted(nodes);
  const render: TemplateProgram['render'] = (variables, nowMs) => {
    spend(steps);
    const scope = new Scope(GLOBALS);
    const strftimeNow: TemplateFunction = ({ positional }) => formatTime(nowMs, toText(positional[0]));
    scope.set('strftime_now', strftimeNow);
    for (const name in variables) scope.set(name, variables[name]);
    const output = { text: '' };
    block(scope, output);
    return output.text;
  };
  return { render, steps };
}

/** Length limit of the lists of `range`, as in Jinja's sandbox. */
const RANGE_MAX = 100_000;

const FUNCTIONS: Readonly<Record<string, TemplateFunction>> = {
  raise_exception: ({ positional }) => {
    throw new TemplateRuntimeError(toText(positional[0]));
  },
  namespace: ({ positional, named }) => {
    const space = new Namespace();
    for (const first of positional) putMembers(space.members, first);
    for (const [name, value] of named) space.members.set(name, value);
    return space;
  },
  range: makeRange,
  dict: ({ positional, named }) => {
    const members = new Map<string, unknown>();
    for (const first of positional) putMembers(members, first);
    spendItems(named.size);
    return Object.fromEntries([...members, ...named]);
  },
  cycler: ({ positional }) => {
    if (positional.length === 0) throw new TemplateRuntimeError('cycler needs an item');
    let at = 0;
    const current = (): unknown => positional[at % positional.length];
    const next: TemplateFunction = () => positional[at++ % positional.length];
    const reset: TemplateFunction = () => {
      at = 0;
    };
    return {
      next,
      reset,
      get current() {
        return current();
      },
    };
  },
  joiner: ({ positional }) => {
    let isFirst = true;
    return () => {
      const text = isFirst ? '' : toText(positional[0] ?? ', ');
      isFirst = false;
      return text;
    };
  },
};

/** Adds the members of a mapping, or pairs. */
function putMembers(members: Map<string, unknown>, source: unknown): void {
  if (source === undefined || source === null) return;
  if (Array.isArray(source)) {
    spendItems(source.length);
    for (const pair of source) {
      if (!Array.isArray(pair)) throw new TemplateRuntimeError('dict needs pairs');
      members.set(toText(pair[0]), pair[1]);
    }
  } else if (isDictionary(source)) for (const key of keysOf(source)) members.set(key, memberOf(source, key));
}

function makeRange({ positional }: CallArguments): readonly number[] {
  const [first = 0, second, step = 1] = positional.map((value) => toNumber(value, 'range'));
  const [from, to] = second === undefined ? [0, first] : [first, second];
  const count = Math.max(0, Math.ceil((to - from) / step));
  if (!(count <= RANGE_MAX)) throw new TemplateRuntimeError(`range of more than ${RANGE_MAX} numbers`);
  spendItems(count);
  return Array.from({ length: count }, (_, at) => from + at * step);
}

const GLOBALS = new Scope();
for (const [name, value] of Object.entries(FUNCTIONS)) GLOBALS.set(name, value);

const DAYS = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday'] as const;
const MONTHS = [
  'January',
  'February',
  'March',
  'April',
  'May',
  'June',
  'July',
  'August',
  'September',
  'October',
  'November',
  'December',
] as const;

/**
 * Formats a time as Python's `strftime`, in English and UTC, so that every replica renders the same prompt. Unknown
 * codes stay as text.
 */
function formatTime(unixMs: number, format: string): string {
  const date = new Date(unixMs);
  const two = (value: number): string => String(value).padStart(2, '0');
  const day = DAYS[date.getUTCDay()]!;
  const month = MONTHS[date.getUTCMonth()]!;
  const hour12 = date.getUTCHours() % 12 || 12;
  const dayOfYear = Math.floor(
    (Date.UTC(date.getUTCFullYear(), date.getUTCMonth(), date.getUTCDate()) - Date.UTC(date.getUTCFullYear(), 0, 0)) /
      86_400_000,
  );
  const codes: Readonly<Record<string, string | number>> = {
    Y: date.getUTCFullYear(),
    y: two(date.getUTCFullYear() % 100),
    m: two(date.getUTCMonth() + 1),
    d: two(date.getUTCDate()),
    '-d': date.getUTCDate(),
    '-m': date.getUTCMonth() + 1,
    e: String(date.getUTCDate()).padStart(2, ' '),
    j: String(dayOfYear).padStart(3, '0'),
    H: two(date.getUTCHours()),
    I: two(hour12),
    M: two(date.getUTCMinutes()),
    S: two(date.getUTCSeconds()),
    p: date.getUTCHours() < 12 ? 'AM' : 'PM',
    A: day,
    a: day.slice(0, 3),
    B: month,
    b: month.slice(0, 3),
    Z: 'UTC',
    z: '+0000',
    '%': '%',
  };
  spendText(format.length * 10);
  return format.replace(/%(-?[A-Za-z%])/g, (text, code: string) => String(codes[code] ?? text));
}
