import type * as z from 'zod';
import { ServeError } from '../../errors/index.ts';
import { DESERIALIZE_LEAD_IN, type JsonBody } from './json-body.ts';
import { INTEGER_FIELDS } from './shared-fields.ts';

/**
 * Checks the types of a body against its schema and gives the body back, untouched, with its type.
 * @throws ServeError `missing_required_parameter`, `unknown_parameter` (inside `nvext`) or `invalid_value`.
 */
export function requireShape<Schema extends z.ZodType>(schema: Schema, body: JsonBody): z.infer<Schema> {
  const result = schema.safeParse(body.value);
  if (!result.success) throw toShapeError(result.error.issues[0]!, body.value); // a failed parse has an issue
  for (const key of body.fractionalKeys) {
    if (!INTEGER_FIELDS.has(key)) continue;
    throw shapeError('invalid_value', `${key}: expected an integer, received a floating point number`, key);
  }
  return body.value as z.infer<Schema>; // the schemas transform nothing, so the input has the output's type
}

/**
 * Checks one value that stands at `path` of a body, where the schema depends on the value itself.
 * @throws ServeError as `requireShape`
 */
export function requireShapeAt<Schema extends z.ZodType>(
  schema: Schema,
  value: unknown,
  path: readonly PropertyKey[],
): z.infer<Schema> {
  const result = schema.safeParse(value);
  if (!result.success) throw toShapeError(result.error.issues[0]!, value, path); // a failed parse has an issue
  return value as z.infer<Schema>; // as above
}

function toShapeError(issue: z.core.$ZodIssue, body: unknown, at: readonly PropertyKey[] = []): ServeError {
  const param = jsonPath([...at, ...issue.path]);
  if (issue.code === 'unrecognized_keys') {
    const path = param === '' ? issue.keys[0]! : `${param}.${issue.keys[0]}`;
    return shapeError('unknown_parameter', `unknown field \`${issue.keys[0]}\` in \`${param}\``, path);
  }
  if (issue.path.length > 0 && valueAt(body, issue.path) === undefined) {
    return shapeError('missing_required_parameter', `missing field \`${param}\``, param);
  }
  if (issue.code === 'invalid_union') {
    return shapeError('invalid_value', `${param}: did not match any allowed form of \`${lastKey(issue.path)}\``, param);
  }
  const text = param === '' ? issue.message : `${param}: ${issue.message}`;
  return shapeError('invalid_value', text, param === '' ? undefined : param);
}

/** What is wrong with the types of a body. */
type ShapeCode = 'invalid_value' | 'missing_required_parameter' | 'unknown_parameter';

/** A body whose types are wrong; `detail` says where and how. */
export function shapeError(code: ShapeCode, detail: string, param: string | undefined): ServeError {
  return new ServeError(code, `${DESERIALIZE_LEAD_IN}${detail}`, { param });
}

/** `['messages', 0, 'content']` as `messages[0].content`. */
export function jsonPath(path: readonly PropertyKey[]): string {
  let text = '';
  for (const step of path) {
    if (typeof step === 'number') text += `[${step}]`;
    else text += text === '' ? String(step) : `.${String(step)}`;
  }
  return text;
}

function lastKey(path: readonly PropertyKey[]): string {
  for (let at = path.length - 1; at >= 0; at--) if (typeof path[at] === 'string') return String(path[at]);
  return 'body';
}

function valueAt(body: unknown, path: readonly PropertyKey[]): unknown {
  let value = body;
  for (const step of path) {
    if (typeof value !== 'object' || value === null) return undefined;
    value = (value as Record<PropertyKey, unknown>)[step];
  }
  return value;
}
