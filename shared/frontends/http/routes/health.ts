import type { DiscoveryRecord } from '../../../discovery/index.ts';
import { reasonOf } from '../../../errors/index.ts';
import { answerJson, answerText } from '../answers/answer.ts';
import type { HttpAppDeps } from '../deps.ts';
import type { HttpExchange } from '../hosts/exchange.ts';
import { serveReadiness } from './models.ts';

const SHUTTING_DOWN = { status: 'shutting_down', message: 'Service is shutting down' };
/** A health probe must not wait for a table that is away. */
const LIST_DEADLINE_MS = 1000;

type EndpointRecord = Extract<DiscoveryRecord, { readonly type: 'Endpoint' }>;

/** `GET /health` (http-api.md, section 10.1); `?ready=<model>` answers for one model (rulings.md, 14). Never rejects. */
export async function serveHealth(deps: HttpAppDeps, exchange: HttpExchange): Promise<void> {
  const asked = new URLSearchParams(exchange.query).get('ready');
  if (asked !== null) {
    serveReadiness(deps, exchange, asked);
    return;
  }
  const { lifecycle } = deps;
  switch (lifecycle.stage) {
    case 'draining':
      answerJson(exchange, 503, { status: 'not_ready', stage: 'draining', message: 'Service is not ready' });
      return;
    case 'stopping':
      answerJson(exchange, 503, SHUTTING_DOWN);
      return;
    case 'failed':
      answerJson(exchange, 503, { status: 'not_ready', message: `Initial discovery failed: ${lifecycle.failure}` });
      return;
    case 'discovering':
      answerJson(exchange, 503, { status: 'not_ready', message: 'Initial discovery is in progress' });
      return;
    case 'waiting':
      answerJson(exchange, 503, { status: 'not_ready', stage: 'waiting', message: lifecycle.waitsFor });
      return;
    case 'ready':
      answerText(exchange, 200, 'application/json', healthyText(await listEndpoints(deps)));
  }
}

/** `GET /live` (http-api.md, section 10.2). */
export function serveLive(deps: HttpAppDeps, exchange: HttpExchange): void {
  if (deps.lifecycle.isLive) answerJson(exchange, 200, { status: 'live', message: 'Service is live' });
  else answerJson(exchange, 503, SHUTTING_DOWN);
}

/** Live endpoints; none when discovery cannot be read, which is no reason to kill a frontend. */
async function listEndpoints({ clock, discovery, logger }: HttpAppDeps): Promise<readonly EndpointRecord[]> {
  const deadline = new AbortController();
  const timer = clock.after(LIST_DEADLINE_MS, () => deadline.abort(new Error('discovery did not answer in time')));
  try {
    const records = await discovery.list({ bucket: 'v1/instances', prefix: '' }, deadline.signal);
    return records.filter((record) => record.type === 'Endpoint');
  } catch (error) {
    logger.debug('health lists no instances: discovery cannot be read', { reason: reasonOf(error) });
    return [];
  } finally {
    timer.cancel();
  }
}

/** Built as text: instance ids are bare 64-bit numbers here. */
function healthyText(records: readonly EndpointRecord[]): string {
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
  }).slice(1, -1);
  return `{${names},"instance_id":${BigInt(`0x${record.instance_id}`)},${rest}}`;
}
