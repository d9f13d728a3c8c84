import { asRecord, parseExact, type UnknownRecord } from '../../records/index.ts';
import { refusalText } from '../record-text.ts';
import { cardOf, filesAtOf, filesOf, withoutNulls } from './card.ts';
import { hexOf, scopeOf, sourceOf } from './events.ts';

const RELEASES = 'Stator takes workers of Dynamo 1.4 and later';
const NO_WORKER_TYPE = `the card names no worker_type, so its worker is of Dynamo 1.2 or older, or was registered without one; ${RELEASES}`;
const FLAT_CHANNEL = `the event channel has no scope, so its worker is of Dynamo 1.3 or older; ${RELEASES}`;
const OLD_QUERIES = `the worker answers queries for its index as releases up to Dynamo 1.3 do; ${RELEASES}`;
/** Start of the name of the endpoint for such queries, which newer releases name by their publishers. */
const OLD_QUERY_ENDPOINT = 'worker_kv_indexer_query_';
const HTTP_PLANE = `the worker has the request plane http, which Dynamo has removed; ${RELEASES}`;

/**
 * Returns the text of a record of Dynamo's (1.4 and later) as the same record of Stator's. Ids come from the key,
 * because they are numbers above 2^53 in the record. A record of an older release becomes a refusal, which says so.
 * Returns another text as it is, so that the reader reports it.
 *
 * @param key path below the bucket: `{namespace}/{component}/{endpoint}/{id}[/{adapter}]`, or
 * `{scope}/topic/{topic}/{publisher}` for channels and sources of events
 */
export function fromDynamo(text: string, key: string): string {
  try {
    const read = converted(asRecord(JSON.parse(text)) ?? {}, key, text);
    if (read === undefined) return text;
    return typeof read === 'string' ? refusalText(read) : JSON.stringify(read);
  } catch {
    return text; // not JSON, or a key that is not encoded: another program wrote it
  }
}

/** Returns the record, the reason why it is refused, or undefined for a text that is no record. */
function converted(record: UnknownRecord, key: string, text: string): UnknownRecord | string | undefined {
  switch (record.type) {
    case 'Endpoint':
      return endpointOf(record, key.split('/')[3]);
    case 'Model':
      return modelOf(record, key);
    case 'EventChannel':
      return channelOf(record, key);
    case 'EventSource': // only here are ids that the key does not have
      return sourceOf(parseExact(text) as UnknownRecord, lastOf(key), endpointOf);
    default:
      return undefined;
  }
}

function endpointOf(record: UnknownRecord, instance_id: unknown): UnknownRecord | string {
  const { namespace, component, endpoint, device_type, request_plane_codec } = record;
  const transport = Object.entries(asRecord(record.transport) ?? {});
  if (transport.some(([kind]) => kind === 'http')) return HTTP_PLANE;
  return withoutNulls({
    type: 'Endpoint',
    namespace,
    component,
    endpoint,
    instance_id: typeof instance_id === 'string' ? instance_id : hexOf(instance_id),
    wire: 'dynamo',
    transport: withoutNulls({
      ...Object.fromEntries(transport.map(([kind, at]) => [`dynamo_${kind}`, at])), // no plane of Stator's own
      dynamo_codec: request_plane_codec,
    }),
    device_type,
    refused: String(endpoint).startsWith(OLD_QUERY_ENDPOINT) ? OLD_QUERIES : undefined,
  });
}

function modelOf(record: UnknownRecord, key: string): UnknownRecord | string | undefined {
  const { type, namespace, component, endpoint } = record;
  const card = asRecord(record.card_json);
  if (card === undefined) return undefined;
  if (card.worker_type === undefined || card.worker_type === null) return NO_WORKER_TYPE;
  const [, , , instance_id, suffix] = key.split('/');
  const files = filesOf(card);
  return withoutNulls({
    type,
    namespace,
    component,
    endpoint,
    instance_id,
    wire: 'dynamo',
    card: cardOf(card, files),
    files_at: filesAtOf(files),
    model_suffix: suffix && decodeURIComponent(suffix),
  });
}

function channelOf(record: UnknownRecord, key: string): UnknownRecord | string {
  const { type, topic, transport } = record;
  const scope = asRecord(record.scope);
  if (scope === undefined) return FLAT_CHANNEL;
  return { type, scope: scopeOf(scope), topic, instance_id: lastOf(key), wire: 'dynamo', transport };
}

function lastOf(key: string): string {
  return key.slice(key.lastIndexOf('/') + 1);
}
