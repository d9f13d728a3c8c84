import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import * as z from 'zod';
import { LIMITS } from '../../../shared/errors/index.ts';
import { ITEM_SCHEMAS } from '../../../shared/protocol/openai/responses/item-schemas.ts';
import { atMost, findFault } from '../../../shared/protocol/openai/shape-check.ts';
import { arrayFieldsOf, bodiesOfRoutes, sampleOf } from '../../support/array-fields.ts';

const SCHEMAS: readonly (readonly [string, z.ZodType])[] = [
  ...new Map([...(await bodiesOfRoutes()).values()].map(({ name, schema }) => [name, schema])),
  ...Object.entries(ITEM_SCHEMAS).map(([kind, schema]) => [`item ${kind}`, schema as z.ZodType] as const),
];
const FIELDS = SCHEMAS.flatMap(([name, schema]) =>
  arrayFieldsOf(schema).map((field) => ({ name: `${name} ${field.path}`, schema, ...field })),
);
const LENGTH = 1000;

/** Counts how often an element is read. */
function counted(elements: readonly unknown[]): { readonly array: unknown; reads(): number } {
  let reads = 0;
  const array = new Proxy(elements as unknown[], {
    get(target, key, receiver) {
      if (typeof key === 'string' && /^\d+$/.test(key)) reads++;
      return Reflect.get(target, key, receiver);
    },
  });
  return { array, reads: () => reads };
}

const wrongElement = (element: unknown): unknown => (typeof element === 'boolean' ? 'wrong' : true);

describe('an array of wrong elements', () => {
  it.each(FIELDS)('is not walked beyond the first one: $name', ({ schema, bodyWith, element }) => {
    const elements = counted(Array(LENGTH).fill(wrongElement(element)));
    const fault = findFault(schema, bodyWith(elements.array));
    // Arrays of anything are looked at by whoever reads them.
    if (z.safeParse(schema, bodyWith([wrongElement(element)])).success) expect(fault).toBeUndefined();
    else expect(fault?.path[0]).toBe(0);
    expect(elements.reads()).toBeLessThan(8);
  });

  it.each(FIELDS)('is walked once up to a wrong one at its end: $name', ({ schema, bodyWith, element }) => {
    const elements = counted([...Array(LENGTH - 1).fill(element), wrongElement(element)]);
    const fault = findFault(schema, bodyWith(elements.array));
    if (fault !== undefined && fault.kind !== 'too-many') expect(fault.path[0]).toBe(LENGTH - 1);
    expect(elements.reads()).toBeLessThan(LENGTH + 8);
  });
});

describe('a length limit', () => {
  it('is reported without reading an element', () => {
    const length = LIMITS.names.max + 1;
    const elements = counted(Array(length).fill(1));
    const fault = findFault(z.object({ ids: atMost(z.array(z.int()), 'names') }), { ids: elements.array });
    expect(fault).toEqual({ kind: 'too-many', path: ['ids'], length, limit: 'names' });
    expect(elements.reads()).toBe(0);
  });
});

describe('findFault', () => {
  const anything = fc.oneof(fc.jsonValue(), fc.constant(undefined), fc.integer({ min: -2, max: 300 }));

  it.each(SCHEMAS)('agrees with zod on what is right and on where the first fault is: %s', (_name, schema) => {
    const whole = fullSampleOf(schema);
    const pointer = fc.array(fc.nat(), { minLength: 1, maxLength: 5 });
    fc.assert(
      fc.property(fc.array(fc.tuple(pointer, anything), { maxLength: 3 }), (changes) => {
        const body = structuredClone(whole);
        for (const [path, value] of changes) setAt(body, path, value);
        const fault = findFault(schema, body);
        const issue = z.safeParse(schema, body).error?.issues[0];
        expect(fault === undefined).toBe(issue === undefined);
        if (fault === undefined || issue === undefined) return;
        // In a union zod names the union, we the place inside of it.
        expect([...fault.path].reverse().slice(0, issue.path.length)).toEqual(issue.path);
      }),
    );
  });
});

/** A value with every field. */
function fullSampleOf(schema: z.core.$ZodType): unknown {
  const { def } = schema._zod as z.core.$ZodTypes['_zod'];
  if (def.type === 'object') {
    return Object.fromEntries(Object.entries(def.shape).map(([key, field]) => [key, fullSampleOf(field)]));
  }
  if (def.type === 'array') return [fullSampleOf(def.element), fullSampleOf(def.element)];
  if (def.type === 'optional' || def.type === 'nullable') return fullSampleOf(def.innerType);
  if (def.type === 'union') return fullSampleOf(def.options.at(-1) as z.core.$ZodType);
  return sampleOf(schema);
}

/** Puts `value` somewhere into `target`; `path` chooses among the keys that there are. */
function setAt(target: unknown, [step = 0, ...rest]: readonly number[], value: unknown): void {
  if (typeof target !== 'object' || target === null) return;
  const record = target as Record<string, unknown>;
  const keys = Object.keys(record);
  const key = keys[step % (keys.length + 1)] ?? 'unknownKey';
  if (rest.length === 0 || typeof record[key] !== 'object') record[key] = value;
  else setAt(record[key], rest, value);
}
