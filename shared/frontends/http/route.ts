import type * as z from 'zod';
import type { Need } from '../../access/index.ts';
import { type ErrorCode, loadCode } from '../../errors/index.ts';
import type { BodySchema, MODEL_TYPES, ModelKind } from '../../protocol/index.ts';
import type { HttpAppDeps } from './deps.ts';
import type { HttpExchange } from './exchange/exchange.ts';

/** A handler. */
export interface Serve {
  /** Responds to a request through its exchange's sink. The app sends what it throws, in the envelope of the path. */
  (deps: HttpAppDeps, exchange: HttpExchange): void | Promise<void>;
  /** Loads the handler's code, which otherwise happens at its first request. Absent if the code is there at once. */
  readonly load?: () => Promise<unknown>;
}

/**
 * Access to a route: `open` = every client, `docs` = operators and clients with a key, otherwise as the need says.
 * `proof` = holders of the admin key or of a key with the scope admin; other clients of this machine are refused, too.
 */
export type Access = Need | 'docs' | 'open' | 'proof';

/** Names of served models for examples, by the capability of the model. */
export type ExampleModels = Readonly<Record<(typeof MODEL_TYPES)[ModelKind], string>>;

/** A body that a route takes. */
export interface RouteBody extends BodySchema {
  /** Name of the body among the schemas of the OpenAPI document. */
  readonly name: string;
  /** Returns a short valid body, which the page of the API sends. */
  readonly example: (models: ExampleModels) => object;
}

/** A handler, and the body that it takes. */
export interface BodyRoute {
  readonly serve: Serve;
  readonly body: RouteBody;
}

/** Envelopes of failures. */
export type FailureName = 'Error' | 'MessagesError' | 'ThresholdError';

/** One method of one path in the OpenAPI document. */
export interface Operation {
  /** Path with `{name}` for its variable parts. */
  readonly path: string;
  readonly method: 'get' | 'post' | 'patch' | 'delete';
  /** Unique `operationId`, by which generated clients name the operation. */
  readonly id: string;
  readonly tag: 'Generation' | 'Responses' | 'Messages' | 'Models' | 'Operations';
  readonly summary: string;
  /** Bodies that the operation takes; the first gives the example. @default none */
  readonly bodies?: readonly (() => Promise<RouteBody>)[];
  /** Content types of a successful response, the usual one first; none if the body is empty. @default JSON */
  readonly contentTypes?: readonly string[] | undefined;
  /** Schemas of a successful response. @default it is any object */
  readonly answer?: (() => Promise<AnswerSchemas>) | undefined;
  /** Parameters of the query. @default none */
  readonly query?: readonly QueryParameter[] | undefined;
  /** Envelope of failures. @default 'Error' */
  readonly failure?: FailureName | undefined;
  /**
   * Failures besides those of every route. @default those of a model's answer if there is a body, otherwise those of
   * the tag
   */
  readonly codes?: readonly ErrorCode[];
  /** Statuses of failures that have no code. @default none */
  readonly statuses?: readonly number[];
  /** Statuses other than 200 whose body is the requested state and not a failure. @default none */
  readonly states?: readonly number[];
}

/** Schemas of an operation's successful response, by their names in the document. */
export interface AnswerSchemas {
  /** Schemas of the JSON: it has one of them. */
  readonly json: Readonly<Record<string, z.ZodType>>;
  /** Schemas of the data of events, by the events' names. @default it sends no events */
  readonly events?: Readonly<Record<string, readonly [name: string, schema: z.ZodType]>>;
}

/** A parameter of the query, for the document. */
export interface QueryParameter {
  readonly name: string;
  readonly about: string;
  /** Values that it may have. @default any text */
  readonly values?: readonly string[];
}

/** One path of the app: its handler, and its operations in the document. */
export interface Route {
  /** Hono pattern. */
  readonly pattern: string;
  /** Access, or a function of the path if it depends on that. */
  readonly access: Access | ((path: string) => Access);
  readonly serve: Serve;
  readonly methods: ReadonlySet<string>;
  /** Operations in the document; none for pages that show the document itself. */
  readonly operations: readonly Operation[];
}

const METHODS = { get: ['GET', 'HEAD'], post: ['POST'], patch: ['PATCH'], delete: ['DELETE'] } as const;

/** An operation of a route. */
type RouteOperation = Omit<Operation, 'path'> & {
  /** @default that of the route */
  readonly path?: string;
};

/** Returns a route with the methods of its operations, or GET if it has none. `{id}` matches any text, with slashes. */
export function route(
  path: string,
  access: Route['access'],
  serve: Serve,
  ...operations: readonly RouteOperation[]
): Route {
  const methods = new Set<string>(operations.flatMap(({ method }) => METHODS[method]));
  return {
    pattern: path.replace('{id}', ':id{.+}'),
    access,
    serve,
    methods: methods.size === 0 ? new Set(METHODS.get) : methods,
    operations: operations.map((operation) => ({ path, ...operation })),
  };
}

/**
 * Returns a handler whose code its first request loads. A function that starts cold then does not parse dialects that
 * no client has used, which are a third of its code.
 */
export function serveLater(loadServe: () => Promise<Serve>): Serve {
  const load = (): Promise<Serve> => loadCode('this route', loadServe);
  let loaded: Serve | undefined;
  const serve: Serve = (deps, exchange) => {
    if (loaded !== undefined) return loaded(deps, exchange);
    return load().then((later) => {
      loaded = later;
      return later(deps, exchange);
    });
  };
  return Object.assign(serve, { load });
}

/** Returns a POST that a model answers. @param load loads the handler and the description of its body */
type PostRoute = (
  path: string,
  load: () => Promise<BodyRoute>,
  id: string,
  summary: string,
  contentTypes?: readonly string[],
) => Route;

/** Returns a function that makes the POSTs of one tag, whose failures share an envelope. */
export function bodyRoutes(tag: Operation['tag'], failure?: FailureName): PostRoute {
  return (path, load, id, summary, contentTypes) => {
    const serve = serveLater(async () => (await load()).serve);
    const bodies = [async () => (await load()).body];
    return route(path, 'generate', serve, { method: 'post', tag, failure, id, summary, contentTypes, bodies });
  };
}

/** Returns the path without a slash at its end, to which the paths below it are appended. */
export function pathBelow(path: string): string {
  return path.endsWith('/') ? path.slice(0, -1) : path;
}

/** Decodes a path; one that is not valid percent-encoding stays as it is. */
export function decodePath(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // no route has that name, so the response is 404
  }
}

/** Characters of an id that an error shows; no real id is longer. */
const SHOWN_MAX = 300;

/** Returns an id of a path as an error shows it. */
export function shownId(id: string): string {
  return id.length <= SHOWN_MAX ? id : `${id.slice(0, SHOWN_MAX)}...`;
}

/** Paths of operators' routes, whose handlers their first requests load. */
export const BUSY_THRESHOLD_PATH = '/busy_threshold';
export const CLEAR_KV_BLOCKS_PATH = '/clear_kv_blocks';
/** Path above a response id (`chatcmpl-...`) or a request id. */
export const EXPLAIN_PATH = '/router/explain';
/** Path of the console's page. Its data are below. */
export const CONSOLE_PATH = '/console';
