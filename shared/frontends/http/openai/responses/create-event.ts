import { ServeError } from '../../../../errors/index.ts';
import type { JsonBody } from '../../../../protocol/index.ts';
import { isRecord } from '../../../../records/index.ts';

/** An event of a WebSocket that asks for a response. */
interface CreateEvent {
  /** Body as `POST /v1/responses` takes it, always for a stream. */
  readonly body: JsonBody;
  /** Whether to generate. False for an event that only prepares a response to be followed. */
  readonly generates: boolean;
}

const CREATE = 'response.create';

/**
 * Reads a client's event: a body with a type, and with the fields that only sockets have.
 * @throws ServeError `invalid_value`, `missing_required_parameter`, `unsupported_parameter`
 */
export function readCreateEvent(json: JsonBody): CreateEvent {
  if (!isRecord(json.value)) throw new ServeError('invalid_value', 'An event must be a JSON object');
  const { type, generate = true, ...fields } = json.value;
  if (type === undefined) {
    throw new ServeError('missing_required_parameter', `missing field \`type\`: send ${CREATE}`, { param: 'type' });
  }
  if (type !== CREATE) {
    const shown = JSON.stringify(type).slice(0, 100);
    throw new ServeError('invalid_value', `type must be ${CREATE}, got ${shown}`, { param: 'type' });
  }
  if (fields.stream_id != null) {
    const message =
      'stream_id is not supported: a connection has one response at a time, open one for each conversation';
    throw new ServeError('unsupported_parameter', message, { param: 'stream_id' });
  }
  if (generate !== null && typeof generate !== 'boolean') {
    const shown = JSON.stringify(generate).slice(0, 100);
    throw new ServeError('invalid_value', `generate must be true or false, got ${shown}`, { param: 'generate' });
  }
  return { body: { ...json, value: { ...fields, stream: true } }, generates: generate !== false };
}
