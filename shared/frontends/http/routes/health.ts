import packageJson from '../../../../package.json' with { type: 'json' };
import type { EndpointRecord } from '../../../discovery/index.ts';
import { reasonOf } from '../../../errors/index.ts';
import type { HttpAppDeps } from '../deps.ts';
import type { HttpExchange } from '../exchange/exchange.ts';
import { isOperator } from '../operators.ts';
import { sendJson, sendText } from '../sinks/send.ts';
import { serveReadiness } from './models.ts';

const SHUTTING_DOWN = { status: 'shutting_down', message: 'Service is shutting down' };

/**
 * `GET /health`: answers from memory, because anyone may ask at any rate. `?ready=<model>` asks about one model. Only
 * operators see where workers are, which brokers cannot be reached, and which models are not served.
 */
export async function serveHealth(deps: HttpAppDeps, exchange: HttpExchange): Promise<void> {
  const asked = new URLSearchParams(exchange.query).get('ready');
  if (asked !== null) {
    await serveReadiness(deps, exchange, asked);
    return;
  }
  const { lifecycle } = deps;
  switch (lifecycle.stage) {
    case 'draining':
      sendJson(exchange, 503, { status: 'not_ready', stage: 'draining', message: 'Service is not ready' });
      return;
    case 'stopping':
      sendJson(exchange, 503, SHUTTING_DOWN);
      return;
    case 'discovering':
      sendJson(exchange, 503, { status: 'not_ready', message: 'Initial discovery is in progress' });
      return;
    case 'waiting':
      sendJson(exchange, 503, { status: 'not_ready', stage: 'waiting', message: lifecycle.waitsFor });
      return;
    case 'ready':
      if (isOperator(deps, exchange)) sendText(exchange, 200, 'application/json', healthyText(deps));
      else sendJson(exchange, 200, { status: 'healthy' });
  }
}

/** `GET /live`. */
export function serveLive(deps: HttpAppDeps, exchange: HttpExchange): void {
  if (deps.lifecycle.isLive) sendJson(exchange, 200, { status: 'live', message: 'Service is live' });
  else sendJson(exchange, 503, SHUTTING_DOWN);
}

/** `GET` and `POST /ping`: answers an empty 200 while the process lives, as SageMaker expects. */
export function servePing({ lifecycle }: HttpAppDeps, exchange: HttpExchange): void {
  sendText(exchange, lifecycle.isLive ? 200 : 503, 'application/json', '');
}

/** `GET /version`. */
export function serveVersion(_: HttpAppDeps, exchange: HttpExchange): void {
  sendJson(exchange, 200, { version: packageJson.version });
}

/** Texts of responses. All probes between two changes of the fleet share one text. */
const TEXTS = new WeakMap<readonly EndpointRecord[], string>();

function healthyText({ instances, absences, pipeline }: HttpAppDeps): string {
  const records = instances();
  const text = TEXTS.get(records) ?? renderHealthy(records);
  TEXTS.set(records, text);
  const away = absences?.() ?? [];
  const refused = pipeline.models.refused?.() ?? [];
  const more = [
    ...(away.length === 0 ? [] : [`,"away":${JSON.stringify(away)}`]),
    ...(refused.length === 0 ? [] : [`,"refused":${JSON.stringify(refused)}`]),
  ];
  return more.length === 0 ? text : `${text.slice(0, -1)}${more.join('')}}`;
}

/** Writes the body as text, because instance ids are 64-bit numbers here, beside the hex of logs and metrics. */
function renderHealthy(records: readonly EndpointRecord[]): string {
  const endpoints = [
    ...new Set(records.map((one) => `dyn://${one.namespace}.${one.component}.${one.endpoint}`)),
  ].sort();
  return `{"status":"healthy","endpoints":${JSON.stringify(endpoints)},"instances":[${records
    .map(instanceText)
    .join(',')}]}`;
}

function instanceText(record: EndpointRecord): string {
  const names = JSON.stringify({
    component: record.component,
    endpoint: record.endpoint,
    namespace: record.namespace,
  }).slice(1, -1);
  const rest = JSON.stringify({
    transport: record.transport,
    device_type: record.device_type ?? 'cuda',
    request_plane_codec: 'msgpack',
    kv_events: record.kv_events,
  }).slice(1, -1);
  const { instance_id: hexId } = record;
  return `{${names},"instance_id":${BigInt(`0x${hexId}`)},${rest},"worker":${JSON.stringify(hexId)}}`;
}

/** `GET /metrics`: sends Prometheus text, or 500 with plain text if rendering fails. */
export function serveMetrics({ metrics, logger }: HttpAppDeps, exchange: HttpExchange): void {
  try {
    sendText(exchange, 200, metrics.contentType, metrics.render());
  } catch (error) {
    logger.error('metrics cannot be rendered', { reason: reasonOf(error) });
    sendText(exchange, 500, 'text/plain; charset=utf-8', 'metrics cannot be rendered; the log says why\n');
  }
}
