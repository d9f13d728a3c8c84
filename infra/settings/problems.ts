import * as z from 'zod';
import { nearestName } from '../../shared/errors/index.ts';

/** Says each thing that `schema` refused, by its path and with what it may be. */
export function problemsOf(schema: z.ZodType, error: z.ZodError): readonly string[] {
  return error.issues.flatMap((issue) => describe(issue, schema));
}

function describe(issue: z.core.$ZodIssue, schema: z.ZodType): readonly string[] {
  const path = issue.path.map(String);
  if (issue.code !== 'unrecognized_keys') return [`${path.join('.') || 'the file'}: ${issue.message}`];
  const known = keysAt(schema, path);
  return issue.keys.map((key) => {
    const nearest = nearestName(key, known);
    const hint = nearest === undefined ? `known are ${known.join(', ')}` : `did you mean ${nearest}?`;
    return `${[...path, key].join('.')}: unknown key; ${hint}`;
  });
}

/** What the object at `path` may hold. */
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
