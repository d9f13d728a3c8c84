import * as z from 'zod';
import { nearestName } from '../../shared/errors/index.ts';

/** A mistake in the settings of a deployment; one line says what to change. */
export class SettingsError extends Error {}

type RawIssue = z.core.$ZodRawIssue;

/**
 * How a file is checked: what the schema has no words for is said by `explain`, and what was given is kept for
 * messages.
 */
export const CHECKED = { error: explain, reportInput: true } as const;

/** Says each thing that `schema` refused, by its path, with what was given and what it may be. */
export function problemsOf(schema: z.ZodType, error: z.ZodError): readonly string[] {
  return error.issues.flatMap((issue) => describe(issue, schema));
}

/** Ways in which the words of the schema say what is allowed, and not what was given. */
const WITHOUT_INPUT: readonly z.core.$ZodIssue['code'][] = ['invalid_format', 'invalid_union'];

function describe(issue: z.core.$ZodIssue, schema: z.ZodType): readonly string[] {
  const path = issue.path.map(String);
  if (issue.code !== 'unrecognized_keys') {
    const given = WITHOUT_INPUT.includes(issue.code) && !isOfKind(issue) ? `; it is ${show(issue.input)}` : '';
    return [`${path.join('.') || 'the file'}: ${issue.message}${given}`];
  }
  const known = keysAt(schema, path, issue.input);
  return issue.keys.map((key) => {
    const nearest = nearestName(key, known);
    const hint = nearest === undefined ? `known are ${known.join(', ')}` : `did you mean ${nearest}?`;
    return `${[...path, key].join('.')}: unknown key; ${hint}`;
  });
}

/** Whether an issue is about the field by which the alternatives of a union differ. */
function isOfKind(issue: object): issue is { readonly discriminator: string; readonly options: readonly unknown[] } {
  return 'discriminator' in issue && 'options' in issue && Array.isArray(issue.options);
}

const KINDS: Readonly<Record<string, string>> = {
  int: 'a whole number',
  number: 'a number',
  string: 'a text',
  boolean: 'true or false',
  object: 'an object',
  record: 'an object',
  array: 'a list',
};

/** Returns the message for a problem without one in the schema: what was given, and what is allowed. */
function explain(issue: RawIssue): string | undefined {
  const given = issue.input === undefined ? 'is missing' : show(issue.input);
  switch (issue.code) {
    case 'invalid_union':
      return isOfKind(issue) ? explainKind(issue) : undefined;
    case 'invalid_type':
      return `${given}: must be ${KINDS[issue.expected] ?? issue.expected}`;
    case 'invalid_value':
      return `${given}: allowed are ${issue.values.map((value) => JSON.stringify(value)).join('|')}`;
    case 'too_small':
    case 'too_big':
      return explainSize(issue, given);
    case 'invalid_key':
      return issue.issues[0]?.message;
    default:
      return undefined;
  }
}

/** Says which alternatives a union has; an input that is not an object has no kind. */
function explainKind({
  input,
  discriminator,
  options,
}: RawIssue & { discriminator: string; options: readonly unknown[] }) {
  const kind = typeof input === 'object' && input !== null ? Reflect.get(input, discriminator) : undefined;
  const given = kind === undefined ? 'is missing' : show(kind);
  return `${given}: allowed are ${options.map((value) => JSON.stringify(value)).join('|')}`;
}

function explainSize(issue: RawIssue & { readonly code: 'too_small' | 'too_big' }, given: string): string {
  const { schema, origin } = issue;
  const isOne = (issue.code === 'too_small' ? issue.minimum : issue.maximum) === 1;
  if (origin === 'string') return `${given}: must have ${boundOf(issue)} ${isOne ? 'character' : 'characters'}`;
  if (origin === 'array') return `must have ${boundOf(issue)} ${isOne ? 'entry' : 'entries'}`;
  const { minValue, maxValue } = schema instanceof z.ZodNumber ? schema : {};
  const isWhole = schema instanceof z.ZodNumberFormat;
  return isWhole ? `${given}: allowed are ${minValue} to ${maxValue}` : `${given}: must be ${boundOf(issue)}`;
}

function boundOf(issue: RawIssue & { readonly code: 'too_small' | 'too_big' }): string {
  if (issue.code === 'too_big') return `at most ${issue.maximum}`;
  return `${issue.inclusive === false ? 'more than' : 'at least'} ${issue.minimum}`;
}

const CHARS_MAX = 60;

/** A value of the file in a few words. */
function show(value: unknown): string {
  if (Array.isArray(value)) return 'a list';
  if (typeof value === 'object' && value !== null) return 'an object';
  const text = typeof value === 'string' ? JSON.stringify(value) : String(value);
  return text.length <= CHARS_MAX ? text : `${text.slice(0, CHARS_MAX)}...`;
}

/** Returns the names that the object `input` at `path` may hold. */
function keysAt(schema: z.ZodType, path: readonly string[], input: unknown): readonly string[] {
  const found = path.reduce<readonly unknown[]>((all, key) => all.flatMap((each) => stepInto(each, key)), [schema]);
  const shapes = found.flatMap(alternativesOf).flatMap((each) => (each instanceof z.ZodObject ? [each.shape] : []));
  const fitting = shapes.filter((shape) => fits(shape, input));
  return [...new Set((fitting.length > 0 ? fitting : shapes).flatMap((shape) => Object.keys(shape)))];
}

/** Whether the constants of a shape, such as the kind of a fleet, are those of the input. */
function fits(shape: object, input: unknown): boolean {
  return Object.entries(shape).every(
    ([key, each]) =>
      !(each instanceof z.ZodLiteral) ||
      (typeof input === 'object' && input !== null && each.values.has(Reflect.get(input, key))),
  );
}

/** Follows one key of a path through objects, records, lists, unions and what wraps them. */
function stepInto(schema: unknown, key: string): readonly unknown[] {
  return alternativesOf(schema).flatMap((bare) => {
    if (bare instanceof z.ZodObject) return [(bare.shape as Record<string, unknown>)[key]];
    if (bare instanceof z.ZodRecord) return [bare.valueType];
    return bare instanceof z.ZodArray ? [bare.element] : [];
  });
}

/** Returns the alternatives of a union without what wraps them, or the one schema that it is. */
function alternativesOf(schema: unknown): readonly unknown[] {
  const bare = unwrap(schema);
  return bare instanceof z.ZodUnion ? bare.options.flatMap(alternativesOf) : [bare];
}

function unwrap(schema: unknown): unknown {
  if (schema instanceof z.ZodDefault || schema instanceof z.ZodPrefault || schema instanceof z.ZodOptional) {
    return unwrap(schema.unwrap());
  }
  return schema;
}
