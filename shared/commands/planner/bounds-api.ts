import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import { readText } from '../../concurrency/index.ts';
import type { PlannerBounds, PlannerConfig } from '../../planner/index.ts';
import { isRecord } from '../../records/index.ts';

/** A running planner whose bounds can change. */
export interface BoundedPlanner {
  readonly config: PlannerConfig;
  /** Changes the bounds. @throws Error for bounds that cannot hold; then nothing changes */
  setBounds(bounds: PlannerBounds): void;
}

const PATH = '/v1/min-endpoints';
const BODY_BOUNDS = { bytesMax: 4096, timeoutMs: 30_000 };
/** Least value of each field. */
const LEAST: Readonly<Record<keyof PlannerBounds, number>> = {
  min_endpoint: 0,
  prefill_min_endpoint: 1,
  decode_min_endpoint: 1,
  min_gpu_budget: -1,
  max_gpu_budget: -1,
};

/** Answers `GET` and `PATCH /v1/min-endpoints` as Dynamo's planner does. */
export function boundsApi(planner: BoundedPlanner, onChange: (bounds: PlannerBounds) => void): RequestListener {
  return (request, response) => {
    if (request.url !== PATH) return answer(response, 404, { error: `only ${PATH} is here` });
    if (request.method === 'GET') return answer(response, 200, boundsOf(planner.config));
    if (request.method !== 'PATCH')
      return answer(response, 405, { error: 'allowed: GET, PATCH' }, { allow: 'GET, PATCH' });
    readBody(request).then(
      (text) => answer(response, ...patch(planner, text, onChange)),
      (problem: unknown) => answer(response, 400, { error: (problem as Error).message }),
    );
  };
}

type Answer = readonly [status: number, body: object];

function patch(planner: BoundedPlanner, text: string, onChange: (bounds: PlannerBounds) => void): Answer {
  const read = readPatch(text);
  if ('error' in read) return [read.status, { error: read.error }];
  const inactive = Object.keys(read.bounds).filter((field) => !(field in boundsOf(planner.config)));
  if (inactive.length > 0) {
    return [422, { error: `fields are not active in mode='${planner.config.mode}': ${inactive.join(', ')}` }];
  }
  try {
    planner.setBounds(read.bounds);
  } catch (thrown) {
    return [422, { error: (thrown as Error).message }];
  }
  onChange(read.bounds);
  return [200, boundsOf(planner.config)];
}

type ReadPatch = { readonly bounds: PlannerBounds } | { readonly error: string; readonly status: 400 | 422 };

function readPatch(text: string): ReadPatch {
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch {
    return { status: 400, error: 'request body must be valid JSON' };
  }
  if (!isRecord(body)) return { status: 400, error: 'request body must be a JSON object' };
  const unknown = Object.keys(body).filter((field) => !Object.hasOwn(LEAST, field));
  const allowed = Object.keys(LEAST).join(', ');
  if (unknown.length > 0) return { status: 400, error: `unknown: ${unknown.join(', ')}; allowed: ${allowed}` };
  const fields = Object.entries(body) as [keyof PlannerBounds, unknown][];
  if (fields.length === 0) return { status: 400, error: `request body must have one field at least: ${allowed}` };
  for (const [field, value] of fields) {
    const isFit = Number.isSafeInteger(value) && (value as number) >= LEAST[field] && (value as number) <= 1_000_000;
    if (!isFit) {
      const error = `${field}: allowed: a whole number from ${LEAST[field]} to 1000000, got ${JSON.stringify(value)}`;
      return { status: 422, error };
    }
  }
  return { bounds: body as PlannerBounds };
}

/** Returns the bounds of the existing pools. */
function boundsOf(config: PlannerConfig): Readonly<Record<string, number | string>> {
  const { mode, minEndpoint: min_endpoint, minGpuBudget: min_gpu_budget, maxGpuBudget: max_gpu_budget } = config;
  const of = (pool: 'prefill' | 'decode') => ({
    [`${pool}_min_endpoint`]: config[`${pool}MinEndpoint`] ?? min_endpoint,
  });
  return {
    mode,
    ...(mode === 'agg' ? { min_endpoint } : {}),
    ...(mode === 'prefill' || mode === 'disagg' ? of('prefill') : {}),
    ...(mode === 'decode' || mode === 'disagg' ? of('decode') : {}),
    min_gpu_budget,
    max_gpu_budget,
  };
}

async function readBody(request: IncomingMessage): Promise<string> {
  const { kind, text } = await readText(request as AsyncIterable<Buffer>, BODY_BOUNDS);
  if (kind === 'too-large') throw new Error(`request body must have at most ${BODY_BOUNDS.bytesMax} bytes`);
  if (kind === 'no-utf8') throw new Error('request body must be UTF-8');
  return text;
}

function answer(response: ServerResponse, status: number, body: object, headers: Record<string, string> = {}): void {
  response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(`${JSON.stringify(body)}\n`);
}
