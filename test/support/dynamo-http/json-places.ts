import type { Json } from './records.ts';

/**
 * A value of a request's body and its JSON path, such as `messages[0].content`. The path of the whole body is empty.
 */
export interface Place {
  readonly path: string;
  readonly value: Json;
}

/** Lists every value of `body`, outer ones first. */
export function placesOf(body: Json | undefined): readonly Place[] {
  return body === undefined ? [] : [...walk(body, '')];
}

function* walk(value: Json, path: string): Iterable<Place> {
  yield { path, value };
  if (typeof value !== 'object' || value === null) return;
  if (Array.isArray(value)) {
    for (const [index, item] of value.entries()) yield* walk(item, `${path}[${index}]`);
    return;
  }
  for (const [key, item] of Object.entries(value)) yield* walk(item, within(path, key));
}

/** Returns the path of `key` in the object at `path`. */
export function within(path: string, key: string): string {
  return path === '' ? key : `${path}.${key}`;
}

export function isObject(value: Json): value is { readonly [key: string]: Json } {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
