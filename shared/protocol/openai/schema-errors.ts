import type * as z from 'zod';
import { assertNever, LIMITS, overLimit, ServeError } from '../../errors/index.ts';
import { DESERIALIZE_LEAD_IN, type JsonBody } from '../json/index.ts';
import { didYouMean, shownKey } from './field-checks.ts';
import { findFault, type ShapeFault } from './shape-check.ts';
import { INTEGER_FIELDS } from './shared-fields.ts';

/**
 * Checks the types of a body against its schema and gives the body back, untouched, with its type.
 * @throws ServeError `missing_required_parameter`, `unknown_parameter` (inside `nvext`), `invalid_value`, or the body's own
 * refusal.
 */
export function requireShape<Schema extends z.ZodType>(schema: Schema, body: JsonBody): z.infer<Schema> {
  const fault = findFault(schema, body.value);
  if (body.refusal !== undefined && (fault === undefined || mayStandBehind(fault, body.value))) throw body.refusal;
  if (fault !== undefined) throw toShapeError(fault, [], body.refusal === undefined ? '' : 'at least ');
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
  const fault = findFault(schema, value);
  if (fault !== undefined) throw toShapeError(fault, path);
  return value as z.infer<Schema>; // as above
}

/** Of a body that was not read to its end: what is missing may follow, unless another element does. */
function mayStandBehind(fault: ShapeFault, body: unknown): boolean {
  if (fault.kind !== 'missing') return false;
  let value = body;
  for (const step of [...fault.path].reverse()) {
    if (Array.isArray(value) && Number(step) < value.length - 1) return false;
    value = (value as Readonly<Record<PropertyKey, unknown>> | undefined)?.[step];
  }
  return true;
}

/** @param orMore stands before the length of an array that may be longer than it is known to be */
function toShapeError(fault: ShapeFault, above: readonly PropertyKey[] = [], orMore = ''): ServeError {
  const path = [...above, ...fault.path.reverse()]; // it grew from the value up
  const param = jsonPath(path);
  switch (fault.kind) {
    case 'unknown-key': {
      const key = shownKey(fault.key);
      const detail = `unknown field \`${key}\` in \`${param}\`${didYouMean(fault.key, fault.known)}`;
      return shapeError('unknown_parameter', detail, param === '' ? key : `${param}.${key}`);
    }
    case 'missing':
      if (param !== '') return shapeError('missing_required_parameter', `missing field \`${param}\``, param);
      return shapeError('invalid_value', fault.message, undefined);
    case 'no-arm':
      return shapeError('invalid_value', `${param}: did not match any allowed form of \`${lastKey(path)}\``, param);
    case 'too-many': {
      const { length, limit } = fault;
      const detail = `${param}: at most ${LIMITS[limit].max} elements are allowed, got ${orMore}${length}`;
      return overLimit(limit, `${DESERIALIZE_LEAD_IN}${detail}`, { param });
    }
    case 'wrong': {
      const text = param === '' ? fault.message : `${param}: ${fault.message}`;
      return shapeError('invalid_value', text, param === '' ? undefined : param);
    }
    default:
      return assertNever(fault);
  }
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
