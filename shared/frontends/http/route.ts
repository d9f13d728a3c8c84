import type { Need } from '../../access/index.ts';
import { type ErrorCode, loadCode } from '../../errors/index.ts';
import type { BodySchema, MODEL_TYPES, ModelKind } from '../../protocol/index.ts';
import type { HttpAppDeps } from './deps.ts';
import type { HttpExchange } from './exchange/exchange.ts';

/** A handler. */
export interface Serve {
  /** Responds to a request through its exchange's sink. What it throws is told in the envelope of its path. */
  (deps: HttpAppDeps, exchange: HttpExchange): void | Promise<void>;
  /** Loads its code, which its first request does otherwise. Only where that is loaded later. */
  readonly load?: () => Promise<unknown>;
}

/** Who may use a route: everybody, or as the need says; `docs` = operators and whoever has a key. */
export type Access = Need | 'docs' | 'open';

/** Names of served models that examples ask for, by what they can do. */
export type ExampleModels = Readonly<Record<(typeof MODEL_TYPES)[ModelKind], string>>;

/** A body as a route takes it. */
export interface RouteBody extends BodySchema {
  /** Its name among the schemas of the OpenAPI document. */
  readonly name: string;
  /** A short body that is taken as it stands: the page of the API sends it. */
  readonly example: (models: ExampleModels) => object;
}

/** A handler, and the body that it takes. */
export interface BodyRoute {
  readonly serve: Serve;
  readonly body: RouteBody;
}

/** The envelopes that failures come in. */
export type FailureName = 'Error' | 'MessagesError' | 'ThresholdError';

/** One method of one path, as the OpenAPI document shows it. */
export interface Operation {
  /** With `{name}` for what varies. */
  readonly path: string;
  readonly method: 'get' | 'post' | 'delete';
  /** `operationId`: unique, and the name that generated clients give it. */
  readonly id: string;
  readonly tag: 'Generation' | 'Responses' | 'Messages' | 'Models' | 'Operations';
  readonly summary: string;
  /** The body, or those that it may be; the first gives the example. @default none */
  readonly bodies?: readonly (() => Promise<RouteBody>)[];
  /** Content types of a good response, the usual one first; none where the body is empty. @default JSON */
  readonly contentTypes?: readonly string[] | undefined;
  /** Envelope of failures. @default 'Error' */
  readonly failure?: FailureName | undefined;
  /** Failures apart from those of every route. @default those of a model's answer where there is a body, else those of the tag */
  readonly codes?: readonly ErrorCode[];
  /** Statuses of failures that no code stands for. @default none */
  readonly statuses?: readonly number[];
  /** Statuses other than 200 whose body is no failure but the state that was asked for. @default none */
  readonly states?: readonly number[];
}

/** One path of the app: who serves it, and what the document says of it. */
export interface Route {
  /** Hono pattern. */
  readonly pattern: string;
  /** Where it depends on the path, by that. */
  readonly access: Access | ((path: string) => Access);
  readonly serve: Serve;
  readonly methods: ReadonlySet<string>;
  /** None for pages that show the document itself. */
  readonly operations: readonly Operation[];
}

const METHODS = { get: ['GET', 'HEAD'], post: ['POST'], delete: ['DELETE'] } as const;

/** An operation of a route. */
type RouteOperation = Omit<Operation, 'path'> & {
  /** @default that of the route */
  readonly path?: string;
};

/** A route whose methods are those of its operations; one without is read. `{id}` stands for whatever is there, slashes too. */
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
 * A handler whose code its first request loads: a function that starts cold then does without the dialects that nobody has asked
 * for, which are a third of what it would parse.
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

/** A POST that a model answers. @param load its handler, with what is to be said of its body, when first needed */
type PostRoute = (
  path: string,
  load: () => Promise<BodyRoute>,
  id: string,
  summary: string,
  contentTypes?: readonly string[],
) => Route;

/** Makes the POSTs of one tag, whose failures come in the same envelope. */
export function bodyRoutes(tag: Operation['tag'], failure?: FailureName): PostRoute {
  return (path, load, id, summary, contentTypes) => {
    const serve = serveLater(async () => (await load()).serve);
    const bodies = [async () => (await load()).body];
    return route(path, 'generate', serve, { method: 'post', tag, failure, id, summary, contentTypes, bodies });
  };
}

/** A slash at the end of an API's own path does not count for what stands below. */
export function pathBelow(path: string): string {
  return path.endsWith('/') ? path.slice(0, -1) : path;
}

/** A path that is not valid percent-encoding names itself. */
export function decodePath(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // nothing has that name, and so it is not found
  }
}

/** Longer ids are nobody's, and are not sent back whole. */
const SHOWN_MAX = 300;

/** An id out of a path as an error shows it. */
export function shownId(id: string): string {
  return id.length <= SHOWN_MAX ? id : `${id.slice(0, SHOWN_MAX)}...`;
}

/** Paths of operators' routes, whose handlers are loaded when somebody asks for them. */
export const BUSY_THRESHOLD_PATH = '/busy_threshold';
export const CLEAR_KV_BLOCKS_PATH = '/clear_kv_blocks';
/** Below it stands a response id (`chatcmpl-...`) or a request id. */
export const EXPLAIN_PATH = '/router/explain';
