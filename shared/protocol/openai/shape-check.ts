import * as z from 'zod';
import { type FixedLimit, LIMITS, type RefusingLimit } from '../../errors/index.ts';
import { isRecord } from '../../records/index.ts';

/** First fault of a value. */
export type ShapeFault =
  /** Message of zod about the value at `path`; `missing` when there is none. */
  | { readonly kind: 'wrong' | 'missing'; readonly path: PropertyKey[]; readonly message: string }
  /** No arm of a union takes this kind of value. */
  | { readonly kind: 'no-arm'; readonly path: PropertyKey[] }
  | {
      readonly kind: 'unknown-key';
      readonly path: PropertyKey[];
      readonly key: string;
      readonly known: readonly string[];
    }
  | { readonly kind: 'too-many'; readonly path: PropertyKey[]; readonly length: number; readonly limit: ListLimit };

/** Limit on the number of elements in a list. */
export type ListLimit = FixedLimit & RefusingLimit;

/** Checks one value; returns undefined if it has no fault. The path of a fault grows as it is passed upwards. */
type Check = (value: unknown) => ShapeFault | undefined;
type Kind = 'string' | 'number' | 'boolean' | 'null' | 'undefined' | 'array' | 'object';

const compiled = new WeakMap<z.core.$ZodType, Check>();
const lengthLimits = new WeakMap<z.core.$ZodType, ListLimit>();

/**
 * Limits the elements of an array; the length is checked before any element. `meta` is additional information for the
 * description of the API.
 */
export function atMost<Schema extends z.ZodType>(schema: Schema, limit: ListLimit, meta: object = {}): Schema {
  const limited = schema.meta({ ...meta, maxItems: LIMITS[limit].max });
  lengthLimits.set(limited, limit);
  return limited;
}

/**
 * Returns the first fault of `value`, in the order of the schema's fields. zod itself collects a fault for every
 * element and, in a union, for every arm: megabytes of wrong elements would cost seconds and gigabytes. Here the walk
 * ends at the first fault, and a value is checked against one arm of a union: the one of its kind, for arrays of its
 * first element's kind.
 *
 * Covers the types that the schemas of this room use; zod checks anything else, value by value.
 */
export function findFault(schema: z.core.$ZodType, value: unknown): ShapeFault | undefined {
  return checkOf(schema)(value);
}

function checkOf(schema: z.core.$ZodType): Check {
  let check = compiled.get(schema);
  if (check === undefined) {
    check = compile(schema);
    compiled.set(schema, check);
  }
  return check;
}

function compile(schema: z.core.$ZodType): Check {
  const { def } = schema._zod as z.core.$ZodTypes['_zod'];
  if (hasOwnRules(def)) return (value) => askZod(schema, value);
  switch (def.type) {
    case 'object':
      return checkObject(schema, def as z.core.$ZodObjectDef);
    case 'array':
      return checkArray(schema, def as z.core.$ZodArrayDef);
    case 'record':
      return checkRecord(schema, def as z.core.$ZodRecordDef);
    case 'union':
      return 'discriminator' in def
        ? checkByName(schema, def as z.core.$ZodDiscriminatedUnionDef)
        : checkByKind(def as z.core.$ZodUnionDef);
    case 'optional':
      return checkUnless(def.innerType, undefined);
    case 'nullable':
      return checkUnless(def.innerType, null);
    case 'unknown':
      return () => undefined;
    case 'string':
      return (value) => (typeof value === 'string' ? undefined : askZod(schema, value));
    case 'boolean':
      return (value) => (typeof value === 'boolean' ? undefined : askZod(schema, value));
    case 'number':
      return checkNumber(schema);
    default:
      return (value) => askZod(schema, value); // literals, enums: one small value each
  }
}

/** Returns whether a schema has other checks than bounds of numbers, which are handled here; zod runs them. */
function hasOwnRules(def: z.core.$ZodTypeDef): boolean {
  const checks = def.checks ?? [];
  return checks.some(({ _zod }) => _zod.def.check !== 'greater_than' && _zod.def.check !== 'less_than');
}

/** Returns zod's fault of one value that is small or obviously wrong. */
function askZod(schema: z.core.$ZodType, value: unknown): ShapeFault | undefined {
  const issue = z.safeParse(schema, value).error?.issues[0];
  if (issue === undefined) return undefined;
  return { kind: value === undefined ? 'missing' : 'wrong', path: [...issue.path].reverse(), message: issue.message };
}

function at(fault: ShapeFault | undefined, step: PropertyKey): ShapeFault | undefined {
  fault?.path.push(step);
  return fault;
}

function checkUnless(inner: z.core.$ZodType, allowed: null | undefined): Check {
  const check = checkOf(inner);
  return (value) => (value === allowed ? undefined : check(value));
}

function checkObject(schema: z.core.$ZodType, def: z.core.$ZodObjectDef): Check {
  const keys = Object.keys(def.shape);
  const checks = keys.map((key) => checkOf(def.shape[key] as z.core.$ZodType));
  const isStrict = def.catchall?._zod.def.type === 'never';
  const known = new Set(keys);
  return (value) => {
    if (!isRecord(value)) return askZod(schema, value);
    for (let index = 0; index < keys.length; index++) {
      const key = keys[index] as string;
      const fault = (checks[index] as Check)(value[key]);
      if (fault !== undefined) return at(fault, key);
    }
    if (!isStrict) return undefined;
    for (const key in value) if (!known.has(key)) return { kind: 'unknown-key', path: [], key, known: keys };
    return undefined;
  };
}

function checkRecord(schema: z.core.$ZodType, def: z.core.$ZodRecordDef): Check {
  const isOpen = def.valueType._zod.def.type === 'unknown';
  const check = checkOf(def.valueType);
  return (value) => {
    if (!isRecord(value)) return askZod(schema, value);
    if (isOpen) return undefined;
    for (const key in value) {
      const fault = check(value[key]);
      if (fault !== undefined) return at(fault, key);
    }
    return undefined;
  };
}

function checkArray(schema: z.core.$ZodType, def: z.core.$ZodArrayDef): Check {
  const limit = lengthLimits.get(schema);
  const lengthMax = limit === undefined ? Number.POSITIVE_INFINITY : LIMITS[limit].max;
  const isOpen = def.element._zod.def.type === 'unknown';
  const firstFault = firstFaultOf(def.element);
  return (value) => {
    if (!Array.isArray(value)) return askZod(schema, value);
    if (limit !== undefined && value.length > lengthMax)
      return { kind: 'too-many', path: [], length: value.length, limit };
    return isOpen ? undefined : firstFault(value);
  };
}

function firstFaultOf(element: z.core.$ZodType): (values: readonly unknown[]) => ShapeFault | undefined {
  const check = checkOf(element);
  const bounds = integerBounds(element);
  return (values) => {
    // This checks a prompt of a million ids in a millisecond; a call for each id would take ten.
    let index = bounds === undefined ? 0 : integersWithin(values, bounds.min, bounds.max);
    for (; index < values.length; index++) {
      const fault = check(values[index]);
      if (fault !== undefined) return at(fault, index);
    }
    return undefined;
  };
}

/** Returns how many values at the beginning are integers within the bounds. */
function integersWithin(values: readonly unknown[], min: number, max: number): number {
  for (let index = 0; index < values.length; index++) {
    const value = values[index];
    if (typeof value !== 'number' || !Number.isInteger(value) || value < min || value > max) return index;
  }
  return values.length;
}

interface Bounds {
  readonly min: number;
  readonly max: number;
}

function checkNumber(schema: z.core.$ZodType): Check {
  const bounds = integerBounds(schema);
  if (bounds === undefined) return (value) => askZod(schema, value);
  const { min, max } = bounds;
  return (value) =>
    typeof value === 'number' && Number.isInteger(value) && value >= min && value <= max
      ? undefined
      : askZod(schema, value);
}

/** Returns the bounds of an integer without other rules; undefined for any other schema. */
function integerBounds(schema: z.core.$ZodType): Bounds | undefined {
  const def = schema._zod.def as z.core.$ZodNumberDef & { readonly format?: string };
  if (def.type !== 'number' || def.format !== 'safeint' || hasOwnRules(def)) return undefined;
  let min: number = Number.MIN_SAFE_INTEGER;
  let max: number = Number.MAX_SAFE_INTEGER;
  for (const { _zod } of def.checks ?? []) {
    const { check, value, inclusive } = _zod.def as z.core.$ZodCheckLessThanDef | z.core.$ZodCheckGreaterThanDef;
    if (inclusive !== true || typeof value !== 'number') return undefined;
    if (check === 'greater_than') min = Math.max(min, value);
    else max = Math.min(max, value);
  }
  return { min, max };
}

/** Returns the check of a union whose arms name themselves in one field, which selects the arm. */
function checkByName(schema: z.core.$ZodType, def: z.core.$ZodDiscriminatedUnionDef): Check {
  const { discriminator } = def;
  const arms = new Map<unknown, Check>();
  for (const option of def.options) {
    const { shape } = option._zod.def as z.core.$ZodObjectDef;
    const { values } = (shape[discriminator] as z.core.$ZodType)._zod.def as z.core.$ZodLiteralDef<z.core.util.Literal>;
    for (const value of values) arms.set(value, checkOf(option));
  }
  return (value) => {
    if (!isRecord(value)) return askZod(schema, value);
    const name = value[discriminator];
    const arm = arms.get(name);
    if (arm !== undefined) return arm(value);
    if (name === undefined) return { kind: 'missing', path: [discriminator], message: '' };
    return { kind: 'no-arm', path: [discriminator] };
  };
}

/**
 * Returns the check of a union whose arms differ in the kind of value: a text, an object, an array of texts, of
 * numbers, of arrays.
 */
function checkByKind(def: z.core.$ZodUnionDef): Check {
  const arms = def.options.map((option) => ({
    check: checkOf(option),
    kinds: kindsOf(option),
    elementKinds: option._zod.def.type === 'array' ? kindsOf((option._zod.def as z.core.$ZodArrayDef).element) : NONE,
  }));
  return (value) => {
    const kind = kindOf(value);
    const fitting = arms.filter(({ kinds }) => kinds.has(kind));
    if (fitting.length === 0) return noArm(value);
    if (fitting.length === 1 || !Array.isArray(value)) return (fitting[0] as (typeof arms)[number]).check(value);
    if (value.length === 0) return undefined; // an empty array fits any arm
    const firstKind = kindOf(value[0]);
    const arm = fitting.find(({ elementKinds }) => elementKinds.has(firstKind));
    return arm === undefined ? at(noArm(value[0]), 0) : arm.check(value);
  };
}

function noArm(value: unknown): ShapeFault {
  return value === undefined ? { kind: 'missing', path: [], message: '' } : { kind: 'no-arm', path: [] };
}

const NONE: ReadonlySet<Kind> = new Set();
const ANY: ReadonlySet<Kind> = new Set(['string', 'number', 'boolean', 'null', 'array', 'object']);

/** Returns the kinds of values that a schema may accept. */
function kindsOf(schema: z.core.$ZodType): ReadonlySet<Kind> {
  const { def } = schema._zod;
  switch (def.type) {
    case 'string':
    case 'number':
    case 'boolean':
    case 'array':
      return new Set([def.type]);
    case 'object':
    case 'record':
      return new Set<Kind>(['object']);
    case 'unknown':
      return ANY;
    case 'enum':
      return new Set(Object.values((def as z.core.$ZodEnumDef).entries).map(kindOf));
    case 'union':
      return new Set((def as z.core.$ZodUnionDef).options.flatMap((option) => [...kindsOf(option)]));
    default:
      throw new TypeError(`no union here has an arm of type ${def.type}`);
  }
}

function kindOf(value: unknown): Kind {
  if (value === null) return 'null';
  return Array.isArray(value) ? 'array' : (typeof value as Kind); // JSON has no other kinds of values
}
