import { TemplateRuntimeError } from './ast.ts';
import { compileBlock } from './compile-statement.ts';
import { parseTemplate } from './parse.ts';
import { Scope } from './scope.ts';
import { formatTime } from './strftime.ts';
import { type CallArguments, Namespace, type TemplateFunction, toNumber, toText } from './values.ts';

/** A compiled template: variables to text. @throws TemplateRuntimeError */
export type TemplateProgram = (variables: Readonly<Record<string, unknown>>, nowMs: number) => string;

/** Compiles a template once. @throws TemplateSyntaxError naming what is not supported */
export function compileProgram(source: string): TemplateProgram {
  const block = compileBlock(parseTemplate(source));
  return (variables, nowMs) => {
    const scope = new Scope(GLOBALS);
    const strftimeNow: TemplateFunction = ({ positional }) => formatTime(nowMs, toText(positional[0]));
    scope.set('strftime_now', strftimeNow);
    for (const name in variables) scope.set(name, variables[name]);
    const output = { text: '' };
    block(scope, output);
    return output.text;
  };
}

/** `range` makes no longer lists than this. */
const RANGE_MAX = 100_000;

const FUNCTIONS: Readonly<Record<string, TemplateFunction>> = {
  raise_exception: ({ positional }) => {
    throw new TemplateRuntimeError(toText(positional[0]));
  },
  namespace: ({ positional, named }) => {
    const space = new Namespace();
    for (const [name, value] of Object.entries(positional[0] ?? {})) space.members.set(name, value);
    for (const [name, value] of named) space.members.set(name, value);
    return space;
  },
  range: makeRange,
  dict: ({ positional, named }) => ({
    ...(Array.isArray(positional[0]) ? Object.fromEntries(positional[0]) : (positional[0] as object | undefined)),
    ...Object.fromEntries(named),
  }),
  joiner: ({ positional }) => {
    let isFirst = true;
    return () => {
      const text = isFirst ? '' : toText(positional[0] ?? ', ');
      isFirst = false;
      return text;
    };
  },
};

function makeRange({ positional }: CallArguments): readonly number[] {
  const [first = 0, second, step = 1] = positional.map((value) => toNumber(value, 'range'));
  const [from, to] = second === undefined ? [0, first] : [first, second];
  const count = Math.max(0, Math.ceil((to - from) / step));
  if (!(count <= RANGE_MAX)) throw new TemplateRuntimeError(`range of more than ${RANGE_MAX} numbers`);
  return Array.from({ length: count }, (_, at) => from + at * step);
}

const GLOBALS = new Scope();
for (const [name, value] of Object.entries(FUNCTIONS)) GLOBALS.set(name, value);
