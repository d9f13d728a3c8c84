import type { Answer, RecordedRow } from './records.ts';

const UUID = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g;
/** Ids made of a prefix and a UUID without dashes. Ids of items also have their index in the response. */
const PREFIXED_IDS = /\b(resp|msg|rs|fc|ctc|toolu)_[0-9a-f]{32,}\b/g;
const TIME_TEXT = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/;
/** Numbers that the record shows as 0. Other checks find wrong values before the mask. */
const MASKED_NUMBERS: ReadonlySet<string> = new Set([
  'created',
  'created_at',
  'completed_at',
  'instance_id',
  'prefill_worker_id',
  'decode_worker_id',
  'backend_instance_id',
  'request_received_ms',
  'prefill_wait_time_ms',
  'prefill_time_ms',
  'ttft_ms',
  'total_time_ms',
]);

/** Masks ids, times and worker ids of an answer as the record does. */
export function maskAnswer(answer: Answer, { request }: RecordedRow): Answer {
  const { headers, ...rest } = answer;
  const isNamed = request.headers?.some(([name]) => name === 'x-request-id') === true;
  const id = headers['x-request-id'];
  const shown = isNamed || id === undefined ? {} : { 'x-request-id': id.replace(UUID, 'UUID') };
  return { ...(mask(rest) as Answer), headers: { ...headers, ...shown } };
}

/** Masks ids in the texts that a worker received. */
export function maskTexts(value: unknown): unknown {
  return mask(value, new Set());
}

function mask(value: unknown, numbers = MASKED_NUMBERS): unknown {
  if (typeof value === 'string') return value.replaceAll(UUID, 'UUID').replaceAll(PREFIXED_IDS, '$1_ID');
  if (Array.isArray(value)) return value.map((item) => mask(item, numbers));
  if (typeof value !== 'object' || value === null || Object.getPrototypeOf(value) !== Object.prototype) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, nested]) => [key, numbers.has(key) ? maskNumber(nested) : mask(nested, numbers)]),
  );
}

function maskNumber(value: unknown): unknown {
  if (typeof value === 'string' && TIME_TEXT.test(value)) return 'TIME';
  const isNumber = typeof value === 'number' || (typeof value === 'string' && /^[0-9a-f]{12,20}$/.test(value));
  return isNumber ? 0 : value;
}
