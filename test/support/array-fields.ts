import type * as z from 'zod';
import type { RouteBody } from '../../shared/frontends/http/route.ts';
import { routesOf } from '../../shared/frontends/http/route-table.ts';
import { defaultHttpSettings } from './http-settings.ts';

/**
 * Returns the bodies that routes take, by path. Of a route that takes several kinds of bodies, it returns the first.
 */
export async function bodiesOfRoutes(): Promise<ReadonlyMap<string, RouteBody>> {
  const routes = routesOf({ ...defaultHttpSettings, anthropic: { isEnabled: true, stripsPreamble: true } });
  const bodies = new Map<string, RouteBody>();
  for (const { path, bodies: loads = [] } of routes.flatMap(({ operations }) => operations)) {
    const body = await loads[0]?.();
    if (body !== undefined) bodies.set(path, body);
  }
  return bodies;
}

/** A place in a body that holds an array. */
export interface ArrayField {
  /** Path of the place, with `[]` for the elements of outer arrays: `messages[].content`. */
  readonly path: string;
  /** Returns a body that is valid except that this place holds `elements`. */
  bodyWith(elements: unknown): unknown;
  /** A valid element. */
  readonly element: unknown;
}

/** Lists every place in the bodies of `schema` that may hold an array. Each arm of a union has places of its own. */
export function arrayFieldsOf(schema: z.core.$ZodType): readonly ArrayField[] {
  return visit(schema, '', (value) => value);
}

type Wrap = (value: unknown) => unknown;

function visit(schema: z.core.$ZodType, path: string, wrap: Wrap): readonly ArrayField[] {
  const { def } = schema._zod as z.core.$ZodTypes['_zod'];
  switch (def.type) {
    case 'object':
      return Object.entries(def.shape).flatMap(([key, field]) =>
        visit(field, path === '' ? key : `${path}.${key}`, (value) =>
          wrap({ ...(sampleOf(schema) as object), [key]: value }),
        ),
      );
    case 'array':
      return [
        { path, bodyWith: wrap, element: sampleOf(def.element) },
        ...visit(def.element, `${path}[]`, (value) => wrap([value])),
      ];
    case 'union':
      return def.options.flatMap((option) => visit(option, path, wrap));
    case 'optional':
    case 'nullable':
      return visit(def.innerType, path, wrap);
    default:
      return [];
  }
}

/** Returns the smallest value that a schema accepts. */
export function sampleOf(schema: z.core.$ZodType): unknown {
  const { def } = schema._zod as z.core.$ZodTypes['_zod'];
  switch (def.type) {
    case 'object':
      return Object.fromEntries(
        Object.entries(def.shape)
          .filter(([, field]) => field._zod.def.type !== 'optional')
          .map(([key, field]) => [key, sampleOf(field)]),
      );
    case 'array':
      return [sampleOf(def.element)];
    case 'union':
      return sampleOf(def.options[0] as z.core.$ZodType);
    case 'optional':
    case 'nullable':
      return sampleOf(def.innerType);
    case 'literal':
      return def.values[0];
    case 'enum':
      return Object.values(def.entries)[0];
    case 'number':
      return 1;
    case 'boolean':
      return true;
    case 'record':
    case 'unknown':
      return {};
    default:
      return 'a';
  }
}
