import { type ServeError, toServeError } from '../../../errors/index.ts';
import type { BusyThresholdValues } from '../../../pipeline/index.ts';
import type { JsonBody } from '../../../protocol/json/index.ts';
import {
  type BusyThresholdBody,
  checkBusyThresholdBody,
  parseBusyThresholdBody,
} from '../../../protocol/openai/index.ts';
import type { HttpAppDeps } from '../deps.ts';
import type { HttpExchange } from '../hosts/exchange.ts';
import { readJson } from '../read-json.ts';
import { sendJson } from '../sinks/send.ts';

/** A body that is JSON but not of the right shape, on this route alone. */
const WRONG_SHAPE_STATUS = 422;

/** `GET /busy_threshold` lists the thresholds of every model, `POST` reads or sets those of one. Never rejects. */
export async function serveBusyThreshold(deps: HttpAppDeps, exchange: HttpExchange): Promise<void> {
  if (exchange.method !== 'POST') {
    const { models, thresholds } = deps.pipeline;
    const all = models.list().map(({ name, primaryName }) => thresholdBody(name, thresholds.of(primaryName)));
    sendJson(exchange, 200, { thresholds: all });
    return;
  }
  let json: JsonBody;
  try {
    json = await readJson(exchange, deps);
  } catch (thrown) {
    const error = toServeError(thrown);
    sendThresholdError(exchange, error.status, error);
    return;
  }
  setThresholds(deps, exchange, json);
}

function setThresholds(deps: HttpAppDeps, exchange: HttpExchange, json: JsonBody): void {
  let body: BusyThresholdBody;
  try {
    body = parseBusyThresholdBody(json);
  } catch (thrown) {
    sendThresholdError(exchange, WRONG_SHAPE_STATUS, toServeError(thrown));
    return;
  }
  try {
    checkBusyThresholdBody(body);
  } catch (thrown) {
    const error = toServeError(thrown);
    sendThresholdError(exchange, error.status, error);
    return;
  }
  const { models, thresholds } = deps.pipeline;
  const model = models.find(body.model);
  const values: BusyThresholdValues = {
    decodeBlocksShare: body.active_decode_blocks_threshold ?? undefined,
    prefillTokens: body.active_prefill_tokens_threshold ?? undefined,
    prefillTokensFraction: body.active_prefill_tokens_threshold_frac ?? undefined,
  };
  const isRead = Object.values(values).every((value) => value === undefined);
  if (model === undefined && !isRead) {
    const error = `Model '${body.model}' not found. Thresholds can only be set for discovered models.`;
    sendJson(exchange, 404, { error });
    return;
  }
  const stored =
    model === undefined ? {} : isRead ? thresholds.of(model.primaryName) : thresholds.set(model.primaryName, values);
  sendJson(exchange, 200, thresholdBody(body.model, stored));
}

function thresholdBody(model: string, values: BusyThresholdValues): object {
  return {
    model,
    active_decode_blocks_threshold: values.decodeBlocksShare ?? null,
    active_prefill_tokens_threshold: values.prefillTokens ?? null,
    active_prefill_tokens_threshold_frac: values.prefillTokensFraction ?? null,
  };
}

/** This route's own envelope, unlike all others. */
function sendThresholdError(exchange: HttpExchange, status: number, error: ServeError): void {
  sendJson(exchange, status, { error: error.message });
}

/** `POST /clear_kv_blocks`: empties the prefix caches of every worker, and lists what became of each. */
export async function serveClearKvBlocks({ caches }: HttpAppDeps, exchange: HttpExchange): Promise<void> {
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
