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
    const given = WITHOUT_INPUT.includes(issue.code) ? `; it is ${show(issue.input)}` : '';
    return [`${path.join('.') || 'the file'}: ${issue.message}${given}`];
  }
  const known = keysAt(schema, path);
  return issue.keys.map((key) => {
    const nearest = nearestName(key, known);
    const hint = nearest === undefined ? `known are ${known.join(', ')}` : `did you mean ${nearest}?`;
    return `${[...path, key].join('.')}: unknown key; ${hint}`;
  });
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

/** The message where the schema has none: what was given, and what is allowed. */
function explain(issue: RawIssue): string | undefined {
  const given = issue.input === undefined ? 'is missing' : show(issue.input);
  switch (issue.code) {
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

/** Returns the names that the object at `path` may hold. */
function keysAt(schema: z.ZodType, path: readonly string[]): readonly string[] {
  return Object.keys(shapeOf(path.reduce<unknown>(stepInto, schema)) ?? {});
}

/** Follows one key of a path through objects, records and what wraps them. */
function stepInto(schema: unknown, key: string): unknown {
  const bare = unwrap(schema);
  if (bare instanceof z.ZodObject) return (bare.shape as Record<string, unknown>)[key];
  return bare instanceof z.ZodRecord ? bare.valueType : undefined;
}

function shapeOf(schema: unknown): object | undefined {
  const bare = unwrap(schema);
  return bare instanceof z.ZodObject ? bare.shape : undefined;
}

function unwrap(schema: unknown): unknown {
  if (schema instanceof z.ZodDefault || schema instanceof z.ZodPrefault || schema instanceof z.ZodOptional) {
    return unwrap(schema.unwrap());
  }
  return schema;
}
