import * as z from 'zod';
import { ServeError, toServeError } from '../../../errors/index.ts';
import type { BusyThresholdValues } from '../../../pipeline/index.ts';
import {
  decodeChat,
  decodeCompletions,
  type GenerationRequest,
  invalidValue,
  type JsonBody,
  parseChatBody,
  parseCompletionsBody,
  requireShape,
} from '../../../protocol/index.ts';
import { decodeContext } from '../../inference/dialect.ts';
import type { HttpAppDeps } from '../deps.ts';
import type { HttpExchange } from '../exchange/exchange.ts';
import { type BodyRoute, decodePath, EXPLAIN_PATH, shownId } from '../route.ts';
import { readJson, warnOfLeftOut } from '../serve-inference.ts';
import { sendJson } from '../sinks/send.ts';
import { explanationOf, requireExplainer } from './explained.ts';

/** Status of a JSON body of the wrong shape, only on this route. */
const WRONG_SHAPE_STATUS = 422;

/** Body of `POST /busy_threshold`. The schema ignores unknown keys. */
const busyThresholdSchema = z.looseObject({
  model: z.string(),
  active_decode_blocks_threshold: z.number().meta({ minimum: 0, maximum: 1 }).nullish(),
  active_prefill_tokens_threshold: z.int().min(0).nullish(),
  active_prefill_tokens_threshold_frac: z.number().meta({ minimum: 0 }).nullish(),
});

type BusyThresholdBody = z.infer<typeof busyThresholdSchema>;

/**
 * `GET /busy_threshold` lists the thresholds of every model. `POST` reads or sets those of one. Failures have an
 * envelope of their own.
 */
async function serveBusyThreshold(deps: HttpAppDeps, exchange: HttpExchange): Promise<void> {
  try {
    sendJson(
      exchange,
      200,
      exchange.method === 'POST' ? await setThresholds(deps, exchange) : await listThresholds(deps),
    );
  } catch (thrown) {
    const error = toServeError(thrown);
    if (error.code === 'internal_error') throw error; // sent in the common envelope
    sendJson(exchange, error.status, { error: error.message });
  }
}

export const busyThreshold: BodyRoute = {
  serve: serveBusyThreshold,
  body: {
    name: 'BusyThresholdRequest',
    schema: busyThresholdSchema,
    example: ({ Chat: model }) => ({ model, active_decode_blocks_threshold: 0.9 }),
  },
};

async function listThresholds({ pipeline: { models, thresholds }, lookUp }: HttpAppDeps): Promise<object> {
  await lookUp?.(undefined);
  const all = models.list().map(({ name, primaryName }) => thresholdBody(name, thresholds.of(primaryName)));
  return { thresholds: all };
}

async function setThresholds(deps: HttpAppDeps, exchange: HttpExchange): Promise<object> {
  const body = shapeOf(await readJson(exchange, deps));
  checkThresholds(body);
  await deps.lookUp?.(body.model);
  const { models, thresholds } = deps.pipeline;
  const model = models.find(body.model);
  const values: BusyThresholdValues = {
    decodeBlocksShare: body.active_decode_blocks_threshold ?? undefined,
    prefillTokens: body.active_prefill_tokens_threshold ?? undefined,
    prefillTokensFraction: body.active_prefill_tokens_threshold_frac ?? undefined,
  };
  const isRead = Object.values(values).every((value) => value === undefined);
  if (model === undefined) {
    if (isRead) return thresholdBody(body.model, {});
    const message = `Model '${body.model}' not found. Thresholds can only be set for discovered models.`;
    throw new ServeError('model_not_found', message);
  }
  const { primaryName } = model;
  return thresholdBody(body.model, isRead ? thresholds.of(primaryName) : thresholds.set(primaryName, values));
}

function shapeOf(json: JsonBody): BusyThresholdBody {
  try {
    return requireShape(busyThresholdSchema, json);
  } catch (thrown) {
    const { code, message } = toServeError(thrown);
    throw new ServeError(code, message, { status: WRONG_SHAPE_STATUS });
  }
}

/** Checks the bounds of the body. @throws ServeError `invalid_value` */
function checkThresholds(body: BusyThresholdBody): void {
  const share = body.active_decode_blocks_threshold ?? 0;
  if (share < 0 || share > 1) {
    const param = 'active_decode_blocks_threshold';
    throw invalidValue(`${param} must be between 0.0 and 1.0, got ${share}`, param);
  }
  const fraction = body.active_prefill_tokens_threshold_frac ?? 0;
  if (fraction < 0) {
    const param = 'active_prefill_tokens_threshold_frac';
    throw invalidValue(`${param} must be a finite value greater than or equal to 0.0, got ${fraction}`, param);
  }
}

function thresholdBody(model: string, values: BusyThresholdValues): object {
  return {
    model,
    active_decode_blocks_threshold: values.decodeBlocksShare ?? null,
    active_prefill_tokens_threshold: values.prefillTokens ?? null,
    active_prefill_tokens_threshold_frac: values.prefillTokensFraction ?? null,
  };
}

/** `POST /clear_kv_blocks`: empties the prefix caches of every worker, and lists the result of each. */
export async function serveClearKvBlocks({ caches, lookUp }: HttpAppDeps, exchange: HttpExchange): Promise<void> {
  await lookUp?.(undefined);
  const workers = (await caches?.clear()) ?? [];
  if (workers.length === 0) {
    sendJson(exchange, 200, { message: 'No active worker groups found' });
    return;
  }
  const rows = workers.map(({ model, endpoint, workerId, failure }) => ({
    isCleared: failure === undefined,
    row: {
      name: model,
      endpoint,
      instance_id: workerId,
      ...(failure === undefined
        ? { status: 'success', response: 'KV cache cleared' }
        : { status: 'failed', error: failure }),
    },
  }));
  sendJson(exchange, 200, {
    cleared_workers: rows.filter(({ isCleared }) => isCleared).map(({ row }) => row),
    failed_workers: rows.filter(({ isCleared }) => !isCleared).map(({ row }) => row),
  });
}

/** `GET /router/explain/{id}`: says why one of the last requests went to its worker. */
export async function serveExplained(deps: HttpAppDeps, exchange: HttpExchange): Promise<void> {
  const id = decodePath(exchange.path.slice(EXPLAIN_PATH.length + 1));
  const explanation = await explanationOf(deps, id);
  if (explanation !== undefined) return sendJson(exchange, 200, explanation);
  const asked = 'asked for is the response id (chatcmpl-..., cmpl-..., resp_..., msg_...), not an x-request-id';
  const message = `No decision is kept for the id ${shownId(id)}: only the last ones are, and ${asked}`;
  throw new ServeError('not_found', message);
}

/**
 * `POST /router/explain`: says where the request of a chat or completions body would go now. It sends and reserves
 * nothing.
 */
export async function serveExplain(deps: HttpAppDeps, exchange: HttpExchange): Promise<void> {
  const explainer = requireExplainer(deps);
  const json = await readJson(exchange, deps);
  const request = decode(json, deps, exchange);
  await deps.lookUp?.(request.model);
  sendJson(exchange, 200, await explainer.explain(request));
}

/** Decodes a body: one with messages is a chat. Of a batch of prompts the first counts. */
function decode(json: JsonBody, deps: HttpAppDeps, exchange: HttpExchange): GenerationRequest {
  const isChat = typeof json.value === 'object' && json.value !== null && 'messages' in json.value;
  if (isChat) {
    const body = parseChatBody(json);
    const context = decodeContext({ deps, exchange }, body.model);
    const { request } = decodeChat(body, context);
    warnOfLeftOut(exchange, context.leftOut);
    return request;
  }
  // A batch has at least one prompt
  return decodeCompletions(parseCompletionsBody(json), decodeContext({ deps, exchange })).requests[0]!;
}
